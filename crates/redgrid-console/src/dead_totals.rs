//! The total of dead letters of each queue in the metrics. It never falls while the queue exists.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The highest totals of each queue that were read, by its name.
///
/// A replica that lags, or that was promoted without the last writes, reports smaller totals than
/// were read before. Prometheus takes a smaller value of a counter for a restart from 0, and would
/// count the whole total as new dead letters.
#[derive(Debug, Default)]
pub(crate) struct DeadTotals(Mutex<BTreeMap<String, Highest>>);

#[derive(Debug, Clone, Copy, Default)]
struct Highest {
    pushed: u64,
    died: u64,
}

impl DeadTotals {
    /// Records the totals of a queue: pushed messages and dead letters. Returns the total of dead
    /// letters for the metrics.
    ///
    /// If less than half as many messages were pushed as before, the queue was deleted, and its
    /// totals begin again.
    pub(crate) fn next(&self, queue: &str, pushed: u64, died: u64) -> u64 {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let highest = known.entry(queue.to_owned()).or_default();
        if pushed.saturating_mul(2) < highest.pushed {
            *highest = Highest::default();
        }
        *highest = Highest { pushed: highest.pushed.max(pushed), died: highest.died.max(died) };
        highest.died
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_a_queue_falls_only_if_the_queue_was_deleted() {
        let totals = DeadTotals::default();
        let mails = |pushed, died| totals.next("mails", pushed, died);
        assert_eq!([mails(5_000, 1_000), mails(4_990, 999), mails(5_001, 1_000)], [1_000; 3]);
        assert_eq!(mails(5_002, 1_001), 1_001);
        assert_eq!(totals.next("invoices", 5, 1), 1, "another queue");
        assert_eq!([mails(0, 0), mails(3, 1)], [0, 1], "it was deleted, and created again");
    }
}
