//! The map, and what is asked of it as a whole.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{Object, ObjectError, Place, alone, fence};
use redgrid_core::{Client, Script};

static HAS_VALUE: Script<1> = Script::new("map/has_value", include_str!("scripts/has_value.lua"));

/// How many entries one look for a value passes.
const LOOKED_AT: i64 = 1000;

/// The type, with the codecs of one that names none: there are some only with the feature `json`, so that what a map stores never
/// depends on the features that others ask for.
macro_rules! map {
    ([$($key:tt)*], [$($value:tt)*]) => {
        /// A map from `K` to `V`, shared by all processes that reach the same server. Redisson's `RMap` on the wire.
        ///
        /// Cheap to clone; clones are the same map. The codecs of keys and of values are part of the type: all who share a map name the same.
        /// With the feature `json` they are `Json` where none are named, and values have the codec of the keys where that alone is named.
        /// A map is there while it has entries.
        #[doc(alias = "RMap")]
        #[doc(alias = "RedissonMap")]
        pub struct Map<K, V, KC $($key)*, VC $($value)*> {
            pub(crate) place: Place,
            pub(crate) keys: KC,
            pub(crate) values: VC,
            entries: PhantomData<fn() -> (K, V)>,
        }
    };
}

#[cfg(feature = "json")]
map!([= redgrid_codecs::Json], [= KC]);
#[cfg(not(feature = "json"))]
map!([], [= KC]);

impl<K, V, KC: Codec + Default, VC: Codec + Default> Map<K, V, KC, VC> {
    /// The map with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Map { place: Place::new(client, name), keys: KC::default(), values: VC::default(), entries: PhantomData }
    }
}

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// The same name with another codec for keys and values.
    pub fn with_codec<C: Codec>(self, codec: C) -> Map<K, V, C, C> {
        self.with_codecs(codec.clone(), codec)
    }

    /// The same name with other codecs for keys and for values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> Map<K, V, A, B> {
        Map { place: self.place, keys, values, entries: PhantomData }
    }

    /// What every object has: whether it is there, its lifetime, other names, its size in memory. Its fence goes along to another name.
    pub fn object(&self) -> Object {
        self.place.object(alone).and_along(fence)
    }

    /// How many entries it has.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.place.read(self.place.command("HLEN")?).await
    }

    /// Whether it has none.
    ///
    /// # Errors
    ///
    /// As [`Map::len`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Removes all entries, in one step; tells whether there were any.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        self.place.change(self.place.command("DEL")?).await
    }
}

impl<K, V, KC: Codec, VC: Encode<V>> Map<K, V, KC, VC> {
    /// Whether a key has this value. The server looks through the map, a thousand entries at a time; what changes meanwhile may be missed.
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
        let (_, key) = self.place.named()?;
        let mut at = Bytes::from_static(b"0");
        loop {
            let epoch = self.place.client().epoch_of(key);
            let request = HAS_VALUE.with([key.clone()]).arg(at).arg(value.clone()).int(LOOKED_AT);
            let (next, found): (Bytes, bool) = self.place.ask(request).await?;
            if found {
                return Ok(true);
            }
            at = match self.place.client().epoch_of(key) == epoch {
                true if &*next == b"0" => return Ok(false),
                true => next,
                // Another process has another order.
                false => Bytes::from_static(b"0"),
            };
        }
    }
}

impl<K, V, KC: Clone, VC: Clone> Clone for Map<K, V, KC, VC> {
    fn clone(&self) -> Self {
        let Map { place, keys, values, .. } = self;
        Map { place: place.clone(), keys: keys.clone(), values: values.clone(), entries: PhantomData }
    }
}

impl<K, V, KC: fmt::Debug, VC: fmt::Debug> fmt::Debug for Map<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Map");
        shown.field("name", &self.place.name()).field("keys", &self.keys).field("values", &self.values);
        shown.finish_non_exhaustive()
    }
}
