//! Order-preserving encodings.

use std::any::type_name;
use std::borrow::Cow;

use bytes::Bytes;

use crate::codec::checked;
use crate::{Codec, Decode, DecodeError, Encode, EncodeError, Raw, Text};

/// A codec with encodings that sort byte by byte in the order of the values of `T`. So the server
/// can keep values in order and find ranges. Sorted sets require it, so a codec without that order
/// does not compile:
///
/// ```
/// use redgrid_codecs::{Natural, Ordered, Text};
/// fn sort<C: Ordered<String>>(_codec: C) {}
/// sort(Natural);
/// sort(Text);
/// ```
///
/// ```compile_fail,E0277
/// use redgrid_codecs::{Ordered, Text};
/// fn sort<C: Ordered<u32>>(_codec: C) {}
/// sort(Text); // "10" is in front of "9"
/// ```
#[diagnostic::on_unimplemented(
    message = "the bytes that `{Self}` writes for `{T}` do not sort in the order of its values",
    note = "`Natural` is for numbers, `char`, `bool`, text, bytes, and tuples that begin with types of a fixed size; \
            `Text` is for text, `Raw` for bytes"
)]
pub trait Ordered<T: ?Sized>: Encode<T> {}

impl Ordered<str> for Text {}
impl Ordered<String> for Text {}
impl Ordered<[u8]> for Raw {}
impl Ordered<Vec<u8>> for Raw {}
impl Ordered<Bytes> for Raw {}
impl<const N: usize> Ordered<[u8; N]> for Raw {}

/// Order-preserving values. Integers are big endian; the sign bit of signed integers is flipped.
/// Floats are ordered as by `total_cmp`, and `char` by its number. Text and bytes are unchanged.
/// Tuples of two and three elements are concatenated; all elements but the last must have a fixed
/// size.
///
/// The order holds within one type: `1_u32` and `1_u64` have different bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Natural;

impl Codec for Natural {
    fn name(&self) -> Cow<'static, str> {
        "Natural".into()
    }
}

/// Types of a fixed size: [`Natural`] writes all their values in the same number of bytes, so that
/// other elements can follow in a tuple.
pub trait FixedSize {
    /// The number of bytes.
    const SIZE: usize;
}

fn invalid<T>(bytes: &Bytes) -> DecodeError {
    DecodeError::unexpected(&Natural, bytes, format!("a `{}`", type_name::<T>()))
}

/// Implements types of a fixed size with two functions, for writing and reading.
macro_rules! fixed {
    ($($type:ty: $size:expr, $write:expr, $read:expr;)*) => {$(
        impl FixedSize for $type {
            const SIZE: usize = $size;
        }

        impl Ordered<$type> for Natural {}

        impl Encode<$type> for Natural {
            fn encode(&self, value: &$type) -> Result<Bytes, EncodeError> {
                let write: fn(&$type) -> [u8; $size] = $write;
                Ok(Bytes::copy_from_slice(&write(value)))
            }
        }

        impl Decode<$type> for Natural {
            fn decode(&self, bytes: &Bytes) -> Result<$type, DecodeError> {
                let read: fn([u8; $size]) -> Option<$type> = $read;
                bytes[..].try_into().ok().and_then(read).ok_or_else(|| invalid::<$type>(bytes))
            }
        }
    )*};
}

fixed! {
    u8: 1, |n| n.to_be_bytes(), |bytes| Some(u8::from_be_bytes(bytes));
    u16: 2, |n| n.to_be_bytes(), |bytes| Some(u16::from_be_bytes(bytes));
    u32: 4, |n| n.to_be_bytes(), |bytes| Some(u32::from_be_bytes(bytes));
    u64: 8, |n| n.to_be_bytes(), |bytes| Some(u64::from_be_bytes(bytes));
    u128: 16, |n| n.to_be_bytes(), |bytes| Some(u128::from_be_bytes(bytes));
    i8: 1, |n| (n ^ i8::MIN).to_be_bytes(), |bytes| Some(i8::from_be_bytes(bytes) ^ i8::MIN);
    i16: 2, |n| (n ^ i16::MIN).to_be_bytes(), |bytes| Some(i16::from_be_bytes(bytes) ^ i16::MIN);
    i32: 4, |n| (n ^ i32::MIN).to_be_bytes(), |bytes| Some(i32::from_be_bytes(bytes) ^ i32::MIN);
    i64: 8, |n| (n ^ i64::MIN).to_be_bytes(), |bytes| Some(i64::from_be_bytes(bytes) ^ i64::MIN);
    i128: 16, |n| (n ^ i128::MIN).to_be_bytes(), |bytes| Some(i128::from_be_bytes(bytes) ^ i128::MIN);
    bool: 1, |truth| [u8::from(*truth)], |[byte]| (byte <= 1).then_some(byte == 1);
    char: 4, |c| u32::from(*c).to_be_bytes(), |bytes| char::from_u32(u32::from_be_bytes(bytes));
    // As `total_cmp`: flips all bits of a negative number, and only the sign bit of another number.
    f32: 4, |x| {
        let bits = x.to_bits();
        (if x.is_sign_negative() { !bits } else { bits | 1 << 31 }).to_be_bytes()
    }, |bytes| {
        let bits = u32::from_be_bytes(bytes);
        Some(f32::from_bits(if bits >> 31 == 0 { !bits } else { bits & !(1 << 31) }))
    };
    f64: 8, |x| {
        let bits = x.to_bits();
        (if x.is_sign_negative() { !bits } else { bits | 1 << 63 }).to_be_bytes()
    }, |bytes| {
        let bits = u64::from_be_bytes(bytes);
        Some(f64::from_bits(if bits >> 63 == 0 { !bits } else { bits & !(1 << 63) }))
    };
}

/// Implements types with another codec, which encodes them in the right order.
macro_rules! delegated {
    ($($type:ty => $codec:ident),*; $($owned:ty),*) => {
        $(
            impl Ordered<$type> for Natural {}

            impl Encode<$type> for Natural {
                fn encode(&self, value: &$type) -> Result<Bytes, EncodeError> {
                    $codec.encode(value)
                }
            }
        )*
        $(impl Decode<$owned> for Natural {
            fn decode(&self, bytes: &Bytes) -> Result<$owned, DecodeError> {
                Raw.decode(bytes)
            }
        })*
    };
}

delegated!(str => Text, String => Text, [u8] => Raw, Vec<u8> => Raw, Bytes => Raw; Vec<u8>, Bytes);

impl Decode<String> for Natural {
    fn decode(&self, bytes: &Bytes) -> Result<String, DecodeError> {
        let text =
            std::str::from_utf8(bytes).map_err(|_| invalid::<String>(bytes).found("bytes that are not UTF-8"))?;
        Ok(text.to_owned())
    }
}

impl<A: FixedSize, B: FixedSize> FixedSize for (A, B) {
    const SIZE: usize = A::SIZE + B::SIZE;
}

impl<A: FixedSize, B> Ordered<(A, B)> for Natural where Natural: Ordered<A> + Ordered<B> {}

impl<A: FixedSize, B> Encode<(A, B)> for Natural
where
    Natural: Encode<A> + Encode<B>,
{
    fn encode(&self, (one, other): &(A, B)) -> Result<Bytes, EncodeError> {
        checked(self, [self.encode(one)?, self.encode(other)?].concat())
    }
}

impl<A: FixedSize, B> Decode<(A, B)> for Natural
where
    Natural: Decode<A> + Decode<B>,
{
    fn decode(&self, bytes: &Bytes) -> Result<(A, B), DecodeError> {
        if bytes.len() < A::SIZE {
            return Err(invalid::<(A, B)>(bytes));
        }
        Ok((self.decode(&bytes.slice(..A::SIZE))?, self.decode(&bytes.slice(A::SIZE..))?))
    }
}

impl<A: FixedSize, B: FixedSize, C> Ordered<(A, B, C)> for Natural where Natural: Ordered<A> + Ordered<B> + Ordered<C> {}

impl<A: FixedSize, B: FixedSize, C> Encode<(A, B, C)> for Natural
where
    Natural: Encode<A> + Encode<B> + Encode<C>,
{
    fn encode(&self, (one, other, third): &(A, B, C)) -> Result<Bytes, EncodeError> {
        checked(self, [self.encode(one)?, self.encode(other)?, self.encode(third)?].concat())
    }
}

impl<A: FixedSize, B: FixedSize, C> Decode<(A, B, C)> for Natural
where
    Natural: Decode<A> + Decode<B> + Decode<C>,
{
    fn decode(&self, bytes: &Bytes) -> Result<(A, B, C), DecodeError> {
        let at = A::SIZE + B::SIZE;
        if bytes.len() < at {
            return Err(invalid::<(A, B, C)>(bytes));
        }
        let one = bytes.slice(..A::SIZE);
        let other = bytes.slice(A::SIZE..at);
        Ok((self.decode(&one)?, self.decode(&other)?, self.decode(&bytes.slice(at..))?))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    /// Checks that these sorted values have sorted bytes, and can be read again.
    fn in_order<T: Debug + PartialEq>(values: &[T])
    where
        Natural: Ordered<T> + Decode<T>,
    {
        let bytes: Vec<Bytes> = values.iter().map(|value| Natural.encode(value).unwrap()).collect();
        assert!(bytes.is_sorted_by(|one, other| one < other), "{values:?}");
        let read: Vec<T> = bytes.iter().map(|bytes| Natural.decode(bytes).unwrap()).collect();
        assert_eq!(read, values);
    }

    #[test]
    fn bytes_have_the_order_of_values() {
        in_order(&[0_u32, 1, 255, 256, 65_536, u32::MAX]);
        in_order(&[i64::MIN, -65_536, -256, -1, 0, 1, 255, 256, i64::MAX]);
        in_order(&[i8::MIN, -1, 0, i8::MAX]);
        in_order(&[i128::MIN, -1, 0, i128::MAX]);
        in_order(&[f64::NEG_INFINITY, -1e300, -1.5, -0.0, 0.0, f64::MIN_POSITIVE, 1.0, 1e300, f64::INFINITY]);
        in_order(&[f32::MIN, -0.5, 0.5, f32::MAX]);
        in_order(&[false, true]);
        in_order(&['a', 'z', 'ü', 'ж', '\u{10ffff}']);
        in_order(&["", "\0", "a", "a\0", "aa", "b", "ü"].map(String::from));
        in_order(&[vec![], vec![0_u8], vec![0, 0], vec![1], vec![255]]);
        in_order(&[(1_u8, String::new()), (1, "a".into()), (2, String::new())]);
        in_order(&[(-1_i64, 5_u8, "b".to_owned()), (0, 0, "z".into()), (0, 1, "a".into())]);
    }

    /// Stored values must remain readable in later versions.
    #[test]
    fn bytes_do_not_change() {
        fn hex<T>(value: T) -> String
        where
            Natural: Encode<T>,
        {
            Natural.encode(&value).unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
        }
        assert_eq!((hex(258_u16), hex(1_u32), hex(1_i8)), ("0102".into(), "00000001".into(), "81".into()));
        assert_eq!((hex(-1_i64), hex(1_i32)), ("7fffffffffffffff".into(), "80000001".into()));
        assert_eq!((hex(1.5_f64), hex(-1.5_f64)), ("bff8000000000000".into(), "4007ffffffffffff".into()));
        assert_eq!((hex(1.5_f32), hex(true), hex('ж')), ("bfc00000".into(), "01".into(), "00000436".into()));
        assert_eq!(hex((5_u16, false, "aü".to_owned())), "00050061c3bc");
    }

    #[test]
    fn invalid_bytes_are_rejected() {
        let bytes = |bytes: &'static [u8]| Bytes::from_static(bytes);
        let told = Decode::<u32>::decode(&Natural, &bytes(b"12345")).unwrap_err();
        assert_eq!(told.codec(), "Natural");
        assert!(Decode::<bool>::decode(&Natural, &bytes(&[2])).is_err());
        assert!(Decode::<char>::decode(&Natural, &bytes(&[0, 0, 0xd8, 0])).is_err());
        assert!(Decode::<String>::decode(&Natural, &bytes(&[0xff])).is_err());
        assert!(Decode::<(u32, String)>::decode(&Natural, &bytes(b"abc")).is_err());
        assert!(Decode::<(u8, u16, String)>::decode(&Natural, &bytes(b"ab")).is_err());
    }
}
