//! The errors of requests for many keys.

use redgrid_core::name::InvalidName;
use redgrid_core::object::ObjectError;
use redgrid_core::{NodeId, ServerError};

use crate::Key;

/// The error of a request for many keys.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// No server could be reached in time. Nothing has changed.
    #[error("no server could be asked about keys")]
    Unavailable {
        /// The cause.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing has changed.
    #[error("not authorized")]
    Unauthorized {
        /// The server's message, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. Nothing has changed.
    #[error("the client is shut down")]
    ShuttingDown,
    /// The server refused the request. Nothing has changed.
    #[error("the server refused a request about keys")]
    Refused {
        /// The server's message.
        #[source]
        source: ServerError,
    },
    /// The reply is not what was expected.
    #[error("an answer about keys is not what was expected")]
    Unexpected {
        /// The expected and the received reply.
        #[source]
        source: ServerError,
    },
    /// The operation was applied to some names and failed for others. All were tried.
    #[error("{done} objects were dealt with, {} names were not, `{}` among them", .failed.len(), first(.failed))]
    Partial {
        /// The number of objects that are known to be done.
        done: u64,
        /// The other names, with the cause. If the cause is an unknown outcome, they may be done,
        /// too.
        failed: Vec<NotDone>,
    },
    /// The scan ended with an error before all keys were processed.
    #[error("{done} objects were dealt with, and then the scan of the keys failed")]
    Stopped {
        /// The number of objects that are known to be done.
        done: u64,
        /// The cause.
        #[source]
        source: Box<KeysError>,
    },
    /// Some nodes have executed the request, and others have not. It was sent to all.
    #[error("{} nodes have done it, {} have not, {} among them", .done.len(), .failed.len(), .failed.first().map_or("none", |(node, _)| &*node.0))]
    SomeNodesFailed {
        /// The nodes that have executed it.
        done: Vec<NodeId>,
        /// The other nodes, with the cause. If the cause is an unknown outcome, they may have
        /// executed it, too.
        failed: Vec<(NodeId, ServerError)>,
    },
    /// Slots moved, or nodes were replaced, during each pass. The keys that were returned so far
    /// exist, and there may be more.
    #[error("keys were moving between nodes each time they were looked for, {passes} times")]
    Moving {
        /// The number of passes.
        passes: u32,
    },
    /// The name is invalid. Nothing was sent.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// An argument is invalid. Nothing was sent.
    #[error("invalid {option}: expected {expected}, got {got}")]
    InvalidArgument {
        /// The argument.
        option: &'static str,
        /// The allowed values.
        expected: String,
        /// The given value.
        got: String,
    },
    /// An error of a single object.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// A name for which the operation failed, as far as known.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{key}` was not dealt with")]
#[non_exhaustive]
pub struct NotDone {
    /// The key of the object.
    pub key: Key,
    /// The cause.
    #[source]
    pub source: ServerError,
}

fn first(failed: &[NotDone]) -> String {
    failed.first().map(|not_done| not_done.key.to_string()).unwrap_or_default()
}

impl KeysError {
    /// Converts the error of a read-only request.
    pub(crate) fn of_read(source: ServerError) -> Self {
        match source {
            ServerError::Refused { .. } => KeysError::Refused { source },
            ServerError::Decode { .. } => KeysError::Unexpected { source },
            ServerError::Unauthorized { .. } => KeysError::Unauthorized { source },
            ServerError::ShuttingDown => KeysError::ShuttingDown,
            _ => KeysError::Unavailable { source },
        }
    }

    pub(crate) fn invalid(option: &'static str, expected: impl Into<String>, got: impl Into<String>) -> Self {
        KeysError::InvalidArgument { option, expected: expected.into(), got: got.into() }
    }
}
