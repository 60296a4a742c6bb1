//! Conjugate gradients in one Krylov space for all right-hand sides.

mod small;

use zellige_kernels::RealNumber;
use zellige_runtime::{Handle, Recorder, Submit, read, reads, update};

use self::small::Small;
use crate::error::Error;
use crate::inner_solver::{InnerSolver, MemoryUse, Method, Setting};
use crate::iteration::{Recorded, steps_per_graph};
use crate::numbers::{Numbers, NumbersHandle, State, columns_of, columns_of_mut};
use crate::operator::{apply_to, check_fixed};
use crate::reduction::total;
use crate::scalar::Scalar;
use crate::steps::{Steps, Sums, are_done};
use crate::task_scope::TaskScope;
use crate::vector::MultiVector;

/// Block conjugate gradients (O'Leary 1980) without breakdown (Ji and Li 2017), for Hermitian
/// positive definite operators: all right-hand sides share one Krylov space, so that each needs
/// fewer steps than alone. Directions are made orthonormal in each step; those that depend on
/// others are left out, so that right-hand sides may be equal, dependent or zero.
///
/// A column goes on until all have reached their goals. Its bits depend on the other columns.
///
/// ```
/// use zellige_krylov::{BlockCg, Cg, Solve, Space, Stop, StoppingCriterion, from_fn, solve_columns};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(90, 0));
/// let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..90).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// let b: Vec<Vec<f64>> = (0..3).map(|k| (0..90).map(|i| ((i * (k + 1)) as f64).sin()).collect()).collect();
/// let (b, stop) = (b.iter().map(Vec::as_slice).collect::<Vec<_>>(), Stop::RelativeToRhs(1e-10));
/// let stops: [&dyn StoppingCriterion; 3] = [&stop; 3];
/// let mut x = vec![vec![0.0; 90]; 3];
/// let [first, second, third] = &mut x[..] else { unreachable!() };
/// let found = solve_columns(
///     &Solve::new(&rt, &a), &BlockCg, &b, &mut [first, second, third], &stops, &mut [&mut (), &mut (), &mut ()],
/// )?;
/// assert!(found.iter().all(|one| one.reason.is_converged()) && (x[2][5] - b[2][5] / 6.0).abs() < 1e-9);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockCg;

impl<E: Scalar> Method<E> for BlockCg {
    fn name(&self) -> String {
        "block-cg".to_owned()
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        let Setting { rt, m, columns, .. } = setting;
        check_fixed(m, "block-cg", "fcg")?;
        let space = setting.space();
        let (r, zeros) = (setting.zeros(), || setting.zeros());
        let state = BlockVectors {
            z: m.map_or_else(|| r.clone(), |_| zeros()),
            r,
            p: zeros(),
            t: zeros(),
            d: zeros(),
        };
        let (numbers, all) = (NumbersHandle::new(rt, columns, 0), NumbersHandle::new(rt, columns, 0));
        let sums = Sums::new(rt, space, columns, 2 * columns);
        let small = rt.words(vec![0.0; Matrices::<E>::words(columns)]);
        let record = |body: &dyn Fn(&BlockStep<'_, E>) -> Result<(), Error>| {
            rt.record(|graph| {
                let steps = Steps::new(rt, graph, space, &all).with_sums(&sums);
                body(&BlockStep { steps, graph, setting, v: &state, numbers: &numbers, small: &small })
            })
        };
        let begin = record(&|step| step.begin())?;
        let per_graph = steps_per_graph::<E>(rt, space, m.is_some());
        let steps = record(&|step| (0..per_graph).try_for_each(|_| step.step()))?;
        let memory = MemoryUse::vectors::<E>(space, if m.is_some() { 5 } else { 4 });
        let (residual, correction) = (state.r, state.d);
        let (replacements, finish) = (None, None);
        Ok(Box::new(Recorded {
            rt,
            residual,
            correction,
            numbers,
            replacements,
            begin,
            steps,
            per_graph,
            finish,
            memory,
        }))
    }
}

/// Vectors of the method.
struct BlockVectors<E: Scalar> {
    r: MultiVector<E>,
    /// `M^-1 r`; the residual itself without a preconditioner.
    z: MultiVector<E>,
    p: MultiVector<E>,
    /// `A p`.
    t: MultiVector<E>,
    d: MultiVector<E>,
}

/// The matrices that one step leaves to the next: the rank of the directions, the factor of `P^H A
/// P`, and coefficients of the next combination.
struct Matrices<E> {
    rank: usize,
    factor: Small<E>,
    coefficients: Small<E>,
}

impl<E: Scalar> Matrices<E> {
    /// Returns the number of words of the matrices.
    fn words(order: usize) -> usize {
        1 + 2 * order * order * E::WORDS
    }

    fn load(words: &[f64], order: usize) -> Self {
        let entries = E::of_words(&words[1..]).chunks_exact(order * order);
        let mut each = entries.map(|entries| {
            let mut matrix = Small::zeros(order);
            matrix.entries.copy_from_slice(entries);
            matrix
        });
        let mut next = || each.next().expect("two matrices");
        Matrices { rank: words[0] as usize, factor: next(), coefficients: next() }
    }

    fn store(&self, words: &mut [f64]) {
        words[0] = self.rank as f64;
        let entries = self.factor.entries.iter().chain(&self.coefficients.entries);
        E::of_words_mut(&mut words[1..]).iter_mut().zip(entries).for_each(|(to, from)| *to = *from);
    }
}

/// The vector that a combination is added to.
enum Base<'v, E: Scalar> {
    Nothing,
    Itself,
    Other(&'v MultiVector<E>),
}

/// Data that graphs are recorded from.
struct BlockStep<'g, E: Scalar> {
    /// Steps whose columns are active until all are done.
    steps: Steps<'g, E>,
    graph: &'g Recorder,
    setting: Setting<'g, E>,
    v: &'g BlockVectors<E>,
    /// The states of the columns.
    numbers: &'g NumbersHandle<E>,
    small: &'g Handle<Vec<f64>>,
}

/// Input of a task on small matrices: inner products, by their index.
struct Products<'p, E> {
    order: usize,
    totals: &'p [Vec<E>],
}

impl<E: Scalar> Products<'_, E> {
    /// Returns the matrix `X^H Y` of pair `at`.
    fn matrix(&self, at: usize) -> Small<E> {
        Small::from_fn(self.order, |k, c| self.totals[c][at * self.order + k])
    }
}

impl<E: Scalar> BlockStep<'_, E> {
    /// Records `d = 0`, `z = M^-1 r` and orthonormal directions of `z`. Columns without a limit are
    /// zero.
    fn begin(&self) -> Result<(), Error> {
        let BlockStep { steps, setting, v, .. } = self;
        self.open()?;
        self.combine("block.begin", &v.r, Base::Nothing, None, 1.0)?;
        steps.task("block.begin").assign(&v.d, []).submit()?;
        if let Some(m) = setting.m {
            apply_to(steps, m, &v.r, &v.z, None)?;
        }
        steps.task("block.begin").copy(&v.p, &v.z).submit()?;
        self.products("block.products", [(&v.r, &v.r), (&v.p, &v.p)])?;
        self.on_small("block.first", |products, columns, small| {
            let squares = products.matrix(0);
            for (c, column) in columns.iter_mut().enumerate().filter(|(_, column)| !column.is_done()) {
                column.first_residual(squares[(c, c)].real().sqrt().value());
            }
            orthonormalise(&products.matrix(1), columns, small);
        })?;
        self.combine("block.directions", &v.p, Base::Nothing, None, 1.0)
    }

    /// Records a step:
    ///
    /// ```text
    /// T = A P             P^H T, P^H R
    /// D += P a            a = (P^H T)^-1 P^H R
    /// R -= T a
    /// Z = M^-1 R          T^H Z, R^H R
    /// P = Z - P b         b = (P^H T)^-1 T^H Z
    ///                     P^H P
    /// P = P O             orthonormal
    /// ```
    fn step(&self) -> Result<(), Error> {
        let BlockStep { steps, setting, v, .. } = self;
        apply_to(steps, setting.a, &v.p, &v.t, None)?;
        self.products("block.products", [(&v.p, &v.t), (&v.p, &v.r)])?;
        self.on_small("block.alpha", |products, columns, small| {
            match products.matrix(0).cholesky(small.rank) {
                Some(factor) => {
                    small.coefficients = factor.solve(small.rank, products.matrix(1));
                    small.factor = factor;
                }
                None => end(columns, State::BrokenDown),
            }
        })?;
        self.combine("block.descend", &v.d, Base::Itself, Some(&v.p), 1.0)?;
        self.combine("block.residual", &v.r, Base::Itself, Some(&v.t), -1.0)?;
        if let Some(m) = setting.m {
            apply_to(steps, m, &v.r, &v.z, None)?;
        }
        self.products("block.products", [(&v.t, &v.z), (&v.r, &v.r)])?;
        self.on_small("block.beta", |products, columns, small| {
            let squares = products.matrix(1);
            for (c, column) in columns.iter_mut().enumerate().filter(|(_, column)| !column.is_done()) {
                column.step(squares[(c, c)].real().sqrt().value());
            }
            small.coefficients = small.factor.solve(small.rank, products.matrix(0));
        })?;
        self.combine("block.conjugate", &v.p, Base::Other(&v.z), None, -1.0)?;
        self.products("block.products", [(&v.p, &v.p), (&v.p, &v.p)])?;
        self.on_small("block.orthonormal", |products, columns, small| {
            orthonormalise(&products.matrix(0), columns, small);
        })?;
        self.combine("block.directions", &v.p, Base::Nothing, None, 1.0)
    }

    /// Records that all columns are active if one of them runs, and that coefficients are 1 for
    /// those that run.
    fn open(&self) -> Result<(), Error> {
        let (columns, scope) = (self.steps.columns(), TaskScope::on_all_ranks::<E>());
        let operands = (self.numbers.read(), self.steps.numbers().update(), update(self.small));
        let body = move |own: &[f64], all: &mut [f64], small: &mut [f64]| {
            let own: Vec<bool> = columns_of::<E>(own, columns).map(|column| !column.is_done()).collect();
            for mut column in columns_of_mut::<E>(all, columns) {
                column.begin(0.0, usize::MAX);
                if !own.contains(&true) {
                    column.end(State::Limited);
                }
            }
            let mask = |i: usize, j: usize| E::from_real(f64::from(u8::from(i == j && own[i])));
            let coefficients = Small::from_fn(columns, mask);
            Matrices { rank: columns, factor: Small::zeros(columns), coefficients }.store(small);
        };
        let task = self.graph.task("block.open").operands(operands);
        task.cpu(move |(own, all, small)| scope.run(|| body(own, all, small))).submit()?;
        Ok(())
    }

    /// Records the inner products of all columns of two pairs of vectors.
    fn products(
        &self,
        name: &'static str,
        pairs: [(&MultiVector<E>, &MultiVector<E>); 2],
    ) -> Result<(), Error> {
        let (s, block) = (self.steps.columns(), self.steps.space().reduction_rows());
        let of = |i: usize| reads(pairs.iter().flat_map(|(x, y)| [&x.parts()[i], &y.parts()[i]]));
        let sums = |i: usize| self.steps.sums().of(i);
        self.steps.each(
            name,
            |i| (of(i), sums(i)),
            move |(v, sums)| {
                let v: Vec<&[f64]> = v.iter().map(|v| v.slice()).collect();
                let sums = E::of_words_mut(sums);
                for pair in 0..2 {
                    let (x, y) = (E::of_words(v[2 * pair]), E::of_words(v[2 * pair + 1]));
                    let blocks =
                        x.chunks(block * s).zip(y.chunks(block * s)).zip(sums.chunks_exact_mut(2 * s * s));
                    for ((x, y), sums) in blocks {
                        let mut gram = vec![E::default(); s * s];
                        for (x, y) in x.chunks_exact(s).zip(y.chunks_exact(s)) {
                            for (gram, y) in gram.chunks_exact_mut(s).zip(y) {
                                gram.iter_mut().zip(x).for_each(|(sum, x)| *sum = *sum + x.conj() * *y);
                            }
                        }
                        for (sums, gram) in sums.chunks_exact_mut(2 * s).zip(gram.chunks_exact(s)) {
                            sums[pair * s..][..s].copy_from_slice(gram);
                        }
                    }
                }
            },
        )
    }

    /// Records a task on the small matrices and the states of the columns, with the products.
    fn on_small<F>(&self, name: &'static str, body: F) -> Result<(), Error>
    where
        F: Fn(&Products<'_, E>, &mut [Numbers<E, &mut [f64]>], &mut Matrices<E>) + Send + Sync + 'static,
    {
        let (order, scope) = (self.steps.columns(), TaskScope::on_all_ranks::<E>());
        let sums = self.steps.sums().read(self.graph)?;
        let operands = (sums, self.numbers.update(), self.steps.numbers().update(), update(self.small));
        self.graph
            .task(name)
            .operands(operands)
            .cpu(move |(partial, numbers, all, words)| {
                if are_done(all, order) {
                    return;
                }
                scope.run(|| {
                    let mut totals = vec![vec![E::default(); 2 * order]; order];
                    let each = totals.iter_mut().enumerate();
                    each.for_each(|(c, totals)| total(partial.iter(), c, order, totals));
                    let mut columns: Vec<_> = columns_of_mut::<E>(numbers, order).collect();
                    let mut small = Matrices::load(words, order);
                    body(&Products { order, totals: &totals }, &mut columns, &mut small);
                    small.store(words);
                    if columns.iter().all(|column| column.is_done()) {
                        columns_of_mut::<E>(all, order).for_each(|mut column| column.end(State::Limited));
                    }
                });
            })
            .submit()?;
        Ok(())
    }

    /// Records `y = base + sign X C`, with the coefficients `C`; `X` is `y` itself unless it is
    /// given.
    fn combine(
        &self,
        name: &'static str,
        y: &MultiVector<E>,
        base: Base<'_, E>,
        x: Option<&MultiVector<E>>,
        sign: f64,
    ) -> Result<(), Error> {
        let (s, sign) = (self.steps.columns(), E::from_real(sign));
        let is_own = matches!(base, Base::Itself);
        let other = match base {
            Base::Other(other) => Some(other),
            _ => None,
        };
        let part = |v: Option<&MultiVector<E>>, i: usize| reads(v.map(|v| &v.parts()[i]));
        let operands = |i: usize| (read(self.small), part(x, i), part(other, i), y.update(i));
        self.steps.each(name, operands, move |(small, x, other, y)| {
            let c = Matrices::<E>::load(small, s).coefficients;
            let (x, other) = (x.iter().next(), other.iter().next());
            let x = x.as_ref().map(|x| E::of_words(x.slice()));
            let other = other.as_ref().map(|other| E::of_words(other.slice()));
            let mut row = vec![E::default(); s];
            for (i, y) in E::of_words_mut(y).chunks_exact_mut(s).enumerate() {
                let at = i * s..(i + 1) * s;
                row.copy_from_slice(x.map_or(&*y, |x| &x[at.clone()]));
                match other {
                    Some(other) => y.copy_from_slice(&other[at]),
                    None if !is_own => y.fill(E::default()),
                    None => {}
                }
                for (x, c) in row.iter().zip(c.entries.chunks_exact(s)) {
                    let x = sign * *x;
                    y.iter_mut().zip(c).for_each(|(y, c)| *y = *y + x * *c);
                }
            }
        })
    }
}

/// Makes the coefficients those of orthonormal directions. Without any, the method ends.
fn orthonormalise<E: Scalar>(
    gram: &Small<E>,
    columns: &mut [Numbers<E, &mut [f64]>],
    small: &mut Matrices<E>,
) {
    (small.coefficients, small.rank) = gram.orthonormal();
    if small.rank == 0 {
        end(columns, State::BrokenDown);
    }
}

/// Ends the columns that run.
fn end<E: Scalar>(columns: &mut [Numbers<E, &mut [f64]>], state: State) {
    columns.iter_mut().filter(|column| !column.is_done()).for_each(|column| column.end(state));
}
