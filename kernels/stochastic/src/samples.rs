//! How many samples a number carries.

/// Number of samples of a [`Stochastic`](crate::Stochastic) number. Sealed: [`Three`], [`Eight`],
/// [`Sixteen`].
pub trait Samples: sealed::Lanes + Copy + core::fmt::Debug + Send + Sync + 'static {
    /// Samples that count in the mean and in the digits.
    const COUNT: usize;
    /// 95 % quantile of Student's distribution with `COUNT - 1` degrees of freedom, two-sided.
    const STUDENT: f64;
}

/// Three samples, as CADNA has them: the third is always rounded against the second.
///
/// Two operations that undo each other's roundings leave three equal wrong samples in a fifth of
/// all runs. Use it to compare with CADNA.
#[derive(Clone, Copy, Debug)]
pub struct Three;

/// Eight independent samples, the default: one AVX-512 register, or two of AVX2.
#[derive(Clone, Copy, Debug)]
pub struct Eight;

/// Sixteen independent samples: 2^-16 is the chance that all agree on a wrong number.
#[derive(Clone, Copy, Debug)]
pub struct Sixteen;

pub(crate) mod sealed {
    use core::fmt::Debug;

    /// Storage of the samples: a power of two of lanes, so that they fill registers.
    pub trait Lanes {
        const LANES: usize;
        /// The third lane is rounded in the other direction than the second.
        const OPPOSED: bool;
        type Array<V: Copy + Debug + Send + Sync + 'static>: Copy
            + Debug
            + Send
            + Sync
            + AsRef<[V]>
            + AsMut<[V]>;
        fn build<V: Copy + Debug + Send + Sync + 'static>(lane: impl FnMut(usize) -> V) -> Self::Array<V>;
        fn flat<V: Copy + Debug + Send + Sync + 'static>(arrays: &[Self::Array<V>]) -> &[V];
        fn flat_mut<V: Copy + Debug + Send + Sync + 'static>(arrays: &mut [Self::Array<V>]) -> &mut [V];
        /// Panics for lanes of a part of an array.
        fn whole<V: Copy + Debug + Send + Sync + 'static>(lanes: &[V]) -> &[Self::Array<V>];
        fn whole_mut<V: Copy + Debug + Send + Sync + 'static>(lanes: &mut [V]) -> &mut [Self::Array<V>];
    }
}

macro_rules! samples {
    ($name:ident, $lanes:literal, $count:literal, $student:literal, $opposed:literal) => {
        impl sealed::Lanes for $name {
            const LANES: usize = $lanes;
            const OPPOSED: bool = $opposed;
            type Array<V: Copy + core::fmt::Debug + Send + Sync + 'static> = [V; $lanes];
            #[inline(always)]
            fn build<V: Copy + core::fmt::Debug + Send + Sync + 'static>(
                lane: impl FnMut(usize) -> V,
            ) -> [V; $lanes] {
                core::array::from_fn(lane)
            }
            #[inline(always)]
            fn flat<V: Copy + core::fmt::Debug + Send + Sync + 'static>(arrays: &[[V; $lanes]]) -> &[V] {
                arrays.as_flattened()
            }
            #[inline(always)]
            fn flat_mut<V: Copy + core::fmt::Debug + Send + Sync + 'static>(
                arrays: &mut [[V; $lanes]],
            ) -> &mut [V] {
                arrays.as_flattened_mut()
            }
            #[inline(always)]
            fn whole<V: Copy + core::fmt::Debug + Send + Sync + 'static>(lanes: &[V]) -> &[[V; $lanes]] {
                let (arrays, rest) = lanes.as_chunks();
                assert!(rest.is_empty(), "samples of a part of a number");
                arrays
            }
            #[inline(always)]
            fn whole_mut<V: Copy + core::fmt::Debug + Send + Sync + 'static>(
                lanes: &mut [V],
            ) -> &mut [[V; $lanes]] {
                let (arrays, rest) = lanes.as_chunks_mut();
                assert!(rest.is_empty(), "samples of a part of a number");
                arrays
            }
        }
        impl Samples for $name {
            const COUNT: usize = $count;
            const STUDENT: f64 = $student;
        }
    };
}

samples!(Three, 4, 3, 4.302_652_729_911_275, true);
samples!(Eight, 8, 8, 2.364_624_251_592_784, false);
samples!(Sixteen, 16, 16, 2.131_449_545_559_323, false);
