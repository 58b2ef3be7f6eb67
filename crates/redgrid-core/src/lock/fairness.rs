//! Turns: who gives up a stretch while its own tasks still wait lets the others go first.
//!
//! The release tells how many subscribers n its message reached. Each of them that wants the name will hold it and release
//! it, with a message of its own; so after n messages (ours is the first) everybody had a turn. Only silence ends a turn
//! early: a bound by total time would break the order.

use std::time::Duration;

use crate::wait::{Copied, Own};

/// The shortest silence that counts: 2 ms. A process that was woken tries within a fraction of it.
const SILENCE: Duration = Duration::from_millis(2);

/// The silence that counts while somebody waits who looks every 100 ms (but at times only after 200) and can not be told.
const SILENCE_FOR_POLLERS: Duration = Duration::from_millis(250);

/// The silence that counts before a release has been heard here that is passed on by a replica: 20 ms. A replica that does not
/// lag needs a fraction of it, and those who listen at the same one hear of it when we do. The same is given to a listener
/// before it counts as one that takes no turn.
const PATIENCE: Duration = Duration::from_millis(20);

/// How much longer than its poll interval a listener may take to notice a release that was not published, as a part of the
/// interval: a quarter. The poll runs at most every 100 ms.
const LATE_POLL: u32 = 4;
const POLL_TICK: Duration = Duration::from_millis(100);

/// How long after a release a request of the same process still obeys the turn that the release began: two stretches of
/// another. A turn that is forgotten within one lets two processes that leave and return shut out a third (found by the
/// model `turns`); who comes back later than that finds its turn over, or waits for a silence.
const STRETCHES: u32 = 2;

/// What a release said about those who wait elsewhere.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubscriberCount {
    /// Subscribers that its message reached, or will reach by a replica.
    pub(crate) listeners: u64,
    /// They listen at a replica.
    pub(crate) by_replica: bool,
    /// Somebody waits who can not be told.
    pub(crate) unseen: bool,
    /// The server refused to publish the release: listeners notice it by their poll, which has this interval.
    pub(crate) unannounced: Option<Duration>,
    /// This process's own subscription before the release was sent.
    pub(crate) own: Own,
    /// Listeners that are not counted, because they never took a turn.
    pub(crate) ignored: u64,
    /// Whether a listener is given more time than usual, before it counts as one that takes no turn.
    pub(crate) patient: bool,
}

impl SubscriberCount {
    /// The primary counts those whom it tells itself, and `copied` are those whom a replica tells: `None` where it did not say,
    /// which is taken for one other. It may be that nobody listens there.
    pub(crate) fn with(self, copied: Option<Copied>) -> SubscriberCount {
        match copied {
            None => self,
            Some(Copied::Listeners(count)) => {
                SubscriberCount { listeners: self.listeners + count, by_replica: count > 0, ..self }
            }
            Some(Copied::Unknown) => {
                let least = 1 + u64::from(self.own.heard.is_some());
                SubscriberCount { listeners: self.listeners + least, by_replica: true, ..self }
            }
        }
    }

    /// Subscribers other than this process.
    pub(crate) fn others(self) -> u64 {
        self.listeners.saturating_sub(u64::from(self.own.heard.is_some()))
    }
}

/// What is waited for before the next try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct YieldPlan {
    /// Messages to let pass.
    passes: u64,
    /// Somebody waits who can not be told.
    unseen: bool,
    /// The count from which they are counted; unknown until the subscription is in force.
    from: Option<u64>,
    silence: Duration,
    /// It passes by a replica.
    by_replica: bool,
    /// No message says who has had a turn: only the full silence ends it.
    unannounced: bool,
    /// The only listener may be this process, whose subscription was not confirmed yet.
    may_be_ours: bool,
    /// It is for all listeners: none was ignored.
    is_for_all: bool,
    patient: bool,
}

impl YieldPlan {
    /// What is to be waited for after a release at the end of a stretch; nothing, when nobody else waits.
    pub(crate) fn after(audience: SubscriberCount, round_trip: Duration) -> Option<YieldPlan> {
        if audience.others() == 0 && !audience.unseen {
            return None;
        }
        let SubscriberCount { listeners, unseen, unannounced, own, by_replica, ignored, patient } = audience;
        let silence = match unannounced {
            Some(interval) => interval + interval / LATE_POLL + POLL_TICK,
            None if unseen => SILENCE_FOR_POLLERS,
            None => SILENCE.max(round_trip * 2),
        };
        let (passes, unannounced) = (listeners + u64::from(unseen), unannounced.is_some());
        let is_for_all = ignored == 0;
        let may_be_ours = unannounced && own.is_pending && listeners <= 1;
        let from = own.heard;
        Some(YieldPlan { passes, unseen, from, silence, by_replica, unannounced, may_be_ours, is_for_all, patient })
    }

    /// Whether it is known that somebody waits: a listener may listen for another reason, who left a mark does not.
    pub(crate) fn is_wanted(&self) -> bool {
        self.unseen || self.unannounced
    }

    /// How long silence must last until one probe is due: up to twice as long for who has more messages to let
    /// pass, so that the one whose turn is next also probes first. Never as long as a stretch: a probe at its end would steal
    /// the turn of whoever waits for its message.
    pub(crate) fn quiet_period(&self, heard: Option<u64>) -> Duration {
        if self.unannounced {
            return self.silence;
        }
        let passed = heard.zip(self.from).map_or(0, |(heard, from)| heard.saturating_sub(from));
        let left = self.passes.saturating_sub(passed) as f64 / self.passes.max(1) as f64;
        // Not even our own release has come: nobody has heard of it who could try.
        let least = match self.patient || (self.by_replica && passed == 0) {
            true => PATIENCE,
            false => Duration::ZERO,
        };
        self.silence.max(least).mul_f64(1.0 + left)
    }

    /// The same for who begins to listen anew: the count begins with that.
    pub(crate) fn for_next_caller(self) -> YieldPlan {
        YieldPlan { from: None, ..self }
    }

    /// Of how many listeners how many have had no turn, now that `heard` messages were heard. `None` where that says nothing
    /// of them: some were ignored, or a waiter is known that gets no messages.
    pub(crate) fn missing(&self, heard: Option<u64>) -> Option<(u64, u64)> {
        if !self.is_for_all || self.is_wanted() {
            return None;
        }
        let passed = heard?.checked_sub(self.from?)?;
        Some((self.passes, self.passes.saturating_sub(passed)))
    }

    /// A message of our own came in between, which is nobody's turn.
    pub(crate) fn let_pass(&mut self) {
        self.passes += 1;
    }

    /// Whether everybody had a turn, now that `heard` messages were heard (`None` without a subscription).
    pub(crate) fn is_over(&mut self, heard: Option<u64>) -> bool {
        let Some(heard) = heard else { return false };
        // If it was another process after all, the next release counts both.
        if self.may_be_ours {
            return true;
        }
        let from = *self.from.get_or_insert(heard);
        // A count that begins anew belongs to a new subscription: count from its beginning.
        if heard < from {
            self.from = Some(heard);
            return false;
        }
        heard - from >= self.passes
    }
}

/// How long a request after a release still belongs to what was before.
pub(crate) fn remembered_for(stretch: Duration, round_trip: Duration) -> Duration {
    (stretch * STRETCHES).max(round_trip * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn audience(listeners: u64, heard: Option<u64>) -> SubscriberCount {
        SubscriberCount { listeners, own: Own { heard, is_pending: false }, ..SubscriberCount::default() }
    }

    #[test]
    fn alone_there_is_no_turn() {
        assert_eq!(YieldPlan::after(audience(1, Some(7)), MS), None);
        assert_eq!(YieldPlan::after(audience(0, None), MS), None);
    }

    #[test]
    fn a_turn_lets_everybody_go_once() {
        let mut turn = YieldPlan::after(audience(3, Some(7)), MS).unwrap();
        assert_eq!([8, 9].map(|heard| turn.is_over(Some(heard))), [false, false]);
        assert!(turn.is_over(Some(10)));
    }

    #[test]
    fn a_listener_that_may_be_this_process_is_not_waited_for_once_the_subscription_is_confirmed() {
        let after = |listeners, is_pending| {
            let unannounced = Some(Duration::from_secs(600));
            let own = Own { heard: None, is_pending };
            YieldPlan::after(SubscriberCount { unannounced, own, ..audience(listeners, None) }, MS).unwrap()
        };
        assert!(!after(1, true).is_over(None), "the subscription may be refused: then it is another process");
        assert!(after(1, true).is_over(Some(0)));
        assert!(!after(2, true).is_over(Some(0)));
        assert!(!after(1, false).is_over(Some(0)), "it began to listen after the release");
    }

    #[test]
    fn who_was_not_subscribed_counts_from_when_it_is() {
        let mut turn = YieldPlan::after(audience(2, None), MS).unwrap();
        assert!(!turn.is_over(None));
        assert_eq!([5, 6, 7].map(|heard| turn.is_over(Some(heard))), [false, false, true]);
        // A new subscription counts from its own beginning.
        let mut turn = YieldPlan::after(audience(2, Some(5)), MS).unwrap();
        assert_eq!([0, 1, 2].map(|heard| turn.is_over(Some(heard))), [false, false, true]);
    }

    #[test]
    fn who_can_only_poll_is_given_the_time_of_a_poll() {
        let unseen = SubscriberCount { unseen: true, ..audience(1, Some(0)) };
        let mut turn = YieldPlan::after(unseen, MS).unwrap();
        assert_eq!(turn.quiet_period(Some(2)), SILENCE_FOR_POLLERS);
        // Our own message, and that of whoever could not be told.
        assert_eq!([1, 2].map(|heard| turn.is_over(Some(heard))), [false, true]);
    }

    #[test]
    fn listeners_to_a_release_that_was_not_published_are_given_the_time_of_their_poll() {
        let interval = 1000 * MS;
        let refused = |listeners| SubscriberCount { unannounced: Some(interval), ..audience(listeners, Some(7)) };
        assert_eq!(YieldPlan::after(refused(1), MS), None);
        let turn = YieldPlan::after(refused(2), MS).unwrap();
        assert!(turn.is_wanted() && turn.quiet_period(Some(7)) > interval + POLL_TICK);
        assert_eq!(turn.quiet_period(Some(8)), turn.quiet_period(None));
    }

    #[test]
    fn who_listens_at_a_replica_is_counted_there_and_given_the_time_to_hear() {
        // The primary reaches nobody: without the replica's count there would be no turn.
        assert_eq!(YieldPlan::after(audience(0, Some(7)), MS), None);
        let mut turn = YieldPlan::after(audience(0, Some(7)).with(Some(Copied::Listeners(2))), MS).unwrap();
        assert_eq!(turn.quiet_period(Some(7)), 2 * PATIENCE);
        assert!(turn.quiet_period(Some(8)) < 2 * SILENCE);
        assert_eq!([8, 9].map(|heard| turn.is_over(Some(heard))), [false, true]);
        // Alone there, and alone although nobody was counted there.
        assert_eq!(YieldPlan::after(audience(0, Some(7)).with(Some(Copied::Listeners(1))), MS), None);
        assert_eq!(YieldPlan::after(audience(1, Some(7)).with(None), MS), None);
        // Where the replica did not say, one other is taken to listen.
        for heard in [Some(7), None] {
            assert_eq!(audience(0, heard).with(Some(Copied::Unknown)).others(), 1);
        }
    }

    #[test]
    fn who_is_next_probes_first() {
        let turn = YieldPlan::after(audience(5, Some(0)), MS).unwrap();
        assert_eq!(turn.quiet_period(Some(5)), 2 * MS);
        assert!(
            turn.quiet_period(Some(4)) < turn.quiet_period(Some(3))
                && turn.quiet_period(Some(3)) < turn.quiet_period(Some(0))
        );
        assert_eq!(turn.quiet_period(Some(0)), 4 * MS);
        // Two round trips, where they are longer.
        assert_eq!(YieldPlan::after(audience(2, Some(0)), 5 * MS).unwrap().quiet_period(Some(2)), 10 * MS);
    }
}
