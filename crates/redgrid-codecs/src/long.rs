//! Integers as text.

use std::borrow::Cow;

use bytes::Bytes;

use crate::text::text;
use crate::{Arithmetic, Codec, Decode, DecodeError, Encode, EncodeError, Numeric};

/// Signed 64-bit integers as decimal text, as the server's counters and Redisson's LongCodec (and
/// IntegerCodec) write them. Smaller integer types of Rust are written in the same way, and read if
/// the number fits. Values of `u64`, `usize` and `isize` must fit into signed 64 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[doc(alias = "LongCodec")]
#[doc(alias = "IntegerCodec")]
pub struct Long;

impl Codec for Long {
    fn name(&self) -> Cow<'static, str> {
        "Long".into()
    }
}

macro_rules! integers {
    ($($type:ty)*) => {
        $(impl Encode<$type> for Long {
            fn encode(&self, value: &$type) -> Result<Bytes, EncodeError> {
                match i64::try_from(*value) {
                    Ok(number) => Ok(number.to_string().into_bytes().into()),
                    Err(_) => Err(EncodeError::unsupported(self, RANGE, "a greater one")),
                }
            }
        }

        impl Decode<$type> for Long {
            fn decode(&self, bytes: &Bytes) -> Result<$type, DecodeError> {
                let expected = concat!("a whole number that fits `", stringify!($type), "`");
                number(bytes)
                    .ok_or_else(|| DecodeError::unexpected(self, bytes, expected))?
                    .try_into()
                    .map_err(|_| DecodeError::unexpected(self, bytes, expected).found("a number that does not fit"))
            }
        }

        impl Numeric<$type> for Long {
            const ARITHMETIC: Arithmetic = Arithmetic::Integer;
        })*
    };
}

integers! { i8 i16 i32 i64 isize u8 u16 u32 u64 usize }

const RANGE: &str = "whole numbers of up to 9223372036854775807";

fn number(bytes: &[u8]) -> Option<i64> {
    text(bytes)?.parse().ok()
}
