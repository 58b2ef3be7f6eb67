//! State shared by all handles of one queue through one client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use redgrid_core::author::Batcher;
use redgrid_core::author::ClientExt;
use redgrid_core::{Client, ServerError};

use crate::batch::{Change, ChangeExecutor, ChangeReply, receipt_change};
use crate::keys::Keys;
use crate::message::Receipt;

/// One queue as used through one client.
pub struct WorkClient {
    client: Client,
    keys: Arc<Keys>,
    changes: Batcher<ChangeExecutor>,
    /// The number of the last answered request for messages. It is kept as long as the client. A
    /// lower number would make the server return messages to the queue that callers have received.
    last_answered: Arc<LastAnswered>,
}

/// The number of the last answered request for messages; see [`WorkClient`].
#[derive(Default)]
struct LastAnswered(AtomicU64);

/// Request numbers rise in a process, because a client's `WorkClient` may be dropped and
/// recreated.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl WorkClient {
    /// Returns the queue with these keys. All handles of a client share it.
    pub fn of(client: &Client, keys: Keys) -> Arc<WorkClient> {
        let key = keys.queue().clone();
        client.shared(&key, || {
            let keys = Arc::new(keys);
            WorkClient {
                client: client.clone(),
                changes: Batcher::new(ChangeExecutor::new(client, &keys)),
                last_answered: client.kept(&key, LastAnswered::default),
                keys,
            }
        })
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the keys of the queue.
    pub fn keys(&self) -> &Keys {
        &self.keys
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
    ///
    /// # Errors
    ///
    /// As [`Batcher::submit`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed.
    pub async fn change(&self, changes: Vec<Change>) -> Result<Vec<ChangeReply>, ServerError> {
        self.changes.submit(&self.client, changes).await.and_then(|replies| replies)
    }

    /// Executes one change.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`WorkClient::change`].
    pub async fn change_one(&self, change: Change) -> Result<ChangeReply, ServerError> {
        let missing = || ServerError::Decode { expected: "an answer", got: "none".into() };
        self.change(vec![change]).await?.pop().ok_or_else(missing)
    }

    /// Returns messages that no caller has seen to the queue, in the background. This delivery does
    /// not count as an attempt.
    pub(crate) fn return_untried(self: &Arc<Self>, receipts: Vec<Receipt>) {
        self.change_in_background("back", receipts, None);
    }

    /// Changes received messages in the background. The outcome is ignored: if the change fails,
    /// the messages are delivered again when their visibility ends.
    pub fn change_in_background(
        self: &Arc<Self>,
        operation: &'static str,
        receipts: Vec<Receipt>,
        more: Option<Bytes>,
    ) {
        if receipts.is_empty() || self.client.is_shut_down() {
            return;
        }
        let work_client = Arc::clone(self);
        self.client.run_in_background(async move {
            let changes = receipts.iter().map(|receipt| receipt_change(operation, receipt, more.clone())).collect();
            let _ = work_client.change(changes).await;
        });
    }
}

redgrid_core::debug_fields!(WorkClient, |it| key: it.keys.queue().escape_ascii().to_string());
