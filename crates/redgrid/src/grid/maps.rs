//! Maps.

use super::Grid;

impl Grid {
    /// A map whose values this process keeps until their change is told, as JSON. The options of the first handle of a name are in force,
    /// as all share one cache. See
    /// [`LocalCachedMap`](redgrid_local_cached_map::LocalCachedMap).
    #[cfg(all(feature = "local-cached-map", feature = "json"))]
    #[doc(alias = "getLocalCachedMap")]
    pub fn local_cached_map<K, V>(
        &self,
        name: impl AsRef<str>,
        options: redgrid_local_cached_map::Options,
    ) -> redgrid_local_cached_map::LocalCachedMap<K, V> {
        redgrid_local_cached_map::LocalCachedMap::with_options(&self.client, name, options)
    }

    /// A map whose values this process keeps, as these codecs write its keys and values. See
    /// [`LocalCachedMap`](redgrid_local_cached_map::LocalCachedMap).
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

    /// A map, as JSON; [`Map::with_codec`](redgrid_map::Map::with_codec) has it another way. See [`Map`](redgrid_map::Map).
    #[cfg(all(feature = "map", feature = "json"))]
    #[doc(alias = "getMap")]
    pub fn map<K, V>(&self, name: impl AsRef<str>) -> redgrid_map::Map<K, V> {
        redgrid_map::Map::new(&self.client, name)
    }

    /// A map, as these codecs write its keys and values. See [`Map`](redgrid_map::Map).
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
