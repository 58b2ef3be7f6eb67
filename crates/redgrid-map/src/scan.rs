//! Streams of keys, values and entries.

use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::Scan;

use crate::map::Map;
use crate::read::key_for_error;

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> Map<K, V, KC, VC> {
    /// Returns a stream of all entries.
    #[doc(alias = "entrySet")]
    #[doc(alias = "forEach")]
    pub fn entries(&self) -> Scan<(K, V)> {
        let map = self.clone();
        Scan::by("HSCAN", 2, self.object_ref.clone(), move |found| map.decode_entry(&found[0], &found[1]))
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Codec> Map<K, V, KC, VC> {
    /// Returns a stream of all keys.
    ///
    /// The server sends the values too: before Redis 7.4 it cannot scan keys alone.
    #[doc(alias = "keySet")]
    pub fn keys(&self) -> Scan<K> {
        let map = self.clone();
        Scan::by("HSCAN", 2, self.object_ref.clone(), move |found| map.decode_key(&found[0]))
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Decode<V>> Map<K, V, KC, VC> {
    /// Returns a stream of all values.
    pub fn values(&self) -> Scan<V> {
        let map = self.clone();
        Scan::by("HSCAN", 2, self.object_ref.clone(), move |found| {
            map.object_ref.decoded(&map.values, &found[1], || key_for_error(&found[0]))
        })
    }
}
