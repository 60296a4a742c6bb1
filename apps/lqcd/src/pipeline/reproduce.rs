//! Reproduction of the figures and tables of Clark et al. 2022 on another gauge field: published
//! values and results.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_files::observe::Observer;
use zellige_krylov::{History, MultiVector};
use zellige_runtime::Runtime;

use super::results::{
    Deviations, PublishedShifts, PublishedSolve, ReproduceResult, ReproducedShifts, ReproducedSolve,
};
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

    /// Returns the name of the figure or table.
    pub fn name(self) -> &'static str {
        match self {
            Published::Fig1 => "fig1",
            Published::Fig2 => "fig2",
            Published::Fig4 => "fig4",
            Published::Table2 => "table2",
            Published::Table3 => "table3",
        }
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Published {
    type Err = String;

    fn from_str(text: &str) -> Result<Published, String> {
        let found = Published::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| "not one of fig1, fig2, fig4, table2, table3".to_owned())
    }
}

/// Formats of figure 2: links, quark fields and products.
const FORMATS: [&str; 5] = [
    "fixed16/half/fp32",
    "fixed16/int20/fp32",
    "fp32/single/fp32",
    "fixed32/int30/fp32",
    "fixed32/int30/fp64",
];

/// Iterations and seconds of table 2, on 36^3 x 72 sites at beta 6.3 with mass 0.001.
const TABLE_2: [(&str, usize, f64); 5] = [
    ("double", 26064, 307.0),
    ("double-single", 27308, 159.0),
    ("double-int30", 26580, 150.0),
    ("double-int20", 29336, 106.0),
    ("double-half", 67552, 247.0),
];

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

/// Entries of table 3: formats of the shared steps and of the separate ones, number of shared
/// steps, numbers of separate steps, and the residuals in between.
type ShiftsOfTable = (&'static str, &'static str, usize, [usize; 11], [f64; 11]);

const TABLE_3: [ShiftsOfTable; 2] = [
    (
        "double-single",
        "double-half",
        8728,
        [2323, 40, 113, 432, 411, 323, 232, 158, 114, 81, 64],
        [8.91e-5, 4.82e-3, 1.82e-3, 6.14e-4, 1.95e-4, 6.08e-5, 1.87e-5, 5.64e-6, 2.03e-6, 9.10e-7, 5.96e-7],
    ),
    (
        "double-int30",
        "double-int20",
        8726,
        [2320, 10, 12, 15, 18, 22, 44, 60, 56, 45, 37],
        [8.92e-5, 2.62e-4, 9.93e-5, 3.33e-5, 1.06e-5, 3.29e-6, 1.01e-6, 3.01e-7, 1.04e-7, 4.24e-8, 2.41e-8],
    ),
];

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
    let mut result = ReproduceResult {
        published: what.name(),
        lattice: u.geometry().extents(),
        action: options.action.to_string(),
        mass: options.mass,
        solves: Vec::new(),
        shifts: Vec::new(),
        deviations: Vec::new(),
    };
    let mut histories = Vec::new();
    match what {
        Published::Fig1 | Published::Fig4 | Published::Table2 => {
            for (name, solver, published) in solvers(what) {
                let (result_of_one, history) = invert(rt, u, &Options { solver, ..*options }, observer)?;
                histories.extend(history);
                result.solves.push(ReproducedSolve { name, published, found: result_of_one });
            }
        }
        Published::Table3 => {
            for (precision, refinement, iterations, each, residuals) in TABLE_3 {
                let shifts = SHIFTS.map(|(shift, tolerance)| Shift { shift, tolerance });
                let options = Options { solver: in_formats(Method::Cg, precision), ..*options };
                let refinement = in_formats(Method::Cg, refinement);
                let (found, _) = multishift(rt, u, &options, &shifts, &refinement, observer)?;
                let published = PublishedShifts {
                    iterations,
                    after: each.to_vec(),
                    shared_residuals: residuals.to_vec(),
                };
                result.shifts.push(ReproducedShifts { published, found });
            }
        }
        Published::Fig2 => result.deviations = deviations(rt, u, options)?,
    }
    Ok((result, histories))
}

/// Returns remarks on a result, a sentence each: the setting of the published figure or table, and
/// properties that the result does not reproduce.
pub fn remarks(result: &ReproduceResult) -> Vec<String> {
    let Ok(what) = result.published.parse() else { return Vec::new() };
    let setting = match what {
        Published::Fig1 => {
            "Published of the staggered operator on 16^4 sites at beta 5.6 with mass 0.001, as a figure without numbers."
        }
        Published::Fig2 => "Published of the HISQ operator on 36^3 x 72 sites at beta 6.3.",
        Published::Fig4 | Published::Table2 => {
            "Published iterations and seconds are of the HISQ operator on 36^3 x 72 sites at beta 6.3 with mass 0.001, on GPUs (QUDA): not of this \
             field, mass, tolerance and machine."
        }
        Published::Table3 => {
            "Published iterations are of the HISQ operator on 36^3 x 72 sites at beta 6.3 with mass 0.001, and of shifts that are not named."
        }
    };
    let mut remarks = vec![setting.to_owned()];
    if let (Published::Fig1, [_, bare, stable]) = (what, &result.solves[..])
        && bare.found.converged
        && bare.found.iterations[0] <= stable.found.iterations[0]
    {
        remarks.push(
            "This field does not show what the figure does: the stabilised solve takes no fewer iterations. Take --action naive, a field of beta 5.6 or a \
             larger one, with which the solve with reliable updates alone does not converge."
                .to_owned(),
        );
    }
    remarks
}

fn in_formats(method: Method, precision: &str) -> Solver {
    let precision = precision.parse().expect("one of the formats above");
    Solver { method, precision, ..Solver::default() }
}

/// Returns the solvers of a figure or table, with their published values.
fn solvers(what: Published) -> Vec<(String, Solver, Option<PublishedSolve>)> {
    if what == Published::Fig1 {
        let half = Solver { precision: Mixed::With(Precision::HALF), ..Solver::default() };
        let [wide_solution, projection, polak_ribiere] = [false; 3];
        let bare = Solver { wide_solution, projection, polak_ribiere, ..half };
        let named = [
            ("double", Solver::default()),
            ("double-half, reliable updates alone", bare),
            ("double-half, stabilised", half),
        ];
        return named.map(|(name, solver)| (name.to_owned(), solver, None)).to_vec();
    }
    let of_table = |(name, iterations, seconds): (&str, usize, f64)| {
        let published = PublishedSolve { iterations, seconds };
        (name.to_owned(), in_formats(Method::BiCgStab, name), Some(published))
    };
    TABLE_2.map(of_table).to_vec()
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
    fn figures_and_tables_are_those_that_were_asked_for() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(1).build()?, random_gauge(Geometry::new([4, 4, 4, 4])?, 3));
        let options = Options { mass: 0.5, tolerance: 1e-6, ..Options::default() };
        for what in Published::ALL {
            assert_eq!(what.to_string().parse(), Ok(what));
            let (result, histories) = reproduce(&rt, &u, what, &options, &Silent)?;
            let counts = (result.solves.len(), result.shifts.len(), result.deviations.len());
            let expected = match what {
                Published::Fig1 => (3, 0, 0),
                Published::Fig2 => (0, 0, 5),
                Published::Fig4 | Published::Table2 => (5, 0, 0),
                Published::Table3 => (0, 2, 0),
            };
            assert_eq!((counts, histories.len()), (expected, expected.0), "{what}");
            assert!(result.solves.iter().all(|one| one.found.true_residual[0] < 2e-6), "{result:?}");
            assert!(result.shifts.iter().all(|one| one.found.shifts.len() == 11), "{result:?}");
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
