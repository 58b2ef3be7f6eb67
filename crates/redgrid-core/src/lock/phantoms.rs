//! Listeners that never take their turn: a monitor with a pattern subscription, a process that only watches a lock.
//!
//! A release counts them among those who wait, and the turn after it would end by silence each time. So they are learned by name,
//! and not waited for again for a while.

use std::time::Duration;

use super::fairness::SubscriberCount;
use super::lock_state::LockId;
use super::table::ByName;
use crate::clock::Instant;

/// Turns in a row that must end by silence before listeners count as phantoms. The last of them is a patient one, so that a
/// listener that is only slow takes it.
const ENOUGH: u32 = 3;

/// How long phantoms are not waited for: 1 s. Then one patient turn shows whether they still take none; it costs 20 to 40 ms.
const IGNORED: Duration = Duration::from_secs(1);

/// What is known of the listeners of each name.
#[derive(Default)]
pub(super) struct Phantoms {
    names: ByName<Phantom>,
    prune_at: usize,
}

/// What is known of the listeners of one name.
pub(crate) struct Phantom {
    /// Turns in a row that ended by silence.
    silent: u32,
    /// Listeners that took no turn in any of them.
    count: u64,
    /// Of so many listeners. With fewer it is not known who has left.
    of: u64,
    /// Until when they are not waited for.
    until: Instant,
    seen: Instant,
}

impl Phantoms {
    /// The audience without the phantoms in it.
    pub(super) fn without(&self, key: &LockId, audience: SubscriberCount, now: Instant) -> SubscriberCount {
        self.names.get(key).map_or(audience, |known| known.without(audience, now))
    }

    /// A turn of `listeners`, of which none was ignored, has ended: so many of them took none.
    pub(super) fn turn_ended(&mut self, key: &LockId, listeners: u64, missing: u64, now: Instant) {
        if missing == 0 {
            self.names.remove(key);
            return;
        }
        if self.names.len() >= self.prune_at.max(64) {
            self.names.retain(|_, known| now.since(known.seen) < IGNORED * 2);
            self.prune_at = self.names.len() * 2;
        }
        let known = self.names.entry(key.clone()).or_default();
        known.turn_ended(listeners, missing, now);
    }
}

impl Phantom {
    /// The audience without the phantoms in it.
    pub(crate) fn without(&self, audience: SubscriberCount, now: Instant) -> SubscriberCount {
        if self.silent >= ENOUGH && now < self.until && audience.listeners >= self.of {
            return SubscriberCount { listeners: audience.listeners - self.count, ignored: self.count, ..audience };
        }
        SubscriberCount { patient: self.silent + 1 >= ENOUGH, ..audience }
    }

    /// A turn of `listeners`, of which none was ignored, has ended: so many of them took none.
    pub(crate) fn turn_ended(&mut self, listeners: u64, missing: u64, now: Instant) {
        if missing == 0 {
            *self = Phantom::default();
            return;
        }
        // A turn after the pause counts anew.
        let is_new = self.silent == 0 || self.silent >= ENOUGH;
        self.count = if is_new { missing } else { self.count.min(missing) };
        self.silent = self.silent.saturating_add(1);
        (self.of, self.seen) = (listeners, now);
        if self.silent >= ENOUGH {
            self.until = now + IGNORED;
        }
    }
}

impl Default for Phantom {
    fn default() -> Self {
        Phantom { silent: 0, count: 0, of: 0, until: Instant::PAST, seen: Instant::PAST }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::lock::LockKeys;
    use crate::name::Name;
    use crate::wait::Own;

    const MS: Duration = Duration::from_millis(1);

    fn key() -> LockId {
        let (name, key) = (Name::new("a").unwrap(), Bytes::from("a"));
        let target = LockKeys { name, key, channel: Bytes::new(), mark: Bytes::new(), more: Box::default() };
        LockId("lock", Arc::new(target), 0)
    }

    fn audience(listeners: u64) -> SubscriberCount {
        SubscriberCount { listeners, own: Own { heard: Some(0), is_pending: false }, ..SubscriberCount::default() }
    }

    #[test]
    fn a_listener_that_takes_no_turn_is_ignored_for_a_while_and_tried_again() {
        let (mut phantoms, key, begin) = (Phantoms::default(), key(), Instant::PAST + 1000 * MS);
        for turn in 1..=ENOUGH {
            let told = phantoms.without(&key, audience(3), begin);
            assert_eq!((told.listeners, told.ignored, told.patient), (3, 0, turn == ENOUGH), "{turn}");
            phantoms.turn_ended(&key, 3, 1, begin);
        }
        let told = phantoms.without(&key, audience(3), begin + 999 * MS);
        assert_eq!((told.listeners, told.ignored), (2, 1));
        // Another listener has come: it is waited for.
        assert_eq!(phantoms.without(&key, audience(4), begin).listeners, 3);
        // One has left: perhaps the phantom.
        assert_eq!(phantoms.without(&key, audience(2), begin).listeners, 2);
        let again = begin + IGNORED;
        let told = phantoms.without(&key, audience(4), again);
        assert_eq!((told.listeners, told.patient), (4, true));
        phantoms.turn_ended(&key, 4, 2, again);
        assert_eq!(phantoms.without(&key, audience(4), again).ignored, 2);
        // It takes its turn after all.
        phantoms.turn_ended(&key, 4, 0, again + IGNORED);
        assert_eq!(phantoms.without(&key, audience(4), again + IGNORED), audience(4));
    }

    #[test]
    fn those_count_who_took_no_turn_in_any_of_the_turns() {
        let (mut phantoms, key, now) = (Phantoms::default(), key(), Instant::PAST + 1000 * MS);
        for missing in [2, 3, 1] {
            phantoms.turn_ended(&key, 5, missing, now);
        }
        assert_eq!(phantoms.without(&key, audience(5), now).ignored, 1);
    }
}
