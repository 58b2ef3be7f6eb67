//! The bytes of Kryo 5 as Redisson sets it up, read: a class tag, then the body.

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
    /// Where in the bytes it lies.
    Bytes(Range<usize>),
    Other(String),
}

/// What is wrong with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// They end too soon.
    End,
    /// More bytes behind the value.
    LeftOver(usize),
    /// No tag that Kryo has for itself.
    Tag(u8),
    /// A boolean, a length or a number that Kryo does not write.
    Malformed(&'static str),
}

/// Reads all of `bytes` as one value. Of another class than the simple ones only the name is read.
pub(crate) fn simple(bytes: &[u8]) -> Result<Simple, Trouble> {
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
            _ => return Err(Trouble::Malformed("a boolean that is neither 0 nor 1")),
        },
        6 => Simple::Byte(i8::from_le_bytes(input.fixed()?)),
        7 => Simple::Char(u16::from_le_bytes(input.fixed()?)),
        8 => Simple::Short(i16::from_le_bytes(input.fixed()?)),
        9 => Simple::Long(unzigzag(input.varint(9, 64)?)),
        10 => Simple::Double(f64::from_le_bytes(input.fixed()?)),
        11 => return Ok(Simple::Other("void".to_owned())),
        tag => return Err(Trouble::Tag(tag)),
    };
    match bytes.len() - input.at {
        0 => Ok(value),
        left => Err(Trouble::LeftOver(left)),
    }
}

/// Java's name of `byte[]`.
const BYTES: &str = "[B";

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, Trouble> {
        let byte = *self.bytes.get(self.at).ok_or(Trouble::End)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Trouble> {
        let end = self.at.checked_add(len).ok_or(Trouble::End)?;
        let bytes = self.bytes.get(self.at..end).ok_or(Trouble::End)?;
        self.at = end;
        Ok(bytes)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Trouble> {
        self.take(N)?.try_into().map_err(|_| Trouble::End)
    }

    /// Seven bits a byte, the low ones first, in at most `bytes` bytes; of nine the last has eight. `bits` in all.
    fn varint(&mut self, bytes: u32, bits: u32) -> Result<u64, Trouble> {
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

    /// The same with a flag in the first byte, which is known to be set: six bits, then seven.
    fn flagged(&mut self, first: u8) -> Result<usize, Trouble> {
        let low = u64::from(first & 0x3f);
        let high = match first & 0x40 {
            0 => 0,
            _ => self.varint(4, 28)? << 6,
        };
        // A length is one less; Java's lengths end at 2³¹ − 1.
        match low | high {
            number if number > 1 << 31 => Err(TOO_LONG),
            number => Ok(number as usize),
        }
    }

    /// `None` is null.
    fn string(&mut self) -> Result<Option<String>, Trouble> {
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

    /// ASCII whose last character has bit 7 set.
    fn ascii(&mut self) -> Result<String, Trouble> {
        let rest = &self.bytes[self.at..];
        let last = rest.iter().position(|byte| byte & 0x80 != 0).ok_or(Trouble::End)?;
        let text = self.take(last + 1)?;
        Ok(text.iter().map(|byte| char::from(byte & 0x7f)).collect())
    }

    /// `len` units of UTF-16, each as UTF-8: a character beyond 16 bits as its two surrogates.
    fn utf16(&mut self, len: usize) -> Result<String, Trouble> {
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
        String::from_utf16(&units).map_err(|_| Trouble::Malformed("half a surrogate pair"))
    }

    /// The name of a class that Kryo has no number for. It has a number within the message, 0 for the first.
    fn class(&mut self) -> Result<String, Trouble> {
        match self.byte()? {
            0 => {}
            _ => return Err(Trouble::Malformed("a class that was not named")),
        }
        let name = self.string()?.filter(|name| !name.is_empty() && name.chars().all(|c| !c.is_control()));
        name.ok_or(Trouble::Malformed("a class without a name"))
    }

    fn array(&mut self) -> Result<Simple, Trouble> {
        match self.varint(5, 32)? {
            0 => Ok(Simple::Null),
            len => {
                let begin = self.at;
                self.take(usize::try_from(len - 1).map_err(|_| Trouble::End)?)?;
                Ok(Simple::Bytes(begin..self.at))
            }
        }
    }
}

const TOO_LONG: Trouble = Trouble::Malformed("a number of more bits than its class has");
const CHARACTER: Trouble = Trouble::Malformed("a character that Kryo does not write");

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
