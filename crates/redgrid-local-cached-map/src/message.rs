//! What is told on the topic of a map: Redisson's messages, as LocalCachedMessageCodec of 4.7.0 and 3.52.0 writes them.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use crate::near::{Hash, hash};

/// A message of the topic.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// All keys; `release` is the request whose semaphore is to get a permit when it is done.
    Clear { release: Option<[u8; 16]> },
    /// These keys, by their hashes.
    Invalidate(Vec<Hash>),
    /// These are not to be kept until they are enabled, or the time is over; the request is to be answered.
    Disable { request: String, hashes: Vec<Hash>, all: bool, lasts: Duration },
    /// The end of that.
    Enable { hashes: Vec<Hash>, all: bool },
    /// Nothing for us.
    Other,
}

/// What Redisson answers to a disabling.
pub(crate) const ACKNOWLEDGED: &[u8] = &[4];

/// Nobody's: a message that names nobody as its sender is for all, us too.
const NOBODY: [u8; 16] = [0; 16];

/// The message that keys were changed.
pub(crate) fn invalidate(hashes: &[Hash]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(21 + 16 * hashes.len());
    bytes.put_u8(1);
    bytes.put_slice(&NOBODY);
    bytes.put_u32(hashes.len() as u32);
    hashes.iter().for_each(|hash| bytes.put_u128(*hash));
    bytes.freeze()
}

/// The message that all were.
pub(crate) fn clear() -> Bytes {
    [&[0][..], &NOBODY, &NOBODY, &[0]].concat().into()
}

/// `None` where it is none of theirs: then nothing is known of what was changed.
pub(crate) fn read(bytes: &[u8]) -> Option<Message> {
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
            Some(Message::Invalidate(hashes(rest)?))
        }
        2 => {
            let (_, mut rest) = rest.split_first_chunk::<16>()?;
            let mut changed = Vec::new();
            while !rest.is_empty() {
                let (key, behind) = sized(rest)?;
                let (_, behind) = sized(behind)?;
                changed.push(hash(key));
                rest = behind;
            }
            Some(Message::Invalidate(changed))
        }
        3 => {
            let (request, rest) = text(rest)?;
            let (millis, rest) = rest.split_first_chunk::<8>()?;
            let lasts = Duration::from_millis(i64::from_be_bytes(*millis).max(0) as u64);
            let (all, hashes) = flagged(rest)?;
            Some(Message::Disable { request, hashes, all, lasts })
        }
        5 => {
            let (_, rest) = text(rest)?;
            let (all, hashes) = flagged(rest)?;
            Some(Message::Enable { hashes, all })
        }
        4 | 6 => Some(Message::Other),
        _ => None,
    }
}

/// Hashes behind whether all are meant, which 3.x does not say.
fn flagged(bytes: &[u8]) -> Option<(bool, Vec<Hash>)> {
    if bytes.len() % 16 == 4 {
        return Some((false, hashes(bytes)?));
    }
    let (all, rest) = bytes.split_first()?;
    Some((*all != 0, hashes(rest)?))
}

fn hashes(bytes: &[u8]) -> Option<Vec<Hash>> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let (hashes, rest) = rest.as_chunks::<16>();
    let whole = rest.is_empty() && hashes.len() == u32::from_be_bytes(*count) as usize;
    whole.then(|| hashes.iter().map(|hash| Hash::from_be_bytes(*hash)).collect())
}

fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*size) as usize)
}

fn text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (size, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*size))?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&invalidate(&[1, u128::MAX])), Some(Message::Invalidate(vec![1, u128::MAX])));
        assert_eq!(read(&clear()), Some(Message::Clear { release: None }));
    }

    #[test]
    fn messages_of_redisson_are_read() {
        let with = |head: &[u8], rest: &[u8]| [head, rest].concat();
        let asked = with(&[0], &[&[7; 16][..], &[9; 16], &[1]].concat());
        assert_eq!(read(&asked), Some(Message::Clear { release: Some([9; 16]) }));
        let update = with(&[2], &[&[7; 16][..], &[0, 0, 0, 1, b'k', 0, 0, 0, 2, b'v', b'w']].concat());
        assert_eq!(read(&update), Some(Message::Invalidate(vec![hash(b"k")])));
        let head = [&[3, 2][..], b"ab", &1000_i64.to_be_bytes()].concat();
        let disable =
            |all| Some(Message::Disable { request: "ab".into(), hashes: vec![1], all, lasts: Duration::from_secs(1) });
        let one = [&1_u32.to_be_bytes()[..], &1_u128.to_be_bytes()].concat();
        assert_eq!(read(&with(&head, &one)), disable(false), "of 3.x");
        assert_eq!(read(&with(&with(&head, &[0]), &one)), disable(false));
        assert_eq!(read(&with(&with(&head, &[1]), &one)), disable(true));
        let enable = with(&[5, 2, b'a', b'b'], &one);
        assert_eq!(read(&enable), Some(Message::Enable { hashes: vec![1], all: false }));
        assert_eq!(read(&[4]), Some(Message::Other));
    }

    #[test]
    fn what_is_cut_off_is_none() {
        for whole in [invalidate(&[1, 2]).to_vec(), clear().to_vec()] {
            (0..whole.len()).for_each(|size| assert_eq!(read(&whole[..size]), None, "{size} bytes"));
        }
        assert_eq!(read(&[9]), None);
    }
}
