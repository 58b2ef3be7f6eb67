//! Changes of the values of a key.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::object::{ObjectError, chunks};
use redgrid_core::{BulkScript, Request};

use crate::kind::Kind;
use crate::kind::sealed::Values;
use crate::multimap::{KeyRef, Multimap, script};

script!(INSERT, "insert");
script!(REMOVE, "remove");
script!(REPLACE, "replace");
script!(REMOVE_KEYS, "remove_keys");

/// Maximum number of replacement values in one step, which takes some tens of milliseconds.
const MAX_REPLACED: usize = 100_000;

impl<K, V, KC: Codec, VC: Encode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Adds a value to those of a key. Returns whether it is new, which is always true for a list.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "put")]
    pub async fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(self.insert_many(key, [value]).await? > 0)
    }

    /// Adds values to those of a key, up to 500 or about 4 MiB a request. Returns how many are new.
    ///
    /// After an error some values may have been added.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Multimap::insert`].
    #[doc(alias = "putAll")]
    pub async fn insert_many<'a, Q: ?Sized>(
        &self,
        key: &Q,
        values: impl IntoIterator<Item = &'a V>,
    ) -> Result<u64, ObjectError>
    where
        V: 'a,
        KC: EncodesFor<K, Q>,
    {
        let (key, values, mut new) = (self.key_ref(key)?, self.encode_values(values)?, 0);
        for part in chunks(&values, Bytes::len) {
            let request = self.key_request(&INSERT, &key)?.arg(Y::Values::LEN).arg(Y::Values::ADD);
            let request = part.iter().cloned().fold(request, Request::arg);
            new += self.change_and_purge::<u64>(request).await?;
        }
        Ok(new)
    }

    /// Removes a value of a key; of a list, the first equal one. Returns whether it was found.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Multimap::insert`].
    pub async fn remove<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (key, value) = (self.key_ref(key)?, self.object_ref.encoded(&self.values, value)?);
        let request = self.key_request(&REMOVE, &key)?.arg(Y::Values::LEN).arg(Y::Values::REMOVE);
        self.change_and_purge(request.arg(value)).await
    }

    /// Replaces the values of a key with up to 100,000 others in one step. Without values the key
    /// is removed.
    ///
    /// # Errors
    ///
    /// As for [`Multimap::insert`]. [`Failure::InvalidArgument`](crate::Failure::InvalidArgument)
    /// if there are more values.
    ///
    /// # Cancel safety
    ///
    /// As for [`Multimap::insert`].
    #[doc(alias = "fastReplaceValues")]
    pub async fn set_all<'a, Q: ?Sized>(
        &self,
        key: &Q,
        values: impl IntoIterator<Item = &'a V>,
    ) -> Result<(), ObjectError>
    where
        V: 'a,
        KC: EncodesFor<K, Q>,
    {
        self.replace(key, self.encode_values(values)?, false).await.map(drop)
    }
}

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    async fn replace<Q: ?Sized>(
        &self,
        key: &Q,
        values: Vec<Bytes>,
        return_previous: bool,
    ) -> Result<Vec<Bytes>, ObjectError>
    where
        KC: Encode<Q>,
    {
        let key = self.key_ref(key)?;
        if values.len() > MAX_REPLACED {
            return Err(self.object_ref.invalid("values", format_args!("up to {MAX_REPLACED} at once"), values.len()));
        }
        let read_command = if return_previous { Y::Values::ALL[0] } else { "" };
        let request = self.key_request(&REPLACE, &key)?.arg(read_command).arg(Y::Values::LEN).arg(Y::Values::ADD);
        self.change_and_purge(values.into_iter().fold(request, Request::arg)).await
    }

    /// Removes keys with all their values, up to 500 a request. Returns how many were in the map.
    ///
    /// The server frees the memory in the background.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. Some of the keys
    /// may have been removed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "fastRemove")]
    pub async fn remove_keys<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let keys: Result<Vec<KeyRef>, _> = keys.into_iter().map(|key| self.key_ref(key)).collect();
        self.remove_key_refs(&keys?).await
    }

    pub(crate) async fn remove_key_refs(&self, keys: &[KeyRef]) -> Result<u64, ObjectError> {
        let mut removed = 0;
        for part in chunks(keys, |key| key.field.len() + key.values_key.len()) {
            removed += self.change_and_purge::<u64>(self.remove_request("any", part)?).await?;
        }
        Ok(removed)
    }

    /// Returns the request that removes keys: `any` of them, or only those that are `over`
    /// (expired). It also removes the expiries if the map does not exist; without keys it does only
    /// that.
    pub(crate) fn remove_request(&self, which: &'static str, keys: &[KeyRef]) -> Result<Request, ObjectError> {
        let values_keys = keys.iter().map(|key| key.values_key.clone());
        let request = self.script_request(&REMOVE_KEYS, values_keys)?.arg(which);
        Ok(keys.iter().fold(request, |request, key| request.arg(key.field.clone()).arg(key.hash.clone())))
    }

    /// Returns the request of a script on a key of the map and its values.
    pub(crate) fn key_request(&self, script: &'static BulkScript, key: &KeyRef) -> Result<Request, ObjectError> {
        let request = self.script_request(script, [key.values_key.clone()])?;
        Ok(request.arg(key.field.clone()).arg(key.hash.clone()))
    }
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Replaces the values of a key with up to 100,000 others in one step. Returns the previous
    /// values. Without values the key is removed.
    ///
    /// # Errors
    ///
    /// As for [`Multimap::set_all`]. If a previous value cannot be decoded, the call returns an
    /// error, and the values are replaced nevertheless.
    ///
    /// # Cancel safety
    ///
    /// As for [`Multimap::insert`].
    #[doc(alias = "replaceValues")]
    pub async fn replace_all<'a, Q: ?Sized>(
        &self,
        key: &Q,
        values: impl IntoIterator<Item = &'a V>,
    ) -> Result<Vec<V>, ObjectError>
    where
        V: 'a,
        KC: EncodesFor<K, Q>,
    {
        let previous = self.replace(key, self.encode_values(values)?, true).await?;
        previous.iter().map(|bytes| self.decode_value(bytes)).collect()
    }
}

impl<K, V, KC: Codec, VC: Decode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Removes a key with all its values in one step. Returns these values.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. If a value cannot
    /// be decoded, the call returns an error, and the key is removed nevertheless.
    /// [`Multimap::get_all`] reads the values without removing them.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "removeAll")]
    pub async fn remove_all<Q: ?Sized>(&self, key: &Q) -> Result<Vec<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.replace(key, Vec::new(), true).await?.iter().map(|bytes| self.decode_value(bytes)).collect()
    }
}
