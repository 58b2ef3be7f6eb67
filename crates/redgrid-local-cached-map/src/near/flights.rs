//! Reads that are under way, and what was heard meanwhile.

use std::collections::{BTreeMap, HashMap};

use redgrid_core::clock::Instant;

use super::{Hash, Near};

/// So many keys are remembered that were named while reads are under way; beyond that none of those is kept. 65,536: 2 MiB.
const MOST: usize = 65_536;

/// So many keys may be disabled by others at a time; beyond that all are.
const MOST_DISABLED: usize = 65_536;

/// A read that is under way.
pub(crate) struct Flight<'a> {
    pub(super) near: &'a Near,
    /// Since when the map is listened to without a break.
    pub(super) term: Option<u64>,
    /// How many messages there had been when it began.
    pub(super) at: u64,
}

#[derive(Default)]
pub(super) struct Flights {
    /// Counts what was heard.
    count: u64,
    /// How many reads began at each count and have not ended.
    under_way: BTreeMap<u64, u64>,
    /// When a key was last named, while reads are under way.
    touched: HashMap<Hash, u64>,
    /// What was read before this count is not kept.
    floor: u64,
    disabled: HashMap<Hash, Instant>,
    all_disabled: Option<Instant>,
}

impl Flights {
    pub(super) fn begin(&mut self) -> u64 {
        *self.under_way.entry(self.count).or_default() += 1;
        self.count
    }

    pub(super) fn end(&mut self, at: u64) {
        if let Some(reads) = self.under_way.get_mut(&at) {
            *reads -= 1;
            if *reads == 0 {
                self.under_way.remove(&at);
            }
        }
        if self.under_way.is_empty() {
            self.touched.clear();
        }
    }

    /// Whether what a read that began at a count has brought of a key may be kept.
    pub(super) fn may_keep(&mut self, hash: Hash, at: u64, now: Instant) -> bool {
        let is_touched = at < self.floor || self.touched.get(&hash).is_some_and(|&touched| touched > at);
        !is_touched && !self.is_disabled(hash, now)
    }

    pub(super) fn touch(&mut self, hash: Hash) {
        self.count += 1;
        if self.under_way.is_empty() {
            return;
        }
        if self.touched.len() >= MOST {
            return self.touch_all();
        }
        self.touched.insert(hash, self.count);
    }

    pub(super) fn touch_all(&mut self) {
        self.count += 1;
        self.floor = self.count;
        self.touched.clear();
    }

    pub(super) fn disable(&mut self, hashes: &[Hash], all: bool, until: Instant, now: Instant) {
        if self.disabled.len() + hashes.len() > MOST_DISABLED {
            // Those that nobody has enabled.
            self.disabled.retain(|_, until| *until > now);
        }
        if all || self.disabled.len() + hashes.len() > MOST_DISABLED {
            self.all_disabled = self.all_disabled.max(Some(until));
            return;
        }
        for &hash in hashes {
            let ends = self.disabled.entry(hash).or_insert(until);
            *ends = until.max(*ends);
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
    fn what_was_named_since_a_read_began_is_not_kept() {
        let mut flights = Flights::default();
        let early = flights.begin();
        assert!(flights.may_keep(1, early, NOW));
        flights.touch(1);
        let late = flights.begin();
        assert_eq!((flights.may_keep(1, early, NOW), flights.may_keep(2, early, NOW)), (false, true));
        assert!(flights.may_keep(1, late, NOW), "it began behind the message");
        flights.touch_all();
        assert_eq!((flights.may_keep(2, early, NOW), flights.may_keep(3, late, NOW)), (false, false));
        flights.end(early);
        flights.end(late);
        assert!(flights.touched.is_empty() && flights.under_way.is_empty());
        let next = flights.begin();
        assert!(flights.may_keep(1, next, NOW));
    }

    #[test]
    fn with_too_much_to_remember_nothing_is_kept() {
        let mut flights = Flights::default();
        let at = flights.begin();
        (0..=MOST as u128).for_each(|hash| flights.touch(hash));
        assert!(!flights.may_keep(u128::MAX, at, NOW) && flights.touched.len() <= MOST);
    }

    #[test]
    fn what_others_have_disabled_is_kept_when_they_enable_it_or_their_time_is_over() {
        let (mut flights, later) = (Flights::default(), NOW + Duration::from_secs(1));
        flights.disable(&[1, 2], false, later, NOW);
        assert_eq!([1, 2, 3].map(|hash| flights.may_keep(hash, 0, NOW)), [false, false, true]);
        flights.enable(&[1], false);
        assert_eq!([1, 2].map(|hash| flights.may_keep(hash, 0, NOW)), [true, false]);
        assert!(flights.may_keep(2, 0, later));
        flights.disable(&[], true, later, NOW);
        assert_eq!((flights.may_keep(3, 0, NOW), flights.may_keep(3, 0, later)), (false, true));
    }

    #[test]
    fn what_nobody_has_enabled_is_forgotten_when_its_time_is_over() {
        let (mut flights, later) = (Flights::default(), NOW + Duration::from_secs(1));
        let many: Vec<Hash> = (0..MOST_DISABLED as u128).collect();
        flights.disable(&many, false, later, NOW);
        flights.disable(&[Hash::MAX], false, later + Duration::from_secs(1), later);
        assert_eq!((flights.may_keep(Hash::MAX, 0, later), flights.may_keep(Hash::MAX - 1, 0, later)), (false, true));
    }
}
