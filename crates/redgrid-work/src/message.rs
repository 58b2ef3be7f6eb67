//! Ids, receipts and states of messages.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

/// The id of a message. Ids rise in the order in which the server accepted the messages. They are
/// based on the server's clock in microseconds, so an id is not reused after a delete. As text an
/// id has 16 digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub(crate) u64);

impl MessageId {
    /// Returns the id as an argument of a request.
    #[doc(hidden)]
    pub fn arg(self) -> Bytes {
        self.to_string().into()
    }

    /// Parses the id in a reply.
    #[doc(hidden)]
    pub fn read(bytes: &[u8]) -> Option<MessageId> {
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
/// message with it.
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

/// A group of messages. Each message is in one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageGroup {
    /// Ready to be received, in the order of their delivery.
    Ready,
    /// Pushed or returned with a delay, the first one to be ready first.
    Delayed,
    /// Received and not settled, the first end of a visibility first.
    InFlight,
    /// Dead letters, in the order of their pushes.
    Dead,
}

impl MessageGroup {
    /// All groups.
    pub const ALL: [MessageGroup; 4] =
        [MessageGroup::Ready, MessageGroup::Delayed, MessageGroup::InFlight, MessageGroup::Dead];

    /// Returns the name of the group, as in the keys of the queue.
    pub(crate) fn name(self) -> &'static str {
        match self {
            MessageGroup::Ready => "ready",
            MessageGroup::Delayed => "delayed",
            MessageGroup::InFlight => "flight",
            MessageGroup::Dead => "dead",
        }
    }
}

/// Parses milliseconds since 1970, as the server writes them.
pub fn parse_millis(text: &[u8]) -> Option<SystemTime> {
    let millis: u64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}

/// Parses the state of a message: its name, its end, and the reason of a dead letter.
pub fn parse_state(name: &[u8], until: &[u8], reason: &[u8]) -> Option<MessageState> {
    let until = parse_millis(until)?;
    Some(match name {
        b"ready" => MessageState::Ready,
        b"delayed" => MessageState::Delayed { until },
        b"flight" => MessageState::InFlight { until },
        b"dead" => MessageState::Dead { since: until, reason: String::from_utf8_lossy(reason).into_owned() },
        _ => return None,
    })
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
