//! Zstandard around another codec.

use std::borrow::Cow;
use std::io::{self, Read};

use bytes::Bytes;
use zstd::stream::{raw, zio};

use crate::codec::{MAX_DECOMPRESSED, checked};
use crate::compressed::{prefix, split};
use crate::{Codec, Decode, DecodeError, Encode, EncodeError};

/// Compresses the output of `C` with Zstandard (level 3), which is smaller than
/// [`Lz4`](crate::Lz4), but slower. The layout is that of Redisson's ZStdCodec (the length in four
/// bytes, then a frame). So `Zstd<Kryo>` is equivalent to Redisson's `new ZStdCodec()`. It uses the
/// reference library, which is written in C.
///
/// `LIMIT` is the maximum uncompressed size that is written and read. The default is
/// [`MAX_DECOMPRESSED`]; set another as in `Zstd<Json, { 256 << 20 }>`. A larger length is rejected
/// before memory is allocated, and memory is allocated as data arrives. A window above 8 MiB, the
/// size that RFC 8878 recommends decoders to support, is rejected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[doc(alias = "ZStdCodec")]
// Not `#[non_exhaustive]`: users construct it as `Zstd(codec)`.
pub struct Zstd<C, const LIMIT: usize = MAX_DECOMPRESSED>(pub C);

impl<C> Zstd<C> {
    /// Wraps `codec`, with the default limit.
    pub const fn new(codec: C) -> Zstd<C> {
        Zstd(codec)
    }
}

impl<C: Codec, const LIMIT: usize> Codec for Zstd<C, LIMIT> {
    fn name(&self) -> Cow<'static, str> {
        format!("Zstd<{}>", self.0.name()).into()
    }
}

impl<T: ?Sized, C: Encode<T>, const LIMIT: usize> Encode<T> for Zstd<C, LIMIT> {
    fn encode(&self, value: &T) -> Result<Bytes, EncodeError> {
        let plain = self.0.encode(value)?;
        let mut out = prefix(self, &plain, LIMIT)?;
        // This fails only if there is no memory.
        let frame = zstd::bulk::compress(&plain, LEVEL)
            .map_err(|_| EncodeError::unsupported(self, "data that Zstandard can compress", "this data"))?;
        out.extend_from_slice(&frame);
        checked(self, out)
    }
}

impl<T, C: Decode<T>, const LIMIT: usize> Decode<T> for Zstd<C, LIMIT> {
    fn decode(&self, bytes: &Bytes) -> Result<T, DecodeError> {
        let refused = || DecodeError::unexpected(self, bytes, EXPECTED);
        let (size, frame) = split(self, bytes, LIMIT, EXPECTED)?;
        match decompress(frame, size) {
            Ok(plain) if plain.len() == size => self.0.decode(&plain.into()),
            Ok(plain) if plain.len() > size => Err(refused().found("more bytes than the stated length")),
            Ok(_) => Err(refused().found("fewer bytes than the stated length")),
            Err(_) => Err(refused().found("data that Zstandard cannot decompress")),
        }
    }
}

/// Returns `size` bytes, and one more if the frame has more.
fn decompress(frame: &[u8], size: usize) -> io::Result<Vec<u8>> {
    let mut decoder = raw::Decoder::new()?;
    decoder.set_parameter(zstd::zstd_safe::DParameter::WindowLogMax(WINDOW_LOG))?;
    let mut plain = Vec::new();
    zio::Reader::new(frame, decoder).take(size as u64 + 1).read_to_end(&mut plain)?;
    Ok(plain)
}

/// The default level of zstd and of Redisson.
const LEVEL: i32 = 3;

/// 8 MiB, as an exponent of two. Level 3 needs 2 MiB; levels up to 15 need at most 4 MiB.
const WINDOW_LOG: u32 = 23;

const EXPECTED: &str = "a length of 4 bytes and a frame of Zstandard";
