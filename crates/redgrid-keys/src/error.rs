//! What can go wrong with many keys, and what is true then.

use redgrid_core::name::InvalidName;
use redgrid_core::object::ObjectError;
use redgrid_core::{NodeId, ServerError};

use crate::Key;

/// Why keys were not found, counted or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// No server could be asked in time. Nothing is changed.
    #[error("no server could be asked about keys")]
    Unavailable {
        /// What stands in the way.
        #[source]
        source: ServerError,
    },
    /// The server does not accept this client's password, user or certificate, or its own
    /// certificate is refused. Nothing is changed.
    #[error("not authorized")]
    Unauthorized {
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client is shut down. Nothing is changed.
    #[error("the client is shut down")]
    ShuttingDown,
    /// The server refused. Nothing is changed.
    #[error("the server refused a request about keys")]
    Refused {
        /// The server's words.
        #[source]
        source: ServerError,
    },
    /// The answer is not what was expected.
    #[error("an answer about keys is not what was expected")]
    Unexpected {
        /// What was expected, and what came.
        #[source]
        source: ServerError,
    },
    /// Some names were dealt with, and some were not; all were tried.
    #[error("{done} objects were dealt with, {} names were not, `{}` among them", .failed.len(), first(.failed))]
    Partial {
        /// Of how many objects it is known that they are done.
        done: u64,
        /// The names of which it is not, and why: where the reason says that the outcome is unknown, they may be.
        failed: Vec<NotDone>,
    },
    /// It came to an end before all keys were gone through.
    #[error("{done} objects were dealt with, and then no more keys were told")]
    Stopped {
        /// Of how many it is known that they are done.
        done: u64,
        /// Why.
        #[source]
        source: Box<KeysError>,
    },
    /// Some nodes have done it, and some have not; all were asked.
    #[error("{} nodes have done it, {} have not, {} among them", .done.len(), .failed.len(), .failed.first().map_or("none", |(node, _)| &*node.0))]
    NotEverywhere {
        /// Those that have.
        done: Vec<NodeId>,
        /// Those of which it is not known, and why: where the reason says that the outcome is unknown, they may have.
        failed: Vec<(NodeId, ServerError)>,
    },
    /// Slots moved, or nodes were replaced, each time it was looked: what was told so far is there, and more may be.
    #[error("keys were moving between nodes each time they were looked for, {passes} times")]
    Moving {
        /// How often it was tried.
        passes: u32,
    },
    /// The name can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// An argument can not be. Nothing was asked.
    #[error("invalid {option}: expected {expected}, got {got}")]
    InvalidArgument {
        /// What was given.
        option: &'static str,
        /// What is allowed.
        expected: String,
        /// What it was.
        got: String,
    },
    /// About a single object.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// A name that was not dealt with, as far as is known.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{key}` was not dealt with")]
#[non_exhaustive]
pub struct NotDone {
    /// Its name.
    pub key: Key,
    /// Why.
    #[source]
    pub source: ServerError,
}

fn first(failed: &[NotDone]) -> String {
    failed.first().map(|one| one.key.to_string()).unwrap_or_default()
}

impl KeysError {
    /// What became of a request that changes nothing.
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
