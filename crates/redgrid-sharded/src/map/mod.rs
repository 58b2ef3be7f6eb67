//! The sharded map: construction, and access to its shards.

mod change;
mod read;

use std::fmt;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode, EncodesFor, Raw};
use redgrid_core::Client;
use redgrid_core::object::ObjectError;
use redgrid_map::Map;

use crate::layout::Kind;
use crate::methods::{collection_methods, sharded_methods};
use crate::sharded::{Shard, Sharded};

redgrid_core::default_codec! {
    /// A map from `K` to `V`. A hash of each key determines its shard, which is one of many keys on
    /// the servers.
    ///
    /// It has the methods of a [`Map`], except those that require one step on the whole map.
    ///
    /// It is cheap to clone; clones are handles of the same map: create one and clone it. The
    /// codecs of keys and values are part of the type, as in a [`Map`].
    #[doc(alias = "RClusteredMap")]
    pub struct ShardedMap<K, V; KC: Codec, VC: Codec> {
        pub(super) sharded: Sharded<Map<K, V, KC, VC>>,
    }
}

impl<K, V, KC: Codec, VC: Codec> Shard for Map<K, V, KC, VC> {
    type Options = (KC, VC);

    fn kind(_options: &Self::Options) -> Kind {
        Kind::Map
    }

    fn new(client: &Client, name: String, options: &Self::Options) -> Self {
        Map::<K, V, Raw>::new(client, name).with_codecs(options.0.clone(), options.1.clone())
    }
}

sharded_methods!([K, V, KC: Codec, VC: Codec] ShardedMap<K, V, KC, VC>);
collection_methods!("entries", [K, V, KC: Codec, VC: Codec] ShardedMap<K, V, KC, VC>);

impl<K, V, KC: Codec + Default, VC: Codec + Default> ShardedMap<K, V, KC, VC> {
    /// Returns the map with this name. It uses the stored shard layout or, if there is none, 16
    /// shards.
    ///
    /// No request is sent: an invalid name is reported by the first call. A name with a hash tag is
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

    /// Returns the shard of a key, as a plain map. Use it for steps on several keys of one shard,
    /// for fences, and for locks of the key.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// This call may store the shard layout. It changes nothing else.
    pub async fn shard_of<Q: ?Sized>(&self, key: &Q) -> Result<Map<K, V, KC, VC>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let bytes = self.encode(key)?;
        Ok(self.sharded.shards_to_change().await?.shard_of(&bytes))
    }

    /// Returns the shard of a key, for reads.
    pub(super) async fn shard_to_read<Q: ?Sized>(&self, key: &Q) -> Result<Map<K, V, KC, VC>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let bytes = self.encode(key)?;
        Ok(self.sharded.shards_to_read().await?.shard_of(&bytes))
    }

    pub(super) fn encode<Q: ?Sized>(&self, key: &Q) -> Result<Bytes, ObjectError>
    where
        KC: Encode<Q>,
    {
        self.sharded.object_ref.encoded(&self.sharded.options.0, key)
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
