//! Reads of the values of a key, and of the keys.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::author::ClientExt;
use redgrid_core::object::{ObjectError, ObjectRef, Scan};
use redgrid_core::{FromReply, Request};

use crate::kind::Kind;
use crate::kind::sealed::{LifetimeMode, Values};
use crate::multimap::{KeyRef, Multimap, script};

script!(COUNT, "count");
script!(KEYS, "keys");
script!(SCAN, "scan");

/// Number of expired keys that a count removes at a time.
const PURGE_BATCH: i64 = 100;

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Runs a command on the values of a key. Returns `None` if the key has expired.
    async fn run_on_key<R: FromReply>(
        &self,
        key: KeyRef,
        command: &[&'static str],
        arg: Option<Bytes>,
    ) -> Result<Option<R>, ObjectError> {
        if Y::LIFETIME_MODE == LifetimeMode::SortedSet {
            return Ok(self.run_each(&[key], command, arg.as_ref()).await?.pop().flatten());
        }
        let request = Request::command(command[0]).key(key.values_key);
        let request = command[1..].iter().fold(request, |request, arg| request.arg(*arg));
        self.object_ref.read(arg.into_iter().fold(request, Request::arg)).await
    }

    /// Returns the number of keys.
    ///
    /// A multimap with lifetimes first removes its expired keys, 100 at a time. A native one
    /// returns the number at once, which may include keys that have just expired and that the
    /// server has not removed yet.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. [`ObjectError::Contended`] if there are more expired
    /// keys than can be removed within the time limit of a call,
    /// `response_timeout × (retries + 1)`. The next call continues with the rest.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes no live key.
    #[doc(alias = "keySize")]
    pub async fn key_len(&self) -> Result<u64, ObjectError> {
        if Y::LIFETIME_MODE != LifetimeMode::SortedSet {
            return self.object_ref.read(self.object_ref.command("HLEN")?).await;
        }
        let client = self.object_ref.client();
        let until = client.clock().now() + client.patience();
        loop {
            let request = self.script_request(&COUNT, [])?.int(PURGE_BATCH);
            let (len, expired): (u64, Vec<Bytes>) = self.object_ref.read_primary(request).await?;
            if expired.is_empty() {
                return Ok(len);
            }
            let _: (u64, Vec<Bytes>) = self.object_ref.read_primary(self.purge_request(expired)?).await?;
            if client.clock().now() >= until {
                return Err(ObjectError::Contended { name: self.object_ref.name_and_key()?.0.clone(), times: 1 });
            }
        }
    }

    /// Returns whether the map is empty.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Multimap::key_len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.key_len().await? == 0)
    }

    /// Returns whether a key has values.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Multimap::key_len`].
    #[doc(alias = "containsKey")]
    pub async fn contains_key<Q: ?Sized>(&self, key: &Q) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(self.run_on_key::<bool>(self.key_ref(key)?, &["EXISTS"], None).await?.unwrap_or(false))
    }

    /// Returns the number of values of a key.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Multimap::key_len`].
    pub async fn values_len<Q: ?Sized>(&self, key: &Q) -> Result<u64, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(self.run_on_key(self.key_ref(key)?, &[Y::Values::LEN], None).await?.unwrap_or(0))
    }
}

impl<K, V, KC: Codec, VC: Encode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns whether a key has a value. For a list the server searches it.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Multimap::key_len`].
    #[doc(alias = "containsEntry")]
    pub async fn contains_entry<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let value = self.object_ref.encoded(&self.values, value)?;
        let reply = self.run_on_key(self.key_ref(key)?, &[Y::Values::CONTAINS], Some(value)).await?;
        Ok(Y::Values::is_found(reply))
    }
}

impl<K, V, KC: Codec, VC: Decode<V>, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns all values of a key in one reply, which is as large as all of them. The values of a
    /// list are in order. The result is empty if the key is not in the map.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Multimap::key_len`].
    #[doc(alias = "getAll")]
    #[doc(alias = "get")]
    pub async fn get_all<Q: ?Sized>(&self, key: &Q) -> Result<Vec<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let all: Option<Vec<Bytes>> = self.run_on_key(self.key_ref(key)?, Y::Values::ALL, None).await?;
        all.unwrap_or_default().iter().map(|bytes| self.decode_value(bytes)).collect()
    }
}

impl<K, V, KC: Decode<K>, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns all keys in one reply, which is as large as all of them.
    ///
    /// For large maps use [`Multimap::keys`].
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Multimap::key_len`].
    #[doc(alias = "readAllKeySet")]
    pub async fn read_all_keys(&self) -> Result<Vec<K>, ObjectError> {
        let all: Vec<Bytes> = match Y::LIFETIME_MODE {
            LifetimeMode::SortedSet => self.object_ref.read_primary(self.script_request(&KEYS, [])?).await?,
            _ => self.object_ref.read(self.object_ref.command("HKEYS")?).await?,
        };
        all.iter().map(|bytes| self.decode_key(bytes)).collect()
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns a stream of all keys, in no order.
    #[doc(alias = "keySet")]
    pub fn keys(&self) -> Scan<K> {
        let map = self.clone();
        self.scan_by(move |entry| map.decode_key(&entry[0]))
    }
}

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns a scan of the keys that have not expired, each with its hash.
    pub(crate) fn scan_by<T>(
        &self,
        decode: impl Fn(&[Bytes]) -> Result<T, ObjectError> + Send + Sync + 'static,
    ) -> Scan<T> {
        if Y::LIFETIME_MODE != LifetimeMode::SortedSet {
            return Scan::by("HSCAN", 2, self.object_ref.clone(), decode);
        }
        let expiry_key = self.expiry_key();
        let request = move |object_ref: &ObjectRef, cursor: Bytes, page: u32, pattern: Option<Bytes>| {
            let keys = [object_ref.name_and_key()?.1.clone()].into_iter().chain(expiry_key.clone()?);
            let request = SCAN.with(keys).arg(Y::LIFETIME_MODE.name()).arg(cursor).int(page.into());
            Ok(request.arg(pattern.unwrap_or_default()))
        };
        Scan::asking(2, self.object_ref.clone(), request, decode)
    }
}
