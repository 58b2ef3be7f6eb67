//! postcard.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::serial::{self, Format};
use crate::{Codec, Decode, DecodeError, Encode, EncodeError};

/// postcard 1 (specified at postcard.jamesmunns.com). Values are concatenated without names or
/// types. It is the smallest format here, but suitable only for programs that share the type: an
/// added, removed or reordered field makes old values unreadable, or misread.
///
/// Types that need a self-describing format (`serde_json::Value`, `#[serde(untagged)]`,
/// `#[serde(flatten)]`) cannot be read. Fields that are sometimes omitted (`skip_serializing_if`)
/// are misread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Postcard;

impl Codec for Postcard {
    fn name(&self) -> Cow<'static, str> {
        "Postcard".into()
    }
}

impl<T: Serialize + ?Sized> Encode<T> for Postcard {
    fn encode(&self, value: &T) -> Result<Bytes, EncodeError> {
        serial::encode(self, Format::default(), value, |value| postcard::to_allocvec(value), describe)
    }
}

impl<T: DeserializeOwned> Decode<T> for Postcard {
    fn decode(&self, bytes: &Bytes) -> Result<T, DecodeError> {
        let read = |seed: serial::Seed<'_, T>| {
            let mut postcard = postcard::Deserializer::from_bytes(bytes);
            let value = seed.deserialize(&mut postcard)?;
            Ok((value, postcard.finalize()?.len()))
        };
        serial::decode(self, Format::default(), bytes, read, describe)
    }
}

fn describe(error: postcard::Error) -> String {
    use postcard::Error;
    match error {
        Error::DeserializeUnexpectedEnd => "the end of the bytes".to_owned(),
        Error::DeserializeBadVarint => "a whole number that does not fit".to_owned(),
        Error::DeserializeBadBool => "a boolean that is neither 0 nor 1".to_owned(),
        Error::DeserializeBadChar => "an invalid character".to_owned(),
        Error::DeserializeBadUtf8 => "a string that is not UTF-8".to_owned(),
        Error::DeserializeBadOption => "an option that is neither 0 nor 1".to_owned(),
        Error::DeserializeBadEnum => "an invalid variant".to_owned(),
        // postcard discards the text of the type's error.
        Error::SerdeDeCustom => "a value that the type rejects".to_owned(),
        Error::SerdeSerCustom => "the type rejects it".to_owned(),
        Error::WontImplement => "a type that needs a self-describing format, which postcard is not".to_owned(),
        Error::SerializeSeqLengthUnknown => "a sequence of unknown length".to_owned(),
        other => other.to_string(),
    }
}
