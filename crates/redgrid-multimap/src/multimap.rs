//! The multimap, and where the values of its keys are.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, Raw, element_hash};
use redgrid_core::name::suffixed;
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{BulkScript, Client, FromReply, Request};

use crate::kind::sealed::{Values, Way};
use crate::kind::{Expiring, Kind, Lists, Native, Sets};

/// A map with several values a key, shared by all processes that reach the same server: [`SetMultimap`], [`ListMultimap`], or one of these whose keys
/// have lifetimes, by its kind `Y`.
///
/// Cheap to clone; clones are the same map. The codecs of keys and of values are part of the type: all who share a map name the same. A key
/// is there while it has values, and a map while it has keys.
#[doc(alias = "RMultimap")]
pub struct Multimap<K, V, KC, VC, Y> {
    pub(crate) place: Place,
    pub(crate) keys: KC,
    pub(crate) values: VC,
    entries: Entries<K, V, Y>,
}

/// What it has none of in memory.
type Entries<K, V, Y> = PhantomData<fn() -> (K, V, Y)>;

/// The types, with the codecs of one that names none: there are some only with the feature `json`, so that what a map stores never
/// depends on the features that others ask for.
macro_rules! multimaps {
    ([$($key:tt)*]) => {
        /// A map with a set of values for each key. Redisson's `RSetMultimap` on the wire.
        #[doc(alias = "RSetMultimap")]
        #[doc(alias = "RedissonSetMultimap")]
        pub type SetMultimap<K, V, KC $($key)*, VC = KC> = Multimap<K, V, KC, VC, Sets>;

        /// A map with a list of values for each key. Redisson's `RListMultimap` on the wire.
        #[doc(alias = "RListMultimap")]
        #[doc(alias = "RedissonListMultimap")]
        pub type ListMultimap<K, V, KC $($key)*, VC = KC> = Multimap<K, V, KC, VC, Lists>;

        /// A map with a set of values for each key, and lifetimes of keys: on every server. Redisson's `RSetMultimapCache` on the wire.
        #[doc(alias = "RSetMultimapCache")]
        #[doc(alias = "RMultimapCache")]
        #[doc(alias = "RedissonSetMultimapCache")]
        pub type SetMultimapCache<K, V, KC $($key)*, VC = KC> = Multimap<K, V, KC, VC, Expiring<Sets>>;

        /// A map with a list of values for each key, and lifetimes of keys: on every server. Redisson's `RListMultimapCache` on the wire.
        #[doc(alias = "RListMultimapCache")]
        #[doc(alias = "RedissonListMultimapCache")]
        pub type ListMultimapCache<K, V, KC $($key)*, VC = KC> = Multimap<K, V, KC, VC, Expiring<Lists>>;

        /// A map with a set of values for each key, and lifetimes of keys that the server itself ends: Redis 7.4, Valkey 9. Redisson's
        /// `RSetMultimapCacheNative` on the wire.
        #[doc(alias = "RSetMultimapCacheNative")]
        #[doc(alias = "RedissonSetMultimapCacheNative")]
        pub type NativeSetMultimapCache<K, V, KC $($key)*, VC = KC> = Multimap<K, V, KC, VC, Native<Sets>>;

        /// A map with a list of values for each key, and lifetimes of keys that the server itself ends: Redis 7.4, Valkey 9. Redisson's
        /// `RListMultimapCacheNative` on the wire.
        #[doc(alias = "RListMultimapCacheNative")]
        #[doc(alias = "RedissonListMultimapCacheNative")]
        pub type NativeListMultimapCache<K, V, KC $($key)*, VC = KC> = Multimap<K, V, KC, VC, Native<Lists>>;
    };
}

#[cfg(feature = "json")]
multimaps!([= redgrid_codecs::Json]);
#[cfg(not(feature = "json"))]
multimaps!([]);

impl<K, V, KC: Codec + Default, VC: Codec + Default, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// The map with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Multimap { place: Place::new(client, name), keys: KC::default(), values: VC::default(), entries: PhantomData }
    }
}

/// A script behind what those of multimaps begin with.
macro_rules! script {
    ($name:ident, $script:literal) => {
        static $name: redgrid_core::BulkScript = redgrid_core::BulkScript::new(
            concat!("multimap/", $script),
            concat!(include_str!("scripts/head.lua"), include_str!(concat!("scripts/", $script, ".lua"))),
        );
    };
}
pub(crate) use script;

/// A key as its codec writes it, and what is there of it.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) field: Bytes,
    pub(crate) hash: Bytes,
    /// Its values.
    pub(crate) values: Bytes,
}

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// The same name with other codecs for keys and for values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> Multimap<K, V, A, B, Y> {
        Multimap { place: self.place, keys, values, entries: PhantomData }
    }

    /// The same name, of what is as it is written.
    pub(crate) fn of_bytes(&self) -> Multimap<Bytes, Bytes, Raw, Raw, Y> {
        Multimap { place: self.place.clone(), keys: Raw, values: Raw, entries: PhantomData }
    }

    pub(crate) fn found<Q: ?Sized>(&self, key: &Q) -> Result<Found, ObjectError>
    where
        KC: Encode<Q>,
    {
        self.of_field(self.place.encoded(&self.keys, key)?)
    }

    pub(crate) fn of_field(&self, field: Bytes) -> Result<Found, ObjectError> {
        let hash = Bytes::from(element_hash(&field));
        let (_, map) = self.place.named()?;
        Ok(Found { values: values_of(map, &hash), field, hash })
    }

    /// A script on the map and these keys of its values, told how keys have lifetimes.
    pub(crate) fn script(
        &self,
        script: &'static BulkScript,
        values: impl IntoIterator<Item = Bytes>,
    ) -> Result<Request, ObjectError> {
        let (_, map) = self.place.named()?;
        let keys = [map.clone()].into_iter().chain(values).chain(self.ends()?);
        Ok(script.with(keys).arg(Y::WAY.word()))
    }

    /// The sorted set with the ends of lifetimes, where there is one.
    pub(crate) fn ends(&self) -> Result<Option<Bytes>, ObjectError> {
        let (_, map) = self.place.named()?;
        Ok((Y::WAY == Way::Ends).then(|| suffixed(map, <Y::Values as Values>::ENDS)))
    }

    /// Asks for a change, which also tells of some keys that are over: these are taken out, where the server does so in time. Else a later change finds
    /// them.
    pub(crate) async fn changed<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let (told, over): (T, Vec<Bytes>) = self.place.change(request).await?;
        if !over.is_empty() {
            let client = self.place.client();
            let until = client.clock().now() + client.response_timeout();
            let _: Result<(u64, Vec<Bytes>), _> = client.run_until(self.purging(over)?, until).await;
        }
        Ok(told)
    }

    /// Has keys taken out, those whose lifetimes are over.
    pub(crate) fn purging(&self, fields: Vec<Bytes>) -> Result<Request, ObjectError> {
        let found: Vec<Found> = fields.into_iter().map(|field| self.of_field(field)).collect::<Result<_, _>>()?;
        Ok(self.removing("over", &found)?.idempotent())
    }

    pub(crate) fn written<'a>(&self, values: impl IntoIterator<Item = &'a V>) -> Result<Vec<Bytes>, ObjectError>
    where
        VC: Encode<V>,
        V: 'a,
    {
        values.into_iter().map(|value| self.place.encoded(&self.values, value)).collect()
    }

    pub(crate) fn key(&self, field: &Bytes) -> Result<K, ObjectError>
    where
        KC: Decode<K>,
    {
        self.place.decoded(&self.keys, field, || Some("a key".into()))
    }

    pub(crate) fn value(&self, bytes: &Bytes) -> Result<V, ObjectError>
    where
        VC: Decode<V>,
    {
        self.place.decoded(&self.values, bytes, || Some("a value".into()))
    }
}

impl Found {
    /// As HSCAN tells a key and its hash.
    pub(crate) fn new(map: &Bytes, found: &[Bytes]) -> Found {
        let (field, hash) = (found[0].clone(), found[1].clone());
        Found { values: values_of(map, &hash), field, hash }
    }
}

/// Where the values of a key are that has this hash: as it is stored.
pub(crate) fn values_of(map: &Bytes, hash: &[u8]) -> Bytes {
    suffixed(map, &String::from_utf8_lossy(hash))
}

impl<K, V, KC: Clone, VC: Clone, Y> Clone for Multimap<K, V, KC, VC, Y> {
    fn clone(&self) -> Self {
        let Multimap { place, keys, values, .. } = self;
        Multimap { place: place.clone(), keys: keys.clone(), values: values.clone(), entries: PhantomData }
    }
}

impl<K, V, KC: fmt::Debug, VC: fmt::Debug, Y: Kind> fmt::Debug for Multimap<K, V, KC, VC, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(Y::NAME);
        shown.field("name", &self.place.name()).field("keys", &self.keys).field("values", &self.values);
        shown.finish_non_exhaustive()
    }
}
