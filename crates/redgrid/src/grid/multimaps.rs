//! Maps of several values to a key.

use super::Grid;

impl Grid {
    /// A map with a set of values for each key, as JSON. See [`SetMultimap`](redgrid_multimap::SetMultimap).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getSetMultimap")]
    pub fn set_multimap<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::SetMultimap<K, V> {
        redgrid_multimap::SetMultimap::new(&self.client, name)
    }

    /// A map with a set of values for each key, as these codecs write them. See [`SetMultimap`](redgrid_multimap::SetMultimap).
    #[cfg(feature = "multimap")]
    pub fn set_multimap_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::SetMultimap<K, V, KC, VC> {
        redgrid_multimap::SetMultimap::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// A map with a list of values for each key, as JSON. See [`ListMultimap`](redgrid_multimap::ListMultimap).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getListMultimap")]
    pub fn list_multimap<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::ListMultimap<K, V> {
        redgrid_multimap::ListMultimap::new(&self.client, name)
    }

    /// A map with a list of values for each key, as these codecs write them. See [`ListMultimap`](redgrid_multimap::ListMultimap).
    #[cfg(feature = "multimap")]
    pub fn list_multimap_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_multimap::ListMultimap<K, V, KC, VC> {
        redgrid_multimap::ListMultimap::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// A map with a set of values for each key and lifetimes of keys, as JSON. See [`SetMultimapCache`](redgrid_multimap::SetMultimapCache).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getSetMultimapCache")]
    pub fn set_multimap_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::SetMultimapCache<K, V> {
        redgrid_multimap::SetMultimapCache::new(&self.client, name)
    }

    /// A map with a set of values for each key and lifetimes of keys, as these codecs write them. See [`SetMultimapCache`](redgrid_multimap::SetMultimapCache).
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

    /// A map with a list of values for each key and lifetimes of keys, as JSON. See [`ListMultimapCache`](redgrid_multimap::ListMultimapCache).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getListMultimapCache")]
    pub fn list_multimap_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_multimap::ListMultimapCache<K, V> {
        redgrid_multimap::ListMultimapCache::new(&self.client, name)
    }

    /// A map with a list of values for each key and lifetimes of keys, as these codecs write them. See [`ListMultimapCache`](redgrid_multimap::ListMultimapCache).
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

    /// A map with a set of values for each key and lifetimes of keys that the server ends, as JSON. See [`NativeSetMultimapCache`](redgrid_multimap::NativeSetMultimapCache).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getSetMultimapCacheNative")]
    pub fn native_set_multimap_cache<K, V>(
        &self,
        name: impl AsRef<str>,
    ) -> redgrid_multimap::NativeSetMultimapCache<K, V> {
        redgrid_multimap::NativeSetMultimapCache::new(&self.client, name)
    }

    /// A map with a set of values for each key and lifetimes of keys that the server ends, as these codecs write them. See [`NativeSetMultimapCache`](redgrid_multimap::NativeSetMultimapCache).
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

    /// A map with a list of values for each key and lifetimes of keys that the server ends, as JSON. See [`NativeListMultimapCache`](redgrid_multimap::NativeListMultimapCache).
    #[cfg(all(feature = "multimap", feature = "json"))]
    #[doc(alias = "getListMultimapCacheNative")]
    pub fn native_list_multimap_cache<K, V>(
        &self,
        name: impl AsRef<str>,
    ) -> redgrid_multimap::NativeListMultimapCache<K, V> {
        redgrid_multimap::NativeListMultimapCache::new(&self.client, name)
    }

    /// A map with a list of values for each key and lifetimes of keys that the server ends, as these codecs write them. See [`NativeListMultimapCache`](redgrid_multimap::NativeListMultimapCache).
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
