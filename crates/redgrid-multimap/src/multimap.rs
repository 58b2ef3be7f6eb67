//! The multimap, and where the values of its keys are.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, element_hash};
use redgrid_core::Client;
use redgrid_core::name::suffixed;
use redgrid_core::object::{ObjectError, Place};

use crate::kind::{Kind, Lists, Sets};

/// A map with several values a key, shared by all processes that reach the same server: [`SetMultimap`] or [`ListMultimap`], by its kind `Y`.
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

/// A key as its codec writes it, and what is there of it.
pub(crate) struct Found {
    pub(crate) field: Bytes,
    pub(crate) hash: Bytes,
    /// The map.
    pub(crate) map: Bytes,
    /// Its values.
    pub(crate) values: Bytes,
}

impl<K, V, KC: Codec, VC: Codec, Y: Kind> Multimap<K, V, KC, VC, Y> {
    /// The same name with other codecs for keys and for values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> Multimap<K, V, A, B, Y> {
        Multimap { place: self.place, keys, values, entries: PhantomData }
    }

    pub(crate) fn found<Q: ?Sized>(&self, key: &Q) -> Result<Found, ObjectError>
    where
        KC: Encode<Q>,
    {
        let field = self.place.encoded(&self.keys, key)?;
        let hash = Bytes::from(element_hash(&field));
        let (_, map) = self.place.named()?;
        Ok(Found { values: values_of(map, &hash), map: map.clone(), field, hash })
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
