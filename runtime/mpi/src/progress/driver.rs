//! The thread that transfers messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zellige_runtime::internal::caught;

use super::Progress;
use crate::error::ClusterError;
use crate::journal::Journal;
use crate::transport::{Transport, TransportError};
use crate::wire::Message;

/// Timeout for the journals of ranks that do not answer.
const ANSWER: Duration = Duration::from_secs(2);

/// State that is private to the progress thread.
pub(crate) struct Driver<T> {
    progress: Arc<Progress>,
    transport: T,
    /// Time of the last message from each rank.
    heard: Vec<Instant>,
    /// Numbers of steps of other ranks, and their hash, that this rank has not reached.
    ahead: Vec<Option<(u64, u64)>>,
    /// The journals of other ranks, once a difference was seen, and the end of the wait for more.
    journals: Option<(Vec<Option<Journal>>, Instant)>,
}

impl<T: Transport> Driver<T> {
    pub(crate) fn new(progress: Arc<Progress>, transport: T) -> Self {
        let ranks = progress.ranks;
        let heard = vec![Instant::now(); ranks];
        Driver { progress, transport, heard, ahead: vec![None; ranks], journals: None }
    }

    /// Transfers messages until the rank ends.
    pub(crate) fn run(mut self) {
        let progress = Arc::clone(&self.progress);
        let why = match caught(|| self.drive()) {
            // Ranks that cannot go on together may not end together either.
            Ok(Ok(())) => return self.transport.close(progress.check().is_err().then_some(ANSWER)),
            Ok(Err(error)) => error.0,
            Err(message) => format!("the progress thread panicked: {message}"),
        };
        progress.breaks(ClusterError::Transport { why });
    }

    fn drive(&mut self) -> Result<(), TransportError> {
        let interval = (self.progress.timeout / 4).clamp(Duration::from_millis(5), Duration::from_secs(1));
        let mut next = Instant::now() + interval;
        loop {
            let ends = self.progress.state.lock().ends;
            let outgoing = std::mem::take(&mut *self.progress.outgoing.lock());
            for (to, message) in outgoing {
                if to == self.progress.rank {
                    self.handle(to, message);
                } else {
                    self.transport.send(to, message)?;
                }
            }
            while let Some((from, message)) = self.transport.receive()? {
                self.heard[from] = Instant::now();
                self.handle(from, message);
            }
            if ends && self.progress.outgoing.lock().is_empty() {
                return Ok(());
            }
            let now = Instant::now();
            if now >= next {
                next = now + interval;
                self.progress.post_to_others(&self.progress.beat());
                self.look_for_silence(now);
                self.look_for_differences();
            }
            self.look_at_journals(now);
            let progress = &self.progress;
            self.transport.wait(next.saturating_duration_since(now), &|| progress.only_waits());
        }
    }

    fn handle(&mut self, from: usize, bytes: Vec<u8>) {
        let progress = Arc::clone(&self.progress);
        let Some(message) = Message::decode(&bytes) else {
            let why = format!("rank {from} has sent {} bytes that are no message", bytes.len());
            return progress.aborts(ClusterError::Transport { why });
        };
        match message {
            Message::Value(key) | Message::Announced(key, _) => progress.arrives(key, Ok(bytes)),
            Message::Request(key) => progress.is_requested(key, from),
            Message::Done(key) => progress.withdraws(key, from),
            Message::Poisoned(key, failure) => {
                let failure = progress.shared(failure);
                progress.arrives(key, Err(failure));
            }
            Message::Beat { steps, hash } => {
                self.ahead[from] = Some((steps, hash));
                self.look_for_differences();
            }
            Message::Journal(journal) => {
                self.show_journal();
                if let Some((journals, _)) = &mut self.journals {
                    journals[from] = Some(journal);
                }
            }
            Message::Entered { call, steps, hash, failure } => {
                progress.enters(from, call, (steps, hash), failure);
                if progress.calls_differ() {
                    self.show_journal();
                }
            }
            Message::Agreed(call, failure) => {
                progress.state.lock().agreed.insert(call, failure);
                progress.agreement.notify_all();
            }
            Message::Cancel => progress.canceller.cancel_all(),
            Message::Leave { steps } => {
                progress.is_gone(from, ClusterError::Left { rank: from, steps, what: String::new() });
            }
            Message::AskTime { number } => {
                let now = progress.started.elapsed().as_nanos() as u64;
                progress.post(from, Message::Time { number, now }.encode(progress.rank));
            }
            Message::Time { number, now } => {
                progress.state.lock().time = Some((number, now));
                progress.agreement.notify_all();
            }
            Message::Abort(why) => progress.breaks(ClusterError::Aborted { rank: from, why }),
        }
    }

    fn look_for_silence(&self, now: Instant) {
        for rank in self.progress.others() {
            let time = now.saturating_duration_since(self.heard[rank]);
            if time < self.progress.timeout {
                continue;
            }
            let state = self.progress.state.lock();
            let may_send = matches!(state.gone[rank], None | Some(ClusterError::Left { .. }));
            let needed = may_send.then(|| self.progress.need_of(&state, rank)).flatten();
            drop(state);
            if needed.is_some() {
                self.progress.is_gone(rank, ClusterError::Silent { rank, time, what: String::new() });
            }
        }
    }

    fn look_for_differences(&mut self) {
        let journal = self.progress.journal.lock();
        let differs = self.ahead.iter().flatten().any(|&(steps, hash)| journal.contradicts(steps, hash));
        drop(journal);
        if differs {
            self.show_journal();
        }
    }

    /// Sends this rank's steps to the others, once.
    fn show_journal(&mut self) {
        if self.journals.is_some() {
            return;
        }
        let bytes = {
            let mut journal = self.progress.journal.lock();
            let message = Message::Journal(std::mem::take(&mut *journal));
            let bytes = message.encode(self.progress.rank);
            if let Message::Journal(own) = message {
                *journal = own;
            }
            bytes
        };
        self.progress.others().for_each(|to| self.progress.post(to, bytes.clone()));
        let none = (0..self.progress.ranks).map(|_| None).collect();
        self.journals = Some((none, Instant::now() + ANSWER));
    }

    /// Checks whether all ranks have sent their steps, and finds the first difference.
    fn look_at_journals(&mut self, now: Instant) {
        let Some((journals, until)) = &self.journals else { return };
        let answered = self.progress.others().all(|rank| journals[rank].is_some());
        if !answered && now < *until {
            return;
        }
        let own = self.progress.journal.lock();
        let others =
            journals.iter().enumerate().filter_map(|(rank, journal)| Some((rank, journal.as_ref()?)));
        let differences = others.filter_map(|(rank, journal)| Some((rank, own.first_difference(journal)?)));
        let Some((rank, (step, here, there))) = differences.min_by_key(|(_, (step, ..))| *step) else {
            // The difference is between other ranks, which report it.
            return;
        };
        drop(own);
        let here = (self.progress.rank, here);
        self.progress.aborts(ClusterError::Different { step, here, there: (rank, there) });
    }
}
