//! A queue through one client, with its name for errors.

use std::sync::Arc;

use bytes::Bytes;
use redgrid_core::name::companion;
use redgrid_core::object::layouts::reliable_queue;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{Client, Name, ServerError};
use redgrid_work::{Change, ChangeReply, Keys, Receipt, WorkClient, receipt_change};

use crate::error::QueueError;

/// One queue as used through one client.
pub(crate) struct QueueClient {
    pub(crate) name: Name,
    /// Shared by all handles of the client.
    pub(crate) work_client: Arc<WorkClient>,
}

impl QueueClient {
    pub(crate) fn of(object_ref: &ObjectRef) -> Result<Arc<QueueClient>, ObjectError> {
        let (name, key) = object_ref.name_and_key()?;
        let client = object_ref.client();
        let keys = Keys::new(client, reliable_queue(key), companion("redgrid_reliable_queue_channel", key));
        Ok(Arc::new(QueueClient { name: name.clone(), work_client: WorkClient::of(client, keys) }))
    }

    pub(crate) fn client(&self) -> &Client {
        self.work_client.client()
    }

    pub(crate) fn keys(&self) -> &Keys {
        self.work_client.keys()
    }

    /// Changes the queue exactly once, and returns the reply to each change.
    pub(crate) async fn change(&self, changes: Vec<Change>) -> Result<Vec<ChangeReply>, QueueError> {
        self.work_client.change(changes).await.map_err(|source| self.error(source))
    }

    /// Executes one change.
    pub(crate) async fn change_one(&self, change: Change) -> Result<ChangeReply, QueueError> {
        self.work_client.change_one(change).await.map_err(|source| self.error(source))
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

    fn error(&self, source: ServerError) -> QueueError {
        ObjectError::of(&self.name, source).into()
    }
}

redgrid_core::debug_fields!(QueueClient, |it| name: it.name);
