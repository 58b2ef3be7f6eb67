//! Shorter leases in flight, which may undo what a later request has confirmed.

use crate::clock::Instant;

/// Extensions to a shorter lease that may execute late.
#[derive(Default)]
pub(super) struct Shortenings {
    /// Until when each unanswered one may execute; `Instant::MAX` for those that have just begun.
    unanswered: Vec<Instant>,
    /// When the last answered one was answered. Confirmations of earlier requests do not count.
    settled: Instant,
}

impl Shortenings {
    /// Begins a shortening. Its request is sent from now on.
    pub(super) fn begin(&mut self) {
        self.unanswered.push(Instant::MAX);
    }

    /// Ends one that was answered at `now`, or that may execute until `unanswered_until`.
    pub(super) fn end(&mut self, unanswered_until: Option<Instant>, now: Instant) {
        if let Some(begun) = self.unanswered.iter().position(|until| *until == Instant::MAX) {
            self.unanswered.swap_remove(begun);
        }
        match unanswered_until {
            Some(until) => self.unanswered.push(until),
            None => self.settled = now.max(self.settled),
        }
    }

    /// Returns whether a request that was sent at `sent` has certainly executed after all of them.
    pub(super) fn allow(&self, sent: Instant) -> bool {
        sent >= self.settled && self.unanswered.iter().all(|until| sent >= *until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::MIN + Duration::from_secs(seconds)
    }

    #[test]
    fn only_requests_after_a_shortening_confirm_a_longer_lease() {
        let mut shortenings = Shortenings::default();
        assert!(shortenings.allow(at(0)));
        shortenings.begin();
        shortenings.begin();
        assert!(!shortenings.allow(at(1000)), "two are in flight");
        shortenings.end(None, at(10));
        assert!(!shortenings.allow(at(1000)), "one is in flight");
        shortenings.end(Some(at(20)), at(12));
        for (sent, allowed) in [(9, false), (11, false), (19, false), (20, true)] {
            assert_eq!(shortenings.allow(at(sent)), allowed, "{sent}");
        }
        shortenings.begin();
        shortenings.end(None, at(30));
        assert!(!shortenings.allow(at(29)) && shortenings.allow(at(30)), "answers may come in any order");
    }
}
