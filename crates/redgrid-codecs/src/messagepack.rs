//! MessagePack.

use std::borrow::Cow;

use bytes::Bytes;
use rmp_serde::decode::Error as Refused;
use rmp_serde::{Deserializer, Serializer};
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::serial::{self, Format};
use crate::{Codec, Decode, DecodeError, Encode, EncodeError};

/// MessagePack, implemented by rmp-serde: the data model of JSON in fewer bytes, with native byte
/// arrays (`serde_bytes`). A struct is a map with its fields by name, so fields can be added and
/// removed as in [`Json`](crate::Json). A struct written as an array can also be read. `Some(None)`
/// and `Some(())` are read as `None`.
///
/// Java reads it with Redisson's `TypedJsonJacksonCodec` and an `ObjectMapper` for MessagePack.
/// `MsgPackJacksonCodec` requires the name of a Java class in the value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[doc(alias = "MsgPackJacksonCodec")]
pub struct MessagePack;

impl Codec for MessagePack {
    fn name(&self) -> Cow<'static, str> {
        "MessagePack".into()
    }
}

impl<T: Serialize + ?Sized> Encode<T> for MessagePack {
    fn encode(&self, value: &T) -> Result<Bytes, EncodeError> {
        let write = |value: &serial::Guarded<'_, T>| {
            let mut bytes = Vec::new();
            value.serialize(&mut Serializer::new(&mut bytes).with_struct_map())?;
            Ok::<_, rmp_serde::encode::Error>(bytes)
        };
        serial::encode(self, Format::default(), value, write, |error| error.to_string())
    }
}

impl<T: DeserializeOwned> Decode<T> for MessagePack {
    fn decode(&self, bytes: &Bytes) -> Result<T, DecodeError> {
        let read = |seed: serial::Seed<'_, T>| {
            let mut rest = &bytes[..];
            // The limit of rmp-serde does not suffice: it is 1,024 levels, and does not count
            // nested enums.
            let mut messagepack = Deserializer::new(&mut rest);
            let value = seed.deserialize(&mut messagepack)?;
            Ok((value, rest.len()))
        };
        serial::decode(self, Format::default(), bytes, read, describe)
    }
}

fn describe(error: Refused) -> String {
    match error {
        Refused::Uncategorized(text) | Refused::Syntax(text) => text,
        Refused::InvalidMarkerRead(_) | Refused::InvalidDataRead(_) => "the end of the bytes".to_owned(),
        Refused::OutOfRange => "a number that does not fit".to_owned(),
        Refused::TypeMismatch(mark) => kind(&format!("{mark:?}")).to_owned(),
        other => other.to_string(),
    }
}

/// Returns the type of a marker, without the number or length that it may contain.
fn kind(mark: &str) -> &'static str {
    match mark.split('(').next().unwrap_or_default() {
        "FixPos" | "FixNeg" | "U8" | "U16" | "U32" | "U64" | "I8" | "I16" | "I32" | "I64" => "a whole number",
        "F32" | "F64" => "a floating-point number",
        "FixStr" | "Str8" | "Str16" | "Str32" => "a string",
        "Bin8" | "Bin16" | "Bin32" => "a byte array",
        "FixArray" | "Array16" | "Array32" => "an array",
        "FixMap" | "Map16" | "Map32" => "a map",
        "True" | "False" => "a boolean",
        "Null" => "null",
        "Reserved" => "a byte that MessagePack does not use",
        _ => "an extension",
    }
}
