//! Messages between a sale and its workers: one line of JSON each, over the worker's stdin and
//! stdout.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::requests::Request;
use crate::cli::LockKind;
use crate::named::Named;

/// A message from the sale to a worker. The end of the stream means that the sale has ended; the
/// worker then ends too.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToWorker {
    /// The job; the first message. The job is sent over stdin, because a URL may contain a
    /// password.
    Job(Job),
    /// Requests to serve.
    Serve(Vec<Assignment>),
    /// The last message: no further requests follow.
    End,
}

/// The job of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    /// How to reach the servers.
    pub(crate) servers: Named,
    /// Prefix of all keys.
    pub(crate) namespace: String,
    /// The lock around an order.
    pub(crate) lock: LockKind,
    /// Concurrent requests.
    pub(crate) tasks: u16,
    /// Lease of the library's lock.
    pub(crate) lease: Duration,
}

/// A request for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// The number of the request. A request is served once, however often it is distributed.
    #[serde(rename = "n")]
    pub(crate) number: u64,
    /// Whether the request was given to a worker that died.
    #[serde(rename = "a")]
    pub(crate) again: bool,
    /// The request.
    #[serde(flatten)]
    pub(crate) request: Request,
}

/// A message from a worker to the sale.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FromWorker {
    /// The worker is connected; requests may be sent. The client id identifies the worker as a lock
    /// holder.
    Ready(String),
    /// The outcomes of the requests with these numbers.
    Report(Tally, Vec<u64>),
    /// The worker cannot work, and ends.
    Failed(String),
}

/// The outcomes of some requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Orders, each as the microseconds from requesting the lock to its release.
    pub(crate) ordered: Vec<u64>,
    /// Units in these orders.
    pub(crate) units: u64,
    /// Refused: not enough stock.
    pub(crate) sold_out: u64,
    /// Refused: the user had already ordered the product.
    pub(crate) repeated: u64,
    /// Requests without an outcome: the lock was not acquired in time, or an error occurred.
    pub(crate) unserved: u64,
    /// Locks that were lost before their release.
    pub(crate) lost: u64,
    /// Incomplete orders of dead workers that were completed.
    pub(crate) finished: u64,
    /// Workers that died during the sale; set by the sale only.
    pub(crate) killed: u64,
    /// Unfinished requests of those workers, given to other workers; set by the sale only.
    pub(crate) handed_over: u64,
    /// The first error of an unserved request or a lost lock.
    pub(crate) error: Option<String>,
}

impl Tally {
    /// Returns the number of requests.
    pub(crate) fn requests(&self) -> u64 {
        self.ordered.len() as u64 + self.refused() + self.unserved
    }

    /// Returns the number of refused requests.
    pub(crate) fn refused(&self) -> u64 {
        self.sold_out + self.repeated
    }

    /// Adds other outcomes.
    pub(crate) fn add(&mut self, other: Tally) {
        self.ordered.extend(other.ordered);
        self.units += other.units;
        self.sold_out += other.sold_out;
        self.repeated += other.repeated;
        self.unserved += other.unserved;
        self.lost += other.lost;
        self.finished += other.finished;
        self.killed += other.killed;
        self.handed_over += other.handed_over;
        self.error = self.error.take().or(other.error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_and_comes_back_as_it_was() {
        let request = Request { user: "line\nbreak".into(), product: "lamp".into(), quantity: 2 };
        let assignment = Assignment { number: 7, again: true, request };
        let line = serde_json::to_string(&ToWorker::Serve(vec![assignment.clone()])).unwrap();
        assert!(!line.contains('\n'));
        assert!(matches!(serde_json::from_str(&line).unwrap(), ToWorker::Serve(back) if back == [assignment]));
    }
}
