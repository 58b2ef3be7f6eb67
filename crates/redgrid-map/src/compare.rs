//! Compare-and-set and compare-and-remove.

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode, EncodesFor};
use redgrid_core::object::ObjectError;
use redgrid_core::{Request, Script};

use crate::map::Map;

static COMPARE_AND_SET: Script<1> = Script::new("map/compare_and_set", include_str!("scripts/compare_and_set.lua"));
static COMPARE_AND_REMOVE: Script<1> =
    Script::new("map/compare_and_remove", include_str!("scripts/compare_and_remove.lua"));

/// Returns the request of a compare-and-set. `args` are the key, the expected value and the new
/// one.
///
/// With `return_current`, the reply contains the current value if it is not the expected one.
pub(crate) fn compare_and_set(map: &Bytes, return_current: bool, args: [Bytes; 3]) -> Request {
    args.into_iter().fold(COMPARE_AND_SET.with([map.clone()]).int(return_current.into()), Request::arg)
}

/// Returns the request of a compare-and-remove. `args` are the key and the expected value.
///
/// With `return_current`, the reply contains the current value if it is not the expected one.
pub(crate) fn compare_and_remove(map: &Bytes, return_current: bool, args: [Bytes; 2]) -> Request {
    args.into_iter().fold(COMPARE_AND_REMOVE.with([map.clone()]).int(return_current.into()), Request::arg)
}

impl<K, V, KC: Codec, VC: Encode<V>> Map<K, V, KC, VC> {
    /// Sets the value of a key if it is `expected`. Returns whether it was set.
    ///
    /// Values are equal if their encoded bytes are equal.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Map::set`].
    #[doc(alias = "replace")]
    pub async fn compare_and_set<Q: ?Sized>(&self, key: &Q, expected: &V, new: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, expected) = self.encode_entry(key, expected)?;
        let new = self.object_ref.encoded(&self.values, new)?;
        let (_, map) = self.object_ref.name_and_key()?;
        self.object_ref.change(compare_and_set(map, false, [field, expected, new])).await
    }

    /// Removes a key if its value is `expected`. Returns whether it was removed.
    ///
    /// Values are equal if their encoded bytes are equal.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Map::set`].
    #[doc(alias = "remove")]
    pub async fn compare_and_remove<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, expected) = self.encode_entry(key, expected)?;
        let (_, map) = self.object_ref.name_and_key()?;
        self.object_ref.change(compare_and_remove(map, false, [field, expected])).await
    }
}
