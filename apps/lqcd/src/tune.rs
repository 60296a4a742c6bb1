//! Formats of a propagator's solver as items of `zellige tune lqcd`, and trials with them.

use zellige_files::observe::Silent;
use zellige_runtime::Runtime;
use zellige_tune::{Assignment, Candidate, Data, Item, Measures, Space};

use crate::error::Error;
use crate::gauge::Gauge;
use crate::pipeline::results::InvertResult;
use crate::pipeline::{Method, Mixed, Options, Solver, invert};
use crate::precision::Precision;
use crate::smear::Action;

/// Measure that is the cost if no other is given.
pub const COST: &str = "seconds";

/// Names of all measures.
pub const MEASURES: [&str; 7] =
    ["residual", "heavy_quark_residual", "iterations", "applications", "updates", "bytes", "seconds"];

const LINKS: &str = "links";
const QUARKS: &str = "quarks";
const PRODUCTS: &str = "products";
const DELTA: &str = "delta";

/// Trials of propagators in different formats.
pub struct Tuning<'a> {
    rt: &'a Runtime,
    gauge: &'a Gauge,
    options: Options,
    space: Space,
    known: Vec<(Data, Solver, Measures)>,
}

impl<'a> Tuning<'a> {
    /// Prepares trials of the propagator of these options; the formats of its solver are replaced.
    ///
    /// # Errors
    /// [`Error::Parameter`] for invalid options.
    pub fn new(rt: &'a Runtime, gauge: &'a Gauge, options: Options) -> Result<Self, Error> {
        options.check(gauge.geometry())?;
        options.action.check_staggered()?;
        if options.solver.is_double_only() {
            let problem =
                format!("{} has no formats to choose: use cg or bicgstabl:L", options.solver.method);
            return Err(Error::parameter("method", problem));
        }
        Ok(Tuning { rt, gauge, options, space: space(&options), known: Vec::new() })
    }

    /// Returns the items: `links`, `quarks`, `products` and `delta`.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the condition for which no other is given: the tolerances are met.
    pub fn accept(&self) -> String {
        let plain = format!("residual <= {:e}", self.options.tolerance);
        match self.options.heavy_quark {
            Some(goal) => format!("{plain} && heavy_quark_residual <= {goal:e}"),
            None => plain,
        }
    }

    /// Returns the solver of an assignment.
    ///
    /// # Errors
    /// The reason why there is no such solver.
    pub fn solver(&self, formats: &Assignment) -> Result<Solver, String> {
        let words = [LINKS, QUARKS, PRODUCTS].map(|item| formats.format(item));
        let narrow: Precision = words.join("/").parse()?;
        let solver = Solver { method: self.options.solver.method, ..Solver::default() };
        if narrow == Precision::DOUBLE {
            // Nothing is replaced, whatever the factor is.
            return Ok(solver);
        }
        let solver = Solver { precision: Mixed::With(narrow), ..solver };
        match formats.format(DELTA) {
            "estimate" => Ok(Solver { estimate: true, ..solver }),
            delta => match delta.parse() {
                Ok(delta) => Ok(Solver { delta, ..solver }),
                Err(_) => Err(format!("delta: {delta}")),
            },
        }
    }

    /// Computes the propagator in the formats of an assignment. For the verification, its source is
    /// half a lattice away. Equal solvers run once.
    ///
    /// The measures are the largest residuals of the colours (`residual`, `heavy_quark_residual`),
    /// sums over them (`iterations`, `applications`, `updates`, and `bytes` that applications read
    /// and write), and `seconds` of the solve.
    ///
    /// # Errors
    /// The reason why it cannot be computed.
    pub fn trial(&mut self, formats: &Assignment, data: Data) -> Result<Measures, String> {
        let solver = self.solver(formats)?;
        let is_known = |known: &&(Data, Solver, Measures)| known.0 == data && known.1 == solver;
        if let Some((_, _, measures)) = self.known.iter().find(is_known) {
            return Ok(measures.clone());
        }
        let mut options = Options { solver, ..self.options };
        if data == Data::Verify {
            let extents = self.gauge.geometry().extents();
            options
                .source
                .at
                .iter_mut()
                .zip(extents)
                .for_each(|(at, extent)| *at = (*at + extent / 2) % extent);
        }
        let (result, _) =
            invert(self.rt, self.gauge, &options, &Silent).map_err(|error| error.to_string())?;
        let measures = measures(&result, &options);
        self.known.push((data, solver, measures.clone()));
        Ok(measures)
    }
}

/// Returns the options of `zellige lqcd invert` for a solver.
pub fn options(solver: &Solver) -> String {
    match (solver.precision, solver.estimate) {
        (Mixed::Double, _) => "--precision double".into(),
        (mixed, true) => format!("--precision {mixed} --reliable estimate"),
        (mixed, false) => format!("--precision {mixed} --reliable {}", solver.delta),
    }
}

/// Items with predicted costs: bytes of an iteration for each site.
fn space(options: &Options) -> Space {
    let cost = |links: &str, quarks: &str| {
        let words = format!("{links}/{quarks}/fp64");
        words.parse().map_or(0.0, |precision| bytes_of_site(options, precision))
    };
    let double = cost("fp64", "double");
    let item = |name: &str, formats: &[&str], cost: &dyn Fn(&str) -> f64| {
        let candidate = |&name: &&str| Candidate { name: name.into(), cost: cost(name) };
        let mut formats: Vec<Candidate> = formats.iter().map(candidate).collect();
        formats.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Item { name: name.into(), group: String::new(), formats }
    };
    let links = ["fixed16-9", "fixed16-13", "fixed16", "fixed24", "fp32-13", "fixed32", "fp32", "fp64"];
    let quarks = ["half", "int20", "int30", "single", "double"];
    // The estimate is one of conjugate gradients.
    let deltas = ["estimate", "0.001", "0.01", "0.1"];
    let deltas = if options.solver.method == Method::Cg { &deltas[..] } else { &deltas[1..] };
    let of_quarks = double - cost("fp64", "half");
    let items = vec![
        item(LINKS, &links, &|links| cost(links, "double") - of_quarks),
        item(QUARKS, &quarks, &|quarks| of_quarks - (double - cost("fp64", quarks))),
        item(PRODUCTS, &["fp32", "fp64"], &|_| 0.0),
        item(DELTA, deltas, &|_| 0.0),
    ];
    Space::new(items).expect("names that differ, and sorted costs")
}

/// Bytes that a product with `4 m^2 - D D` reads and writes for each site of a parity: links, and a
/// quark field before and after each `D`.
fn bytes_of_site(options: &Options, precision: Precision) -> f64 {
    let one = |words: usize| words as f64;
    let full = zellige_kernels::sites::MatrixFormat::full(precision.gauge.number);
    // Eight hops of one site. Only those of three sites remain unitary in improved actions.
    let links = match options.action {
        Action::Naive => 8.0 * one(precision.gauge.words()),
        _ => 8.0 * (one(full.words()) + one(precision.gauge.words())),
    };
    2.0 * (links + 2.0 * precision.fermion.bytes() as f64)
}

fn measures(result: &InvertResult, options: &Options) -> Measures {
    let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let sum = |values: &[usize]| values.iter().sum::<usize>() as f64;
    let (iterations, applications) = (sum(&result.iterations), sum(&result.applications));
    let products = options.solver.products() as f64;
    let narrow = products * iterations;
    let formats = options.solver.precision.narrow().unwrap_or(Precision::DOUBLE);
    let of_site = |precision| bytes_of_site(options, precision);
    let sites = result.lattice.iter().product::<usize>() as f64 / 2.0;
    let bytes = sites * (narrow * of_site(formats) + (applications - narrow) * of_site(Precision::DOUBLE));
    Measures::from([
        ("residual", largest(&result.true_residual)),
        ("heavy_quark_residual", largest(&result.heavy_quark_residual)),
        ("iterations", iterations),
        ("applications", applications),
        ("updates", sum(&result.reliable_updates)),
        ("bytes", bytes),
        ("seconds", result.seconds.solve),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::testing::random_gauge;
    use zellige_tune::{Acceptance, Ended, Expression, Search, Trials};

    fn heavy() -> Options {
        Options { action: Action::Naive, mass: 0.5, tolerance: 1e-8, ..Options::default() }
    }

    /// The cost is deterministic: bytes.
    #[test]
    fn the_result_is_cheaper_and_minimal() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(2).build()?, random_gauge(Geometry::new([4, 4, 4, 4])?, 1));
        let mut tuning = Tuning::new(&rt, &u, heavy())?;
        let (space, accept) = (tuning.space().clone(), Acceptance::parse(&tuning.accept()).expect("accept"));
        let cost = Expression::parse("bytes").expect("a cost");
        let trials = Trials::in_turn(|formats, data| tuning.trial(formats, data));
        let search = Search::new(&space, trials, &accept).cost(|_, measures| cost.value(measures));
        let outcome =
            search.run(&zellige_tune::Options { verify: true, ..Default::default() }).expect("an outcome");
        assert_eq!(outcome.ended, Ended::Minimal);
        assert!(outcome.best().cost < outcome.reference().cost, "{outcome:?}");
        assert!(outcome.verified.is_some());
        let solver = tuning.solver(&outcome.best().formats).expect("a solver");
        assert!(options(&solver).starts_with("--precision double-"), "{}", options(&solver));
        Ok(())
    }

    #[test]
    fn names_of_figures_are_listed() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(1).build()?, Gauge::cold(Geometry::new([4, 4, 4, 4])?));
        let mut tuning = Tuning::new(&rt, &u, heavy())?;
        let reference = tuning.trial(&tuning.space().reference(), Data::Search).expect("a trial");
        let unknown = Acceptance::parse("strehl >= 0.5").expect("a condition");
        let problem = unknown.check(&reference).expect_err("no such figure").to_string();
        assert!(problem.contains("applications, bytes, heavy_quark_residual"), "{problem}");
        assert!(Tuning::new(&rt, &u, Options { mass: -1.0, ..heavy() }).is_err());
        Ok(())
    }
}
