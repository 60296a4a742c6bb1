//! Right-hand sides in lock step.

use super::made::Side;
use super::scaled::Carrier;
use super::{Answer, System};
use crate::error::Error;
use crate::krylov::rounds::{Ended, Limits};
use crate::krylov::{
    Course, Logger, Preconditioner, Rescaled, Run, Solution, Solve, Stop, StoppingCriterion, Together,
};

impl System<'_> {
    /// Solves for 2, 4 or 8 right-hand sides: the first attempt is made for all of them together, later ones for each that needs them.
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
                    if !side.tried.is_over(&self.options.stop) {
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
        let solutions = self.in_lock_step(sides, helper.as_deref(), &stops, logs)?;
        for (side, solution) in sides.iter_mut().zip(solutions) {
            self.add(side, 0, "cg".to_owned(), Ok(solution))?;
        }
        Ok(())
    }

    /// Runs conjugate gradients again and again, until no right-hand side needs another run.
    fn in_lock_step<L: Logger>(
        &self,
        sides: &mut [Side],
        preconditioner: Option<&dyn Preconditioner>,
        stops: &[Vec<Stop>],
        logs: &mut [L],
    ) -> Result<Vec<Solution>, Error> {
        let (space, exact, inner) = (&self.plan.space, self.copies.exact(), self.copies.inner());
        let reduction = self.copies.reduction;
        let problem = Solve { rt: self.rt, space, exact, inner, preconditioner, reduction };
        let cg = Together::new(self.rt, space, inner, preconditioner, sides.len())?;
        let (mut carriers, mut courses) = (Vec::new(), Vec::new());
        for (k, (side, log)) in sides.iter().zip(&mut *logs).enumerate() {
            let own = [cg.residual(k), cg.correction(k)];
            let carrier = match &self.plan.scales {
                Some(scales) => Some(Carrier::new(self.rt, space, scales, own)?),
                None => None,
            };
            let of_caller = carrier.as_ref().map_or(own, Carrier::vectors);
            let kept = carrier.as_ref().map_or(cg.kept(), |carrier| cg.kept().and(carrier.kept()));
            courses.push(Course::new(&problem, of_caller, kept, &side.b, &side.x, log)?);
            carriers.push(carrier);
        }
        loop {
            let next = |(course, stop): (&mut Course<'_>, &Vec<Stop>)| course.next(&stop[..]);
            let runs: Vec<Option<Run>> = courses.iter_mut().zip(stops).map(next).collect();
            if runs.iter().all(Option::is_none) {
                break;
            }
            let ended = {
                let is_late =
                    || courses.iter().zip(stops).any(|(course, stop)| stop[..].is_late(&course.progress(0)));
                let mut logs: Vec<_> = courses
                    .iter()
                    .zip(&mut *logs)
                    .map(|(course, log)| Rescaled { log, ratio: course.scale() })
                    .collect();
                run_once(&cg, &carriers, &runs, &is_late, &mut logs)?
            };
            for ((course, ended), log) in courses.iter_mut().zip(ended).zip(&mut *logs) {
                if let Some(ended) = ended {
                    course.absorb(&ended, log)?;
                }
            }
        }
        courses.into_iter().zip(sides).map(|(course, side)| course.finish(&mut side.x)).collect()
    }
}

/// One run of those that have one, to the scaled system and back where there is one.
fn run_once<L: Logger>(
    cg: &Together<'_>,
    carriers: &[Option<Carrier<'_>>],
    runs: &[Option<Run>],
    is_late: &dyn Fn() -> bool,
    logs: &mut [L],
) -> Result<Vec<Option<Ended>>, Error> {
    let there = |(carrier, run): (&Option<Carrier<'_>>, &Option<Run>)| match (carrier, run) {
        (Some(carrier), Some(_)) => carrier.there().map(Some),
        _ => Ok(None),
    };
    let carried = carriers.iter().zip(runs).map(there).collect::<Result<Vec<_>, Error>>()?;
    let ratio = |k: usize| carried[k].map_or(1.0, |carried| carried.ratio);
    let limits = |(k, run): (usize, &Option<Run>)| {
        run.as_ref().map(|run| Limits { goal: run.goal * ratio(k), steps: run.steps, is_late })
    };
    let limits: Vec<_> = runs.iter().enumerate().map(limits).collect();
    let mut rescaled: Vec<_> =
        logs.iter_mut().enumerate().map(|(k, log)| Rescaled { log, ratio: ratio(k) }).collect();
    let mut logs: Vec<&mut dyn Logger> = rescaled.iter_mut().map(|log| log as &mut dyn Logger).collect();
    let ended = cg.run(&limits, &mut logs)?;
    let back = |(k, ended): (usize, Ended)| match (&runs[k], &carriers[k], carried[k]) {
        (None, _, _) => Ok(None),
        (Some(_), Some(carrier), Some(carried)) => carrier.back(carried, ended).map(Some),
        (Some(_), _, _) => Ok(Some(ended)),
    };
    ended.into_iter().enumerate().map(back).collect()
}
