//! Maps and sets whose entries have lifetimes.

use super::Grid;

impl Grid {
    /// A map whose entries have lifetimes, as JSON. See [`MapCache`](redgrid_cache::MapCache).
    #[cfg(all(feature = "cache", feature = "json"))]
    #[doc(alias = "getMapCache")]
    pub fn map_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_cache::MapCache<K, V> {
        redgrid_cache::MapCache::new(&self.client, name)
    }

    /// A map whose entries have lifetimes, as these codecs write them. See [`MapCache`](redgrid_cache::MapCache).
    #[cfg(feature = "cache")]
    pub fn map_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_cache::MapCache<K, V, KC, VC> {
        redgrid_cache::MapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// A map whose entries have lifetimes that the server ends, as JSON: Redis 7.4, Valkey 9. See
    /// [`NativeMapCache`](redgrid_cache::NativeMapCache).
    #[cfg(all(feature = "cache", feature = "json"))]
    #[doc(alias = "getMapCacheNative")]
    pub fn native_map_cache<K, V>(&self, name: impl AsRef<str>) -> redgrid_cache::NativeMapCache<K, V> {
        redgrid_cache::NativeMapCache::new(&self.client, name)
    }

    /// The same as these codecs write it. See [`NativeMapCache`](redgrid_cache::NativeMapCache).
    #[cfg(feature = "cache")]
    pub fn native_map_cache_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_cache::NativeMapCache<K, V, KC, VC> {
        redgrid_cache::NativeMapCache::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }

    /// A set whose values have lifetimes, as JSON. See [`SetCache`](redgrid_cache::SetCache).
    #[cfg(all(feature = "cache", feature = "json"))]
    #[doc(alias = "getSetCache")]
    pub fn set_cache<T>(&self, name: impl AsRef<str>) -> redgrid_cache::SetCache<T> {
        redgrid_cache::SetCache::new(&self.client, name)
    }

    /// A set whose values have lifetimes, as this codec writes them. See [`SetCache`](redgrid_cache::SetCache).
    #[cfg(feature = "cache")]
    pub fn set_cache_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_cache::SetCache<T, C> {
        redgrid_cache::SetCache::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
