//! What a codec is.

use std::borrow::Cow;
use std::fmt::Debug;

use bytes::Bytes;

use crate::{DecodeError, EncodeError};

/// How deep a value may be nested, when it is written and when it is read: 128 levels. Each sequence, map, tuple, struct,
/// newtype, `Some` and enum variant with content is a level, and a tuple or struct variant two.
///
/// A bound of our own, since a few formats have none and others count differently: a few hundred bytes can describe a
/// value whose reading needs more stack than there is. 128 is what serde_json takes, and fits a stack of 2 MiB
/// in a debug build.
pub const MAX_DEPTH: usize = 128;

/// How many bytes an encoded value may have: 512 MiB, the longest string that Redis and Valkey take as they are shipped.
pub const MAX_SIZE: usize = 512 << 20;

/// How many bytes a value may have uncompressed unless the codec says otherwise: 64 MiB. A few hundred bytes can decompress to as
/// much as this, so it is a bound of what somebody who can write to the server has your process take; larger values want it larger.
pub const MAX_DECOMPRESSED: usize = 64 << 20;

/// A way to write values as bytes and to read them: the part of [`Encode`] and [`Decode`] that does not depend on
/// the value.
///
/// A codec is part of the type of an object, so that two programs that mean the same object name the same codec, and
/// none changes by an update. The codecs of this crate are values of no size. One of yours may have state, such as a key
/// to encrypt with.
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
/// assert_eq!(refused.to_string(), "YesNo expected `Y` or `N`, found 7 bytes; they look like Json");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Codec: Clone + Debug + Send + Sync + 'static {
    /// Its name in errors, as in `Json` or `Lz4<Json>`.
    fn name(&self) -> Cow<'static, str>;
}

/// A codec that writes values of type `T`.
///
/// The same value becomes the same bytes, since objects compare bytes: keys of a map, `compare_and_set`. Where a type
/// has no order of its own (a `HashMap`), its bytes have none either: take a `BTreeMap` for what is compared. What borrows
/// (`str`) is written as what owns (`String`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot write a `{T}`",
    note = "`Json`, `Bincode`, `Postcard`, `MessagePack` and `Cbor` write what is `serde::Serialize`, `Text` what is `Display`, \
            `Long` integers, `Double` `f64`, `Raw` bytes, `Kryo` Java's simple types"
)]
pub trait Encode<T: ?Sized>: Codec {
    /// The bytes of `value`.
    ///
    /// # Errors
    ///
    /// What the format cannot hold, and what goes beyond a limit. Nothing of the value is in the error.
    fn encode(&self, value: &T) -> Result<Bytes, EncodeError>;
}

/// A codec that reads values of type `T`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot read a `{T}`",
    note = "`Json`, `Bincode`, `Postcard`, `MessagePack` and `Cbor` read what is `serde::de::DeserializeOwned`, `Text` what is \
            `FromStr`, `Long` integers, `Double` `f64`, `Raw` bytes, `Kryo` Java's simple types"
)]
pub trait Decode<T>: Codec {
    /// The value that `bytes` are, all of them.
    ///
    /// # Errors
    ///
    /// What is not a value of this codec, or not of this type; it says what was expected, what was found and which other
    /// codec the bytes look like. What goes beyond a limit.
    fn decode(&self, bytes: &Bytes) -> Result<T, DecodeError>;
}

/// A codec whose bytes for a `T` are a number to the server too, so that it can add to a value where it lies (INCRBY,
/// HINCRBYFLOAT). Operations that add ask for it, so adding to what the server cannot read does not compile:
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
    message = "to the server, what `{Self}` writes for a `{T}` is no number it can add to",
    note = "`Long` is for integers, `Double` for `f64`, `Text` for both; the server counts in 64 bits with a sign"
)]
pub trait Numeric<T>: Encode<T> + Decode<T> {
    /// With which of the server's commands it adds.
    const ARITHMETIC: Arithmetic;
}

/// How the server adds to a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
// Exhaustive: objects match on it, and the server has no third kind of addition.
pub enum Arithmetic {
    /// INCRBY, HINCRBY: exact, in 64 bits with a sign; refused where the sum does not fit.
    Integer,
    /// INCRBYFLOAT, HINCRBYFLOAT: in the server's long double, written with up to 17 digits behind the point.
    Float,
}

/// What was written, if a server takes so much.
pub(crate) fn checked(codec: &impl Codec, bytes: Vec<u8>) -> Result<Bytes, EncodeError> {
    match bytes.len() {
        size if size > MAX_SIZE => Err(EncodeError::TooLarge { codec: codec.name(), size, limit: MAX_SIZE }),
        _ => Ok(bytes.into()),
    }
}
