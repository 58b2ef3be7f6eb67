//! Lazy removal from a queue. A cancelled entry is in no other entry's way, and a cancellation
//! costs the same however many entries wait.

use std::collections::VecDeque;

/// Records that one entry of a queue was cancelled.
///
/// Readers skip cancelled entries. Those at both ends are removed at once, and all of them when
/// they may be half of the queue. So a queue without waiters is empty. Cancelling n entries in any
/// order costs O(n), not O(n²), also for a hundred thousand.
pub(super) fn mark_cancelled<T>(queue: &mut VecDeque<T>, left: &mut usize, has_left: impl Fn(&T) -> bool) {
    *left += 1;
    while queue.front().is_some_and(&has_left) {
        queue.pop_front();
    }
    while queue.back().is_some_and(&has_left) {
        queue.pop_back();
    }
    if *left * 2 > queue.len() {
        queue.retain(|entry| !has_left(entry));
        *left = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counts the checks of queue entries when `count` entries are cancelled in the given order.
    fn looks(count: usize, order: impl Fn(usize) -> usize) -> usize {
        let all: Vec<Cell<bool>> = vec![Cell::new(false); count];
        let (mut queue, mut left): (VecDeque<usize>, usize) = ((0..count).collect(), 0);
        let looks = Cell::new(0);
        for number in 0..count {
            all[order(number)].set(true);
            mark_cancelled(&mut queue, &mut left, |at| {
                looks.set(looks.get() + 1);
                all[*at].get()
            });
            let waiting = count - number - 1;
            assert!(queue.len() >= waiting && queue.len() <= 2 * waiting, "{waiting} wait, {} stand", queue.len());
        }
        looks.get()
    }

    #[test]
    fn leaving_costs_the_same_however_many_wait() {
        const MANY: usize = 100_000;
        // In the order of arrival, in reverse, from both ends to the middle, and scattered.
        type Order = fn(usize) -> usize;
        let orders: [(&str, Order); 4] = [
            ("first come", |number| number),
            ("last come", |number| MANY - 1 - number),
            ("by turns", |number| if number % 2 == 0 { number / 2 } else { MANY - 1 - number / 2 }),
            ("anyhow", |number| number * 7919 % MANY),
        ];
        for (name, order) in orders {
            let looks = looks(MANY, order);
            assert!(looks <= 12 * MANY, "{name}: {looks} looks");
        }
    }
}
