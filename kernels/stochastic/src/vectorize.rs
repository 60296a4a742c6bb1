//! The best instructions of the processor for code that is inlined.

/// Runs `f` compiled for the widest registers that the processor has.
///
/// Operations on [`Stochastic`](crate::Stochastic) numbers are several times faster in it,
/// with the same bits. What `f` calls takes part where it is `#[inline(always)]`; put
/// that on the closure too:
///
/// ```
/// use zellige_stochastic::{Stochastic, vectorize};
///
/// let x = vec![Stochastic::<f64>::new(0.1); 10];
/// let sum = vectorize(#[inline(always)] || x.iter().fold(Stochastic::new(0.0), |sum, &x| sum + x));
/// assert!(sum.digits() >= 14);
/// ```
#[inline(always)]
pub fn vectorize<R>(f: impl FnMut() -> R) -> R {
    let call = Call(f);
    match pulp::Arch::new() {
        #[cfg(target_arch = "x86_64")]
        pulp::Arch::V4(simd) => crate::state::compiled_for(simd, || pulp::Arch::V4(simd).dispatch(call)),
        other => other.dispatch(call),
    }
}

/// A closure called as `FnMut`: as `FnOnce` it would be called through a function of its own, which
/// is not inlined.
struct Call<F>(F);

impl<R, F: FnMut() -> R> pulp::WithSimd for Call<F> {
    type Output = R;
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) -> R {
        (self.0)()
    }
}
