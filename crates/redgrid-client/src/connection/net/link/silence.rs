//! Detection of silence: measures for how long a server has sent nothing while a reply is
//! outstanding.

use std::sync::MutexGuard;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Instant};
use crate::sync::Mutex;

/// The outstanding requests of one connection, and the time of the last received data.
#[derive(Default)]
pub(super) struct Silence {
    outstanding: Mutex<Outstanding>,
    /// Notified when a request is sent while the watcher ([`Silence::lasts_for`]) is idle.
    begins: Notify,
}

#[derive(Default)]
struct Outstanding {
    answers: usize,
    /// The later of two times: when the first outstanding request was sent, and when the server
    /// last sent or accepted data.
    since: Instant,
    /// Time of the last request or partial transfer, even if that request was cancelled. `None` if
    /// a complete frame has been received since.
    unanswered_since: Option<Instant>,
    /// Whether a request was sent since the watcher last checked.
    sent_since_check: bool,
    /// Whether the watcher checks at intervals, because a request was sent recently.
    watched: bool,
}

impl Silence {
    /// Records that a request is sent at `now`. It is outstanding until the returned guard is
    /// dropped.
    pub(super) fn request_sent(&self, now: Instant) -> SentRequest<'_> {
        let mut outstanding = self.outstanding.lock();
        if outstanding.answers == 0 {
            outstanding.since = now;
        }
        outstanding.answers += 1;
        self.watch(outstanding, now);
        SentRequest(self)
    }

    pub(super) fn received(&self, now: Instant) {
        let mut outstanding = self.outstanding.lock();
        (outstanding.since, outstanding.unanswered_since) = (now, None);
    }

    /// Records partial progress: the server has sent a part of a reply, or accepted a part of a
    /// request.
    ///
    /// The rest of the transfer is still outstanding.
    pub(super) fn received_part(&self, now: Instant) {
        let mut outstanding = self.outstanding.lock();
        outstanding.since = now;
        self.watch(outstanding, now);
    }

    /// Restarts the watcher's time limit at `now`, and wakes the watcher if it is idle.
    fn watch(&self, mut outstanding: MutexGuard<'_, Outstanding>, now: Instant) {
        (outstanding.unanswered_since, outstanding.sent_since_check) = (Some(now), true);
        let is_watched = std::mem::replace(&mut outstanding.watched, true);
        drop(outstanding);
        if !is_watched {
            self.begins.notify_one();
        }
    }

    pub(super) fn lasts(&self, clock: &Clock) -> Duration {
        let outstanding = self.outstanding.lock();
        if outstanding.answers == 0 { Duration::ZERO } else { clock.now().since(outstanding.since) }
    }

    /// Completes when no complete frame has arrived for `limit` after the last request or partial
    /// transfer.
    ///
    /// Only one task may call this method at a time. That task reads the clock once per `limit`
    /// while requests are sent, and not at all while the connection is idle.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time: the next call checks the clock itself.
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

    /// Returns the time of the next check. Returns `None` if the server has sent data since the
    /// last request, and no request was sent since the last check.
    fn ends(&self, now: Instant, limit: Duration) -> Option<Instant> {
        let mut outstanding = self.outstanding.lock();
        let sent_since_check = std::mem::replace(&mut outstanding.sent_since_check, false);
        match outstanding.unanswered_since {
            None => {
                outstanding.watched = sent_since_check;
                sent_since_check.then(|| now + limit)
            }
            Some(since) => Some(since + limit),
        }
    }
}

pub(super) struct SentRequest<'a>(&'a Silence);

impl Drop for SentRequest<'_> {
    fn drop(&mut self) {
        self.0.outstanding.lock().answers -= 1;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn a_server_is_silent_while_an_answer_is_outstanding() {
        let (silence, clock) = (Silence::default(), Clock::runtime());
        tokio::time::advance(50 * MS).await;
        assert_eq!(silence.lasts(&clock), Duration::ZERO);
        let first = silence.request_sent(clock.now());
        tokio::time::advance(30 * MS).await;
        let second = silence.request_sent(clock.now());
        assert_eq!(silence.lasts(&clock), 30 * MS);
        tokio::time::advance(10 * MS).await;
        silence.received(clock.now());
        drop(first);
        tokio::time::advance(20 * MS).await;
        assert_eq!(silence.lasts(&clock), 20 * MS);
        // A cancelled request is no longer outstanding.
        drop(second);
        assert_eq!(silence.lasts(&clock), Duration::ZERO);
    }

    /// How long silence is permitted in these tests.
    const LIMIT: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn a_watch_ends_when_no_answer_came_within_the_limit() {
        let (silence, clock) = (Silence::default(), Clock::runtime());
        let begin = clock.now();
        let ended_after = async || {
            silence.lasts_for(&clock, LIMIT).await;
            clock.now().since(begin)
        };
        let idle = tokio::time::timeout(3600 * LIMIT, ended_after()).await;
        assert!(idle.is_err(), "no answer is outstanding");
        let begin = clock.now();
        // The request is cancelled and nothing was received. A later request restarts the limit.
        drop(silence.request_sent(clock.now()));
        tokio::time::advance(30 * MS).await;
        let later = silence.request_sent(clock.now());
        silence.lasts_for(&clock, LIMIT).await;
        assert_eq!(clock.now().since(begin), 130 * MS);
        drop(later);
        let request = silence.request_sent(clock.now());
        silence.received(clock.now());
        assert!(tokio::time::timeout(3600 * LIMIT, silence.lasts_for(&clock, LIMIT)).await.is_err());
        drop(request);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_is_read_once_per_limit_and_never_without_requests() {
        let (silence, clock) = (Silence::default(), Clock::runtime());
        let is_notified = || silence.begins.notified().now_or_never().is_some();
        let next_check = || {
            let now = clock.now();
            silence.ends(now, LIMIT).map(|end| end.since(now))
        };
        assert_eq!((next_check(), is_notified()), (None, false));
        let exchange = || {
            let _request = silence.request_sent(clock.now());
            silence.received(clock.now());
        };
        exchange();
        assert!(is_notified(), "a request was sent");
        for _ in 0..3 {
            assert_eq!(next_check(), Some(LIMIT));
            tokio::time::advance(LIMIT / 2).await;
            exchange();
            exchange();
            tokio::time::advance(LIMIT / 2).await;
            assert!(!is_notified(), "the next reading of the clock sees the request");
        }
        assert_eq!((next_check(), next_check()), (Some(LIMIT), None));
        exchange();
        assert!(is_notified(), "the last request was long ago");
    }
}
