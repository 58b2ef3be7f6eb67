//! Maps that can have several values for each key.

use super::Grid;

impl Grid {
    /// Returns the map with this name that has a set of values for each key. Keys and values are
    /// encoded as JSON. See [`SetMultimap`](redgrid_multimap::SetMultimap).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let tags = grid.set_multimap::<String, String>("tags");
    /// tags.insert("post 1", &"rust".to_owned()).await?;
    /// println!("{:?}", tags.get_all("post 1").await?);
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getSetMultimap")]
    pub fn set_multimap<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::SetMultimap<K, V> {
        redgrid_multimap::SetMultimap::new(&self.client, name)
    }

    /// Returns the map with this name that has a set of values for each key. The codecs encode keys
    /// and values. See [`SetMultimap`](redgrid_multimap::SetMultimap).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let tags = grid.set_multimap_with::<String, String, _, _>("tags", Text, Text);
    /// tags.insert("post 1", &"rust".to_owned()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "multimap")]
    pub fn set_multimap_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::SetMultimap<K, V, KC, VC> {
        redgrid_multimap::SetMultimap::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// Returns the map with this name that has a list of values for each key. Keys and values are
    /// encoded as JSON. See [`ListMultimap`](redgrid_multimap::ListMultimap).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let log = grid.list_multimap::<String, String>("log");
    /// log.insert("post 1", &"created".to_owned()).await?;
    /// println!("{:?}", log.get_all("post 1").await?);
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getListMultimap")]
    pub fn list_multimap<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::ListMultimap<K, V> {
        redgrid_multimap::ListMultimap::new(&self.client, name)
    }

    /// Returns the map with this name that has a list of values for each key. The codecs encode
    /// keys and values. See [`ListMultimap`](redgrid_multimap::ListMultimap).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let log = grid.list_multimap_with::<String, String, _, _>("log", Text, Text);
    /// log.insert("post 1", &"created".to_owned()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "multimap")]
    pub fn list_multimap_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::ListMultimap<K, V, KC, VC> {
        redgrid_multimap::ListMultimap::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// Returns the map with this name that has a set of values for each key, and lifetimes of keys.
    /// Keys and values are encoded as JSON. See
    /// [`SetMultimapCache`](redgrid_multimap::SetMultimapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let readers = grid.set_multimap_cache::<String, String>("readers");
    /// readers.insert("post 1", &"ann".to_owned()).await?;
    /// readers.expire_key("post 1", Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getSetMultimapCache")]
    pub fn set_multimap_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::SetMultimapCache<K, V> {
        redgrid_multimap::SetMultimapCache::new(&self.client, name)
    }

    /// Returns the map with this name that has a set of values for each key, and lifetimes of keys.
    /// The codecs encode keys and values. See
    /// [`SetMultimapCache`](redgrid_multimap::SetMultimapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redgrid::codecs::Text;
    ///
    /// let readers = grid.set_multimap_cache_with::<String, String, _, _>("readers", Text, Text);
    /// readers.insert("post 1", &"ann".to_owned()).await?;
    /// readers.expire_key("post 1", Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "multimap")]
    pub fn set_multimap_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::SetMultimapCache<K, V, KC, VC> {
        redgrid_multimap::SetMultimapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name)
            .with_codecs(keys, values)
    }

    /// Returns the map with this name that has a list of values for each key, and lifetimes of
    /// keys. Keys and values are encoded as JSON. See
    /// [`ListMultimapCache`](redgrid_multimap::ListMultimapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let readers = grid.list_multimap_cache::<String, String>("readers");
    /// readers.insert("post 1", &"ann".to_owned()).await?;
    /// readers.expire_key("post 1", Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getListMultimapCache")]
    pub fn list_multimap_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::ListMultimapCache<K, V> {
        redgrid_multimap::ListMultimapCache::new(&self.client, name)
    }

    /// Returns the map with this name that has a list of values for each key, and lifetimes of
    /// keys. The codecs encode keys and values. See
    /// [`ListMultimapCache`](redgrid_multimap::ListMultimapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redgrid::codecs::Text;
    ///
    /// let readers = grid.list_multimap_cache_with::<String, String, _, _>("readers", Text, Text);
    /// readers.insert("post 1", &"ann".to_owned()).await?;
    /// readers.expire_key("post 1", Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "multimap")]
    pub fn list_multimap_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::ListMultimapCache<K, V, KC, VC> {
        redgrid_multimap::ListMultimapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name)
            .with_codecs(keys, values)
    }

    /// Returns the map with this name that has a set of values for each key. The server itself
    /// expires keys: Redis 7.4 or Valkey 9. Keys and values are encoded as JSON. See
    /// [`NativeSetMultimapCache`](redgrid_multimap::NativeSetMultimapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let readers = grid.native_set_multimap_cache::<String, String>("readers");
    /// readers.insert("post 1", &"ann".to_owned()).await?;
    /// readers.expire_key("post 1", Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getSetMultimapCacheNative")]
    pub fn native_set_multimap_cache<K, V>(
        &self,
        name: impl AsRef<str>,
    ) -> redgrid_multimap::NativeSetMultimapCache<K, V> {
        redgrid_multimap::NativeSetMultimapCache::new(&self.client, name)
    }

    /// Returns the map with this name that has a set of values for each key. The server itself
    /// expires keys: Redis 7.4 or Valkey 9. The codecs encode keys and values. See
    /// [`NativeSetMultimapCache`](redgrid_multimap::NativeSetMultimapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let readers: redgrid::multimap::NativeSetMultimapCache<String, String, Text, Text> =
    ///     grid.native_set_multimap_cache_with("readers", Text, Text);
    /// readers.insert("post 1", &"ann".to_owned()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "multimap")]
    pub fn native_set_multimap_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::NativeSetMultimapCache<K, V, KC, VC> {
        redgrid_multimap::NativeSetMultimapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name)
            .with_codecs(keys, values)
    }

    /// Returns the map with this name that has a list of values for each key. The server itself
    /// expires keys: Redis 7.4 or Valkey 9. Keys and values are encoded as JSON. See
    /// [`NativeListMultimapCache`](redgrid_multimap::NativeListMultimapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let readers = grid.native_list_multimap_cache::<String, String>("readers");
    /// readers.insert("post 1", &"ann".to_owned()).await?;
    /// readers.expire_key("post 1", Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getListMultimapCacheNative")]
    pub fn native_list_multimap_cache<K, V>(
        &self,
        name: impl AsRef<str>,
    ) -> redgrid_multimap::NativeListMultimapCache<K, V> {
        redgrid_multimap::NativeListMultimapCache::new(&self.client, name)
    }

    /// Returns the map with this name that has a list of values for each key. The server itself
    /// expires keys: Redis 7.4 or Valkey 9. The codecs encode keys and values. See
    /// [`NativeListMultimapCache`](redgrid_multimap::NativeListMultimapCache).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let readers: redgrid::multimap::NativeListMultimapCache<String, String, Text, Text> =
    ///     grid.native_list_multimap_cache_with("readers", Text, Text);
    /// readers.insert("post 1", &"ann".to_owned()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "multimap")]
    pub fn native_list_multimap_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::NativeListMultimapCache<K, V, KC, VC> {
        redgrid_multimap::NativeListMultimapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name)
            .with_codecs(keys, values)
    }
}
