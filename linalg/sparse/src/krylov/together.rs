//! Conjugate gradients for several right-hand sides in lock step: each product reads the matrix once for all of them.

use std::ops::Range;
use std::slice::{ChunksExact, ChunksExactMut};

use zellige_runtime::data::Chunk;
use zellige_runtime::{Bindings, Cpu, Graph, List, Operands, ReadList, Recorder, Runtime, Submit, reads};

use super::grains::dots;
use super::operator::check_fixed;
use super::rounds::{Ended, Limits, look, run_while};
use super::scalars::{Scalars, State};
use super::steps::{JointSums, ScalarsHandle, Steps};
use super::{Kept, Logger, Preconditioner, Stored};
use crate::error::Error;
use crate::space::{Space, Vector};

/// The solver's own numbers, as those of [`Cg`](super::Cg).
const RHO: usize = 0;
const ALPHA: usize = 1;
const BETA: usize = 2;
const OWN: usize = 3;

/// Where sums are: `p . q` or `r . r`, and `r . z`.
const OF_R: usize = 0;
const OF_Z: usize = 1;

/// Where a column meets what is outside.
struct Outside {
    /// The residual that it begins with.
    r: Vector,
    /// What it has found; by the preconditioner it is the residual on its way.
    d: Vector,
    /// `M^-1 r`.
    z: Option<Vector>,
}

/// The vectors of all columns: in each stretch column after column.
struct Vectors {
    r: Vector,
    p: Vector,
    q: Vector,
    d: Vector,
    /// `p` once more, the numbers of a row beside each other.
    woven: Vector,
}

/// Conjugate gradients for 2, 4 or 8 right-hand sides of a system. What a column finds has the bits that [`Cg`](super::Cg) would find alone. Products run on
/// CPUs.
pub(crate) struct Together<'r> {
    rt: &'r Runtime,
    outside: Vec<Outside>,
    scalars: Vec<ScalarsHandle>,
    begin: Graph,
    step: Graph,
    finish: Graph,
    kept: Kept,
}

/// What is recorded with.
struct Recording<'g> {
    graph: &'g Recorder,
    /// Of one column.
    space: &'g Space,
    scalars: &'g [ScalarsHandle],
    v: &'g Vectors,
    outside: &'g [Outside],
    m: Option<&'g dyn Preconditioner>,
    sums: &'g JointSums,
}

impl<'r> Together<'r> {
    /// Makes vectors and records graphs for `count` columns.
    ///
    /// # Errors
    /// As [`Method::prepare`](super::Method::prepare) of conjugate gradients.
    pub(crate) fn new(
        rt: &'r Runtime,
        space: &Space,
        a: &Stored,
        m: Option<&dyn Preconditioner>,
        count: usize,
    ) -> Result<Self, Error> {
        check_fixed(m, "cg", "fcg")?;
        let (joint, zeros) = (space.times(count), || space.zeros(rt));
        let outside: Vec<Outside> =
            (0..count).map(|_| Outside { r: zeros(), d: zeros(), z: m.map(|_| zeros()) }).collect();
        let all = || joint.zeros(rt);
        let v = Vectors { r: all(), p: all(), q: all(), d: all(), woven: all() };
        let scalars: Vec<ScalarsHandle> = (0..count).map(|_| rt.register(Scalars::zeros(OWN))).collect();
        let sums = JointSums::new(rt, space, count);
        let record = |body: &dyn Fn(&Recording<'_>) -> Result<(), Error>| {
            rt.record(|graph| {
                body(&Recording { graph, space, scalars: &scalars, v: &v, outside: &outside, m, sums: &sums })
            })
        };
        let begin = record(&|recording| recording.begin())?;
        let step = record(&|recording| {
            recording.descend(a)?;
            recording.direct()
        })?;
        let finish = record(&|recording| recording.finish())?;
        let kept = Kept::vectors(space, 7 + usize::from(m.is_some()));
        Ok(Together { rt, outside, scalars, begin, step, finish, kept })
    }

    /// The residual of a column: written before each run.
    pub(crate) fn residual(&self, column: usize) -> &Vector {
        &self.outside[column].r
    }

    /// What the last run has found for it.
    pub(crate) fn correction(&self, column: usize) -> &Vector {
        &self.outside[column].d
    }

    /// What the vectors of one column take.
    pub(crate) fn kept(&self) -> Kept {
        self.kept
    }

    /// Runs the columns that have limits until each has met one, or the time is up; the ends of the others have no meaning.
    ///
    /// # Errors
    /// What went wrong in a task.
    pub(crate) fn run(
        &self,
        limits: &[Option<Limits<'_>>],
        logs: &mut [&mut dyn Logger],
    ) -> Result<Vec<Ended>, Error> {
        for (scalars, limits) in self.scalars.iter().zip(limits) {
            let mut guard = self.rt.write(scalars)?;
            let mut scalars = Scalars::new(guard.as_mut_slice());
            match limits {
                Some(limits) => scalars.begin(limits.goal, limits.steps),
                None => scalars.end(State::Limited),
            }
        }
        self.rt.replay(&Bindings::recorded(&self.begin))?;
        let (step, mut seen) = (Bindings::recorded(&self.step), vec![0; limits.len()]);
        let is_late = || limits.iter().flatten().any(|limits| (limits.is_late)());
        let mut look = || -> Result<Vec<Ended>, Error> {
            let each = self.scalars.iter().zip(limits).enumerate();
            each.map(|(k, (scalars, limits))| match limits {
                Some(_) => look(self.rt, scalars, &mut seen[k], &mut *logs[k]),
                None => Ok(Ended { state: State::Limited, steps: 0, residual: 0.0, begun: None }),
            })
            .collect()
        };
        let is_over = |ended: &Vec<Ended>| ended.iter().all(|ended| ended.state != State::Running);
        let ended = run_while(&mut look, is_over, &is_late, Scalars::REMEMBERED, || {
            self.rt.replay(&step)?;
            Ok(())
        })?;
        self.rt.replay(&Bindings::recorded(&self.finish))?;
        Ok(ended)
    }
}

/// The columns of a stretch.
fn columns(stretch: &[f64], count: usize) -> ChunksExact<'_, f64> {
    stretch.chunks_exact(stretch.len() / count)
}

fn columns_mut(stretch: &mut [f64], count: usize) -> ChunksExactMut<'_, f64> {
    stretch.chunks_exact_mut(stretch.len() / count)
}

/// Columns at most.
const MOST: usize = 8;

/// Rows of which all columns stay in the nearest cache on their way between the two arrangements.
const AT_ONCE: usize = 256;

/// The rows of a stretch, a few at a time.
fn pieces(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(AT_ONCE).map(move |start| start..rows.min(start + AT_ONCE))
}

/// Puts some rows of column `k` of `count` between the others.
fn weave(column: &[f64], woven: &mut [f64], k: usize, count: usize) {
    woven.iter_mut().skip(k).step_by(count).zip(column).for_each(|(woven, x)| *woven = *x);
}

/// Takes the columns that are wanted apart again.
pub(super) fn unweave(woven: &[f64], columns: &mut [f64], count: usize, is_wanted: impl Fn(usize) -> bool) {
    let rows = columns.len() / count;
    for piece in pieces(rows) {
        let woven = &woven[count * piece.start..count * piece.end];
        for k in (0..count).filter(|k| is_wanted(*k)) {
            let column = &mut columns[k * rows..][piece.clone()];
            column.iter_mut().zip(woven.iter().skip(k).step_by(count)).for_each(|(x, woven)| *x = *woven);
        }
    }
}

/// Changes `p` by `z`, a few rows at a time, and puts it so that the numbers of a row lie beside each other; columns that are not wanted stay as they are.
fn turn(
    z: &[&[f64]],
    p: &mut [f64],
    woven: &mut [f64],
    is_wanted: impl Fn(usize) -> bool,
    change: impl Fn(usize, &mut [f64], &[f64]),
) {
    let (count, rows) = (z.len(), z[0].len());
    for piece in pieces(rows) {
        for k in (0..count).filter(|k| is_wanted(*k)) {
            let p = &mut p[k * rows..][piece.clone()];
            change(k, p, &z[k][piece.clone()]);
            weave(p, &mut woven[count * piece.start..count * piece.end], k, count);
        }
    }
}

/// `z` of each column: its own, or `r` without a preconditioner.
fn all_z<'z>(r: &'z [f64], z: &List<'z, Chunk<f64>>, count: usize) -> [&'z [f64]; MOST] {
    let rows = r.len() / count;
    std::array::from_fn(|k| match (k < count, z.is_empty()) {
        (false, _) => &r[..0],
        (true, true) => &r[k * rows..][..rows],
        (true, false) => z.get(k).slice(),
    })
}

impl<'g> Recording<'g> {
    fn count(&self) -> usize {
        self.scalars.len()
    }

    /// For the tasks of one column.
    fn steps(&self, column: usize) -> Steps<'g> {
        Steps::new(self.graph, self.space, &self.scalars[column])
    }

    /// Of each column its residual on its way outside, and `z = M^-1 r`.
    fn precondition(&self) -> Result<(), Error> {
        let (Some(m), count) = (self.m, self.count()) else { return Ok(()) };
        for (k, Outside { d, z, .. }) in self.outside.iter().enumerate() {
            let steps = self.steps(k);
            steps.each(
                "together.part",
                |i| (steps.scalars(), self.v.r.read(i), d.update(i)),
                move |(s, r, d)| {
                    if !Scalars::new(s).is_done() {
                        let r = columns(&r, count).nth(k).expect("one of the columns");
                        d.copy_from_slice(r);
                    }
                },
            )?;
            m.apply(&steps, d, z.as_ref().expect("made where there is a preconditioner"))?;
        }
        Ok(())
    }

    /// The stretches `i` of all `z`; of none without a preconditioner.
    fn z(&self, i: usize) -> ReadList<Chunk<f64>> {
        reads(self.outside.iter().filter_map(|outside| outside.z.as_ref()).map(|z| &z.stretches()[i]))
    }

    /// `d = 0`, `p = z = M^-1 r`, `rho = r . z`.
    fn begin(&self) -> Result<(), Error> {
        let (count, v) = (self.count(), self.v);
        self.each(
            "together.begin",
            |i| {
                let r = reads(self.outside.iter().map(|outside| &outside.r.stretches()[i]));
                (reads(self.scalars), r, v.r.update(i), v.d.update(i))
            },
            move |(s, given, r, d)| {
                for (k, (r, d)) in columns_mut(r, count).zip(columns_mut(d, count)).enumerate() {
                    if !Scalars::new(s.get(k)).is_done() {
                        r.copy_from_slice(given.get(k).slice());
                        d.fill(0.0);
                    }
                }
            },
        )?;
        self.precondition()?;
        self.each(
            "together.first",
            |i| {
                let vectors = (v.r.read(i), self.z(i), v.p.update(i), v.woven.update(i), self.sums.of(i));
                (reads(self.scalars), vectors.0, vectors.1, vectors.2, vectors.3, vectors.4)
            },
            move |(s, r, z, p, woven, sums)| {
                let grains = sums.len() / count;
                let is_wanted = |k: usize| !Scalars::new(s.get(k)).is_done();
                let z = &all_z(r.slice(), &z, count)[..count];
                turn(z, p, woven, is_wanted, |_, p, z| p.copy_from_slice(z));
                let all = columns(&r, count).zip(z).zip(sums.chunks_exact_mut(grains));
                for (_, ((r, z), sums)) in all.enumerate().filter(|(k, _)| is_wanted(*k)) {
                    dots(r, r, sums, JointSums::WIDTH, OF_R);
                    dots(r, z, sums, JointSums::WIDTH, OF_Z);
                }
            },
        )?;
        self.sums.combine(self.graph, "together.rho", self.scalars, |sums, s| {
            s[RHO] = sums[OF_Z];
            s.first_residual(sums[OF_R].sqrt());
            s.end_unless_positive(sums[OF_Z]);
        })
    }

    /// The first half of a step: `alpha = rho / p . A p`, `d += alpha p`, `r -= alpha A p`.
    fn descend(&self, a: &Stored) -> Result<(), Error> {
        let (count, v) = (self.count(), self.v);
        a.apply_together(self.graph, self.scalars, &v.woven, (&v.p, &v.q), self.sums)?;
        self.sums.combine(self.graph, "together.alpha", self.scalars, |sums, s| {
            s[ALPHA] = s[RHO] / sums[OF_R];
            s.end_unless_positive(sums[OF_R]);
        })?;
        self.each(
            "together.descend",
            |i| {
                let (d, r, p, q) = (v.d.update(i), v.r.update(i), v.p.read(i), v.q.read(i));
                (reads(self.scalars), d, r, p, q, self.sums.of(i))
            },
            move |(s, d, r, p, q, sums)| {
                let grains = sums.len() / count;
                let changed =
                    columns_mut(d, count).zip(columns_mut(r, count)).zip(sums.chunks_exact_mut(grains));
                let all = changed.zip(columns(&p, count).zip(columns(&q, count)));
                for (k, (((d, r), sums), (p, q))) in all.enumerate() {
                    let s = Scalars::new(s.get(k));
                    if !s.is_done() {
                        let alpha = s[ALPHA];
                        d.iter_mut().zip(p).for_each(|(d, p)| *d += alpha * p);
                        r.iter_mut().zip(q).for_each(|(r, q)| *r -= alpha * q);
                        dots(r, r, sums, JointSums::WIDTH, OF_R);
                    }
                }
            },
        )
    }

    /// The second half of a step, the next direction: `beta = r . z / rho`, `p = z + beta p`.
    fn direct(&self) -> Result<(), Error> {
        let (count, v) = (self.count(), self.v);
        self.precondition()?;
        let is_preconditioned = self.m.is_some();
        if is_preconditioned {
            self.each(
                "together.rho",
                |i| (reads(self.scalars), v.r.read(i), self.z(i), self.sums.of(i)),
                move |(s, r, z, sums)| {
                    let grains = sums.len() / count;
                    for (k, (r, sums)) in columns(&r, count).zip(sums.chunks_exact_mut(grains)).enumerate() {
                        if !Scalars::new(s.get(k)).is_done() {
                            dots(r, z.get(k).slice(), sums, JointSums::WIDTH, OF_Z);
                        }
                    }
                },
            )?;
        }
        self.sums.combine(self.graph, "together.beta", self.scalars, move |sums, s| {
            let rho = if is_preconditioned { sums[OF_Z] } else { sums[OF_R] };
            s[BETA] = rho / s[RHO];
            s[RHO] = rho;
            s.step(sums[OF_R].sqrt());
            s.end_unless_positive(rho);
        })?;
        self.each(
            "together.direct",
            |i| (reads(self.scalars), v.r.read(i), self.z(i), v.p.update(i), v.woven.update(i)),
            move |(s, r, z, p, woven)| {
                let of_column = |k: usize| Scalars::new(s.get(k));
                let beta: [f64; MOST] =
                    std::array::from_fn(|k| if k < count { of_column(k)[BETA] } else { 0.0 });
                turn(
                    &all_z(r.slice(), &z, count)[..count],
                    p,
                    woven,
                    |k| !of_column(k).is_done(),
                    |k, p, z| p.iter_mut().zip(z).for_each(|(p, z)| *p = z + beta[k] * *p),
                );
            },
        )
    }

    /// Brings what was found outside.
    fn finish(&self) -> Result<(), Error> {
        let count = self.count();
        for (k, Outside { d: to, .. }) in self.outside.iter().enumerate() {
            self.steps(k).each(
                "together.finish",
                |i| (self.v.d.read(i), to.update(i)),
                move |(d, to)| to.copy_from_slice(columns(&d, count).nth(k).expect("one of the columns")),
            )?;
        }
        Ok(())
    }

    /// Records a task per stretch, as [`Steps::each`].
    fn each<O, F>(&self, name: &'static str, operands: impl Fn(usize) -> O, body: F) -> Result<(), Error>
    where
        O: Operands,
        F: for<'v> Fn(O::Views<'v, Cpu>) + Copy + Send + Sync + 'static,
    {
        self.steps(0).each(name, operands, body)
    }
}
