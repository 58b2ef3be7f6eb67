//! The sharded map: construction, entry count, and clearing.

mod change;
mod read;

use std::fmt;

use bytes::Bytes;
use redgrid_codecs::{Codec, EncodeAs, EncodeWith, Raw};
use redgrid_core::Client;
use redgrid_core::object::ObjectError;
use redgrid_map::Map;

use crate::fan_out::{ByShard, Shard, Sharded, Shards, group_by_shard};
use crate::layout::Kind;
use crate::object::ShardedObject;

/// Defines the type, with its default codecs. Only the feature `json` gives it some, so that the
/// stored format never depends on features that other crates enable.
macro_rules! sharded_map {
    ([$($key:tt)*], [$($value:tt)*]) => {
        /// A map from `K` to `V` whose entries are distributed over many keys of the servers, by a
        /// hash of their keys.
        ///
        /// It has the methods of a [`Map`], except those that would have to be one step on the
        /// whole map.
        ///
        /// Cheap to clone; clones are handles of the same map: create one and clone it. The codecs
        /// of keys and values are part of the type, as in a [`Map`].
        #[doc(alias = "RClusteredMap")]
        pub struct ShardedMap<K, V, KC: Codec $($key)*, VC: Codec $($value)*> {
            pub(super) sharded: Sharded<Map<K, V, KC, VC>>,
        }
    };
}

#[cfg(feature = "json")]
sharded_map!([= redgrid_codecs::Json], [= KC]);
#[cfg(not(feature = "json"))]
sharded_map!([], [= KC]);

impl<K, V, KC: Codec, VC: Codec> Shard for Map<K, V, KC, VC> {
    type Options = (KC, VC);

    fn kind(_options: &Self::Options) -> Kind {
        Kind::Map
    }

    fn new(client: &Client, name: String, options: &Self::Options) -> Self {
        Map::<K, V, Raw>::new(client, name).with_codecs(options.0.clone(), options.1.clone())
    }
}

impl<K, V, KC: Codec + Default, VC: Codec + Default> ShardedMap<K, V, KC, VC> {
    /// Returns the map with this name, with the stored shard layout; by default with 16 shards.
    ///
    /// No request is sent: the first call reports an invalid name. A name with a hash tag is
    /// invalid here.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ShardedMap { sharded: Sharded::new(client, name, (KC::default(), VC::default())) }
    }
}

impl<K, V, KC: Codec, VC: Codec> ShardedMap<K, V, KC, VC> {
    /// Returns a handle of the same name with another codec for keys and values.
    pub fn with_codec<C: Codec>(self, codec: C) -> ShardedMap<K, V, C, C> {
        self.with_codecs(codec.clone(), codec)
    }

    /// Returns a handle of the same name with other codecs for keys and for values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> ShardedMap<K, V, A, B> {
        ShardedMap { sharded: self.sharded.with_shard_type((keys, values)) }
    }

    /// Sets the number of shards, a power of two of up to 1,024.
    ///
    /// If another number is stored already, calls return
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument): a stored object cannot be
    /// resharded.
    ///
    /// More shards are distributed better over more nodes, but a call for all shards sends a
    /// command to each. A good number is twice to eight times the number of nodes that there may be
    /// one day.
    pub fn with_shards(mut self, shards: u32) -> Self {
        self.sharded.requested.shards = Some(shards);
        self
    }

    /// Returns the operations on all shards: existence, lifetime, deletion.
    pub fn object(&self) -> ShardedObject {
        ShardedObject::new(&self.sharded)
    }

    /// Returns the shard of a key, as a plain map: for steps on several keys of one shard, for
    /// fences, and for locks of the key.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// The shard layout may be stored. Nothing else is changed.
    pub async fn shard_of<Q: EncodeAs<K, KC> + ?Sized>(&self, key: &Q) -> Result<Map<K, V, KC, VC>, ObjectError> {
        let bytes = self.encode(key)?;
        Ok(self.sharded.shards_to_change().await?.shard_of(&bytes))
    }

    /// Returns the shard of a key, for reads.
    pub(super) async fn shard_to_read<Q: EncodeAs<K, KC> + ?Sized>(
        &self,
        key: &Q,
    ) -> Result<Map<K, V, KC, VC>, ObjectError> {
        let bytes = self.encode(key)?;
        Ok(self.sharded.shards_to_read().await?.shard_of(&bytes))
    }

    pub(super) fn encode<Q: EncodeWith<KC> + ?Sized>(&self, key: &Q) -> Result<Bytes, ObjectError> {
        self.sharded.object_ref.encoded(&self.sharded.options.0, key)
    }

    /// Groups keys, or items with keys, by shard.
    pub(super) fn group_items<A>(
        &self,
        shards: &Shards<Map<K, V, KC, VC>>,
        all: impl IntoIterator<Item = A>,
        key: impl Fn(&A) -> Result<Bytes, ObjectError>,
    ) -> Result<ByShard<A>, ObjectError> {
        let shard = |item: A| Ok((shards.layout.shard_of(&key(&item)?), item));
        Ok(group_by_shard(all.into_iter().map(shard).collect::<Result<Vec<_>, ObjectError>>()?))
    }

    /// Returns the number of entries. The shards are not counted at the same moment.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        let shards = self.sharded.shards_to_read().await?;
        self.sharded.fan_out_sum(&shards, shards.every_shard(), |shard, ()| async move { shard.len().await }).await
    }

    /// Returns whether the map is empty.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] if the shards that answered are empty, and others failed.
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedMap::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        let shards = self.sharded.shards_to_read().await?;
        Ok(!self.sharded.fan_out_any(&shards, |shard, ()| async move { Ok(!shard.is_empty().await?) }).await?)
    }

    /// Removes all entries, each shard in one step. Returns whether there were any. The shard
    /// layout is kept.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that may still have their entries.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        let (shards, _) = self.sharded.verified_shards().await?;
        let results =
            self.sharded.fan_out(&shards, shards.every_shard(), |shard, ()| async move { shard.clear().await }).await?;
        Ok(results.into_iter().any(|(_, had_any)| had_any))
    }
}

impl<K, V, KC: Codec, VC: Codec> Clone for ShardedMap<K, V, KC, VC> {
    fn clone(&self) -> Self {
        ShardedMap { sharded: self.sharded.clone() }
    }
}

impl<K, V, KC: Codec, VC: Codec> fmt::Debug for ShardedMap<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, values) = &self.sharded.options;
        let mut debug = f.debug_struct("ShardedMap");
        debug.field("name", &self.sharded.object_ref.name()).field("keys", keys).field("values", values);
        debug.finish_non_exhaustive()
    }
}
