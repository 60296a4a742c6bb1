//! Generalised minimal residuals.

mod arnoldi;
mod basis;
mod hessenberg;
mod relaxed;

pub use arnoldi::Orthogonalisation;
pub use basis::BasisFormat;
pub use relaxed::RelaxedGmres;

use zellige_runtime::{Bindings, Graph, Runtime, Submit, read, update};

use self::arnoldi::Arnoldi;
use self::basis::{Basis, PIECE};
use self::hessenberg::{Hessenberg, Solved};
use super::grains::dots;
use super::operator::check_fixed;
use super::rounds::{self, Ended, Limits};
use super::scalars::Scalars;
use super::steps::{ScalarsHandle, Steps, Sums};
use super::{Correction, Kept, Logger, Method, Operator, Preconditioner};
use crate::error::Error;
use crate::space::{Space, Vector};

/// GMRES(m) (Saad and Schultz 1986), for any matrix, preconditioned from the right; flexible (FGMRES, Saad 1993) where the preconditioner changes from
/// step to step. A run is one cycle: the loop around it restarts with the true residual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gmres {
    /// Steps of a cycle, and vectors that are kept for it.
    pub restart: usize,
    /// Keeps `M^-1 v_j` as well, in `f64`: one more vector per step, for preconditioners that change.
    pub flexible: bool,
    /// How vectors are made orthogonal.
    pub orthogonalisation: Orthogonalisation,
    /// How vectors are stored.
    pub basis: BasisFormat,
}

impl Default for Gmres {
    /// 50 steps, vectors in `f64`, orthogonalised twice.
    fn default() -> Self {
        Gmres {
            restart: 50,
            flexible: false,
            orthogonalisation: Orthogonalisation::default(),
            basis: BasisFormat::default(),
        }
    }
}

impl Method for Gmres {
    fn name(&self) -> String {
        let mut name = format!("{}({}", if self.flexible { "fgmres" } else { "gmres" }, self.restart);
        if self.basis != BasisFormat::default() {
            name += &format!(",{}", self.basis.name());
        }
        if self.orthogonalisation != Orthogonalisation::default() {
            name += &format!(",{}", self.orthogonalisation.name());
        }
        name + ")"
    }

    fn prepare<'r>(
        &'r self,
        rt: &'r Runtime,
        space: &'r Space,
        a: &'r dyn Operator,
        m: Option<&'r dyn Preconditioner>,
    ) -> Result<Box<dyn Correction + 'r>, Error> {
        Ok(Box::new(Prepared::new(self, rt, space, vec![a], 1.0, m)?))
    }
}

struct Vectors {
    /// The residual.
    r: Vector,
    basis: Basis,
    /// The last vector of the basis, as it is read back.
    v: Vector,
    /// `A M^-1 v`, on its way to be the next one; at the end `V y`.
    w: Vector,
    /// `M^-1 v`, unless there is no preconditioner.
    z: Option<Vector>,
    /// All of them (flexible).
    each: Option<Basis>,
    d: Vector,
}

/// A method ready for a system, that multiplies with one of several operators.
struct Prepared<'r> {
    rt: &'r Runtime,
    space: &'r Space,
    gmres: Gmres,
    /// The most accurate first.
    operators: Vec<&'r dyn Operator>,
    /// How inaccurate a product may be, beside `goal / residual`.
    slack: f64,
    m: Option<&'r dyn Preconditioner>,
    vectors: Vectors,
    sums: Sums,
    small: Hessenberg,
    scalars: ScalarsHandle,
    begin: Graph,
    /// `[step][operator]`, recorded when they are first needed; one step where all are alike.
    steps: Vec<Vec<Option<Bindings>>>,
    finish: Graph,
    kept: Kept,
}

/// Refuses bases that do not fit the memory: that of the Krylov space, and that of what the preconditioner made of it.
fn check_bases(gmres: &Gmres, space: &Space) -> Result<(), Error> {
    let of = |format: BasisFormat| gmres.restart as u64 * format.bytes(space.len()) as u64;
    let flexible = if gmres.flexible { of(BasisFormat::default()) } else { 0 };
    let what = || format!("a basis of {} vectors with {} numbers", gmres.restart, space.len());
    Error::if_too_large(what, of(gmres.basis) + flexible)
}

impl<'r> Prepared<'r> {
    fn new(
        gmres: &Gmres,
        rt: &'r Runtime,
        space: &'r Space,
        operators: Vec<&'r dyn Operator>,
        slack: f64,
        m: Option<&'r dyn Preconditioner>,
    ) -> Result<Self, Error> {
        check(gmres, m)?;
        check_bases(gmres, space)?;
        let (most, zeros) = (gmres.restart, || space.zeros(rt));
        let each =
            (m.is_some() && gmres.flexible).then(|| Basis::new(rt, space, most, BasisFormat::default()));
        let basis = Basis::new(rt, space, most, gmres.basis);
        let (v, z) = (zeros(), m.map(|_| zeros()));
        let vectors = Vectors { r: zeros(), basis, v, w: zeros(), z, each, d: zeros() };
        let small = Hessenberg::new(most);
        let scalars = rt.register(Scalars::zeros(small.numbers()));
        let sums = Sums::new(rt, space, most + 1);
        let begin =
            rt.record(|graph| begin(&Steps::new(graph, space, &scalars), &vectors, small, &sums, most + 1))?;
        let of_solution = rt.register(Scalars::zeros(Solved::Y + most));
        let finish = rt.record(|graph| {
            graph
                .task("gmres.solve")
                .operands((read(&scalars), update(&of_solution)))
                .cpu(move |(s, solved)| {
                    small.solve(&Scalars::new(s), &mut Scalars::new(solved));
                })
                .submit()?;
            finish(&Steps::new(graph, space, &of_solution), &vectors, m)
        })?;
        let basis = vectors.basis.bytes() + vectors.each.as_ref().map_or(0, Basis::bytes);
        let kept = Kept { basis, ..Kept::vectors(space, if m.is_some() { 5 } else { 4 }) };
        let unlike = match gmres.orthogonalisation {
            Orthogonalisation::Twice => 1,
            Orthogonalisation::Modified => most,
        };
        let steps = (0..unlike).map(|_| operators.iter().map(|_| None).collect()).collect();
        Ok(Prepared {
            rt,
            space,
            gmres: *gmres,
            operators,
            slack,
            m,
            vectors,
            sums,
            small,
            scalars,
            begin,
            steps,
            finish,
            kept,
        })
    }

    /// The least accurate operator that is accurate enough beside this residual, or the most accurate one.
    fn operator(&self, goal: f64, residual: f64) -> usize {
        let wanted = self.slack * goal / residual;
        self.operators.iter().rposition(|a| a.accuracy() <= wanted).unwrap_or(0)
    }

    /// The graph of step `j` with an operator.
    fn step(&mut self, j: usize, operator: usize) -> Result<&Bindings, Error> {
        let j = j.min(self.steps.len() - 1);
        if self.steps[j][operator].is_none() {
            let graph = self.rt.record(|graph| {
                let steps = Steps::new(graph, self.space, &self.scalars);
                self.record(&steps, j, self.operators[operator])
            })?;
            self.steps[j][operator] = Some(Bindings::recorded(&graph));
        }
        Ok(self.steps[j][operator].as_ref().expect("it was just recorded"))
    }

    fn record(&self, steps: &Steps<'_>, j: usize, a: &dyn Operator) -> Result<(), Error> {
        let Vectors { basis, v, w, z, each, .. } = &self.vectors;
        if let (Some(m), Some(z)) = (self.m, z) {
            m.apply(steps, v, z)?;
            each.as_ref().map_or(Ok(()), |each| each.keep(steps, z))?;
        }
        a.apply(steps, z.as_ref().unwrap_or(v), w)?;
        let width = self.gmres.restart + 1;
        let arnoldi = Arnoldi { basis, small: self.small, w, sums: &self.sums, width };
        arnoldi.orthogonalise(steps, j, self.gmres.orthogonalisation)?;
        // The last step of a cycle ends it, and nothing is stored.
        basis.store(steps, w, Hessenberg::NEXT, v)
    }
}

fn check(gmres: &Gmres, m: Option<&dyn Preconditioner>) -> Result<(), Error> {
    gmres.basis.check()?;
    if gmres.restart == 0 {
        return Err(Error::parameter("restart", "a cycle has at least one step"));
    }
    if gmres.flexible { Ok(()) } else { check_fixed(m, "gmres", "fgmres") }
}

impl Correction for Prepared<'_> {
    fn residual(&self) -> &Vector {
        &self.vectors.r
    }

    fn correction(&self) -> &Vector {
        &self.vectors.d
    }

    fn kept(&self) -> Kept {
        self.kept
    }

    fn run(&mut self, limits: &Limits<'_>, log: &mut dyn Logger) -> Result<Ended, Error> {
        let (rt, scalars, most) = (self.rt, self.scalars.clone(), self.gmres.restart);
        let of_cycle = Limits { steps: limits.steps.min(most), ..*limits };
        rounds::begin(rt, &self.begin, &scalars, &of_cycle)?;
        let most_ahead = if self.operators.len() == 1 { Scalars::REMEMBERED } else { 1 };
        let ended = rounds::run_each(rt, &scalars, limits, log, most_ahead, &mut |j, residual| {
            // The last step of a cycle ends it: whatever would be submitted after it has nothing to do.
            if j < most {
                let operator = self.operator(limits.goal, residual);
                rt.replay(self.step(j, operator)?)?;
            }
            Ok(())
        })?;
        rt.replay(&Bindings::recorded(&self.finish))?;
        Ok(ended)
    }
}

/// `v_0 = r / |r|`.
fn begin(steps: &Steps<'_>, v: &Vectors, small: Hessenberg, sums: &Sums, width: usize) -> Result<(), Error> {
    steps.each("gmres.norm", |i| (v.r.read(i), sums.of(i)), move |(r, sums)| dots(&r, &r, sums, width, 0))?;
    steps.combine("gmres.begin", sums, move |sums, s| small.begin(s, sums[0].sqrt()))?;
    v.basis.store(steps, &v.r, Hessenberg::NEXT, &v.v)
}

/// `d = M^-1 V y`, or `Z y`.
fn finish(steps: &Steps<'_>, v: &Vectors, m: Option<&dyn Preconditioner>) -> Result<(), Error> {
    match (&v.each, m) {
        (Some(each), _) => combination(steps, each, &v.d),
        (None, Some(m)) => {
            combination(steps, &v.basis, &v.w)?;
            m.apply(steps, &v.w, &v.d)
        }
        (None, None) => combination(steps, &v.basis, &v.d),
    }
}

/// `to = sum_k y_k v_k`.
fn combination(steps: &Steps<'_>, basis: &Basis, to: &Vector) -> Result<(), Error> {
    let format = basis.format;
    steps.each(
        "gmres.combination",
        |i| (steps.scalars(), basis.read(i), to.update(i)),
        move |(s, basis, to)| {
            let s = Scalars::new(s);
            let (columns, len) = (s[Solved::COLUMNS] as usize, to.len());
            let mut buffer = [0.0; PIECE];
            for (piece, to) in to.chunks_mut(PIECE).enumerate() {
                to.fill(0.0);
                for k in 0..columns {
                    let start = piece * PIECE;
                    let v = format.of_vector(basis, k, len);
                    let v = format.piece(v, start..start + to.len(), &mut buffer);
                    let y = s[Solved::Y + k];
                    to.iter_mut().zip(v).for_each(|(to, v)| *to += y * v);
                }
            }
        },
    )
}
