//! Several right-hand sides in lock step.

use zellige_krylov::{Cg, Error, Logger, Stop, StoppingCriterion, solve_columns};

use super::made::Side;
use super::scaled::Scaled;
use super::{Answer, System};

impl System<'_> {
    /// Solves for 2, 4 or 8 right-hand sides: the first attempt is made for the block, later ones
    /// for each right-hand side that needs them.
    pub(super) fn solve_together<L: Logger>(
        &self,
        b: &[Vec<f64>],
        x: &mut [Vec<f64>],
        logs: &mut [L],
    ) -> Vec<Result<Answer, Error>> {
        match self.sides_together(b, x, logs) {
            Ok(sides) => {
                let each = sides.into_iter().zip(x).zip(logs);
                each.map(|((mut side, x), log)| {
                    if !self.is_over(&side, 0) {
                        self.attempts(&mut side, 1, log)?;
                    }
                    self.answer(side, x)
                })
                .collect()
            }
            // One of them cannot be solved, or all: each says so for itself.
            Err(_) => {
                let each = b.iter().zip(x).zip(logs);
                each.map(|((b, x), log)| self.solve(b, x, log)).collect()
            }
        }
    }

    fn sides_together<L: Logger>(
        &self,
        b: &[Vec<f64>],
        x: &[Vec<f64>],
        logs: &mut [L],
    ) -> Result<Vec<Side>, Error> {
        let sides = b.iter().zip(x).map(|(b, x)| self.side(b, x));
        let mut sides: Vec<Side> = sides.collect::<Result<_, _>>()?;
        self.first_together(&mut sides, logs)?;
        Ok(sides)
    }

    fn first_together<L: Logger>(&self, sides: &mut [Side], logs: &mut [L]) -> Result<(), Error> {
        let (mut helper, mut stops) = (None, Vec::new());
        for side in sides.iter_mut() {
            let (own, stop) = self.prepared(side, 0)?;
            helper = own;
            stops.push(stop);
        }
        let problem = self.problem(helper.as_deref());
        let criteria: Vec<&[Stop]> = stops.iter().map(|stop| &stop[..]).collect();
        let criteria: Vec<&dyn StoppingCriterion> =
            criteria.iter().map(|stop| stop as &dyn StoppingCriterion).collect();
        let mut logs: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as &mut dyn Logger).collect();
        let (b, mut x): (Vec<&[f64]>, Vec<&mut [f64]>) =
            sides.iter_mut().map(|side| (&side.b[..], &mut side.x[..])).unzip();
        let cg = Cg::default();
        let solutions = match &self.plan.scales {
            Some(scales) => {
                let scaled = Scaled { method: &cg, scales };
                solve_columns(&problem, &scaled, &b, &mut x, &criteria, &mut logs)?
            }
            None => solve_columns(&problem, &cg, &b, &mut x, &criteria, &mut logs)?,
        };
        for ((side, solution), log) in sides.iter_mut().zip(solutions).zip(logs) {
            self.add(side, 0, "cg".to_owned(), Ok(solution), log)?;
        }
        Ok(())
    }
}
