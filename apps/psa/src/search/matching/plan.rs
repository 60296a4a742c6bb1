//! Plan of the search of a segment: the method, the exponent, and the precision of each stage.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use zellige_kernels::distance::Metric;

use crate::Error;
use crate::search::segment::{SampleFormat, THOUSAND};

/// Limit of the undecided points of an exact search by its name alone.
const MOST_UNDECIDED: usize = 1000;

/// Method that selects the points that are compared with an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Full grid search: all points.
    Full,
    /// Coarse and fine grid search: the points of a coarse lattice, then the fine ones around the
    /// best of them.
    CoarseFine {
        /// Number of coarse points whose fine points are compared.
        cells: usize,
    },
    /// Screen: all points by a cheaper measure, then the best of them by the metric itself.
    Screen {
        /// Cheaper measure of the first stage.
        by: Screen,
        /// Number of points that are compared again.
        keep: usize,
    },
    /// Exact search: a screen by [`Screen::Bits`], after which all points that the proven error of
    /// the screen leaves in question are compared again, in the end in `f64`. The answer is that of
    /// a full search in `f64`.
    Exact {
        /// Limit of the points in question, above which every point is compared.
        cap: usize,
    },
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Full => f.write_str("fgs"),
            Method::CoarseFine { cells } => write!(f, "cfgs:{cells}"),
            Method::Screen { by, keep } => write!(f, "screen:{by}:{keep}"),
            Method::Exact { .. } => f.write_str("exact"),
        }
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wanted = || {
            let problem = "use fgs, cfgs, cfgs:3, screen, screen:bits, screen:bits:16 or exact".to_owned();
            Error::Parameter { name: "method", problem }
        };
        let count = |text: &str| text.parse().map_err(|_| wanted());
        let screen = |by: &str, keep| Ok(Method::Screen { by: by.parse()?, keep });
        match text.split(':').collect::<Vec<_>>()[..] {
            ["fgs"] => Ok(Method::Full),
            ["cfgs"] => Ok(Method::CoarseFine { cells: 1 }),
            ["cfgs", cells] => Ok(Method::CoarseFine { cells: count(cells)? }),
            ["screen"] => screen("quarter", 8),
            ["screen", by] => screen(by, 8),
            ["screen", by, keep] => screen(by, count(keep)?),
            ["exact"] => Ok(Method::Exact { cap: MOST_UNDECIDED }),
            _ => Err(wanted()),
        }
    }
}

/// Cheaper measure of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// Quarter of the bits: approximately the power of 1/4.
    Quarter,
    /// Power within a few percent, from the bits.
    Bits,
    /// Magnitude.
    Linear,
    /// Square.
    Square,
    /// Square, by the matrix product of the samples of events and of points. It keeps the same
    /// points as [`Screen::Square`]; points that its sums cannot distinguish are compared by direct
    /// sums.
    Product,
    /// The power itself: useful with samples of two bytes.
    Power,
}

/// Precision of storage and computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// All stages in `f64`.
    Fp64,
    /// All stages in `f32`.
    Fp32,
    /// All stages with the rounding of pairs of `f16` on a GPU.
    Fp16,
    /// First stage in `f16`, second in `f32`.
    Mixed,
    /// Samples in fixed point of 16 bits, computation in `f32`.
    Int16,
    /// Samples in `bf16`, computation in `f32`.
    Bf16,
}

/// Source of the powers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PowerTable {
    /// No table: powers are computed.
    #[default]
    None,
    /// Table of 2 MB at whole thousandths of the charge.
    Whole,
    /// Table of 16 KB by the logarithm, with linear interpolation.
    Log,
}

/// Plan of the search for an event in one segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Method of the search.
    pub method: Method,
    /// Exponent of the figure of merit, above 0.
    pub p: f64,
    /// Precision of storage and computation.
    pub precision: Precision,
    /// Source of the powers, in `f32` and less.
    pub table: PowerTable,
    /// Whether a screen must state for each event if its answer is proven to be that of a full
    /// search in `f64`. It requires [`Screen::Bits`] with samples in `f32`.
    pub certify: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Plan::DEFAULT
    }
}

/// Stage of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::search) enum Stage {
    First,
    Last,
}

/// Metrics of a plan's stages for one block, created on first use: tables take longer than a batch.
#[derive(Clone, Debug, Default)]
pub(in crate::search) struct Metrics([OnceLock<Metric>; 2]);

impl Metrics {
    /// Returns the metric of a stage of `plan`; the samples' `scale` must be the same in all calls.
    pub(in crate::search) fn of(&self, plan: &Plan, stage: Stage, scale: f32) -> &Metric {
        self.0[stage as usize].get_or_init(|| plan.metric(stage, scale))
    }
}

impl Plan {
    /// The best 8 of a screen by a quarter of the bits, `p = 0.3`, in `f32`.
    pub const DEFAULT: Plan = Plan {
        method: Method::Screen { by: Screen::Quarter, keep: 8 },
        p: 0.3,
        precision: Precision::Fp32,
        table: PowerTable::None,
        certify: false,
    };

    /// Checks that the plan is valid.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the invalid parameter.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |name, problem: &str| Err(Error::Parameter { name, problem: problem.into() });
        if !(self.p > 0.0 && self.p <= 4.0) {
            return wrong("p", "an exponent above 0 and at most 4 is needed");
        }
        match self.method {
            Method::Full if self.precision == Precision::Mixed => wrong(
                "precision",
                "mixed is for methods with two stages: use cfgs or screen, or another precision",
            ),
            Method::CoarseFine { cells: 0 } => wrong("cells", "at least one cell must be searched"),
            Method::Screen { keep: 0, .. } => wrong("top", "at least one point must be kept"),
            Method::Screen { by: Screen::Bits, .. } | Method::Exact { .. } if self.p > 1.0 => {
                wrong("p", "a screen by bits, and so an exact search, is for exponents up to 1")
            }
            Method::Screen { by: Screen::Bits, .. } if self.certify && self.precision == Precision::Fp32 => {
                Ok(())
            }
            _ if self.certify => wrong("certify", "the proof exists for the screen bits in fp32 only"),
            Method::Exact { .. } if !matches!(self.precision, Precision::Fp32 | Precision::Fp64) => {
                wrong("precision", "an exact search screens in fp32 and ends in fp64")
            }
            _ => Ok(()),
        }
    }

    /// Returns whether GPUs have kernels for all stages: for full searches and screens (that by
    /// products uses a library in part), with samples in `f32`, `i16` or `bf16` and powers that are
    /// computed.
    pub fn runs_on_gpus(&self) -> bool {
        let method = matches!(self.method, Method::Full | Method::Screen { .. });
        let precision = matches!(self.precision, Precision::Fp32 | Precision::Int16 | Precision::Bf16);
        method && precision && self.table == PowerTable::None && !self.certify
    }

    /// Returns whether the plan proves its answers.
    pub(in crate::search) fn proves(&self) -> bool {
        self.certify || matches!(self.method, Method::Exact { .. })
    }

    /// Returns the storage format of the samples of a stage.
    pub(in crate::search) fn format(&self, stage: Stage) -> SampleFormat {
        let two_stages = matches!(self.method, Method::Screen { .. } | Method::Exact { .. });
        match (self.precision, stage) {
            (_, Stage::Last) if two_stages => SampleFormat::F32,
            (Precision::Fp64 | Precision::Fp32, _) | (Precision::Mixed, Stage::Last) => SampleFormat::F32,
            (Precision::Fp16, _) | (Precision::Mixed, Stage::First) => SampleFormat::F16,
            (Precision::Int16, _) => SampleFormat::I16,
            (Precision::Bf16, _) => SampleFormat::Bf16,
        }
    }

    /// Returns the number of bytes of a sample of the basis, in the first and in the last stage.
    pub(crate) fn sample_bytes(&self) -> [usize; 2] {
        [Stage::First, Stage::Last].map(|stage| self.format(stage).bytes())
    }

    /// Returns whether a stage is computed in `f64`.
    pub(in crate::search) fn is_double(&self, stage: Stage) -> bool {
        let screens = matches!(self.method, Method::Screen { .. });
        self.precision == Precision::Fp64 && !(screens && stage == Stage::First)
    }

    /// Returns whether a stage sums by matrix products.
    pub(in crate::search) fn is_product(&self, stage: Stage) -> bool {
        matches!(self.method, Method::Screen { by: Screen::Product, .. }) && stage == Stage::First
    }

    /// Returns the metric of a stage; `scale` is that of its samples.
    pub(in crate::search) fn metric(&self, stage: Stage, scale: f32) -> Metric {
        match (self.method, stage) {
            (Method::Screen { by, .. }, Stage::First) => match by {
                Screen::Quarter => Metric::quarter_bits(),
                Screen::Bits => Metric::bits(self.p),
                Screen::Linear => Metric::power(1.0),
                Screen::Square | Screen::Product => Metric::power(2.0),
                Screen::Power => self.power(scale),
            },
            _ => self.power(scale),
        }
    }

    /// Returns the factor that converts a sum by a metric to a figure of merit; `scale` is that of
    /// the samples.
    pub(in crate::search) fn unit(&self, metric: &Metric, scale: f32) -> f64 {
        metric.unit() * (THOUSAND / f64::from(scale)).powf(self.p)
    }

    fn power(&self, scale: f32) -> Metric {
        match self.table {
            PowerTable::None => Metric::power(self.p),
            PowerTable::Whole => Metric::whole_table(self.p, THOUSAND as f32 / scale),
            PowerTable::Log => Metric::log_table(self.p),
        }
    }
}

/// Names on command lines.
macro_rules! names {
    ($type:ident, $name:literal: $($variant:ident $word:literal),*) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($type::$variant => $word),* })
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(word: &str) -> Result<Self, Error> {
                match word {
                    $($word => Ok($type::$variant),)*
                    _ => Err(Error::Parameter {
                        name: $name,
                        problem: format!("'{word}' is not one of {}", [$($word),*].join(", ")),
                    }),
                }
            }
        }
    };
}
names!(Screen, "screen": Quarter "quarter", Bits "bits", Linear "linear", Square "square", Product "product",
    Power "power");
names!(Precision, "precision":
    Fp64 "fp64", Fp32 "fp32", Fp16 "fp16", Mixed "mixed", Int16 "int16", Bf16 "bf16");
names!(PowerTable, "lut": None "none", Whole "whole", Log "log");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for word in ["fp64", "fp32", "fp16", "mixed", "int16", "bf16"] {
            assert_eq!(word.parse::<Precision>().expect("a precision").to_string(), word);
        }
        for word in ["fgs", "cfgs:3", "screen:bits:16", "exact"] {
            assert_eq!(word.parse::<Method>().expect("a method").to_string(), word);
        }
        assert_eq!("screen".parse::<Method>().expect("a method"), Plan::DEFAULT.method);
        for word in ["", "fgs:2", "cfgs:x", "screen:bit", "screen:bits:8:2"] {
            assert!(word.parse::<Method>().is_err(), "{word}");
        }
        let problem = "fp8".parse::<Precision>().expect_err("no precision").to_string();
        assert!(problem.contains("fp64"), "{problem}");
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let plan = Plan::default();
        plan.check().expect("the default");
        let exact = Method::Exact { cap: 10 };
        for wrong in [
            Plan { p: 0.0, ..plan },
            Plan { p: f64::NAN, ..plan },
            Plan { method: Method::Full, precision: Precision::Mixed, ..plan },
            Plan { method: Method::CoarseFine { cells: 0 }, ..plan },
            Plan { method: Method::Screen { by: Screen::Bits, keep: 0 }, ..plan },
            Plan { method: exact, p: 2.0, ..plan },
            Plan { method: exact, precision: Precision::Fp16, ..plan },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
