//! The handle inside of every set: the object's name and client, and the codec of its values.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{Client, FromReply, Name, Pairs, Request, Script};

pub(crate) struct Elements<T, C> {
    pub(crate) object_ref: ObjectRef,
    pub(crate) codec: C,
    values: PhantomData<fn() -> T>,
}

impl<T, C: Codec> Elements<T, C> {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>, codec: C) -> Self {
        Elements { object_ref: ObjectRef::new(client, name), codec, values: PhantomData }
    }

    pub(crate) fn with_codec<D: Codec>(self, codec: D) -> Elements<T, D> {
        Elements { object_ref: self.object_ref, codec, values: PhantomData }
    }

    pub(crate) fn name(&self) -> Result<&Name, ObjectError> {
        Ok(self.object_ref.name_and_key()?.0)
    }

    /// Builds a call of a script on the key of the set.
    pub(crate) fn script(&self, script: &'static Script<1>) -> Result<Request, ObjectError> {
        Ok(script.with([self.object_ref.name_and_key()?.1.clone()]))
    }

    pub(crate) fn invalid(
        &self,
        option: &'static str,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Result<ObjectError, ObjectError> {
        Ok(ObjectError::invalid_argument(self.name()?, option, expected.into(), got.into()))
    }

    pub(crate) fn encode<Q: ?Sized>(&self, value: &Q) -> Result<Bytes, ObjectError>
    where
        C: Encode<Q>,
    {
        self.object_ref.encoded(&self.codec, value)
    }

    pub(crate) fn encode_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, ObjectError>
    where
        C: Encode<Q>,
    {
        self.object_ref.encoded_all(&self.codec, values)
    }

    /// Encodes the values of one script call. Their number is limited, because the script blocks
    /// the server.
    pub(crate) fn encode_limited<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, ObjectError>
    where
        C: Encode<Q>,
    {
        let all = self.encode_all(values)?;
        match all.len() {
            fits if fits <= MAX_SCRIPT_VALUES => Ok(all),
            many => Err(self.invalid("values", format!("up to {MAX_SCRIPT_VALUES} at once"), many.to_string())?),
        }
    }

    /// Sends a write command for each chunk of some values. Returns the sum of the replies.
    pub(crate) async fn change_chunks(&self, command: &'static str, values: &[Bytes]) -> Result<u64, ObjectError> {
        self.object_ref.change_chunks(values, || self.object_ref.command(command)).await
    }

    /// Sends a read command for each chunk of some values. Returns the replies, one for each value.
    pub(crate) async fn read_chunks<R: FromReply>(
        &self,
        command: &'static str,
        values: &[Bytes],
    ) -> Result<Vec<R>, ObjectError> {
        self.object_ref.read_chunks(values, || self.object_ref.command(command)).await
    }
}

/// The maximum number of values in one script call. Such a call takes some tens of milliseconds.
pub(crate) const MAX_SCRIPT_VALUES: usize = 100_000;

impl<T, C: Decode<T>> Elements<T, C> {
    pub(crate) fn decode(&self, bytes: &Bytes) -> Result<T, ObjectError> {
        self.object_ref.decoded(&self.codec, bytes, || Some("a value".into()))
    }

    pub(crate) fn decode_option(&self, bytes: Option<Bytes>) -> Result<Option<T>, ObjectError> {
        bytes.map(|bytes| self.decode(&bytes)).transpose()
    }

    pub(crate) fn decode_all(&self, bytes: &[Bytes]) -> Result<Vec<T>, ObjectError> {
        bytes.iter().map(|bytes| self.decode(bytes)).collect()
    }

    /// Decodes values with their scores.
    pub(crate) fn decode_entries(&self, Pairs(found): Pairs<Bytes, f64>) -> Result<Vec<(T, f64)>, ObjectError> {
        found.into_iter().map(|(bytes, score)| Ok((self.decode(&bytes)?, score))).collect()
    }
}

redgrid_core::clone_fields!([T, C: Clone] Elements<T, C> { object_ref, codec, values });

/// Implements `Clone` and `Debug` for a type around [`Elements`].
macro_rules! handle {
    ($type:ident) => {
        redgrid_core::clone_fields!([T, C: Clone] $type<T, C> { inner });
        redgrid_core::debug_fields!([T, C: std::fmt::Debug] $type<T, C>, |it|
            name: it.inner.object_ref.name(), codec: it.inner.codec
        );
    };
}
pub(crate) use handle;
