//! The items of a subscription.

use redgrid_core::object::ObjectError;
use redgrid_core::object::events::Gap;

/// A published message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Message<T> {
    /// The name of the topic to which it was published, without the client's namespace. Bytes that
    /// are not UTF-8 are replaced by `U+FFFD`.
    pub channel: String,
    /// The published value.
    pub value: T,
}

/// An item of a subscription that is not a message. The subscription continues after it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriptionError {
    /// Messages may have been missed before the next item: a connection was lost, a primary was
    /// replaced, a slot has moved, or the reader was slow.
    #[error("messages may have been missed: {0}")]
    Gap(Gap),
    /// A message cannot be decoded as the requested type: [`ObjectError::Decode`].
    #[error("cannot read a message: {0}")]
    Undecodable(#[source] ObjectError),
    /// No server was reachable in time. The request is retried.
    #[error("cannot receive messages, the request is retried: {0}")]
    Unavailable(#[source] ObjectError),
    /// The servers refuse a subscription that was active. It is retried; a gap reports when it is
    /// active again.
    #[error("cannot subscribe, the request is retried: {0}")]
    Refused(#[source] ObjectError),
}
