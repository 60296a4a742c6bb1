//! Pulse-shape analysis of segmented germanium detectors: reconstructs the positions at which a
//! gamma ray deposited its energy in a crystal.
//!
//! A crystal of AGATA or GRETINA has 36 segments and a core, 37 contacts in all. A charge that
//! drifts in it induces a signal on every contact, and the signal shapes depend on the point of
//! origin. The search compares measured signals with the signals of known points, the *basis*.
//!
//! | module | content |
//! |---|---|
//! | [`channels`] | segments, channels, and the sets of channels that are compared |
//! | [`basis`] | signals of known points |
//! | [`consistency`] | plausibility checks of bases and events |
//! | [`body`], [`crystal`] | pieces of germanium with contacts, and the crystal that a text file describes |
//! | [`grid`], [`fields`] | nodes, and the potentials at them |
//! | [`drift`] | drift velocities and paths of electrons and holes, and the charges that they induce |
//! | [`electronics`] | preamplifiers, cross-talk, sampling |
//! | [`detector`] | crystal, fields, drift and electronics combined: computes the signals of a point |
//! | [`simulate`] | simulation of a basis |
//! | [`events`] | simulated events at known positions, with noise |
//! | [`files`] | file formats of all these data |
//! | [`observe`] | observers of long computations |
//! | [`search`] | search for the basis points that fit an event best |
//! | [`mod@array`] | positions of the crystals of an array |
//! | [`track`] | gamma-ray tracking: assigns interaction points to gamma rays |
//! | [`params`] | text files that users write |
//! | [`pipeline`] | events from files, pipes and sockets; results in files, and the comparison of two runs |
//! | [`report`] | reports as pages |
//! | [`trust`] | exact digits of searches, by stochastic arithmetic |
//! | [`tune`] | methods and formats of a search, for a search of the cheapest ones |
//!
//! A simulation runs in this order: crystal, grid, fields, drift, signals, electronics, basis and
//! events.
//!
//! Lengths are in mm, times in ns, energies in keV. A signal of 1 is the whole charge, positive on
//! the contacts that collect it.
//!
//! ```
//! use zellige_psa::channels::{Channel, ChannelSet, Segment};
//!
//! let hit = Segment::new(2, 2).expect("there are six sectors of six rings");
//! assert_eq!(hit.index(), 14);
//! assert_eq!(ChannelSet::HitCore.of(hit), [Channel::from(hit), Channel::CORE]);
//! assert_eq!(ChannelSet::Neighbours.of(hit).len(), 10);
//! ```
#![deny(unsafe_code)]
#![deny(missing_docs)]

pub mod array;
pub mod basis;
pub mod body;
pub mod channels;
pub mod consistency;
pub mod crystal;
pub mod detector;
pub mod drift;
pub mod electronics;
mod error;
pub mod events;
pub mod fields;
pub mod files;
pub mod grid;
pub mod params;
pub mod pipeline;
pub mod report;
pub mod search;
pub mod simulate;
pub mod track;
pub mod trust;
pub mod tune;

pub use error::Error;
pub use zellige_files::observe;
