//! Tracks which round the waiters are in, and when it has ended.
//!
//! Poll replies and messages arrive on two connections, so a message may be older than a reply that
//! arrived before it. The message about the end of a round therefore has the round's number, which
//! no other round has: it is proof whenever it arrives. All other messages, Redisson's above all,
//! only cause a poll.

use crate::scripts::LatchState;

/// The waiters whose rounds have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Nothing,
    /// The waiters that were known to be in a round.
    Known,
    /// The known waiters, and those for which the poll was sent.
    Everyone,
}

#[derive(Debug, Default)]
pub(crate) struct RoundTracker {
    /// The round of the known waiters; 0 if Redisson has begun it.
    round: Option<u64>,
    is_polling: bool,
    /// Rounds that were reported as ended since the poll was sent.
    ended: Vec<u64>,
    is_due: bool,
}

impl RoundTracker {
    /// Notes that a poll is sent: earlier messages are older than its reply.
    pub(crate) fn poll_sent(&mut self) {
        self.is_polling = true;
        self.is_due = false;
        self.ended.clear();
    }

    /// Reads the reply of a poll.
    pub(crate) fn poll_replied(&mut self, state: &LatchState) -> Ended {
        self.is_polling = false;
        if state.is_open || state.round.is_some_and(|round| self.ended.contains(&round)) {
            self.round = None;
            return Ended::Everyone;
        }
        // A reply without the round says nothing about the known one.
        let Some(round) = state.round else { return Ended::Nothing };
        match self.round {
            // A later round has begun; or the known one is over, and Redisson has begun one.
            Some(known) if known < round || (known > 0 && known <= state.over) => {
                self.round = Some(round);
                Ended::Known
            }
            // A lower number comes from a server that lags, and says nothing about the known round.
            // A missing number says nothing either: under `maxmemory` its key may be evicted alone.
            Some(_) => Ended::Nothing,
            None => {
                self.round = Some(round);
                Ended::Nothing
            }
        }
    }

    /// Notes that a poll has failed: no waiter is known to be in a round any more.
    pub(crate) fn poll_failed(&mut self) {
        self.is_polling = false;
        self.round = None;
    }

    /// Notes that a round has ended. The number 0 means that some round may have ended, or that
    /// messages were missed.
    pub(crate) fn round_ended(&mut self, number: u64) -> Ended {
        if number == 0 {
            self.is_due = true;
            return Ended::Nothing;
        }
        if self.is_polling {
            self.ended.push(number);
        }
        if self.round == Some(number) {
            self.round = None;
            return Ended::Known;
        }
        // The ended round may still be the known one, with another number: Redisson may have begun
        // it, or its number was lost meanwhile.
        self.is_due = true;
        Ended::Nothing
    }

    /// Returns whether there is a reason to poll.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(round: u64) -> LatchState {
        LatchState { is_open: false, round: Some(round), over: 0, ends_in: None }
    }

    fn tracking(round: u64) -> RoundTracker {
        let mut rounds = RoundTracker::default();
        rounds.poll_sent();
        assert_eq!(rounds.poll_replied(&closed(round)), Ended::Nothing);
        rounds
    }

    #[test]
    fn the_end_of_the_round_is_enough() {
        let mut rounds = tracking(7);
        assert_eq!(rounds.round_ended(7), Ended::Known);
        assert!(!rounds.is_due());
    }

    #[test]
    fn the_late_end_of_an_earlier_round_completes_no_wait() {
        let mut rounds = tracking(8);
        assert_eq!(rounds.round_ended(7), Ended::Nothing);
        assert!(rounds.is_due(), "and causes a poll");
        rounds.poll_sent();
        assert_eq!(rounds.round_ended(7), Ended::Nothing);
        assert_eq!(rounds.poll_replied(&closed(8)), Ended::Nothing);
        assert_eq!(rounds.round_ended(8), Ended::Known);
    }

    #[test]
    fn an_end_before_the_reply_that_saw_the_round_counts() {
        let mut rounds = RoundTracker::default();
        rounds.poll_sent();
        assert_eq!(rounds.round_ended(7), Ended::Nothing);
        assert_eq!(rounds.poll_replied(&closed(7)), Ended::Everyone);
        // The message does not count for a later poll.
        rounds.poll_sent();
        assert_eq!(rounds.poll_replied(&closed(8)), Ended::Nothing);
    }

    #[test]
    fn waits_complete_while_a_poll_for_others_is_in_flight() {
        let mut rounds = tracking(7);
        rounds.poll_sent();
        assert_eq!(rounds.round_ended(7), Ended::Known);
        assert_eq!(rounds.poll_replied(&closed(8)), Ended::Nothing, "the waiters of this poll are in the next round");
        assert_eq!(rounds.round_ended(8), Ended::Known);
    }

    #[test]
    fn a_message_without_a_number_only_causes_a_poll() {
        let mut rounds = tracking(7);
        assert_eq!(rounds.round_ended(0), Ended::Nothing);
        assert!(rounds.is_due());
        rounds.poll_sent();
        assert!(!rounds.is_due(), "one poll for all earlier messages");
        rounds.round_ended(0);
        assert_eq!(rounds.poll_replied(&closed(7)), Ended::Nothing);
        assert!(rounds.is_due(), "the message may be newer than the poll");
        // A round of Redisson's has no number, so its end is not recognized.
        let mut rounds = tracking(0);
        assert_eq!(rounds.round_ended(0), Ended::Nothing);
    }

    #[test]
    fn a_higher_round_completes_only_waits_for_the_previous_one() {
        let mut rounds = tracking(7);
        rounds.poll_sent();
        assert_eq!(rounds.poll_replied(&closed(8)), Ended::Known);
        rounds.poll_sent();
        assert_eq!(rounds.poll_replied(&closed(8)), Ended::Nothing);
    }

    #[test]
    fn a_lower_or_missing_round_ends_none() {
        for less in [6, 0] {
            let mut rounds = tracking(7);
            rounds.poll_sent();
            assert_eq!(rounds.poll_replied(&closed(less)), Ended::Nothing);
            rounds.poll_sent();
            assert_eq!(rounds.poll_replied(&closed(7)), Ended::Nothing, "nor when the number is back");
            rounds.poll_sent();
            assert_eq!(rounds.poll_replied(&closed(8)), Ended::Known);
        }
        // Redisson's round is followed by a redgrid round.
        let mut rounds = tracking(0);
        rounds.poll_sent();
        assert_eq!(rounds.poll_replied(&closed(5)), Ended::Known);
    }

    #[test]
    fn a_round_of_redisson_after_the_known_end_of_ours_ends_ours() {
        let behind = |over| LatchState { over, ..closed(0) };
        for (over, expected) in [(6, Ended::Nothing), (7, Ended::Known), (8, Ended::Known)] {
            let mut rounds = tracking(7);
            rounds.poll_sent();
            assert_eq!(rounds.poll_replied(&behind(over)), expected, "{over}");
        }
        // The waiters of that poll are in Redisson's round.
        let mut rounds = tracking(7);
        rounds.poll_sent();
        rounds.poll_replied(&behind(7));
        rounds.poll_sent();
        assert_eq!(rounds.poll_replied(&behind(7)), Ended::Nothing);
        assert_eq!(rounds.round_ended(7), Ended::Nothing);
    }

    #[test]
    fn a_poll_without_the_round_completes_waits_only_if_the_latch_is_open() {
        let unknown = LatchState { round: None, ..closed(0) };
        let mut rounds = tracking(7);
        rounds.poll_sent();
        assert_eq!(rounds.poll_replied(&unknown), Ended::Nothing);
        assert_eq!(rounds.round_ended(7), Ended::Known, "those in the round before");
        rounds.poll_sent();
        assert_eq!(rounds.poll_replied(&LatchState { is_open: true, ..unknown }), Ended::Everyone);
    }

    #[test]
    fn an_open_latch_completes_all_waits() {
        let mut rounds = tracking(7);
        rounds.poll_sent();
        assert_eq!(rounds.poll_replied(&LatchState { is_open: true, ..closed(0) }), Ended::Everyone);
        rounds.poll_sent();
        assert_eq!(rounds.poll_replied(&closed(7)), Ended::Nothing, "later waits are for a new round");
    }
}
