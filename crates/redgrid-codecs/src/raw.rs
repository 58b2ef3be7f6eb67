//! Unchanged bytes.

use std::borrow::Cow;

use bytes::Bytes;

use crate::codec::MAX_SIZE;
use crate::{Codec, Decode, DecodeError, Encode, EncodeError};

/// Unchanged bytes: `Bytes` (without a copy), `Vec<u8>`, `[u8]`, and arrays of the exact length. It
/// corresponds to Redisson's ByteArrayCodec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[doc(alias = "ByteArrayCodec")]
pub struct Raw;

impl Codec for Raw {
    fn name(&self) -> Cow<'static, str> {
        "Raw".into()
    }
}

impl Raw {
    fn size_checked(&self, size: usize, bytes: impl FnOnce() -> Bytes) -> Result<Bytes, EncodeError> {
        match size {
            size if size > MAX_SIZE => Err(EncodeError::TooLarge { codec: self.name(), size, limit: MAX_SIZE }),
            _ => Ok(bytes()),
        }
    }
}

impl Encode<Bytes> for Raw {
    fn encode(&self, value: &Bytes) -> Result<Bytes, EncodeError> {
        self.size_checked(value.len(), || value.clone())
    }
}

impl Encode<[u8]> for Raw {
    fn encode(&self, value: &[u8]) -> Result<Bytes, EncodeError> {
        self.size_checked(value.len(), || Bytes::copy_from_slice(value))
    }
}

impl Encode<Vec<u8>> for Raw {
    fn encode(&self, value: &Vec<u8>) -> Result<Bytes, EncodeError> {
        self.encode(&value[..])
    }
}

impl<const N: usize> Encode<[u8; N]> for Raw {
    fn encode(&self, value: &[u8; N]) -> Result<Bytes, EncodeError> {
        self.encode(&value[..])
    }
}

impl Decode<Bytes> for Raw {
    fn decode(&self, bytes: &Bytes) -> Result<Bytes, DecodeError> {
        Ok(bytes.clone())
    }
}

impl Decode<Vec<u8>> for Raw {
    fn decode(&self, bytes: &Bytes) -> Result<Vec<u8>, DecodeError> {
        Ok(bytes.to_vec())
    }
}

impl<const N: usize> Decode<[u8; N]> for Raw {
    fn decode(&self, bytes: &Bytes) -> Result<[u8; N], DecodeError> {
        bytes[..].try_into().map_err(|_| DecodeError::unexpected(self, bytes, format!("{N} bytes")))
    }
}
