//! Yielding: when the hand-over window of a process ends, the process lets others go first,
//! although its own tasks still wait.
//!
//! The release reports the number n of subscribers that its message reached, normally including
//! this process. Each of the other waiting processes then acquires the lock and releases it, and
//! each of these releases publishes one message. The first of the n messages is from this process.
//! So after n messages, every waiting process has had the lock once. A yield ends early only after
//! a quiet period, in which no message arrives. A limit on the total time of a yield would break
//! the order in which the processes get the lock.

#[cfg(test)]
mod tests;

use std::time::Duration;

use redgrid_client::internal::{OwnSubscription, ReplicaSubscribers};

use super::protocol::LockProtocol;
use super::table::{Answers, ByName, LockId, State, Table};
use crate::clock::Instant;

/// Shortest quiet period: 2 ms. A process that was woken sends its acquire request within a
/// fraction of 2 ms.
const MIN_QUIET_PERIOD: Duration = Duration::from_millis(2);

/// Quiet period if a known waiter receives no messages and polls instead: 250 ms.
///
/// Such a waiter normally polls every 100 ms; at times 200 ms pass between two polls.
const POLLER_QUIET_PERIOD: Duration = Duration::from_millis(250);

/// Shortest quiet period when this process lets subscribers at a replica go first: 20 ms. It
/// applies until this process has received the message of its own release.
///
/// A replica that does not lag delivers the message within a fraction of 20 ms. All subscribers of
/// the same replica receive the message at the same time. This constant has a second use. A
/// subscriber that never acquires the lock is a phantom. A subscriber counts as a phantom only
/// after a yield whose quiet period has at least this length.
const REPLICA_QUIET_PERIOD: Duration = Duration::from_millis(20);

/// Divisor of the poll interval: 4. If the server did not publish a release, listeners notice the
/// release only when they poll. The quiet period is then their poll interval plus a quarter of it.
///
/// [`POLL_TICK`] is added to that, because a client sends polls at most once in 100 ms.
const LATE_POLL: u32 = 4;
const POLL_TICK: Duration = Duration::from_millis(100);

/// A process that must let others go first remembers this for 2 hand-over windows after its
/// release. If its next request is made in this time, the others go first.
///
/// If a yield were forgotten after one window, two processes that make requests with pauses could
/// starve a third process (found by the model `turns`).
const WINDOWS: u32 = 2;

/// The waiters in other processes, as far as the reply to a release shows them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubscriberCount {
    /// Subscribers that the message of the release reached, or will reach through a replica.
    pub(crate) listeners: u64,
    /// Whether subscribers are connected to a replica.
    pub(crate) by_replica: bool,
    /// Whether a waiter exists that receives no messages.
    pub(crate) unseen: bool,
    /// The interval at which listeners poll if the server refused to publish the release; otherwise
    /// `None`.
    pub(crate) unannounced: Option<Duration>,
    /// The subscription of this process, as it was before the release was sent.
    pub(crate) own: OwnSubscription,
    /// Number of further listeners, which are not part of `listeners` because they never acquired
    /// the lock.
    pub(crate) ignored: u64,
    /// Whether the yield has a long quiet period. If so, a listener that does not acquire the lock
    /// in this yield can count as a phantom.
    pub(crate) long_quiet_period: bool,
}

impl SubscriberCount {
    /// Adds the subscribers at a replica to those that the primary counted.
    ///
    /// `None` means that no subscriber of the channel is at a replica.
    /// [`ReplicaSubscribers::Unknown`] means that the replica did not answer. One subscriber other
    /// than this process is then assumed, although there may be none.
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

/// Decides when a process that lets others go first makes its next attempt: after a number of
/// messages, or after a quiet period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct YieldPlan {
    /// The waiters in other processes.
    audience: SubscriberCount,
    /// Number of messages to wait for.
    passes: u64,
    /// Message count of the subscription when the plan begins. The plan is over once the count is
    /// higher than this by `passes`. `None` until the subscription is active.
    from: Option<u64>,
    base_quiet_period: Duration,
}

impl YieldPlan {
    /// Returns the plan of the yield that follows a release at the end of a hand-over window.
    ///
    /// Returns `None` if no other process waits.
    pub(crate) fn after(audience: SubscriberCount, round_trip: Duration) -> Option<YieldPlan> {
        if audience.others() == 0 && !audience.unseen {
            return None;
        }
        let base_quiet_period = match audience.unannounced {
            Some(interval) => interval + interval / LATE_POLL + POLL_TICK,
            None if audience.unseen => POLLER_QUIET_PERIOD,
            None => MIN_QUIET_PERIOD.max(round_trip * 2),
        };
        let passes = audience.listeners + u64::from(audience.unseen);
        Some(YieldPlan { audience, passes, from: audience.own.message_count, base_quiet_period })
    }

    /// Returns whether another process is known or assumed to wait for the lock.
    ///
    /// The presence of a subscriber proves nothing, because it may listen for another reason. The
    /// flag of a polling waiter proves that this waiter exists. If the release was not published,
    /// the listeners of the channel are assumed to wait.
    pub(crate) fn is_wanted(&self) -> bool {
        self.audience.unseen || self.audience.unannounced.is_some()
    }

    /// Returns how long the channel must be quiet before a probe is sent. The probe checks whether
    /// the key is free.
    ///
    /// The more messages are outstanding, the longer the period: up to twice the shortest period.
    /// So the process that is next also probes first.
    ///
    /// Suppose that another process B holds the lock, and a third process C waits for the message
    /// of B's release. If this process sends its probe while B releases the lock, it overtakes C.
    /// A busy process like B releases the lock at the end of its hand-over window. The quiet period
    /// is therefore normally shorter than a window: the probe is then sent before B's release. The
    /// period is longer only for polling waiters, replicas and slow listeners.
    pub(crate) fn quiet_period(&self, message_count: Option<u64>) -> Duration {
        // If the server refused to publish the release, messages do not show which processes have
        // had the lock, and do not shorten the quiet period.
        if self.audience.unannounced.is_some() {
            return self.base_quiet_period;
        }
        let passed = message_count.zip(self.from).map_or(0, |(message_count, from)| message_count.saturating_sub(from));
        let left = self.passes.saturating_sub(passed) as f64 / self.passes.max(1) as f64;
        // Until this process has received the message of its own release, the listeners at the
        // replica have not received that message either, and cannot try to acquire.
        let least = match self.audience.long_quiet_period || (self.audience.by_replica && passed == 0) {
            true => REPLICA_QUIET_PERIOD,
            false => Duration::ZERO,
        };
        self.base_quiet_period.max(least).mul_f64(1.0 + left)
    }

    /// Returns the plan for a caller that subscribes anew: counting begins with its subscription.
    pub(crate) fn for_next_caller(self) -> YieldPlan {
        YieldPlan { from: None, ..self }
    }

    /// Returns the number of listeners, and how many of them have not held the lock, judging by
    /// `message_count`.
    ///
    /// Returns `None` if the messages do not show these numbers, for example because some listeners
    /// were ignored or a waiter receives no messages.
    pub(crate) fn missing(&self, message_count: Option<u64>) -> Option<(u64, u64)> {
        if self.audience.ignored > 0 || self.is_wanted() {
            return None;
        }
        let passed = message_count?.checked_sub(self.from?)?;
        Some((self.passes, self.passes.saturating_sub(passed)))
    }

    /// Makes the plan wait for one more message.
    ///
    /// The caller has found that one of the counted messages is from this process. That message
    /// does not show that another process had the lock.
    pub(crate) fn let_pass(&mut self) {
        self.passes += 1;
    }

    /// Returns whether every other process has had the lock, judging by `message_count`, the number
    /// of messages received so far on the lock's channel.
    ///
    /// `message_count` is `None` without a subscription.
    pub(crate) fn is_over(&mut self, message_count: Option<u64>) -> bool {
        let Some(message_count) = message_count else { return false };
        // The only listener may be this process itself, because its subscription was not confirmed
        // yet. Assume that it is. If it is another process, the next release counts both processes
        // as subscribers, and this process yields then.
        let SubscriberCount { listeners, unannounced, own, .. } = self.audience;
        if unannounced.is_some() && own.is_pending && listeners <= 1 {
            return true;
        }
        let from = *self.from.get_or_insert(message_count);
        // A lower count belongs to a new subscription: counting begins anew with this count.
        if message_count < from {
            self.from = Some(message_count);
            return false;
        }
        message_count - from >= self.passes
    }
}

/// Yields that stay in force for a short time after a release.
///
/// The next request of this process lets waiting processes go first, even if no task of this
/// process waited when the lock was released.
#[derive(Default)]
pub(super) struct PendingYields {
    pub(super) names: ByName<PendingYield>,
    prune_at: usize,
}

#[derive(Clone, Copy)]
pub(super) struct PendingYield {
    /// The plan of the yield. The yield begins when the hand-over window has ended.
    pub(super) plan: YieldPlan,
    /// When the lock was released.
    pub(super) since: Instant,
    pub(super) until: Instant,
    pub(super) handover_ends: Instant,
}

impl PendingYield {
    /// Returns the time at which all waiters in other processes are assumed to have been notified
    /// of the release. Returns `None` after that time, and also while the hand-over window lasts.
    pub(super) fn yields_until(&self, now: Instant) -> Option<Instant> {
        let until = self.since + self.plan.quiet_period(None);
        (now >= self.handover_ends && now < until).then_some(until)
    }
}

impl PendingYields {
    pub(super) fn insert(&mut self, key: LockId, recent: PendingYield, now: Instant) {
        if self.names.len() >= self.prune_at.max(64) {
            self.names.retain(|_, recent| recent.until > now);
            self.prune_at = self.names.len() * 2;
        }
        self.names.insert(key, recent);
    }

    pub(super) fn get(&self, key: &LockId, now: Instant) -> Option<PendingYield> {
        self.names.get(key).copied().filter(|recent| recent.until > now)
    }

    pub(super) fn take(&mut self, key: &LockId, now: Instant) -> Option<PendingYield> {
        self.names.remove(key).filter(|recent| recent.until > now)
    }
}

impl Table {
    /// Returns the plan of a yield after a release; `None` if no other process waits.
    pub(super) fn yield_plan(
        &self,
        state: &State,
        key: &LockId,
        protocol: &dyn LockProtocol,
        count: SubscriberCount,
    ) -> Option<YieldPlan> {
        // Readers do not yield: waiting writers announce themselves on the server, and later
        // readers wait behind them. Writers do yield, and not only to other processes: if readers
        // of this process wait for the lock, the writers of this process let these readers go
        // first, too. For that, the readers are counted like one listener of another process.
        if protocol.is_shared() {
            return None;
        }
        let beside = u64::from(state.waits_in_paired_mode(protocol, &key.keys));
        let count = SubscriberCount { listeners: count.listeners + beside, ..count };
        YieldPlan::after(state.phantoms.without(key, count, self.now()), self.round_trip(key))
    }

    /// Lets other processes go first, as `plan` prescribes. The waiters of this process follow the
    /// plan. If this process has no waiters, its next request follows the plan. Returns the answers
    /// for try-only requests.
    pub(super) fn yield_to_others(
        &self,
        state: &mut State,
        key: &LockId,
        plan: YieldPlan,
        handover_ends: Instant,
        now: Instant,
    ) -> Answers {
        let Some(lock) = state.locks.get_mut(key) else { return Answers::new() };
        if lock.next(now).is_none() {
            self.remember_yield(state, key, plan, handover_ends);
            return Answers::new();
        }
        lock.yield_plan = Some(Box::new(plan));
        lock.reject_try_waiters()
    }

    /// Remembers a yield when no request of this process waits.
    ///
    /// If the next request of this process is made soon, it lets other processes go first.
    pub(super) fn remember_yield(&self, state: &mut State, key: &LockId, plan: YieldPlan, handover_ends: Instant) {
        let since = self.now();
        let window = state.locks.get(key).map_or(Duration::ZERO, |lock| self.handover_window(lock.protocol, key));
        let until = since + (window * WINDOWS).max(self.round_trip(key) * 2);
        state.recent.insert(key.clone(), PendingYield { plan, since, until, handover_ends }, since);
    }
}
