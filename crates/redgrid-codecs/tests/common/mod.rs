//! Helpers of the tests of values and of errors.

use std::fmt::Debug;

use redgrid_codecs::{Bytes, Decode, DecodeError};

/// Runs `$run` with each serde codec.
macro_rules! each_serde {
    ($codec:ident => $run:expr) => {{
        {
            let $codec = Json;
            $run
        }
        {
            let $codec = MessagePack;
            $run
        }
        {
            let $codec = Cbor;
            $run
        }
        {
            let $codec = Bincode;
            $run
        }
        {
            let $codec = Postcard;
            $run
        }
        {
            let $codec = Lz4::new(Json);
            $run
        }
        {
            let $codec = Zstd::new(MessagePack);
            $run
        }
    }};
}

pub(crate) fn refused<C, T>(codec: &C, bytes: &[u8]) -> DecodeError
where
    C: Decode<T>,
    T: Debug,
{
    codec.decode(&Bytes::copy_from_slice(bytes)).unwrap_err()
}
