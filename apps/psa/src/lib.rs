//! Pulse-shape analysis of segmented germanium detectors: where in a crystal a gamma ray gave its
//! energy.
//!
//! A crystal of AGATA or GRETINA has 36 segments and a core, 37 contacts in all. A charge that
//! drifts in it is seen by all of them, and the shapes of their signals say where it started: they
//! are compared with the signals of known points, the *basis*.
//!
//! | module | what it holds |
//! |---|---|
//! | [`channels`] | segments, channels, and which of them are compared |
//! | [`basis`] | signals of known points |
//! | [`consistency`] | whether bases and events are what they are taken for |
//! | [`body`], [`crystal`] | pieces of germanium with contacts, and the one that a text file describes |
//! | [`grid`], [`fields`] | nodes, and the potentials at them |
//! | [`drift`] | how fast electrons and holes go, where to, and what contacts see of it |
//! | [`electronics`] | preamplifiers, cross-talk, samples |
//! | [`detector`] | all of that together: a point goes in, signals come out |
//! | [`simulate`] | a basis |
//! | [`events`] | events at known positions, with noise |
//! | [`files`] | all of that in files |
//! | [`observe`] | who watches work that takes a while |
//! | [`search`] | which known point an event is most like |
//! | [`mod@array`] | where the crystals of an array are |
//! | [`track`] | which points belong to one gamma ray |
//! | [`params`] | the texts that users write |
//! | [`pipeline`] | events as they come from files, pipes and sockets; answers in files, and how far those of two runs agree |
//! | [`report`] | answers as pages |
//!
//! What is simulated goes one way: crystal, grid, fields, drift, signals, electronics, basis and
//! events.
//!
//! Lengths are in mm, times in ns, energies in keV; a signal of 1 is the whole charge, positive on
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

pub use error::Error;
pub use zellige_files::observe;
