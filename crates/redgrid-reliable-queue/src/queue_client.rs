//! State shared by all handles of one queue through one client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use redgrid_core::author::Batcher;
use redgrid_core::author::ClientExt;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{Client, Name, ServerError};

use crate::batch::{Change, ChangeExecutor, ChangeReply, receipt_change};
use crate::error::QueueError;
use crate::keys::Keys;
use crate::message::Receipt;

/// One queue as used through one client.
pub(crate) struct QueueClient {
    pub(crate) client: Client,
    pub(crate) name: Name,
    pub(crate) keys: Arc<Keys>,
    changes: Batcher<ChangeExecutor>,
    /// The number of the last answered request for messages. It is kept as long as the client. A
    /// lower number would make the server return messages to the queue that callers have received.
    last_answered: Arc<LastAnswered>,
}

/// The number of the last answered request for messages; see [`QueueClient`].
#[derive(Default)]
struct LastAnswered(AtomicU64);

/// Request numbers rise in a process, because a client's `QueueClient` may be dropped and
/// recreated.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl QueueClient {
    pub(crate) fn of(place: &ObjectRef) -> Result<Arc<QueueClient>, ObjectError> {
        let (name, key) = place.name_and_key()?;
        let client = place.client();
        Ok(client.shared(key, || {
            let keys = Arc::new(Keys::new(client, key));
            QueueClient {
                client: client.clone(),
                name: name.clone(),
                changes: Batcher::new(ChangeExecutor::new(client, &keys)),
                last_answered: client.kept(key, LastAnswered::default),
                keys,
            }
        }))
    }

    /// Returns the number of the next request for messages, and that of the last answered one.
    pub(crate) fn request_numbers(&self) -> (u64, u64) {
        (NUMBERS.fetch_add(1, Ordering::Relaxed) + 1, self.last_answered.0.load(Ordering::Acquire))
    }

    /// Records that a request for messages was answered.
    pub(crate) fn request_answered(&self, number: u64) {
        self.last_answered.0.fetch_max(number, Ordering::AcqRel);
    }

    /// Changes the queue exactly once, and returns the reply to each change.
    pub(crate) async fn change(&self, changes: Vec<Change>) -> Result<Vec<ChangeReply>, QueueError> {
        let replies = self.changes.submit(&self.client, changes).await.and_then(|replies| replies);
        replies.map_err(|source| ObjectError::of(&self.name, source).into())
    }

    /// Executes one change.
    pub(crate) async fn change_one(&self, change: Change) -> Result<ChangeReply, QueueError> {
        let missing = || ServerError::Decode { expected: "an answer", got: "none".into() };
        let reply = self.change(vec![change]).await?.pop();
        reply.ok_or_else(|| ObjectError::of(&self.name, missing()).into())
    }

    /// Changes a received message.
    pub(crate) async fn settle(
        &self,
        operation: &'static str,
        receipt: &Receipt,
        more: Option<Bytes>,
    ) -> Result<ChangeReply, QueueError> {
        self.change_one(receipt_change(operation, receipt, more)).await
    }

    /// Returns messages that no caller has seen to the queue, in the background. This delivery does
    /// not count as an attempt.
    pub(crate) fn return_untried(self: &Arc<Self>, receipts: Vec<Receipt>) {
        self.change_in_background("back", receipts, None);
    }

    /// Changes received messages in the background. The outcome is ignored: if the change fails,
    /// the messages are delivered again when their visibility ends.
    pub(crate) fn change_in_background(
        self: &Arc<Self>,
        operation: &'static str,
        receipts: Vec<Receipt>,
        more: Option<Bytes>,
    ) {
        if receipts.is_empty() || self.client.is_shut_down() {
            return;
        }
        let queue_client = Arc::clone(self);
        self.client.run_in_background(async move {
            let changes = receipts.iter().map(|receipt| receipt_change(operation, receipt, more.clone())).collect();
            let _ = queue_client.change(changes).await;
        });
    }
}

redgrid_core::debug_fields!(QueueClient, |it| name: it.name);
