//! JSON.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::serial::{self, Format};
use crate::{Codec, Decode, DecodeError, Encode, EncodeError};

/// JSON (RFC 8259) in UTF-8, by serde_json: what an object uses that names no codec. People and every language read it.
///
/// A struct is an object with its fields by name, so fields can be added (`#[serde(default)]` at the new one) and removed
/// while old values lie about. Floats are written shortest and read exactly. NaN and infinities are refused: JSON has none. What
/// is `None` and what is `()` is `null`, so `Some(None)` and `Some(())` are read as `None`.
///
/// Java reads it with Redisson's `TypedJsonJacksonCodec` for the class; `JsonJacksonCodec` wants the name of a Java class within.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[doc(alias = "JsonJacksonCodec")]
#[doc(alias = "TypedJsonJacksonCodec")]
pub struct Json;

const FORMAT: Format = Format { finite_only: true, floats_by_mark: false };

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
            // It does not count what we count; ours comes first.
            json.disable_recursion_limit();
            let value = seed.deserialize(&mut json)?;
            json.end()?;
            Ok((value, 0))
        };
        serial::decode(self, FORMAT, bytes, read, say)
    }
}

/// Without the place, which does not belong to what was expected.
fn say(error: serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    match text.strip_suffix(&place) {
        Some(reason) if error.is_data() => reason.to_owned(),
        _ => text,
    }
}
