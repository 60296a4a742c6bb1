//! Computations of the figures and tables of Clark et al. 2022, on another gauge field.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_files::observe::Observer;
use zellige_krylov::{History, MultiVector};
use zellige_runtime::Runtime;

use super::results::{Deviations, ReproduceResult, ReproducedSolve};
use super::solver::{Method, Mixed, Solver, dslash_now};
use super::{Options, Shift, invert, multishift};
use crate::dslash::Dslash;
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{COLOURS, Parity};
use crate::precision::{Precision, Sites};
use crate::smear::smear;
use crate::su3::C64;

/// A figure or a table of the publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// Conjugate gradients in double, and in double-half with and without stabilisation.
    Fig1,
    /// Deviations of the operator in its formats.
    Fig2,
    /// Residuals of BiCGStab(4) in five precisions.
    Fig4,
    /// Iterations and times of BiCGStab(4) in five precisions.
    Table2,
    /// Several shifts, in double-single then double-half, and in double-int30 then double-int20.
    Table3,
}

impl Published {
    /// All figures and tables.
    pub const ALL: [Published; 5] =
        [Published::Fig1, Published::Fig2, Published::Fig4, Published::Table2, Published::Table3];
}

/// Formats of figure 2: links, quark fields and products.
const FORMATS: [&str; 5] = [
    "fixed16/half/fp32",
    "fixed16/int20/fp32",
    "fp32/single/fp32",
    "fixed32/int30/fp32",
    "fixed32/int30/fp64",
];

/// Precisions of figure 4 and of table 2.
const PRECISIONS: [&str; 5] = ["double", "double-single", "double-int30", "double-int20", "double-half"];

/// Shifts, which are not published, and the target residuals of table 3.
const SHIFTS: [(f64, f64); 11] = [
    (0.0, 1.00e-5),
    (1.3e-5, 1.75e-5),
    (5e-5, 3.86e-5),
    (2e-4, 8.85e-5),
    (8e-4, 2.05e-8),
    (3.2e-3, 4.81e-9),
    (1.3e-2, 1.15e-9),
    (5e-2, 2.50e-10),
    (0.2, 4.64e-11),
    (0.9, 1.30e-11),
    (5.0, 6.85e-12),
];

/// Formats of the shared steps of table 3, and of the separate ones.
const PAIRS: [[&str; 2]; 2] = [["double-single", "double-half"], ["double-int30", "double-int20"]];

/// Repeats the computation of a figure or table on `u`, with the action, mass, boundary condition,
/// tolerance and maximum number of steps of the options (table 3 has its own tolerances). Solves
/// are for a source of one colour, by default the first. The histories are those of the solves, in
/// order.
///
/// # Errors
/// The errors of [`invert()`].
pub fn reproduce(
    rt: &Runtime,
    u: &Gauge,
    what: Published,
    options: &Options,
    observer: &dyn Observer,
) -> Result<(ReproduceResult, Vec<History>), Error> {
    let source = super::Source { colour: Some(options.source.colour.unwrap_or(0)), ..options.source };
    let options = &Options { source, ..*options };
    options.check(u.geometry())?;
    options.action.check_staggered()?;
    let mut result = ReproduceResult::default();
    let mut histories = Vec::new();
    match what {
        Published::Fig1 | Published::Fig4 | Published::Table2 => {
            for (name, solver) in solvers(what) {
                let (found, history) = invert(rt, u, &Options { solver, ..*options }, observer)?;
                histories.extend(history);
                result.solves.push(ReproducedSolve { name: name.to_owned(), found });
            }
        }
        Published::Table3 => {
            for [precision, refinement] in PAIRS {
                let shifts = SHIFTS.map(|(shift, tolerance)| Shift { shift, tolerance });
                let options = Options { solver: in_formats(Method::Cg, precision), ..*options };
                let refinement = in_formats(Method::Cg, refinement);
                result.shifts.push(multishift(rt, u, &options, &shifts, &refinement, observer)?.0);
            }
        }
        Published::Fig2 => result.deviations = deviations(rt, u, options)?,
    }
    Ok((result, histories))
}

fn in_formats(method: Method, precision: &str) -> Solver {
    let precision = precision.parse().expect("one of the formats above");
    Solver { method, precision, ..Solver::default() }
}

/// Returns the solvers of a figure or table with their names.
fn solvers(what: Published) -> Vec<(&'static str, Solver)> {
    if what == Published::Fig1 {
        let half = Solver { precision: Mixed::With(Precision::HALF), ..Solver::default() };
        let [wide_solution, projection, polak_ribiere] = [false; 3];
        let bare = Solver { wide_solution, projection, polak_ribiere, ..half };
        return vec![
            ("double", Solver::default()),
            ("double-half, reliable updates alone", bare),
            ("double-half, stabilised", half),
        ];
    }
    PRECISIONS.map(|name| (name, in_formats(Method::BiCgStab { l: 4 }, name))).to_vec()
}

/// Returns the absolute deviations from float64 of `D x`, for `x` of normally distributed numbers.
fn deviations(rt: &Runtime, u: &Gauge, options: &Options) -> Result<Vec<Deviations>, Error> {
    let mut links = u.clone();
    links.reunitarise();
    let smeared = smear(rt, &links, options.action)?;
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut normal = || {
        let radius = (-2.0 * random.random_range(f64::MIN_POSITIVE..1.0).ln()).sqrt();
        C64::from_polar(radius, random.random_range(0.0..std::f64::consts::TAU))
    };
    let x: Vec<C64> = (0..u.geometry().half() * COLOURS).map(|_| normal()).collect();
    let product = |precision: Precision| {
        let d = Dslash::new(rt, &smeared, Parity::Even, options.boundary, precision);
        let stored = || MultiVector::stored(rt, d.space(), 1, Arc::new(Sites::new(precision.fermion, 1)));
        let (from, to) = (stored(), stored());
        from.set_column(rt, 0, &x)?;
        dslash_now(rt, &d, &from, &to, 1.0)?;
        Ok::<_, Error>(to.column(rt, 0)?)
    };
    let exact = product(Precision::DOUBLE)?;
    let of_formats = |name: &str| {
        let found = product(name.parse().expect("one of the formats above"))?;
        let apart = found.iter().zip(&exact).map(|(a, b)| a - b);
        let mut apart: Vec<f64> = apart.flat_map(|z| [z.re.abs(), z.im.abs()]).collect();
        apart.sort_unstable_by(f64::total_cmp);
        let quantiles = (1..=100).map(|percent| apart[(apart.len() * percent).div_ceil(100) - 1]).collect();
        Ok(Deviations { precision: name.to_owned(), quantiles })
    };
    FORMATS.into_iter().map(of_formats).collect()
}

#[cfg(test)]
mod tests {
    use zellige_files::observe::Silent;

    use super::*;
    use crate::geometry::Geometry;
    use crate::testing::random_gauge;

    #[test]
    fn figures_and_tables_have_their_results() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(1).build()?, random_gauge(Geometry::new([4, 4, 4, 4])?, 3));
        let options = Options { mass: 0.5, tolerance: 1e-6, ..Options::default() };
        for what in Published::ALL {
            let (result, histories) = reproduce(&rt, &u, what, &options, &Silent)?;
            let counts = (result.solves.len(), result.shifts.len(), result.deviations.len());
            let expected = match what {
                Published::Fig1 => (3, 0, 0),
                Published::Fig2 => (0, 0, 5),
                Published::Fig4 | Published::Table2 => (5, 0, 0),
                Published::Table3 => (0, 2, 0),
            };
            assert_eq!((counts, histories.len()), (expected, expected.0), "{what:?}");
            assert!(result.solves.iter().all(|one| one.found.true_residual[0] < 2e-6), "{result:?}");
            assert!(result.shifts.iter().all(|one| one.shifts.len() == 11), "{result:?}");
            // Formats are in the order of their accuracy, and int30 needs products in float64.
            let medians: Vec<f64> = result.deviations.iter().map(|one| one.quantiles[49]).collect();
            if let [half, int20, single, narrow, int30] = medians[..] {
                assert!(half > int20 && int20 > 10.0 * single && single > 10.0 * int30, "{medians:?}");
                assert!(
                    narrow > 10.0 * int30 && result.deviations.iter().all(|one| one.quantiles.is_sorted())
                );
            }
        }
        Ok(())
    }
}
