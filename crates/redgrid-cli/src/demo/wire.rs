//! What a sale and its workers tell each other: one line of JSON for each message, over the worker's stdin and stdout.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::requests::Request;
use crate::cli::LockKind;
use crate::server::Named;

/// From the sale to a worker. The end of the stream means that the sale is gone, and ends the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToWorker {
    /// What to do; the first message. It goes this way because a URL may hold a password.
    Job(Job),
    /// Requests to serve.
    Serve(Vec<Errand>),
    /// No more requests will come.
    End,
}

/// What a worker has to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The server.
    pub(crate) servers: Named,
    /// In front of all keys.
    pub(crate) namespace: String,
    /// What excludes the others.
    pub(crate) lock: LockKind,
    /// How many requests are served at the same time.
    pub(crate) tasks: u16,
    /// Lease of the library's lock.
    pub(crate) lease: Duration,
}

/// A request on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Errand {
    /// Its number: the same request is served once, however often it is handed out.
    #[serde(rename = "n")]
    pub(crate) number: u64,
    /// A worker had it before and died.
    #[serde(rename = "a")]
    pub(crate) again: bool,
    /// What is wanted.
    #[serde(flatten)]
    pub(crate) request: Request,
}

/// From a worker to the sale.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FromWorker {
    /// Connected; requests may come. The id of the client tells who holds a lock.
    Ready(String),
    /// What became of the requests with these numbers.
    Report(Tally, Vec<u64>),
    /// The worker can not work. It ends.
    Failed(String),
}

/// What became of some requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Orders, each as the microseconds from asking for the lock to its release.
    pub(crate) ordered: Vec<u64>,
    /// Units in these orders.
    pub(crate) units: u64,
    /// Refused: not enough stock.
    pub(crate) sold_out: u64,
    /// Refused: the user had ordered the product before.
    pub(crate) repeated: u64,
    /// Requests without an outcome: no lock in time, or an error on the way.
    pub(crate) unserved: u64,
    /// Locks that had ended before they were released.
    pub(crate) lost: u64,
    /// Orders of others, half done when they died, that were finished.
    pub(crate) finished: u64,
    /// Workers that died in the middle of the sale; only the sale itself knows.
    pub(crate) killed: u64,
    /// Requests that they had in hand, and that others were given; only the sale itself knows.
    pub(crate) handed_over: u64,
    /// The first of the errors behind what is unserved or lost.
    pub(crate) error: Option<String>,
}

impl Tally {
    /// How many requests this is about.
    pub(crate) fn requests(&self) -> u64 {
        self.ordered.len() as u64 + self.refused() + self.unserved
    }

    /// How many were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.sold_out + self.repeated
    }

    /// Adds what became of others.
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
        let errand = Errand { number: 7, again: true, request };
        let line = serde_json::to_string(&ToWorker::Serve(vec![errand.clone()])).unwrap();
        assert!(!line.contains('\n'));
        assert!(matches!(serde_json::from_str(&line).unwrap(), ToWorker::Serve(back) if back == [errand]));
    }
}
