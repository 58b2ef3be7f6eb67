//! Errors of event streams.

use super::super::ObjectError;
use crate::connection::NodeId;
use crate::error::ServerError;

/// Reason why events are not received, or may be incomplete.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The server is not configured to publish these events.
    ///
    /// Its setting `notify-keyspace-events` lacks letters.
    /// [`Listen::enable`](super::Listen::enable) adds them.
    #[error("`notify-keyspace-events` of {node} is \"{set}\" and lacks \"{missing}\"")]
    Off {
        /// The server.
        node: NodeId,
        /// The missing letters.
        missing: String,
        /// The present setting.
        set: String,
    },
    /// The setting of the server cannot be read: no permission, or no command CONFIG.
    ///
    /// [`Listen::unchecked`](super::Listen::unchecked) listens without this check.
    #[error("{node}: cannot read `notify-keyspace-events` (is CONFIG GET allowed?)")]
    CannotCheck {
        /// The server.
        node: NodeId,
        /// Its error.
        #[source]
        source: ServerError,
    },
    /// The setting of the server cannot be changed, or the server does not know a letter.
    ///
    /// Servers before Redis 7.0 do not know the `n` of [`Kind::Created`](super::Kind::Created).
    #[error("`notify-keyspace-events` of {node} is not made \"{wanted}\"")]
    CannotEnable {
        /// The server.
        node: NodeId,
        /// The new setting.
        wanted: String,
        /// Its error.
        #[source]
        source: ServerError,
    },
    /// The server denies the subscription to the channels of events.
    ///
    /// The user needs permission for `&__key*__:*`. It is tried again after a minute at the
    /// earliest.
    #[error("the channels of events are denied")]
    Denied,
    /// No server was reached or subscribed to in time.
    #[error("could not ask for events")]
    Unavailable {
        /// The obstacle.
        #[source]
        source: ServerError,
    },
    /// The client is shut down.
    #[error("the client is shut down; nothing was asked of events")]
    ShuttingDown,
    /// An argument is not allowed. No request was sent.
    #[error("invalid {option}: expected {expected}, got {got}")]
    InvalidArgument {
        /// The argument.
        option: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// The value that was given.
        got: String,
    },
    /// The object is not valid. No request was sent.
    #[error(transparent)]
    Object(#[from] ObjectError),
}
