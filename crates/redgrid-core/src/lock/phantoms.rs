//! Subscribers that never acquire the lock: a monitor with a pattern subscription, or a process
//! that only watches the lock.
//!
//! The reply to a release counts such subscribers as if they waited. But they never acquire the
//! lock: each yield would last until its quiet period is over. So these subscribers, called
//! phantoms, are detected for each key and ignored for a while.

use std::time::Duration;

use super::fairness::SubscriberCount;
use super::table::{ByName, LockId};
use crate::clock::Instant;

/// Subscribers count as phantoms after this number of consecutive yields that ended by their quiet
/// period: 3.
///
/// Only subscribers that acquired nothing in these yields count as phantoms. The last yield has a
/// long quiet period, so that a slow subscriber can still acquire the lock.
const ENOUGH: u32 = 3;

/// How long phantoms are ignored: 1 s.
///
/// After that time, one yield with a long quiet period shows whether the phantoms still acquire
/// nothing. That yield takes 20 to 40 ms.
const IGNORED: Duration = Duration::from_secs(1);

/// For each key, observations that show whether it has subscribers that never acquire the lock.
#[derive(Default)]
pub(super) struct Phantoms {
    names: ByName<Phantom>,
    prune_at: usize,
}

/// Observations of the subscribers of one key.
#[derive(Default)]
pub(crate) struct Phantom {
    /// Number of consecutive yields that ended by their quiet period.
    quiet_yields: u32,
    /// The smallest number of subscribers that acquired nothing in one of the yields that
    /// `quiet_yields` counts. There cannot be more phantoms: they never acquire the lock.
    count: u64,
    /// Number of subscribers in the last of the counted yields. If a later release reports fewer
    /// subscribers, a phantom may have left.
    of: u64,
    /// Until when the phantoms are ignored.
    until: Instant,
    seen: Instant,
}

impl Phantoms {
    pub(super) fn without(&self, key: &LockId, audience: SubscriberCount, now: Instant) -> SubscriberCount {
        self.names.get(key).map_or(audience, |known| known.without(audience, now))
    }

    /// Records the end of a yield to `listeners` subscribers, of which `missing` acquired nothing.
    ///
    /// If `Phantoms::without` has left phantoms out of the subscribers of a yield, this method must
    /// not be called for that yield: both numbers would lack the phantoms.
    pub(super) fn yield_ended(&mut self, key: &LockId, listeners: u64, missing: u64, now: Instant) {
        if missing == 0 {
            self.names.remove(key);
            return;
        }
        if self.names.len() >= self.prune_at.max(64) {
            self.names.retain(|_, known| now.since(known.seen) < IGNORED * 2);
            self.prune_at = self.names.len() * 2;
        }
        let known = self.names.entry(key.clone()).or_default();
        known.yield_ended(listeners, missing, now);
    }
}

impl Phantom {
    pub(crate) fn without(&self, audience: SubscriberCount, now: Instant) -> SubscriberCount {
        if self.quiet_yields >= ENOUGH && now < self.until && audience.listeners >= self.of {
            return SubscriberCount { listeners: audience.listeners - self.count, ignored: self.count, ..audience };
        }
        SubscriberCount { long_quiet_period: self.quiet_yields + 1 >= ENOUGH, ..audience }
    }

    /// Records the end of a yield to `listeners` subscribers, of which `missing` acquired nothing.
    ///
    /// If `Phantom::without` has left phantoms out of the subscribers of a yield, this method must
    /// not be called for that yield: both numbers would lack the phantoms.
    pub(crate) fn yield_ended(&mut self, listeners: u64, missing: u64, now: Instant) {
        if missing == 0 {
            *self = Phantom::default();
            return;
        }
        // The first yield after phantoms were ignored starts a new count.
        let is_new = self.quiet_yields == 0 || self.quiet_yields >= ENOUGH;
        self.count = if is_new { missing } else { self.count.min(missing) };
        self.quiet_yields = self.quiet_yields.saturating_add(1);
        (self.of, self.seen) = (listeners, now);
        if self.quiet_yields >= ENOUGH {
            self.until = now + IGNORED;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::lock::LockKeys;
    use crate::name::Name;
    use redgrid_client::internal::OwnSubscription;

    const MS: Duration = Duration::from_millis(1);

    fn key() -> LockId {
        let (name, key) = (Name::new("a").unwrap(), Bytes::from("a"));
        let target = LockKeys { name, key, channel: Bytes::new(), more: Box::default(), family: "" };
        LockId { kind: "lock", keys: Arc::new(target), grant: 0 }
    }

    fn audience(listeners: u64) -> SubscriberCount {
        SubscriberCount {
            listeners,
            own: OwnSubscription { message_count: Some(0), is_pending: false },
            ..SubscriberCount::default()
        }
    }

    #[test]
    fn a_listener_that_takes_no_turn_is_ignored_for_a_while_and_tried_again() {
        let (mut phantoms, key, begin) = (Phantoms::default(), key(), Instant::MIN + 1000 * MS);
        for nth in 1..=ENOUGH {
            let count = phantoms.without(&key, audience(3), begin);
            assert_eq!((count.listeners, count.ignored, count.long_quiet_period), (3, 0, nth == ENOUGH), "{nth}");
            phantoms.yield_ended(&key, 3, 1, begin);
        }
        let count = phantoms.without(&key, audience(3), begin + 999 * MS);
        assert_eq!((count.listeners, count.ignored), (2, 1));
        // With one more subscriber, still only one is ignored.
        assert_eq!(phantoms.without(&key, audience(4), begin).listeners, 3);
        // One subscriber has gone, perhaps the phantom, so none is ignored.
        assert_eq!(phantoms.without(&key, audience(2), begin).listeners, 2);
        let again = begin + IGNORED;
        let count = phantoms.without(&key, audience(4), again);
        assert_eq!((count.listeners, count.long_quiet_period), (4, true));
        phantoms.yield_ended(&key, 4, 2, again);
        assert_eq!(phantoms.without(&key, audience(4), again).ignored, 2);
        // The phantom acquires the lock after all.
        phantoms.yield_ended(&key, 4, 0, again + IGNORED);
        assert_eq!(phantoms.without(&key, audience(4), again + IGNORED), audience(4));
    }

    #[test]
    fn listeners_without_a_turn_in_all_yields_count_as_phantoms() {
        let (mut phantoms, key, now) = (Phantoms::default(), key(), Instant::MIN + 1000 * MS);
        for missing in [2, 3, 1] {
            phantoms.yield_ended(&key, 5, missing, now);
        }
        assert_eq!(phantoms.without(&key, audience(5), now).ignored, 1);
    }
}
