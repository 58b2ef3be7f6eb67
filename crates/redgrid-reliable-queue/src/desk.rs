//! What all handles of one queue through one client share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use redgrid_core::author::{Batcher, ClientExt};
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{Client, Name, ServerError};

use crate::changes::{Change, Changes, Told, under};
use crate::error::QueueError;
use crate::keys::Keys;
use crate::message::Receipt;

/// One queue through one client.
pub(crate) struct Desk {
    pub(crate) client: Client,
    pub(crate) name: Name,
    pub(crate) keys: Arc<Keys>,
    changes: Batcher<Changes>,
    /// The number of the last request for messages that was answered. It is remembered as long as the client: what was given behind it
    /// would be given back.
    known: Arc<Known>,
}

/// See [`Desk`].
#[derive(Default)]
struct Known(AtomicU64);

/// Numbers of requests for messages rise in a process: a client's desk may be gone and come again.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl Desk {
    pub(crate) fn of(object_ref: &ObjectRef) -> Result<Arc<Desk>, ObjectError> {
        let (name, key) = object_ref.name_and_key()?;
        let client = object_ref.client();
        Ok(client.shared(key, || {
            let keys = Arc::new(Keys::new(client, key));
            Desk {
                client: client.clone(),
                name: name.clone(),
                changes: Batcher::new(Changes::new(client, &keys)),
                known: client.kept(key, Known::default),
                keys,
            }
        }))
    }

    /// The number of the next request for messages, and that of the last one that was answered.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        (NUMBERS.fetch_add(1, Ordering::Relaxed) + 1, self.known.0.load(Ordering::Acquire))
    }

    /// A request for messages is answered.
    pub(crate) fn knows(&self, number: u64) {
        self.known.0.fetch_max(number, Ordering::AcqRel);
    }

    /// Changes the queue, exactly once; what was told of each change.
    pub(crate) async fn change(&self, changes: Vec<Change>) -> Result<Vec<Told>, QueueError> {
        let told = self.changes.submit(&self.client, changes).await.and_then(|told| told);
        told.map_err(|source| ObjectError::of(&self.name, source).into())
    }

    /// The same of one change.
    pub(crate) async fn change_one(&self, change: Change) -> Result<Told, QueueError> {
        let missing = || ServerError::Decode { expected: "an answer", got: "none".into() };
        let told = self.change(vec![change]).await?.pop();
        told.ok_or_else(|| ObjectError::of(&self.name, missing()).into())
    }

    /// Changes a message that was given.
    pub(crate) async fn settle(
        &self,
        word: &'static str,
        receipt: &Receipt,
        more: Option<Bytes>,
    ) -> Result<Told, QueueError> {
        self.change_one(under(word, receipt, more)).await
    }

    /// Gives back what nobody has seen, in the background: it counts as not tried.
    pub(crate) fn give_back(self: &Arc<Self>, receipts: Vec<Receipt>) {
        self.later("back", receipts, None);
    }

    /// Changes messages that were given, in the background: nobody is told what becomes of it, and their visibility is beneath it.
    pub(crate) fn later(self: &Arc<Self>, word: &'static str, receipts: Vec<Receipt>, more: Option<Bytes>) {
        if receipts.is_empty() || self.client.is_shut_down() {
            return;
        }
        let desk = Arc::clone(self);
        self.client.run_in_background(async move {
            let changes = receipts.iter().map(|receipt| under(word, receipt, more.clone())).collect();
            let _ = desk.change(changes).await;
        });
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("name", &self.name).finish_non_exhaustive()
    }
}
