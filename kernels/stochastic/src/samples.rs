//! Numbers of samples.

/// Number of samples of a [`Stochastic`](crate::Stochastic) number. Sealed: [`Three`], [`Eight`],
/// [`Sixteen`].
pub trait Samples: sealed::Lanes + Copy + core::fmt::Debug + Send + Sync + 'static {
    /// Samples that count in the mean and in the digits.
    const COUNT: usize;
    /// Standard deviations on either side of the mean that hold the result with 95 %.
    ///
    /// With Student's two-sided quantile `t` of `N - 1` degrees of freedom: `t / sqrt(N)` for three
    /// samples, which is CADNA's interval of the mean. With more samples that interval shrinks
    /// below the scatter of the results; there it is `t sqrt(1 + 1 / N)`, the interval of one more
    /// run, such as the program without stochastic arithmetic.
    const DEVIATIONS: f64;
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
    ($name:ident, $lanes:literal, $count:literal, $deviations:literal, $opposed:literal) => {
        impl sealed::Lanes for $name {
            const LANES: usize = $lanes;
            const OPPOSED: bool = $opposed;
            type Array<V: Copy + core::fmt::Debug + Send + Sync + 'static> = [V; $lanes];
            #[inline(always)]
            fn build<V: Copy + core::fmt::Debug + Send + Sync + 'static>(
                mut lane: impl FnMut(usize) -> V,
            ) -> [V; $lanes] {
                // A loop: a function of the standard library may be compiled without the
                // instructions of `vectorize`.
                let mut lanes = [lane(0); $lanes];
                for i in 1..$lanes {
                    lanes[i] = lane(i);
                }
                lanes
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
            const DEVIATIONS: f64 = $deviations;
        }
    };
}

samples!(Three, 4, 3, 2.484138, true);
samples!(Eight, 8, 8, 2.508063, false);
samples!(Sixteen, 16, 16, 2.197048, false);
