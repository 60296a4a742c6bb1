//! Methods on systems whose rows and columns are multiplied by powers of two.

use libm::{frexp, ldexp};
use zellige_runtime::{Bindings, Graph, Runtime, Submit};

use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::grains::dots;
use crate::krylov::rounds::{Ended, Limits};
use crate::krylov::{
    Correction, Logger, Method, Operator, Preconditioner, Scalars, ScalarsHandle, Steps, Sums,
};
use crate::space::{Space, Vector};

/// What rows and columns are multiplied by: powers of two, so that no element is rounded.
#[derive(Clone, Debug, PartialEq)]
pub struct Scales {
    /// Of each row.
    pub rows: Vec<f64>,
    /// Of each column.
    pub columns: Vec<f64>,
}

impl Scales {
    /// The inverse of each row's largest magnitude (thesis, section 3.6), as a power of two.
    pub fn of_rows(a: &Csr) -> Scales {
        let rows = largest(a).map(|largest| ldexp(1.0, -exponent(largest))).collect();
        Scales { rows, columns: vec![1.0; a.columns()] }
    }

    /// The same numbers for rows and columns, powers of two with which the largest magnitude of every row is about 1 (Ruiz 2001, for symmetric
    /// patterns): a symmetric matrix stays symmetric.
    pub fn of_both(a: &Csr) -> Scales {
        let mut exponents = vec![0i32; a.rows()];
        for _ in 0..PASSES {
            let of_row = |(i, (column, value)): (usize, (&[u32], &[f64]))| {
                let elements = column.iter().zip(value).filter(|(_, value)| **value != 0.0);
                let sizes =
                    elements.map(|(&j, &value)| exponent(value) + exponents[i] + exponents[j as usize]);
                sizes.max().map_or(0, |size| -size.div_euclid(2))
            };
            let change: Vec<i32> = a.iter().enumerate().map(of_row).collect();
            exponents
                .iter_mut()
                .zip(&change)
                .for_each(|(exponent, change)| *exponent = (*exponent + change).clamp(-500, 500));
            if change.iter().all(|&change| change == 0) {
                break;
            }
        }
        let rows: Vec<f64> = exponents.iter().map(|&exponent| ldexp(1.0, exponent)).collect();
        Scales { columns: rows.clone(), rows }
    }

    /// The matrix, so multiplied.
    ///
    /// # Errors
    /// [`Error::Shape`] where an element becomes infinite.
    pub fn matrix(&self, a: &Csr) -> Result<Csr, Error> {
        let scaled =
            a.clone().map_elements(|i, j, value| Some(self.rows[i] * value * self.columns[j as usize]));
        scaled.scaled(0)
    }
}

/// Rounds of balancing at most: each halves the exponents.
const PASSES: usize = 20;

fn largest(a: &Csr) -> impl Iterator<Item = f64> {
    a.iter().map(|(_, value)| value.iter().fold(0.0, |most: f64, value| most.max(value.abs())))
}

/// `e` with `2^(e-1) <= x < 2^e`; 0 for 0. Far from where powers of two end.
fn exponent(x: f64) -> i32 {
    match (x.to_bits() >> 52) as i32 & 0x7ff {
        // Subnormal numbers, and zero.
        0 => frexp(x).1.clamp(-1000, 1000),
        biased => (biased - 1022).clamp(-1000, 1000),
    }
}

/// A method that is given the scaled system, for a caller who knows only the other.
pub struct Scaled<'m> {
    /// The method.
    pub method: &'m dyn Method,
    /// What its system was multiplied by.
    pub scales: &'m Scales,
}

impl Method for Scaled<'_> {
    fn name(&self) -> String {
        self.method.name()
    }

    fn prepare<'r>(
        &'r self,
        rt: &'r Runtime,
        space: &'r Space,
        a: &'r dyn Operator,
        m: Option<&'r dyn Preconditioner>,
    ) -> Result<Box<dyn Correction + 'r>, Error> {
        let inner = self.method.prepare(rt, space, a, m)?;
        let (r, d, norms) = (space.zeros(rt), space.zeros(rt), rt.register(Scalars::zeros(2)));
        let (rows, columns) =
            (space.vector(rt, self.scales.rows.clone()), space.vector(rt, self.scales.columns.clone()));
        let sums = Sums::new(rt, space, 2);
        let there = rt.record(|graph| {
            let steps = Steps::new(graph, space, &norms);
            steps.each(
                "scale",
                |i| (r.read(i), rows.read(i), inner.residual().update(i), sums.of(i)),
                |(r, rows, scaled, sums)| {
                    scaled
                        .iter_mut()
                        .zip(r.iter().zip(&*rows))
                        .for_each(|(scaled, (r, scale))| *scaled = r * scale);
                    dots(&r, &r, sums, 2, 0);
                    dots(scaled, scaled, sums, 2, 1);
                },
            )?;
            steps.combine("scale.norms", &sums, |sums, s| {
                s[0] = sums[0].sqrt();
                s[1] = sums[1].sqrt();
            })
        })?;
        let back = rt.record(|graph| {
            Steps::new(graph, space, &norms).each(
                "scale",
                |i| (inner.correction().read(i), columns.read(i), d.update(i)),
                |(scaled, columns, d)| {
                    d.iter_mut()
                        .zip(scaled.iter().zip(&*columns))
                        .for_each(|(d, (scaled, scale))| *d = scaled * scale);
                },
            )
        })?;
        Ok(Box::new(Prepared { rt, inner, r, d, norms, there, back }))
    }
}

struct Prepared<'r> {
    rt: &'r Runtime,
    inner: Box<dyn Correction + 'r>,
    r: Vector,
    d: Vector,
    norms: ScalarsHandle,
    there: Graph,
    back: Graph,
}

impl Correction for Prepared<'_> {
    fn residual(&self) -> &Vector {
        &self.r
    }

    fn correction(&self) -> &Vector {
        &self.d
    }

    fn run(&mut self, limits: &Limits<'_>, log: &mut dyn Logger) -> Result<Ended, Error> {
        self.rt.replay(&Bindings::recorded(&self.there))?;
        let [of_caller, scaled] = {
            let guard = self.rt.read(&self.norms)?;
            let norms = Scalars::new(guard.as_slice());
            [norms[0], norms[1]]
        };
        let ratio = if of_caller > 0.0 { scaled / of_caller } else { 1.0 };
        let limits = Limits { goal: limits.goal * ratio, ..*limits };
        let ended = self.inner.run(&limits, &mut Rescaled { log, ratio })?;
        self.rt.replay(&Bindings::recorded(&self.back))?;
        Ok(Ended { residual: ended.residual / ratio, begun: Some(scaled), ..ended })
    }
}

/// Tells of residuals as if they were those of the system that is not scaled.
struct Rescaled<'l> {
    log: &'l mut dyn Logger,
    ratio: f64,
}

impl Logger for Rescaled<'_> {
    fn step(&mut self, residual: f64) {
        self.log.step(residual / self.ratio);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Biot, Elements, biot};

    #[test]
    fn rows_become_alike() -> Result<(), Error> {
        let a = biot(&Biot { elements: Elements([4, 3, 3]), ..Biot::default() })?;
        let scaled = Scales::of_both(&a).matrix(&a)?;
        assert!(scaled.is_symmetric());
        assert!(largest(&scaled).all(|largest| (0.125..=2.0).contains(&largest)));
        let rows = Scales::of_rows(&a).matrix(&a)?;
        assert!(largest(&rows).all(|largest| (0.5..1.0).contains(&largest)));
        Ok(())
    }
}
