//! The map cache: construction, entry count, and clearing.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Client;
use redgrid_core::author::ClientExt;
use redgrid_core::object::{Object, ObjectError, ObjectRef};

use crate::layout::{Layout, Native, Packed};

/// Maximum number of expired entries that one request of a count removes.
const PURGED_PER_COUNT: i64 = 500;

/// The text of [`ObjectError::Unsupported`] on servers without lifetimes of hash fields.
pub(crate) const FIELD_LIFETIMES_NEEDED: &str =
    "lifetimes of hash fields need Redis 7.4 or newer, or Valkey 9.0 or newer";

/// A map whose entries have lifetimes, shared by all processes that reach the same server:
/// [`MapCache`] or [`NativeMapCache`], by its layout `Y`.
///
/// It is cheap to clone; clones are handles of the same map. The codecs of keys and values are part
/// of the type: all users of a map must use the same ones.
pub struct Cache<K, V, KC, VC, Y> {
    pub(crate) object_ref: ObjectRef,
    pub(crate) keys: KC,
    pub(crate) values: VC,
    entries: Entries<K, V, Y>,
}

/// The types of the entries, of which the handle stores no values.
type Entries<K, V, Y> = PhantomData<fn() -> (K, V, Y)>;

/// Defines the types, with their default codecs. Only the feature `json` gives them some, so that
/// the stored format never depends on features that other crates enable.
macro_rules! caches {
    ([$($key:tt)*]) => {
        /// A map with lifetimes and idle times of its entries, and an optional limit on their
        /// number.
        ///
        /// On the wire it is Redisson's `RMapCache`.
        #[doc(alias = "RMapCache")]
        #[doc(alias = "RedissonMapCache")]
        pub type MapCache<K, V, KC $($key)*, VC = KC> = Cache<K, V, KC, VC, Packed>;

        /// A map with lifetimes of its entries that the server enforces: Redis 7.4, Valkey 9.
        ///
        /// On the wire it is Redisson's `RMapCacheNative`. It is a plain hash like that of a `Map`,
        /// so both types may be used under one name.
        #[doc(alias = "RMapCacheNative")]
        #[doc(alias = "RedissonMapCacheNative")]
        pub type NativeMapCache<K, V, KC $($key)*, VC = KC> = Cache<K, V, KC, VC, Native>;
    };
}

#[cfg(feature = "json")]
caches!([= redgrid_codecs::Json]);
#[cfg(not(feature = "json"))]
caches!([]);

impl<K, V, KC: Codec + Default, VC: Codec + Default, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Returns the map with this name.
    ///
    /// No request is sent: the first call reports an invalid name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Cache {
            object_ref: ObjectRef::new(client, name),
            keys: KC::default(),
            values: VC::default(),
            entries: PhantomData,
        }
    }
}

impl<K, V, KC: Codec, VC: Codec, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Returns a handle of the same name with another codec for keys and values.
    pub fn with_codec<C: Codec>(self, codec: C) -> Cache<K, V, C, C, Y> {
        self.with_codecs(codec.clone(), codec)
    }

    /// Returns a handle of the same name with other codecs for keys and for values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> Cache<K, V, A, B, Y> {
        Cache { object_ref: self.object_ref, keys, values, entries: PhantomData }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, renaming, memory size.
    ///
    /// The limit and the lifetimes of the entries belong to the object.
    pub fn object(&self) -> Object {
        self.object_ref.object(Y::KEYS)
    }

    /// Returns the number of entries that are not expired.
    ///
    /// The call removes expired entries first, up to 500 a request. A native map is counted at
    /// once: the count may include entries that expired moments ago and that the server has not
    /// removed yet.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`ObjectError::Contended`] if not all expired entries can be removed within the call's time
    /// limit, `response_timeout × (retries + 1)`: the next call continues with the rest.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes no live entry.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.count(false).await
    }

    /// Counts the entries. With `until_live`, the count ends as soon as one entry is certainly not
    /// expired.
    async fn count(&self, until_live: bool) -> Result<u64, ObjectError> {
        let until = self.object_ref.client().clock().now() + self.object_ref.client().patience();
        loop {
            let Some(request) = Y::len(&self.object_ref, PURGED_PER_COUNT)? else {
                return self.object_ref.read(self.object_ref.command("HLEN")?).await;
            };
            let (len, more, has_live): (u64, bool, bool) = self.object_ref.read_primary(request).await?;
            if !more || (until_live && has_live) {
                return Ok(len);
            }
            if self.object_ref.client().clock().now() >= until {
                return Err(ObjectError::Contended { name: self.object_ref.name_and_key()?.0.clone(), times: 1 });
            }
        }
    }

    /// Returns whether all entries are expired, or there are none.
    ///
    /// The count ends as soon as one entry is certainly not expired.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.count(true).await? == 0)
    }

    /// Removes all entries, in one step; the limit stays.
    ///
    /// No events are published for the entries. The server frees the memory in the background.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn clear(&self) -> Result<(), ObjectError> {
        self.object_ref.change::<i64>(Y::clear(&self.object_ref)?).await.map(drop)
    }

    pub(crate) fn encode_key<Q: ?Sized>(&self, key: &Q) -> Result<Bytes, ObjectError>
    where
        KC: Encode<Q>,
    {
        self.object_ref.encoded(&self.keys, key)
    }

    pub(crate) fn encode_keys<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, ObjectError>
    where
        KC: Encode<Q>,
    {
        keys.into_iter().map(|key| self.encode_key(key)).collect()
    }

    pub(crate) fn decode_key(&self, field: &Bytes) -> Result<K, ObjectError>
    where
        KC: Decode<K>,
    {
        self.object_ref.decoded(&self.keys, field, || Some("a key".into()))
    }

    pub(crate) fn decode_value(&self, field: &[u8], bytes: &Bytes) -> Result<V, ObjectError>
    where
        VC: Decode<V>,
    {
        self.object_ref.decoded(&self.values, bytes, || describe_key(field))
    }
}

/// Describes a key in errors, by its first 64 characters.
pub(crate) fn describe_key(key: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(key);
    Some(format!("the key `{}`", text.chars().take(64).collect::<String>().escape_debug()))
}

redgrid_core::clone_fields!(
    [K, V, KC: Clone, VC: Clone, Y] Cache<K, V, KC, VC, Y> { object_ref, keys, values, entries }
);

impl<K, V, KC: fmt::Debug, VC: fmt::Debug, Y: Layout> fmt::Debug for Cache<K, V, KC, VC, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct(Y::NAME);
        debug.field("name", &self.object_ref.name()).field("keys", &self.keys).field("values", &self.values);
        debug.finish_non_exhaustive()
    }
}
