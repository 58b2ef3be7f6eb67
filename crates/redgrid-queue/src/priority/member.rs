//! A member of the sorted set: the priority, the insertion number among equal priorities, and the
//! element.

use std::error::Error;
use std::fmt;

use bytes::Bytes;

/// Number of bytes before the element.
pub(super) const HEAD: usize = 16;

/// Returns a priority as 8 bytes that sort in numeric order.
pub(super) fn priority_bytes(priority: i64) -> [u8; 8] {
    (priority ^ i64::MIN).to_be_bytes()
}

/// Returns the member that a script has added; `number` is from the script's reply. A member is
/// never shorter than [`HEAD`].
pub(super) fn pack(priority: i64, number: &[u8], element: &[u8]) -> Result<Bytes, InvalidNumbers> {
    match number.len() {
        8 => Ok([&priority_bytes(priority), number, element].concat().into()),
        length => Err(InvalidNumbers::Length(length)),
    }
}

/// Returns the members that a script has added, one for each number.
pub(super) fn pack_all(pushed: &[(i64, Bytes)], numbers: &[Bytes]) -> Result<Vec<Bytes>, InvalidNumbers> {
    if numbers.len() != pushed.len() {
        return Err(InvalidNumbers::Count { returned: numbers.len(), pushed: pushed.len() });
    }
    let both = pushed.iter().zip(numbers);
    both.map(|((priority, element), number)| pack(*priority, number, element)).collect()
}

/// Returns the priority and the element of a member.
pub(super) fn unpack(member: &Bytes) -> Result<(i64, Bytes), InvalidMember> {
    match member.first_chunk() {
        Some(priority) if member.len() >= HEAD => Ok((i64::from_be_bytes(*priority) ^ i64::MIN, member.slice(HEAD..))),
        _ => Err(InvalidMember(member.len())),
    }
}

/// The member is shorter than [`HEAD`]: another program has added it.
#[derive(Debug)]
pub(super) struct InvalidMember(usize);

impl fmt::Display for InvalidMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a member has {} bytes; a priority queue has {HEAD} before each element", self.0)
    }
}

impl Error for InvalidMember {}

/// The reply of a script is not one number of 8 bytes for each element.
#[derive(Debug)]
pub(super) enum InvalidNumbers {
    Length(usize),
    Count { returned: usize, pushed: usize },
}

impl fmt::Display for InvalidNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidNumbers::Length(length) => write!(f, "the number of an element has {length} bytes instead of 8"),
            InvalidNumbers::Count { returned, pushed } => write!(f, "{returned} numbers for {pushed} elements"),
        }
    }
}

impl Error for InvalidNumbers {}

/// Members of the sorted set are not ordered by their bytes.
#[derive(Debug)]
pub(super) struct OutOfOrder;

impl fmt::Display for OutOfOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("members are not in the order of their bytes: another program has given one a score other than 0")
    }
}

impl Error for OutOfOrder {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_in_the_order_of_the_priorities_and_exact() {
        let priorities =
            [i64::MIN, i64::MIN + 1, -(1 << 53) - 1, -1, 0, 1, 1 << 53, (1 << 53) + 1, i64::MAX - 1, i64::MAX];
        assert!(priorities.map(priority_bytes).is_sorted());
        for priority in priorities {
            let member = pack(priority, &[7; 8], b"x").unwrap();
            assert_eq!(unpack(&member).unwrap(), (priority, Bytes::from_static(b"x")));
        }
        assert!(unpack(&Bytes::from_static(&[0; HEAD - 1])).is_err());
        assert!(unpack(&Bytes::new()).unwrap_err().to_string().starts_with("a member has 0 bytes"));
    }

    #[test]
    fn a_reply_without_a_number_for_each_element_is_invalid() {
        let (pushed, number) = ([(1, Bytes::from_static(b"x")), (2, Bytes::new())], Bytes::from_static(&[7; 8]));
        let packed = |numbers: &[Bytes]| pack_all(&pushed, numbers).map_err(|invalid| invalid.to_string());
        let members = packed(&[number.clone(), number.clone()]).unwrap();
        assert_eq!(members.iter().map(Bytes::len).collect::<Vec<_>>(), [HEAD + 1, HEAD]);
        assert_eq!(packed(std::slice::from_ref(&number)).unwrap_err(), "1 numbers for 2 elements");
        assert!(packed(&[]).is_err() && packed(&[number.clone(), number.clone(), number.clone()]).is_err());
        let error = packed(&[number, Bytes::new()]).unwrap_err();
        assert_eq!(error, "the number of an element has 0 bytes instead of 8");
    }
}
