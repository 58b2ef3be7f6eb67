//! The codec and its values.

use std::borrow::Cow;

use bytes::Bytes;

use super::read::{self, ReadError, Simple};
use super::write;
use crate::codec::checked;
use crate::error::cut;
use crate::{Codec, Decode, DecodeError, Encode, EncodeError};

/// The encoding of Redisson's default codec (Kryo5Codec) for null, numbers, booleans, characters,
/// strings and byte arrays, byte for byte.
///
/// | Rust | Java |
/// |---|---|
/// | `i8`, `i16`, `i32`, `i64` | Byte, Short, Integer, Long |
/// | `f32`, `f64` | Float, Double |
/// | `bool`, `char` | Boolean, Character (16 bits: others are refused) |
/// | `str`, `String` | String |
/// | `[u8]`, `Vec<u8>`, `Bytes` | byte[] |
/// | `Option<T>`, `()` | null |
/// | [`KryoValue`] | any of them |
///
/// Reading accepts more: an integer is read from each of Java's integer types if it fits, and `f64`
/// also from Float. Other classes are rejected, and the error names them, because their encoding
/// depends on the fields of the Java class. For those, configure a codec in Java that both sides
/// have, such as `TypedJsonJacksonCodec` with [`Json`](crate::Json).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[doc(alias = "Kryo5Codec")]
pub struct Kryo;

/// A simple value of Java's, of any class.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum KryoValue {
    /// null
    Null,
    /// java.lang.Boolean
    Boolean(bool),
    /// java.lang.Byte
    Byte(i8),
    /// java.lang.Short
    Short(i16),
    /// java.lang.Integer
    Integer(i32),
    /// java.lang.Long
    Long(i64),
    /// java.lang.Float
    Float(f32),
    /// java.lang.Double
    Double(f64),
    /// java.lang.Character
    Character(char),
    /// java.lang.String
    String(String),
    /// byte[]
    Bytes(Bytes),
}

impl Codec for Kryo {
    fn name(&self) -> Cow<'static, str> {
        "Kryo".into()
    }
}

impl Kryo {
    fn read(&self, bytes: &Bytes, expected: &str) -> Result<KryoValue, DecodeError> {
        let unexpected = |found: String| DecodeError::unexpected(self, bytes, expected).found(found);
        Ok(match read::simple(bytes) {
            Ok(Simple::Null) => KryoValue::Null,
            Ok(Simple::Boolean(value)) => KryoValue::Boolean(value),
            Ok(Simple::Byte(value)) => KryoValue::Byte(value),
            Ok(Simple::Short(value)) => KryoValue::Short(value),
            Ok(Simple::Int(value)) => KryoValue::Integer(value),
            Ok(Simple::Long(value)) => KryoValue::Long(value),
            Ok(Simple::Float(value)) => KryoValue::Float(value),
            Ok(Simple::Double(value)) => KryoValue::Double(value),
            Ok(Simple::Char(unit)) => match char::from_u32(u32::from(unit)) {
                Some(value) => KryoValue::Character(value),
                None => return Err(unexpected("half a surrogate pair".to_owned())),
            },
            Ok(Simple::String(value)) => KryoValue::String(value),
            Ok(Simple::Bytes(range)) => KryoValue::Bytes(bytes.slice(range)),
            Ok(Simple::Other(class)) => {
                return Err(unexpected(format!("an object of class `{}`", cut(&class))));
            }
            Err(ReadError::End) => return Err(unexpected("the end of the bytes".to_owned())),
            Err(ReadError::LeftOver(left)) => {
                return Err(DecodeError::unexpected(self, bytes, expected).left_over(left));
            }
            Err(ReadError::Tag(tag)) => return Err(unexpected(format!("the class number {tag}, unknown to Kryo"))),
            Err(ReadError::Malformed(what)) => return Err(unexpected(what.to_owned())),
        })
    }

    /// Reads a value, and converts it with `pick`.
    fn pick<T>(
        &self,
        bytes: &Bytes,
        expected: &str,
        pick: impl FnOnce(KryoValue) -> Result<T, KryoValue>,
    ) -> Result<T, DecodeError> {
        let refused = match pick(self.read(bytes, expected)?) {
            Ok(value) => return Ok(value),
            Err(refused) => refused,
        };
        Err(DecodeError::unexpected(self, bytes, expected).found(refused.class()))
    }
}

impl KryoValue {
    /// Returns the name of the value's Java class.
    pub fn class(&self) -> &'static str {
        match self {
            KryoValue::Null => "null",
            KryoValue::Boolean(_) => "java.lang.Boolean",
            KryoValue::Byte(_) => "java.lang.Byte",
            KryoValue::Short(_) => "java.lang.Short",
            KryoValue::Integer(_) => "java.lang.Integer",
            KryoValue::Long(_) => "java.lang.Long",
            KryoValue::Float(_) => "java.lang.Float",
            KryoValue::Double(_) => "java.lang.Double",
            KryoValue::Character(_) => "java.lang.Character",
            KryoValue::String(_) => "java.lang.String",
            KryoValue::Bytes(_) => "byte[]",
        }
    }

    fn integer(&self) -> Option<i64> {
        match *self {
            KryoValue::Byte(value) => Some(value.into()),
            KryoValue::Short(value) => Some(value.into()),
            KryoValue::Integer(value) => Some(value.into()),
            KryoValue::Long(value) => Some(value),
            _ => None,
        }
    }
}

/// Declares the encoding of a type, and the values that it is decoded from.
macro_rules! simple {
    ($($type:ty, $expected:literal: |$value:ident| $write:expr, $($pattern:pat => $read:expr),+;)*) => {
        $(impl Encode<$type> for Kryo {
            fn encode(&self, $value: &$type) -> Result<Bytes, EncodeError> {
                checked(self, $write)
            }
        }

        impl Decode<$type> for Kryo {
            fn decode(&self, bytes: &Bytes) -> Result<$type, DecodeError> {
                self.pick(bytes, $expected, |value| match value {
                    $($pattern => Ok($read),)+
                    other => Err(other),
                })
            }
        })*
    };
}

simple! {
    (), "null": |_value| vec![0], KryoValue::Null => ();
    bool, "a Boolean": |value| write::fixed(5, [u8::from(*value)]), KryoValue::Boolean(value) => value;
    f32, "a Float": |value| write::fixed(4, value.to_le_bytes()), KryoValue::Float(value) => value;
    f64, "a Double or a Float": |value| write::fixed(10, value.to_le_bytes()),
        KryoValue::Double(value) => value, KryoValue::Float(value) => value.into();
    String, "a String": |value| write::string(value), KryoValue::String(value) => value;
    Vec<u8>, "a byte[]": |value| write::bytes(value), KryoValue::Bytes(value) => value.into();
    Bytes, "a byte[]": |value| write::bytes(value), KryoValue::Bytes(value) => value;
}

macro_rules! integers {
    ($($type:ty: |$value:ident| $write:expr;)*) => {
        $(impl Encode<$type> for Kryo {
            fn encode(&self, $value: &$type) -> Result<Bytes, EncodeError> {
                checked(self, $write)
            }
        }

        impl Decode<$type> for Kryo {
            fn decode(&self, bytes: &Bytes) -> Result<$type, DecodeError> {
                let expected = concat!("a Byte, Short, Integer or Long that fits `", stringify!($type), "`");
                self.pick(bytes, expected, |value| {
                    value.integer().and_then(|number| number.try_into().ok()).ok_or(value)
                })
            }
        })*
    };
}

integers! {
    i8: |value| write::fixed(6, value.to_le_bytes());
    i16: |value| write::fixed(8, value.to_le_bytes());
    i32: |value| write::int(*value);
    i64: |value| write::long(*value);
}

impl Encode<str> for Kryo {
    fn encode(&self, value: &str) -> Result<Bytes, EncodeError> {
        checked(self, write::string(value))
    }
}

impl Encode<[u8]> for Kryo {
    fn encode(&self, value: &[u8]) -> Result<Bytes, EncodeError> {
        checked(self, write::bytes(value))
    }
}

impl Encode<char> for Kryo {
    fn encode(&self, value: &char) -> Result<Bytes, EncodeError> {
        match u16::try_from(u32::from(*value)) {
            Ok(unit) => checked(self, write::fixed(7, unit.to_le_bytes())),
            Err(_) => Err(EncodeError::unsupported(self, "characters of 16 bits", "longer ones")),
        }
    }
}

impl Decode<char> for Kryo {
    fn decode(&self, bytes: &Bytes) -> Result<char, DecodeError> {
        self.pick(bytes, "a Character", |value| match value {
            KryoValue::Character(value) => Ok(value),
            other => Err(other),
        })
    }
}

impl<T> Encode<Option<T>> for Kryo
where
    Kryo: Encode<T>,
{
    fn encode(&self, value: &Option<T>) -> Result<Bytes, EncodeError> {
        match value {
            Some(value) => self.encode(value),
            None => Encode::<()>::encode(self, &()),
        }
    }
}

impl<T> Decode<Option<T>> for Kryo
where
    Kryo: Decode<T>,
{
    fn decode(&self, bytes: &Bytes) -> Result<Option<T>, DecodeError> {
        match read::simple(bytes) {
            Ok(Simple::Null) => Ok(None),
            _ => self.decode(bytes).map(Some),
        }
    }
}

impl Encode<KryoValue> for Kryo {
    fn encode(&self, value: &KryoValue) -> Result<Bytes, EncodeError> {
        match value {
            KryoValue::Null => self.encode(&()),
            KryoValue::Boolean(value) => self.encode(value),
            KryoValue::Byte(value) => self.encode(value),
            KryoValue::Short(value) => self.encode(value),
            KryoValue::Integer(value) => self.encode(value),
            KryoValue::Long(value) => self.encode(value),
            KryoValue::Float(value) => self.encode(value),
            KryoValue::Double(value) => self.encode(value),
            KryoValue::Character(value) => self.encode(value),
            KryoValue::String(value) => self.encode(value),
            KryoValue::Bytes(value) => self.encode(value),
        }
    }
}

impl Decode<KryoValue> for Kryo {
    fn decode(&self, bytes: &Bytes) -> Result<KryoValue, DecodeError> {
        self.read(bytes, "null, a number, a boolean, a character, a string or a byte array")
    }
}
