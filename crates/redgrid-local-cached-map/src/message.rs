//! Messages on the topic of a map, as Redisson's LocalCachedMessageCodec of 4.7.0 and 3.52.0
//! encodes them.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use crate::near::{Hash, hash};

/// A message of the topic.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// All keys are invalid. `release` identifies the request; its semaphore receives a permit when
    /// the cache has been cleared.
    Clear { release: Option<[u8; 16]> },
    /// These keys, by their hashes, are invalid.
    Invalidate(Vec<Hash>),
    /// These keys must not be cached until they are enabled again or `duration` is over. The
    /// request must be answered.
    Disable { request: String, hashes: Vec<Hash>, all: bool, duration: Duration },
    /// These keys may be cached again.
    Enable { hashes: Vec<Hash>, all: bool },
    /// A message that needs no action.
    Ignored,
}

/// Redisson's answer to a `Disable` message.
pub(crate) const ACKNOWLEDGED: &[u8] = &[4];

/// The id of no client. A message with this sender is for all clients, including this one.
const NO_SENDER: [u8; 16] = [0; 16];

/// Returns the message that keys were changed.
pub(crate) fn invalidate(hashes: &[Hash]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(21 + 16 * hashes.len());
    bytes.put_u8(1);
    bytes.put_slice(&NO_SENDER);
    bytes.put_u32(hashes.len() as u32);
    hashes.iter().for_each(|hash| bytes.put_u128(*hash));
    bytes.freeze()
}

/// Returns the message that all keys were changed.
pub(crate) fn clear() -> Bytes {
    [&[0][..], &NO_SENDER, &NO_SENDER, &[0]].concat().into()
}

/// Parses a message. Returns `None` if it is not a message of Redisson: then it is unknown what was
/// changed.
pub(crate) fn parse(bytes: &[u8]) -> Option<Message> {
    let (kind, rest) = bytes.split_first()?;
    match kind {
        0 => {
            let (_, rest) = rest.split_first_chunk::<16>()?;
            let (request, rest) = rest.split_first_chunk::<16>()?;
            let release = *rest.first()? != 0;
            Some(Message::Clear { release: release.then_some(*request) })
        }
        1 => {
            let (_, rest) = rest.split_first_chunk::<16>()?;
            Some(Message::Invalidate(parse_hashes(rest)?))
        }
        2 => {
            let (_, mut rest) = rest.split_first_chunk::<16>()?;
            let mut changed = Vec::new();
            while !rest.is_empty() {
                let (key, after_key) = split_sized(rest)?;
                let (_, after_value) = split_sized(after_key)?;
                changed.push(hash(key));
                rest = after_value;
            }
            Some(Message::Invalidate(changed))
        }
        3 => {
            let (request, rest) = split_text(rest)?;
            let (millis, rest) = rest.split_first_chunk::<8>()?;
            let duration = Duration::from_millis(i64::from_be_bytes(*millis).max(0) as u64);
            let (all, hashes) = parse_flagged_hashes(rest)?;
            Some(Message::Disable { request, hashes, all, duration })
        }
        5 => {
            let (_, rest) = split_text(rest)?;
            let (all, hashes) = parse_flagged_hashes(rest)?;
            Some(Message::Enable { hashes, all })
        }
        4 | 6 => Some(Message::Ignored),
        _ => None,
    }
}

/// Parses a flag for all keys, followed by hashes. Redisson 3.x does not send the flag.
fn parse_flagged_hashes(bytes: &[u8]) -> Option<(bool, Vec<Hash>)> {
    if bytes.len() % 16 == 4 {
        return Some((false, parse_hashes(bytes)?));
    }
    let (all, rest) = bytes.split_first()?;
    Some((*all != 0, parse_hashes(rest)?))
}

fn parse_hashes(bytes: &[u8]) -> Option<Vec<Hash>> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let (hashes, rest) = rest.as_chunks::<16>();
    let is_complete = rest.is_empty() && hashes.len() == u32::from_be_bytes(*count) as usize;
    is_complete.then(|| hashes.iter().map(|hash| Hash::from_be_bytes(*hash)).collect())
}

fn split_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*size) as usize)
}

fn split_text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (size, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*size))?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_messages_are_parsed() {
        assert_eq!(parse(&invalidate(&[1, u128::MAX])), Some(Message::Invalidate(vec![1, u128::MAX])));
        assert_eq!(parse(&clear()), Some(Message::Clear { release: None }));
    }

    #[test]
    fn messages_of_redisson_are_parsed() {
        let with = |head: &[u8], rest: &[u8]| [head, rest].concat();
        let clear_message = with(&[0], &[&[7; 16][..], &[9; 16], &[1]].concat());
        assert_eq!(parse(&clear_message), Some(Message::Clear { release: Some([9; 16]) }));
        let update = with(&[2], &[&[7; 16][..], &[0, 0, 0, 1, b'k', 0, 0, 0, 2, b'v', b'w']].concat());
        assert_eq!(parse(&update), Some(Message::Invalidate(vec![hash(b"k")])));
        let head = [&[3, 2][..], b"ab", &1000_i64.to_be_bytes()].concat();
        let disable = |all| {
            Some(Message::Disable { request: "ab".into(), hashes: vec![1], all, duration: Duration::from_secs(1) })
        };
        let one_hash = [&1_u32.to_be_bytes()[..], &1_u128.to_be_bytes()].concat();
        assert_eq!(parse(&with(&head, &one_hash)), disable(false), "of 3.x");
        assert_eq!(parse(&with(&with(&head, &[0]), &one_hash)), disable(false));
        assert_eq!(parse(&with(&with(&head, &[1]), &one_hash)), disable(true));
        let enable = with(&[5, 2, b'a', b'b'], &one_hash);
        assert_eq!(parse(&enable), Some(Message::Enable { hashes: vec![1], all: false }));
        assert_eq!(parse(&[4]), Some(Message::Ignored));
    }

    #[test]
    fn truncated_messages_are_rejected() {
        for whole in [invalidate(&[1, 2]).to_vec(), clear().to_vec()] {
            (0..whole.len()).for_each(|size| assert_eq!(parse(&whole[..size]), None, "{size} bytes"));
        }
        assert_eq!(parse(&[9]), None);
    }
}
