//! Scaling of rows and columns by powers of two.

use libm::{frexp, ldexp};
use zellige_krylov::method::{
    InnerResult, InnerSolver, Limit, Limits, MemoryUse, NumbersHandle, ScaledLogger, Setting, Steps, Sums,
    Workspace, plus, times,
};
use zellige_krylov::{Error, Executor, Logger, Method, MultiVector, Operator, Replay, Space};

use crate::csr::Csr;
use crate::stored::Stored;

/// Row and column scales: powers of two, so that no value is rounded.
#[derive(Clone, Debug, PartialEq)]
pub struct Scales {
    /// Scale of each row.
    pub rows: Vec<f64>,
    /// Scale of each column.
    pub columns: Vec<f64>,
}

impl Scales {
    /// Returns the inverse of each row's largest magnitude (thesis, chapter 3, section 5.2),
    /// rounded to a power of two, unlike in the thesis.
    pub fn of_rows(a: &Csr) -> Scales {
        let rows = largest(a).map(|largest| ldexp(1.0, -exponent(largest))).collect();
        Scales { rows, columns: vec![1.0; a.columns()] }
    }

    /// Returns equal scales for rows and columns: powers of two that make the largest magnitude of
    /// every row about 1 (Ruiz 2001, for symmetric patterns). A symmetric matrix stays symmetric.
    pub fn of_both(a: &Csr) -> Scales {
        // A positive definite matrix gets its scales from its diagonal; other matrices start from
        // it.
        let of_diagonal = |i| match a.get(i, i) {
            0.0 => 0,
            diagonal => -exponent(diagonal).div_euclid(2),
        };
        let mut exponents: Vec<i32> = (0..a.rows()).map(of_diagonal).collect();
        for _ in 0..PASSES {
            let of_row = |(i, (column, value)): (usize, (&[u32], &[f64]))| {
                let nonzeros = column.iter().zip(value).filter(|(_, value)| **value != 0.0);
                let sizes =
                    nonzeros.map(|(&j, &value)| exponent(value) + exponents[i] + exponents[j as usize]);
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

    /// Returns the matrix multiplied by the scales.
    ///
    /// # Errors
    /// [`Error::Shape`] if a value becomes infinite.
    pub fn matrix(&self, a: &Csr) -> Result<Csr, Error> {
        Error::if_too_large(
            || format!("a scaled copy of a matrix of {} nonzeros", a.nonzeros()),
            a.memory(),
        )?;
        let scaled = a.map_values(|i, j, value| {
            let (row, column) = (self.rows[i], self.columns[j as usize]);
            let (least, most) = if row < column { (row, column) } else { (column, row) };
            // In this order no intermediate result overflows or underflows.
            if value.abs() >= 1.0 { value * least * most } else { value * most * least }
        });
        if scaled.iter().all(|(_, value)| value.iter().all(|value| value.is_finite())) {
            return Ok(scaled);
        }
        Err(Error::shape("matrix", "its scaled rows and columns have infinite nonzeros"))
    }

    /// Returns true if `a` can be recovered from its [scaled form](Scales::matrix), to the bit: no
    /// value has become so small that it lost digits, and no vector value of at least `1e-230`
    /// will.
    pub fn can_be_undone(&self, a: &Csr, scaled: &Csr) -> bool {
        let is_mild = |scale: &f64| exponent(*scale).abs() <= MILD;
        let is_kept = |(a, scaled): (&f64, &f64)| scaled.is_normal() || *a == 0.0;
        self.rows.iter().chain(&self.columns).all(is_mild)
            && a.iter().zip(scaled.iter()).all(|(a, scaled)| a.1.iter().zip(scaled.1).all(is_kept))
    }
}

/// Maximum exponent of scales that is far from overflow and underflow.
const MILD: i32 = 128;

/// Rounds of balancing at most: each halves the exponents.
const PASSES: usize = 20;

fn largest(a: &Csr) -> impl Iterator<Item = f64> {
    a.iter().map(|(_, value)| value.iter().fold(0.0, |most: f64, value| most.max(value.abs())))
}

/// Returns `e` with `2^(e-1) <= x < 2^e`; 0 for 0. For numbers far from overflow and underflow.
fn exponent(x: f64) -> i32 {
    match (x.to_bits() >> 52) as i32 & 0x7ff {
        // Subnormal numbers, and zero.
        0 => frexp(x).1.clamp(-1000, 1000),
        biased => (biased - 1022).clamp(-1000, 1000),
    }
}

/// A matrix that is stored with its rows and columns multiplied by powers of two, as an operator
/// without the scales: its products have the same bits, because scaling causes no rounding.
pub struct Unscaled {
    stored: Stored,
    /// Inverses of the scales.
    rows: MultiVector,
    columns: MultiVector,
    /// Scaled input of a product.
    scaled: Workspace<MultiVector>,
}

impl Unscaled {
    /// Wraps a matrix that was multiplied by these scales, which [can be
    /// undone](Scales::can_be_undone).
    pub fn new(rt: &dyn Executor, space: &Space, stored: Stored, scales: &Scales) -> Unscaled {
        let inverse = |scales: &[f64]| {
            let inverse: Vec<f64> = scales.iter().map(|scale| 1.0 / scale).collect();
            MultiVector::from_column(rt, space, &inverse)
        };
        let (rows, columns) = (inverse(&scales.rows), inverse(&scales.columns));
        Unscaled { stored, rows, columns, scaled: Workspace::default() }
    }

    /// Returns the stored, scaled matrix.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }
}

impl Operator for Unscaled {
    fn domain(&self) -> &Space {
        self.stored.domain()
    }

    fn bytes(&self) -> u64 {
        self.stored.bytes()
    }

    /// Returns the bytes of the matrix, its scales, and the scaled vector.
    fn memory(&self) -> u64 {
        self.stored.bytes() + self.domain().bytes(3)
    }

    fn accuracy(&self) -> f64 {
        self.stored.accuracy()
    }

    fn apply(&self, steps: &Steps<'_>, x: &MultiVector, y: &MultiVector) -> Result<(), Error> {
        let zeros = || MultiVector::zeros(steps.executor(), self.domain(), steps.columns());
        let scaled = self.scaled.of(steps.columns(), zeros);
        steps.task("unscale").assign(&scaled, [times(1.0, x).scaled_by(&self.columns)]).submit()?;
        self.stored.apply(steps, &scaled, y)?;
        steps.task("unscale").assign(y, [times(1.0, y).scaled_by(&self.rows)]).submit()
    }
}

/// A method for the scaled system with the interface of the original one.
pub struct ScaledMethod<'m> {
    /// The method.
    pub method: &'m dyn Method,
    /// Scales that its system was multiplied by.
    pub scales: &'m Scales,
}

impl Method for ScaledMethod<'_> {
    fn name(&self) -> String {
        self.method.name()
    }

    fn takes_columns(&self) -> bool {
        self.method.takes_columns()
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, f64>) -> Result<Box<dyn InnerSolver + 'r>, Error> {
        Ok(Box::new(ScaledSolver::new(self.method.prepare(setting)?, setting, self.scales)?))
    }
}

/// Takes residuals to a scaled system, and corrections back.
struct ScaledSolver<'r> {
    inner: Box<dyn InnerSolver + 'r>,
    rt: &'r dyn Executor,
    /// The residual and the correction as the caller knows them.
    r: MultiVector,
    d: MultiVector,
    numbers: NumbersHandle<f64>,
    there: Replay<'r>,
    back: Replay<'r>,
    memory: MemoryUse,
}

/// Indices of the norms of the residual and of the scaled one; a factor that keeps the second in
/// range, and its inverse.
const GIVEN: usize = 0;
const SCALED: usize = 1;
const FACTOR: usize = 2;
const INVERSE: usize = 3;

/// Norms with an exponent (of two) within these have squares in range.
const IN_RANGE: i32 = 400;

impl<'r> ScaledSolver<'r> {
    fn new(
        inner: Box<dyn InnerSolver + 'r>,
        setting: Setting<'r, f64>,
        scales: &Scales,
    ) -> Result<Self, Error> {
        let (rt, space) = (setting.rt, setting.space());
        let (r, d) = (setting.zeros(), setting.zeros());
        let numbers = NumbersHandle::new(rt, setting.columns, 4);
        let diagonal = |scales: &[f64]| MultiVector::from_column(rt, space, scales);
        let (rows, columns) = (diagonal(&scales.rows), diagonal(&scales.columns));
        let sums = Sums::new(rt, space, setting.columns, 2);
        let (residual, correction) = (inner.residual(), inner.correction());
        let there = rt.record(|graph| {
            let steps = Steps::new(rt, graph, space, &numbers).with_sums(&sums);
            let task = steps.task("scale").assign(residual, [plus(FACTOR, &r)]);
            let task = task.assign(residual, [times(1.0, residual).scaled_by(&rows)]);
            task.dot(&r, &r, GIVEN).dot(residual, residual, SCALED).submit()?;
            steps.update_numbers("scale.norms", |sums, s| {
                s.set_reals([(GIVEN, sums[GIVEN].sqrt()), (SCALED, sums[SCALED].sqrt())]);
            })
        })?;
        let back = rt.record(|graph| {
            let steps = Steps::new(rt, graph, space, &numbers);
            let task = steps.task("scale").assign(&d, [times(1.0, correction).scaled_by(&columns)]);
            task.assign(&d, [plus(INVERSE, &d)]).submit()
        })?;
        let memory = inner.memory().and(MemoryUse::vectors::<f64>(space, 4));
        Ok(ScaledSolver { inner, rt, r, d, numbers, there, back, memory })
    }
}

impl ScaledSolver<'_> {
    /// Scales the residuals of some columns: the norms before and after, and the factor that keeps
    /// the second in range.
    fn scale(&self, is_open: &[bool]) -> Result<Vec<[f64; 3]>, Error> {
        let power = |exponent| ldexp(1.0, exponent);
        let mut factors = vec![1.0; is_open.len()];
        self.numbers.set_open(self.rt, |c| is_open[c])?;
        loop {
            let now = factors.clone();
            self.numbers.change(self.rt, move |c, mut numbers| {
                numbers.set_reals([(FACTOR, now[c]), (INVERSE, 1.0 / now[c])]);
            })?;
            self.there.run()?;
            let norms =
                self.numbers.look(self.rt, |_, numbers| [numbers.real(GIVEN), numbers.real(SCALED)])?;
            let mut is_done = true;
            for ((factor, [given, scaled]), _) in
                factors.iter_mut().zip(&norms).zip(is_open).filter(|(_, is_open)| **is_open)
            {
                let better = match *scaled {
                    scaled if scaled < power(-IN_RANGE) && *given > 0.0 => *factor * power(IN_RANGE),
                    scaled if scaled > power(IN_RANGE) => *factor * power(-IN_RANGE),
                    _ => *factor,
                };
                let better = better.clamp(power(-1000), power(1000));
                is_done &= better == *factor;
                *factor = better;
            }
            if is_done {
                let all = norms.iter().zip(&factors);
                return Ok(all.map(|([given, scaled], factor)| [*given, *scaled, *factor]).collect());
            }
        }
    }
}

impl InnerSolver for ScaledSolver<'_> {
    fn residual(&self) -> &MultiVector {
        &self.r
    }

    fn correction(&self) -> &MultiVector {
        &self.d
    }

    fn memory(&self) -> MemoryUse {
        self.memory
    }

    fn solve(
        &mut self,
        limits: &Limits<'_>,
        logs: &mut [&mut dyn Logger],
    ) -> Result<Vec<InnerResult>, Error> {
        let is_open: Vec<bool> = limits.columns.iter().map(Option::is_some).collect();
        let norms = self.scale(&is_open)?;
        let ratio = |[given, scaled, _]: &[f64; 3]| if *given > 0.0 { scaled / given } else { 1.0 };
        let ratios: Vec<f64> = norms.iter().map(ratio).collect();
        let scaled = |(limit, ratio): (&Option<Limit>, &f64)| {
            limit.map(|limit| Limit { goal: limit.goal * ratio, ..limit })
        };
        let columns: Vec<Option<Limit>> = limits.columns.iter().zip(&ratios).map(scaled).collect();
        let mut rescaled = ScaledLogger::each(logs, &ratios);
        let mut logs: Vec<&mut dyn Logger> = rescaled.iter_mut().map(|log| log as &mut dyn Logger).collect();
        let mut ended = self.inner.solve(&Limits { columns: &columns, ..*limits }, &mut logs)?;
        self.back.run()?;
        for (c, ended) in ended.iter_mut().enumerate() {
            let [_, scaled, factor] = norms[c];
            *ended =
                InnerResult { residual: ended.residual / ratios[c], begun: Some(scaled / factor), ..*ended };
        }
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use zellige_runtime::Runtime;

    use zellige_krylov::multiply;

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
        assert_eq!(multiply(&rt, &undone, &x)?, multiply(&rt, &stored(&a)?, &x)?);
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
