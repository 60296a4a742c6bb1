//! A value of any of the types, for the oracle.

use std::ops::Range;

use zellige_runtime::data::Portable;
use zellige_runtime::{Data, Format, Meta};

use super::case::{Kind, Start};
use super::words::{Sample, Words};

/// A value of one of the types.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Words(Words<true>),
    Local(Words<false>),
    Plain(Vec<u64>),
}

macro_rules! each {
    ($value:expr, $inner:ident => $answer:expr) => {
        match $value {
            Value::Words($inner) => $answer,
            Value::Local($inner) => $answer,
            Value::Plain($inner) => $answer,
        }
    };
}

impl Value {
    pub(super) fn fresh(kind: Kind, format: Format, len: usize, seed: u64) -> Self {
        match kind {
            Kind::Words => Value::Words(Sample::fresh(format, len, seed)),
            Kind::Local => Value::Local(Sample::fresh(format, len, seed)),
            Kind::Plain => Value::Plain(Sample::fresh(format, len, seed)),
        }
    }

    pub(super) fn first(start: &Start) -> Option<Self> {
        (!start.empty).then(|| Value::fresh(start.kind, start.format, start.len, start.seed))
    }

    pub(super) fn meta(&self) -> Meta {
        each!(self, value => value.meta())
    }

    /// Returns a region of a plain vector, if it has that region.
    pub(super) fn part(&self, region: &Range<usize>) -> Option<Self> {
        let Value::Plain(words) = self else { return None };
        words.get(region.clone()).map(|words| Value::Plain(words.to_vec()))
    }

    /// Puts a region of a plain vector back; false if either has another length.
    pub(super) fn put_part(&mut self, region: &Range<usize>, part: &Self) -> bool {
        let (Value::Plain(words), Value::Plain(part)) = (self, part) else { return false };
        let place = words.get_mut(region.clone()).filter(|place| place.len() == part.len());
        place.map(|place| place.copy_from_slice(part)).is_some()
    }

    /// Returns the size of a region of a plain vector (bytes).
    pub(super) fn part_bytes(region: &Range<usize>) -> u64 {
        (region.len() * size_of::<u64>()) as u64
    }

    /// Returns its words in their memory layout.
    pub(super) fn bytes(&self) -> &[u8] {
        each!(self, value => value.parts().swap_remove(0))
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        each!(self, value => value.parts_mut().swap_remove(0))
    }

    /// Returns its size in another format, including the value in it.
    pub(super) fn size_as(&self, to: Format) -> u64 {
        fn size<D: Data>(value: &D, to: Format) -> u64 {
            D::size_as(&value.meta(), to).map_or(0, |bytes| bytes as u64)
        }
        each!(self, value => size(value, to))
    }

    pub(super) fn as_format(&self, to: Format) -> Self {
        fn converted<D: Data + Clone>(value: &D, to: Format) -> D {
            if to == Format::NATIVE || to == value.meta().format {
                return value.clone();
            }
            value.convert(to).expect("asked for where it exists")
        }
        match self {
            Value::Words(value) => Value::Words(converted(value, to)),
            Value::Local(value) => Value::Local(converted(value, to)),
            Value::Plain(value) => Value::Plain(converted(value, to)),
        }
    }

    pub(super) fn digest(&self) -> u64 {
        fn digest<D: Sample>(value: &D) -> u64 {
            D::digest(&value.view())
        }
        each!(self, value => digest(value))
    }

    pub(super) fn mix(&mut self, seed: u64) {
        fn mix<D: Sample>(value: &mut D, seed: u64) {
            D::mix(&mut value.view_mut(), seed);
        }
        each!(self, value => mix(value, seed));
    }

    pub(super) fn add(&mut self, seed: u64) {
        fn add<D: Sample>(value: &mut D, seed: u64) {
            D::add(&mut value.view_mut(), seed);
        }
        each!(self, value => add(value, seed));
    }
}
