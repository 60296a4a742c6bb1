//! Numbers of samples.

use bytemuck::{Pod, Zeroable};

/// Number of samples of a [`Stochastic`](crate::Stochastic) number. Sealed: [`Three`], [`Eight`],
/// [`Sixteen`].
pub trait Samples: sealed::Lanes + Pod + core::fmt::Debug + Send + Sync {
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
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Three;

/// Eight independent samples, the default: one AVX-512 register, or two of AVX2.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Eight;

/// Sixteen independent samples: 2^-16 is the chance that all agree on a wrong number.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Sixteen;

pub(crate) mod sealed {
    use bytemuck::Pod;
    use core::fmt::Debug;

    /// Storage of the samples: a power of two of lanes, so that they fill registers.
    pub trait Lanes {
        const LANES: usize;
        /// The third lane is rounded in the other direction than the second.
        const OPPOSED: bool;
        /// The random bits of the lanes. With opposed lanes they say up or down, and the third lane
        /// goes where the second does not; else they say whether the lane is moved.
        #[inline(always)]
        fn choices(word: u64) -> u64 {
            if Self::OPPOSED { word & !4 | (!word & 2) << 1 } else { word }
        }
        type Array<V: Pod + Debug + Send + Sync>: Pod + Debug + Send + Sync + AsRef<[V]> + AsMut<[V]>;
        fn build<V: Pod + Debug + Send + Sync>(lane: impl FnMut(usize) -> V) -> Self::Array<V>;
    }
}

macro_rules! samples {
    ($name:ident, $lanes:literal, $count:literal, $deviations:literal, $opposed:literal) => {
        impl sealed::Lanes for $name {
            const LANES: usize = $lanes;
            const OPPOSED: bool = $opposed;
            type Array<V: Pod + core::fmt::Debug + Send + Sync> = [V; $lanes];
            #[inline(always)]
            fn build<V: Pod + core::fmt::Debug + Send + Sync>(
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
