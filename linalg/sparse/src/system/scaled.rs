//! Methods on systems whose rows and columns are multiplied by powers of two.

use libm::{frexp, ldexp};
use zellige_runtime::{Bindings, Graph, Runtime, Submit};

use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::grains::{dots, unit_scale};
use crate::krylov::rounds::{Ended, Limits};
use crate::krylov::{
    Correction, Kept, Logger, Method, Operator, Preconditioner, Rescaled, Scalars, ScalarsHandle, Steps,
    Stored, Sums,
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
        // What a positive definite matrix needs is known from its diagonal; others are on the way.
        let of_diagonal = |i| match a.get(i, i) {
            0.0 => 0,
            diagonal => -exponent(diagonal).div_euclid(2),
        };
        let mut exponents: Vec<i32> = (0..a.rows()).map(of_diagonal).collect();
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
        Error::if_too_large(
            || format!("a scaled copy of a matrix of {} nonzeros", a.elements()),
            a.memory(),
        )?;
        let scaled = a.map_values(|i, j, value| self.rows[i] * value * self.columns[j as usize]);
        if scaled.iter().all(|(_, value)| value.iter().all(|value| value.is_finite())) {
            return Ok(scaled);
        }
        Err(Error::shape("matrix", "its scaled rows and columns have infinite nonzeros"))
    }

    /// True if `a` is known from what [came of it](Scales::matrix), to the bit: no element has become so small that it lost digits, and no vector
    /// will that is not below `1e-230`.
    pub fn can_be_undone(&self, a: &Csr, scaled: &Csr) -> bool {
        let is_mild = |scale: &f64| exponent(*scale).abs() <= MILD;
        let is_kept = |(a, scaled): (&f64, &f64)| scaled.is_normal() || *a == 0.0;
        self.rows.iter().chain(&self.columns).all(is_mild)
            && a.iter().zip(scaled.iter()).all(|(a, scaled)| a.1.iter().zip(scaled.1).all(is_kept))
    }
}

/// An exponent of scales that is far from where numbers end.
const MILD: i32 = 128;

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

/// A matrix that is stored with its rows and columns multiplied by powers of two, as what it was: its products have the same bits, since nothing is
/// rounded on the way.
pub struct Unscaled {
    stored: Stored,
    /// One by the scales.
    rows: Vector,
    columns: Vector,
}

impl Unscaled {
    /// Of a matrix that was multiplied by these scales, which [can be undone](Scales::can_be_undone).
    pub fn new(rt: &Runtime, space: &Space, stored: Stored, scales: &Scales) -> Unscaled {
        let inverse = |scales: &[f64]| space.vector(rt, scales.iter().map(|scale| 1.0 / scale).collect());
        Unscaled { rows: inverse(&scales.rows), columns: inverse(&scales.columns), stored }
    }

    /// The matrix as it is stored.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }
}

impl Operator for Unscaled {
    fn rows(&self) -> usize {
        self.stored.rows()
    }

    fn bytes(&self) -> u64 {
        self.stored.bytes()
    }

    /// Its scales, and the vector on the way of each of the two graphs of true residuals.
    fn vectors(&self) -> u64 {
        4 * size_of::<f64>() as u64 * self.rows() as u64
    }

    fn accuracy(&self) -> f64 {
        self.stored.accuracy()
    }

    fn apply(&self, steps: &Steps<'_>, x: &Vector, y: &Vector) -> Result<(), Error> {
        let scaled = steps.space().zeros(steps.graph());
        steps.each(
            "unscale",
            |i| (x.read(i), self.columns.read(i), scaled.update(i)),
            |(x, columns, scaled)| {
                scaled.iter_mut().zip(x.iter().zip(&*columns)).for_each(|(to, (x, scale))| *to = x * scale);
            },
        )?;
        self.stored.apply(steps, &scaled, y)?;
        steps.each(
            "unscale",
            |i| (steps.scalars(), self.rows.read(i), y.update(i)),
            |(s, rows, y)| {
                if !Scalars::new(s).is_done() {
                    y.iter_mut().zip(&*rows).for_each(|(y, scale)| *y *= scale);
                }
            },
        )
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
        let carrier = Carrier::new(rt, space, self.scales, [inner.residual(), inner.correction()])?;
        Ok(Box::new(Prepared { inner, carrier }))
    }
}

/// Takes residuals to a scaled system, and corrections back.
pub struct Carrier<'r> {
    rt: &'r Runtime,
    r: Vector,
    d: Vector,
    norms: ScalarsHandle,
    there: Graph,
    back: Graph,
    kept: Kept,
}

/// What a residual has become on its way.
#[derive(Clone, Copy)]
pub struct Carried {
    /// Its norm beside what it was.
    pub ratio: f64,
    /// Its norm.
    norm: f64,
}

impl<'r> Carrier<'r> {
    /// To `residual`, and back from `correction`, of a system that was multiplied by these scales.
    pub fn new(
        rt: &'r Runtime,
        space: &Space,
        scales: &Scales,
        [residual, correction]: [&Vector; 2],
    ) -> Result<Carrier<'r>, Error> {
        let (r, d, norms) = (space.zeros(rt), space.zeros(rt), rt.register(Scalars::zeros(2)));
        // With a factor of the scaled system the residual stays in range, however large or small the matrix is.
        let unit = unit_scale(&scales.rows);
        let (rows, columns) = (
            space.vector(rt, scales.rows.iter().map(|scale| unit * scale).collect()),
            space.vector(rt, scales.columns.iter().map(|scale| scale / unit).collect()),
        );
        let sums = Sums::new(rt, space, 2);
        let there = rt.record(|graph| {
            let steps = Steps::new(graph, space, &norms);
            steps.each(
                "scale",
                |i| (r.read(i), rows.read(i), residual.update(i), sums.of(i)),
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
                |i| (correction.read(i), columns.read(i), d.update(i)),
                |(scaled, columns, d)| {
                    d.iter_mut()
                        .zip(scaled.iter().zip(&*columns))
                        .for_each(|(d, (scaled, scale))| *d = scaled * scale);
                },
            )
        })?;
        Ok(Carrier { rt, r, d, norms, there, back, kept: Kept::vectors(space, 4) })
    }

    /// The residual and the correction as the caller knows them.
    pub fn vectors(&self) -> [&Vector; 2] {
        [&self.r, &self.d]
    }

    /// What its vectors take.
    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// Takes the residual there.
    pub fn there(&self) -> Result<Carried, Error> {
        self.rt.replay(&Bindings::recorded(&self.there))?;
        let guard = self.rt.read(&self.norms)?;
        let norms = Scalars::new(guard.as_slice());
        let [of_caller, norm] = [norms[0], norms[1]];
        Ok(Carried { ratio: if of_caller > 0.0 { norm / of_caller } else { 1.0 }, norm })
    }

    /// Brings the correction of a run back, and says how that ended as the caller measures it.
    pub fn back(&self, carried: Carried, ended: Ended) -> Result<Ended, Error> {
        self.rt.replay(&Bindings::recorded(&self.back))?;
        Ok(Ended { residual: ended.residual / carried.ratio, begun: Some(carried.norm), ..ended })
    }
}

struct Prepared<'r> {
    inner: Box<dyn Correction + 'r>,
    carrier: Carrier<'r>,
}

impl Correction for Prepared<'_> {
    fn residual(&self) -> &Vector {
        &self.carrier.r
    }

    fn correction(&self) -> &Vector {
        &self.carrier.d
    }

    fn kept(&self) -> Kept {
        self.inner.kept().and(self.carrier.kept())
    }

    fn run(&mut self, limits: &Limits<'_>, log: &mut dyn Logger) -> Result<Ended, Error> {
        let carried = self.carrier.there()?;
        let ratio = carried.ratio;
        let limits = Limits { goal: limits.goal * ratio, ..*limits };
        let ended = self.inner.run(&limits, &mut Rescaled { log, ratio })?;
        self.carrier.back(carried, ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::Adaptation;
    use crate::generate::{Biot, Elements, biot};

    #[test]
    fn products_are_undone_to_the_bit() -> Result<(), Error> {
        let a = biot(&Biot { elements: Elements([4, 3, 3]), ..Biot::default() })?;
        let (rt, space) = (Runtime::new()?, Space::new(a.rows(), a.bytes()));
        let scales = Scales::of_both(&a);
        let scaled = scales.matrix(&a)?;
        assert!(scales.can_be_undone(&a, &scaled));
        let stored = |a: &Csr| Stored::new(&rt, &space, a, 1, &Adaptation::double());
        let undone = Unscaled::new(&rt, &space, stored(&scaled)?, &scales);
        let x: Vec<f64> = (0..a.rows()).map(|i| (i * 7 % 31) as f64 / 31.0 - 0.5).collect();
        let product = |operator: &dyn Operator| -> Result<Vec<f64>, Error> {
            let (x, y) = (space.vector(&rt, x.clone()), space.zeros(&rt));
            let scalars = rt.register(Scalars::zeros(0));
            let graph = rt.record(|graph| operator.apply(&Steps::new(graph, &space, &scalars), &x, &y))?;
            rt.replay(&Bindings::recorded(&graph))?;
            let mut back = vec![0.0; a.rows()];
            y.copy_to(&rt, &mut back)?;
            Ok(back)
        };
        assert_eq!(product(&undone)?, product(&stored(&a)?)?);
        let tiny = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 1e-308), (1, 0, 1e-308), (1, 1, 1e10)])?;
        let scales = Scales::of_both(&tiny);
        assert!(!scales.can_be_undone(&tiny, &scales.matrix(&tiny)?));
        Ok(())
    }

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
