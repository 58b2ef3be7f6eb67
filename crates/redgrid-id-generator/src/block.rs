//! Ids that this client may give: consecutive numbers, and how long they are good for.

use std::collections::VecDeque;
use std::time::Duration;

use redgrid_core::clock::Instant;

/// Consecutive ids that nobody else has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block<T> {
    /// The next one.
    pub(crate) next: i64,
    /// How many there are from it on.
    pub(crate) left: u64,
    /// How many there were.
    pub(crate) size: u64,
    /// From here on they are not given any more.
    pub(crate) until: Instant,
    /// What else has to be as it was.
    pub(crate) while_: T,
}

/// The blocks of a client, in their order.
#[derive(Debug)]
pub(crate) struct Store<T> {
    blocks: VecDeque<Block<T>>,
    last_size: u64,
    /// When the last block came.
    put_at: Instant,
    /// All was given since.
    is_used_up: bool,
    given: Given,
}

/// How blocks were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    /// How many ids were given in a second, lately.
    pub(crate) per_second: u64,
    /// How long the last block lasted until more is wanted; none where there is more, or it ended by itself.
    pub(crate) lasted: Option<Duration>,
}

/// How many ids were given in the second that begins with `since`, and in the one before.
#[derive(Debug)]
struct Given {
    since: Instant,
    now: u64,
    before: u64,
}

impl Given {
    fn turn(&mut self, now: Instant) {
        let passed = now.since(self.since);
        if passed >= SECOND {
            self.before = if passed < 2 * SECOND { self.now } else { 0 };
            (self.since, self.now) = (now, 0);
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

impl<T> Default for Store<T> {
    fn default() -> Self {
        let given = Given { since: Instant::MIN, now: 0, before: 0 };
        Store { blocks: VecDeque::new(), last_size: 0, put_at: Instant::MIN, is_used_up: false, given }
    }
}

impl<T> Store<T> {
    /// The next id, of the first block that is still good.
    pub(crate) fn take(&mut self, now: Instant, mut stands: impl FnMut(&T) -> bool) -> Option<i64> {
        while let Some(first) = self.blocks.front() {
            if now < first.until && stands(&first.while_) {
                return self.pop(now);
            }
            self.blocks.pop_front();
        }
        None
    }

    /// The next id, whatever became of its block: for those on whose behalf it was asked for.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<i64> {
        let first = self.blocks.front_mut()?;
        let id = first.next;
        first.left -= 1;
        if first.left == 0 {
            self.blocks.pop_front();
            self.is_used_up = self.blocks.is_empty();
        } else {
            first.next += 1;
        }
        self.given.turn(now);
        self.given.now += 1;
        Some(id)
    }

    pub(crate) fn put(&mut self, block: Block<T>, now: Instant) {
        if block.left > 0 {
            (self.last_size, self.put_at, self.is_used_up) = (block.size, now, false);
            self.blocks.push_back(block);
        }
    }

    /// Whether half of the last block is used, or more.
    pub(crate) fn is_low(&self) -> bool {
        match (self.blocks.len(), self.blocks.back()) {
            (0, _) | (_, None) => true,
            (1, Some(last)) => last.left * 2 <= last.size,
            _ => false,
        }
    }

    /// How blocks were used until now, when more is wanted.
    pub(crate) fn used(&mut self, now: Instant) -> Use {
        self.given.turn(now);
        let lasted = self.is_used_up.then(|| now.since(self.put_at));
        Use { per_second: self.given.now.max(self.given.before), lasted }
    }

    /// How many ids the last block had.
    pub(crate) fn last_size(&self) -> u64 {
        self.last_size
    }

    /// Throws all away.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(next: i64, size: u64, while_: u8) -> Block<u8> {
        Block { next, left: size, size, until: Instant::from_nanos(10), while_ }
    }

    const NOW: Instant = Instant::from_nanos(5);

    #[test]
    fn ids_come_in_the_order_of_their_blocks_and_not_from_those_that_are_over() {
        let mut store = Store::default();
        for (next, size, while_) in [(1, 2, 0), (10, 2, 1), (20, 1, 0), (i64::MAX, 1, 0)] {
            store.put(block(next, size, while_), NOW);
        }
        let stands = |while_: &u8| *while_ == 0;
        let had: Vec<_> = std::iter::from_fn(|| store.take(NOW, stands)).collect();
        assert_eq!(had, [1, 2, 20, i64::MAX]);
        store.put(block(30, 4, 0), NOW);
        assert_eq!((store.take(NOW, stands), store.take(Instant::from_nanos(10), stands)), (Some(30), None));
        assert_eq!(store.used(NOW), Use { per_second: 5, lasted: None });
    }

    #[test]
    fn half_of_the_last_block_is_low() {
        let mut store = Store::default();
        assert!(store.is_low());
        store.put(block(1, 5, 0), NOW);
        let mut low = Vec::new();
        while store.pop(NOW).is_some() {
            low.push(store.is_low());
        }
        assert_eq!(low, [false, false, true, true, true]);
        store.put(block(1, 1, 0), NOW);
        store.put(block(5, 5, 0), NOW);
        assert!(!store.is_low());
        store.clear();
        assert_eq!(store.pop(NOW), None);
    }

    #[test]
    fn what_is_used_is_that_of_the_last_second() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut store = Store::default();
        let endless = |next, size| Block { until: Instant::MAX, ..block(next, size, 0) };
        store.put(endless(0, 40), at(0));
        (0..40).for_each(|n| assert_eq!(store.take(at(n * 10), |_| true), Some(n as i64)));
        assert_eq!(store.used(at(400)), Use { per_second: 40, lasted: Some(Duration::from_millis(400)) });
        assert_eq!(store.used(at(1100)).per_second, 40);
        store.put(endless(40, 9), at(1200));
        (0..8).for_each(|_| assert!(store.pop(at(1200)).is_some()));
        assert_eq!(store.used(at(1900)), Use { per_second: 40, lasted: None });
        assert_eq!((store.used(at(2200)).per_second, store.used(at(3300)).per_second), (8, 0));
    }
}
