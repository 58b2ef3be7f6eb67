//! What can be wrong with a queue, and what is true then.

use std::time::Duration;

use redgrid_core::object::ObjectError;
use redgrid_core::{InvalidName, Name};

use crate::message::MessageId;

/// Why a message was not pushed, given or settled.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The message is not this delivery's any more: it was given to somebody else since, it was settled, or it is over. Nothing is changed.
    #[error("message {id} of `{name}` is not this delivery's any more")]
    Stale {
        /// The queue.
        name: Name,
        /// The message.
        id: MessageId,
    },
    /// The message is larger than the queue takes, with its headers. It was not pushed.
    #[error("a message of {got} bytes is too large for `{name}`, which takes {limit}")]
    TooLarge {
        /// The queue.
        name: Name,
        /// How many bytes it takes.
        limit: u64,
        /// How many it has.
        got: u64,
    },
    /// The queue has as many messages as it takes, those that are given and the dead among them. It was not pushed.
    #[error("`{name}` is full: it takes {limit} messages")]
    Full {
        /// The queue.
        name: Name,
        /// How many it takes.
        limit: u64,
    },
    /// The time is over, and there was no message to be had. None is taken.
    #[error("`{name}` had no message for {waited:?}")]
    TimedOut {
        /// The queue.
        name: Name,
        /// How long.
        waited: Duration,
    },
    /// The client is shutting down. A message that was on its way comes back when its visibility is over.
    #[error("the client is shutting down; nothing was received from `{name}`")]
    ShuttingDown {
        /// The queue.
        name: Name,
    },
    /// As with every object.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl From<InvalidName> for QueueError {
    fn from(invalid: InvalidName) -> Self {
        QueueError::Object(invalid.into())
    }
}
