//! Since when a server has owed an answer and said nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Instant};

/// What is under way on one connection, and since when nothing has come back.
#[derive(Default)]
pub(super) struct Silence(Mutex<Owed>);

#[derive(Default)]
struct Owed {
    answers: usize,
    /// When the first of them was asked for, or the last other one came.
    since: Instant,
}

impl Silence {
    /// Something is sent now; it is under way until what is returned is dropped.
    pub(super) fn asked(&self, now: Instant) -> Asked<'_> {
        let mut owed = self.owed();
        if owed.answers == 0 {
            owed.since = now;
        }
        owed.answers += 1;
        Asked(self)
    }

    /// For how long it has lasted.
    pub(super) fn lasts(&self, clock: &Clock) -> Duration {
        let owed = self.owed();
        if owed.answers == 0 { Duration::ZERO } else { clock.now().since(owed.since) }
    }

    fn owed(&self) -> MutexGuard<'_, Owed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request that is under way.
pub(super) struct Asked<'a>(&'a Silence);

impl Asked<'_> {
    /// The server has said something.
    pub(super) fn answered(&self, now: Instant) {
        self.0.owed().since = now;
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.owed().answers -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn a_server_is_silent_while_it_owes_an_answer_and_none_comes() {
        let (silence, clock) = (Silence::default(), Clock::runtime());
        tokio::time::advance(50 * MS).await;
        assert_eq!(silence.lasts(&clock), Duration::ZERO);
        let first = silence.asked(clock.now());
        tokio::time::advance(30 * MS).await;
        let second = silence.asked(clock.now());
        assert_eq!(silence.lasts(&clock), 30 * MS);
        tokio::time::advance(10 * MS).await;
        first.answered(clock.now());
        drop(first);
        tokio::time::advance(20 * MS).await;
        assert_eq!(silence.lasts(&clock), 20 * MS);
        // Given up, it is owed no more.
        drop(second);
        assert_eq!(silence.lasts(&clock), Duration::ZERO);
    }
}
