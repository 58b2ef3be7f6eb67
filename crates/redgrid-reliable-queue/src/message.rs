//! A message in the queue, and its id.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::object::{ObjectError, ObjectRef};

use crate::body::{self, Headers};

/// The id of a message. Ids rise in the order in which the server accepted the messages. They are
/// based on the server's clock in microseconds, so an id is not reused after a delete. As text an
/// id has 16 digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub(crate) u64);

impl MessageId {
    pub(crate) fn arg(self) -> Bytes {
        self.to_string().into()
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<MessageId> {
        std::str::from_utf8(bytes).ok()?.parse().ok()
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016}", self.0)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({self})")
    }
}

/// Text that is not a message id or a receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, got `{got}`")]
#[non_exhaustive]
pub struct InvalidId {
    /// The expected form.
    pub expected: &'static str,
    /// The first 64 characters of the text.
    pub got: String,
}

impl InvalidId {
    fn of(expected: &'static str, got: &str) -> Self {
        InvalidId { expected, got: got.chars().take(64).collect() }
    }
}

impl FromStr for MessageId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let is_one = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_digit());
        let id = is_one.then(|| text.parse().ok()).flatten();
        id.map(MessageId).ok_or_else(|| InvalidId::of("the 16 digits of a message's id", text))
    }
}

/// Proof that a message was delivered to its owner. It is unguessable, and useless once another
/// consumer has received the message. It can be sent as text to another process, which settles the
/// message with it: see [`ReliableQueue::ack`](crate::ReliableQueue::ack).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Receipt {
    pub(crate) id: MessageId,
    pub(crate) token: Bytes,
}

impl Receipt {
    /// Returns the id of the message.
    pub fn message_id(&self) -> MessageId {
        self.id
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.id, String::from_utf8_lossy(&self.token))
    }
}

// Debug output does not show the secret part.
redgrid_core::debug_fields!(Receipt, |it| id: it.id);

impl FromStr for Receipt {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId::of("a receipt: an id, `-` and 32 hexadecimal digits", text);
        let (id, token) = text.split_once('-').ok_or_else(invalid)?;
        let is_token = token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = id.parse().ok().filter(|_| is_token).ok_or_else(invalid)?;
        Ok(Receipt { id, token: token.to_owned().into() })
    }
}

/// The state of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageState {
    /// Ready to be received.
    Ready,
    /// Ready at a later time.
    Delayed {
        /// When the message becomes ready, by the server's clock.
        until: SystemTime,
    },
    /// Received, but not settled.
    InFlight {
        /// The end of its visibility, by the server's clock.
        until: SystemTime,
    },
    /// A dead letter: the message is not delivered any more.
    Dead {
        /// When it became a dead letter, by the server's clock.
        since: SystemTime,
        /// `attempts` if it reached the maximum number of attempts; otherwise the reason of its
        /// rejection.
        reason: String,
    },
}

/// A message: its metadata, and its value, which is decoded on request.
pub struct Message<T, C> {
    pub(crate) id: MessageId,
    pub(crate) attempts: u32,
    pub(crate) priority: u8,
    pub(crate) pushed_at: SystemTime,
    pub(crate) state: MessageState,
    pub(crate) object_ref: ObjectRef,
    pub(crate) bytes: Bytes,
    pub(crate) codec: C,
    pub(crate) values: PhantomData<fn() -> T>,
}

impl<T, C> Message<T, C> {
    /// Returns the id of the message.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Returns the number of deliveries of the message.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the priority of the message, 0 to 9; higher ones are received first.
    pub fn priority(&self) -> u8 {
        self.priority
    }

    /// Returns when the message was pushed, by the server's clock, in whole milliseconds.
    pub fn pushed_at(&self) -> SystemTime {
        self.pushed_at
    }

    /// Returns the state of the message at the time of the reply.
    pub fn state(&self) -> &MessageState {
        &self.state
    }

    /// Returns the headers of the message, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Decode`] if the stored bytes are not a message.
    pub fn headers(&self) -> Result<Vec<(String, String)>, ObjectError> {
        Ok(self.decode()?.0)
    }

    /// Decodes the value of the message.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Decode`] if the value is not a `T`, or the stored bytes are not a message.
    /// Only this message is affected, and it is unchanged.
    pub fn value(&self) -> Result<T, ObjectError>
    where
        C: Decode<T>,
    {
        let (_, value) = self.decode()?;
        self.object_ref.decoded(&self.codec, &value, || Some(format!("message {}", self.id)))
    }

    fn decode(&self) -> Result<(Headers, Bytes), ObjectError> {
        let (name, _) = self.object_ref.name_and_key()?;
        let at = || Some(format!("message {}", self.id));
        body::decode(&self.bytes)
            .ok_or_else(|| ObjectError::decode(name, at(), "the frame of reliable queues".into(), NoMessage))
    }
}

/// The error for bytes that are not a message.
#[derive(Debug, thiserror::Error)]
#[error("the headers before its value are not in the format of a reliable queue")]
struct NoMessage;

redgrid_core::debug_fields!([T, C] Message<T, C>, |it|
    id: it.id, attempts: it.attempts, priority: it.priority, pushed_at: it.pushed_at, state: it.state
);

/// Parses milliseconds since 1970, as the server writes them.
pub(crate) fn parse_millis(text: &[u8]) -> Option<SystemTime> {
    let millis: u64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_receipts_are_read_as_they_are_written() {
        let id = MessageId(42);
        assert_eq!((id.to_string().as_str(), id.to_string().parse()), ("0000000000000042", Ok(id)));
        let receipt = Receipt { id, token: "0123456789abcdef0123456789abcdef".into() };
        assert_eq!(receipt.to_string().parse(), Ok(receipt.clone()));
        assert!(!format!("{receipt:?}").contains("abcdef"), "a log does not reveal the receipt");
        for bad in ["", "42", "000000000000004x", "-", "0000000000000042-", "0000000000000042-0123"] {
            assert!(bad.parse::<Receipt>().is_err(), "{bad}");
        }
        assert!("42".parse::<MessageId>().is_err());
    }
}
