//! Reads Kryo 5 as Redisson configures it: a class tag, then the body.

use std::ops::Range;

/// A simple value, or the name of another class.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Simple {
    Null,
    Boolean(bool),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    /// A UTF-16 unit.
    Char(u16),
    String(String),
    /// The range of the byte array in the input.
    Bytes(Range<usize>),
    Other(String),
}

/// The reason that the bytes are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The input ends too early.
    End,
    /// There are more bytes after the value.
    LeftOver(usize),
    /// The tag is not one of Kryo's own tags.
    Tag(u8),
    /// A boolean, a length or a number that Kryo does not write.
    Malformed(&'static str),
}

/// Reads all of `bytes` as one value. For other classes, only the name is read.
pub(crate) fn simple(bytes: &[u8]) -> Result<Simple, ReadError> {
    let mut input = Input { bytes, at: 0 };
    let value = match input.byte()? {
        0 => Simple::Null,
        1 => match input.class()? {
            class if class == BYTES => input.array()?,
            class => return Ok(Simple::Other(class)),
        },
        2 => Simple::Int(unzigzag(input.varint(5, 32)?) as i32),
        3 => input.string()?.map_or(Simple::Null, Simple::String),
        4 => Simple::Float(f32::from_le_bytes(input.fixed()?)),
        5 => match input.byte()? {
            0 => Simple::Boolean(false),
            1 => Simple::Boolean(true),
            _ => return Err(ReadError::Malformed("a boolean that is neither 0 nor 1")),
        },
        6 => Simple::Byte(i8::from_le_bytes(input.fixed()?)),
        7 => Simple::Char(u16::from_le_bytes(input.fixed()?)),
        8 => Simple::Short(i16::from_le_bytes(input.fixed()?)),
        9 => Simple::Long(unzigzag(input.varint(9, 64)?)),
        10 => Simple::Double(f64::from_le_bytes(input.fixed()?)),
        11 => return Ok(Simple::Other("void".to_owned())),
        tag => return Err(ReadError::Tag(tag)),
    };
    match bytes.len() - input.at {
        0 => Ok(value),
        left => Err(ReadError::LeftOver(left)),
    }
}

/// Java's name of `byte[]`.
const BYTES: &str = "[B";

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, ReadError> {
        let byte = *self.bytes.get(self.at).ok_or(ReadError::End)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], ReadError> {
        let end = self.at.checked_add(len).ok_or(ReadError::End)?;
        let bytes = self.bytes.get(self.at..end).ok_or(ReadError::End)?;
        self.at = end;
        Ok(bytes)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        self.take(N)?.try_into().map_err(|_| ReadError::End)
    }

    /// Reads a variable-length number: seven bits a byte, low ones first, in at most `bytes` bytes.
    /// A ninth byte has eight bits. `bits` is the total.
    fn varint(&mut self, bytes: u32, bits: u32) -> Result<u64, ReadError> {
        let mut number = 0;
        for index in 0..bytes {
            let byte = u64::from(self.byte()?);
            if index == 8 {
                return Ok(number | byte << 56);
            }
            number |= (byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return match number >> (bits - 1) >> 1 {
                    0 => Ok(number),
                    _ => Err(TOO_LONG),
                };
            }
        }
        Err(TOO_LONG)
    }

    /// Reads the rest of a number. Its first byte has a flag, which is set, a continuation bit, and
    /// six bits of the number.
    fn flagged(&mut self, first: u8) -> Result<usize, ReadError> {
        let low = u64::from(first & 0x3f);
        let high = match first & 0x40 {
            0 => 0,
            _ => self.varint(4, 28)? << 6,
        };
        // The stored number is the length plus one. Java's lengths end at 2³¹ − 1.
        match low | high {
            number if number > 1 << 31 => Err(TOO_LONG),
            number => Ok(number as usize),
        }
    }

    /// Reads a string; `None` means null.
    fn string(&mut self) -> Result<Option<String>, ReadError> {
        let first = self.byte()?;
        if first & 0x80 == 0 {
            self.at -= 1;
            return self.ascii().map(Some);
        }
        match self.flagged(first)? {
            0 => Ok(None),
            len => self.utf16(len - 1).map(Some),
        }
    }

    /// Reads ASCII; the last character has bit 7 set.
    fn ascii(&mut self) -> Result<String, ReadError> {
        let rest = &self.bytes[self.at..];
        let last = rest.iter().position(|byte| byte & 0x80 != 0).ok_or(ReadError::End)?;
        let text = self.take(last + 1)?;
        Ok(text.iter().map(|byte| char::from(byte & 0x7f)).collect())
    }

    /// Reads `len` UTF-16 units, each encoded as UTF-8. A character beyond 16 bits consists of two
    /// surrogates.
    fn utf16(&mut self, len: usize) -> Result<String, ReadError> {
        let mut units = Vec::with_capacity(len.min(self.bytes.len() - self.at));
        for _ in 0..len {
            let first = u16::from(self.byte()?);
            let more = |input: &mut Self| match input.byte()? {
                byte @ 0x80..=0xbf => Ok(u16::from(byte & 0x3f)),
                _ => Err(CHARACTER),
            };
            units.push(match first {
                0x00..=0x7f => first,
                0xc0..=0xdf => (first & 0x1f) << 6 | more(self)?,
                0xe0..=0xef => (first & 0x0f) << 12 | more(self)? << 6 | more(self)?,
                _ => return Err(CHARACTER),
            });
        }
        String::from_utf16(&units).map_err(|_| ReadError::Malformed("half a surrogate pair"))
    }

    /// Reads the name of a class that has no number in Kryo. Within the message, such a class gets
    /// a number; the first gets 0.
    fn class(&mut self) -> Result<String, ReadError> {
        match self.byte()? {
            0 => {}
            _ => return Err(ReadError::Malformed("a class that was not named")),
        }
        let name = self.string()?.filter(|name| !name.is_empty() && name.chars().all(|c| !c.is_control()));
        name.ok_or(ReadError::Malformed("a class without a name"))
    }

    fn array(&mut self) -> Result<Simple, ReadError> {
        match self.varint(5, 32)? {
            0 => Ok(Simple::Null),
            len => {
                let begin = self.at;
                self.take(usize::try_from(len - 1).map_err(|_| ReadError::End)?)?;
                Ok(Simple::Bytes(begin..self.at))
            }
        }
    }
}

const TOO_LONG: ReadError = ReadError::Malformed("a number of more bits than its class has");
const CHARACTER: ReadError = ReadError::Malformed("a character that Kryo does not write");

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
