//! What all sets have inside: where they are, and how their values become bytes.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{Client, FromReply, Name, Pairs, Request, Script};

pub(crate) struct Elements<T, C> {
    pub(crate) place: Place,
    pub(crate) codec: C,
    values: PhantomData<fn() -> T>,
}

impl<T, C: Codec> Elements<T, C> {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>, codec: C) -> Self {
        Elements { place: Place::new(client, name), codec, values: PhantomData }
    }

    pub(crate) fn with_codec<D: Codec>(self, codec: D) -> Elements<T, D> {
        Elements { place: self.place, codec, values: PhantomData }
    }

    pub(crate) fn name(&self) -> Result<&Name, ObjectError> {
        Ok(self.place.named()?.0)
    }

    /// A script on its key.
    pub(crate) fn script(&self, script: &'static Script<1>) -> Result<Request, ObjectError> {
        Ok(script.with([self.place.named()?.1.clone()]))
    }

    pub(crate) fn invalid(
        &self,
        option: &'static str,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Result<ObjectError, ObjectError> {
        let name = self.name()?.clone();
        Ok(ObjectError::InvalidArgument { name, option, expected: expected.into(), got: got.into() })
    }

    pub(crate) fn encoded<Q: ?Sized>(&self, value: &Q) -> Result<Bytes, ObjectError>
    where
        C: Encode<Q>,
    {
        self.place.encoded(&self.codec, value)
    }

    pub(crate) fn encoded_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, ObjectError>
    where
        C: Encode<Q>,
    {
        self.place.encoded_all(&self.codec, values)
    }

    /// Values that one script takes: a server does nothing else meanwhile.
    pub(crate) fn encoded_together<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, ObjectError>
    where
        C: Encode<Q>,
    {
        let all = self.encoded_all(values)?;
        match all.len() {
            fits if fits <= TOGETHER => Ok(all),
            many => Err(self.invalid("values", format!("up to {TOGETHER} at once"), many.to_string())?),
        }
    }

    /// Changes by a command for each part of some values; tells how many it says in all.
    pub(crate) async fn change_parts(&self, command: &'static str, values: &[Bytes]) -> Result<u64, ObjectError> {
        self.place.change_parts(values, || self.place.command(command)).await
    }

    /// Asks by a command for each part of some values, which answers for each of them.
    pub(crate) async fn read_parts<R: FromReply>(
        &self,
        command: &'static str,
        values: &[Bytes],
    ) -> Result<Vec<R>, ObjectError> {
        self.place.read_parts(values, || self.place.command(command)).await
    }
}

/// How many values a script takes at most: some tens of milliseconds.
pub(crate) const TOGETHER: usize = 100_000;

impl<T, C: Decode<T>> Elements<T, C> {
    pub(crate) fn one(&self, bytes: &Bytes) -> Result<T, ObjectError> {
        self.place.decoded(&self.codec, bytes, || Some("a value".into()))
    }

    pub(crate) fn maybe(&self, bytes: Option<Bytes>) -> Result<Option<T>, ObjectError> {
        bytes.map(|bytes| self.one(&bytes)).transpose()
    }

    pub(crate) fn all(&self, bytes: &[Bytes]) -> Result<Vec<T>, ObjectError> {
        bytes.iter().map(|bytes| self.one(bytes)).collect()
    }

    /// With their scores.
    pub(crate) fn entries(&self, Pairs(found): Pairs<Bytes, f64>) -> Result<Vec<(T, f64)>, ObjectError> {
        found.into_iter().map(|(bytes, score)| Ok((self.one(&bytes)?, score))).collect()
    }
}

impl<T, C: Clone> Clone for Elements<T, C> {
    fn clone(&self) -> Self {
        Elements { place: self.place.clone(), codec: self.codec.clone(), values: PhantomData }
    }
}

/// Cloned and shown as what is inside.
macro_rules! handle {
    ($type:ident) => {
        impl<T, C: Clone> Clone for $type<T, C> {
            fn clone(&self) -> Self {
                $type { of: self.of.clone() }
            }
        }

        impl<T, C: std::fmt::Debug> std::fmt::Debug for $type<T, C> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($type));
                shown.field("name", &self.of.place.name()).field("codec", &self.of.codec).finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use handle;
