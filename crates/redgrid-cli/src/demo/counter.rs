//! The requests of a sale, handed out to its workers, and what became of them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::requests::Request;
use super::wire::{Errand, Tally};

/// The requests of a sale, handed out in order.
pub(crate) struct Counter {
    requests: Vec<Request>,
    desk: Mutex<Desk>,
    /// Something was given back, or nothing is left to do.
    pub(crate) moved: Notify,
}

#[derive(Default)]
struct Desk {
    /// The first request that was never handed out.
    next: usize,
    /// Given back by workers that died.
    returned: VecDeque<usize>,
    /// How many are with workers.
    out: usize,
    tally: Tally,
}

impl Counter {
    /// A counter with these requests before it.
    pub(crate) fn new(requests: Vec<Request>) -> Arc<Self> {
        Arc::new(Counter { requests, desk: Mutex::default(), moved: Notify::new() })
    }

    /// All requests, served or not.
    pub(crate) fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Looks at what became of the requests so far.
    pub(crate) fn so_far<T>(&self, look: impl FnOnce(&Tally) -> T) -> T {
        look(&self.desk().tally)
    }

    /// The next requests, at most `most`; what was given back comes first.
    pub(crate) fn take(&self, most: usize) -> Vec<Errand> {
        let mut desk = self.desk();
        let mut errands = Vec::new();
        while errands.len() < most {
            let (at, again) = match desk.returned.pop_front() {
                Some(at) => (at, true),
                None if desk.next < self.requests.len() => {
                    desk.next += 1;
                    (desk.next - 1, false)
                }
                None => break,
            };
            errands.push(Errand { number: at as u64, again, request: self.requests[at].clone() });
        }
        desk.out += errands.len();
        errands
    }

    /// What became of some requests.
    pub(crate) fn settle(&self, tally: Tally) {
        let mut desk = self.desk();
        desk.out = desk.out.saturating_sub(usize::try_from(tally.requests()).unwrap_or(usize::MAX));
        desk.tally.add(tally);
        drop(desk);
        if self.is_over() {
            self.moved.notify_waiters();
        }
    }

    /// A worker has died with these requests in hand: others may have them.
    pub(crate) fn give_back(&self, in_hand: &BTreeSet<u64>) {
        let mut desk = self.desk();
        desk.out = desk.out.saturating_sub(in_hand.len());
        desk.tally.killed += 1;
        desk.tally.handed_over += in_hand.len() as u64;
        desk.returned.extend(in_hand.iter().filter_map(|number| usize::try_from(*number).ok()));
        drop(desk);
        self.moved.notify_waiters();
    }

    /// Whether there is nothing to do any more, now or later.
    pub(crate) fn is_over(&self) -> bool {
        let desk = self.desk();
        desk.next == self.requests.len() && desk.returned.is_empty() && desk.out == 0
    }

    /// Nobody serves any more: what is left gets no answer.
    pub(crate) fn close(&self) {
        let left = self.take(usize::MAX).len() as u64;
        if left > 0 {
            let error = Some("all workers ended in the middle of the sale".into());
            self.settle(Tally { unserved: left, error, ..Tally::default() });
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(errands: &[Errand]) -> Vec<(u64, bool)> {
        errands.iter().map(|errand| (errand.number, errand.again)).collect()
    }

    #[test]
    fn what_is_given_back_is_handed_out_again_and_nothing_is_forgotten() {
        let request = |user: u64| Request { user: user.to_string(), product: "lamp".into(), quantity: 1 };
        let counter = Counter::new((0..5).map(request).collect());
        let first = counter.take(2);
        assert_eq!(numbers(&first), [(0, false), (1, false)]);
        counter.settle(Tally { sold_out: 1, ..Tally::default() });
        counter.give_back(&BTreeSet::from([1]));
        assert_eq!(numbers(&counter.take(2)), [(1, true), (2, false)]);
        assert!(!counter.is_over());
        counter.close();
        assert_eq!(counter.so_far(|tally| (tally.unserved, tally.killed, tally.handed_over)), (2, 1, 1));
        counter.settle(Tally { sold_out: 2, ..Tally::default() });
        assert!(counter.is_over());
        assert_eq!(counter.so_far(Tally::requests), 5);
    }
}
