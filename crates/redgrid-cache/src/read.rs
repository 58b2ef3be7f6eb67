//! Reads of values and lifetimes.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::FromReply;
use redgrid_core::object::{Lifetime, ObjectError, chunks};

use crate::cache::{Cache, FIELD_LIFETIMES_NEEDED};
use crate::layout::{Layout, ReadKind};

impl<K, V, KC: Codec, VC: Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Returns the value of a key; `None` if it is not in the map, or expired.
    ///
    /// The call counts as an access: the idle time of the key starts again.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing but the time of the key's last access.
    #[doc(alias = "getOrDefault")]
    pub async fn get<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(self.read_values(ReadKind::Get, self.encode_keys([key])?).await?.pop().flatten())
    }

    /// Returns the values of keys, in their order, up to 500 keys a request.
    ///
    /// The call counts as an access to each key.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::get`].
    #[doc(alias = "getAll")]
    pub async fn get_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<V>>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.read_values(ReadKind::Get, self.encode_keys(keys)?).await
    }

    /// Returns the value of a key without counting as an access: its idle time continues.
    ///
    /// # Errors
    ///
    /// As for [`Cache::get`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getWithTTLOnly")]
    #[doc(alias = "getAllWithTTLOnly")]
    pub async fn peek<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(self.read_values(ReadKind::Peek, self.encode_keys([key])?).await?.pop().flatten())
    }

    async fn read_values(&self, kind: ReadKind, fields: Vec<Bytes>) -> Result<Vec<Option<V>>, ObjectError> {
        let found: Vec<Option<Bytes>> = self.read_fields(kind, &fields).await?;
        let pairs = fields.iter().zip(found);
        pairs.map(|(field, bytes)| bytes.map(|bytes| self.decode_value(field, &bytes)).transpose()).collect()
    }
}

impl<K, V, KC: Codec, VC: Codec, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Returns whether the key is in the map and not expired. The call counts as an access to it.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::get`].
    #[doc(alias = "containsKey")]
    pub async fn contains_key<Q: ?Sized>(&self, key: &Q) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let found: Vec<Option<Bytes>> = self.read_fields(ReadKind::Contains, &self.encode_keys([key])?).await?;
        // A packed map replies 1 or 0, a native one the value itself.
        Ok(found.into_iter().flatten().any(|found| Y::is_present(&found)))
    }

    /// Returns how long the key will live without accesses: until its lifetime or its idle time
    /// ends, whichever is first.
    ///
    /// # Errors
    ///
    /// As for [`Cache::get`]. [`ObjectError::Unsupported`] for a native map on a server without
    /// lifetimes of hash fields.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "remainTimeToLive")]
    pub async fn lifetime<Q: ?Sized>(&self, key: &Q) -> Result<Lifetime, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let request = Y::remaining_lifetimes(&self.object_ref, &self.encode_keys([key])?)?;
        let remaining: Option<Vec<i64>> = self
            .object_ref
            .read_primary(request)
            .await
            .map_err(|error| error.or_unsupported(FIELD_LIFETIMES_NEEDED))?;
        Ok(Lifetime::of(remaining.and_then(|remaining| remaining.first().copied()).unwrap_or(-2)))
    }

    pub(crate) async fn read_fields<T: FromReply>(
        &self,
        kind: ReadKind,
        fields: &[Bytes],
    ) -> Result<Vec<T>, ObjectError> {
        let mut found = Vec::with_capacity(fields.len());
        for chunk in chunks(fields, Bytes::len) {
            found.extend(self.object_ref.read_primary::<Vec<T>>(Y::read(&self.object_ref, kind, chunk)?).await?);
        }
        Ok(found)
    }
}
