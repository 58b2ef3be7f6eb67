//! The multimap type, and the keys of its values on the server.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, Raw, element_hash};
use redgrid_core::author::ClientExt;
use redgrid_core::name::suffixed;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{BulkScript, Client, FromReply, Request};

use crate::kind::sealed::{LifetimeMode, Values};
use crate::kind::{Expiring, Kind, Lists, Native, Sets};

/// A map with several values per key, shared by all processes that use the same server. Its kind
/// `Y` makes it a [`SetMultimap`], a [`ListMultimap`], or one of these with lifetimes of the keys.
///
/// It is cheap to clone; clones are the same map. The codecs of keys and values are part of the
/// type: all users of a map must use the same ones.
///
/// A key exists while it has values, and a map while it has keys.
#[doc(alias = "RMultimap")]
pub struct Multimap<K, V, KC, VC, Y> {
    pub(crate) object_ref: ObjectRef,
    pub(crate) keys: KC,
    pub(crate) values: VC,
    entries: Types<K, V, Y>,
}

/// The types of which a handle holds no value.
type Types<K, V, Y> = PhantomData<fn() -> (K, V, Y)>;

/// Declares the types with their default codecs. Only the feature `json` has a default for keys, so
/// that the stored format never depends on features that other crates enable.
macro_rules! multimaps {
    ([$($key:tt)*]) => {
        /// A map with a set of values for each key. On the wire it is Redisson's `RSetMultimap`.
        #[doc(alias = "RSetMultimap")]
        #[doc(alias = "RedissonSetMultimap")]
        pub type SetMultimap<K, V, KC $($key)*, VC = KC> = Multimap<K, V, KC, VC, Sets>;

        /// A map with a list of values for each key. On the wire it is Redisson's `RListMultimap`.
        #[doc(alias = "RListMultimap")]
        #[doc(alias = "RedissonListMultimap")]
        pub type ListMultimap<K, V, KC $($key)*, VC = KC> = Multimap<K, V, KC, VC, Lists>;

        /// A map with a set of values for each key, and lifetimes of keys, for all servers. On the
        /// wire it is Redisson's `RSetMultimapCache`.
        #[doc(alias = "RSetMultimapCache")]
        #[doc(alias = "RMultimapCache")]
        #[doc(alias = "RedissonSetMultimapCache")]
        pub type SetMultimapCache<K, V, KC $($key)*, VC = KC> = Multimap<K, V, KC, VC, Expiring<Sets>>;

        /// A map with a list of values for each key, and lifetimes of keys, for all servers. On the
        /// wire it is Redisson's `RListMultimapCache`.
        #[doc(alias = "RListMultimapCache")]
        #[doc(alias = "RedissonListMultimapCache")]
        pub type ListMultimapCache<K, V, KC $($key)*, VC = KC> = Multimap<K, V, KC, VC, Expiring<Lists>>;

        /// A map with a set of values for each key, and lifetimes of keys that the server enforces.
        /// Requires Redis 7.4 or Valkey 9. On the wire it is Redisson's `RSetMultimapCacheNative`.
        #[doc(alias = "RSetMultimapCacheNative")]
        #[doc(alias = "RedissonSetMultimapCacheNative")]
        pub type NativeSetMultimapCache<K, V, KC $($key)*, VC = KC> = Multimap<K, V, KC, VC, Native<Sets>>;

        /// A map with a list of values for each key, and lifetimes of keys that the server
        /// enforces. Requires Redis 7.4 or Valkey 9. On the wire it is Redisson's
        /// `RListMultimapCacheNative`.
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
    /// Returns the map with this name.
    ///
    /// No request is sent: the first call reports an invalid name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Multimap {
            object_ref: ObjectRef::new(client, name),
            keys: KC::default(),
            values: VC::default(),
            entries: PhantomData,
        }
    }
}

/// Declares a script of multimaps, with `key_prelude.lua` prepended.
macro_rules! script {
    ($name:ident, $script:literal) => {
        static $name: redgrid_core::BulkScript = redgrid_core::BulkScript::new(
            concat!("multimap/", $script),
            concat!(include_str!("scripts/key_prelude.lua"), include_str!(concat!("scripts/", $script, ".lua"))),
        );
    };
}
pub(crate) use script;

/// An encoded key, its hash and the server's key of its values.
#[derive(Clone)]
pub(crate) struct KeyRef {
    pub(crate) field: Bytes,
    pub(crate) hash: Bytes,
    /// The server's key of its values.
    pub(crate) values_key: Bytes,
}

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// Returns a handle of the same name with other codecs for keys and for values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> Multimap<K, V, A, B, Y> {
        Multimap { object_ref: self.object_ref, keys, values, entries: PhantomData }
    }

    /// Returns a handle of the same name for encoded keys and values.
    pub(crate) fn raw(&self) -> Multimap<Bytes, Bytes, Raw, Raw, Y> {
        Multimap { object_ref: self.object_ref.clone(), keys: Raw, values: Raw, entries: PhantomData }
    }

    pub(crate) fn key_ref<Q: ?Sized>(&self, key: &Q) -> Result<KeyRef, ObjectError>
    where
        KC: Encode<Q>,
    {
        self.key_ref_of_field(self.object_ref.encoded(&self.keys, key)?)
    }

    pub(crate) fn key_ref_of_field(&self, field: Bytes) -> Result<KeyRef, ObjectError> {
        let hash = Bytes::from(element_hash(&field));
        let (_, map) = self.object_ref.name_and_key()?;
        Ok(KeyRef { values_key: values_key(map, &hash), field, hash })
    }

    /// Returns the request of a script on the map and these keys of values, with the lifetime mode.
    pub(crate) fn script_request(
        &self,
        script: &'static BulkScript,
        values_keys: impl IntoIterator<Item = Bytes>,
    ) -> Result<Request, ObjectError> {
        let (_, map) = self.object_ref.name_and_key()?;
        let keys = [map.clone()].into_iter().chain(values_keys).chain(self.expiry_key()?);
        Ok(script.with(keys).arg(Y::LIFETIME_MODE.name()))
    }

    /// Returns the key of the sorted set of expiries; `None` if there is none.
    pub(crate) fn expiry_key(&self) -> Result<Option<Bytes>, ObjectError> {
        let (_, map) = self.object_ref.name_and_key()?;
        Ok((Y::LIFETIME_MODE == LifetimeMode::SortedSet).then(|| suffixed(map, <Y::Values as Values>::EXPIRY_SUFFIX)))
    }

    /// Runs a change, and then removes the expired keys that its reply contains.
    ///
    /// If the removal does not complete in time, a later change finds these keys.
    pub(crate) async fn change_and_purge<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let (reply, expired): (T, Vec<Bytes>) = self.object_ref.change(request).await?;
        if !expired.is_empty() {
            let client = self.object_ref.client();
            let until = client.clock().now() + client.response_timeout();
            let _: Result<(u64, Vec<Bytes>), _> = client.run_until(self.purge_request(expired)?, until).await;
        }
        Ok(reply)
    }

    /// Returns the request that removes the expired ones of these keys.
    pub(crate) fn purge_request(&self, fields: Vec<Bytes>) -> Result<Request, ObjectError> {
        let keys: Vec<KeyRef> =
            fields.into_iter().map(|field| self.key_ref_of_field(field)).collect::<Result<_, _>>()?;
        Ok(self.remove_request("over", &keys)?.idempotent())
    }

    pub(crate) fn encode_values<'a>(&self, values: impl IntoIterator<Item = &'a V>) -> Result<Vec<Bytes>, ObjectError>
    where
        VC: Encode<V>,
        V: 'a,
    {
        values.into_iter().map(|value| self.object_ref.encoded(&self.values, value)).collect()
    }

    pub(crate) fn decode_key(&self, field: &Bytes) -> Result<K, ObjectError>
    where
        KC: Decode<K>,
    {
        self.object_ref.decoded(&self.keys, field, || Some("a key".into()))
    }

    pub(crate) fn decode_value(&self, bytes: &Bytes) -> Result<V, ObjectError>
    where
        VC: Decode<V>,
    {
        self.object_ref.decoded(&self.values, bytes, || Some("a value".into()))
    }
}

impl KeyRef {
    /// Returns the reference of a key and its hash, as in a reply of HSCAN.
    pub(crate) fn from_scan(map: &Bytes, entry: &[Bytes]) -> KeyRef {
        let (field, hash) = (entry[0].clone(), entry[1].clone());
        KeyRef { values_key: values_key(map, &hash), field, hash }
    }
}

/// Returns the server's key of the values of a key with this stored hash.
pub(crate) fn values_key(map: &Bytes, hash: &[u8]) -> Bytes {
    suffixed(map, &String::from_utf8_lossy(hash))
}

redgrid_core::clone_fields!(
    [K, V, KC: Clone, VC: Clone, Y] Multimap<K, V, KC, VC, Y> { object_ref, keys, values, entries }
);

impl<K, V, KC: fmt::Debug, VC: fmt::Debug, Y: Kind> fmt::Debug for Multimap<K, V, KC, VC, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct(Y::NAME);
        debug.field("name", &self.object_ref.name()).field("keys", &self.keys).field("values", &self.values);
        debug.finish_non_exhaustive()
    }
}
