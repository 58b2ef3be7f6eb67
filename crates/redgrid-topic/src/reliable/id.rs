//! Message ids.

use std::fmt;
use std::str::FromStr;

use redgrid_core::ServerError;

/// The id that the server assigned to a message: its time in milliseconds since 1970, and a number.
///
/// Later messages have larger ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MessageId {
    millis: u64,
    number: u64,
}

impl MessageId {
    /// Returns the time of publication, in milliseconds since 1970, by the server's clock.
    pub fn millis(self) -> u64 {
        self.millis
    }

    pub(super) fn parse(text: &str) -> Result<MessageId, ServerError> {
        text.parse().map_err(|()| ServerError::Decode { expected: "an id of a stream", got: text.to_owned() })
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millis, self.number)
    }
}

impl FromStr for MessageId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (millis, number) = text.split_once('-').ok_or(())?;
        Ok(MessageId { millis: millis.parse().map_err(drop)?, number: number.parse().map_err(drop)? })
    }
}
