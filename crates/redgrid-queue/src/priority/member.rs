//! A member of the sorted set: an element behind its priority and its number among those that have it.

use std::error::Error;
use std::fmt;

use bytes::Bytes;

/// How many bytes are in front of the element.
pub(super) const HEAD: usize = 16;

/// A priority in bytes that are in the order of the numbers.
pub(super) fn ordered(priority: i64) -> [u8; 8] {
    (priority ^ i64::MIN).to_be_bytes()
}

/// The member that a script has made, whose number it has told.
pub(super) fn packed(priority: i64, number: &[u8], element: &[u8]) -> Bytes {
    [&ordered(priority), number, element].concat().into()
}

/// The priority, and the element.
pub(super) fn unpacked(member: &Bytes) -> Result<(i64, Bytes), NoElement> {
    match member.first_chunk() {
        Some(priority) if member.len() >= HEAD => Ok((i64::from_be_bytes(*priority) ^ i64::MIN, member.slice(HEAD..))),
        _ => Err(NoElement(member.len())),
    }
}

/// What somebody else has put into the sorted set.
#[derive(Debug)]
pub(super) struct NoElement(usize);

impl fmt::Display for NoElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, where a priority queue has {HEAD} in front of each element", self.0)
    }
}

impl Error for NoElement {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_in_the_order_of_the_priorities_and_exact() {
        let priorities =
            [i64::MIN, i64::MIN + 1, -(1 << 53) - 1, -1, 0, 1, 1 << 53, (1 << 53) + 1, i64::MAX - 1, i64::MAX];
        assert!(priorities.map(ordered).is_sorted());
        for priority in priorities {
            let member = packed(priority, &[7; 8], b"x");
            assert_eq!(unpacked(&member).unwrap(), (priority, Bytes::from_static(b"x")));
        }
        assert!(unpacked(&Bytes::from_static(&[0; HEAD - 1])).is_err());
        assert!(unpacked(&Bytes::new()).unwrap_err().to_string().starts_with("0 bytes"));
    }
}
