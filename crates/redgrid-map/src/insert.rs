//! Values for keys, and what they had.

use std::borrow::Borrow;

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Script;
use redgrid_core::object::ObjectError;

use crate::map::Map;

pub(crate) static INSERT: Script<1> = Script::new("map/insert", include_str!("scripts/insert.lua"));
pub(crate) static INSERT_IF_ABSENT: Script<1> =
    Script::new("map/insert_if_absent", include_str!("scripts/insert_if_absent.lua"));
pub(crate) static REPLACE: Script<1> = Script::new("map/replace", include_str!("scripts/replace.lua"));

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> Map<K, V, KC, VC> {
    /// Gives the key a value; tells what it had.
    ///
    /// # Errors
    ///
    /// As [`Map::set`]; the value is given also where what it had can not be decoded.
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "put")]
    pub async fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        let was = self.scripted(&INSERT, [field.clone(), value]).await?;
        self.value(&field, was)
    }

    /// Gives the key a value if it is not in the map; else tells what it has.
    ///
    /// # Errors
    ///
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "putIfAbsent")]
    pub async fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        let has = self.scripted(&INSERT_IF_ABSENT, [field.clone(), value]).await?;
        self.value(&field, has)
    }

    /// Gives the key a value if it is in the map; tells what it had.
    ///
    /// # Errors
    ///
    /// As [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::set`].
    #[doc(alias = "putIfExists")]
    pub async fn replace<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (field, value) = self.both(key, value)?;
        let was = self.scripted(&REPLACE, [field.clone(), value]).await?;
        self.value(&field, was)
    }
}
