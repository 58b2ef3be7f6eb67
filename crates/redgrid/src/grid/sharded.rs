//! What is spread over a cluster.

use super::Grid;

impl Grid {
    /// A map that is spread over a cluster, as JSON; [`ShardedMap::with_codecs`](redgrid_sharded::ShardedMap::with_codecs) has it another way. See
    /// [`ShardedMap`](redgrid_sharded::ShardedMap).
    #[cfg(all(feature = "sharded", feature = "json"))]
    #[doc(alias = "getClusteredMap")]
    pub fn sharded_map<K, V>(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedMap<K, V> {
        redgrid_sharded::ShardedMap::new(&self.client, name)
    }

    /// The same, as these codecs write its keys and values. See [`ShardedMap`](redgrid_sharded::ShardedMap).
    #[cfg(feature = "sharded")]
    pub fn sharded_map_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_sharded::ShardedMap<K, V, KC, VC> {
        redgrid_sharded::ShardedMap::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// A set that is spread over a cluster, as JSON. See [`ShardedSet`](redgrid_sharded::ShardedSet).
    #[cfg(all(feature = "sharded", feature = "json"))]
    #[doc(alias = "getClusteredSet")]
    pub fn sharded_set<T>(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedSet<T> {
        redgrid_sharded::ShardedSet::new(&self.client, name)
    }

    /// The same, as this codec writes its values. See [`ShardedSet`](redgrid_sharded::ShardedSet).
    #[cfg(feature = "sharded")]
    pub fn sharded_set_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_sharded::ShardedSet<T, C> {
        redgrid_sharded::ShardedSet::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Bits that are spread over a cluster. See [`ShardedBitSet`](redgrid_sharded::ShardedBitSet).
    #[cfg(feature = "sharded")]
    #[doc(alias = "getClusteredBitSet")]
    pub fn sharded_bit_set(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedBitSet {
        redgrid_sharded::ShardedBitSet::new(&self.client, name)
    }

    /// A Bloom filter that is spread over a cluster, as JSON. See [`ShardedBloomFilter`](redgrid_sharded::ShardedBloomFilter).
    #[cfg(all(feature = "sharded", feature = "json"))]
    #[doc(alias = "getClusteredBloomFilter")]
    pub fn sharded_bloom_filter<T>(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedBloomFilter<T> {
        redgrid_sharded::ShardedBloomFilter::new(&self.client, name)
    }

    /// The same, as this codec writes its elements. See [`ShardedBloomFilter`](redgrid_sharded::ShardedBloomFilter).
    #[cfg(feature = "sharded")]
    pub fn sharded_bloom_filter_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_sharded::ShardedBloomFilter<T, C> {
        redgrid_sharded::ShardedBloomFilter::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
