//! Choice of methods and preconditioners, and their construction.

use std::borrow::Cow;

use zellige_krylov::{
    BiCgStab, BlockCg, Cg, Error, Executor, Gmres, Method, Minres, Operator, RelaxedGmres, ReliableUpdates,
};

use super::options::{MethodChoice, Options, PreconditionerChoice, ScalingChoice};
use super::prepare::{PreparedSystem, StoredMatrices};
use crate::csr::Csr;
use crate::precondition::{Amg, BlockJacobi, Chebyshev, Ilu, Jacobi, Lu, NearNull};

/// Returns the methods and preconditioners that [`solve`](super::solve) tries, in the order of the
/// attempts.
pub fn candidates(a: &Csr, options: &Options) -> Vec<(MethodChoice, PreconditionerChoice)> {
    use MethodChoice::{BiCgStab, Cg, Gmres, Minres};
    use PreconditionerChoice::{Amg, Auto, Ilu0, Jacobi};
    let gmres = |restart| Gmres { restart, flexible: false };
    let keeps_symmetry = !matches!(options.scaling, ScalingChoice::Rows | ScalingChoice::Matching)
        && options.inner.keeps_symmetry();
    let is_symmetric = keeps_symmetry && a.is_symmetric();
    let is_positive = is_symmetric && (0..a.rows()).all(|i| a.get(i, i) > 0.0);
    let favours_amg = options.near_null.is_some() || favours_amg(a);
    let all: &[_] = if is_positive && favours_amg {
        &[(Cg, Amg), (Cg, Ilu0), (Cg, Jacobi), (Minres, Jacobi), (gmres(100), Ilu0)]
    } else if is_positive {
        &[(Cg, Ilu0), (Cg, Amg), (Cg, Jacobi), (Minres, Jacobi), (gmres(100), Ilu0)]
    } else if is_symmetric && a.rows() < ONE_CYCLE {
        &[(gmres(100), Ilu0), (BiCgStab { l: 4 }, Ilu0), (Minres, Jacobi), (gmres(200), Jacobi)]
    } else if is_symmetric {
        &[(BiCgStab { l: 4 }, Ilu0), (gmres(100), Ilu0), (Minres, Jacobi), (gmres(200), Jacobi)]
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
    if options.preconditioner == Auto && (is_positive || !options.method.needs_symmetry()) {
        let method = if options.method == MethodChoice::Auto { gmres(10) } else { options.method };
        chosen.push((method, PreconditionerChoice::Lu));
    }
    chosen
}

/// Number of rows below which GMRES(100) mostly solves indefinite systems within one cycle, and
/// takes less time than BiCGStab(4) (`bench/automatic_choice.rs`: 12 825 and 41 140 rows).
const ONE_CYCLE: usize = 25_000;

/// Number of rows from which AMG comes before IC(0). The steps of CG with IC(0) grow as the cube
/// root of the number of rows in three dimensions, those with AMG hardly: on flows and on
/// elasticity (`bench/automatic_choice.rs`) both take the same CPU time between 90 000 and 200 000
/// rows.
const LARGE: usize = 150_000;

/// True for a large matrix with a positive diagonal that takes many steps with incomplete factors.
fn favours_amg(a: &Csr) -> bool {
    a.rows() >= LARGE && !is_dominant(a)
}

/// True if the sum of magnitudes off the diagonal is at most 0.9 of the diagonal entry in every
/// row. Such a matrix, scaled by its diagonal, has a condition number below 20 (Gershgorin).
fn is_dominant(a: &Csr) -> bool {
    let is_row_dominant = |(i, (column, value)): (usize, (&[u32], &[f64]))| {
        let (mut diagonal, mut others) = (0.0, 0.0);
        for (&j, value) in column.iter().zip(value) {
            *(if i == j as usize { &mut diagonal } else { &mut others }) += value.abs();
        }
        others <= 0.9 * diagonal
    };
    a.iter().enumerate().all(is_row_dominant)
}

/// Returns the method of a choice that is not automatic, with its options. `relaxed` are the
/// operators of relaxed products.
pub fn method_of<'o>(
    choice: MethodChoice,
    options: &Options,
    stored: &'o StoredMatrices,
    relaxed: &'o [&'o dyn Operator],
) -> Box<dyn Method + 'o> {
    let cg = |flexible| -> Box<dyn Method + 'o> {
        let cg = Cg { flexible };
        let exact = stored.of_residuals();
        options.reliable.map_or(Box::new(cg), |delta| Box::new(ReliableUpdates::new(cg, exact, delta)))
    };
    match choice {
        MethodChoice::Auto => unreachable!("candidates are not automatic"),
        MethodChoice::Cg => cg(false),
        MethodChoice::Fcg => cg(true),
        MethodChoice::BlockCg => Box::new(BlockCg),
        MethodChoice::Minres => Box::new(Minres),
        MethodChoice::BiCgStab { l } => Box::new(BiCgStab { l }),
        MethodChoice::Gmres { restart, flexible } => {
            let Options { basis, orthogonalisation, .. } = *options;
            let gmres = Gmres { restart, flexible, basis, orthogonalisation };
            if relaxed.is_empty() {
                Box::new(gmres)
            } else {
                Box::new(RelaxedGmres { gmres, narrower: relaxed, slack: SLACK })
            }
        }
    }
}

/// Slack of [`RelaxedGmres`].
const SLACK: f64 = 0.01;

/// Creates the preconditioner of a choice that is not automatic, for a method.
///
/// # Errors
/// Those of its construction.
pub fn preconditioner_of(
    choice: PreconditionerChoice,
    method: MethodChoice,
    rt: &dyn Executor,
    prepared: &PreparedSystem<'_>,
    options: &Options,
) -> Result<Option<Box<dyn Operator>>, Error> {
    let (a, space) = (prepared.scaled_matrix(), prepared.space());
    Ok(Some(match choice {
        PreconditionerChoice::Auto => unreachable!("candidates are not automatic"),
        PreconditionerChoice::None => return Ok(None),
        PreconditionerChoice::Jacobi if method == MethodChoice::Minres => {
            Box::new(Jacobi::absolute(rt, space, a)?)
        }
        PreconditionerChoice::Jacobi => Box::new(Jacobi::new(rt, space, a)?),
        PreconditionerChoice::BlockJacobi { most } => Box::new(BlockJacobi::new(rt, space, a, most)?),
        PreconditionerChoice::Ilu0 => Box::new(Ilu::new(rt, space, a)?),
        PreconditionerChoice::Chebyshev { degree } => Box::new(Chebyshev::new(rt, space, a, degree)?),
        PreconditionerChoice::Lu => {
            let a = regular(prepared)?;
            Box::new(Lu::new(space, &a)?)
        }
        PreconditionerChoice::SingleLu => {
            let a = regular(prepared)?;
            Box::new(Lu::single(space, &a)?)
        }
        PreconditionerChoice::Amg => Box::new(amg_of(rt, prepared, options)?),
    }))
}

/// Sets up AMG for the prepared matrix. If no near null space is chosen, that of a matrix in blocks
/// is searched for: constants are not enough for displacements.
fn amg_of(rt: &dyn Executor, prepared: &PreparedSystem<'_>, options: &Options) -> Result<Amg, Error> {
    let (a, space) = (prepared.scaled_matrix(), prepared.space());
    if let Some(setup) = &options.setup {
        return Amg::of_setup(rt, space, a, setup);
    }
    let block = a.block_size();
    // Columns that were scaled have another near null space.
    let scaled = |mut vector: Vec<f64>| {
        let scales = prepared.scales().map_or(&[][..], |scales| &scales.columns);
        vector.iter_mut().zip(scales).for_each(|(part, scale)| *part /= scale);
        vector
    };
    let near_null = match &options.near_null {
        None if block > 1 => NearNull::Search,
        None => NearNull::Constants,
        Some(NearNull::Constants) => NearNull::Constants,
        Some(NearNull::Search) => NearNull::Search,
        Some(given) => {
            let given = given.vectors(a.rows(), block)?.into_iter();
            NearNull::Vectors(given.map(|vector| scaled(prepared.ordered(&vector))).collect())
        }
    };
    let constants = scaled(vec![1.0; a.rows()]);
    let (amg, setup) = Amg::with_setup(rt, space, a, block, &constants, &near_null)?;
    if let Some(kept) = &options.kept_setup {
        kept.put(setup);
    }
    Ok(amg)
}

/// Returns the matrix that complete factors are made of. With constants in the null space it is
/// singular: with one larger entry on the diagonal it is not, and differs in one direction, for
/// which a method takes one more step.
fn regular<'p>(prepared: &'p PreparedSystem<'_>) -> Result<Cow<'p, Csr>, Error> {
    let a = prepared.scaled_matrix();
    if !prepared.without_constant() {
        return Ok(Cow::Borrowed(a));
    }
    let size = |i: &usize| a.get(*i, *i).abs();
    let largest = (0..a.rows()).max_by(|i, j| size(i).total_cmp(&size(j)));
    Error::if_too_large(|| format!("a copy of a matrix of {} nonzeros", a.nonzeros()), a.memory())?;
    let enlarge = |i: usize, j: u32, value: f64| {
        if largest == Some(i) && i == j as usize { 2.0 * value } else { value }
    };
    Ok(Cow::Owned(a.map_values(enlarge)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use MethodChoice::{BiCgStab, Cg, Gmres};
    use PreconditionerChoice::{Amg, Ilu0, Lu};

    /// Returns the first candidate for a tridiagonal matrix with these entries.
    fn first(
        n: u32,
        diagonal: impl Fn(u32) -> f64,
        below: f64,
        above: f64,
    ) -> (MethodChoice, PreconditionerChoice) {
        let row = |i: u32| {
            let entries = [(i.wrapping_sub(1), below), (i, diagonal(i)), (i + 1, above)];
            entries.into_iter().filter(|(j, _)| *j < n).map(move |(j, value)| (i, j, value))
        };
        let triplets: Vec<_> = (0..n).flat_map(row).collect();
        let a = Csr::from_triplets(n as usize, n as usize, &triplets).unwrap();
        let all = candidates(&a, &Options::default());
        assert_eq!(all.iter().filter(|(_, preconditioner)| *preconditioner == Lu).count(), 1, "{all:?}");
        all[0]
    }

    #[test]
    fn the_first_candidate_depends_on_sign_symmetry_and_size() {
        let alternating = |i: u32| if i.is_multiple_of(2) { 2.0 } else { -2.0 };
        let gmres = Gmres { restart: 100, flexible: false };
        assert_eq!(first(1000, |_| 2.0, -1.0, -1.0), (Cg, Ilu0));
        assert_eq!(first(LARGE as u32, |_| 2.0, -1.0, -1.0), (Cg, Amg));
        assert_eq!(first(LARGE as u32, |_| 3.0, -1.0, -1.0), (Cg, Ilu0), "diagonally dominant");
        assert_eq!(first(1000, alternating, -1.0, -1.0), (gmres, Ilu0));
        assert_eq!(first(ONE_CYCLE as u32, alternating, -1.0, -1.0), (BiCgStab { l: 4 }, Ilu0));
        assert_eq!(first(1000, |_| 2.0, -1.0, -0.5), (BiCgStab { l: 2 }, Ilu0));
    }
}
