//! What a sale and its workers tell each other: one line of JSON for each message, over the worker's stdin and stdout.

use serde::{Deserialize, Serialize};

use super::requests::Request;
use crate::cli::LockKind;

/// From the sale to a worker. The end of the stream means that the sale is gone, and ends the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ToWorker {
    /// What to do; the first message. It goes this way because a URL may hold a password.
    Job(Job),
    /// Requests to serve.
    Serve(Vec<Request>),
    /// No more requests will come.
    End,
}

/// What a worker has to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The server.
    pub(crate) url: String,
    /// In front of all keys.
    pub(crate) namespace: String,
    /// What excludes the others.
    pub(crate) lock: LockKind,
    /// How many requests are served at the same time.
    pub(crate) tasks: u16,
}

/// From a worker to the sale.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FromWorker {
    /// Connected; requests may come.
    Ready,
    /// What became of some requests.
    Report(Tally),
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
    /// The first of the errors behind the two above.
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
        self.error = self.error.take().or(other.error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_and_comes_back_as_it_was() {
        let request = Request { user: "line\nbreak".into(), product: "lamp".into(), quantity: 2 };
        let line = serde_json::to_string(&ToWorker::Serve(vec![request.clone()])).unwrap();
        assert!(!line.contains('\n'));
        assert!(matches!(serde_json::from_str(&line).unwrap(), ToWorker::Serve(back) if back == [request]));
    }
}
