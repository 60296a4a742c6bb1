//! Messages as bytes.

use std::sync::Arc;

use zellige_runtime::{Cause, Failure, Format, Meta};

use crate::buffers::BUFFERS;
use crate::error::RemoteError;
use crate::journal::{Journal, JournalStep};

/// Identifies a form of a version of a datum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) tag: u64,
    pub(crate) version: u64,
    /// Format; `NATIVE`: the unchanged value.
    pub(crate) format: Format,
    /// True if its reader has requested it; otherwise it is sent by itself.
    pub(crate) requested: bool,
}

/// Number of bytes before the value in a message with a value.
pub(crate) const BEFORE_VALUE: usize = 1 + 8 + 8 + 2 + 1;

/// Expected bytes of a value's header, most often fewer.
const HEADER: usize = 64;

pub(crate) enum Message {
    /// A value, which begins at [`BEFORE_VALUE`].
    Value(Key),
    /// The value does not exist, because a task failed.
    Poisoned(Key, Failure),
    /// Heartbeat: the rank is alive, has made this number of steps, and this is their hash.
    Beat { steps: u64, hash: u64 },
    /// Its last steps: some rank has seen a difference.
    Journal(Journal),
    /// The rank has entered the collective call with this number, after this number of steps with
    /// this hash. `failure` is that of its own tasks.
    Entered { call: u64, steps: u64, hash: u64, failure: Option<Failure> },
    /// All ranks have entered that call; the failure of a rank.
    Agreed(u64, Option<(usize, Failure)>),
    /// All tasks that have not started are cancelled.
    Cancel,
    /// The rank ends, after this number of steps.
    Leave { steps: u64 },
    /// The rank cannot go on.
    Abort(String),
    /// Question for the present time in the receiver's trace.
    AskTime { number: u64 },
    /// The time (ns), in answer to the question of this number.
    Time { number: u64, now: u64 },
    /// The version is complete, and this is its meta: forms of it can be requested.
    Announced(Key, Meta),
    /// The rank requests this form.
    Request(Key),
    /// The rank needs no more forms of the version announced with this key.
    Done(Key),
}

/// Returns the beginning of a message with a value of this many bytes.
pub(crate) fn begin_value(key: Key, bytes: usize) -> Vec<u8> {
    let mut out = BUFFERS.with_capacity(BEFORE_VALUE + HEADER + bytes);
    out.push(0);
    put_key(&mut out, key);
    out
}

impl Message {
    /// Encodes the message; `rank`: the sender.
    pub(crate) fn encode(&self, rank: usize) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Message::Value(key) => return begin_value(*key, 0),
            Message::Poisoned(key, failure) => {
                out.push(1);
                put_key(&mut out, *key);
                put_failure(&mut out, failure, rank);
            }
            Message::Beat { steps, hash } => {
                out.push(2);
                put(&mut out, *steps);
                put(&mut out, *hash);
            }
            Message::Journal(journal) => {
                out.push(3);
                put(&mut out, journal.first());
                for step in journal.kept() {
                    put(&mut out, step.hash);
                    put_text(&mut out, &step.describe());
                }
            }
            Message::Entered { call, steps, hash, failure } => {
                out.push(4);
                [*call, *steps, *hash].into_iter().for_each(|number| put(&mut out, number));
                failure.iter().for_each(|failure| put_failure(&mut out, failure, rank));
            }
            Message::Agreed(call, failure) => {
                out.push(5);
                put(&mut out, *call);
                if let Some((rank, failure)) = failure {
                    put(&mut out, *rank as u64);
                    put_failure(&mut out, failure, *rank);
                }
            }
            Message::Cancel => out.push(6),
            Message::Leave { steps } => {
                out.push(7);
                put(&mut out, *steps);
            }
            Message::Abort(why) => {
                out.push(8);
                put_text(&mut out, why);
            }
            Message::AskTime { number } => {
                out.push(9);
                put(&mut out, *number);
            }
            Message::Time { number, now } => {
                out.push(10);
                put(&mut out, *number);
                put(&mut out, *now);
            }
            Message::Announced(key, meta) => {
                out.push(11);
                put_key(&mut out, *key);
                [u64::from(meta.format.0), meta.norm.to_bits(), meta.bytes as u64]
                    .into_iter()
                    .for_each(|number| put(&mut out, number));
            }
            Message::Request(key) => {
                out.push(12);
                put_key(&mut out, *key);
            }
            Message::Done(key) => {
                out.push(13);
                put_key(&mut out, *key);
            }
        }
        out
    }

    /// Decodes a message; `None` for bytes that are no message.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Message> {
        let (&kind, rest) = bytes.split_first()?;
        let mut from = Reader(rest);
        Some(match kind {
            0 => Message::Value(from.key()?),
            1 => Message::Poisoned(from.key()?, from.failure()?),
            2 => Message::Beat { steps: from.number()?, hash: from.number()? },
            3 => {
                let first = from.number()?;
                let mut steps = Vec::new();
                while !from.0.is_empty() {
                    steps.push(JournalStep::reported(from.number()?, from.text()?));
                }
                Message::Journal(Journal::of(first, steps))
            }
            4 => Message::Entered {
                call: from.number()?,
                steps: from.number()?,
                hash: from.number()?,
                failure: from.rest(Reader::failure)?,
            },
            5 => {
                let failure = |from: &mut Reader<'_>| Some((from.number()? as usize, from.failure()?));
                Message::Agreed(from.number()?, from.rest(failure)?)
            }
            6 => Message::Cancel,
            7 => Message::Leave { steps: from.number()? },
            8 => Message::Abort(from.text()?),
            9 => Message::AskTime { number: from.number()? },
            10 => Message::Time { number: from.number()?, now: from.number()? },
            11 => Message::Announced(from.key()?, from.meta()?),
            12 => Message::Request(from.key()?),
            13 => Message::Done(from.key()?),
            _ => return None,
        })
    }
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn put_key(out: &mut Vec<u8>, key: Key) {
    put(out, key.tag);
    put(out, key.version);
    out.extend(key.format.0.to_le_bytes());
    out.push(key.requested.into());
}

/// True if one is the other, as reported by `rank`.
pub(crate) fn is_same(one: &Failure, other: &Failure, rank: usize) -> bool {
    let bytes = |failure| {
        let mut out = Vec::new();
        put_failure(&mut out, failure, rank);
        out
    };
    bytes(one) == bytes(other)
}

/// Writes a failure of `rank`, or one that came to it from another.
fn put_failure(out: &mut Vec<u8>, failure: &Failure, rank: usize) {
    let remote: Option<&RemoteError> = failure.downcast_ref();
    put(out, remote.map_or(rank, |remote| remote.rank) as u64);
    put_text(out, &failure.task);
    put(out, failure.operands.len() as u64);
    failure.operands.iter().for_each(|operand| put_text(out, operand));
    let (kind, text) = match (&failure.cause, remote) {
        (_, Some(remote)) => (0, remote.message.clone()),
        (Cause::Cancelled, _) => (1, String::new()),
        (cause, _) => (0, cause.to_string()),
    };
    out.push(kind);
    put_text(out, &text);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        Some(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn key(&mut self) -> Option<Key> {
        let (tag, version) = (self.number()?, self.number()?);
        let format = Format(u16::from_le_bytes(self.take(2)?.try_into().ok()?));
        Some(Key { tag, version, format, requested: self.take(1)? == [1] })
    }

    fn meta(&mut self) -> Option<Meta> {
        let format = Format(u16::try_from(self.number()?).ok()?);
        let norm = f64::from_bits(self.number()?);
        Some(Meta { format, norm, bytes: usize::try_from(self.number()?).ok()? })
    }

    fn failure(&mut self) -> Option<Failure> {
        let rank = self.number()? as usize;
        let task = self.text()?;
        let count = self.number()?;
        let operands = (0..count).map(|_| self.text()).collect::<Option<Vec<_>>>()?;
        let cancelled = self.take(1)? == [1];
        let message = self.text()?;
        let cause =
            if cancelled { Cause::Cancelled } else { Cause::Error(Arc::new(RemoteError { rank, message })) };
        Some(Failure { task, operands, cause })
    }

    /// Reads the rest, if there is one.
    fn rest<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.0.is_empty() { Some(None) } else { read(self).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_are_a_panic() {
        let failure = Failure {
            task: "potrf[3]".into(),
            operands: vec!["A[3,3]".into(), "b".into()],
            cause: Cause::Error(Arc::new(std::fmt::Error)),
        };
        let key = Key { tag: 7, version: 2, format: Format(3), requested: true };
        let meta = Meta { format: Format(2), norm: 1.5, bytes: 800 };
        let mut journal = Journal::default();
        journal.record("axpy", [1, 2, u32::MAX], Some(5), 99);
        let messages = [
            Message::Value(key),
            Message::Poisoned(key, failure.clone()),
            Message::Beat { steps: 3, hash: 4 },
            Message::Journal(journal),
            Message::Entered { call: 1, steps: 2, hash: 3, failure: None },
            Message::Agreed(2, Some((3, failure))),
            Message::Cancel,
            Message::Leave { steps: 9 },
            Message::Abort("disk full".into()),
            Message::Time { number: 3, now: 5 },
            Message::Announced(key, meta),
            Message::Request(key),
            Message::Done(key),
        ];
        for message in &messages {
            let bytes = message.encode(1);
            let again = Message::decode(&bytes).expect("it was encoded").encode(1);
            assert_eq!(again, bytes);
            // A truncated message is another message or none.
            (0..bytes.len()).for_each(|length| drop(Message::decode(&bytes[..length])));
            for at in 0..bytes.len() {
                let mut wrong = bytes.clone();
                wrong[at] = 0xff;
                drop(Message::decode(&wrong));
            }
        }
    }

    #[test]
    fn a_failure_keeps_its_rank_and_its_words() {
        let failure =
            Failure { task: "potrf".into(), operands: Vec::new(), cause: Cause::Panic("no pivot".into()) };
        let pass = |failure: Failure, rank: usize| {
            let key = Key { tag: 0, version: 0, format: Format::NATIVE, requested: false };
            match Message::decode(&Message::Poisoned(key, failure).encode(rank)) {
                Some(Message::Poisoned(_, failure)) => failure,
                _ => panic!("another message"),
            }
        };
        let twice = pass(pass(failure, 2), 0);
        let remote: &RemoteError = twice.downcast_ref().unwrap();
        assert_eq!((remote.rank, remote.message.as_str()), (2, "panicked: no pivot"));
        assert_eq!(twice.to_string(), "task potrf on (): panicked: no pivot (on rank 2)");
    }
}
