//! Cycles of GMRES.

use zellige_kernels::RealNumber;
use zellige_runtime::Submit;

use super::arnoldi::{Arnoldi, Orthogonalisation};
use super::basis::{Basis, Codes, ColumnOf, PIECE, pieces};
use super::hessenberg::{Hessenberg, Solved};
use crate::error::Error;
use crate::executor::Replay;
use crate::inner_solver::{InnerResult, InnerSolver, Limit, Limits, MemoryUse, Method, Setting};
use crate::iteration::{begin_solve, iterate};
use crate::log::Logger;
use crate::numbers::{NumbersHandle, REMEMBERED, columns_of, columns_of_mut};
use crate::operator::{Operator, check_fixed};
use crate::scalar::Scalar;
use crate::space::Space;
use crate::steps::{Steps, Sums};
use crate::storage::Packed;
use crate::task_scope::TaskScope;
use crate::vector::MultiVector;

/// GMRES(m) (Saad and Schultz 1986), for any matrix, preconditioned from the right; flexible
/// (FGMRES, Saad 1993) if the preconditioner changes from step to step. An inner solve is one
/// cycle: the outer iteration restarts it with the recomputed residual.
///
/// ```
/// use zellige_krylov::{Gmres, Solve, Space, Stop, from_fn, solve};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::new()?, Space::new(50, 0));
/// // 3 on the diagonal, 1 behind it.
/// let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = 3.0 * x[i] + x.get(i + 1).unwrap_or(&0.0)));
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &Gmres { restart: 10, ..Gmres::default() }, &[4.0; 50], &mut x, &Stop::RelativeToRhs(1e-12), &mut ())?;
/// assert!(found.reason.is_converged() && (x[0] - 1.0).abs() < 1e-10);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gmres {
    /// Number of steps of a cycle, and of vectors that are kept for it.
    pub restart: usize,
    /// Keeps `M^-1 v_j` as well, in `f64`: one more vector per step, for preconditioners that
    /// change.
    pub flexible: bool,
    /// Orthogonalisation of the basis.
    pub orthogonalisation: Orthogonalisation,
    /// Storage format of the basis.
    pub basis: Packed,
}

impl Default for Gmres {
    /// Returns 50 steps, with vectors in `f64` that are orthogonalised twice.
    fn default() -> Self {
        Gmres {
            restart: 50,
            flexible: false,
            orthogonalisation: Orthogonalisation::default(),
            basis: Packed::default(),
        }
    }
}

impl<E: Scalar> Method<E> for Gmres {
    fn name(&self) -> String {
        let mut name = format!("{}({}", if self.flexible { "fgmres" } else { "gmres" }, self.restart);
        if !self.basis.is_plain() {
            name += &format!(",{}", self.basis.name());
        }
        if self.orthogonalisation != Orthogonalisation::default() {
            name += &format!(",{}", self.orthogonalisation.name());
        }
        name + ")"
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        Ok(Box::new(Prepared::new(self, setting, vec![setting.a], 1.0)?))
    }
}

struct GmresVectors<E: Scalar> {
    /// The residual.
    r: MultiVector<E>,
    basis: Basis<E>,
    /// The last vector of the basis, decoded from its storage.
    v: MultiVector<E>,
    /// `A M^-1 v`, which becomes the next basis vector; at the end `V y`.
    w: MultiVector<E>,
    /// `M^-1 v`, unless there is no preconditioner.
    z: Option<MultiVector<E>>,
    /// The preconditioned vectors of all steps (flexible).
    each: Option<Basis<E>>,
    d: MultiVector<E>,
}

/// A method ready for a system, that multiplies with one of several operators.
pub(super) struct Prepared<'r, E: Scalar> {
    setting: Setting<'r, E>,
    gmres: Gmres,
    /// The most accurate first.
    operators: Vec<&'r dyn Operator<E>>,
    /// Allowed error of a product, relative to `goal / residual`.
    slack: f64,
    vectors: GmresVectors<E>,
    sums: Sums<E>,
    small: Hessenberg,
    numbers: NumbersHandle<E>,
    begin: Replay<'r>,
    /// Graphs `[step][operator]`, recorded when they are first needed; a single step if all are
    /// alike.
    steps: Vec<Vec<Option<Replay<'r>>>>,
    finish: Replay<'r>,
    memory: MemoryUse,
}

/// Refuses bases that do not fit the memory: that of the Krylov space, and its preconditioned form.
fn check_bases<E: Scalar>(gmres: &Gmres, space: &Space, columns: usize) -> Result<(), Error> {
    let vectors = gmres.restart as u64 * columns as u64;
    let of = |format: Packed| vectors * format.bytes(space.len() * E::WORDS) as u64;
    let flexible = if gmres.flexible { of(Packed::default()) } else { 0 };
    let what = || format!("bases of {vectors} vectors with {} numbers", space.len());
    Error::if_too_large(what, of(gmres.basis) + flexible)
}

impl<'r, E: Scalar> Prepared<'r, E> {
    pub(super) fn new(
        gmres: &Gmres,
        setting: Setting<'r, E>,
        operators: Vec<&'r dyn Operator<E>>,
        slack: f64,
    ) -> Result<Self, Error> {
        let Setting { rt, m, columns, .. } = setting;
        let (space, zeros) = (setting.space(), || setting.zeros());
        check(gmres, m)?;
        check_bases::<E>(gmres, space, columns)?;
        if columns > 1 && operators.len() > 1 {
            let problem = format!("{columns}: products are relaxed for one column at a time");
            return Err(Error::parameter("columns", problem));
        }
        let most = gmres.restart;
        let basis = |format| Basis::new(rt, space, columns, most, format);
        let each = (m.is_some() && gmres.flexible).then(|| basis(Packed::default()));
        let basis = basis(gmres.basis);
        let (v, z) = (zeros(), m.map(|_| zeros()));
        let vectors = GmresVectors { r: zeros(), basis, v, w: zeros(), z, each, d: zeros() };
        let small = Hessenberg::new(most);
        let numbers = NumbersHandle::new(rt, columns, small.numbers());
        let sums = Sums::new(rt, space, columns, most + 1);
        let begin = rt.record(|graph| {
            begin(&Steps::new(rt, graph, space, &numbers).with_sums(&sums), &vectors, small)
        })?;
        let of_solution = NumbersHandle::new(rt, columns, Solved::Y + most);
        let finish = rt.record(|graph| {
            let scope = TaskScope::on_all_ranks::<E>();
            graph
                .task("gmres.solve")
                .operands((numbers.read(), of_solution.update()))
                .cpu(move |(s, solved)| {
                    let each = columns_of::<E>(s, columns).zip(columns_of_mut::<E>(solved, columns));
                    scope.run(|| each.for_each(|(s, mut solved)| small.solve(&s, &mut solved)));
                })
                .submit()?;
            finish(&Steps::new(rt, graph, space, &of_solution), &vectors, m)
        })?;
        let basis = vectors.basis.bytes() + vectors.each.as_ref().map_or(0, Basis::bytes);
        let memory = MemoryUse { basis, ..MemoryUse::vectors::<E>(space, if m.is_some() { 5 } else { 4 }) };
        let unlike = match gmres.orthogonalisation {
            Orthogonalisation::Twice => 1,
            Orthogonalisation::Modified => most,
        };
        let steps = (0..unlike).map(|_| operators.iter().map(|_| None).collect()).collect();
        let gmres = *gmres;
        Ok(Prepared {
            setting,
            gmres,
            operators,
            slack,
            vectors,
            sums,
            small,
            numbers,
            begin,
            steps,
            finish,
            memory,
        })
    }

    /// Returns the index of the least accurate operator that is accurate enough for this residual,
    /// or that of the most accurate one.
    fn operator(&self, goal: f64, residual: f64) -> usize {
        let wanted = self.slack * goal / residual;
        self.operators.iter().rposition(|a| a.accuracy() <= wanted).unwrap_or(0)
    }

    /// Returns the graph of step `j` with an operator.
    fn step(&mut self, j: usize, operator: usize) -> Result<&Replay<'r>, Error> {
        let j = j.min(self.steps.len() - 1);
        if self.steps[j][operator].is_none() {
            let rt = self.setting.rt;
            let step = rt.record(|graph| {
                let steps = Steps::new(rt, graph, self.setting.space(), &self.numbers).with_sums(&self.sums);
                self.record(&steps, j, self.operators[operator])
            })?;
            self.steps[j][operator] = Some(step);
        }
        Ok(self.steps[j][operator].as_ref().expect("it was just recorded"))
    }

    fn record(&self, steps: &Steps<'_, E>, j: usize, a: &dyn Operator<E>) -> Result<(), Error> {
        let GmresVectors { basis, v, w, z, each, .. } = &self.vectors;
        if let (Some(m), Some(z)) = (self.setting.m, z) {
            m.apply(steps, v, z)?;
            each.as_ref().map_or(Ok(()), |each| each.keep(steps, z))?;
        }
        a.apply(steps, z.as_ref().unwrap_or(v), w)?;
        let arnoldi = Arnoldi { basis, small: self.small, w };
        arnoldi.orthogonalise(steps, j, self.gmres.orthogonalisation)?;
        // The last step of a cycle ends it, and nothing is stored.
        basis.store(steps, w, Hessenberg::NEXT, v)
    }
}

fn check<E: Scalar>(gmres: &Gmres, m: Option<&dyn Operator<E>>) -> Result<(), Error> {
    gmres.basis.check("basis")?;
    if gmres.restart == 0 {
        return Err(Error::parameter("restart", "a cycle has at least one step"));
    }
    if gmres.flexible { Ok(()) } else { check_fixed(m, "gmres", "fgmres") }
}

impl<E: Scalar> InnerSolver<E> for Prepared<'_, E> {
    fn residual(&self) -> &MultiVector<E> {
        &self.vectors.r
    }

    fn correction(&self) -> &MultiVector<E> {
        &self.vectors.d
    }

    fn memory(&self) -> MemoryUse {
        self.memory
    }

    fn solve(
        &mut self,
        limits: &Limits<'_>,
        logs: &mut [&mut dyn Logger],
    ) -> Result<Vec<InnerResult>, Error> {
        let (rt, numbers, most) = (self.setting.rt, self.numbers.clone(), self.gmres.restart);
        let within = |limit: &Option<Limit>| limit.map(|one| Limit { steps: one.steps.min(most), ..one });
        let of_cycle: Vec<Option<Limit>> = limits.columns.iter().map(within).collect();
        // Only relaxed products use it, and they have one column.
        let goal = limits.columns[0].map_or(0.0, |limit| limit.goal);
        begin_solve(rt, &self.begin, &numbers, &Limits { columns: &of_cycle, ..*limits })?;
        let most_ahead = if self.operators.len() == 1 { REMEMBERED } else { 1 };
        let ended = iterate(rt, &numbers, limits, logs, most_ahead, &mut |j, residual| {
            // The last step of a cycle ends it: tasks submitted after it would do nothing.
            if j < most {
                let operator = self.operator(goal, residual);
                self.step(j, operator)?.run()?;
            }
            Ok(())
        })?;
        self.finish.run()?;
        Ok(ended)
    }
}

/// Records `v_0 = r / |r|`.
fn begin<E: Scalar>(steps: &Steps<'_, E>, v: &GmresVectors<E>, small: Hessenberg) -> Result<(), Error> {
    steps.task("gmres.norm").dot(&v.r, &v.r, 0).submit()?;
    steps.update_numbers("gmres.begin", move |sums, s| small.begin(s, sums[0].real().sqrt()))?;
    v.basis.store(steps, &v.r, Hessenberg::NEXT, &v.v)
}

/// Records `d = M^-1 V y`, or `Z y`.
fn finish<E: Scalar>(
    steps: &Steps<'_, E>,
    v: &GmresVectors<E>,
    m: Option<&dyn Operator<E>>,
) -> Result<(), Error> {
    match (&v.each, m) {
        (Some(each), _) => combination(steps, each, &v.d),
        (None, Some(m)) => {
            combination(steps, &v.basis, &v.w)?;
            m.apply(steps, &v.w, &v.d)
        }
        (None, None) => combination(steps, &v.basis, &v.d),
    }
}

/// Records `to = sum_k y_k v_k`.
fn combination<E: Scalar>(steps: &Steps<'_, E>, basis: &Basis<E>, to: &MultiVector<E>) -> Result<(), Error> {
    let (format, columns) = (basis.format, steps.columns());
    steps.each(
        "gmres.combination",
        |i| (steps.numbers().read(), basis.read(i), to.update(i)),
        move |(numbers, basis, to)| {
            let to = E::of_words_mut(to);
            let (rows, mut gathered) = (to.len() / columns, ColumnOf::buffer(columns));
            for (column, s) in columns_of::<E>(numbers, columns).enumerate() {
                let of = ColumnOf { column, columns };
                let (vectors, codes) =
                    (s.value(Solved::COLUMNS) as usize, Codes::new(format, basis, of, rows));
                for at in pieces(0, rows) {
                    of.change(to, at.clone(), &mut gathered, |to| {
                        to.fill(E::default());
                        for k in 0..vectors {
                            let mut buffer = [E::default(); PIECE];
                            let (v, y) = (codes.piece(k, at.clone(), &mut buffer), s[Solved::Y + k]);
                            to.iter_mut().zip(v).for_each(|(to, v)| *to = *to + y * *v);
                        }
                    });
                }
            }
        },
    )
}
