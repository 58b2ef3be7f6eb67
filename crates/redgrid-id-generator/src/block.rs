//! Ids that this client may give: consecutive numbers, and how long they are good for.

use std::collections::VecDeque;

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
    /// Of the last block that ended by itself: how much was used, and how much it had.
    pub(crate) wasted: Option<(u64, u64)>,
    last_size: u64,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store { blocks: VecDeque::new(), wasted: None, last_size: 0 }
    }
}

impl<T> Store<T> {
    /// The next id, of the first block that is still good.
    pub(crate) fn take(&mut self, now: Instant, mut stands: impl FnMut(&T) -> bool) -> Option<i64> {
        while let Some(first) = self.blocks.front() {
            if first.until <= now {
                self.wasted = Some((first.size - first.left, first.size));
            } else if stands(&first.while_) {
                return self.pop();
            }
            self.blocks.pop_front();
        }
        None
    }

    /// The next id, whatever became of its block: for those on whose behalf it was asked for.
    pub(crate) fn pop(&mut self) -> Option<i64> {
        let first = self.blocks.front_mut()?;
        let id = first.next;
        first.left -= 1;
        if first.left == 0 {
            self.blocks.pop_front();
        } else {
            first.next += 1;
        }
        Some(id)
    }

    pub(crate) fn put(&mut self, block: Block<T>) {
        if block.left > 0 {
            self.last_size = block.size;
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
            store.put(block(next, size, while_));
        }
        let stands = |while_: &u8| *while_ == 0;
        let had: Vec<_> = std::iter::from_fn(|| store.take(NOW, stands)).collect();
        assert_eq!(had, [1, 2, 20, i64::MAX]);
        store.put(block(30, 4, 0));
        assert_eq!((store.take(NOW, stands), store.take(Instant::from_nanos(10), stands)), (Some(30), None));
        assert_eq!(store.wasted, Some((1, 4)));
    }

    #[test]
    fn half_of_the_last_block_is_low() {
        let mut store = Store::default();
        assert!(store.is_low());
        store.put(block(1, 5, 0));
        let mut low = Vec::new();
        while store.pop().is_some() {
            low.push(store.is_low());
        }
        assert_eq!(low, [false, false, true, true, true]);
        store.put(block(1, 1, 0));
        store.put(block(5, 5, 0));
        assert!(!store.is_low());
        store.clear();
        assert_eq!(store.pop(), None);
    }
}
