//! Streams of keys, values and entries.

use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::Scan;

use crate::map::Map;
use crate::read::shown;

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> Map<K, V, KC, VC> {
    /// All entries, as a stream.
    #[doc(alias = "entrySet")]
    #[doc(alias = "forEach")]
    pub fn entries(&self) -> Scan<(K, V)> {
        let map = self.clone();
        Scan::by("HSCAN", 2, self.place.clone(), move |found| map.entry(&found[0], &found[1]))
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Codec> Map<K, V, KC, VC> {
    /// All keys, as a stream. The server sends the values, too, as it has no other way before Redis 7.4.
    #[doc(alias = "keySet")]
    pub fn keys(&self) -> Scan<K> {
        let map = self.clone();
        Scan::by("HSCAN", 2, self.place.clone(), move |found| map.key(&found[0]))
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Decode<V>> Map<K, V, KC, VC> {
    /// All values, as a stream.
    pub fn values(&self) -> Scan<V> {
        let map = self.clone();
        Scan::by("HSCAN", 2, self.place.clone(), move |found| {
            map.place.decoded(&map.values, &found[1], || shown(&found[0]))
        })
    }
}
