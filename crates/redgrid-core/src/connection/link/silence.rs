//! Since when a server has owed an answer and said nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Instant};

/// What is under way on one connection, and since when nothing has come back.
pub(super) struct Silence {
    owed: Mutex<Owed>,
    /// Something is asked, and nobody looks at the clock.
    begins: Notify,
}

struct Owed {
    answers: usize,
    /// When the first of them was asked for, or the last bytes came.
    since: Instant,
    /// When something was asked last, and nothing has come since; never, where something has. What was given up counts.
    unheard: Instant,
    /// Something was asked since somebody looked.
    asked: bool,
    /// Somebody looks at the clock, as something was asked not long ago.
    watched: bool,
}

impl Default for Silence {
    fn default() -> Self {
        let owed = Owed { answers: 0, since: Instant::PAST, unheard: Instant::NEVER, asked: false, watched: false };
        Silence { owed: Mutex::new(owed), begins: Notify::new() }
    }
}

impl Silence {
    /// Something is sent now; it is under way until what is returned is dropped.
    pub(super) fn asked(&self, now: Instant) -> Asked<'_> {
        let mut owed = self.owed();
        if owed.answers == 0 {
            owed.since = now;
        }
        owed.answers += 1;
        self.watch(owed, now);
        Asked(self)
    }

    /// Something has come.
    pub(super) fn heard(&self, now: Instant) {
        let mut owed = self.owed();
        (owed.since, owed.unheard) = (now, Instant::NEVER);
    }

    /// A part of a reply has come, or a part of a request was taken: the rest is still owed.
    pub(super) fn heard_in_part(&self, now: Instant) {
        let mut owed = self.owed();
        owed.since = now;
        self.watch(owed, now);
    }

    /// Has the time since `now` watched.
    fn watch(&self, mut owed: MutexGuard<'_, Owed>, now: Instant) {
        (owed.unheard, owed.asked) = (now, true);
        let is_watched = std::mem::replace(&mut owed.watched, true);
        drop(owed);
        if !is_watched {
            self.begins.notify_one();
        }
    }

    /// For how long it has lasted.
    pub(super) fn lasts(&self, clock: &Clock) -> Duration {
        let owed = self.owed();
        if owed.answers == 0 { Duration::ZERO } else { clock.now().since(owed.since) }
    }

    /// Completes when nothing has come for so long since something was asked last. One may wait for it at a time; he looks at the clock
    /// once in that time where something is asked, and not at all where nothing is.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves nothing undone: who waits next looks for himself.
    pub(super) async fn lasts_for(&self, clock: &Clock, limit: Duration) {
        loop {
            let now = clock.now();
            match self.ends(now, limit) {
                None => self.begins.notified().await,
                Some(end) if end <= now => return,
                Some(end) => clock.sleep_until(end).await,
            }
        }
    }

    /// When it is to be looked at next; `None` where nothing was asked for long.
    fn ends(&self, now: Instant, limit: Duration) -> Option<Instant> {
        let mut owed = self.owed();
        let asked = std::mem::replace(&mut owed.asked, false);
        match owed.unheard {
            Instant::NEVER => {
                owed.watched = asked;
                asked.then(|| now + limit)
            }
            since => Some(since + limit),
        }
    }

    fn owed(&self) -> MutexGuard<'_, Owed> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request that is under way.
pub(super) struct Asked<'a>(&'a Silence);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.owed().answers -= 1;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

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
        silence.heard(clock.now());
        drop(first);
        tokio::time::advance(20 * MS).await;
        assert_eq!(silence.lasts(&clock), 20 * MS);
        // Given up, it is owed no more.
        drop(second);
        assert_eq!(silence.lasts(&clock), Duration::ZERO);
    }

    /// So long is waited for something to come.
    const LIMIT: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn who_watches_is_told_when_nothing_has_come_since_something_was_asked() {
        let (silence, clock) = (Silence::default(), Clock::runtime());
        let begin = clock.now();
        let told = async || {
            silence.lasts_for(&clock, LIMIT).await;
            clock.now().since(begin)
        };
        let nobody_asks = tokio::time::timeout(3600 * LIMIT, told()).await;
        assert!(nobody_asks.is_err(), "nothing is owed");
        let begin = clock.now();
        // Given up: nothing has come for all that. Who asks later is waited for anew.
        drop(silence.asked(clock.now()));
        tokio::time::advance(30 * MS).await;
        let later = silence.asked(clock.now());
        silence.lasts_for(&clock, LIMIT).await;
        assert_eq!(clock.now().since(begin), 130 * MS);
        drop(later);
        let asked = silence.asked(clock.now());
        silence.heard(clock.now());
        assert!(tokio::time::timeout(3600 * LIMIT, silence.lasts_for(&clock, LIMIT)).await.is_err());
        drop(asked);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_is_looked_at_once_in_that_time_and_not_at_all_when_nobody_asks() {
        let (silence, clock) = (Silence::default(), Clock::runtime());
        let is_told = || silence.begins.notified().now_or_never().is_some();
        let looks = || {
            let now = clock.now();
            silence.ends(now, LIMIT).map(|end| end.since(now))
        };
        assert_eq!((looks(), is_told()), (None, false));
        let ask = || {
            let _asked = silence.asked(clock.now());
            silence.heard(clock.now());
        };
        ask();
        assert!(is_told(), "somebody asks");
        for _ in 0..3 {
            assert_eq!(looks(), Some(LIMIT));
            tokio::time::advance(LIMIT / 2).await;
            ask();
            ask();
            tokio::time::advance(LIMIT / 2).await;
            assert!(!is_told(), "who asks is seen at the next look");
        }
        assert_eq!((looks(), looks()), (Some(LIMIT), None));
        ask();
        assert!(is_told(), "nobody has asked for long");
    }
}
