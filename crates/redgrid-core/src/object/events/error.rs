//! Errors of event streams.

use redgrid_client::{NodeId, ServerError};

use super::super::ObjectError;
use crate::failure::Failure;

/// Reason why events are not received, or may be incomplete.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The server is not configured to publish these events.
    ///
    /// The server's setting `notify-keyspace-events` lacks letters.
    /// [`Listen::enable`](super::Listen::enable) adds the missing letters.
    #[error("`notify-keyspace-events` of {node} is \"{set}\" and lacks \"{missing}\"")]
    Off {
        /// The server.
        node: NodeId,
        /// The missing letters.
        missing: String,
        /// The current setting.
        set: String,
    },
    /// The server's setting `notify-keyspace-events` cannot be read: the user has no permission, or
    /// the server has no command CONFIG.
    ///
    /// [`Listen::unchecked`](super::Listen::unchecked) listens without this check.
    #[error("{node}: cannot read `notify-keyspace-events` (is CONFIG GET allowed?): {source}")]
    CannotCheck {
        /// The server.
        node: NodeId,
        /// The server's error.
        #[source]
        source: ServerError,
    },
    /// The server's setting `notify-keyspace-events` cannot be changed, or the server does not know
    /// one of the letters.
    ///
    /// For example, servers before Redis 7.0 do not know the letter `n`, which
    /// [`Kind::Created`](super::Kind::Created) needs.
    #[error("{node}: cannot set `notify-keyspace-events` to \"{wanted}\": {source}")]
    CannotEnable {
        /// The server.
        node: NodeId,
        /// The new setting.
        wanted: String,
        /// The server's error.
        #[source]
        source: ServerError,
    },
    /// The server does not allow this client to subscribe to the channels of events.
    ///
    /// The user needs permission for `&__key*__:*`. The client retries a denied subscription only
    /// after a minute.
    #[error("no permission for the channels of events (grant the user `&__key*__:*`)")]
    Denied,
    /// The subscription failed for a reason that operations of any object can have, such as an
    /// unreachable server.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The object cannot be used, for example because its name is invalid. No request was sent.
    #[error(transparent)]
    Object(#[from] ObjectError),
}
