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
    /// auto takes the fewest bits that lose at most --max-strehl-loss of the exact Strehl ratio, by
    /// up to four runs. It is for one precision rule.
    #[arg(long, value_name = "4..8|auto")]
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
            Ok(number) if (4..=8).contains(&number) => Ok(Bits::Number(number)),
            _ if text == "auto" => Ok(Bits::Auto),
            _ => Err("4, 5, 6, 7, 8 and auto are possible".into()),
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
            Bits::Number(bits) => self.of_bits(bits),
        }
    }

    /// Returns the formats to choose from, the narrowest first, and the largest loss of the Strehl
    /// ratio; none if the format is given.
    ///
    /// # Errors
    /// A largest loss without a choice.
    pub fn choice(&self) -> anyhow::Result<Option<(Vec<Rounding>, f64)>> {
        match self.bits {
            Some(Bits::Auto) => {
                let formats = (4..=8).filter_map(|bits| self.of_bits(bits)).collect();
                Ok(Some((formats, self.max_strehl_loss.unwrap_or(1e-4))))
            }
            _ if self.max_strehl_loss.is_some() => {
                anyhow::bail!(
                    "--max-strehl-loss is for --bits auto: a given number of bits is taken as it is"
                )
            }
            _ => Ok(None),
        }
    }

    fn of_bits(&self, bits: u32) -> Option<Rounding> {
        let format = Rounding::new(bits, RoundingArgs::GROUP)?;
        Some(if self.nearest { format.to_nearest() } else { format })
    }
}
