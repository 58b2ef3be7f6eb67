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
}
