//! Recording the scalar formulas of a method as a program that CPUs and GPUs run.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Add, Div, Mul, Neg, Sub};

use smallvec::SmallVec;
use zellige_cuda::CUDA;
use zellige_kernels::RealNumber;
use zellige_kernels::cuda::EncodedFormulas;
use zellige_kernels::formulas::{Formulas as FormulaProgram, Op, word};
use zellige_runtime::codelet::DeviceTable;
use zellige_runtime::{Codelet, Cpu, Operands, TaskContext, TaskError};

use crate::gpu::{self, FormulaOperands, GpuViews};
use crate::reduction::total;
use crate::scalar::Scalar;
use crate::task_scope::TaskScope;

/// Recorder of the formulas of a method's scalars: they are written once, and run for each column
/// that is not done, by a task on a CPU or a thread of a GPU.
///
/// Operators of [`Value`] record their computation. A formula that
/// [ends](Formulas::end_unless_positive) the method ends the program, too.
pub struct Formulas<E> {
    program: RefCell<FormulaProgram>,
    followed: RefCell<Followed>,
    scalar: PhantomData<E>,
}

/// Own scalars whose digits are noted, with the names of their digits.
type Followed = SmallVec<[(usize, &'static str); 2]>;

/// A number that formulas compute: real, or complex if the method's scalars are.
#[derive(Clone, Copy)]
pub struct Value<'f> {
    program: &'f RefCell<FormulaProgram>,
    re: usize,
    /// Imaginary part; `None` for a real number.
    im: Option<usize>,
}

impl<E: Scalar> Formulas<E> {
    pub(crate) fn new() -> Self {
        Formulas { program: RefCell::default(), followed: RefCell::default(), scalar: PhantomData }
    }

    pub(crate) fn into_program(self) -> (FormulaProgram, Followed) {
        (self.program.into_inner(), self.followed.into_inner())
    }

    fn push(&self, op: Op) -> usize {
        self.program.borrow_mut().push(op)
    }

    fn value(&self, first: usize, word: impl Fn(usize) -> Op) -> Value<'_> {
        let re = self.push(word(first * E::PARTS));
        let im = (E::PARTS == 2).then(|| self.push(word(first * E::PARTS + 1)));
        Value { program: &self.program, re, im }
    }

    /// Returns a real constant.
    pub fn constant(&self, value: f64) -> Value<'_> {
        Value { program: &self.program, re: self.push(Op::Constant(value)), im: None }
    }

    /// Returns the current value of one of the method's own scalars.
    pub fn number(&self, own: usize) -> Value<'_> {
        self.value(own, |at| Op::Word(word::OWN + at))
    }

    /// Returns the real part of one of the method's own scalars.
    pub fn real(&self, own: usize) -> Value<'_> {
        let re = self.push(Op::Word(word::OWN + own * E::PARTS));
        Value { program: &self.program, re, im: None }
    }

    /// Returns a sum of products over all parts.
    pub fn sum(&self, at: usize) -> Value<'_> {
        self.value(at, Op::Sum)
    }

    /// Returns the real part of a sum of products over all parts.
    pub fn real_sum(&self, at: usize) -> Value<'_> {
        Value { program: &self.program, re: self.push(Op::Sum(at * E::PARTS)), im: None }
    }

    /// Sets one of the method's own scalars.
    pub fn set(&self, own: usize, value: Value<'_>) {
        let first = word::OWN + own * E::PARTS;
        self.push(Op::Set(first, value.re));
        if E::PARTS == 2 {
            let im = value.im.unwrap_or_else(|| self.push(Op::Constant(0.0)));
            self.push(Op::Set(first + 1, im));
        }
    }

    /// Notes the digits of one of the method's own scalars, after the formulas.
    pub fn follow(&self, own: usize, name: &'static str) {
        self.followed.borrow_mut().push((own, name));
    }

    /// Sets the initial residual norm of the method; see
    /// [`Numbers::first_residual`](crate::numbers::Numbers::first_residual).
    pub fn first_residual(&self, norm: Value<'_>) {
        self.push(Op::Begin(norm.re));
    }

    /// Counts a step with the norm of its residual; see
    /// [`Numbers::step`](crate::numbers::Numbers::step).
    pub fn step(&self, norm: Value<'_>) {
        self.push(Op::Step(norm.re));
    }

    /// Ends the method if a form is not positive; see
    /// [`Numbers::end_unless_positive`](crate::numbers::Numbers::end_unless_positive).
    pub fn end_unless_positive(&self, form: Value<'_>) {
        self.push(Op::EndUnlessPositive(form.re));
    }
}

impl<'f> Value<'f> {
    fn push(self, op: Op) -> usize {
        self.program.borrow_mut().push(op)
    }

    fn real_of(self, re: usize) -> Value<'f> {
        Value { re, im: None, ..self }
    }

    /// Returns both parts; the imaginary part of a real number is 0.
    fn parts(self) -> (usize, usize) {
        (self.re, self.im.unwrap_or_else(|| self.push(Op::Constant(0.0))))
    }

    fn is_real_with(self, other: Value<'f>) -> bool {
        self.im.is_none() && other.im.is_none()
    }

    /// Returns the square root of a real number.
    pub fn sqrt(self) -> Value<'f> {
        self.real_of(self.push(Op::Root(self.re)))
    }

    /// Returns the magnitude of a real number.
    pub fn abs(self) -> Value<'f> {
        self.real_of(self.push(Op::Magnitude(self.re)))
    }

    /// Returns 1 if a real number is at most another, otherwise 0, also if one of them is NaN.
    pub fn at_most(self, other: Value<'f>) -> Value<'f> {
        self.real_of(self.push(Op::AtMost(self.re, other.re)))
    }

    /// Selects the first of two real numbers if `self` is not 0, otherwise the second.
    pub fn select(self, [a, b]: [Value<'f>; 2]) -> Value<'f> {
        self.real_of(self.push(Op::Select(self.re, a.re, b.re)))
    }
}

impl<'f> Add for Value<'f> {
    type Output = Value<'f>;

    fn add(self, other: Value<'f>) -> Value<'f> {
        if self.is_real_with(other) {
            return self.real_of(self.push(Op::Add(self.re, other.re)));
        }
        let ((a, b), (c, d)) = (self.parts(), other.parts());
        let re = self.push(Op::Add(a, c));
        Value { re, im: Some(self.push(Op::Add(b, d))), ..self }
    }
}

impl<'f> Sub for Value<'f> {
    type Output = Value<'f>;

    fn sub(self, other: Value<'f>) -> Value<'f> {
        if self.is_real_with(other) {
            return self.real_of(self.push(Op::Subtract(self.re, other.re)));
        }
        let ((a, b), (c, d)) = (self.parts(), other.parts());
        let re = self.push(Op::Subtract(a, c));
        Value { re, im: Some(self.push(Op::Subtract(b, d))), ..self }
    }
}

impl<'f> Mul for Value<'f> {
    type Output = Value<'f>;

    fn mul(self, other: Value<'f>) -> Value<'f> {
        if self.is_real_with(other) {
            return self.real_of(self.push(Op::Multiply(self.re, other.re)));
        }
        let ((a, b), (c, d)) = (self.parts(), other.parts());
        let [ac, bd, ad, bc] = [(a, c), (b, d), (a, d), (b, c)].map(|(x, y)| self.push(Op::Multiply(x, y)));
        let re = self.push(Op::Subtract(ac, bd));
        Value { re, im: Some(self.push(Op::Add(ad, bc))), ..self }
    }
}

impl<'f> Div for Value<'f> {
    type Output = Value<'f>;

    /// Multiplies by the conjugate, and divides by the square of the magnitude.
    fn div(self, other: Value<'f>) -> Value<'f> {
        if self.is_real_with(other) {
            return self.real_of(self.push(Op::Divide(self.re, other.re)));
        }
        let ((a, b), (c, d)) = (self.parts(), other.parts());
        let [ac, bd, bc, ad, cc, dd] =
            [(a, c), (b, d), (b, c), (a, d), (c, c), (d, d)].map(|(x, y)| self.push(Op::Multiply(x, y)));
        let square = self.push(Op::Add(cc, dd));
        let (re, im) = (self.push(Op::Add(ac, bd)), self.push(Op::Subtract(bc, ad)));
        let re = self.push(Op::Divide(re, square));
        Value { re, im: Some(self.push(Op::Divide(im, square))), ..self }
    }
}

impl<'f> Neg for Value<'f> {
    type Output = Value<'f>;

    fn neg(self) -> Value<'f> {
        let re = self.push(Op::Negate(self.re));
        Value { re, im: self.im.map(|im| self.push(Op::Negate(im))), ..self }
    }
}

/// Adds up partial sums, and runs a program for each column.
pub(crate) struct FormulaCodelet<E> {
    name: &'static str,
    columns: usize,
    /// Sums of a reduction block and column.
    width: usize,
    program: FormulaProgram,
    followed: Followed,
    /// The program for GPUs, if they support it.
    of_kernel: Option<EncodedFormulas>,
    scope: TaskScope,
    scalar: PhantomData<E>,
}

impl<E: Scalar> FormulaCodelet<E> {
    pub(crate) fn new(name: &'static str, [columns, width]: [usize; 2], formulas: Formulas<E>) -> Self {
        let (program, followed) = formulas.into_program();
        let encoded = || EncodedFormulas::new(&program, columns * width * E::WORDS);
        let of_kernel = if E::HAS_KERNELS { encoded() } else { None };
        let scope = TaskScope::on_all_ranks::<E>();
        FormulaCodelet { name, columns, width, program, followed, of_kernel, scope, scalar: PhantomData }
    }

    fn cuda(&self, views: GpuViews<'_, FormulaOperands>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let formulas = self.of_kernel.as_ref().expect("tasks with a program for GPUs are sent there");
        gpu::run_formulas(formulas, [self.columns, self.width * E::WORDS], views, cx)
    }
}

impl<E: Scalar> Codelet for FormulaCodelet<E> {
    type Operands = FormulaOperands;

    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu(
        &self,
        (partial, numbers): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let mut totals: SmallVec<[E; 16]> = SmallVec::from_elem(E::default(), self.width);
        let stride = numbers.len() / self.columns;
        for (column, words) in numbers.chunks_exact_mut(stride).enumerate() {
            if words[word::STATE] == 0.0 {
                self.scope.run(|| {
                    total(partial.iter(), column, self.columns, &mut totals);
                    self.program.run(E::Real::of_words(E::words(&totals)), words);
                    let own = E::of_words(&words[word::OWN..]);
                    self.followed.iter().for_each(|&(at, name)| own[at].real().follow(name));
                });
            }
        }
        Ok(())
    }

    /// Reads nothing that is known at the ends of other tasks.
    fn needs_ends(&self) -> bool {
        false
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        if self.of_kernel.is_some() {
            table.add(*CUDA, Self::cuda);
        }
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

    use super::*;

    type C = Complex<f64>;

    /// Formulas of complex numbers have the bits of their arithmetic; a real number among them is
    /// one without an imaginary part.
    #[test]
    fn formulas_have_the_bits_of_arithmetic() {
        let f = Formulas::<C>::new();
        let (x, y, real) = (f.number(0), f.sum(1), f.real(0));
        let all =
            [x + y, x - y, x * y, x / y, -x, real * y, y - real, real / f.real_sum(1), real.abs().sqrt()];
        all.into_iter().enumerate().for_each(|(at, value)| f.set(at + 1, value));
        f.set(10, real.at_most(f.constant(0.5)).select([f.constant(2.0), real]));
        let (x, sums) = (C::new(-0.7, 1.3), [C::new(f64::NAN, 0.0), C::new(0.3, -2.1)]);
        let (y, re) = (sums[1], C::new(x.re, 0.0));
        let mut words = vec![0.0; word::OWN + 2 * 11];
        words[word::OWN..word::OWN + 2].copy_from_slice(C::words(&[x]));
        f.into_program().0.run(C::words(&sums), &mut words);
        let quotient = C::new(x.re / y.re, 0.0);
        let root = C::new(x.re.abs().sqrt(), 0.0);
        let expected = [x + y, x - y, x * y, x / y, -x, re * y, y - re, quotient, root, C::new(2.0, 0.0)];
        assert_eq!(C::of_words(&words[word::OWN + 2..]), expected);
    }

    #[test]
    fn an_end_ends_the_formulas() {
        let f = Formulas::<f64>::new();
        f.set(0, f.constant(1.0));
        f.end_unless_positive(f.sum(0));
        f.set(0, f.constant(2.0));
        let program = f.into_program().0;
        for (form, state, left) in [(3.0, 0.0, 2.0), (0.0, 3.0, 1.0), (f64::NAN, 4.0, 1.0)] {
            let mut words = vec![0.0; word::OWN + 1];
            program.run(&[form], &mut words);
            assert_eq!((words[word::STATE], words[word::OWN]), (state, left), "{form}");
        }
    }
}
