//! A message as bytes: its headers in front of its value.
//!
//! One byte that says whether there are headers. If there are: how many bytes they take (4, highest first), then each as the
//! length of its name (2), its name, the length of its text (4), its text. What is left is the value.

use bytes::Bytes;

const PLAIN: u8 = 0;
const WITH_HEADERS: u8 = 1;

/// How long the name of a header may be, in bytes.
pub(crate) const LONGEST_NAME: usize = u16::MAX as usize;

/// How many bytes all headers of a message may take.
pub(crate) const MOST_HEADERS: usize = 256 << 10;

pub(crate) type Headers = Vec<(String, String)>;

pub(crate) fn size_of(headers: &[(String, String)]) -> usize {
    headers.iter().map(|(name, text)| 6 + name.len() + text.len()).sum()
}

/// The sizes were checked by who built the message.
pub(crate) fn framed(headers: &[(String, String)], value: &[u8]) -> Bytes {
    if headers.is_empty() {
        return [&[PLAIN], value].concat().into();
    }
    let size = size_of(headers);
    let mut framed = Vec::with_capacity(5 + size + value.len());
    framed.push(WITH_HEADERS);
    framed.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
    for (name, text) in headers {
        framed.extend_from_slice(&u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
        framed.extend_from_slice(name.as_bytes());
        framed.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        framed.extend_from_slice(text.as_bytes());
    }
    framed.extend_from_slice(value);
    framed.into()
}

/// `None` where these bytes are no message of ours.
pub(crate) fn unframed(framed: &Bytes) -> Option<(Headers, Bytes)> {
    match *framed.first()? {
        PLAIN => Some((Vec::new(), framed.slice(1..))),
        WITH_HEADERS => {
            let (size, rest) = framed[1..].split_first_chunk::<4>()?;
            let size = usize::try_from(u32::from_be_bytes(*size)).ok()?;
            let (mut rest, headers_end) = (rest.get(..size)?, 5 + size);
            let mut headers = Vec::new();
            while !rest.is_empty() {
                let (len, behind) = rest.split_first_chunk::<2>()?;
                let (name, behind) = behind.split_at_checked(u16::from_be_bytes(*len).into())?;
                let (len, behind) = behind.split_first_chunk::<4>()?;
                let (text, behind) = behind.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
                headers.push((String::from_utf8(name.to_vec()).ok()?, String::from_utf8(text.to_vec()).ok()?));
                rest = behind;
            }
            Some((headers, framed.slice(headers_end..)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_framed_is_read_again_and_nothing_else_is() {
        let headers = vec![("trace".to_owned(), "7f".to_owned()), ("ä".to_owned(), String::new())];
        for headers in [Vec::new(), headers] {
            for value in [&b""[..], b"v", &[0, 1, 255]] {
                let bytes = framed(&headers, value);
                assert_eq!(unframed(&bytes), Some((headers.clone(), Bytes::copy_from_slice(value))));
                // Cut anywhere among its headers it is none.
                for end in 0..bytes.len() - value.len() {
                    assert_eq!(unframed(&bytes.slice(..end)), None, "{end}");
                }
            }
        }
        assert_eq!(unframed(&Bytes::from_static(b"\x02a")), None);
        assert_eq!(unframed(&Bytes::from_static(b"\x01\xff\xff\xff\xff")), None);
    }
}
