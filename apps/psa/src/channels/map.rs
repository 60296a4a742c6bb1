//! Map from channels of digitisers to the contacts of a crystal.

use std::collections::HashMap;

use super::Channel;

/// Limit of the samples of a digitiser's trace.
pub const MOST_SAMPLES: usize = 4080;

/// Source of a contact's samples: conversion of its trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContactSource {
    pub(crate) contact: Channel,
    /// Energy of one step (keV), with the sign of the polarity.
    pub(crate) unit: f64,
    /// Delay in samples.
    pub(crate) late: f64,
}

/// A map from channels of digitisers to the contacts of a crystal.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelMap {
    pub(crate) step: f64,
    pub(crate) baseline: usize,
    pub(crate) begin: usize,
    /// Sources by board, module and channel.
    pub(crate) sources: HashMap<[u16; 3], ContactSource>,
}

impl ChannelMap {
    /// Returns the time between samples (ns).
    pub fn step(&self) -> f64 {
        self.step
    }
}

/// Returns the name of a contact in messages.
pub(crate) fn contact_name(contact: Channel) -> String {
    if contact == Channel::CORE { "the core".into() } else { format!("segment {}", contact.index()) }
}
