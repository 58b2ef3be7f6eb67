//! Traits of codecs.

use std::borrow::{Borrow, Cow};
use std::fmt::Debug;

use bytes::Bytes;

use crate::{DecodeError, EncodeError};

/// The maximum nesting depth of a value that is written or read: 128 levels. Each sequence, map,
/// tuple, struct, newtype, `Some` and enum variant with content is a level; a tuple or struct
/// variant is two levels.
///
/// It is redgrid's own limit, because some formats have none, and others count differently. Without
/// a limit, reading a few hundred bytes can overflow the stack. 128 is also serde_json's limit, and
/// fits a stack of 2 MiB in a debug build.
pub const MAX_DEPTH: usize = 128;

/// The maximum size of an encoded value: 512 MiB, the default limit of a string in Redis and
/// Valkey.
pub const MAX_SIZE: usize = 512 << 20;

/// The default maximum size of a decompressed value: 64 MiB. A few hundred bytes can decompress to
/// a very large value. So this limit bounds the memory that an attacker with write access to the
/// server can make a process allocate. Raise it for larger values.
pub const MAX_DECOMPRESSED: usize = 64 << 20;

/// Converts values to bytes and back: the part of [`Encode`] and [`Decode`] that does not depend on
/// the value.
///
/// A codec is part of an object's type. So programs that share an object name the same codec, and
/// an update cannot change it unnoticed. The codecs of this crate are zero-sized. Your own codec
/// may have state, such as an encryption key.
///
/// # Examples
///
/// A codec in ten lines:
///
/// ```
/// use std::borrow::Cow;
///
/// use redgrid_codecs::{Bytes, Codec, Decode, DecodeError, Encode, EncodeError};
///
/// /// `true` as `Y`, `false` as `N`.
/// #[derive(Debug, Clone, Copy, Default)]
/// struct YesNo;
///
/// impl Codec for YesNo {
///     fn name(&self) -> Cow<'static, str> {
///         "YesNo".into()
///     }
/// }
///
/// impl Encode<bool> for YesNo {
///     fn encode(&self, value: &bool) -> Result<Bytes, EncodeError> {
///         Ok(Bytes::from_static(if *value { b"Y" } else { b"N" }))
///     }
/// }
///
/// impl Decode<bool> for YesNo {
///     fn decode(&self, bytes: &Bytes) -> Result<bool, DecodeError> {
///         match &bytes[..] {
///             b"Y" => Ok(true),
///             b"N" => Ok(false),
///             _ => Err(DecodeError::unexpected(self, bytes, "`Y` or `N`")),
///         }
///     }
/// }
///
/// assert!(YesNo.decode(&YesNo.encode(&true)?)?);
/// let refused = Decode::<bool>::decode(&YesNo, &Bytes::from_static(b"{\"a\":1}")).unwrap_err();
/// let text = "YesNo expected `Y` or `N`, found 7 bytes; they look like Json";
/// assert_eq!(refused.to_string(), text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Codec: Clone + Debug + Send + Sync + 'static {
    /// Returns the codec's name for errors, such as `Json` or `Lz4<Json>`.
    fn name(&self) -> Cow<'static, str>;
}

/// A codec that writes values of type `T`.
///
/// Equal values must be encoded as equal bytes, because objects compare bytes, for example keys of
/// a map or in `compare_and_set`. The bytes of an unordered type (a `HashMap`) have no fixed order,
/// so use a `BTreeMap` for such values. A borrowed type (`str`) has the same bytes as its owned
/// type (`String`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot write a `{T}`",
    note = "`Json`, `Bincode`, `Postcard`, `MessagePack` and `Cbor` write `serde::Serialize` types, \
            `Text` `Display` types, `Long` integers, `Double` `f64`, `Raw` bytes, `Kryo` Java's simple types"
)]
pub trait Encode<T: ?Sized>: Codec {
    /// Encodes `value`.
    ///
    /// # Errors
    ///
    /// The format cannot represent the value, or the value exceeds a limit. The error does not
    /// contain the value.
    fn encode(&self, value: &T) -> Result<Bytes, EncodeError>;
}

/// A codec that writes a `Q` in place of a `T`: a `T` itself, or a type as which `T` can be
/// borrowed, such as `str` for `String`. It is implemented for all such codecs.
///
/// The codec is the subject of the bound, so that the compiler can infer `Q` from a literal or a
/// default.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot write a `{Q}` in place of a `{T}`",
    note = "`{T}: Borrow<{Q}>` and `{Self}: Encode<{Q}>` are both required"
)]
pub trait EncodesFor<T, Q: ?Sized>: Encode<Q> {}

impl<T: Borrow<Q>, C: Encode<Q>, Q: ?Sized> EncodesFor<T, Q> for C {}

/// A codec that reads values of type `T`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot read a `{T}`",
    note = "`Json`, `Bincode`, `Postcard`, `MessagePack` and `Cbor` read `serde::de::DeserializeOwned` types, \
            `Text` `FromStr` types, `Long` integers, `Double` `f64`, `Raw` bytes, `Kryo` Java's simple types"
)]
pub trait Decode<T>: Codec {
    /// Decodes a value from all of `bytes`.
    ///
    /// # Errors
    ///
    /// The bytes are not a value of this codec or type, or they exceed a limit. The error names the
    /// expected content, the found content, and another codec if the bytes resemble its format.
    fn decode(&self, bytes: &Bytes) -> Result<T, DecodeError>;
}

/// A codec that encodes a `T` as a number of the server, so that the server can add to it in place
/// (INCRBY, HINCRBYFLOAT). Operations that add require this trait, so adding to other values does
/// not compile:
///
/// ```
/// use redgrid_codecs::{Long, Numeric, Text};
/// fn add<C: Numeric<i64>>(_codec: C) {}
/// add(Long);
/// add(Text);
/// ```
///
/// ```compile_fail,E0277
/// use redgrid_codecs::{Numeric, Raw};
/// fn add<C: Numeric<i64>>(_codec: C) {}
/// add(Raw);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not write a `{T}` as a number to which the server can add",
    note = "`Long` is for integers, `Double` for `f64`, `Text` for both; the server counts in 64 bits with a sign"
)]
pub trait Numeric<T>: Encode<T> + Decode<T> {
    /// The server's commands that add to such a number.
    const ARITHMETIC: Arithmetic;
}

/// How the server adds to a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
// Not `#[non_exhaustive]`: objects match on it, and the server has no third kind of addition.
pub enum Arithmetic {
    /// INCRBY, HINCRBY: exact, in signed 64 bits; an overflow is rejected.
    Integer,
    /// INCRBYFLOAT, HINCRBYFLOAT: the server's long double, written with up to 17 decimal places.
    Float,
}

/// Returns the encoded bytes unless they exceed the server's limit.
pub(crate) fn checked(codec: &impl Codec, bytes: Vec<u8>) -> Result<Bytes, EncodeError> {
    match bytes.len() {
        size if size > MAX_SIZE => Err(EncodeError::TooLarge { codec: codec.name(), size, limit: MAX_SIZE }),
        _ => Ok(bytes.into()),
    }
}
