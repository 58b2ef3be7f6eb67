//! Metrics of a queue: what this process does with its messages.

use std::time::SystemTime;

use redgrid_core::author::counts::{QueueEvent, queue_family, queue_messages, queue_waited};
use redgrid_work::{ChangeReply, Receipt, ReceivedMessage};

use crate::error::{self, QueueError};
use crate::queue::ReliableQueue;

impl<T, C> ReliableQueue<T, C> {
    /// Returns the same queue with the label `family` in metrics.
    ///
    /// It groups names that belong together. Give a constant: each value is a time series of its
    /// own. The default is the empty text.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # fn demo(client: &redgrid_reliable_queue::Client, region: &str) {
    /// use redgrid_reliable_queue::ReliableQueue;
    ///
    /// let name = format!("mails:{region}");
    /// let mails: ReliableQueue<String> = ReliableQueue::new(client, name).family("mails");
    /// # }
    /// ```
    #[must_use]
    pub fn family(mut self, family: &'static str) -> Self {
        queue_family(family);
        self.family = family;
        self
    }

    /// Converts the reply to a change of a received message, and counts it.
    pub(crate) fn settled(&self, event: QueueEvent, receipt: &Receipt, reply: &ChangeReply) -> Result<(), QueueError> {
        let result = error::settled(reply, &self.queue_client()?.name, receipt.message_id());
        settled(self.family, event, &result);
        result
    }
}

/// Counts a push by its reply.
pub(crate) fn pushed(family: &'static str, reply: &ChangeReply) {
    let event = match reply {
        ChangeReply::New(_) => QueueEvent::Pushed,
        ChangeReply::Duplicate(_) => QueueEvent::Duplicate,
        ChangeReply::TooLarge(_) | ChangeReply::Full(_) | ChangeReply::NoMemory(_) => QueueEvent::Refused,
        _ => return,
    };
    queue_messages(family, event, 1);
}

/// Counts messages that a caller has received.
pub(crate) fn received(family: &'static str, messages: &[ReceivedMessage]) {
    let first = messages.iter().filter(|message| message.attempt <= 1);
    let (now, mut firsts) = (SystemTime::now(), 0);
    for message in first {
        firsts += 1;
        queue_waited(family, now.duration_since(message.pushed_at).unwrap_or_default());
    }
    queue_messages(family, QueueEvent::Received, firsts);
    queue_messages(family, QueueEvent::Redelivered, messages.len() as u64 - firsts);
}

/// Counts a message that was settled, or that could not be, because it was stale.
pub(crate) fn settled<T>(family: &'static str, event: QueueEvent, result: &Result<T, QueueError>) {
    match result {
        Ok(_) => queue_messages(family, event, 1),
        Err(QueueError::Stale { .. }) => queue_messages(family, QueueEvent::Stale, 1),
        Err(_) => {}
    }
}
