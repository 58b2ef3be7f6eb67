//! Indices and ranges for the server, and replies of scripts that take an index.

use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use redgrid_core::object::ObjectError;
use redgrid_core::{FromReply, Name, Reply, ServerError};

/// The highest index that the server accepts.
const HIGHEST: u64 = i64::MAX as u64;

/// How many elements a script visits at most, approximately, if it can divide its work into steps.
///
/// So a script blocks the server for about 10 ms on a machine of 2024. One pass through a list is
/// always one command, however long the list is.
pub(crate) const MAX_VISITED: i64 = 250_000;

/// Returns a random placeholder. If an element equals it, the scripts choose another.
pub(crate) fn placeholder() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// Checks that the server accepts a number.
pub(crate) fn server_int(name: &Name, option: &'static str, n: u64) -> Result<i64, ObjectError> {
    i64::try_from(n).map_err(|_| ObjectError::invalid_argument(name, option, format!("up to {HIGHEST}"), n))
}

/// Returns the first index of a range, and the index after its last one, if the range has an end.
pub(crate) fn range_bounds(
    name: &Name,
    range: &(impl RangeBounds<u64> + Debug),
) -> Result<(i64, Option<i64>), ObjectError> {
    let invalid = |expected: String| ObjectError::invalid_argument(name, "range", expected, format!("{range:?}"));
    let narrow = |n: u128| i64::try_from(n).map_err(|_| invalid(format!("indices up to {HIGHEST}")));
    let start = match range.start_bound() {
        Bound::Included(&at) => at.into(),
        Bound::Excluded(&at) => u128::from(at) + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&at) => Some(u128::from(at) + 1),
        Bound::Excluded(&at) => Some(at.into()),
        Bound::Unbounded => None,
    };
    if end.is_some_and(|end| end < start) {
        return Err(invalid("a range that does not end before it begins".to_owned()));
    }
    Ok((narrow(start)?, end.map(narrow).transpose()?))
}

/// The reply of a script that takes an index.
pub(crate) enum IndexReply {
    /// The script succeeded. Contains the previous element if it was requested.
    Done(Option<Bytes>),
    /// The index is beyond the end; the list has this number of elements.
    OutOfBounds(u64),
}

impl IndexReply {
    pub(crate) fn or_out_of_bounds(self, name: &Name, index: u64) -> Result<Option<Bytes>, ObjectError> {
        match self {
            IndexReply::Done(previous) => Ok(previous),
            IndexReply::OutOfBounds(len) => Err(ObjectError::OutOfBounds { name: name.clone(), index, len }),
        }
    }
}

impl FromReply for IndexReply {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let (done, value) = <(bool, Reply)>::from_reply(reply)?;
        if done {
            Option::from_reply(value).map(IndexReply::Done)
        } else {
            u64::from_reply(value).map(IndexReply::OutOfBounds)
        }
    }
}

#[cfg(test)]
mod tests {
    use redgrid_core::Failure;

    use super::*;

    #[test]
    fn ranges_have_server_indices_or_are_errors() {
        let name = Name::new("n").unwrap();
        let parsed = |range: (Bound<u64>, Bound<u64>)| match range_bounds(&name, &range) {
            Err(ObjectError::Failed(Failure::InvalidArgument { expected, .. })) => Err(expected),
            bounds => Ok(bounds.unwrap()),
        };
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(parsed((Included(2), Excluded(5))), Ok((2, Some(5))));
        assert_eq!(parsed((Excluded(2), Included(5))), Ok((3, Some(6))));
        assert_eq!(parsed((Unbounded, Unbounded)), Ok((0, None)));
        assert_eq!(parsed((Included(3), Excluded(3))), Ok((3, Some(3))));
        assert_eq!(parsed((Excluded(2), Excluded(3))), Ok((3, Some(3))));
        assert_eq!(parsed((Included(HIGHEST), Unbounded)), Ok((i64::MAX, None)));
        for reversed in [(Included(3), Excluded(2)), (Excluded(3), Included(2)), (Excluded(3), Excluded(3))] {
            assert!(parsed(reversed).unwrap_err().contains("before it begins"), "{reversed:?}");
        }
        for beyond in
            [(Included(HIGHEST + 1), Unbounded), (Unbounded, Included(HIGHEST)), (Excluded(u64::MAX), Unbounded)]
        {
            assert!(parsed(beyond).unwrap_err().contains("9223372036854775807"), "{beyond:?}");
        }
    }
}
