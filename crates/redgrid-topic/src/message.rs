//! What comes of a subscription.

use redgrid_core::object::ObjectError;
use redgrid_core::object::events::Gap;

/// A message that was published.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message<T> {
    /// The name of the topic to which it was published, without the client's namespace. Bytes that are no text are `U+FFFD` in it.
    pub channel: String,
    /// What was published.
    pub value: T,
}

/// What a subscription tells in place of a message. It goes on behind each of these.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriptionError {
    /// Messages may have been missed before the next of these: a connection was lost, a primary replaced, a slot has moved, or the reader
    /// was slow.
    #[error("messages may have been missed: {0}")]
    Gap(Gap),
    /// This message can not be read as the type that was asked for: [`ObjectError::Decode`].
    #[error("a message can not be read")]
    Undecodable(#[source] ObjectError),
    /// No server could be asked in time. It is tried again.
    #[error("messages can not be asked for")]
    Unavailable(#[source] ObjectError),
    /// The servers refuse the subscription by now. It is tried again; a gap tells when it is in force.
    #[error("the subscription is refused")]
    Refused(#[source] ObjectError),
}
