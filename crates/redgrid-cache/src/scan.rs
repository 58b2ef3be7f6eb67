//! Streams of keys, values and entries.

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Scan};

use crate::cache::Cache;
use crate::layout::Layout;

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// All entries that are not over, as a stream. It is no use of them.
    #[doc(alias = "entrySet")]
    #[doc(alias = "readAllMap")]
    pub fn entries(&self) -> Scan<(K, V)> {
        let map = self.clone();
        let read = move |found: &[_]| Ok((map.key(&found[0])?, map.value(&found[0], &found[1])?));
        Scan::asking(2, self.place.clone(), Y::scan, read)
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Codec, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// All keys that are not over, as a stream. The server sends the values, too.
    #[doc(alias = "keySet")]
    #[doc(alias = "readAllKeySet")]
    pub fn keys(&self) -> Scan<K> {
        let map = self.clone();
        Scan::asking(2, self.place.clone(), Y::scan, move |found| map.key(&found[0]))
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// The values of all entries that are not over, as a stream.
    #[doc(alias = "readAllValues")]
    pub fn values(&self) -> Scan<V> {
        let map = self.clone();
        Scan::asking(2, self.place.clone(), Y::scan, move |found| map.value(&found[0], &found[1]))
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Encode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Whether an entry that is not over has this value: by a stream of all of them. Values are equal whose bytes are; what changes meanwhile may be missed.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "containsValue")]
    pub async fn contains_value(&self, value: &V) -> Result<bool, ObjectError> {
        let value = self.place.encoded(&self.values, value)?;
        let mut all = Scan::asking(2, self.place.clone(), Y::scan, |found| Ok(found[1].clone())).page(1000);
        while let Some(found) = all.try_next().await? {
            if found == value {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
