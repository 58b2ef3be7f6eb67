//! Values as text.

use std::any::type_name;
use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use bytes::Bytes;

use crate::codec::checked;
use crate::{Arithmetic, Codec, Decode, DecodeError, Encode, EncodeError, Numeric};

/// A value in UTF-8 as its [`Display`] writes it and its [`FromStr`] reads it: strings, numbers,
/// addresses, ids. It corresponds to Redisson's StringCodec.
///
/// The server can add to numbers in this format ([`Numeric`]) within its range: integers of up to
/// 64 bits with sign.
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
        // Prevents that an error of a user's `Display` becomes a panic.
        std::fmt::write(&mut text, format_args!("{value}"))
            .map_err(|_| EncodeError::unsupported(self, "printable values", format!("a `{}`", type_name::<T>())))?;
        checked(self, text.into_bytes())
    }
}

impl<T: FromStr> Decode<T> for Text {
    fn decode(&self, bytes: &Bytes) -> Result<T, DecodeError> {
        let expected = || format!("a `{}` as text", type_name::<T>());
        match text(bytes) {
            None => Err(DecodeError::unexpected(self, bytes, expected()).found("bytes that are not UTF-8")),
            Some(text) => text.parse().map_err(|_| {
                let found = format!("another text of {} bytes", bytes.len());
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

/// Returns the bytes as UTF-8 text.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
