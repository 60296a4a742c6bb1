//! Checks of a system and its options.

use zellige_krylov::{Error, Orthogonalisation, Packed};

use crate::csr::{Csr, abs_sum};
use crate::system::options::{Inner, MethodChoice, Options, PreconditionerChoice};

/// Refuses incompatible options.
///
/// # Errors
/// [`Error::Parameter`] with the name of the option that is incompatible.
pub fn check_options(options: &Options) -> Result<(), Error> {
    use MethodChoice::{Auto, Cg, Fcg, Gmres};
    let refuse = |name, problem: &str| Err(Error::parameter(name, problem));
    let has_basis = matches!(options.method, Auto | Gmres { .. });
    if !has_basis && options.basis != Packed::default() {
        return refuse("basis", "only gmres and fgmres store a basis: name one of them, or leave it out");
    }
    if !has_basis && options.orthogonalisation != Orthogonalisation::default() {
        return refuse(
            "orthogonalise",
            "only gmres and fgmres orthogonalise: name one of them, or leave it out",
        );
    }
    // Without it, an attempt with another preconditioner would hide that a set-up does not fit.
    let has_setup = options.setup.is_some() || options.kept_setup.is_some();
    if has_setup && options.preconditioner != PreconditionerChoice::Amg {
        return refuse("setup", "set-ups are those of amg: name --precond amg");
    }
    check_relaxed(options)?;
    check_vector(options)?;
    if options.method.needs_symmetry() {
        check_symmetry(options)?;
    }
    match options.reliable {
        None => Ok(()),
        Some(_) if !matches!(options.method, Cg | Fcg) => {
            refuse("reliable", "only conjugate gradients use reliable updates: name --method cg or fcg")
        }
        Some(_) if options.inner == Inner::Exact => refuse(
            "reliable",
            "residuals of exact products need no reliable updates: name a low-precision --operator, like ap7:cw:2^-24",
        ),
        Some(delta) if !(delta > 0.0 && delta < 1.0) => {
            Err(Error::parameter("reliable", format!("{delta}: a number between 0 and 1 is needed")))
        }
        Some(_) => Ok(()),
    }
}

/// Refuses copies that are not symmetric for methods that need a symmetric matrix.
///
/// # Errors
/// [`Error::Parameter`] with an alternative.
pub fn check_symmetry(options: &Options) -> Result<(), Error> {
    if options.inner.keeps_symmetry() {
        return Ok(());
    }
    let problem = format!(
        "{} has a scale for each row, so that no copy is symmetric, which cg, fcg, block-cg and minres need: use ap7, or nw in place of cw, or gmres",
        options.inner
    );
    Err(Error::parameter("operator", problem))
}

fn check_vector(options: &Options) -> Result<(), Error> {
    let of_rows = options.inner.has_row_weights();
    if options.relaxed.iter().any(|copy| copy.has_row_weights() || of_rows && copy.is_for_vector()) {
        let problem = "only the operator has weights of rows, and then no copy is for a vector: use cw";
        return Err(Error::parameter("relax", problem));
    }
    let is_needed = std::iter::once(&options.inner).chain(&options.relaxed).any(Inner::is_for_vector);
    match &options.x_for {
        None if is_needed => Err(Error::parameter(
            "x-for",
            "cw-exact chooses formats for a vector, and none is given: name one, or use cw",
        )),
        Some(_) if !is_needed => {
            Err(Error::parameter("x-for", "only cw-exact uses a vector: name a copy like ap7:cw-exact:2^-24"))
        }
        Some(x) => match x.iter().position(|x| *x == 0.0 || !x.is_finite()) {
            Some(at) => {
                let problem =
                    format!("element {} is {}: every entry must be finite and not zero", at + 1, x[at]);
                Err(Error::parameter("x-for", problem))
            }
            None => Ok(()),
        },
        None => Ok(()),
    }
}

fn check_relaxed(options: &Options) -> Result<(), Error> {
    let refuse = |problem: String| Err(Error::parameter("relax", problem));
    if options.relaxed.is_empty() {
        return Ok(());
    }
    if options.relaxed.iter().any(|inner| matches!(inner, Inner::Auto { .. })) {
        return refuse("auto chooses one copy, for --operator: name the sets of these".into());
    }
    if !matches!(options.method, MethodChoice::Gmres { .. }) {
        return refuse(
            "only GMRES tolerates products that become less accurate: name --method gmres:M or fgmres:M"
                .into(),
        );
    }
    let all: Vec<Inner> = std::iter::once(options.inner).chain(options.relaxed.iter().copied()).collect();
    match all.windows(2).find(|pair| pair[1].accuracy() <= pair[0].accuracy()) {
        Some(pair) => refuse(format!(
            "{} is not less accurate than {}, which comes before it: name copies from the most accurate to the least",
            pair[1], pair[0]
        )),
        None => Ok(()),
    }
}

/// Refuses matrices of systems that cannot be solved, with the reason.
///
/// # Errors
/// [`Error::Unsolvable`].
pub fn check_matrix(a: &Csr) -> Result<(), Error> {
    if a.rows() != a.columns() || a.rows() == 0 {
        let problem = format!("{} rows, {} columns: only square systems are solved", a.rows(), a.columns());
        return Err(Error::unsolvable("matrix", problem));
    }
    for (i, (_, value)) in a.iter().enumerate() {
        if let Some(value) = value.iter().find(|value| !value.is_finite()) {
            return Err(Error::unsolvable(
                "matrix",
                format!("row {} has a non-finite entry: {value}", i + 1),
            ));
        }
        if value.iter().all(|&value| value == 0.0) {
            let problem = format!(
                "row {} is all zeros: the matrix is singular; least squares (--damping 0) minimises the residual",
                i + 1
            );
            return Err(Error::unsolvable("matrix", problem));
        }
    }
    Ok(())
}

/// Refuses vectors with non-finite numbers.
///
/// # Errors
/// [`Error::Unsolvable`] with the first of them.
pub fn check_finite(what: &'static str, v: &[f64]) -> Result<(), Error> {
    match v.iter().position(|v| !v.is_finite()) {
        Some(at) => Err(Error::unsolvable(what, format!("element {} is {}", at + 1, v[at]))),
        None => Ok(()),
    }
}

/// Returns true if every row sums to zero, except for rounding: the matrix is singular, and systems
/// with it may have answers with [`without_constant`](Options::without_constant).
pub fn has_constant_null_space(a: &Csr) -> bool {
    check_constant(a).is_ok()
}

/// Refuses a matrix that does not take constants to zero.
///
/// # Errors
/// [`Error::Unsolvable`] with a row that does not add up to zero, but for rounding.
pub fn check_constant(a: &Csr) -> Result<(), Error> {
    for (i, (_, value)) in a.iter().enumerate() {
        let (sum, size) = (value.iter().sum::<f64>(), abs_sum(value));
        if sum.abs() > 1e-10 * size {
            let problem = format!("row {} adds up to {sum:e}: a constant is not in the null space", i + 1);
            return Err(Error::unsolvable("matrix", problem));
        }
    }
    Ok(())
}
