//! Changes, each published to all caches of the map in the step in which it is made.

use bytes::Bytes;
use redgrid_codecs::{Arithmetic, Codec, Decode, Encode, EncodesFor, Numeric};
use redgrid_core::object::{ObjectError, chunks};
use redgrid_core::{FromReply, Request, Script};

use crate::listen::topic;
use crate::map::LocalCachedMap;
use crate::message;
use crate::near::{ClearOnDrop, InvalidateOnDrop, hash};

static CHANGE: Script<1> = Script::new("local_cached_map/change", include_str!("scripts/change.lua"));
static PUBLISH_AND_RUN: Script<1> =
    Script::new("local_cached_map/publish_and_run", include_str!("scripts/publish_and_run.lua"));

/// The condition of a change of a key.
pub(crate) enum Condition {
    Always,
    Absent,
    Present,
    Equal(Bytes),
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Sets the value of a key. Returns the previous value.
    ///
    /// # Errors
    ///
    /// As for [`LocalCachedMap::set`]. The value is set even if the previous one cannot be decoded.
    ///
    /// # Cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "put")]
    pub async fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.set_returning_previous(key, value, Condition::Always).await
    }

    /// Sets the value of a key that is not in the map. Otherwise returns the current value.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "putIfAbsent")]
    pub async fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.set_returning_previous(key, value, Condition::Absent).await
    }

    /// Sets the value of a key that is in the map. Returns the previous value.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "putIfExists")]
    pub async fn replace<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.set_returning_previous(key, value, Condition::Present).await
    }

    async fn set_returning_previous<Q: ?Sized>(
        &self,
        key: &Q,
        value: &V,
        condition: Condition,
    ) -> Result<Option<V>, ObjectError>
    where
        KC: Encode<Q>,
    {
        let (field, value) = self.encode_entry(key, value)?;
        let (_, previous) = self.change_key(&field, Some(value), condition, true).await?;
        self.decode_value(&field, previous.as_ref())
    }
}

impl<K, V, KC: Codec, VC: Encode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Sets the value of a key. Returns whether the key is new in the map.
    ///
    /// This is cheaper than [`LocalCachedMap::insert`], which returns the previous value.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed and published even if the future is dropped.
    #[doc(alias = "fastPut")]
    pub async fn set<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, value) = self.encode_entry(key, value)?;
        self.run_and_publish::<bool>("HSET", &[&field], vec![field.clone(), value]).await
    }

    /// Sets the value of a key that is not in the map. Returns whether it was set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "fastPutIfAbsent")]
    pub async fn set_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, value) = self.encode_entry(key, value)?;
        Ok(self.change_key(&field, Some(value), Condition::Absent, false).await?.0)
    }

    /// Sets the value of a key that is in the map. Returns whether it was set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "fastReplace")]
    #[doc(alias = "fastPutIfExists")]
    pub async fn set_if_exists<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, value) = self.encode_entry(key, value)?;
        Ok(self.change_key(&field, Some(value), Condition::Present, false).await?.0)
    }

    /// Sets the values of keys, up to 500 or about 4 MiB a request. After an error some keys may be
    /// set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "putAll")]
    pub async fn set_many<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, &'a V)>,
    ) -> Result<(), ObjectError>
    where
        V: 'a,
        KC: EncodesFor<K, Q>,
    {
        let entries: Result<Vec<_>, _> =
            entries.into_iter().map(|(key, value)| self.encode_entry(key, value)).collect();
        let entries = entries?;
        for part in chunks(&entries, |(field, value)| field.len() + value.len()) {
            let fields: Vec<&Bytes> = part.iter().map(|(field, _)| field).collect();
            let args = part.iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect();
            self.run_and_publish::<i64>("HSET", &fields, args).await?;
        }
        Ok(())
    }

    /// Sets the value of a key if it is `expected`. Returns whether it was set.
    ///
    /// Values are equal if their encoded bytes are equal.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "replace")]
    pub async fn compare_and_set<Q: ?Sized>(&self, key: &Q, expected: &V, new: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, expected) = self.encode_entry(key, expected)?;
        let new = self.object_ref.encoded(&self.values, new)?;
        Ok(self.change_key(&field, Some(new), Condition::Equal(expected), false).await?.0)
    }

    /// Removes a key if its value is `expected`. Returns whether it was removed.
    ///
    /// Values are equal if their encoded bytes are equal.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "remove")]
    pub async fn compare_and_remove<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, expected) = self.encode_entry(key, expected)?;
        Ok(self.change_key(&field, None, Condition::Equal(expected), false).await?.0)
    }

    fn encode_entry<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<(Bytes, Bytes), ObjectError>
    where
        KC: Encode<Q>,
    {
        Ok((self.object_ref.encoded(&self.keys, key)?, self.object_ref.encoded(&self.values, value)?))
    }
}

impl<K, V, KC: Codec, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Removes a key. Returns the removed value.
    ///
    /// # Errors
    ///
    /// As for [`LocalCachedMap::set`]. A key whose value cannot be decoded is removed as well.
    ///
    /// # Cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    pub async fn remove<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let field = self.object_ref.encoded(&self.keys, key)?;
        let (_, previous) = self.change_key(&field, None, Condition::Always, true).await?;
        self.decode_value(&field, previous.as_ref())
    }
}

impl<K, V, KC: Codec, VC: Codec> LocalCachedMap<K, V, KC, VC> {
    /// Removes keys, up to 500 or about 4 MiB a request. Returns how many were in the map.
    ///
    /// This is cheaper than [`LocalCachedMap::remove`], which returns the removed value.
    ///
    /// # Errors
    ///
    /// As for [`LocalCachedMap::set`]. Some of the keys may have been removed.
    ///
    /// # Cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "fastRemove")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let fields = self.object_ref.encoded_all(&self.keys, keys)?;
        let mut removed = 0;
        for part in chunks(&fields, Bytes::len) {
            let fields: Vec<&Bytes> = part.iter().collect();
            removed += self.run_and_publish::<u64>("HDEL", &fields, part.to_vec()).await?;
        }
        Ok(removed)
    }

    /// Adds to the number of a key. Returns the sum.
    ///
    /// A key that is not in the map counts as 0.
    ///
    /// # Errors
    ///
    /// As for [`LocalCachedMap::set`]. The server refuses values that are not numbers, and sums
    /// beyond the range of its numbers.
    ///
    /// # Cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "addAndGet")]
    pub async fn add<Q: ?Sized>(&self, key: &Q, by: &V) -> Result<V, ObjectError>
    where
        VC: Numeric<V>,
        KC: EncodesFor<K, Q>,
    {
        let field = self.object_ref.encoded(&self.keys, key)?;
        let args = vec![field.clone(), self.object_ref.encoded(&self.values, by)?];
        let sum: Bytes = match VC::ARITHMETIC {
            Arithmetic::Integer => self.run_and_publish::<i64>("HINCRBY", &[&field], args).await?.to_string().into(),
            Arithmetic::Float => self.run_and_publish("HINCRBYFLOAT", &[&field], args).await?,
        };
        self.object_ref.decoded(&self.values, &sum, || crate::read::key_for_error(&field))
    }

    /// Removes all entries, and with them the map, in one step, and clears all caches of the map.
    /// Returns whether there were any entries.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "delete")]
    #[doc(alias = "unlink")]
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        let _clear_on_drop = ClearOnDrop(self.near()?);
        let request = self.publishing_request(&PUBLISH_AND_RUN, message::clear())?.arg("DEL");
        self.object_ref.change(request).await
    }

    /// Clears the caches of the map in all processes, including this one and those of Redisson.
    ///
    /// The message is published; the call does not wait until the caches are cleared.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "clearLocalCache")]
    pub async fn clear_all_local(&self) -> Result<(), ObjectError> {
        let _clear_on_drop = ClearOnDrop(self.near()?);
        let request = self.publishing_request(&PUBLISH_AND_RUN, message::clear())?.arg("HLEN");
        self.object_ref.change::<u64>(request.idempotent()).await.map(drop)
    }

    /// Runs a command on these keys, and publishes that they are changed.
    async fn run_and_publish<T: FromReply>(
        &self,
        command: &'static str,
        fields: &[&Bytes],
        args: Vec<Bytes>,
    ) -> Result<T, ObjectError> {
        let change = self.invalidate_on_drop(fields)?;
        let request = self.publishing_request(&PUBLISH_AND_RUN, message::invalidate(&change.hashes))?.arg(command);
        self.object_ref.change(args.into_iter().fold(request, Request::arg)).await
    }

    /// Changes a key if the condition holds. Returns whether it was changed and, with
    /// `return_previous`, the value that it had.
    async fn change_key(
        &self,
        field: &Bytes,
        value: Option<Bytes>,
        condition: Condition,
        return_previous: bool,
    ) -> Result<(bool, Option<Bytes>), ObjectError> {
        let change = self.invalidate_on_drop(&[field])?;
        let request = self.change_request(&change, field, value, condition, return_previous)?;
        self.object_ref.change(request).await
    }

    /// Returns the request of [`Self::change_key`].
    pub(crate) fn change_request(
        &self,
        change: &InvalidateOnDrop<'_>,
        field: &Bytes,
        value: Option<Bytes>,
        condition: Condition,
        return_previous: bool,
    ) -> Result<Request, ObjectError> {
        let (condition_name, expected) = match condition {
            Condition::Always => ("always", None),
            Condition::Absent => ("absent", None),
            Condition::Present => ("present", None),
            Condition::Equal(expected) => ("equal", Some(expected)),
        };
        let request = self
            .publishing_request(&CHANGE, message::invalidate(&change.hashes))?
            .arg(condition_name)
            .int(return_previous.into());
        let request = request.arg(field.clone()).int(value.is_some().into()).arg(value.unwrap_or_default());
        Ok(request.arg(expected.unwrap_or_default()))
    }

    /// Returns a guard. When it is dropped, cached values of these keys that were read before
    /// become invalid.
    pub(crate) fn invalidate_on_drop(&self, fields: &[&Bytes]) -> Result<InvalidateOnDrop<'_>, ObjectError> {
        let hashes = fields.iter().map(|field| hash(field)).collect();
        Ok(InvalidateOnDrop { near: self.near()?, hashes })
    }

    fn publishing_request(&self, script: &'static Script<1>, message: Bytes) -> Result<Request, ObjectError> {
        let (_, key) = self.object_ref.name_and_key()?;
        Ok(script.with([key.clone()]).publish_arg().arg(topic(key)).arg(message))
    }
}
