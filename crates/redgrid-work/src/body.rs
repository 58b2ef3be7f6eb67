//! A message as bytes: its headers, then its value.
//!
//! The first byte says whether there are headers. If so, their total size follows (4 bytes, big
//! endian). Each header consists of the length of its name (2 bytes), its name, the length of its
//! text (4 bytes), and its text. The rest is the value.

use bytes::Bytes;

const PLAIN: u8 = 0;
const WITH_HEADERS: u8 = 1;

/// The maximum size of a header's name, in bytes.
pub const MAX_NAME: usize = u16::MAX as usize;

/// The maximum size of all headers of a message, in bytes.
pub const MAX_HEADERS: usize = 256 << 10;

/// Names and texts, in the order in which they were added.
pub type Headers = Vec<(String, String)>;

/// Returns the size of encoded headers, in bytes.
pub fn size_of(headers: &[(String, String)]) -> usize {
    headers.iter().map(|(name, text)| 6 + name.len() + text.len()).sum()
}

/// Encodes a message. The caller has checked the sizes.
pub fn encode(headers: &[(String, String)], value: &[u8]) -> Bytes {
    if headers.is_empty() {
        return [&[PLAIN], value].concat().into();
    }
    let size = size_of(headers);
    let mut encode = Vec::with_capacity(5 + size + value.len());
    encode.push(WITH_HEADERS);
    encode.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
    for (name, text) in headers {
        encode.extend_from_slice(&u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
        encode.extend_from_slice(name.as_bytes());
        encode.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        encode.extend_from_slice(text.as_bytes());
    }
    encode.extend_from_slice(value);
    encode.into()
}

/// Decodes a message; `None` if the bytes are not a message.
pub fn decode(encode: &Bytes) -> Option<(Headers, Bytes)> {
    match *encode.first()? {
        PLAIN => Some((Vec::new(), encode.slice(1..))),
        WITH_HEADERS => {
            let (size, rest) = encode[1..].split_first_chunk::<4>()?;
            let size = usize::try_from(u32::from_be_bytes(*size)).ok()?;
            let (mut rest, headers_end) = (rest.get(..size)?, 5 + size);
            let mut headers = Vec::new();
            while !rest.is_empty() {
                let (len, after) = rest.split_first_chunk::<2>()?;
                let (name, after) = after.split_at_checked(u16::from_be_bytes(*len).into())?;
                let (len, after) = after.split_first_chunk::<4>()?;
                let (text, after) = after.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
                headers.push((String::from_utf8(name.to_vec()).ok()?, String::from_utf8(text.to_vec()).ok()?));
                rest = after;
            }
            Some((headers, encode.slice(headers_end..)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_messages_are_decoded_and_other_bytes_rejected() {
        let headers = vec![("trace".to_owned(), "7f".to_owned()), ("ä".to_owned(), String::new())];
        for headers in [Vec::new(), headers] {
            for value in [&b""[..], b"v", &[0, 1, 255]] {
                let bytes = encode(&headers, value);
                assert_eq!(decode(&bytes), Some((headers.clone(), Bytes::copy_from_slice(value))));
                // A header that is cut at any byte is invalid.
                for end in 0..bytes.len() - value.len() {
                    assert_eq!(decode(&bytes.slice(..end)), None, "{end}");
                }
            }
        }
        assert_eq!(decode(&Bytes::from_static(b"\x02a")), None);
        assert_eq!(decode(&Bytes::from_static(b"\x01\xff\xff\xff\xff")), None);
    }
}
