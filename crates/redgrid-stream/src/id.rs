//! Entry ids.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::str::FromStr;

use bytes::Bytes;
use redgrid_core::{FromReply, Reply, ServerError};

/// The id of an entry: the time at which it was added, by the server's clock, and a number within
/// that millisecond.
///
/// The ids of a stream are strictly increasing. The text form is that of the server,
/// `1700000000000-0`.
///
/// ```
/// use redgrid_stream::EntryId;
///
/// let id: EntryId = "1700000000000-7".parse().expect("an id");
/// assert_eq!((id.ms, id.seq), (1_700_000_000_000, 7));
/// assert!(id < EntryId::new(1_700_000_000_001, 0));
/// assert_eq!(id.to_string(), "1700000000000-7");
/// ```
#[doc(alias = "StreamMessageId")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
// Not `#[non_exhaustive]`: an id consists of these two numbers, and users construct ids from them.
pub struct EntryId {
    /// Milliseconds since 1970, unless the ids are chosen by the caller.
    pub ms: u64,
    /// The number within the millisecond, from 0.
    pub seq: u64,
}

/// The error of parsing text that is not an entry id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid entry id: expected milliseconds and a number as in `1700000000000-0`, got `{got}`")]
#[non_exhaustive]
pub struct InvalidEntryId {
    /// The first 50 characters of the text.
    pub got: String,
}

impl EntryId {
    /// The smallest id. It is smaller than that of any entry.
    pub const MIN: EntryId = EntryId::new(0, 0);

    /// The largest possible id.
    pub const MAX: EntryId = EntryId::new(u64::MAX, u64::MAX);

    /// Returns the id with these parts.
    pub const fn new(ms: u64, seq: u64) -> EntryId {
        EntryId { ms, seq }
    }

    /// Returns the next larger id; `None` for [`EntryId::MAX`].
    pub const fn next(self) -> Option<EntryId> {
        match (self.seq.checked_add(1), self.ms.checked_add(1)) {
            (Some(seq), _) => Some(EntryId::new(self.ms, seq)),
            (None, Some(ms)) => Some(EntryId::new(ms, 0)),
            (None, None) => None,
        }
    }

    /// Returns the next smaller id; `None` for [`EntryId::MIN`].
    pub const fn previous(self) -> Option<EntryId> {
        match (self.seq.checked_sub(1), self.ms.checked_sub(1)) {
            (Some(seq), _) => Some(EntryId::new(self.ms, seq)),
            (None, Some(ms)) => Some(EntryId::new(ms, u64::MAX)),
            (None, None) => None,
        }
    }

    pub(crate) fn to_bytes(self) -> Bytes {
        self.to_string().into()
    }
}

impl From<(u64, u64)> for EntryId {
    fn from((ms, seq): (u64, u64)) -> Self {
        EntryId::new(ms, seq)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

impl FromStr for EntryId {
    type Err = InvalidEntryId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The parts must be digits only: `u64::from_str` would also accept a sign.
        let number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?;
        let parts = text.split_once('-');
        let id = parts.and_then(|(ms, seq)| Some(EntryId::new(number(ms)?, number(seq)?)));
        id.ok_or_else(|| InvalidEntryId { got: text.chars().take(50).collect() })
    }
}

impl FromReply for EntryId {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let text = String::from_reply(reply)?;
        text.parse().map_err(|InvalidEntryId { got }| ServerError::Decode { expected: "the id of an entry", got })
    }
}

/// Returns the first and the last id of a range; `None` if the range is empty.
pub(crate) fn range_ends(range: &impl RangeBounds<EntryId>) -> Option<(EntryId, EntryId)> {
    let first = match range.start_bound() {
        Bound::Included(id) => *id,
        Bound::Excluded(id) => id.next()?,
        Bound::Unbounded => EntryId::MIN,
    };
    let last = match range.end_bound() {
        Bound::Included(id) => *id,
        Bound::Excluded(id) => id.previous()?,
        Bound::Unbounded => EntryId::MAX,
    };
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_parses_from_its_text_form() {
        for id in [EntryId::MIN, EntryId::MAX, EntryId::new(1, 2), (7, u64::MAX).into()] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for bad in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-2-3",
            "+1-2",
            "1-+2",
            " 1-2",
            "1-2 ",
            "$",
            "*",
            "18446744073709551616-0",
            "é-1",
        ] {
            let error = bad.parse::<EntryId>().unwrap_err();
            assert_eq!(error.got, bad, "{error}");
        }
        assert_eq!("x".repeat(99).parse::<EntryId>().unwrap_err().got.len(), 50);
    }

    #[test]
    fn next_and_previous_are_inverse() {
        assert_eq!((EntryId::MIN.previous(), EntryId::MAX.next()), (None, None));
        for id in [EntryId::new(0, 1), EntryId::new(3, 0), EntryId::new(3, u64::MAX)] {
            assert_eq!(id.next().and_then(EntryId::previous), Some(id));
            assert_eq!(id.previous().and_then(EntryId::next), Some(id));
        }
        assert!(EntryId::new(2, u64::MAX) < EntryId::new(3, 0));
    }

    #[test]
    fn range_ends_are_inclusive() {
        let (one, two) = (EntryId::new(1, 0), EntryId::new(2, 0));
        assert_eq!(range_ends(&(..)), Some((EntryId::MIN, EntryId::MAX)));
        assert_eq!(range_ends(&(one..two)), Some((one, EntryId::new(1, u64::MAX))));
        assert_eq!(range_ends(&(one..=two)), Some((one, two)));
        assert_eq!(range_ends(&(one..one)), None);
        assert_eq!(range_ends(&(..EntryId::MIN)), None);
        assert_eq!(range_ends(&(Bound::Excluded(one), Bound::Unbounded)), Some((EntryId::new(1, 1), EntryId::MAX)));
        assert_eq!(range_ends(&(Bound::Excluded(EntryId::MAX), Bound::Unbounded)), None);
    }
}
