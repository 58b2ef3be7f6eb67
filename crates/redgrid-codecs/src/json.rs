//! JSON.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::serial::{self, Format};
use crate::{Codec, Decode, DecodeError, Encode, EncodeError};

/// JSON (RFC 8259) in UTF-8, implemented by serde_json. It is the default codec of objects, and can
/// be read by people and in every language.
///
/// A struct is an object with its fields by name. So fields can be added (with `#[serde(default)]`)
/// and removed while old values exist. Floats are written in the shortest form and read exactly.
/// NaN and infinities are rejected, because JSON has none. `None` and `()` are both `null`, so
/// `Some(None)` and `Some(())` are read as `None`.
///
/// Java reads it with Redisson's `TypedJsonJacksonCodec` for the class. `JsonJacksonCodec` requires
/// the name of a Java class in the value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[doc(alias = "JsonJacksonCodec")]
#[doc(alias = "TypedJsonJacksonCodec")]
pub struct Json;

const FORMAT: Format = Format { finite_only: true, typed_floats: false };

impl Codec for Json {
    fn name(&self) -> Cow<'static, str> {
        "Json".into()
    }
}

impl<T: Serialize + ?Sized> Encode<T> for Json {
    fn encode(&self, value: &T) -> Result<Bytes, EncodeError> {
        serial::encode(self, FORMAT, value, |value| serde_json::to_vec(value), |error| error.to_string())
    }
}

impl<T: DeserializeOwned> Decode<T> for Json {
    fn decode(&self, bytes: &Bytes) -> Result<T, DecodeError> {
        let read = |seed: serial::Seed<'_, T>| {
            let mut json = serde_json::Deserializer::from_slice(bytes);
            // serde_json's limit counts differently from ours, which is reached first.
            json.disable_recursion_limit();
            let value = seed.deserialize(&mut json)?;
            json.end()?;
            Ok((value, 0))
        };
        serial::decode(self, FORMAT, bytes, read, describe)
    }
}

/// Returns the error's text without the position.
fn describe(error: serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    match text.strip_suffix(&place) {
        Some(reason) if error.is_data() => reason.to_owned(),
        _ => text,
    }
}
