//! What keys have, and for how long.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::FromReply;
use redgrid_core::object::{Lifetime, ObjectError, parts};

use crate::cache::{Cache, NEEDED};
use crate::layout::{Asked, Layout};

impl<K, V, KC: Codec, VC: Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// What the key has; `None` where it is not in the map, or over. It counts as a use of the key: its idle time begins anew.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing but when the key was used.
    #[doc(alias = "getOrDefault")]
    pub async fn get<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(self.read(Asked::Use, self.fields([key])?).await?.pop().flatten())
    }

    /// What the keys have, in their order; 500 of them at a time. As a use of them.
    ///
    /// # Errors
    ///
    /// As [`Cache::get`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::get`].
    #[doc(alias = "getAll")]
    pub async fn get_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<V>>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.read(Asked::Use, self.fields(keys)?).await
    }

    /// What the key has, without counting as a use of it: its idle time goes on.
    ///
    /// # Errors
    ///
    /// As [`Cache::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getWithTTLOnly")]
    #[doc(alias = "getAllWithTTLOnly")]
    pub async fn peek<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(self.read(Asked::Peek, self.fields([key])?).await?.pop().flatten())
    }

    async fn read(&self, asked: Asked, fields: Vec<Bytes>) -> Result<Vec<Option<V>>, ObjectError> {
        let found: Vec<Option<Bytes>> = self.ask(asked, &fields).await?;
        let both = fields.iter().zip(found);
        both.map(|(field, bytes)| bytes.map(|bytes| self.value(field, &bytes)).transpose()).collect()
    }
}

impl<K, V, KC: Codec, VC: Codec, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Whether the key is in the map, and not over. As a use of it.
    ///
    /// # Errors
    ///
    /// As [`Cache::get`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::get`].
    #[doc(alias = "containsKey")]
    pub async fn contains_key<Q: ?Sized>(&self, key: &Q) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let found: Vec<Option<Bytes>> = self.ask(Asked::Has, &self.fields([key])?).await?;
        // A packed one tells 1 or 0, and a native one the value itself.
        Ok(found.into_iter().flatten().any(|found| Y::is_there(&found)))
    }

    /// How long the key will live if nobody uses it: its lifetime or its idle time, what is over first.
    ///
    /// # Errors
    ///
    /// As [`Cache::get`]; [`ObjectError::Unsupported`] of a native one on a server that knows no lifetimes of fields.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "remainTimeToLive")]
    pub async fn lifetime<Q: ?Sized>(&self, key: &Q) -> Result<Lifetime, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let request = Y::left(&self.place, &self.fields([key])?)?;
        let left: Option<Vec<i64>> = self.place.ask(request).await.map_err(|error| error.or_unsupported(NEEDED))?;
        Ok(Lifetime::of(left.and_then(|left| left.first().copied()).unwrap_or(-2)))
    }

    pub(crate) async fn ask<T: FromReply>(&self, asked: Asked, fields: &[Bytes]) -> Result<Vec<T>, ObjectError> {
        let mut found = Vec::with_capacity(fields.len());
        for part in parts(fields, Bytes::len) {
            found.extend(self.place.ask::<Vec<T>>(Y::read(&self.place, asked, part)?).await?);
        }
        Ok(found)
    }
}
