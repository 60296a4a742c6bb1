//! Text with exact digits only.

use core::fmt;

use serde::{Serialize, Serializer};

use crate::Stochastic;
use crate::sample::Sample;
use crate::samples::Samples;

/// Text of a number without an exact digit.
const NOISE: &str = "@.0";

impl<T: Sample, S: Samples> Stochastic<T, S> {
    /// The exact digits as `d.ddde±x`, rounded; None where there are none.
    fn scientific(&self) -> Option<String> {
        let mean = self.mean();
        if !mean.is_finite() {
            return Some(mean.to_string());
        }
        let digits = self.digits();
        (digits > 0).then(|| format!("{mean:.*e}", digits as usize - 1))
    }
}

/// Exact digits, rounded, in decimal notation; `@.0` where there are none.
impl<T: Sample, S: Samples> fmt::Display for Stochastic<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.scientific() {
            None => NOISE.to_owned(),
            Some(text) => decimal(&text),
        };
        f.pad_integral(!text.starts_with('-'), "", text.trim_start_matches('-'))
    }
}

/// Exact digits, rounded, as `d.ddde-x`; `@.0` where there are none.
impl<T: Sample, S: Samples> fmt::LowerExp for Stochastic<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.scientific().unwrap_or_else(|| NOISE.to_owned());
        f.pad_integral(!text.starts_with('-'), "", text.trim_start_matches('-'))
    }
}

/// Decimal notation of `d.ddde±x` where that shows no digit that is not exact, else the text
/// itself.
fn decimal(text: &str) -> String {
    let Some((significand, exponent)) = text.split_once('e') else { return text.to_owned() };
    let exponent: i32 = exponent.parse().expect("an exponent of Rust's formatting");
    let sign = if significand.starts_with('-') { "-" } else { "" };
    let digits: String = significand.chars().filter(char::is_ascii_digit).collect();
    if digits.bytes().all(|d| d == b'0') {
        return "0".to_owned();
    }
    match exponent {
        -5..=-1 => format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize)),
        0.. if (exponent as usize) + 1 < digits.len() => {
            let (whole, part) = digits.split_at(exponent as usize + 1);
            format!("{sign}{whole}.{part}")
        }
        0.. if exponent as usize + 1 == digits.len() => format!("{sign}{digits}"),
        _ => text.to_owned(),
    }
}

#[derive(Serialize)]
struct Written {
    value: f64,
    digits: u32,
    noise: bool,
}

/// An object with `value` (mean), `digits` and `noise`.
impl<T: Sample, S: Samples> Serialize for Stochastic<T, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        Written { value: self.mean(), digits: self.digits(), noise: self.is_noise() }.serialize(serializer)
    }
}
