//! Guesses the format of bytes, for errors.

use std::fmt;

use crate::error::cut;
use crate::kryo::read::{self, Simple};

/// A guess at the format of bytes from their beginning, for errors. bincode and postcard cannot be
/// recognized, because their bytes are not self-describing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LooksLike {
    /// JSON: an object, a list or a quoted string.
    Json,
    /// A number, `true`, `false` or `null` as text, which is JSON as well.
    Number,
    /// Other text.
    Text,
    /// The encoding of Redisson's default codec, with the name of the class unless it is a simple
    /// one.
    Kryo {
        /// The name of the class in Java, cut to 120 characters.
        class: Option<String>,
    },
    /// MessagePack: a map, a list or a string.
    MessagePack,
    /// CBOR: a map, a list or a string.
    Cbor,
    /// Java's own serialization (Redisson's SerializationCodec).
    JavaSerialized,
    /// Zstandard, with or without the length prefix of Redisson's ZStdCodec and our `Zstd`.
    Zstd,
    /// An LZ4 frame (Redisson's LZ4Codec has no magic number).
    Lz4Frame,
    /// gzip.
    Gzip,
}

impl LooksLike {
    /// Guesses the format of `bytes`; `None` if it is not recognized.
    pub fn guess(bytes: &[u8]) -> Option<LooksLike> {
        match bytes {
            [] => return None,
            [0xac, 0xed, 0, 5, ..] => return Some(LooksLike::JavaSerialized),
            [0x1f, 0x8b, 8, ..] => return Some(LooksLike::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [_, _, _, _, 0x28, 0xb5, 0x2f, 0xfd, ..] => return Some(LooksLike::Zstd),
            [0x04, 0x22, 0x4d, 0x18, ..] => return Some(LooksLike::Lz4Frame),
            _ => {}
        }
        match read::simple(bytes) {
            Ok(Simple::Other(class)) => return Some(LooksLike::Kryo { class: Some(cut(&class)) }),
            Ok(_) => return Some(LooksLike::Kryo { class: None }),
            Err(_) => {}
        }
        if let Some(guess) = text(bytes) {
            return Some(guess);
        }
        // MessagePack and CBOR have maps and lists with the same first bytes. The end of the value
        // distinguishes them.
        if messagepack(bytes) {
            return Some(LooksLike::MessagePack);
        }
        cbor(bytes).then_some(LooksLike::Cbor)
    }

    /// Returns whether `codec` writes this format.
    pub(crate) fn is_of(&self, codec: &str) -> bool {
        match self {
            LooksLike::Json => codec == "Json",
            LooksLike::Number => matches!(codec, "Text" | "Long" | "Double" | "Json"),
            LooksLike::Text => codec == "Text",
            LooksLike::Kryo { .. } => codec == "Kryo",
            LooksLike::MessagePack => codec == "MessagePack",
            LooksLike::Cbor => codec == "Cbor",
            LooksLike::Zstd => codec.starts_with("Zstd<"),
            LooksLike::JavaSerialized | LooksLike::Lz4Frame | LooksLike::Gzip => false,
        }
    }
}

impl fmt::Display for LooksLike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LooksLike::Json => "Json",
            LooksLike::Number => "a number as text (Text, Long, Double, Json)",
            LooksLike::Text => "Text",
            LooksLike::Kryo { class: None } => "Kryo",
            LooksLike::Kryo { class: Some(class) } => return write!(f, "Kryo (an object of class `{class}`)"),
            LooksLike::MessagePack => "MessagePack",
            LooksLike::Cbor => "Cbor",
            LooksLike::JavaSerialized => "a Java serialised object",
            LooksLike::Zstd => "Zstd",
            LooksLike::Lz4Frame => "a frame of LZ4",
            LooksLike::Gzip => "gzip",
        })
    }
}

/// Recognizes text. In a long text, only the beginning and the last byte are checked.
fn text(bytes: &[u8]) -> Option<LooksLike> {
    let whole = bytes.len() <= BEGINNING;
    let begin = &bytes[..bytes.len().min(BEGINNING)];
    let begin = match std::str::from_utf8(begin) {
        Ok(text) => text,
        // The beginning may end in the middle of a character.
        Err(error) if !whole && error.error_len().is_none() => {
            std::str::from_utf8(&begin[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    if begin.chars().any(|c| c.is_control() && !c.is_whitespace()) {
        return None;
    }
    let trimmed = begin.trim();
    let last = bytes.iter().rev().find(|byte| !byte.is_ascii_whitespace());
    match (trimmed.as_bytes().first()?, last?) {
        (b'{', b'}') | (b'[', b']') | (b'"', b'"') => Some(LooksLike::Json),
        _ if matches!(trimmed, "true" | "false" | "null") || trimmed.parse::<f64>().is_ok() => Some(LooksLike::Number),
        _ => Some(LooksLike::Text),
    }
}

/// Returns whether the bytes are exactly one map, list or string.
fn messagepack(bytes: &[u8]) -> bool {
    let mut rest = Rest(bytes);
    let first = bytes[0];
    if !matches!(first, 0x80..=0xbf | 0xd9..=0xdf) {
        return false;
    }
    let mut pending = 1_u64;
    while pending > 0 {
        pending -= 1;
        let Some(mark) = rest.number(1) else { return false };
        let skipped = match mark {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => Some(0),
            0x80..=0x8f => rest.add(&mut pending, (mark & 0x0f) * 2),
            0x90..=0x9f => rest.add(&mut pending, mark & 0x0f),
            0xa0..=0xbf => Some(mark & 0x1f),
            0xc4 | 0xd9 => rest.number(1),
            0xc5 | 0xda => rest.number(2),
            0xc6 | 0xdb => rest.number(4),
            0xc7 => rest.number(1).map(|len| len + 1),
            0xc8 => rest.number(2).map(|len| len + 1),
            0xc9 => rest.number(4).map(|len| len + 1),
            0xca | 0xce | 0xd2 => Some(4),
            0xcb | 0xcf | 0xd3 => Some(8),
            0xcc | 0xd0 => Some(1),
            0xcd | 0xd1 => Some(2),
            0xd4..=0xd8 => Some((1 << (mark - 0xd4)) + 1),
            0xdc => rest.number(2).and_then(|len| rest.add(&mut pending, len)),
            0xdd => rest.number(4).and_then(|len| rest.add(&mut pending, len)),
            0xde => rest.number(2).and_then(|len| rest.add(&mut pending, len * 2)),
            0xdf => rest.number(4).and_then(|len| rest.add(&mut pending, len * 2)),
            _ => None,
        };
        if skipped.and_then(|len| rest.skip(len)).is_none() {
            return false;
        }
    }
    rest.0.is_empty()
}

/// Returns whether the bytes are exactly one map, list or string. If it has no length, only its
/// beginning and end are checked.
fn cbor(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(SELF_DESCRIBED).unwrap_or(bytes);
    let Some(&first) = bytes.first() else { return false };
    if matches!(first, 0x9f | 0xbf) {
        return bytes.last() == Some(&0xff) && matches!(bytes[1], 0x00..=0xbf | 0xff);
    }
    if !matches!(first, 0x60..=0x7b | 0x80..=0x9b | 0xa0..=0xbb) {
        return false;
    }
    let mut rest = Rest(bytes);
    let mut pending = 1_u64;
    while pending > 0 {
        pending -= 1;
        let Some(head) = rest.number(1) else { return false };
        let value = match head & 0x1f {
            small @ 0..=23 => Some(small),
            size @ 24..=27 => rest.number(1_usize << (size - 24)),
            _ => None,
        };
        let skipped = value.and_then(|value| match head >> 5 {
            0 | 1 | 7 => Some(0),
            2 | 3 => Some(value),
            4 => rest.add(&mut pending, value),
            5 => rest.add(&mut pending, value.checked_mul(2)?),
            _ => rest.add(&mut pending, 1),
        });
        if skipped.and_then(|len| rest.skip(len)).is_none() {
            return false;
        }
    }
    rest.0.is_empty()
}

/// The input that has not been read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// Reads a big-endian number of `len` bytes.
    fn number(&mut self, len: usize) -> Option<u64> {
        let (number, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn skip(&mut self, len: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(len).ok()?..)?;
        Some(())
    }

    /// Adds `more` pending values. Each value has at least one byte, so there cannot be more values
    /// than bytes.
    fn add(&self, pending: &mut u64, more: u64) -> Option<u64> {
        *pending = pending.checked_add(more).filter(|sum| *sum <= self.0.len() as u64)?;
        Some(0)
    }
}

/// The number of bytes checked to recognize text.
const BEGINNING: usize = 256;

/// CBOR's self-description tag 55799.
pub(crate) const SELF_DESCRIBED: &[u8] = &[0xd9, 0xd9, 0xf7];

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(bytes: &[u8]) -> String {
        LooksLike::guess(bytes).map(|guess| guess.to_string()).unwrap_or_default()
    }

    #[test]
    fn beginnings_are_recognised() {
        for (bytes, expected) in [
            (&b""[..], ""),
            (b"{\"a\": [1, 2]}", "Json"),
            (b" [] \n", "Json"),
            (b"\"a\"", "Json"),
            (b"-12.5e3", "a number as text (Text, Long, Double, Json)"),
            (b"true", "a number as text (Text, Long, Double, Json)"),
            ("gr\u{fc}n".as_bytes(), "Text"),
            (b"{not json", "Text"),
            (b"\x03\x61\x62\xe3", "Kryo"),
            (b"\x09\xd8\x04", "Kryo"),
            (b"\x00", "Kryo"),
            (b"\x01\x00java.util.ArrayLis\xf4\x01", "Kryo (an object of class `java.util.ArrayList`)"),
            (b"\x82\xa1a\x01\xa1b\xc0", "MessagePack"),
            (b"\xde\x00\x01\xa1a\xcb\0\0\0\0\0\0\0\0", "MessagePack"),
            (b"\xa2\x61a\x01\x61b\xf6", "Cbor"),
            (b"\x83\x01\x02\xf9\x3c\x00", "Cbor"),
            (b"\xbf\x61a\x01\xff", "Cbor"),
            (b"\xd9\xd9\xf7\xa1\x61a\x01", "Cbor"),
            (b"\xac\xed\x00\x05t\x00\x01a", "a Java serialised object"),
            (b"\x1f\x8b\x08\x00", "gzip"),
            (b"\x00\x00\x00\x05\x28\xb5\x2f\xfd", "Zstd"),
            (b"\xff\xfe\xfd", ""),
            (b"\xdf\xff\xff\xff\xff", ""),
            (b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff", ""),
            (b"\xbf", ""),
        ] {
            assert_eq!(guess(bytes), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn text_is_recognized_although_a_character_is_cut() {
        let mut long = "a".repeat(BEGINNING - 1);
        long.push_str("\u{fc}\u{fc}");
        assert_eq!(guess(long.as_bytes()), "Text");
    }
}
