//! What a key has, and which keys there are.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Request;
use redgrid_core::object::{ObjectError, Scan};

use crate::kind::Kind;
use crate::multimap::Multimap;

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// How many keys it has.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "keySize")]
    pub async fn key_len(&self) -> Result<u64, ObjectError> {
        self.place.read(self.place.command("HLEN")?).await
    }

    /// Whether it has none.
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.key_len().await? == 0)
    }

    /// Whether a key has values.
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    #[doc(alias = "containsKey")]
    pub async fn contains_key<Q: ?Sized>(&self, key: &Q) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.place.read(Request::command("EXISTS").key(self.found(key)?.values)).await
    }

    /// How many values a key has.
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    pub async fn values_len<Q: ?Sized>(&self, key: &Q) -> Result<u64, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.place.read(Request::command(Y::LEN).key(self.found(key)?.values)).await
    }
}

impl<K, V, KC: Codec, VC: Encode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Whether a key has a value. Of a list the server looks through it.
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    #[doc(alias = "containsEntry")]
    pub async fn contains_entry<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let value = self.place.encoded(&self.values, value)?;
        let found = self.place.read(Request::command(Y::CONTAINS).key(self.found(key)?.values).arg(value)).await?;
        Ok(Y::is_in(found))
    }
}

impl<K, V, KC: Codec, VC: Decode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// All values of a key in one answer: as large as all of them; of a list in their order. None where the key is not in the map.
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    #[doc(alias = "getAll")]
    #[doc(alias = "get")]
    pub async fn get_all<Q: ?Sized>(&self, key: &Q) -> Result<Vec<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let request = Request::command(Y::ALL[0]).key(self.found(key)?.values);
        let request = Y::ALL[1..].iter().fold(request, |request, arg| request.arg(*arg));
        self.place.read::<Vec<Bytes>>(request).await?.iter().map(|bytes| self.value(bytes)).collect()
    }
}

impl<K, V, KC: Decode<K>, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// All keys in one answer: as large as all of them. For large maps there is [`Multimap::keys`].
    ///
    /// # Errors
    ///
    /// As [`Multimap::key_len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::key_len`].
    #[doc(alias = "readAllKeySet")]
    pub async fn read_all_keys(&self) -> Result<Vec<K>, ObjectError> {
        self.place.read::<Vec<Bytes>>(self.place.command("HKEYS")?).await?.iter().map(|bytes| self.key(bytes)).collect()
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// All keys, as a stream, in no order.
    #[doc(alias = "keySet")]
    pub fn keys(&self) -> Scan<K> {
        let map = self.clone();
        Scan::by("HSCAN", 2, self.place.clone(), move |found| map.key(&found[0]))
    }
}
