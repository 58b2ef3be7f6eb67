//! The errors of requests for many keys.

use redgrid_core::object::ObjectError;
use redgrid_core::{Failure, NodeId, Operation, ServerError};

use crate::Key;

/// The error of a request for many keys.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The request failed for a reason that applies to all objects. Nothing has changed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The reply is unexpected.
    #[error("cannot process keys: {source}")]
    Unexpected {
        /// The expected and the received reply.
        #[source]
        source: ServerError,
    },
    /// The operation was applied to some names and failed for others. It was tried for all names.
    #[error("{done} objects were processed, {} names failed, the first: {}", .failed.len(), first(.failed))]
    Partial {
        /// The number of objects for which the operation has succeeded.
        done: u64,
        /// The other names, with the cause. If the cause is an unknown outcome, the operation may
        /// have succeeded for them, too.
        failed: Vec<NotDone>,
    },
    /// The scan ended with an error before all keys were processed.
    #[error("the scan of the keys failed after {done} objects: {source}")]
    Stopped {
        /// The number of objects for which the operation has succeeded.
        done: u64,
        /// The cause.
        #[source]
        source: Box<KeysError>,
    },
    /// Some nodes have executed the request, and others have not. It was sent to all.
    #[error("{} nodes executed the request, {} did not, the first: {}", .done.len(), .failed.len(), first_node(.failed))]
    SomeNodesFailed {
        /// The nodes that have executed it.
        done: Vec<NodeId>,
        /// The other nodes, with the cause. If the cause is an unknown outcome, they may have
        /// executed it, too.
        failed: Vec<(NodeId, ServerError)>,
    },
    /// Slots moved, or nodes were replaced, during each pass. The keys that were already returned
    /// exist; there may be more.
    #[error("keys moved between nodes during each of {passes} scans")]
    Moving {
        /// The number of passes.
        passes: u32,
    },
    /// An error of a single object.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// A name for which the operation failed, as far as known.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{key}` was not processed: {source}")]
#[non_exhaustive]
pub struct NotDone {
    /// The key of the object.
    pub key: Key,
    /// The cause.
    #[source]
    pub source: ServerError,
}

fn first(failed: &[NotDone]) -> String {
    failed.first().map(NotDone::to_string).unwrap_or_default()
}

fn first_node(failed: &[(NodeId, ServerError)]) -> String {
    failed.first().map(|(node, error)| format!("{node}: {error}")).unwrap_or_default()
}

impl KeysError {
    /// Converts the error of a read-only request.
    pub(crate) fn of_read(source: ServerError) -> Self {
        match source {
            ServerError::Decode { .. } => KeysError::Unexpected { source },
            source => Failure::of_read(KeysError::operation(), source).into(),
        }
    }

    pub(crate) fn invalid(option: &'static str, expected: impl Into<String>, got: impl Into<String>) -> Self {
        let (operation, expected, got) = (KeysError::operation(), expected.into().into(), got.into());
        Failure::InvalidArgument { operation, option, expected, got }.into()
    }

    /// Returns the operation that a failure names.
    pub(crate) fn operation() -> Operation {
        Operation::without_object("process keys")
    }
}

redgrid_core::from_invalid_name!(KeysError);
