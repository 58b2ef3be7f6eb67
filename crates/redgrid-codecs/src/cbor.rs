//! CBOR.

use std::borrow::Cow;
use std::convert::Infallible;

use bytes::Bytes;
use cbor4ii::core::dec::{Read, Reference};
use cbor4ii::core::error::DecodeError as Malformed;
use cbor4ii::serde::{DecodeError as Refused, Deserializer, EncodeError as Unwritten, to_vec};
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::codec::MAX_DEPTH;
use crate::looks_like::SELF_DESCRIBED;
use crate::serial::{self, Format};
use crate::{Codec, Decode, DecodeError, Encode, EncodeError};

/// CBOR (RFC 8949), implemented by cbor4ii: the data model of JSON in fewer bytes, and an internet
/// standard. A struct is a map with its fields by name, so fields can be added and removed as in
/// [`Json`](crate::Json).
///
/// `()` is an empty array, to distinguish it from `None`. Floats are read from every width and from
/// integers. Tags are rejected, except those of big integers and a leading self-description tag.
///
/// Java reads it with Redisson's `TypedJsonJacksonCodec` and an `ObjectMapper` for CBOR.
/// `CborJacksonCodec` requires the name of a Java class in the value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[doc(alias = "CborJacksonCodec")]
pub struct Cbor;

const FORMAT: Format = Format { finite_only: false, typed_floats: true };

impl Codec for Cbor {
    fn name(&self) -> Cow<'static, str> {
        "Cbor".into()
    }
}

impl<T: Serialize + ?Sized> Encode<T> for Cbor {
    fn encode(&self, value: &T) -> Result<Bytes, EncodeError> {
        let describe = |error| match error {
            Unwritten::Custom(text) => text.into(),
            other => other.to_string(),
        };
        serial::encode(self, FORMAT, value, |value| to_vec(Vec::new(), value), describe)
    }
}

impl<T: DeserializeOwned> Decode<T> for Cbor {
    fn decode(&self, bytes: &Bytes) -> Result<T, DecodeError> {
        let read = |seed: serial::Seed<'_, T>| {
            let rest = bytes.strip_prefix(SELF_DESCRIBED).unwrap_or(bytes);
            let mut cbor = Deserializer::new(Reader { rest, levels: INNER_DEPTH });
            let value = seed.deserialize(&mut cbor)?;
            Ok((value, cbor.into_inner().rest.len()))
        };
        serial::decode(self, FORMAT, bytes, read, describe)
    }
}

/// The depth limit for cbor4ii. It counts up to three levels for one of ours, so its limit must be
/// higher. It applies only to skipped values, which cbor4ii reads iteratively.
const INNER_DEPTH: usize = 4 * MAX_DEPTH;

struct Reader<'de> {
    rest: &'de [u8],
    levels: usize,
}

impl<'de> Read<'de> for Reader<'de> {
    type Error = Infallible;

    fn fill<'b>(&'b mut self, want: usize) -> Result<Reference<'de, 'b>, Infallible> {
        Ok(Reference::Long(&self.rest[..want.min(self.rest.len())]))
    }

    fn advance(&mut self, n: usize) {
        self.rest = &self.rest[n.min(self.rest.len())..];
    }

    fn step_in(&mut self) -> bool {
        let left = self.levels.checked_sub(1);
        self.levels = left.unwrap_or(0);
        left.is_some()
    }

    fn step_out(&mut self) {
        self.levels += 1;
    }
}

fn describe(error: Refused<Infallible>) -> String {
    match error {
        Refused::Custom(text) => text.into(),
        Refused::Core(Malformed::Eof { .. }) => "the end of the bytes".to_owned(),
        Refused::Core(Malformed::Mismatch { name, found } | Malformed::Unsupported { name, found }) => {
            format!("{} where `{name}` is expected", major(found))
        }
        Refused::Core(Malformed::RequireUtf8 { .. }) => "a string that is not UTF-8".to_owned(),
        Refused::Core(Malformed::DepthOverflow { .. }) => "a value nested too deeply to be skipped".to_owned(),
        Refused::Core(Malformed::CastOverflow { .. } | Malformed::ArithmeticOverflow { .. }) => {
            "a number that does not fit".to_owned()
        }
        Refused::Core(Malformed::RequireLength { name, .. }) => format!("a length other than that of `{name}`"),
        other => other.to_string(),
    }
}

/// Returns a description of the major type of an initial byte.
fn major(byte: u8) -> &'static str {
    match byte >> 5 {
        0 | 1 => "a whole number",
        2 => "a byte string",
        3 => "a string",
        4 => "an array",
        5 => "a map",
        6 => "a tag",
        _ => "a float, a boolean or null",
    }
}
