//! Options of the solution of a system, and their words.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use zellige_krylov::{Error, Orthogonalisation, Packed, Stop};

use crate::adaptive::{Accuracy, Adaptation, Criterion, FormatSet, UnknownSet};
use crate::precondition::{AmgSetup, BlockJacobi, NearNull};

/// Options of the solution of a system.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The method.
    pub method: MethodChoice,
    /// The preconditioner.
    pub preconditioner: PreconditionerChoice,
    /// Near null space for [AMG](PreconditionerChoice::Amg); none: it is searched for if the rows
    /// come in blocks.
    pub near_null: Option<NearNull>,
    /// Set-up that [AMG](PreconditionerChoice::Amg) uses, of this matrix or of one with other
    /// values of the same nonzeros; none: a new one is made.
    pub setup: Option<Arc<AmgSetup>>,
    /// Place for a new set-up of AMG.
    pub kept_setup: Option<KeptSetup>,
    /// Matrix that the method multiplies with.
    pub inner: Inner,
    /// Vector that formats are chosen for if a copy's criterion needs one (`cw-exact`), such as an
    /// estimate of the answer. It has no zeros.
    pub x_for: Option<Vec<f64>>,
    /// Storage format of the GMRES basis.
    pub basis: Packed,
    /// Orthogonalisation of GMRES.
    pub orthogonalisation: Orthogonalisation,
    /// Copies that GMRES switches to as its residual becomes small
    /// ([`RelaxedGmres`](zellige_krylov::RelaxedGmres)), the most accurate first.
    pub relaxed: Vec<Inner>,
    /// Factor, between 0 and 1, of reliable updates: conjugate gradients with a narrow copy replace
    /// their residual by the recomputed one once it has decreased by this factor
    /// ([`ReliableUpdates`](zellige_krylov::ReliableUpdates)).
    pub reliable: Option<f64>,
    /// Scaling of rows and columns for the method.
    pub scaling: ScalingChoice,
    /// Stopping criteria; the first that is met stops the iteration.
    pub stop: Vec<Stop>,
    /// True if the unknowns are reordered, so that neighbours are close (reverse Cuthill-McKee).
    pub reorder: bool,
    /// True if constant vectors are in the null space: they are removed from the right-hand side
    /// and from the answer.
    pub without_constant: bool,
}

impl Default for Options {
    /// Chooses everything automatically, with a tolerance of `1e-10` relative to the right-hand
    /// side and at most 10 000 steps.
    fn default() -> Self {
        Options {
            method: MethodChoice::default(),
            preconditioner: PreconditionerChoice::default(),
            near_null: None,
            setup: None,
            kept_setup: None,
            inner: Inner::default(),
            x_for: None,
            basis: Packed::default(),
            orthogonalisation: Orthogonalisation::default(),
            relaxed: Vec::new(),
            reliable: None,
            scaling: ScalingChoice::default(),
            stop: vec![Stop::RelativeToRhs(1e-10), Stop::Steps(10_000)],
            reorder: false,
            without_constant: false,
        }
    }
}

/// Place that a system puts its new set-up of AMG in.
#[derive(Clone, Debug, Default)]
pub struct KeptSetup(Arc<OnceLock<AmgSetup>>);

impl KeptSetup {
    /// Returns the set-up, if one was made.
    pub fn get(&self) -> Option<&AmgSetup> {
        self.0.get()
    }

    /// Keeps a set-up, unless there is one.
    pub(super) fn put(&self, setup: AmgSetup) {
        let _ = self.0.set(setup);
    }
}

/// Two are equal if they are the same place.
impl PartialEq for KeptSetup {
    fn eq(&self, other: &KeptSetup) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Names of the methods, without `auto`.
const METHODS: [&str; 8] = ["cg", "fcg", "block-cg", "minres", "bicgstab", "bicgstabl", "gmres", "fgmres"];
/// Names of the preconditioners, without `auto`.
const PRECONDITIONERS: [&str; 8] = ["none", "jacobi", "block", "ilu0", "ic0", "chebyshev", "amg", "lu"];

/// Choice of the method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MethodChoice {
    /// Several are tried, as the matrix suggests.
    #[default]
    Auto,
    /// Conjugate gradients.
    Cg,
    /// The flexible kind.
    Fcg,
    /// Conjugate gradients in one Krylov space for up to eight right-hand sides.
    BlockCg,
    /// Minimal residuals, for symmetric matrices.
    Minres,
    /// BiCGStab(l).
    BiCgStab {
        /// Degree of the polynomial.
        l: usize,
    },
    /// GMRES with restarts.
    Gmres {
        /// Steps of a cycle.
        restart: usize,
        /// FGMRES.
        flexible: bool,
    },
}

impl MethodChoice {
    /// Returns true for conjugate gradients of any kind.
    pub fn is_cg(self) -> bool {
        matches!(self, MethodChoice::Cg | MethodChoice::Fcg | MethodChoice::BlockCg)
    }

    /// Returns true for methods that are for symmetric matrices only.
    pub fn needs_symmetry(self) -> bool {
        self == MethodChoice::Minres || self.is_cg()
    }
}

impl fmt::Display for MethodChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MethodChoice::Auto => f.pad("auto"),
            MethodChoice::Cg => f.pad("cg"),
            MethodChoice::Fcg => f.pad("fcg"),
            MethodChoice::BlockCg => f.pad("block-cg"),
            MethodChoice::Minres => f.pad("minres"),
            MethodChoice::BiCgStab { l: 1 } => f.pad("bicgstab"),
            MethodChoice::BiCgStab { l } => write!(f, "bicgstabl:{l}"),
            MethodChoice::Gmres { restart, flexible: false } => write!(f, "gmres:{restart}"),
            MethodChoice::Gmres { restart, flexible: true } => write!(f, "fgmres:{restart}"),
        }
    }
}

/// Parses a number after the name, like `gmres:40`.
fn number(name: &'static str, text: Option<&str>, otherwise: usize, most: usize) -> Result<usize, Error> {
    let Some(text) = text else { return Ok(otherwise) };
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(Error::parameter(name, format!("{text:?} is not a number from 1 to {most}"))),
    }
}

/// Splits a word and the text after its colon.
fn split(text: &str) -> (String, Option<&str>) {
    match text.trim().split_once(':') {
        Some((name, rest)) => (name.to_lowercase(), Some(rest)),
        None => (text.trim().to_lowercase(), None),
    }
}

impl FromStr for MethodChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, rest) = split(text);
        if rest.is_some() && ["auto", "cg", "fcg", "minres", "bicgstab"].contains(&name.as_str()) {
            return Err(Error::parameter("method", format!("{name} takes no number: {text:?}")));
        }
        let restart = || number("method", rest, 40, 1000);
        match name.as_str() {
            "auto" => Ok(MethodChoice::Auto),
            "cg" => Ok(MethodChoice::Cg),
            "fcg" => Ok(MethodChoice::Fcg),
            "block-cg" => Ok(MethodChoice::BlockCg),
            "minres" => Ok(MethodChoice::Minres),
            "bicgstab" => Ok(MethodChoice::BiCgStab { l: 1 }),
            "bicgstabl" => Ok(MethodChoice::BiCgStab { l: number("method", rest, 2, 8)? }),
            "gmres" => Ok(MethodChoice::Gmres { restart: restart()?, flexible: false }),
            "fgmres" => Ok(MethodChoice::Gmres { restart: restart()?, flexible: true }),
            _ => {
                let known = "auto, cg, fcg, minres, bicgstab, bicgstabl:4, gmres:40, fgmres:40";
                let is_other = PRECONDITIONERS.contains(&name.as_str());
                let other = if is_other { "a preconditioner (--precond), " } else { "" };
                Err(Error::parameter("method", format!("{text:?} is {other}not one of {known}")))
            }
        }
    }
}

/// Choice of the preconditioner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreconditionerChoice {
    /// Several are tried, as the matrix suggests.
    #[default]
    Auto,
    /// No preconditioner.
    None,
    /// The diagonal.
    Jacobi,
    /// Blocks on the diagonal.
    BlockJacobi {
        /// Rows that a block may have.
        most: usize,
    },
    /// Incomplete factors.
    Ilu0,
    /// A polynomial.
    Chebyshev {
        /// Degree of the polynomial.
        degree: usize,
    },
    /// Smoothed aggregation.
    Amg,
    /// Complete factors: a direct solver.
    Lu,
    /// Complete factors in `f32`: GMRES-IR with GMRES.
    SingleLu,
}

impl FromStr for PreconditionerChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, rest) = split(text);
        if rest.is_some() && ["auto", "none", "jacobi", "ilu0", "ic0", "amg"].contains(&name.as_str()) {
            return Err(Error::parameter("precond", format!("{name} takes no number: {text:?}")));
        }
        match name.as_str() {
            "auto" => Ok(PreconditionerChoice::Auto),
            "none" => Ok(PreconditionerChoice::None),
            "jacobi" => Ok(PreconditionerChoice::Jacobi),
            "block" => Ok(PreconditionerChoice::BlockJacobi {
                most: number("precond", rest, 16, BlockJacobi::MOST)?,
            }),
            "ilu0" | "ic0" => Ok(PreconditionerChoice::Ilu0),
            "chebyshev" => Ok(PreconditionerChoice::Chebyshev { degree: number("precond", rest, 4, 100)? }),
            "amg" => Ok(PreconditionerChoice::Amg),
            "lu" => match rest {
                None | Some("fp64") => Ok(PreconditionerChoice::Lu),
                Some("fp32") => Ok(PreconditionerChoice::SingleLu),
                Some(other) => {
                    Err(Error::parameter("precond", format!("{other:?} is neither fp64 nor fp32")))
                }
            },
            _ => {
                let known = "auto, none, jacobi, block:16, ilu0, ic0, chebyshev:4, amg, lu, lu:fp32";
                let other = if METHODS.contains(&name.as_str()) { "a method (--method), " } else { "" };
                Err(Error::parameter("precond", format!("{text:?} is {other}not one of {known}")))
            }
        }
    }
}

impl fmt::Display for PreconditionerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PreconditionerChoice::Auto => f.pad("auto"),
            PreconditionerChoice::None => f.pad("none"),
            PreconditionerChoice::Jacobi => f.pad("jacobi"),
            PreconditionerChoice::BlockJacobi { most } => write!(f, "block:{most}"),
            PreconditionerChoice::Ilu0 => f.pad("ilu0"),
            PreconditionerChoice::Chebyshev { degree } => write!(f, "chebyshev:{degree}"),
            PreconditionerChoice::Amg => f.pad("amg"),
            PreconditionerChoice::Lu => f.pad("lu"),
            PreconditionerChoice::SingleLu => f.pad("lu:fp32"),
        }
    }
}

/// Reference that the magnitude of a nonzero is compared with, like [`Criterion`] without its
/// vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CriterionChoice {
    /// The norm of the matrix.
    Normwise,
    /// The norm of the nonzero's row.
    #[default]
    Componentwise,
    /// The norm of the nonzero's row times a vector ([`Options::x_for`]).
    ComponentwiseFor,
    /// The norm of the nonzero's row times its weight; [`Options::x_for`] has the weights.
    Rows,
}

impl CriterionChoice {
    /// Returns the criterion, for this vector.
    pub fn of(self, x: &[f64]) -> Criterion<'_> {
        match self {
            CriterionChoice::Normwise => Criterion::Normwise,
            CriterionChoice::Componentwise => Criterion::Componentwise,
            CriterionChoice::ComponentwiseFor => Criterion::ComponentwiseFor(x),
            CriterionChoice::Rows => Criterion::Rows(x),
        }
    }
}

impl FromStr for CriterionChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        use CriterionChoice::{Componentwise, ComponentwiseFor, Normwise};
        let is_named = |choice: &Self| choice.of(&[]).name().eq_ignore_ascii_case(text);
        let found = [Normwise, Componentwise, ComponentwiseFor].into_iter().find(is_named);
        found.ok_or_else(|| Error::parameter("criterion", format!("{text:?} is not one of nw, cw, cw-exact")))
    }
}

/// Matrix that the method multiplies with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Inner {
    /// The matrix itself, in `f64`.
    #[default]
    Exact,
    /// A copy in `f32`.
    Single,
    /// A copy in the one format of a set, with all nonzeros.
    Uniform(FormatSet),
    /// A copy whose nonzeros are stored in the precision that their magnitude requires.
    Adaptive {
        /// Formats of the copy.
        set: FormatSet,
        /// Criterion that magnitudes are compared with.
        criterion: CriterionChoice,
        /// The accuracy of products.
        accuracy: Accuracy,
        /// Rows and columns of the blocks that it is stored in, 1 to 4; none: that with the fewest
        /// bytes in `f64`.
        block_size: Option<usize>,
    },
    /// The copy in the set and the blocks whose products are fastest on this machine with its
    /// workers, by measured costs; the matrix itself if none is faster. Another run may choose
    /// another copy: answers can differ in their last bits.
    Auto {
        /// Criterion that magnitudes are compared with.
        criterion: CriterionChoice,
        /// The accuracy of products.
        accuracy: Accuracy,
    },
}

/// Layouts of copies, by their block size.
const LAYOUTS: [&str; 4] = ["tiled", "bsr2", "bsr3", "bsr4"];

impl Inner {
    /// Returns the accuracy of products.
    pub fn accuracy(&self) -> f64 {
        match self {
            Inner::Auto { accuracy, .. } => accuracy.get(),
            _ => self.adaptation(&[]).accuracy.get(),
        }
    }

    /// Returns the adaptation of the copy; `x` is the vector for the criterion `ComponentwiseFor`.
    pub fn adaptation<'x>(&self, x: &'x [f64]) -> Adaptation<'x> {
        match *self {
            Inner::Exact => Adaptation::double(),
            Inner::Single => Adaptation::single(),
            Inner::Uniform(set) => Adaptation::uniform(set),
            Inner::Adaptive { set, criterion, accuracy, .. } => {
                Adaptation::new(set, criterion.of(x), accuracy)
            }
            // Any chosen copy has this criterion and accuracy.
            Inner::Auto { criterion, accuracy } => Adaptation::new(FormatSet::Ap7, criterion.of(x), accuracy),
        }
    }

    /// Returns the block size, if one is set.
    pub fn block_size(&self) -> Option<usize> {
        match *self {
            Inner::Adaptive { block_size, .. } => block_size,
            _ => None,
        }
    }

    /// Returns true if the stored form of a symmetric matrix can be symmetric: scaled formats have
    /// a scale for each row under a criterion of rows.
    pub fn keeps_symmetry(&self) -> bool {
        match self {
            Inner::Adaptive { set, criterion, .. } => {
                *criterion == CriterionChoice::Normwise || !set.has_scales()
            }
            _ => true,
        }
    }

    /// Returns true if rows have accuracies of their own.
    pub(super) fn has_row_weights(&self) -> bool {
        let (Inner::Adaptive { criterion, .. } | Inner::Auto { criterion, .. }) = self else { return false };
        *criterion == CriterionChoice::Rows
    }

    /// Returns true if the formats are chosen for a vector.
    pub fn is_for_vector(&self) -> bool {
        use CriterionChoice::{ComponentwiseFor, Rows};
        matches!(
            self,
            Inner::Adaptive { criterion: ComponentwiseFor | Rows, .. }
                | Inner::Auto { criterion: ComponentwiseFor | Rows, .. }
        )
    }
}

impl FromStr for Inner {
    type Err = Error;

    /// Parses `fp64`, `fp32`, `rp16`, `ap7:nw:2^-24`, `ap7:nw:2^-24:bsr3`, `auto:cw:2^-24`, and
    /// `auto`, which is short for the last one.
    fn from_str(text: &str) -> Result<Self, Error> {
        if text.trim().eq_ignore_ascii_case("fp64") {
            return Ok(Inner::Exact);
        }
        if text.trim().eq_ignore_ascii_case("fp32") {
            return Ok(Inner::Single);
        }
        if let Some(set) = text.trim().parse().ok().filter(|set: &FormatSet| set.is_uniform()) {
            return Ok(Inner::Uniform(set));
        }
        let parts: Vec<&str> = text.trim().split(':').collect();
        let (set, criterion, eps, layout) = match parts[..] {
            [auto] if auto.eq_ignore_ascii_case("auto") => ("auto", "cw", "2^-24", None),
            [set, criterion, eps] => (set, criterion, eps, None),
            [set, criterion, eps, layout] => (set, criterion, eps, Some(layout)),
            _ => {
                let problem = format!(
                    "{text:?} is not fp64 to rp16, auto, or a set (or auto), a criterion and an accuracy like ap7:cw:2^-24"
                );
                return Err(Error::parameter("operator", problem));
            }
        };
        let (criterion, accuracy) = (criterion.parse()?, eps.parse()?);
        if set.eq_ignore_ascii_case("auto") {
            return match layout {
                None => Ok(Inner::Auto { criterion, accuracy }),
                Some(_) => {
                    Err(Error::parameter("operator", format!("{text:?}: auto also chooses the layout")))
                }
            };
        }
        let block_size = layout.map(|layout| {
            let place = LAYOUTS.iter().position(|name| name.eq_ignore_ascii_case(layout));
            let wrong =
                || Error::parameter("operator", format!("{layout:?} is not one of {}", LAYOUTS.join(", ")));
            place.map(|place| place + 1).ok_or_else(wrong)
        });
        let block_size = block_size.transpose()?;
        let set = set.parse().map_err(|error: UnknownSet| Error::parameter("operator", error.to_string()))?;
        Ok(Inner::Adaptive { set, criterion, accuracy, block_size })
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inner::Exact => f.pad("fp64"),
            Inner::Single => f.pad("fp32"),
            Inner::Uniform(set) => f.pad(&set.name().to_lowercase()),
            Inner::Adaptive { set, criterion, accuracy, block_size } => {
                write!(f, "{}:{}:{accuracy}", set.name().to_lowercase(), criterion.of(&[]).name())?;
                block_size.map_or(Ok(()), |block_size| write!(f, ":{}", LAYOUTS[(block_size - 1).min(3)]))
            }
            Inner::Auto { criterion, accuracy } => write!(f, "auto:{}:{accuracy}", criterion.of(&[]).name()),
        }
    }
}

/// Scaling of rows and columns, and permutation of rows, before a narrow copy or a preconditioner
/// is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScalingChoice {
    /// Matching if the diagonal has zeros, and for nonsymmetric matrices also if the diagonal is
    /// small or rows have very different sizes. Otherwise `Both` for a narrow copy and for rows of
    /// very different sizes.
    #[default]
    Auto,
    /// Nothing.
    None,
    /// Rows (thesis, chapter 3, section 5.2, but by powers of two): `D^-1 A`; symmetric matrices
    /// are not any more.
    Rows,
    /// Equal scales of rows and columns: symmetric matrices stay symmetric.
    Both,
    /// Rows are permuted to maximise the product of the diagonal, and rows and columns are scaled
    /// so that it has ones (Duff and Koster 2001): symmetric matrices lose their symmetry.
    Matching,
}

impl FromStr for ScalingChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.trim().to_lowercase().as_str() {
            "auto" => Ok(ScalingChoice::Auto),
            "none" => Ok(ScalingChoice::None),
            "rows" => Ok(ScalingChoice::Rows),
            "both" => Ok(ScalingChoice::Both),
            "matching" => Ok(ScalingChoice::Matching),
            _ => {
                let known = "auto, none, rows, both, matching";
                Err(Error::parameter("scale", format!("{text:?} is not one of {known}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood() -> Result<(), Error> {
        assert_eq!("GMRES:80".parse::<MethodChoice>()?, MethodChoice::Gmres { restart: 80, flexible: false });
        assert_eq!("bicgstabl:4".parse::<MethodChoice>()?, MethodChoice::BiCgStab { l: 4 });
        for word in
            ["auto", "cg", "fcg", "block-cg", "minres", "bicgstab", "bicgstabl:4", "gmres:40", "fgmres:9"]
        {
            assert_eq!(word.parse::<MethodChoice>()?.to_string(), word);
        }
        assert_eq!("chebyshev:7".parse::<PreconditionerChoice>()?.to_string(), "chebyshev:7");
        assert_eq!("block".parse::<PreconditionerChoice>()?.to_string(), "block:16");
        assert_eq!("LU:fp32".parse::<PreconditionerChoice>()?.to_string(), "lu:fp32");
        assert!("lu:fp16".parse::<PreconditionerChoice>().is_err());
        assert_eq!("AP7:nw:2^-24".parse::<Inner>()?.to_string(), "ap7:nw:2^-24");
        assert_eq!("ap4:CW-exact:2^-24".parse::<Inner>()?.to_string(), "ap4:cw-exact:2^-24");
        assert_eq!("ap2:cw:2^-20:BSR3".parse::<Inner>()?.to_string(), "ap2:cw:2^-20:bsr3");
        assert_eq!("auto".parse::<Inner>()?.to_string(), "auto:cw:2^-24");
        assert_eq!("auto:nw:2^-37".parse::<Inner>()?.to_string(), "auto:nw:2^-37");
        assert_eq!("fp64".parse::<Inner>()?, Inner::Exact);
        assert_eq!("RP16".parse::<Inner>()?.to_string(), "rp16");
        assert_eq!("FP32".parse::<Inner>()?.to_string(), "fp32");
        Ok(())
    }

    #[test]
    fn other_words_are_refused_with_what_would_do() {
        let problem = |error: Error| error.to_string();
        assert!(problem("cg:3".parse::<MethodChoice>().unwrap_err()).contains("takes no number"));
        assert!(problem("gmres:0".parse::<MethodChoice>().unwrap_err()).contains("1 to 1000"));
        assert!(problem("gmers".parse::<MethodChoice>().unwrap_err()).contains("gmres:40"));
        assert!(problem("ilu".parse::<PreconditionerChoice>().unwrap_err()).contains("ilu0"));
        for method in ["cg", "gmres:40", "BiCGStab"] {
            let said = problem(method.parse::<PreconditionerChoice>().unwrap_err());
            assert!(said.contains("is a method (--method)"), "{said}");
        }
        for other in ["ilu0", "block:16", "lu:fp32"] {
            let said = problem(other.parse::<MethodChoice>().unwrap_err());
            assert!(said.contains("is a preconditioner (--precond)"), "{said}");
        }
        assert!(problem("ap7:xw:2^-24".parse::<Inner>().unwrap_err()).contains("not one of nw, cw"));
        assert!(problem("ap9:nw:2^-24".parse::<Inner>().unwrap_err()).contains("ap7"));
        assert!(problem("ap7".parse::<Inner>().unwrap_err()).contains("ap7:cw:2^-24"));
        assert!("ap7:nw:2".parse::<Inner>().is_err());
        assert!(problem("ap7:nw:2^-24:bsr5".parse::<Inner>().unwrap_err()).contains("bsr3"));
        assert!(problem("auto:nw:2^-24:bsr3".parse::<Inner>().unwrap_err()).contains("layout"));
    }
}
