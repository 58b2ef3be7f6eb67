//! Maps and sets with lifetimes of entries.

use super::Grid;

impl Grid {
    /// Returns the map with this name. Its entries may have lifetimes and idle times. Keys and
    /// values are encoded as JSON. See [`MapCache`](redgrid_cache::MapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let sessions = grid.map_cache::<String, String>("sessions");
    /// sessions.set("4711", &"ada".to_owned()).expires_in(Duration::from_secs(3600)).await?;
    /// assert_eq!(sessions.get("4711").await?.as_deref(), Some("ada"));
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "cache", feature = "json"))]
    #[doc(alias = "getMapCache")]
    pub fn map_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_cache::MapCache<K, V> {
        redgrid_cache::MapCache::new(&self.client, name)
    }

    /// Returns the map with this name. Its entries may have lifetimes and idle times. The codecs
    /// encode its keys and values. See [`MapCache`](redgrid_cache::MapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redgrid::codecs::Text;
    ///
    /// let sessions = grid.map_cache_with::<String, String, _, _>("sessions", Text, Text);
    /// sessions.set("4711", &"ada".to_owned()).idle_for(Duration::from_secs(600)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "cache")]
    pub fn map_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_cache::MapCache<K, V, KC, VC> {
        redgrid_cache::MapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// Returns the map with this name. The server itself (Redis 7.4 or Valkey 9) expires its
    /// entries. Keys and values are encoded as JSON. See
    /// [`NativeMapCache`](redgrid_cache::NativeMapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let codes = grid.native_map_cache::<String, u32>("login-codes");
    /// codes.set("ada", &271_828).expires_in(Duration::from_secs(300)).await?;
    /// let accepted = codes.compare_and_remove("ada", &271_828).await?; // once only
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "cache", feature = "json"))]
    #[doc(alias = "getMapCacheNative")]
    pub fn native_map_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_cache::NativeMapCache<K, V> {
        redgrid_cache::NativeMapCache::new(&self.client, name)
    }

    /// Returns the map with this name. The server itself (Redis 7.4 or Valkey 9) expires its
    /// entries. The codecs encode its keys and values. See
    /// [`NativeMapCache`](redgrid_cache::NativeMapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redgrid::codecs::Text;
    ///
    /// let codes = grid.native_map_cache_with::<String, String, _, _>("login-codes", Text, Text);
    /// codes.set("ada", &"271828".to_owned()).expires_in(Duration::from_secs(300)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "cache")]
    pub fn native_map_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_cache::NativeMapCache<K, V, KC, VC> {
        redgrid_cache::NativeMapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// Returns the set with this name. Its values may have lifetimes, and are encoded as JSON. See
    /// [`SetCache`](redgrid_cache::SetCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let seen = grid.set_cache::<u64>("seen");
    /// if seen.insert_if_absent(&42).expires_in(Duration::from_secs(60)).await? {
    ///     println!("message 42 was not seen within the last minute");
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "cache", feature = "json"))]
    #[doc(alias = "getSetCache")]
    pub fn set_cache<T>(&self, name: impl AsRef<str>) -> redgrid_cache::SetCache<T> {
        redgrid_cache::SetCache::new(&self.client, name)
    }

    /// Returns the set with this name. Its values may have lifetimes, and are encoded by `codec`.
    /// See [`SetCache`](redgrid_cache::SetCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redgrid::codecs::Text;
    ///
    /// let seen = grid.set_cache_with::<String, _>("seen", Text);
    /// seen.insert_if_absent("message 42").expires_in(Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "cache")]
    pub fn set_cache_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_cache::SetCache<T, C> {
        redgrid_cache::SetCache::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
