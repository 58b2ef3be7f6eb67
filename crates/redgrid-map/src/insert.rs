//! Writes that return the previous value.

use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::Script;
use redgrid_core::object::ObjectError;

use crate::map::Map;

pub(crate) static INSERT: Script<1> = Script::new("map/insert", include_str!("scripts/insert.lua"));
pub(crate) static INSERT_IF_ABSENT: Script<1> =
    Script::new("map/insert_if_absent", include_str!("scripts/insert_if_absent.lua"));
pub(crate) static REPLACE: Script<1> = Script::new("map/replace", include_str!("scripts/replace.lua"));

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> Map<K, V, KC, VC> {
    /// Sets the value of a key. Returns the previous value.
    ///
    /// # Errors
    ///
    /// As for [`Map::set`]. The value is set even if the previous one cannot be decoded.
    ///
    /// # Cancel safety
    ///
    /// As for [`Map::set`].
    #[doc(alias = "put")]
    pub async fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, value) = self.encode_entry(key, value)?;
        let previous = self.run_script(&INSERT, [field.clone(), value]).await?;
        self.decode_value(&field, previous)
    }

    /// Sets the value of a key that is not in the map. Otherwise returns the current value.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Map::set`].
    #[doc(alias = "putIfAbsent")]
    pub async fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, value) = self.encode_entry(key, value)?;
        let current = self.run_script(&INSERT_IF_ABSENT, [field.clone(), value]).await?;
        self.decode_value(&field, current)
    }

    /// Sets the value of a key that is in the map. Returns the previous value.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Map::set`].
    #[doc(alias = "putIfExists")]
    pub async fn replace<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (field, value) = self.encode_entry(key, value)?;
        let previous = self.run_script(&REPLACE, [field.clone(), value]).await?;
        self.decode_value(&field, previous)
    }
}
