//! Streams of keys, values and entries.

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Scan};

use crate::cache::Cache;
use crate::layout::Layout;

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Returns a stream of all entries that are not expired. It does not count as an access.
    #[doc(alias = "entrySet")]
    #[doc(alias = "readAllMap")]
    pub fn entries(&self) -> Scan<(K, V)> {
        let map = self.clone();
        let read = move |found: &[_]| Ok((map.decode_key(&found[0])?, map.decode_value(&found[0], &found[1])?));
        Scan::asking(2, self.object_ref.clone(), Y::scan, read)
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Codec, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Returns a stream of all keys that are not expired. The server sends the values, too.
    #[doc(alias = "keySet")]
    #[doc(alias = "readAllKeySet")]
    pub fn keys(&self) -> Scan<K> {
        let map = self.clone();
        Scan::asking(2, self.object_ref.clone(), Y::scan, move |found| map.decode_key(&found[0]))
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Returns a stream of the values of all entries that are not expired.
    #[doc(alias = "readAllValues")]
    pub fn values(&self) -> Scan<V> {
        let map = self.clone();
        Scan::asking(2, self.object_ref.clone(), Y::scan, move |found| map.decode_value(&found[0], &found[1]))
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Encode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Returns whether an entry that is not expired has this value. It reads all values as a
    /// stream.
    ///
    /// Values are equal if their encoded bytes are equal. Changes during the call may be missed.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "containsValue")]
    pub async fn contains_value(&self, value: &V) -> Result<bool, ObjectError> {
        let value = self.object_ref.encoded(&self.values, value)?;
        let mut all = Scan::asking(2, self.object_ref.clone(), Y::scan, |found| Ok(found[1].clone())).page(1000);
        while let Some(found) = all.try_next().await? {
            if found == value {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
