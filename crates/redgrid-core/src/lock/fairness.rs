//! Yielding: a process whose hand-over window ends while its own tasks wait lets others go first.
//!
//! The release reports the number n of subscribers that its message reached. Each subscriber that
//! wants the lock will hold and release it, with a message of its own. After n messages (the first
//! is from this process) every process has had the lock once. Only silence ends a yield early: a
//! limit on the total time would break the order.

use std::time::Duration;

use crate::pubsub::{OwnSubscription, ReplicaSubscribers};

/// Shortest quiet period: 2 ms. A process that was woken tries within a fraction of it.
const SILENCE: Duration = Duration::from_millis(2);

/// Quiet period while a waiter is known that polls and receives no messages: 250 ms.
///
/// Such a waiter polls every 100 ms, but at times only after 200 ms.
const SILENCE_FOR_POLLERS: Duration = Duration::from_millis(250);

/// Quiet period until this process has received its own release through a replica: 20 ms.
///
/// A replica that does not lag needs a fraction of it. Subscribers of the same replica receive the
/// release at the same time. A listener gets the same period before it counts as one that never
/// acquires the lock.
const PATIENCE: Duration = Duration::from_millis(20);

/// Extra time for a listener to notice a release that was not published: a quarter of its interval.
///
/// The interval is that of its poll. The poll runs at most every 100 ms.
const LATE_POLL: u32 = 4;
const POLL_TICK: Duration = Duration::from_millis(100);

/// How long a request of the same process obeys a yield, in hand-over windows of another process.
///
/// A yield that is forgotten within one window lets two processes that leave and return starve a
/// third (found by the model `turns`). A request that comes after two windows finds the yield over,
/// or waits for a quiet period.
const WINDOWS: u32 = 2;

/// What a release reported about waiters in other processes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubscriberCount {
    /// Subscribers that its message reached, or will reach through a replica.
    pub(crate) listeners: u64,
    /// Subscribers are connected to a replica.
    pub(crate) by_replica: bool,
    /// A waiter exists that receives no messages.
    pub(crate) unseen: bool,
    /// The server refused to publish the release. Listeners notice it by polling at this interval.
    pub(crate) unannounced: Option<Duration>,
    /// This process's own subscription before the release was sent.
    pub(crate) own: OwnSubscription,
    /// Listeners that are not counted, because they never acquired the lock.
    pub(crate) ignored: u64,
    /// A listener gets more time than usual before it counts as one that never acquires the lock.
    pub(crate) patient: bool,
}

impl SubscriberCount {
    /// Adds the subscribers that a replica reaches to those that the primary counted.
    ///
    /// `None` means that no subscriber of the channel is at a replica.
    /// [`ReplicaSubscribers::Unknown`] means that the replica did not answer, which counts as one
    /// subscriber other than this process. It may be that no process is subscribed there.
    pub(crate) fn with(self, replica_subscribers: Option<ReplicaSubscribers>) -> SubscriberCount {
        match replica_subscribers {
            None => self,
            Some(ReplicaSubscribers::Count(count)) => {
                SubscriberCount { listeners: self.listeners + count, by_replica: count > 0, ..self }
            }
            Some(ReplicaSubscribers::Unknown) => {
                let least = 1 + u64::from(self.own.message_count.is_some());
                SubscriberCount { listeners: self.listeners + least, by_replica: true, ..self }
            }
        }
    }

    /// Returns the number of subscribers other than this process.
    pub(crate) fn others(self) -> u64 {
        self.listeners.saturating_sub(u64::from(self.own.message_count.is_some()))
    }
}

/// What a process waits for before its next attempt, so that other processes go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct YieldPlan {
    /// Messages to wait for.
    passes: u64,
    /// A waiter exists that receives no messages.
    unseen: bool,
    /// Message count at which counting begins; unknown until the subscription is active.
    from: Option<u64>,
    silence: Duration,
    /// The message arrives through a replica.
    by_replica: bool,
    /// No message reports which process has held the lock: only the full quiet period ends the
    /// yield.
    unannounced: bool,
    /// The only listener may be this process, whose subscription was not confirmed yet.
    may_be_ours: bool,
    /// It covers all listeners: none was ignored.
    is_for_all: bool,
    patient: bool,
}

impl YieldPlan {
    /// Returns what to wait for after a release at the end of a hand-over window.
    ///
    /// Returns `None` if no other process waits.
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
        let from = own.message_count;
        Some(YieldPlan { passes, unseen, from, silence, by_replica, unannounced, may_be_ours, is_for_all, patient })
    }

    /// Returns whether another process is known to wait.
    ///
    /// A subscriber alone may listen for another reason; a waiter that sets its flag does not.
    pub(crate) fn is_wanted(&self) -> bool {
        self.unseen || self.unannounced
    }

    /// Returns how long the channel must be quiet before one probe is sent.
    ///
    /// The period is up to twice as long with more messages outstanding. So the process that is
    /// next also probes first. The period is normally shorter than a hand-over window. It is longer
    /// for polling waiters, replicas and slow listeners. A probe at the end of a window would
    /// overtake a process that waits for its message.
    pub(crate) fn quiet_period(&self, message_count: Option<u64>) -> Duration {
        if self.unannounced {
            return self.silence;
        }
        let passed = message_count.zip(self.from).map_or(0, |(message_count, from)| message_count.saturating_sub(from));
        let left = self.passes.saturating_sub(passed) as f64 / self.passes.max(1) as f64;
        // This process's own release has not arrived: no listener has received it and could try.
        let least = match self.patient || (self.by_replica && passed == 0) {
            true => PATIENCE,
            false => Duration::ZERO,
        };
        self.silence.max(least).mul_f64(1.0 + left)
    }

    /// Returns the plan for a caller that subscribes anew: counting begins with its subscription.
    pub(crate) fn for_next_caller(self) -> YieldPlan {
        YieldPlan { from: None, ..self }
    }

    /// Returns the number of listeners, and how many have not held the lock after `heard` messages.
    ///
    /// Returns `None` if the messages do not show that: some listeners were ignored, or a known
    /// waiter receives no messages.
    pub(crate) fn missing(&self, message_count: Option<u64>) -> Option<(u64, u64)> {
        if !self.is_for_all || self.is_wanted() {
            return None;
        }
        let passed = message_count?.checked_sub(self.from?)?;
        Some((self.passes, self.passes.saturating_sub(passed)))
    }

    /// Adds a message of this process that arrived in between: no other process held the lock by
    /// it.
    pub(crate) fn let_pass(&mut self) {
        self.passes += 1;
    }

    /// Returns whether every other process has had the lock after `heard` messages.
    ///
    /// `heard` is `None` without a subscription.
    pub(crate) fn is_over(&mut self, message_count: Option<u64>) -> bool {
        let Some(message_count) = message_count else { return false };
        // If it was another process after all, the next release counts both.
        if self.may_be_ours {
            return true;
        }
        let from = *self.from.get_or_insert(message_count);
        // A count that begins anew belongs to a new subscription: count from its beginning.
        if message_count < from {
            self.from = Some(message_count);
            return false;
        }
        message_count - from >= self.passes
    }
}

/// Returns how long a request after a release still obeys its yield.
pub(crate) fn remembered_for(handover_window: Duration, round_trip: Duration) -> Duration {
    (handover_window * WINDOWS).max(round_trip * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn audience(listeners: u64, message_count: Option<u64>) -> SubscriberCount {
        SubscriberCount {
            listeners,
            own: OwnSubscription { message_count, is_pending: false },
            ..SubscriberCount::default()
        }
    }

    #[test]
    fn alone_there_is_no_turn() {
        assert_eq!(YieldPlan::after(audience(1, Some(7)), MS), None);
        assert_eq!(YieldPlan::after(audience(0, None), MS), None);
    }

    #[test]
    fn a_turn_lets_everybody_go_once() {
        let mut turn = YieldPlan::after(audience(3, Some(7)), MS).unwrap();
        assert_eq!([8, 9].map(|message_count| turn.is_over(Some(message_count))), [false, false]);
        assert!(turn.is_over(Some(10)));
    }

    #[test]
    fn a_listener_that_may_be_this_process_is_not_waited_for_once_the_subscription_is_confirmed() {
        let after = |listeners, is_pending| {
            let unannounced = Some(Duration::from_secs(600));
            let own = OwnSubscription { message_count: None, is_pending };
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
        assert_eq!([5, 6, 7].map(|message_count| turn.is_over(Some(message_count))), [false, false, true]);
        // A new subscription counts from its own beginning.
        let mut turn = YieldPlan::after(audience(2, Some(5)), MS).unwrap();
        assert_eq!([0, 1, 2].map(|message_count| turn.is_over(Some(message_count))), [false, false, true]);
    }

    #[test]
    fn who_can_only_poll_is_given_the_time_of_a_poll() {
        let unseen = SubscriberCount { unseen: true, ..audience(1, Some(0)) };
        let mut turn = YieldPlan::after(unseen, MS).unwrap();
        assert_eq!(turn.quiet_period(Some(2)), SILENCE_FOR_POLLERS);
        // The message of this process, and that of the waiter that receives none.
        assert_eq!([1, 2].map(|message_count| turn.is_over(Some(message_count))), [false, true]);
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
        // The primary reaches no subscriber: without the replica's count there would be no yield.
        assert_eq!(YieldPlan::after(audience(0, Some(7)), MS), None);
        let mut turn = YieldPlan::after(audience(0, Some(7)).with(Some(ReplicaSubscribers::Count(2))), MS).unwrap();
        assert_eq!(turn.quiet_period(Some(7)), 2 * PATIENCE);
        assert!(turn.quiet_period(Some(8)) < 2 * SILENCE);
        assert_eq!([8, 9].map(|message_count| turn.is_over(Some(message_count))), [false, true]);
        // Alone at the replica, and alone although no subscriber was counted there.
        assert_eq!(YieldPlan::after(audience(0, Some(7)).with(Some(ReplicaSubscribers::Count(1))), MS), None);
        assert_eq!(YieldPlan::after(audience(1, Some(7)).with(None), MS), None);
        // If the replica did not answer, one other subscriber is assumed.
        for message_count in [Some(7), None] {
            assert_eq!(audience(0, message_count).with(Some(ReplicaSubscribers::Unknown)).others(), 1);
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
