//! Reads in flight, and the invalidations that are received meanwhile.

use std::collections::{BTreeMap, HashMap};

use redgrid_core::clock::Instant;

use super::{Hash, NearCache};

/// Number of keys that are remembered as invalidated while reads are in flight. Beyond it, no
/// result of these reads is cached. 65,536 keys take 2 MiB.
const MAX_INVALIDATED: usize = 65_536;

/// Number of keys that other clients may disable at a time. Beyond it, all keys are disabled.
const MAX_DISABLED: usize = 65_536;

/// A read in flight.
pub(crate) struct PendingRead<'a> {
    pub(super) near: &'a NearCache,
    /// The generation of the subscription in which the read began.
    pub(super) generation: Option<u64>,
    /// The number of invalidations when the read began.
    pub(super) start: u64,
}

#[derive(Default)]
pub(super) struct PendingReads {
    /// The number of invalidations so far.
    count: u64,
    /// The number of reads in flight, by the count at which they began.
    in_flight: BTreeMap<u64, u64>,
    /// The count at which a key was last invalidated, while reads are in flight.
    invalidated: HashMap<Hash, u64>,
    /// The results of reads that began before this count are not cached.
    min_start: u64,
    disabled: HashMap<Hash, Instant>,
    all_disabled: Option<Instant>,
}

impl PendingReads {
    pub(super) fn begin(&mut self) -> u64 {
        *self.in_flight.entry(self.count).or_default() += 1;
        self.count
    }

    pub(super) fn end(&mut self, start: u64) {
        if let Some(reads) = self.in_flight.get_mut(&start) {
            *reads -= 1;
            if *reads == 0 {
                self.in_flight.remove(&start);
            }
        }
        if self.in_flight.is_empty() {
            self.invalidated.clear();
        }
    }

    /// Returns whether the result of a read that began at the count `start` may be cached.
    pub(super) fn may_cache(&mut self, hash: Hash, start: u64, now: Instant) -> bool {
        let is_invalidated = start < self.min_start || self.invalidated.get(&hash).is_some_and(|&count| count > start);
        !is_invalidated && !self.is_disabled(hash, now)
    }

    pub(super) fn invalidate(&mut self, hash: Hash) {
        self.count += 1;
        if self.in_flight.is_empty() {
            return;
        }
        if self.invalidated.len() >= MAX_INVALIDATED {
            return self.invalidate_all();
        }
        self.invalidated.insert(hash, self.count);
    }

    pub(super) fn invalidate_all(&mut self) {
        self.count += 1;
        self.min_start = self.count;
        self.invalidated.clear();
    }

    pub(super) fn disable(&mut self, hashes: &[Hash], all: bool, until: Instant, now: Instant) {
        if self.disabled.len() + hashes.len() > MAX_DISABLED {
            // Removes disabled keys that were not enabled again before their time was over.
            self.disabled.retain(|_, until| *until > now);
        }
        if all || self.disabled.len() + hashes.len() > MAX_DISABLED {
            self.all_disabled = self.all_disabled.max(Some(until));
            return;
        }
        for &hash in hashes {
            let disabled_until = self.disabled.entry(hash).or_insert(until);
            *disabled_until = until.max(*disabled_until);
        }
    }

    pub(super) fn enable(&mut self, hashes: &[Hash], all: bool) {
        if all {
            self.all_disabled = None;
        }
        hashes.iter().for_each(|hash| {
            self.disabled.remove(hash);
        });
    }

    fn is_disabled(&mut self, hash: Hash, now: Instant) -> bool {
        if self.all_disabled.is_some_and(|until| until <= now) {
            self.all_disabled = None;
        }
        if self.disabled.get(&hash).is_some_and(|until| *until <= now) {
            self.disabled.retain(|_, until| *until > now);
        }
        self.all_disabled.is_some() || self.disabled.contains_key(&hash)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Instant = Instant::MIN;

    #[test]
    fn a_key_that_was_invalidated_since_its_read_began_is_not_cached() {
        let mut reads = PendingReads::default();
        let early = reads.begin();
        assert!(reads.may_cache(1, early, NOW));
        reads.invalidate(1);
        let late = reads.begin();
        assert_eq!((reads.may_cache(1, early, NOW), reads.may_cache(2, early, NOW)), (false, true));
        assert!(reads.may_cache(1, late, NOW), "it began after the message");
        reads.invalidate_all();
        assert_eq!((reads.may_cache(2, early, NOW), reads.may_cache(3, late, NOW)), (false, false));
        reads.end(early);
        reads.end(late);
        assert!(reads.invalidated.is_empty() && reads.in_flight.is_empty());
        let next = reads.begin();
        assert!(reads.may_cache(1, next, NOW));
    }

    #[test]
    fn nothing_is_cached_after_too_many_invalidations() {
        let mut reads = PendingReads::default();
        let start = reads.begin();
        (0..=MAX_INVALIDATED as u128).for_each(|hash| reads.invalidate(hash));
        assert!(!reads.may_cache(u128::MAX, start, NOW) && reads.invalidated.len() <= MAX_INVALIDATED);
    }

    #[test]
    fn disabled_keys_are_cached_again_when_they_are_enabled_or_their_time_is_over() {
        let (mut reads, later) = (PendingReads::default(), NOW + Duration::from_secs(1));
        reads.disable(&[1, 2], false, later, NOW);
        assert_eq!([1, 2, 3].map(|hash| reads.may_cache(hash, 0, NOW)), [false, false, true]);
        reads.enable(&[1], false);
        assert_eq!([1, 2].map(|hash| reads.may_cache(hash, 0, NOW)), [true, false]);
        assert!(reads.may_cache(2, 0, later));
        reads.disable(&[], true, later, NOW);
        assert_eq!((reads.may_cache(3, 0, NOW), reads.may_cache(3, 0, later)), (false, true));
    }

    #[test]
    fn keys_that_are_never_enabled_are_forgotten_when_their_time_is_over() {
        let (mut reads, later) = (PendingReads::default(), NOW + Duration::from_secs(1));
        let many: Vec<Hash> = (0..MAX_DISABLED as u128).collect();
        reads.disable(&many, false, later, NOW);
        reads.disable(&[Hash::MAX], false, later + Duration::from_secs(1), later);
        assert_eq!((reads.may_cache(Hash::MAX, 0, later), reads.may_cache(Hash::MAX - 1, 0, later)), (false, true));
    }
}
