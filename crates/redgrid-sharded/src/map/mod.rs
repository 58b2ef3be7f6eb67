//! The sharded map, and what is asked of it as a whole.

mod change;
mod read;

use std::borrow::Borrow;
use std::fmt;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode, Raw};
use redgrid_core::Client;
use redgrid_core::object::ObjectError;
use redgrid_map::Map;

use crate::layout::Kind;
use crate::object::ShardedObject;
use crate::spread::{ByPart, Part, Parts, Spread, by_part};

/// The type, with the codecs of one that names none: there are some only with the feature `json`, so that what a map stores never
/// depends on the features that others ask for.
macro_rules! sharded_map {
    ([$($key:tt)*], [$($value:tt)*]) => {
        /// A map from `K` to `V` whose entries are spread over many keys of the servers, by a hash of their keys: with the methods of a
        /// [`Map`] but for those that would have to be one step over all of it.
        ///
        /// Cheap to clone; clones are the same map: make one and clone it. The codecs of keys and of values are part of the type, as of a
        /// [`Map`].
        #[doc(alias = "RClusteredMap")]
        pub struct ShardedMap<K, V, KC: Codec $($key)*, VC: Codec $($value)*> {
            pub(super) spread: Spread<Map<K, V, KC, VC>>,
        }
    };
}

#[cfg(feature = "json")]
sharded_map!([= redgrid_codecs::Json], [= KC]);
#[cfg(not(feature = "json"))]
sharded_map!([], [= KC]);

impl<K, V, KC: Codec, VC: Codec> Part for Map<K, V, KC, VC> {
    type With = (KC, VC);

    fn kind(_with: &Self::With) -> Kind {
        Kind::Map
    }

    fn new(client: &Client, name: String, with: &Self::With) -> Self {
        Map::<K, V, Raw>::new(client, name).with_codecs(with.0.clone(), with.1.clone())
    }
}

impl<K, V, KC: Codec + Default, VC: Codec + Default> ShardedMap<K, V, KC, VC> {
    /// The map with this name, divided as it is, or into 16 parts where it is not yet. Making one asks nobody: an invalid name, which one with a hash
    /// tag is here, is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ShardedMap { spread: Spread::new(client, name, (KC::default(), VC::default())) }
    }
}

impl<K, V, KC: Codec, VC: Codec> ShardedMap<K, V, KC, VC> {
    /// The same name with another codec for keys and values.
    pub fn with_codec<C: Codec>(self, codec: C) -> ShardedMap<K, V, C, C> {
        self.with_codecs(codec.clone(), codec)
    }

    /// The same name with other codecs for keys and for values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> ShardedMap<K, V, A, B> {
        ShardedMap { spread: self.spread.by((keys, values)) }
    }

    /// Divided into so many parts, a power of two of up to 1,024. Where it is divided into another number already, calls end
    /// [`ObjectError::InvalidArgument`]: what is stored is not divided anew.
    ///
    /// More parts spread better over more nodes; each costs a command wherever all of them are asked. Twice to eight times the nodes that there may
    /// be one day is a good number.
    pub fn with_shards(mut self, shards: u32) -> Self {
        self.spread.wish.shards = Some(shards);
        self
    }

    /// What is asked of all parts alike: whether they are there, their lifetime, their deletion.
    pub fn object(&self) -> ShardedObject {
        ShardedObject::of(&self.spread)
    }

    /// The part that has this key, as a map of its own: for what is one step about several keys of one part, for fences, and for locks of the key.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// It may be said how the map is divided; else nothing is changed.
    pub async fn part_of<Q: ?Sized>(&self, key: &Q) -> Result<Map<K, V, KC, VC>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let bytes = self.encoded(key)?;
        Ok(self.spread.to_change().await?.of(&bytes))
    }

    /// The same for what only reads.
    pub(super) async fn read_part<Q: ?Sized>(&self, key: &Q) -> Result<Map<K, V, KC, VC>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let bytes = self.encoded(key)?;
        Ok(self.spread.to_read().await?.of(&bytes))
    }

    pub(super) fn encoded<Q: ?Sized>(&self, key: &Q) -> Result<Bytes, ObjectError>
    where
        KC: Encode<Q>,
    {
        self.spread.place.encoded(&self.spread.with.0, key)
    }

    /// Keys, or what has some, by the parts that have them.
    pub(super) fn divided<A>(
        &self,
        parts: &Parts<Map<K, V, KC, VC>>,
        all: impl IntoIterator<Item = A>,
        key: impl Fn(&A) -> Result<Bytes, ObjectError>,
    ) -> Result<ByPart<A>, ObjectError> {
        let part = |about: A| Ok((parts.layout.part_of(&key(&about)?), about));
        Ok(by_part(all.into_iter().map(part).collect::<Result<Vec<_>, ObjectError>>()?))
    }

    /// How many entries it has: the sum of what each part says, not all at one moment.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        let parts = self.spread.to_read().await?;
        self.spread.sum(&parts, parts.every(), |part, ()| async move { part.len().await }).await
    }

    /// Whether it has none.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] where those that answered have none, and some did not.
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedMap::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        let parts = self.spread.to_read().await?;
        Ok(!self.spread.any(&parts, |part, ()| async move { Ok(!part.is_empty().await?) }).await?)
    }

    /// Removes all entries, each part's in one step; tells whether there were any. It stays divided as it is.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that may have theirs.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        let (parts, _) = self.spread.to_end().await?;
        let told = self.spread.each(&parts, parts.every(), |part, ()| async move { part.clear().await }).await?;
        Ok(told.into_iter().any(|(_, had_some)| had_some))
    }
}

impl<K, V, KC: Codec, VC: Codec> Clone for ShardedMap<K, V, KC, VC> {
    fn clone(&self) -> Self {
        ShardedMap { spread: self.spread.clone() }
    }
}

impl<K, V, KC: Codec, VC: Codec> fmt::Debug for ShardedMap<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, values) = &self.spread.with;
        let mut shown = f.debug_struct("ShardedMap");
        shown.field("name", &self.spread.place.name()).field("keys", keys).field("values", values);
        shown.finish_non_exhaustive()
    }
}
