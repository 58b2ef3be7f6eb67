//! Values as text.

use std::any::type_name;
use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use bytes::Bytes;

use crate::codec::checked;
use crate::{Arithmetic, Codec, Decode, DecodeError, Encode, EncodeError, Numeric};

/// A value as its [`Display`] writes it, in UTF-8, and read by its [`FromStr`]: strings, numbers, addresses, ids. Redisson's StringCodec.
///
/// The server can add to numbers that are written so ([`Numeric`]), if it counts that far: integers of up to 64 bits with a sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[doc(alias = "StringCodec")]
#[doc(alias = "IntegerCodec")]
pub struct Text;

impl Codec for Text {
    fn name(&self) -> Cow<'static, str> {
        "Text".into()
    }
}

impl<T: Display + ?Sized> Encode<T> for Text {
    fn encode(&self, value: &T) -> Result<Bytes, EncodeError> {
        let mut text = String::new();
        // What a `Display` of a user's returns is not to be a panic here.
        std::fmt::write(&mut text, format_args!("{value}"))
            .map_err(|_| EncodeError::unsupported(self, "what has a text", format!("a `{}`", type_name::<T>())))?;
        checked(self, text.into_bytes())
    }
}

impl<T: FromStr> Decode<T> for Text {
    fn decode(&self, bytes: &Bytes) -> Result<T, DecodeError> {
        let expected = || format!("a `{}` as text", type_name::<T>());
        match text(bytes) {
            None => Err(DecodeError::unexpected(self, bytes, expected()).found("bytes that are not UTF-8")),
            Some(text) => text.parse().map_err(|_| {
                let found = format!("a text of {} bytes that is none", bytes.len());
                DecodeError::unexpected(self, bytes, expected()).found(found)
            }),
        }
    }
}

macro_rules! numeric {
    ($($arithmetic:ident: $($type:ty)*),* $(,)?) => {
        $($(impl Numeric<$type> for Text {
            const ARITHMETIC: Arithmetic = Arithmetic::$arithmetic;
        })*)*
    };
}

numeric! {
    Integer: i8 i16 i32 i64 u8 u16 u32,
    Float: f32 f64,
}

/// As UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
