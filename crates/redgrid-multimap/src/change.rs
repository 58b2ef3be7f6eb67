//! Changes of the values of a key.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, parts};
use redgrid_core::{BulkScript, Request};

use crate::kind::Kind;
use crate::kind::sealed::Values;
use crate::multimap::{Found, Multimap, script};

script!(INSERT, "insert");
script!(REMOVE, "remove");
script!(REPLACE, "replace");
script!(REMOVE_KEYS, "remove_keys");

/// How many values replace others at most: some tens of milliseconds.
const TOGETHER: usize = 100_000;

impl<K, V, KC: Codec, VC: Encode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Adds a value to those of a key; tells whether it is new, as it always is in a list.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "put")]
    pub async fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(self.insert_many(key, [value]).await? > 0)
    }

    /// Adds values to those of a key, 500 of them or about 4 MiB at a time; tells how many are new. After an error some may be in.
    ///
    /// # Errors
    ///
    /// As [`Multimap::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::insert`].
    #[doc(alias = "putAll")]
    pub async fn insert_many<'a, Q: ?Sized>(
        &self,
        key: &Q,
        values: impl IntoIterator<Item = &'a V>,
    ) -> Result<u64, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        V: 'a,
    {
        let (found, values, mut new) = (self.found(key)?, self.written(values)?, 0);
        for part in parts(&values, Bytes::len) {
            let request = self.on(&INSERT, &found)?.arg(Y::Values::LEN).arg(Y::Values::ADD);
            let request = part.iter().cloned().fold(request, Request::arg);
            new += self.changed::<u64>(request).await?;
        }
        Ok(new)
    }

    /// Removes a value of a key, of a list the first that is equal; tells whether it was in.
    ///
    /// # Errors
    ///
    /// As [`Multimap::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::insert`].
    pub async fn remove<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (found, value) = (self.found(key)?, self.place.encoded(&self.values, value)?);
        let request = self.on(&REMOVE, &found)?.arg(Y::Values::LEN).arg(Y::Values::REMOVE);
        self.changed(request.arg(value)).await
    }

    /// Gives a key other values, up to 100,000, in place of those that it has, in one step. Without any it is removed.
    ///
    /// # Errors
    ///
    /// As [`Multimap::insert`]; [`ObjectError::InvalidArgument`] of more.
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::insert`].
    #[doc(alias = "fastReplaceValues")]
    pub async fn set_all<'a, Q: ?Sized>(
        &self,
        key: &Q,
        values: impl IntoIterator<Item = &'a V>,
    ) -> Result<(), ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        V: 'a,
    {
        self.replaced(key, self.written(values)?, false).await.map(drop)
    }
}

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    async fn replaced<Q: ?Sized>(&self, key: &Q, by: Vec<Bytes>, told: bool) -> Result<Vec<Bytes>, ObjectError>
    where
        KC: Encode<Q>,
    {
        let found = self.found(key)?;
        if by.len() > TOGETHER {
            return Err(self.place.invalid("values", format_args!("up to {TOGETHER} at once"), by.len()));
        }
        let told = if told { Y::Values::ALL[0] } else { "" };
        let request = self.on(&REPLACE, &found)?.arg(told).arg(Y::Values::LEN).arg(Y::Values::ADD);
        self.changed(by.into_iter().fold(request, Request::arg)).await
    }

    /// Removes keys with all their values, 500 of them at a time; tells how many were in the map. The memory is freed in the background.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; of many some may be removed.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "fastRemove")]
    pub async fn remove_keys<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let found: Result<Vec<Found>, _> = keys.into_iter().map(|key| self.found(key)).collect();
        self.remove_found(&found?).await
    }

    pub(crate) async fn remove_found(&self, all: &[Found]) -> Result<u64, ObjectError> {
        let mut removed = 0;
        for part in parts(all, |found| found.field.len() + found.values.len()) {
            removed += self.changed::<u64>(self.removing("any", part)?).await?;
        }
        Ok(removed)
    }

    /// Has keys removed: any, or those that are over. Without keys the ends that no map has any more.
    pub(crate) fn removing(&self, which: &'static str, all: &[Found]) -> Result<Request, ObjectError> {
        let request = self.script(&REMOVE_KEYS, all.iter().map(|found| found.values.clone()))?.arg(which);
        Ok(all.iter().fold(request, |request, found| request.arg(found.field.clone()).arg(found.hash.clone())))
    }

    /// A script on a key of the map, and its values.
    pub(crate) fn on(&self, script: &'static BulkScript, found: &Found) -> Result<Request, ObjectError> {
        Ok(self.script(script, [found.values.clone()])?.arg(found.field.clone()).arg(found.hash.clone()))
    }
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Gives a key other values, up to 100,000, in place of those that it has, in one step; tells those. Without any it is removed.
    ///
    /// # Errors
    ///
    /// As [`Multimap::set_all`]; where one of what it had can not be decoded, it is an error of all, and it is done all the same.
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::insert`].
    #[doc(alias = "replaceValues")]
    pub async fn replace_all<'a, Q: ?Sized>(
        &self,
        key: &Q,
        values: impl IntoIterator<Item = &'a V>,
    ) -> Result<Vec<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        V: 'a,
    {
        let had = self.replaced(key, self.written(values)?, true).await?;
        had.iter().map(|bytes| self.value(bytes)).collect()
    }
}

impl<K, V, KC: Codec, VC: Decode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Removes a key with all its values, in one step; tells those.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then. A value that can not be decoded is an error of all, and the key is removed all the same;
    /// [`Multimap::get_all`] reads and removes nothing.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "removeAll")]
    pub async fn remove_all<Q: ?Sized>(&self, key: &Q) -> Result<Vec<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.replaced(key, Vec::new(), true).await?.iter().map(|bytes| self.value(bytes)).collect()
    }
}
