//! LZ4 around another codec.

use std::borrow::Cow;

use bytes::Bytes;

use crate::codec::{MAX_DECOMPRESSED, checked};
use crate::compressed::{prefix, split};
use crate::{Codec, Decode, DecodeError, Encode, EncodeError};

/// Compresses the output of `C` with LZ4, which is fast, and halves the size of text approximately.
/// The layout is that of Redisson's LZ4Codec and LZ4CodecV2 (the length in four bytes, then a
/// block). So `Lz4<Kryo>` is equivalent to Redisson's `new LZ4Codec()`.
///
/// `LIMIT` is the maximum uncompressed size that is written and read. The default is
/// [`MAX_DECOMPRESSED`]; set another as in `Lz4<Json, { 256 << 20 }>`. A larger length is rejected
/// before memory is allocated. So is a length that LZ4 cannot reach from so few bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[doc(alias = "LZ4Codec")]
#[doc(alias = "LZ4CodecV2")]
// Not `#[non_exhaustive]`: users construct it as `Lz4(codec)`.
pub struct Lz4<C, const LIMIT: usize = MAX_DECOMPRESSED>(pub C);

impl<C> Lz4<C> {
    /// Wraps `codec`, with the default limit.
    pub const fn new(codec: C) -> Lz4<C> {
        Lz4(codec)
    }
}

impl<C: Codec, const LIMIT: usize> Codec for Lz4<C, LIMIT> {
    fn name(&self) -> Cow<'static, str> {
        format!("Lz4<{}>", self.0.name()).into()
    }
}

impl<T: ?Sized, C: Encode<T>, const LIMIT: usize> Encode<T> for Lz4<C, LIMIT> {
    fn encode(&self, value: &T) -> Result<Bytes, EncodeError> {
        let plain = self.0.encode(value)?;
        let mut out = prefix(self, &plain, LIMIT)?;
        let length = out.len();
        out.resize(length + lz4_flex::block::get_maximum_output_size(plain.len()), 0);
        // The buffer is large enough for the worst case, so this does not fail.
        let written = lz4_flex::block::compress_into(&plain, &mut out[length..])
            .map_err(|_| EncodeError::unsupported(self, "data that LZ4 can compress", "this data"))?;
        out.truncate(length + written);
        out.shrink_to_fit();
        checked(self, out)
    }
}

impl<T, C: Decode<T>, const LIMIT: usize> Decode<T> for Lz4<C, LIMIT> {
    fn decode(&self, bytes: &Bytes) -> Result<T, DecodeError> {
        let refused = || DecodeError::unexpected(self, bytes, EXPECTED);
        let (size, block) = split(self, bytes, LIMIT, EXPECTED)?;
        if size > block.len().saturating_mul(RATIO) {
            return Err(refused().found("a length that is too large for so few bytes"));
        }
        let mut plain = vec![0; size];
        match lz4_flex::block::decompress_into(block, &mut plain) {
            Ok(written) if written == size => self.0.decode(&plain.into()),
            Ok(_) => Err(refused().found("fewer bytes than the stated length")),
            Err(_) => Err(refused().found("data that LZ4 cannot decompress")),
        }
    }
}

/// The maximum expansion: one byte of a block adds up to 255 bytes, because it increases a match
/// length by up to 255.
const RATIO: usize = 255;

const EXPECTED: &str = "a length of 4 bytes and a block of LZ4";
