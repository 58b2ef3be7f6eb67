//! The map type, and calls about the map as a whole.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::author::ClientExt;
use redgrid_core::object::{Object, ObjectError, ObjectRef, alone, fence};
use redgrid_core::{Client, Script};

static HAS_VALUE: Script<1> = Script::new("map/has_value", include_str!("scripts/has_value.lua"));

/// `COUNT` of each HSCAN page of [`Map::contains_value`].
const SCAN_COUNT: i64 = 1000;

redgrid_core::default_codec! {
    /// A map from `K` to `V`, shared by all processes that use the same server. On the wire it is
    /// Redisson's `RMap`.
    ///
    /// It is cheap to clone; clones are the same map. The codecs of keys and values are part of the
    /// type: all users of a map must use the same ones. With the feature `json` the default codec
    /// of keys is `Json`. The codec of values defaults to that of keys.
    ///
    /// A map exists while it has entries.
    #[doc(alias = "RMap")]
    #[doc(alias = "RedissonMap")]
    pub struct Map<K, V; KC, VC> {
        pub(crate) object_ref: ObjectRef,
        pub(crate) keys: KC,
        pub(crate) values: VC,
        entries: PhantomData<fn() -> (K, V)>,
    }
}

impl<K, V, KC: Codec + Default, VC: Codec + Default> Map<K, V, KC, VC> {
    /// Returns the map with this name.
    ///
    /// No request is sent: the first call reports an invalid name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Map {
            object_ref: ObjectRef::new(client, name),
            keys: KC::default(),
            values: VC::default(),
            entries: PhantomData,
        }
    }
}

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// Returns a handle of the same name with another codec for keys and values.
    pub fn with_codec<C: Codec>(self, codec: C) -> Map<K, V, C, C> {
        self.with_codecs(codec.clone(), codec)
    }

    /// Returns a handle of the same name with other codecs for keys and for values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> Map<K, V, A, B> {
        Map { object_ref: self.object_ref, keys, values, entries: PhantomData }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, renaming, memory size.
    ///
    /// A rename includes the map's fence.
    pub fn object(&self) -> Object {
        self.object_ref.object(alone).also_renames(fence)
    }

    /// Returns the number of entries.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.object_ref.read(self.object_ref.command("HLEN")?).await
    }

    /// Returns whether the map is empty.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Map::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Removes all entries in one step. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        self.object_ref.change(self.object_ref.command("DEL")?).await
    }
}

impl<K, V, KC: Codec, VC: Encode<V>> Map<K, V, KC, VC> {
    /// Returns whether any key has this value.
    ///
    /// The server scans the map, about a thousand entries a request. Changes made during the scan
    /// may be missed.
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
        let (_, key) = self.object_ref.name_and_key()?;
        let mut cursor = Bytes::from_static(b"0");
        loop {
            let connection = self.object_ref.client().epoch_of(key);
            let request = HAS_VALUE.with([key.clone()]).arg(cursor).arg(value.clone()).int(SCAN_COUNT);
            let (next, found): (Bytes, bool) = self.object_ref.read_primary(request).await?;
            if found {
                return Ok(true);
            }
            cursor = if self.object_ref.client().epoch_of(key) != connection {
                // A new server process scans in another order: start again.
                Bytes::from_static(b"0")
            } else if &*next == b"0" {
                return Ok(false);
            } else {
                next
            };
        }
    }
}

redgrid_core::clone_fields!([K, V, KC: Clone, VC: Clone] Map<K, V, KC, VC> { object_ref, keys, values, entries });

redgrid_core::debug_fields!([K, V, KC: std::fmt::Debug, VC: std::fmt::Debug] Map<K, V, KC, VC>, |it|
    name: it.object_ref.name(), keys: it.keys, values: it.values
);
