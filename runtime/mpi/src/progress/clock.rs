//! The clocks of the ranks, for their traces.

use std::time::{Duration, Instant};

use zellige_runtime::Error;

use super::Progress;
use crate::wire::Message;

/// Number of queries of the first rank's time.
const QUESTIONS: u64 = 32;

impl Progress {
    /// Returns the start of this rank's trace in the time of the first rank's trace (ns), from the
    /// fastest of several queries. The answer is assumed to take half of the query's time.
    pub(crate) fn began(&self) -> Result<i64, Error> {
        if self.rank == 0 {
            return Ok(0);
        }
        let mut best: Option<(Duration, i64)> = None;
        for number in 0..QUESTIONS {
            let asked = Instant::now();
            self.post(0, Message::AskTime { number }.encode(self.rank));
            let there = self.time_of(number)?;
            let took = asked.elapsed();
            let here = (asked.saturating_duration_since(self.started) + took / 2).as_nanos() as i64;
            if best.is_none_or(|(least, _)| took < least) {
                best = Some((took, there as i64 - here));
            }
        }
        Ok(best.map_or(0, |(_, began)| began))
    }

    /// Waits for the answer to a query.
    fn time_of(&self, number: u64) -> Result<u64, Error> {
        let mut state = self.state.lock();
        // The first rank is needed, as in a collective call.
        state.waits_in = Some(u64::MAX);
        let answer = loop {
            match state.time {
                Some((answered, now)) if answered == number => break Ok(now),
                _ => {}
            }
            if let Some(error) = state.nothing_from(0, "the time of a trace") {
                break Err(error.into());
            }
            self.agreement.wait(&mut state);
        };
        state.waits_in = None;
        answer
    }
}
