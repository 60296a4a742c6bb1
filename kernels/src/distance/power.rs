//! Powers of the difference of two samples: exact ones, one for any exponent, tables, and two that
//! are no more than a few instructions.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::GPU_NUMBERS;
use super::lanes::LaneOps;
use super::number::OneLane;

/// Mask of all bits except the sign.
const MAGNITUDE: u32 = 0x7fff_ffff;
/// The bits of a mantissa.
const MANTISSA: u32 = 23;

/// A function of the magnitude of a number.
pub(super) trait Power {
    /// Applies the function to each lane of `d`, which may have any sign.
    fn of<L: LaneOps>(&self, lanes: L, d: L::Vector) -> L::Vector;
}

/// Applies the function to one number.
pub(super) fn of_one(power: &impl Power, d: f32) -> f32 {
    power.of(OneLane::<f32>::new(0), d)
}

/// `|d|^p` for any `p` above 0, as `2^(p log2 |d|)` with polynomials: of degree 8 for the logarithm
/// on `[sqrt(1/2), sqrt(2))`, whose absolute error is below 4.9e-8, of degree 5 for the power of
/// two, whose relative error is below 7.5e-8. Numbers below the smallest normal one count as zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnyPower {
    p: f32,
    /// `p` times those of [`LOG2`].
    log2: [f32; 8],
}

/// `log2(1 + t) / t`, minimax for the absolute error of the logarithm (Remez exchange).
const LOG2: [f64; 8] = [
    1.4426947832107544,
    -0.7213571667671204,
    0.48093944787979126,
    -0.36008721590042114,
    0.28670746088027954,
    -0.2500690221786499,
    0.23689039051532745,
    -0.14574450254440308,
];
/// `2^f` on `[-1/2, 1/2]`, minimax for the relative error (Remez exchange).
const EXP2: [f32; 6] = [1.000_000_1, 0.693_146_94, 0.240_221_2, 0.055_507_13, 0.009_675_541, 0.001_327_647_1];
/// The bits of `sqrt(1/2)`.
const ROOT_OF_HALF: u32 = 0x3f35_04f3;
/// Addend that rounds a sum to a whole number, `1.5 2^23`.
const ROUNDER: f32 = 12_582_912.0;

impl AnyPower {
    /// Creates the power for an exponent above 0.
    pub fn new(p: f64) -> Self {
        AnyPower { p: p as f32, log2: LOG2.map(|c| (c * p) as f32) }
    }

    /// The exponent and the coefficients, for kernels of GPUs.
    pub fn numbers(&self) -> [f32; GPU_NUMBERS] {
        std::array::from_fn(|i| if i == 0 { self.p } else { self.log2[i - 1] })
    }
}

impl Power for AnyPower {
    #[inline(always)]
    fn of<L: LaneOps>(&self, l: L, d: L::Vector) -> L::Vector {
        let x = l.and(d, MAGNITUDE);
        // x = 2^e m with m from sqrt(1/2) to sqrt(2).
        let over = l.sub_int(x, l.splat(f32::from_bits(ROOT_OF_HALF)));
        let e = l.number_of(l.shift_right_signed::<MANTISSA>(over));
        let m = l.sub_int(x, l.and(over, 0xff80_0000));
        let t = l.sub(m, l.splat(1.0));
        let mut log2 = l.splat(self.log2[7]);
        for k in (0..7).rev() {
            log2 = l.mul_add(log2, t, l.splat(self.log2[k]));
        }
        // y = p log2(x) = n + f.
        let y = l.mul_add(log2, t, l.mul(e, l.splat(self.p)));
        let shifted = l.add_nearest(y, l.splat(ROUNDER));
        let f = l.sub(y, l.sub(shifted, l.splat(ROUNDER)));
        let mut power = l.splat(EXP2[5]);
        for k in (0..5).rev() {
            power = l.mul_add(power, f, l.splat(EXP2[k]));
        }
        // The last bits of `shifted` are n: in the exponent they multiply by 2^n.
        l.where_normal(x, l.add_int(power, l.shift_left::<MANTISSA>(shifted)))
    }
}

/// `|d|^p` within a few percent, for `p` from 0 to 1. The bits of a number approximate its
/// logarithm, so that their multiplication approximates a power. The result never decreases if
/// `|d|` grows; the error proofs rely on this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BitPower {
    factor: f32,
    offset: f32,
}

impl BitPower {
    /// Creates the power for an exponent from 0 to 1. The approximations of the logarithm and of
    /// its inverse both have errors between 0 and 0.0861 in units of `log2`. The offset centres the
    /// remaining error around zero.
    pub fn new(p: f64) -> Self {
        let one = 127.0 * f64::from(1u32 << MANTISSA);
        let mean = 0.043 * (1.0 - p) * f64::from(1u32 << MANTISSA);
        BitPower { factor: p as f32, offset: ((1.0 - p) * one - mean) as f32 }
    }

    /// The factor and the offset, for kernels of GPUs.
    pub fn numbers(&self) -> [f32; GPU_NUMBERS] {
        let numbers = [self.factor, self.offset];
        std::array::from_fn(|i| numbers.get(i).copied().unwrap_or(0.0))
    }
}

impl Power for BitPower {
    #[inline(always)]
    fn of<L: LaneOps>(&self, l: L, d: L::Vector) -> L::Vector {
        let bits = l.number_of(l.and(d, MAGNITUDE));
        l.to_int(l.mul_add(bits, l.splat(self.factor), l.splat(self.offset)))
    }
}

/// About `|d|^(1/4)` times a constant, in two instructions: a quarter of the bits. It never
/// decreases where `|d|` grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuarterBits;

impl QuarterBits {
    /// Result for 1.
    pub const ONE: f32 = f32::from_bits(0x3f80_0000 >> 2);
}

impl Power for QuarterBits {
    #[inline(always)]
    fn of<L: LaneOps>(&self, l: L, d: L::Vector) -> L::Vector {
        l.shift_right::<2>(l.and(d, MAGNITUDE))
    }
}

/// `|d|^(1/4)`, two roots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FourthRoot;

impl Power for FourthRoot {
    #[inline(always)]
    fn of<L: LaneOps>(&self, l: L, d: L::Vector) -> L::Vector {
        l.sqrt(l.sqrt(l.and(d, MAGNITUDE)))
    }
}

/// `|d|^(1/2)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Root;

impl Power for Root {
    #[inline(always)]
    fn of<L: LaneOps>(&self, l: L, d: L::Vector) -> L::Vector {
        l.sqrt(l.and(d, MAGNITUDE))
    }
}

/// `|d|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Magnitude;

impl Power for Magnitude {
    #[inline(always)]
    fn of<L: LaneOps>(&self, l: L, d: L::Vector) -> L::Vector {
        l.and(d, MAGNITUDE)
    }
}

/// `d^2`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Square;

impl Power for Square {
    #[inline(always)]
    fn of<L: LaneOps>(&self, l: L, d: L::Vector) -> L::Vector {
        l.mul(d, d)
    }
}

/// `|d|^p` from a table at whole multiples of a unit, rounded down: the look-up table of 2 MB of
/// the production codes.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeTable {
    units: f32,
    table: Arc<[f32]>,
}

/// The tables that somebody has, by the bits of their exponent and unit.
type Tables = Vec<((u64, u32), Weak<[f32]>)>;
static TABLES: Mutex<Tables> = Mutex::new(Vec::new());

impl WholeTable {
    /// Elements, of 4 bytes each: 2 MB.
    pub const LEN: usize = 1 << 19;

    /// Creates the table for differences of `1 / units`. All live instances with the same numbers
    /// share one table.
    pub fn new(p: f64, units: f32) -> Self {
        let key = (p.to_bits(), units.to_bits());
        let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|(_, table)| table.strong_count() > 0);
        let known = tables.iter().find(|(other, _)| *other == key).and_then(|(_, table)| table.upgrade());
        let table = known.unwrap_or_else(|| {
            let scale = f64::from(units).powf(-p);
            let table: Arc<[f32]> = (0..Self::LEN).map(|i| ((i as f64).powf(p) * scale) as f32).collect();
            tables.push((key, Arc::downgrade(&table)));
            table
        });
        WholeTable { units, table }
    }
}

impl Power for WholeTable {
    #[inline(always)]
    fn of<L: LaneOps>(&self, l: L, d: L::Vector) -> L::Vector {
        let units = l.mul(l.and(d, MAGNITUDE), l.splat(self.units));
        l.look_up(&self.table, l.truncate(units))
    }
}

/// `|d|^p` from a table of 16 KB with 64 places for each power of two from 2^-40 to 2^24, and a
/// straight line between two places.
#[derive(Clone, Debug, PartialEq)]
pub struct LogTable {
    table: Vec<f32>,
}

/// Bits of a number that are not in its place in a [`LogTable`].
const REST: u32 = 17;
/// The bits of the first number of a [`LogTable`].
const FIRST: u32 = (127 - 40) << MANTISSA;

impl LogTable {
    /// Creates the table for an exponent above 0.
    pub fn new(p: f64) -> Self {
        let number = |place: u32| f64::from(f32::from_bits(FIRST + (place << REST)));
        LogTable { table: (0..=1u32 << 12).map(|place| number(place).powf(p) as f32).collect() }
    }
}

impl Power for LogTable {
    #[inline(always)]
    fn of<L: LaneOps>(&self, l: L, d: L::Vector) -> L::Vector {
        let x = l.max_int(l.and(d, MAGNITUDE), FIRST);
        let bits = l.sub_int(x, l.splat(f32::from_bits(FIRST)));
        let place = l.shift_right::<REST>(bits);
        let next = l.add_int(place, l.splat(f32::from_bits(1)));
        let (low, high) = (l.look_up(&self.table, place), l.look_up(&self.table, next));
        let rest = l.mul(l.number_of(l.and(x, (1 << REST) - 1)), l.splat(1.0 / (1 << REST) as f32));
        l.mul_add(rest, l.sub(high, low), low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_made_once_for_all_that_use_it() {
        let (first, second) = (WholeTable::new(0.37, 1000.0), WholeTable::new(0.37, 1000.0));
        assert!(Arc::ptr_eq(&first.table, &second.table));
        for other in [WholeTable::new(0.37, 500.0), WholeTable::new(0.38, 1000.0)] {
            assert!(!Arc::ptr_eq(&first.table, &other.table) && first != other);
        }
        let weak = Arc::downgrade(&first.table);
        drop((first, second));
        assert_eq!(weak.strong_count(), 0);
    }
}
