//! The errors of reliable queues. Each variant states what holds after the error.

use std::time::Duration;

use redgrid_core::object::ObjectError;
use redgrid_core::{InvalidName, Name, ServerError};
use redgrid_work::{ChangeReply, MessageId};

/// The error of a call that pushes, receives or settles messages.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The message no longer belongs to this delivery: it was delivered again, settled, or has
    /// expired. Nothing is changed.
    #[error("message {id} of `{name}` no longer belongs to this delivery")]
    Stale {
        /// The queue.
        name: Name,
        /// The message.
        id: MessageId,
    },
    /// The message with its headers is larger than the queue accepts. It was not pushed.
    #[error("cannot push a message of {got} bytes to `{name}`: its limit is {limit} bytes")]
    TooLarge {
        /// The queue.
        name: Name,
        /// The maximum, in bytes.
        limit: u64,
        /// The size of the message, in bytes.
        got: u64,
    },
    /// The queue is full. Delivered and dead messages count, too. The message was not pushed.
    #[error("cannot push to `{name}`: it is full, with {limit} messages")]
    Full {
        /// The queue.
        name: Name,
        /// The maximum number of messages.
        limit: u64,
    },
    /// The timeout passed, and no message was available. No message was received.
    #[error("`{name}` had no message within {waited:?}")]
    TimedOut {
        /// The queue.
        name: Name,
        /// How long the call waited.
        waited: Duration,
    },
    /// The client is shutting down. A message that was being delivered is delivered again when its
    /// visibility timeout ends.
    #[error("cannot receive from `{name}`: the client is shutting down")]
    ShuttingDown {
        /// The queue.
        name: Name,
    },
    /// An error that any object can have.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl From<InvalidName> for QueueError {
    fn from(invalid: InvalidName) -> Self {
        QueueError::Object(invalid.into())
    }
}

/// Converts the reply to a change of a received message.
pub(crate) fn settled(reply: &ChangeReply, name: &Name, id: MessageId) -> Result<(), QueueError> {
    match reply {
        ChangeReply::Done => Ok(()),
        ChangeReply::Gone | ChangeReply::Stale => Err(QueueError::Stale { name: name.clone(), id }),
        _ => Err(unexpected(name)),
    }
}

/// Converts the reply to a change of several messages to their number.
pub(crate) fn counted(reply: &ChangeReply, name: &Name) -> Result<u64, QueueError> {
    match reply {
        ChangeReply::Count(count) => Ok(*count),
        _ => Err(unexpected(name)),
    }
}

/// Returns the error for a reply that belongs to another change.
pub(crate) fn unexpected(name: &Name) -> QueueError {
    let source = ServerError::Decode { expected: "the status of a change", got: "that of another one".to_owned() };
    ObjectError::of(name, source).into()
}
