//! Why events are not told, or not certain to be.

use super::super::ObjectError;
use crate::connection::NodeId;
use crate::error::ServerError;

/// Why nothing is listened to, or why what is told may not be all.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// A server does not tell what is asked for: its setting `notify-keyspace-events` lacks letters. [`Listen::enable`](super::Listen::enable)
    /// adds them.
    #[error("`notify-keyspace-events` of {node} is \"{set}\" and lacks \"{missing}\"")]
    Off {
        /// Which server.
        node: NodeId,
        /// The letters that it lacks.
        missing: String,
        /// Those that it has.
        set: String,
    },
    /// A server does not let its setting be read: no permission, or no command CONFIG. [`Listen::unchecked`](super::Listen::unchecked)
    /// listens without.
    #[error("{node} does not tell whether it tells of events")]
    CannotCheck {
        /// Which server.
        node: NodeId,
        /// Its words.
        #[source]
        source: ServerError,
    },
    /// A server does not let its setting be changed, or does not know a letter, as those before Redis 7.0 the `n` of
    /// [`Kind::Created`](super::Kind::Created).
    #[error("`notify-keyspace-events` of {node} is not made \"{wanted}\"")]
    CannotEnable {
        /// Which server.
        node: NodeId,
        /// What it was to be.
        wanted: String,
        /// Its words.
        #[source]
        source: ServerError,
    },
    /// A server does not let the channels of events be subscribed: the user needs `&__key*__:*`. It is tried again after a minute at
    /// the earliest.
    #[error("the channels of events are denied")]
    Denied,
    /// No server could be asked or subscribed at in time.
    #[error("could not ask for events")]
    Unavailable {
        /// What stands in the way.
        #[source]
        source: ServerError,
    },
    /// The client is shut down.
    #[error("the client is shut down; nothing was asked of events")]
    ShuttingDown,
    /// An argument can not be. Nothing was asked.
    #[error("invalid {option}: expected {expected}, got {got}")]
    InvalidArgument {
        /// What was given.
        option: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// What it was.
        got: String,
    },
    /// The object can be none. Nothing was asked.
    #[error(transparent)]
    Object(#[from] ObjectError),
}
