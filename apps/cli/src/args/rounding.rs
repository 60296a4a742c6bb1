//! Options of reconstructors in few bits.

use std::str::FromStr;

use clap::Args;
use zellige_dense::Rounding;

/// Options of reconstructors in few bits.
#[derive(Debug, Args)]
pub struct RoundingArgs {
    /// Round the reconstructor to integers of so many bits, with scales for 32 columns each.
    ///
    /// It is rounded within the solve, so that columns make up for the errors of others: the
    /// residual, not each entry, changes least.
    ///
    /// auto chooses the bits of each block of 64 rows and 32 columns, 2 to 16, so that all blocks
    /// lose about as much, and the reconstructor at most --max-strehl-loss of the exact Strehl
    /// ratio. It takes three to seven runs, and is for one precision rule.
    #[arg(long, value_name = "2..16|auto")]
    pub bits: Option<Bits>,
    /// Largest loss of the exact Strehl ratio by --bits auto [default: 1e-4].
    #[arg(long, value_name = "LOSS", requires = "bits", value_parser = loss, hide_short_help = true)]
    pub max_strehl_loss: Option<f64>,
    /// Round each entry to the nearest number instead, for comparison.
    #[arg(long, requires = "bits", hide_short_help = true)]
    pub nearest: bool,
}

/// Parses a loss of the Strehl ratio.
fn loss(text: &str) -> Result<f64, String> {
    let parsed = text.parse::<f64>().ok().filter(|loss| (0.0..1.0).contains(loss));
    parsed.ok_or_else(|| "a number from 0 to below 1, such as 1e-4".into())
}

/// Number of bits of a reconstructor; see [`RoundingArgs::bits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// The fewest that are accurate enough.
    Auto,
    /// This number.
    Number(u32),
}

impl FromStr for Bits {
    type Err = String;

    fn from_str(text: &str) -> Result<Bits, String> {
        match text.parse() {
            Ok(number) if Rounding::BITS.contains(&number) => Ok(Bits::Number(number)),
            _ if text == "auto" => Ok(Bits::Auto),
            _ => Err("2 to 16 and auto are possible".into()),
        }
    }
}

impl RoundingArgs {
    /// Number of columns that share a scale.
    const GROUP: usize = 32;

    /// Returns the format to round to, if it is given.
    pub fn format(&self) -> Option<Rounding> {
        match self.bits? {
            Bits::Auto => None,
            Bits::Number(bits) => Some(self.by(Rounding::new(bits, RoundingArgs::GROUP)?)),
        }
    }

    /// Returns the format in which an entry is expected to lose `loss`.
    pub fn within(&self, loss: f64) -> Rounding {
        self.by(Rounding::within(loss, RoundingArgs::GROUP))
    }

    /// Returns the largest loss of the Strehl ratio if the bits are to be chosen.
    ///
    /// # Errors
    /// A largest loss without a choice.
    pub fn largest_loss(&self) -> anyhow::Result<Option<f64>> {
        match self.bits {
            Some(Bits::Auto) => Ok(Some(self.max_strehl_loss.unwrap_or(1e-4))),
            _ if self.max_strehl_loss.is_some() => {
                anyhow::bail!(
                    "--max-strehl-loss is for --bits auto: a given number of bits is taken as it is"
                )
            }
            _ => Ok(None),
        }
    }

    fn by(&self, format: Rounding) -> Rounding {
        if self.nearest { format.to_nearest() } else { format }
    }
}
