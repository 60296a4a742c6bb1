//! Numbers that carry their rounding errors: discrete stochastic arithmetic.
//!
//! Each number is several samples; each operation rounds each sample up or down at random. The
//! digits in which the samples agree are exact. [`Scope`] sets the random bits and counts
//! instabilities by category and place; [`element`] makes bits independent of how work is divided;
//! [`vectorize`] compiles a loop for the processor at hand; [`programs`] has examples.
//!
//! ```
//! use zellige_stochastic::{Scope, Stochastic};
//!
//! let scope = Scope::new(1);
//! let sum = scope.run(|| (1..=1000).map(|k| Stochastic::<f32>::new(1.0) / k as f32).sum::<Stochastic<f32>>());
//! assert!(sum.digits() < 7 && (sum.mean() - 7.485_470_860_550_345).abs() < 1e-4);
//! println!("{sum}"); // exact digits only
//! ```
#![forbid(unsafe_code)]

mod arithmetic;
mod compare;
mod continuous;
mod digits;
mod exact;
mod functions;
mod instability;
mod number;
mod numbers;
mod perturbation;
#[doc = include_str!("programs.md")]
pub mod programs {}
mod random;
mod sample;
mod samples;
mod scope;
mod state;
mod submitted;
mod text;
mod trust;
mod vectorize;
mod wide;

pub use continuous::Continuous;
pub use instability::{Categories, Category, Occurrence, Place, Site};
pub use number::Stochastic;
pub use perturbation::Perturbation;
pub use sample::Sample;
pub use samples::{Eight, Samples, Sixteen, Three};
pub use scope::{Report, Scope};
pub use state::element;
pub use submitted::{SubmittedTask, follow};
pub use trust::{DigitMap, Trust, TrustOptions, WithSamples};
pub use vectorize::vectorize;
