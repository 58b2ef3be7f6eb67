//! Leaving a queue: who waits no more stands in nobody's way, and leaving costs the same however many wait.

use std::collections::VecDeque;

/// One of those in a queue has left it. Whoever reads the queue passes over those who have; they are taken out at its ends at once, and
/// all of them when they may be half of it. So a queue in which nobody waits is empty, and a hundred thousand that leave together, in any
/// order, are no hundred thousand walks along it.
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

    /// How many looks at those in a queue it takes that all of so many leave, in an order.
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
        // In the order of arrival, from behind, from both ends to the middle and back, and all over the queue.
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
