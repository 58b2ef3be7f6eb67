//! What the wrappers that compress have in common: Redisson's layout, a length of four bytes in front.

use bytes::Bytes;

use crate::codec::MAX_SIZE;
use crate::{Codec, DecodeError, EncodeError};

/// How many bytes a value may have uncompressed unless the codec says otherwise: 64 MiB. A few hundred bytes can decompress to as
/// much as this, so it is a bound of what somebody who can write to the server has your process take; larger values want it larger.
pub const MAX_DECOMPRESSED: usize = 64 << 20;

/// The length in front of what `bytes` become, if they are not too many: Java reads it as `int`.
pub(crate) fn prefix(codec: &impl Codec, bytes: &Bytes, limit: usize) -> Result<Vec<u8>, EncodeError> {
    let (size, limit) = (bytes.len(), limit.min(MAX_SIZE));
    match u32::try_from(size) {
        Ok(length) if size <= limit => Ok(length.to_be_bytes().to_vec()),
        _ => Err(EncodeError::TooLarge { codec: codec.name(), size, limit }),
    }
}

/// The length that stands in front, and what follows it.
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
        // Most likely no length at all: what has no such length in front was written by somebody else.
        _ if crate::LooksLike::guess(bytes).is_some() => Err(DecodeError::unexpected(codec, bytes, expected)),
        _ => Err(DecodeError::TooLarge { codec: codec.name(), size: size.into(), limit: limit as u64 }),
    }
}
