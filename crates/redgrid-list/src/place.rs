//! Indices and ranges as the server takes them, and what it tells of them.

use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use redgrid_core::object::ObjectError;
use redgrid_core::{FromReply, Name, Reply, ServerError};

/// The highest index that the server takes.
const HIGHEST: u64 = i64::MAX as u64;

/// How many elements a script passes at most, about, where it has a choice: a server does nothing else meanwhile, for about 10 ms of a
/// machine of 2024. One pass of a list is one command, however long it is.
pub(crate) const PASSED: i64 = 250_000;

/// A text for marks: nobody else's, and if it is, scripts take another.
pub(crate) fn mark() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// A number that the server can take.
pub(crate) fn number(name: &Name, option: &'static str, n: u64) -> Result<i64, ObjectError> {
    i64::try_from(n).map_err(|_| ObjectError::InvalidArgument {
        name: name.clone(),
        option,
        expected: format!("up to {HIGHEST}"),
        got: n.to_string(),
    })
}

/// The first index of a range, and the one behind its last where it has an end.
pub(crate) fn bounds(name: &Name, range: &(impl RangeBounds<u64> + Debug)) -> Result<(i64, Option<i64>), ObjectError> {
    let invalid = |expected: String| ObjectError::InvalidArgument {
        name: name.clone(),
        option: "range",
        expected,
        got: format!("{range:?}"),
    };
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
        return Err(invalid("one that does not end before it begins".to_owned()));
    }
    Ok((narrow(start)?, end.map(narrow).transpose()?))
}

/// What a script tells that needs an index.
pub(crate) enum Indexed {
    /// It is done, and what was there, where that was asked.
    Done(Option<Bytes>),
    /// There are only so many elements.
    Beyond(u64),
}

impl Indexed {
    pub(crate) fn or_out_of_bounds(self, name: &Name, index: u64) -> Result<Option<Bytes>, ObjectError> {
        match self {
            Indexed::Done(was) => Ok(was),
            Indexed::Beyond(len) => Err(ObjectError::OutOfBounds { name: name.clone(), index, len }),
        }
    }
}

impl FromReply for Indexed {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let (done, told) = <(bool, Reply)>::from_reply(reply)?;
        match done {
            true => Option::from_reply(told).map(Indexed::Done),
            false => u64::from_reply(told).map(Indexed::Beyond),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_as_the_server_takes_them_or_say_what_is_wrong() {
        let name = Name::new("n").unwrap();
        let told = |range: (Bound<u64>, Bound<u64>)| match bounds(&name, &range) {
            Err(ObjectError::InvalidArgument { expected, .. }) => Err(expected),
            bounds => Ok(bounds.unwrap()),
        };
        use Bound::{Excluded, Included, Unbounded};
        assert_eq!(told((Included(2), Excluded(5))), Ok((2, Some(5))));
        assert_eq!(told((Excluded(2), Included(5))), Ok((3, Some(6))));
        assert_eq!(told((Unbounded, Unbounded)), Ok((0, None)));
        assert_eq!(told((Included(3), Excluded(3))), Ok((3, Some(3))));
        assert_eq!(told((Excluded(2), Excluded(3))), Ok((3, Some(3))));
        assert_eq!(told((Included(HIGHEST), Unbounded)), Ok((i64::MAX, None)));
        for reversed in [(Included(3), Excluded(2)), (Excluded(3), Included(2)), (Excluded(3), Excluded(3))] {
            assert!(told(reversed).unwrap_err().contains("before it begins"), "{reversed:?}");
        }
        for beyond in
            [(Included(HIGHEST + 1), Unbounded), (Unbounded, Included(HIGHEST)), (Excluded(u64::MAX), Unbounded)]
        {
            assert!(told(beyond).unwrap_err().contains("9223372036854775807"), "{beyond:?}");
        }
    }
}
