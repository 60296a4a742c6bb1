//! What is tried, and how it is made.

use zellige_runtime::Runtime;

use super::{MethodChoice, Options, PreconditionerChoice, ScalingChoice};
use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::precondition::{Amg, BlockJacobi, Chebyshev, Ilu, Jacobi};
use crate::krylov::{BasisFormat, BiCgStab, Cg, Gmres, Method, Minres, Preconditioner, best_edge};
use crate::space::Space;

/// What is tried, in this order.
pub fn candidates(a: &Csr, options: &Options) -> Vec<(MethodChoice, PreconditionerChoice)> {
    use MethodChoice::{BiCgStab, Cg, Gmres, Minres};
    use PreconditionerChoice::{Amg, Auto, Ilu0, Jacobi};
    let gmres = |restart| Gmres { restart, flexible: false };
    let keeps_symmetry = options.scaling != ScalingChoice::Rows;
    let is_symmetric = keeps_symmetry && a.is_symmetric();
    let is_positive = is_symmetric && (0..a.rows()).all(|i| a.get(i, i) > 0.0);
    let all: &[_] = if is_positive {
        &[(Cg, Ilu0), (Cg, Amg), (Cg, Jacobi), (Minres, Jacobi), (gmres(100), Ilu0)]
    } else if is_symmetric {
        &[(gmres(100), Ilu0), (Minres, Jacobi), (BiCgStab { l: 4 }, Ilu0), (gmres(200), Jacobi)]
    } else {
        &[(BiCgStab { l: 2 }, Ilu0), (gmres(40), Ilu0), (gmres(100), Ilu0), (gmres(100), Jacobi)]
    };
    let mut chosen = Vec::new();
    for &(method, preconditioner) in all {
        let method = if options.method == MethodChoice::Auto { method } else { options.method };
        let preconditioner =
            if options.preconditioner == Auto { preconditioner } else { options.preconditioner };
        if !chosen.contains(&(method, preconditioner)) {
            chosen.push((method, preconditioner));
        }
    }
    chosen
}

/// The method of a choice that is not automatic; GMRES with vectors in this format.
pub fn method_of(choice: MethodChoice, basis: BasisFormat) -> Box<dyn Method> {
    match choice {
        MethodChoice::Auto => unreachable!("candidates are none"),
        MethodChoice::Cg => Box::new(Cg { flexible: false }),
        MethodChoice::Fcg => Box::new(Cg { flexible: true }),
        MethodChoice::Minres => Box::new(Minres),
        MethodChoice::BiCgStab { l } => Box::new(BiCgStab { l }),
        MethodChoice::Gmres { restart, flexible } => {
            Box::new(Gmres { restart, flexible, basis, ..Gmres::default() })
        }
    }
}

/// The preconditioner of a choice that is not automatic, for a method.
///
/// # Errors
/// Those of making it.
pub fn preconditioner_of(
    choice: PreconditionerChoice,
    method: MethodChoice,
    rt: &Runtime,
    space: &Space,
    a: &Csr,
) -> Result<Option<Box<dyn Preconditioner>>, Error> {
    Ok(Some(match choice {
        PreconditionerChoice::Auto => unreachable!("candidates are none"),
        PreconditionerChoice::None => return Ok(None),
        PreconditionerChoice::Jacobi if method == MethodChoice::Minres => {
            Box::new(Jacobi::absolute(rt, space, a)?)
        }
        PreconditionerChoice::Jacobi => Box::new(Jacobi::new(rt, space, a)?),
        PreconditionerChoice::BlockJacobi { most } => Box::new(BlockJacobi::new(rt, space, a, most)?),
        PreconditionerChoice::Ilu0 => Box::new(Ilu::new(rt, space, a)?),
        PreconditionerChoice::Chebyshev { degree } => Box::new(Chebyshev::new(rt, space, a, degree)?),
        PreconditionerChoice::Amg => Box::new(Amg::new(rt, space, a, best_edge(a))?),
    }))
}
