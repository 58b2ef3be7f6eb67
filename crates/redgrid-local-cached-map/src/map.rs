//! The map, and what is asked of it as a whole.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redgrid_codecs::Codec;
use redgrid_core::Client;
use redgrid_core::object::{Object, ObjectError, Place, alone, fence};
use redgrid_map::Map;

use crate::listen;
use crate::near::Near;
use crate::options::Options;
use crate::stats::Stats;

/// The type, with the codecs of one that names none: there are some only with the feature `json`.
macro_rules! local_cached_map {
    ([$($key:tt)*], [$($value:tt)*]) => {
        /// A map from `K` to `V`, shared by all processes that reach the same server, of which each keeps what it has read until it is
        /// changed. Redisson's `RLocalCachedMap` on the wire.
        ///
        /// Cheap to clone. All handles of a name in a client share one cache, whatever their types: bytes are kept, and decoded for each
        /// caller. The codecs are as those of a [`Map`].
        ///
        /// It is for what is read often and written seldom. What a stream or a read of the whole map brings is not kept; see
        /// [`pre_load`](LocalCachedMap::pre_load).
        #[doc(alias = "RLocalCachedMap")]
        #[doc(alias = "RedissonLocalCachedMap")]
        pub struct LocalCachedMap<K, V, KC $($key)*, VC $($value)*> {
            pub(crate) place: Place,
            pub(crate) keys: KC,
            pub(crate) values: VC,
            pub(crate) map: Map<K, V, KC, VC>,
            shared: Arc<Shared>,
            options: Options,
            entries: PhantomData<fn() -> (K, V)>,
        }
    };
}

#[cfg(feature = "json")]
local_cached_map!([= redgrid_codecs::Json], [= KC]);
#[cfg(not(feature = "json"))]
local_cached_map!([], [= KC]);

/// What all handles of a name in a client have together.
pub(crate) struct Shared {
    near: Arc<Near>,
    begun: AtomicBool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.near.leave();
    }
}

impl<K, V, KC: Codec + Default, VC: Codec + Default> LocalCachedMap<K, V, KC, VC> {
    /// The map with this name. Making one asks nobody: an invalid name is told by the first call.
    #[doc(alias = "getLocalCachedMap")]
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        LocalCachedMap::with_options(client, name, Options::default())
    }

    /// The same, kept as the options say. What can not be is told by the first call.
    pub fn with_options(client: &Client, name: impl AsRef<str>, options: Options) -> Self {
        let name = name.as_ref();
        let place = Place::new(client, name);
        let make = || Shared {
            near: Arc::new(Near::new(options.possible(), client.clock().clone())),
            begun: AtomicBool::new(false),
        };
        let shared = match place.named() {
            Ok((_, key)) if options.check(&place).is_ok() => client.shared(key, make),
            // Each call says why.
            _ => Arc::new(make()),
        };
        LocalCachedMap {
            place,
            keys: KC::default(),
            values: VC::default(),
            map: Map::new(client, name),
            shared,
            options,
            entries: PhantomData,
        }
    }
}

impl<K, V, KC: Codec, VC: Codec> LocalCachedMap<K, V, KC, VC> {
    /// The same name with another codec for keys and values.
    pub fn with_codec<C: Codec>(self, codec: C) -> LocalCachedMap<K, V, C, C> {
        self.with_codecs(codec.clone(), codec)
    }

    /// The same name with other codecs for keys and for values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> LocalCachedMap<K, V, A, B> {
        let map = self.map.with_codecs(keys.clone(), values.clone());
        let LocalCachedMap { place, shared, options, .. } = self;
        LocalCachedMap { place, keys, values, map, shared, options, entries: PhantomData }
    }

    /// What every object has: whether it is there, its lifetime, other names, its size in memory. What is done by it is told to nobody:
    /// caches, this process's own among them, see that the map has gone or has another name with their next pulse, unless it is made anew
    /// meanwhile, and those of Redisson never. So a map is deleted by [`clear`](LocalCachedMap::clear), which tells all at once.
    pub fn object(&self) -> Object {
        self.place.object(alone).and_along(fence)
    }

    /// How many entries it has on the server.
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
        self.map.len().await
    }

    /// Whether it has none on the server.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::len`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        self.map.is_empty().await
    }

    /// How well its values are kept in this process, and how much of them.
    pub fn stats(&self) -> Stats {
        self.shared.near.stats()
    }

    /// Whether values are given out without the server at the moment: whether it is certain that all changes are heard. Nobody listens
    /// before the first read, and nobody is sure while nothing is read.
    pub fn is_in_force(&self) -> bool {
        self.shared.near.is_in_force()
    }

    /// Forgets what this process keeps. The map stays as it is, and so does what others keep; Redisson's method of this name has those
    /// forget as well, for which there is [`clear_all_local`](LocalCachedMap::clear_all_local).
    pub fn clear_local(&self) {
        self.shared.near.clear();
    }

    /// The cache, listening from now on.
    pub(crate) fn near(&self) -> Result<&Near, ObjectError> {
        let (_, key) = self.place.named()?;
        self.options.check(&self.place)?;
        let Shared { near, begun } = &*self.shared;
        if !begun.load(Ordering::Acquire) && !begun.swap(true, Ordering::AcqRel) {
            listen::begin(self.place.client(), key, near);
        }
        Ok(near)
    }
}

impl<K, V, KC: Clone, VC: Clone> Clone for LocalCachedMap<K, V, KC, VC> {
    fn clone(&self) -> Self {
        let LocalCachedMap { place, keys, values, map, shared, options, .. } = self;
        LocalCachedMap {
            place: place.clone(),
            keys: keys.clone(),
            values: values.clone(),
            map: map.clone(),
            shared: Arc::clone(shared),
            options: *options,
            entries: PhantomData,
        }
    }
}

impl<K, V, KC: fmt::Debug, VC: fmt::Debug> fmt::Debug for LocalCachedMap<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("LocalCachedMap");
        shown.field("name", &self.place.name()).field("keys", &self.keys).field("values", &self.values);
        shown.field("options", &self.options).finish_non_exhaustive()
    }
}
