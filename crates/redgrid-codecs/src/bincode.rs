//! bincode.

use std::borrow::Cow;

use bincode::config::{Configuration, standard};
use bincode::error::{DecodeError as Refused, EncodeError as Unwritten};
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::serial::{self, Format};
use crate::{Codec, Decode, DecodeError, Encode, EncodeError};

/// bincode 2 in its standard configuration (little endian, variable-length integers). Values are
/// concatenated without names or types. It is small and fast, but suitable only for programs that
/// share the type: an added, removed or reordered field makes old values unreadable, or misread.
///
/// The crate `bincode` is no longer maintained (RUSTSEC-2025-0141). Its format is final, so values
/// stay readable. For new data use [`Postcard`](crate::Postcard), which is as small, has a written
/// specification and is maintained.
///
/// Types that need a self-describing format (`serde_json::Value`, `#[serde(untagged)]`,
/// `#[serde(flatten)]`) cannot be read. Fields that are sometimes omitted (`skip_serializing_if`)
/// are misread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Bincode;

const CONFIG: Configuration = standard();

impl Codec for Bincode {
    fn name(&self) -> Cow<'static, str> {
        "Bincode".into()
    }
}

impl<T: Serialize + ?Sized> Encode<T> for Bincode {
    fn encode(&self, value: &T) -> Result<Bytes, EncodeError> {
        let describe = |error| match error {
            Unwritten::OtherString(text) => text,
            other => other.to_string(),
        };
        serial::encode(self, Format::default(), value, |value| bincode::serde::encode_to_vec(value, CONFIG), describe)
    }
}

impl<T: DeserializeOwned> Decode<T> for Bincode {
    fn decode(&self, bytes: &Bytes) -> Result<T, DecodeError> {
        let read = |seed: serial::Seed<'_, T>| {
            let (value, read) = bincode::serde::seed_decode_from_slice(seed, bytes, CONFIG)?;
            Ok((value, bytes.len() - read))
        };
        serial::decode(self, Format::default(), bytes, read, describe)
    }
}

/// Returns the error's text without the input bytes that some variants contain.
fn describe(error: Refused) -> String {
    match error {
        Refused::OtherString(text) => text,
        Refused::UnexpectedEnd { .. } => "the end of the bytes".to_owned(),
        Refused::Utf8 { .. } => "a string that is not UTF-8".to_owned(),
        Refused::InvalidBooleanValue(_) => "a boolean that is neither 0 nor 1".to_owned(),
        Refused::InvalidCharEncoding(_) => "an invalid character".to_owned(),
        Refused::UnexpectedVariant { type_name, .. } => format!("an invalid variant of `{type_name}`"),
        other => other.to_string(),
    }
}
