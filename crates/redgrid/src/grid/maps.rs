//! Maps.

use super::Grid;

impl Grid {
    /// Returns the map with this name. Each process caches its entries in memory until another
    /// process changes them. Keys and values are encoded as JSON. See
    /// [`LocalCachedMap`](redgrid_local_cached_map::LocalCachedMap).
    ///
    /// All handles of a name in a process share one cache. The options of the first handle apply.
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redgrid::local_cached_map::Options;
    ///
    /// let options = Options::default().max_stale(Duration::from_secs(10));
    /// let prices = grid.local_cached_map::<String, u32>("prices", options);
    /// let from_server = prices.get("P0001").await?;
    /// let from_memory = prices.get("P0001").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "local-cached-map", feature = "json"))]
    #[doc(alias = "getLocalCachedMap")]
    pub fn local_cached_map<K, V>(
        &self,
        name: impl AsRef<str>,
        options: redgrid_local_cached_map::Options,
    ) -> redgrid_local_cached_map::LocalCachedMap<K, V> {
        redgrid_local_cached_map::LocalCachedMap::with_options(&self.client, name, options)
    }

    /// Returns the map with this name. Each process caches its entries. The codecs encode its keys
    /// and values. See [`LocalCachedMap`](redgrid_local_cached_map::LocalCachedMap).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::{Long, Text};
    /// use redgrid::local_cached_map::Options;
    ///
    /// let options = Options::default();
    /// let prices = grid.local_cached_map_with::<String, i64, _, _>("prices", options, Text, Long);
    /// prices.set("P0001", &1999).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "local-cached-map")]
    pub fn local_cached_map_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        options: redgrid_local_cached_map::Options,
        keys: KC,
        values: VC,
    ) -> redgrid_local_cached_map::LocalCachedMap<K, V, KC, VC> {
        use redgrid_codecs::Raw;
        let map = redgrid_local_cached_map::LocalCachedMap::<K, V, Raw, Raw>::with_options(&self.client, name, options);
        map.with_codecs(keys, values)
    }

    /// Returns the map with this name. Keys and values are encoded as JSON. See
    /// [`Map`](redgrid_map::Map).
    ///
    /// JSON text has quotes: in `redis-cli`, the key in the example is `"P0001"`.
    /// [`Grid::map_with`] with the codec `Text` stores it without quotes.
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let stock = grid.map::<String, u32>("stock");
    /// stock.set("P0001", &10).await?;
    /// stock.update("P0001", |left| *left -= 1).await?; // no change of another process is lost
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "map", feature = "json"))]
    #[doc(alias = "getMap")]
    pub fn map<K, V>(&self, name: impl AsRef<str>) -> redgrid_map::Map<K, V> {
        redgrid_map::Map::new(&self.client, name)
    }

    /// Returns the map with this name. Its keys and values are encoded by the codecs. See
    /// [`Map`](redgrid_map::Map).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::{Long, Text};
    ///
    /// let sales = grid.map_with::<String, i64, _, _>("sales", Text, Long);
    /// println!("{} sales today", sales.add("today", &1).await?); // the server adds
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "map")]
    pub fn map_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_map::Map<K, V, KC, VC> {
        redgrid_map::Map::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }
}
