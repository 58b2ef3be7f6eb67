//! The map cache, and what is asked of it as a whole.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Client;
use redgrid_core::object::{Object, ObjectError, Place};

use crate::layout::{Layout, Native, Packed};

/// How many entries that are over a count takes out at a time.
const COUNTED: i64 = 500;

/// What is told where the server knows no lifetimes of fields.
pub(crate) const NEEDED: &str = "lifetimes of fields of hashes are known to Redis from 7.4 and to Valkey from 9.0";

/// A map whose entries have lifetimes, shared by all processes that reach the same server: [`MapCache`] or [`NativeMapCache`], by its layout `Y`.
///
/// Cheap to clone; clones are the same map. The codecs of keys and of values are part of the type: all who share a map name the same.
pub struct Cache<K, V, KC, VC, Y> {
    pub(crate) place: Place,
    pub(crate) keys: KC,
    pub(crate) values: VC,
    entries: Entries<K, V, Y>,
}

/// What it has none of in memory.
type Entries<K, V, Y> = PhantomData<fn() -> (K, V, Y)>;

/// The types, with the codecs of one that names none: there are some only with the feature `json`, so that what a map stores never
/// depends on the features that others ask for.
macro_rules! caches {
    ([$($key:tt)*]) => {
        /// A map whose entries have lifetimes and idle times, and of which there may be a limit. Redisson's `RMapCache` on the wire.
        #[doc(alias = "RMapCache")]
        #[doc(alias = "RedissonMapCache")]
        pub type MapCache<K, V, KC $($key)*, VC = KC> = Cache<K, V, KC, VC, Packed>;

        /// A map whose entries have lifetimes that the server itself ends: Redis 7.4, Valkey 9. Redisson's `RMapCacheNative` on the wire.
        /// A plain hash, as a `Map` has, so both may be used under one name.
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
    /// The map with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Cache { place: Place::new(client, name), keys: KC::default(), values: VC::default(), entries: PhantomData }
    }
}

impl<K, V, KC: Codec, VC: Codec, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// The same name with another codec for keys and values.
    pub fn with_codec<C: Codec>(self, codec: C) -> Cache<K, V, C, C, Y> {
        self.with_codecs(codec.clone(), codec)
    }

    /// The same name with other codecs for keys and for values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> Cache<K, V, A, B, Y> {
        Cache { place: self.place, keys, values, entries: PhantomData }
    }

    /// What every object has: whether it is there, its lifetime, other names, its size in memory. Its limit and the lifetimes of its entries go with it.
    pub fn object(&self) -> Object {
        self.place.object(Y::KEYS)
    }

    /// How many entries it has that are not over, for which those that are over are taken out, 500 at a time. A native one tells at once, and may
    /// count what has ended within the last moments and the server has not taken out yet.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::Contended`] where more is over than can be taken out in the time that a call may take,
    /// [`Client::patience`]: the next call goes on with the rest.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing that is there.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.count(false).await
    }

    /// How many it has; of one that is not empty some number that is not 0 will do.
    async fn count(&self, any: bool) -> Result<u64, ObjectError> {
        let until = self.place.client().clock().now() + self.place.client().patience();
        loop {
            let Some(request) = Y::len(&self.place, COUNTED)? else {
                return self.place.read(self.place.command("HLEN")?).await;
            };
            let (len, more, lives): (u64, bool, bool) = self.place.ask(request).await?;
            if !more || (any && lives) {
                return Ok(len);
            }
            if self.place.client().clock().now() >= until {
                return Err(ObjectError::Contended { name: self.place.named()?.0.clone(), times: 1 });
            }
        }
    }

    /// Whether it has none that are not over. It counts no further than to one of which that is sure.
    ///
    /// # Errors
    ///
    /// As [`Cache::len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.count(true).await? == 0)
    }

    /// Removes all entries, in one step; its limit stays. Nobody is told of single ones. The memory is freed in the background.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn clear(&self) -> Result<(), ObjectError> {
        self.place.change::<i64>(Y::clear(&self.place)?).await.map(drop)
    }

    pub(crate) fn field<Q: ?Sized>(&self, key: &Q) -> Result<Bytes, ObjectError>
    where
        KC: Encode<Q>,
    {
        self.place.encoded(&self.keys, key)
    }

    pub(crate) fn fields<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, ObjectError>
    where
        KC: Encode<Q>,
    {
        keys.into_iter().map(|key| self.field(key)).collect()
    }

    pub(crate) fn key(&self, field: &Bytes) -> Result<K, ObjectError>
    where
        KC: Decode<K>,
    {
        self.place.decoded(&self.keys, field, || Some("a key".into()))
    }

    pub(crate) fn value(&self, field: &[u8], bytes: &Bytes) -> Result<V, ObjectError>
    where
        VC: Decode<V>,
    {
        self.place.decoded(&self.values, bytes, || shown(field))
    }
}

/// A key as it is shown in errors: its first 64 characters.
pub(crate) fn shown(key: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(key);
    Some(format!("the key `{}`", text.chars().take(64).collect::<String>().escape_debug()))
}

impl<K, V, KC: Clone, VC: Clone, Y> Clone for Cache<K, V, KC, VC, Y> {
    fn clone(&self) -> Self {
        let Cache { place, keys, values, .. } = self;
        Cache { place: place.clone(), keys: keys.clone(), values: values.clone(), entries: PhantomData }
    }
}

impl<K, V, KC: fmt::Debug, VC: fmt::Debug, Y: Layout> fmt::Debug for Cache<K, V, KC, VC, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(Y::NAME);
        shown.field("name", &self.place.name()).field("keys", &self.keys).field("values", &self.values);
        shown.finish_non_exhaustive()
    }
}
