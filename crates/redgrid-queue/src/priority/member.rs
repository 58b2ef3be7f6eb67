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

/// The member that a script has made, whose number it has told: never shorter than [`HEAD`].
pub(super) fn packed(priority: i64, number: &[u8], element: &[u8]) -> Result<Bytes, NoNumbers> {
    match number.len() {
        8 => Ok([&ordered(priority), number, element].concat().into()),
        bytes => Err(NoNumbers::Bytes(bytes)),
    }
}

/// The same of several: a number each.
pub(super) fn packed_all(pushed: &[(i64, Bytes)], numbers: &[Bytes]) -> Result<Vec<Bytes>, NoNumbers> {
    if numbers.len() != pushed.len() {
        return Err(NoNumbers::Count { told: numbers.len(), asked: pushed.len() });
    }
    let both = pushed.iter().zip(numbers);
    both.map(|((priority, element), number)| packed(*priority, number, element)).collect()
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

/// What a script has answered is not the numbers of what was pushed.
#[derive(Debug)]
pub(super) enum NoNumbers {
    Bytes(usize),
    Count { told: usize, asked: usize },
}

impl fmt::Display for NoNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoNumbers::Bytes(bytes) => write!(f, "{bytes} bytes, where the number of an element has 8"),
            NoNumbers::Count { told, asked } => write!(f, "{told} numbers, of {asked} elements"),
        }
    }
}

impl Error for NoNumbers {}

/// A member that is not where its bytes are in the order.
#[derive(Debug)]
pub(super) struct OutOfOrder;

impl fmt::Display for OutOfOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("members that are not in the order of their bytes: one has a score other than 0, which no priority queue gives")
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
        assert!(priorities.map(ordered).is_sorted());
        for priority in priorities {
            let member = packed(priority, &[7; 8], b"x").unwrap();
            assert_eq!(unpacked(&member).unwrap(), (priority, Bytes::from_static(b"x")));
        }
        assert!(unpacked(&Bytes::from_static(&[0; HEAD - 1])).is_err());
        assert!(unpacked(&Bytes::new()).unwrap_err().to_string().starts_with("0 bytes"));
    }

    #[test]
    fn an_answer_without_a_number_for_each_is_none() {
        let (pushed, number) = ([(1, Bytes::from_static(b"x")), (2, Bytes::new())], Bytes::from_static(&[7; 8]));
        let told = |numbers: &[Bytes]| packed_all(&pushed, numbers).map_err(|none| none.to_string());
        let members = told(&[number.clone(), number.clone()]).unwrap();
        assert_eq!(members.iter().map(Bytes::len).collect::<Vec<_>>(), [HEAD + 1, HEAD]);
        assert_eq!(told(std::slice::from_ref(&number)).unwrap_err(), "1 numbers, of 2 elements");
        assert!(told(&[]).is_err() && told(&[number.clone(), number.clone(), number.clone()]).is_err());
        assert_eq!(told(&[number, Bytes::new()]).unwrap_err(), "0 bytes, where the number of an element has 8");
    }
}
