//! Common parts of the compressing codecs: Redisson's layout, with a length prefix of four bytes.

use bytes::Bytes;

use crate::codec::MAX_SIZE;
use crate::{Codec, DecodeError, EncodeError, LooksLike};

/// Returns the length prefix for `bytes`, or an error if they exceed a limit. Java reads the prefix
/// as `int`.
pub(crate) fn prefix(codec: &impl Codec, bytes: &Bytes, limit: usize) -> Result<Vec<u8>, EncodeError> {
    let size = bytes.len();
    let limit = limit.min(MAX_SIZE);
    match u32::try_from(size) {
        Ok(length) if size <= limit => Ok(length.to_be_bytes().to_vec()),
        _ => Err(EncodeError::TooLarge { codec: codec.name(), size, limit }),
    }
}

/// Splits off the length prefix.
pub(crate) fn split<'a>(
    codec: &impl Codec,
    bytes: &'a Bytes,
    limit: usize,
    expected: &str,
) -> Result<(usize, &'a [u8]), DecodeError> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Err(DecodeError::unexpected(codec, bytes, expected));
    };
    let size = u32::from_be_bytes(*length);
    let limit = limit.min(MAX_SIZE);
    match usize::try_from(size) {
        Ok(size) if size <= limit => Ok((size, rest)),
        _ => match LooksLike::guess(bytes) {
            // The prefix may be a length that is too large, or the bytes may have another format.
            None | Some(LooksLike::Zstd) => {
                Err(DecodeError::TooLarge { codec: codec.name(), size: size.into(), limit: limit as u64 })
            }
            // The bytes are most likely the beginning of an uncompressed value.
            Some(_) => Err(DecodeError::unexpected(codec, bytes, expected)),
        },
    }
}
