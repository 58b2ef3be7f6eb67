//! Codecs: values to bytes and back, for the objects of redgrid.
//!
//! ```
//! # #[cfg(feature = "json")] {
//! use redgrid_codecs::{Decode, Encode, Json};
//!
//! let bytes = Json.encode(&vec![1, 2, 3])?;
//! assert_eq!(&bytes[..], b"[1,2,3]");
//! let back: Vec<u8> = Json.decode(&bytes)?;
//! # assert_eq!(back, [1, 2, 3]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A codec is part of an object's type; the default is `Json`. docs/objects/codecs.md describes how
//! to choose one, and how Java reads each of them:
//!
//! | codec | feature | for |
//! |---|---|---|
//! | `Json` | `json` (default) | serde; readable by people and in other languages |
//! | `MessagePack`, `Cbor` | `messagepack`, `cbor` | serde; smaller, fields by name |
//! | `Postcard`, `Bincode` | `postcard`, `bincode` | serde; smallest, programs that share the type |
//! | [`Text`] | | types with `Display` and `FromStr` |
//! | [`Long`], [`Double`] | | numbers that the server adds to |
//! | [`Raw`] | | bytes |
//! | [`Natural`] | | values in order: numbers, text, tuples ([`Ordered`]) |
//! | `Kryo` | `kryo` | Redisson's default codec: simple values |
//! | `Lz4<C>`, `Zstd<C>` | `lz4`, `zstd` | compression of another codec |
//!
//! Your own codec takes [ten lines](Codec).
//!
//! # Guarantees
//!
//! - Bytes may come from an attacker. Decoding never panics, overflows the stack, allocates
//!   disproportionately to the input, or loops forever: [`MAX_DEPTH`], [`MAX_SIZE`],
//!   [`MAX_DECOMPRESSED`].
//! - A value that was written within these limits can be read again.
//! - The encoding of a codec does not change. Tests compare it with golden bytes; for Redisson's
//!   codecs, Redisson has written these bytes.
//! - An error names the codec, the expected content, the found content and [the format that the
//!   bytes resemble](LooksLike), but never the value. Error texts of a type's own `Deserialize` are
//!   included, cut to 120 characters.

#![cfg_attr(docsrs, feature(doc_cfg))]

// All serde formats use `serial`.
#[cfg(any(feature = "bincode", feature = "cbor", feature = "json", feature = "messagepack", feature = "postcard"))]
mod serial;

#[cfg(feature = "bincode")]
mod bincode;
#[cfg(feature = "cbor")]
mod cbor;
mod codec;
#[cfg(any(feature = "lz4", feature = "zstd"))]
mod compressed;
mod double;
#[cfg(feature = "element-hash")]
mod element;
mod error;
#[cfg(feature = "json")]
mod json;
mod kryo;
mod long;
mod looks_like;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "messagepack")]
mod messagepack;
mod ordered;
#[cfg(feature = "postcard")]
mod postcard;
mod raw;
mod text;
#[cfg(feature = "zstd")]
mod zstd;

pub use bytes::Bytes;

#[cfg(feature = "bincode")]
pub use self::bincode::Bincode;
#[cfg(feature = "cbor")]
pub use self::cbor::Cbor;
pub use self::codec::{Arithmetic, Codec, Decode, Encode, EncodesFor, MAX_DECOMPRESSED, MAX_DEPTH, MAX_SIZE, Numeric};
pub use self::double::Double;
#[cfg(feature = "element-hash")]
pub use self::element::{element_hash, hash128};
pub use self::error::{DecodeError, EncodeError};
#[cfg(feature = "json")]
pub use self::json::Json;
#[cfg(feature = "kryo")]
pub use self::kryo::{Kryo, KryoValue};
pub use self::long::Long;
pub use self::looks_like::LooksLike;
#[cfg(feature = "lz4")]
pub use self::lz4::Lz4;
#[cfg(feature = "messagepack")]
pub use self::messagepack::MessagePack;
pub use self::ordered::{FixedSize, Natural, Ordered};
#[cfg(feature = "postcard")]
pub use self::postcard::Postcard;
pub use self::raw::Raw;
pub use self::text::Text;
#[cfg(feature = "zstd")]
pub use self::zstd::Zstd;
