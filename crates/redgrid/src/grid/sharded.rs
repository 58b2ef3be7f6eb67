//! Objects that are spread over a cluster.

use super::Grid;

impl Grid {
    /// Returns the map with this name that is spread over a cluster. Keys and values are encoded as
    /// JSON. See [`ShardedMap`](redgrid_sharded::ShardedMap).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let carts = grid.sharded_map::<u64, String>("carts").with_shards(64);
    /// carts.insert(&42, &"apples".to_owned()).await?; // one command to one shard
    /// println!("{} carts", carts.len().await?); // one command to each shard
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "sharded", feature = "json"))]
    #[doc(alias = "getClusteredMap")]
    pub fn sharded_map<K, V>(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedMap<K, V> {
        redgrid_sharded::ShardedMap::new(&self.client, name)
    }

    /// Returns the map with this name that is spread over a cluster. The codecs encode keys and
    /// values. See [`ShardedMap`](redgrid_sharded::ShardedMap).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let carts = grid.sharded_map_with::<String, String, _, _>("carts", Text, Text);
    /// carts.insert("user 42", &"apples".to_owned()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "sharded")]
    pub fn sharded_map_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_sharded::ShardedMap<K, V, KC, VC> {
        redgrid_sharded::ShardedMap::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// Returns the set with this name that is spread over a cluster. Its values are encoded as
    /// JSON. See [`ShardedSet`](redgrid_sharded::ShardedSet).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let online = grid.sharded_set::<u64>("online");
    /// online.insert(&42).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "sharded", feature = "json"))]
    #[doc(alias = "getClusteredSet")]
    pub fn sharded_set<T>(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedSet<T> {
        redgrid_sharded::ShardedSet::new(&self.client, name)
    }

    /// Returns the set with this name that is spread over a cluster. Its values are encoded by
    /// `codec`. See [`ShardedSet`](redgrid_sharded::ShardedSet).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let online = grid.sharded_set_with::<String, _>("online", Text);
    /// online.insert("ada").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "sharded")]
    pub fn sharded_set_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_sharded::ShardedSet<T, C> {
        redgrid_sharded::ShardedSet::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns the bit set with this name that is spread over a cluster. See
    /// [`ShardedBitSet`](redgrid_sharded::ShardedBitSet).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let seen = grid.sharded_bit_set("seen").with_size(1 << 36);
    /// seen.set(60_000_000_000, true).await?; // beyond the size of one key
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "sharded")]
    #[doc(alias = "getClusteredBitSet")]
    pub fn sharded_bit_set(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedBitSet {
        redgrid_sharded::ShardedBitSet::new(&self.client, name)
    }

    /// Returns the Bloom filter with this name that is spread over a cluster. Its elements are
    /// encoded as JSON. See [`ShardedBloomFilter`](redgrid_sharded::ShardedBloomFilter).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let urls = grid.sharded_bloom_filter::<String>("urls");
    /// urls.try_init(1_000_000_000, 0.01).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "sharded", feature = "json"))]
    #[doc(alias = "getClusteredBloomFilter")]
    pub fn sharded_bloom_filter<T>(&self, name: impl AsRef<str>) -> redgrid_sharded::ShardedBloomFilter<T> {
        redgrid_sharded::ShardedBloomFilter::new(&self.client, name)
    }

    /// Returns the Bloom filter with this name that is spread over a cluster. Its elements are
    /// encoded by `codec`. See [`ShardedBloomFilter`](redgrid_sharded::ShardedBloomFilter).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let urls = grid.sharded_bloom_filter_with::<String, _>("urls", Text);
    /// urls.try_init(1_000_000_000, 0.01).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "sharded")]
    pub fn sharded_bloom_filter_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_sharded::ShardedBloomFilter<T, C> {
        redgrid_sharded::ShardedBloomFilter::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
