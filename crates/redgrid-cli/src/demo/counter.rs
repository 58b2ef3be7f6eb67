//! The requests of a sale, distributed to workers, and their outcomes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::requests::Request;
use super::wire::{Assignment, Tally};

/// The requests of a sale, distributed in order.
pub(crate) struct Counter {
    requests: Vec<Request>,
    state: Mutex<CounterState>,
    /// Notifies waiters when requests were returned, or no request is left.
    pub(crate) moved: Notify,
}

#[derive(Default)]
struct CounterState {
    /// Index of the first request that was never distributed.
    next: usize,
    /// Indices of requests of workers that died.
    returned: VecDeque<usize>,
    /// Number of requests in progress.
    out: usize,
    tally: Tally,
}

impl Counter {
    /// Creates a counter of these requests.
    pub(crate) fn new(requests: Vec<Request>) -> Arc<Self> {
        Arc::new(Counter { requests, state: Mutex::default(), moved: Notify::new() })
    }

    /// Returns all requests, whether served or not.
    pub(crate) fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Passes the outcomes recorded so far to `look`.
    pub(crate) fn so_far<T>(&self, look: impl FnOnce(&Tally) -> T) -> T {
        look(&self.state().tally)
    }

    /// Returns the next requests, at most `most`. Requests of workers that died come first.
    pub(crate) fn take(&self, most: usize) -> Vec<Assignment> {
        let mut state = self.state();
        let mut assignments = Vec::new();
        while assignments.len() < most {
            let (at, again) = match state.returned.pop_front() {
                Some(at) => (at, true),
                None if state.next < self.requests.len() => {
                    state.next += 1;
                    (state.next - 1, false)
                }
                None => break,
            };
            assignments.push(Assignment { number: at as u64, again, request: self.requests[at].clone() });
        }
        state.out += assignments.len();
        assignments
    }

    /// Records the outcomes of some requests.
    pub(crate) fn settle(&self, tally: Tally) {
        let mut state = self.state();
        state.out = state.out.saturating_sub(usize::try_from(tally.requests()).unwrap_or(usize::MAX));
        state.tally.add(tally);
        drop(state);
        if self.is_over() {
            self.moved.notify_waiters();
        }
    }

    /// Returns the requests of a worker that died, so that other workers receive them.
    pub(crate) fn give_back(&self, in_progress: &BTreeSet<u64>) {
        let mut state = self.state();
        state.out = state.out.saturating_sub(in_progress.len());
        state.tally.killed += 1;
        state.tally.handed_over += in_progress.len() as u64;
        state.returned.extend(in_progress.iter().filter_map(|number| usize::try_from(*number).ok()));
        drop(state);
        self.moved.notify_waiters();
    }

    /// Whether all requests are done.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.state();
        state.next == self.requests.len() && state.returned.is_empty() && state.out == 0
    }

    /// Ends the sale: remaining requests count as unserved.
    pub(crate) fn close(&self) {
        let left = self.take(usize::MAX).len() as u64;
        if left > 0 {
            let error = Some("all workers ended in the middle of the sale".into());
            self.settle(Tally { unserved: left, error, ..Tally::default() });
        }
    }

    fn state(&self) -> MutexGuard<'_, CounterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(assignments: &[Assignment]) -> Vec<(u64, bool)> {
        assignments.iter().map(|assignment| (assignment.number, assignment.again)).collect()
    }

    #[test]
    fn returned_requests_are_distributed_again() {
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
