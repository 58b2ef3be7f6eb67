//! The ids in the memory of a client: blocks of consecutive numbers, and their validity.

use std::collections::VecDeque;
use std::time::Duration;

use redgrid_core::clock::Instant;

/// Consecutive ids that belong to this client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block<T> {
    /// The next id.
    pub(crate) next: i64,
    /// The number of remaining ids.
    pub(crate) remaining: u64,
    /// The number of ids of the whole block.
    pub(crate) size: u64,
    /// The ids are not issued at or after this time.
    pub(crate) valid_until: Instant,
    /// A further condition for the ids to be valid.
    pub(crate) condition: T,
}

/// The blocks of a client, in the order of their arrival.
#[derive(Debug)]
pub(crate) struct BlockQueue<T> {
    blocks: VecDeque<Block<T>>,
    last_size: u64,
    /// When the last block arrived.
    pushed_at: Instant,
    /// Whether all ids have been issued since the last block arrived.
    is_exhausted: bool,
    rate: Rate,
}

/// The recent usage of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    /// The number of ids issued per second.
    pub(crate) per_second: u64,
    /// The time from the arrival of the last block until more ids are needed. `None` if there are
    /// ids left, or the block became invalid earlier.
    pub(crate) lasted: Option<Duration>,
}

/// The number of ids issued in the second that begins at `since`, and in the previous one.
#[derive(Debug)]
struct Rate {
    since: Instant,
    current: u64,
    previous: u64,
}

impl Rate {
    fn advance(&mut self, now: Instant) {
        let elapsed = now.since(self.since);
        if elapsed >= SECOND {
            self.previous = if elapsed < 2 * SECOND { self.current } else { 0 };
            (self.since, self.current) = (now, 0);
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

impl<T> Default for BlockQueue<T> {
    fn default() -> Self {
        let rate = Rate { since: Instant::MIN, current: 0, previous: 0 };
        BlockQueue { blocks: VecDeque::new(), last_size: 0, pushed_at: Instant::MIN, is_exhausted: false, rate }
    }
}

impl<T> BlockQueue<T> {
    /// Returns the next id of the first valid block, and removes invalid blocks before it.
    pub(crate) fn take(&mut self, now: Instant, mut is_valid: impl FnMut(&T) -> bool) -> Option<i64> {
        while let Some(first) = self.blocks.front() {
            if now < first.valid_until && is_valid(&first.condition) {
                return self.pop(now);
            }
            self.blocks.pop_front();
        }
        None
    }

    /// Returns the next id, even of an invalid block. It is for the calls for which the block was
    /// fetched.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<i64> {
        let first = self.blocks.front_mut()?;
        let id = first.next;
        first.remaining -= 1;
        if first.remaining == 0 {
            self.blocks.pop_front();
            self.is_exhausted = self.blocks.is_empty();
        } else {
            first.next += 1;
        }
        self.rate.advance(now);
        self.rate.current += 1;
        Some(id)
    }

    pub(crate) fn push(&mut self, block: Block<T>, now: Instant) {
        if block.remaining > 0 {
            (self.last_size, self.pushed_at, self.is_exhausted) = (block.size, now, false);
            self.blocks.push_back(block);
        }
    }

    /// Returns whether at least half of the last block has been used.
    pub(crate) fn is_low(&self) -> bool {
        match (self.blocks.len(), self.blocks.back()) {
            (0, _) | (_, None) => true,
            (1, Some(last)) => last.remaining * 2 <= last.size,
            _ => false,
        }
    }

    /// Returns the usage until now. Called when more ids are needed.
    pub(crate) fn usage(&mut self, now: Instant) -> Usage {
        self.rate.advance(now);
        let lasted = self.is_exhausted.then(|| now.since(self.pushed_at));
        Usage { per_second: self.rate.current.max(self.rate.previous), lasted }
    }

    /// Returns the number of ids of the last block.
    pub(crate) fn last_size(&self) -> u64 {
        self.last_size
    }

    /// Discards all blocks.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(next: i64, size: u64, condition: u8) -> Block<u8> {
        Block { next, remaining: size, size, valid_until: Instant::from_nanos(10), condition }
    }

    const NOW: Instant = Instant::from_nanos(5);

    #[test]
    fn ids_are_in_the_order_of_valid_blocks() {
        let mut queue = BlockQueue::default();
        for (next, size, condition) in [(1, 2, 0), (10, 2, 1), (20, 1, 0), (i64::MAX, 1, 0)] {
            queue.push(block(next, size, condition), NOW);
        }
        let is_valid = |condition: &u8| *condition == 0;
        let ids: Vec<_> = std::iter::from_fn(|| queue.take(NOW, is_valid)).collect();
        assert_eq!(ids, [1, 2, 20, i64::MAX]);
        queue.push(block(30, 4, 0), NOW);
        assert_eq!((queue.take(NOW, is_valid), queue.take(Instant::from_nanos(10), is_valid)), (Some(30), None));
        assert_eq!(queue.usage(NOW), Usage { per_second: 5, lasted: None });
    }

    #[test]
    fn the_queue_is_low_from_half_of_the_last_block() {
        let mut queue = BlockQueue::default();
        assert!(queue.is_low());
        queue.push(block(1, 5, 0), NOW);
        let mut low = Vec::new();
        while queue.pop(NOW).is_some() {
            low.push(queue.is_low());
        }
        assert_eq!(low, [false, false, true, true, true]);
        queue.push(block(1, 1, 0), NOW);
        queue.push(block(5, 5, 0), NOW);
        assert!(!queue.is_low());
        queue.clear();
        assert_eq!(queue.pop(NOW), None);
    }

    #[test]
    fn the_usage_is_that_of_the_last_second() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut queue = BlockQueue::default();
        let endless = |next, size| Block { valid_until: Instant::MAX, ..block(next, size, 0) };
        queue.push(endless(0, 40), at(0));
        (0..40).for_each(|n| assert_eq!(queue.take(at(n * 10), |_| true), Some(n as i64)));
        assert_eq!(queue.usage(at(400)), Usage { per_second: 40, lasted: Some(Duration::from_millis(400)) });
        assert_eq!(queue.usage(at(1100)).per_second, 40);
        queue.push(endless(40, 9), at(1200));
        (0..8).for_each(|_| assert!(queue.pop(at(1200)).is_some()));
        assert_eq!(queue.usage(at(1900)), Usage { per_second: 40, lasted: None });
        assert_eq!((queue.usage(at(2200)).per_second, queue.usage(at(3300)).per_second), (8, 0));
    }
}
