//! Changes of keys whose value is the one that is expected.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::ObjectError;
use redgrid_core::{Request, Script};

use crate::map::Map;

static COMPARE_AND_SET: Script<1> = Script::new("map/compare_and_set", include_str!("scripts/compare_and_set.lua"));
static COMPARE_AND_REMOVE: Script<1> =
    Script::new("map/compare_and_remove", include_str!("scripts/compare_and_remove.lua"));

/// Asks to give a key (first) another value (last) for the one that is expected; and, where that is to be told, for what it has instead.
pub(crate) fn compare_and_set(map: &Bytes, told: bool, args: [Bytes; 3]) -> Request {
    args.into_iter().fold(COMPARE_AND_SET.with([map.clone()]).int(told.into()), Request::arg)
}

/// The same of removing it.
pub(crate) fn compare_and_remove(map: &Bytes, told: bool, args: [Bytes; 2]) -> Request {
    args.into_iter().fold(COMPARE_AND_REMOVE.with([map.clone()]).int(told.into()), Request::arg)
}

impl<K, V, KC: Codec, VC: Encode<V>> Map<K, V, KC, VC> {
    /// Gives the key a value if it has `expected`; tells whether it did. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "replace")]
    pub async fn compare_and_set<Q: ?Sized>(&self, key: &Q, expected: &V, new: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, expected) = self.both(key, expected)?;
        let new = self.place.encoded(&self.values, new)?;
        let (_, map) = self.place.named()?;
        self.place.change(compare_and_set(map, false, [field, expected, new])).await
    }

    /// Removes the key if it has `expected`; tells whether it did. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "remove")]
    pub async fn compare_and_remove<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, expected) = self.both(key, expected)?;
        let (_, map) = self.place.named()?;
        self.place.change(compare_and_remove(map, false, [field, expected])).await
    }
}
