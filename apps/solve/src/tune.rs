//! Formats of a system's solver as items of `zellige tune solve`, and trials with them; those of a
//! product are in [`spmv`].

mod rows;
pub mod spmv;

use zellige_sparse::krylov::{Executor, Space as VectorSpace};
use zellige_sparse::system::{
    Answer, Bytes, Inner, MethodChoice, Options, PreconditionerChoice, System, candidates,
};
use zellige_sparse::{Csr, Error, Stored};
use zellige_tune::{Assignment, Candidate, Data, Item, Measures, Space};

use crate::pipeline::solve;
use crate::trust::{self, TrustOptions};
pub use rows::RowAccuracies;

/// Measure that is the cost if no other is given.
pub const COST: &str = "seconds";

/// Name of the measure that only trials with [`Tuning::with_digits`] have.
pub const DIGITS: &str = "digits";

/// Names of all measures.
pub const MEASURES: [&str; 8] =
    ["residual", "steps", "bytes", "backward_error", "difference", "setup_seconds", "seconds", DIGITS];

const OPERATOR: &str = "operator";
const RELIABLE: &str = "reliable";
const RELAX: &str = "relax";
const BASIS: &str = "basis";
const FACTORS: &str = "factors";
/// Format of items that are not used.
const NONE: &str = "none";

/// Copies of the matrix that are tried besides the matrix itself.
const COPIES: [&str; 6] =
    ["ap7:cw:2^-11", "ap7:cw:2^-16", "ap7:cw:2^-24", "ap7:cw:2^-37", "fp32", "auto:cw:2^-24"];
/// Basis formats that are tried, with the bytes of a number.
const BASES: [(&str, f64); 5] =
    [("block8", 1.0), ("block16", 2.0), ("fp32", 4.0), ("rp48", 6.0), ("fp64", 8.0)];

/// Trials of solving a system with different formats.
pub struct Tuning<'a> {
    rt: &'a dyn Executor,
    a: &'a Csr,
    /// Right-hand sides of the search and of the verification.
    b: [Vec<Vec<f64>>; 2],
    options: Options,
    repeats: usize,
    has_digits: bool,
    space: Space,
    /// Solution of the reference, once it is known.
    reference: [Option<Vec<f64>>; 2],
}

impl<'a> Tuning<'a> {
    /// Prepares trials of solving `A x = b` with these options, in which formats are replaced. If
    /// the method and the preconditioner are automatic, the first that the matrix suggests are
    /// used. Times are medians of `repeats` runs.
    ///
    /// # Errors
    /// Copies that cannot be stored.
    pub fn new(
        rt: &'a dyn Executor,
        a: &'a Csr,
        b: [Vec<f64>; 2],
        options: &Options,
        repeats: usize,
    ) -> Result<Self, Error> {
        let (method, preconditioner) = candidates(a, options)[0];
        let options = Options { method, preconditioner, ..options.clone() };
        let space = space(rt, a, &options)?;
        let b = b.map(|b| vec![b]);
        let (repeats, reference) = (repeats.max(1), [None, None]);
        Ok(Tuning { rt, a, b, options, repeats, has_digits: false, space, reference })
    }

    /// Adds the measure [`DIGITS`] to the trials: the mean number of exact digits of `x`, by
    /// another solve in stochastic arithmetic ([`trust::solve`]). Trials with reliable updates,
    /// relaxed products or preconditioners other than Jacobi then fail.
    #[must_use]
    pub fn with_digits(mut self) -> Self {
        self.has_digits = true;
        self
    }

    /// Returns the items: `operator`, and those that the method and the preconditioner have.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the options of an assignment.
    ///
    /// # Errors
    /// The reason why there are no such options.
    pub fn options(&self, formats: &Assignment) -> Result<Options, String> {
        let mut options = self.options.clone();
        let problem = |error: Error| error.to_string();
        for (item, format) in formats.iter() {
            let format = &*format.name;
            match &*item.name {
                OPERATOR => options.inner = format.parse().map_err(problem)?,
                BASIS => options.basis = format.parse().map_err(problem)?,
                FACTORS => options.preconditioner = format.parse().map_err(problem)?,
                RELIABLE => options.reliable = format.parse().ok(),
                _ if format == NONE => options.relaxed = Vec::new(),
                _ => {
                    let copies = format.split(',').map(str::parse).collect::<Result<_, Error>>();
                    options.relaxed = copies.map_err(problem)?;
                }
            }
        }
        if options.inner == Inner::Exact && options.reliable.is_some() {
            return Err("reliable updates need a low-precision operator".into());
        }
        Ok(options)
    }

    /// Solves with the formats of an assignment, from zero; for the verification, with the other
    /// right-hand side.
    ///
    /// The measures are the recomputed `residual` relative to the right-hand side, `steps`, `bytes`
    /// of the data that steps work on, `backward_error`, the `difference` of the solution from that
    /// of the reference, `setup_seconds`, `seconds` of the solve without the setup, and `digits` if
    /// they are requested.
    ///
    /// # Errors
    /// The reason why it cannot be solved.
    pub fn trial(&mut self, formats: &Assignment, data: Data) -> Result<Measures, String> {
        let options = self.options(formats)?;
        let problem = |error: Error| error.to_string();
        let system = System::new(self.rt, self.a, &options).map_err(problem)?;
        let (mut answer, mut x) = self.solve(&system, data).map_err(problem)?;
        let setup = answer.setup.as_secs_f64();
        let mut times = vec![answer.solve.as_secs_f64()];
        for _ in 1..self.repeats {
            (answer, x) = self.solve(&system, data).map_err(problem)?;
            times.push(answer.solve.as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let difference = self.difference(&x, data).map_err(problem)?;
        let solution = &answer.solution;
        let mut measures = Measures::from([
            ("residual", solution.true_residual / solution.rhs),
            ("steps", solution.steps as f64),
            ("bytes", bytes_of_steps(&answer.bytes) as f64),
            ("backward_error", answer.backward_error),
            ("difference", difference),
            ("setup_seconds", setup),
            ("seconds", times[times.len() / 2]),
        ]);
        if self.has_digits {
            let digits = self.digits(&options, data).map_err(|error| format!("digits: {error}"))?;
            measures.insert(DIGITS, digits, 0.0);
        }
        Ok(measures)
    }

    /// Returns the mean number of exact digits of the solution.
    fn digits(&self, options: &Options, data: Data) -> Result<f64, Error> {
        let b = &self.b[data as usize][0];
        let trust = trust::solve(self.rt, self.a, b, options, &TrustOptions::default())?;
        let digits = &trust.maps[0].digits;
        Ok(digits.iter().map(|&digits| f64::from(digits)).sum::<f64>() / digits.len().max(1) as f64)
    }

    fn solve(&self, system: &System<'_>, data: Data) -> Result<(Answer, Vec<f64>), Error> {
        let (mut x, mut solved) = solve(system, &self.b[data as usize], None, |_| ())?;
        Ok((solved.remove(0).answer, x.remove(0)))
    }

    /// Returns the norm of the difference from the solution of the reference, relative to it.
    fn difference(&mut self, x: &[f64], data: Data) -> Result<f64, Error> {
        let reference = match self.reference[data as usize].take() {
            Some(reference) => reference,
            None => self.solve(&System::new(self.rt, self.a, &self.options)?, data)?.1,
        };
        let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
        let apart = norm(&mut x.iter().zip(&reference).map(|(x, y)| x - y));
        let all = norm(&mut reference.iter().copied());
        self.reference[data as usize] = Some(reference);
        Ok(if all == 0.0 { apart } else { apart / all })
    }
}

/// Returns the condition for which no other is given: the tolerance is met in about as many steps.
pub fn accept(tolerance: f64) -> String {
    format!("residual <= {tolerance:e} && steps <= 1.1 * REF.steps")
}

/// Returns the options of `zellige solve` for an assignment.
pub fn options(options: &Options, formats: &Assignment) -> String {
    let mut text = format!("--method {} --precond {}", options.method, options.preconditioner);
    for (item, format) in formats.iter() {
        let option = match &*item.name {
            OPERATOR => "--operator ",
            BASIS => "--basis-format ",
            RELAX => "--relax ",
            RELIABLE => "--reliable=",
            // The preconditioner is written already.
            _ => continue,
        };
        if format.name != NONE {
            text += &format!(" {option}{}", format.name);
        }
    }
    text
}

/// Bytes of the data that steps work on. The matrix itself, beside a copy, serves residuals only.
fn bytes_of_steps(bytes: &Bytes) -> u64 {
    let operator = if bytes.inner > 0 { bytes.inner } else { bytes.matrix };
    operator + bytes.preconditioner + bytes.basis + bytes.vectors
}

/// Items with predicted costs: bytes.
fn space(rt: &dyn Executor, a: &Csr, options: &Options) -> Result<Space, Error> {
    let plain = |name: &str, cost| Candidate { name: name.into(), cost };
    let most = Stored::exact(rt, &VectorSpace::new(a.rows(), a.bytes()), a)?.bytes() as f64;
    let mut copies = Vec::new();
    for name in COPIES {
        copies.push(plain(name, bytes_of_copy(rt, a, &name.parse()?)?.map_or(most, |bytes| bytes.min(most))));
    }
    copies.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    copies.push(plain("fp64", most));
    let item =
        |name: &str, formats: Vec<Candidate>| Item { name: name.into(), group: String::new(), formats };
    let mut items = vec![item(OPERATOR, copies)];
    match options.method {
        MethodChoice::Cg | MethodChoice::Fcg | MethodChoice::BlockCg => {
            let formats = ["0.01", "0.1", NONE].map(|name| plain(name, 0.0));
            items.push(item(RELIABLE, formats.into()));
        }
        MethodChoice::Gmres { restart, .. } => {
            let numbers = (restart * a.columns()) as f64;
            let formats = BASES.map(|(name, bytes)| plain(name, numbers * bytes));
            items.push(item(BASIS, formats.into()));
            let copies = "ap7:cw:2^-37,ap7:cw:2^-24,ap7:cw:2^-16";
            items.push(item(RELAX, vec![plain(copies, 0.0), plain(NONE, 0.0)]));
        }
        _ => {}
    }
    if options.preconditioner == PreconditionerChoice::Lu {
        let bytes = a.bytes() as f64;
        items.push(item(FACTORS, vec![plain("lu:fp32", bytes / 2.0), plain("lu", bytes)]));
    }
    Space::new(items).map_err(|error| Error::Parameter { name: "items", problem: error.to_string() })
}

/// Bytes of a copy; none if it is chosen by its speed.
fn bytes_of_copy(rt: &dyn Executor, a: &Csr, copy: &Inner) -> Result<Option<f64>, Error> {
    if matches!(copy, Inner::Auto { .. }) {
        return Ok(None);
    }
    let space = VectorSpace::new(a.rows(), a.bytes());
    let block_size = copy.block_size().unwrap_or_else(|| a.block_size());
    Ok(Some(Stored::new(rt, &space, a, block_size, &copy.adaptation(&[]))?.bytes() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_runtime::Runtime;
    use zellige_sparse::generate::{Flow, flow};
    use zellige_tune::{Acceptance, Expression, Search, Trials};

    /// The cost is deterministic: bytes.
    fn tuned(options: &Options) -> (String, f64) {
        let rt = Runtime::builder().workers(2).build().expect("a runtime");
        let a = flow(&Flow { cells: [6, 5, 4], ..Flow::default() }).expect("a matrix");
        let ones = vec![1.0; a.rows()];
        let other: Vec<f64> = (0..a.rows()).map(|i| 1.0 + (i % 7) as f64).collect();
        let mut tuning = Tuning::new(&rt, &a, [ones, other], options, 1).expect("a system");
        let space = tuning.space().clone();
        let accept = Acceptance::parse("residual <= 1e-8 && steps <= 3 * REF.steps").expect("accept");
        let cost = Expression::parse("bytes").expect("a cost");
        let trials = Trials::in_turn(|formats, data| tuning.trial(formats, data));
        let search = Search::new(&space, trials, &accept).cost(|_, measures| cost.value(measures));
        let outcome =
            search.run(&zellige_tune::Options { verify: true, ..Default::default() }).expect("an outcome");
        let [best, reference] =
            [outcome.best(), outcome.reference()].map(|trial| trial.cost.expect("a cost"));
        assert!(outcome.verified.is_some());
        let unknown = Acceptance::parse("unknown > 3").expect("a condition");
        let problem = unknown.check(&outcome.reference().measures).expect_err("unknown").to_string();
        assert!(problem.contains("backward_error, bytes, difference, residual"), "{problem}");
        (options_of(&tuning, &outcome.best().formats), best / reference)
    }

    fn options_of(tuning: &Tuning<'_>, formats: &Assignment) -> String {
        options(&tuning.options(formats).expect("options"), formats)
    }

    /// A copy whose row blocks have accuracies of their own solves a system, in any order of rows.
    #[test]
    fn systems_are_solved_with_accuracies_of_rows() {
        let rt = Runtime::builder().workers(2).build().expect("a runtime");
        let a = flow(&Flow { cells: [6, 5, 4], ..Flow::default() }).expect("a matrix");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.json");
        let file = r#"{"rows 0..60":"ap7:cw:2^-16","rows 60..120":"ap7:cw:2^-24"}"#;
        std::fs::write(&path, file).expect("a file");
        let rows = RowAccuracies::read(&path, a.rows()).expect("accuracies");
        for (reorder, scaling) in [(false, "none"), (true, "both"), (true, "matching")] {
            let options = Options {
                inner: rows.inner(),
                x_for: Some(rows.weights.clone()),
                method: "gmres:40".parse().expect("a method"),
                reorder,
                scaling: scaling.parse().expect("a scaling"),
                ..Options::default()
            };
            let system = System::new(&rt, &a, &options).expect("a system");
            let (_, solved) = solve(&system, &[vec![1.0; a.rows()]], None, |_| ()).expect("a solution");
            let answer = &solved[0].answer;
            assert!(answer.solution.reason.is_converged(), "{scaling}: {answer:?}");
            assert!(answer.bytes.inner > 0 && answer.bytes.inner < answer.bytes.matrix);
        }
    }

    /// Digits of the solution are those of stochastic arithmetic.
    #[test]
    fn digits_are_a_measure() {
        let rt = Runtime::builder().workers(2).build().expect("a runtime");
        let a = flow(&Flow { cells: [6, 5, 4], ..Flow::default() }).expect("a matrix");
        let b = [vec![1.0; a.rows()], vec![1.0; a.rows()]];
        let options = Options {
            method: "cg".parse().expect("a method"),
            preconditioner: "jacobi".parse().expect("a preconditioner"),
            stop: vec![
                zellige_sparse::krylov::Stop::RelativeToRhs(1e-8),
                zellige_sparse::krylov::Stop::Steps(2000),
            ],
            ..Options::default()
        };
        let mut tuning = Tuning::new(&rt, &a, b, &options, 1).expect("a system").with_digits();
        let space = tuning.space().clone();
        let trial = |tuning: &mut Tuning<'_>, formats: &[(&str, &str)]| {
            let formats = space.assignment(formats.iter().copied()).expect("formats");
            tuning.trial(&formats, Data::Search)
        };
        let digits = |measures: &Measures| measures.get(DIGITS).expect("digits").value;
        let reference = trial(&mut tuning, &[]).expect("measures");
        assert!((5.0..=15.0).contains(&digits(&reference)), "{reference:?}");
        let single = trial(&mut tuning, &[(OPERATOR, "fp32")]).expect("measures");
        assert!(digits(&single) > 0.0, "{single:?}");
        let reason = trial(&mut tuning, &[(OPERATOR, "fp32"), (RELIABLE, "0.1")]).expect_err("no digits");
        assert!(reason.starts_with("digits: ") && reason.contains("reliable"), "{reason}");
    }

    #[test]
    fn results_use_fewer_bytes() {
        let tolerance = vec![
            zellige_sparse::krylov::Stop::RelativeToRhs(1e-8),
            zellige_sparse::krylov::Stop::Steps(2000),
        ];
        let method = |method: &str, precond: &str| Options {
            method: method.parse().expect("a method"),
            preconditioner: precond.parse().expect("a preconditioner"),
            stop: tolerance.clone(),
            ..Options::default()
        };
        let (gmres, share) = tuned(&method("gmres:30", "jacobi"));
        assert!(share < 0.9, "{gmres}: {share}");
        assert!(gmres.starts_with("--method gmres:30 --precond jacobi --operator "), "{gmres}");
        // Few unknowns: the vectors of reliable updates outweigh a smaller matrix.
        let (cg, share) = tuned(&method("cg", "jacobi"));
        assert!(cg.starts_with("--method cg --precond jacobi --operator ") && share <= 1.0, "{cg}: {share}");
    }
}
