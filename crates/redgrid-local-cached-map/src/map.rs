//! The map type, and calls about the map as a whole.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redgrid_codecs::Codec;
use redgrid_core::Client;
use redgrid_core::author::ClientExt;
use redgrid_core::object::{Object, ObjectError, ObjectRef, alone, fence};
use redgrid_map::Map;

use crate::listen;
use crate::near::NearCache;
use crate::options::Options;
use crate::stats::Stats;

redgrid_core::default_codec! {
    /// A map from `K` to `V`, shared by all processes that use the same server. Each process caches
    /// the values that it has read until they are changed. On the wire it is Redisson's
    /// `RLocalCachedMap`.
    ///
    /// It is cheap to clone. All handles of a name in a client share one cache, whatever their
    /// types: encoded bytes are cached, and decoded for each caller. The codecs are as for a
    /// [`Map`].
    ///
    /// Use it for values that are read often and written seldom. Streams and reads of the whole
    /// map do not fill the cache; see [`pre_load`](LocalCachedMap::pre_load).
    #[doc(alias = "RLocalCachedMap")]
    #[doc(alias = "RedissonLocalCachedMap")]
    pub struct LocalCachedMap<K, V; KC, VC> {
        pub(crate) object_ref: ObjectRef,
        pub(crate) keys: KC,
        pub(crate) values: VC,
        pub(crate) map: Map<K, V, KC, VC>,
        shared: Arc<Shared>,
        options: Options,
        entries: PhantomData<fn() -> (K, V)>,
    }
}

/// The state that all handles of a name in a client share.
pub(crate) struct Shared {
    near: Arc<NearCache>,
    started: AtomicBool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.near.stop();
    }
}

impl<K, V, KC: Codec + Default, VC: Codec + Default> LocalCachedMap<K, V, KC, VC> {
    /// Returns the map with this name.
    ///
    /// No request is sent: the first call reports an invalid name.
    #[doc(alias = "getLocalCachedMap")]
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        LocalCachedMap::with_options(client, name, Options::default())
    }

    /// Returns the map with this name and these options for the cache.
    ///
    /// The first call reports an invalid name or option.
    pub fn with_options(client: &Client, name: impl AsRef<str>, options: Options) -> Self {
        let name = name.as_ref();
        let object_ref = ObjectRef::new(client, name);
        let create = || Shared {
            near: Arc::new(NearCache::new(options.clamped(), client.clock().clone())),
            started: AtomicBool::new(false),
        };
        let shared = match object_ref.name_and_key() {
            Ok((_, key)) if options.check(&object_ref).is_ok() => client.shared(key, create),
            // The name or an option is invalid: each call returns the error.
            _ => Arc::new(create()),
        };
        LocalCachedMap {
            object_ref,
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
    /// Returns a handle of the same name with another codec for keys and values.
    pub fn with_codec<C: Codec>(self, codec: C) -> LocalCachedMap<K, V, C, C> {
        self.with_codecs(codec.clone(), codec)
    }

    /// Returns a handle of the same name with other codecs for keys and for values.
    pub fn with_codecs<A: Codec, B: Codec>(self, keys: A, values: B) -> LocalCachedMap<K, V, A, B> {
        let map = self.map.with_codecs(keys.clone(), values.clone());
        let LocalCachedMap { object_ref, shared, options, .. } = self;
        LocalCachedMap { object_ref, keys, values, map, shared, options, entries: PhantomData }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, renaming, memory size.
    ///
    /// Its changes are not published. Caches, including that of this process, detect the deletion
    /// or renaming of the map with their next heartbeat, unless the map is created again meanwhile.
    /// Caches of Redisson never detect it. To delete a map use [`clear`](LocalCachedMap::clear),
    /// which notifies all caches at once.
    pub fn object(&self) -> Object {
        self.object_ref.object(alone).also_renames(fence)
    }

    /// Returns the number of entries on the server.
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
        self.map.len().await
    }

    /// Returns whether the map is empty on the server.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`LocalCachedMap::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        self.map.is_empty().await
    }

    /// Returns the hit statistics and the size of the cache in this process.
    pub fn stats(&self) -> Stats {
        self.shared.near.stats()
    }

    /// Returns whether cached values are returned at present, that is, whether it is certain that
    /// all changes are received.
    ///
    /// The subscription starts with the first read. Without reads the heartbeats stop, and the
    /// result becomes false.
    pub fn is_active(&self) -> bool {
        self.shared.near.is_active()
    }

    /// Clears the cache of this process. The map and the caches of other processes stay as they
    /// are.
    ///
    /// Redisson's method of this name clears the other caches, too, as
    /// [`clear_all_local`](LocalCachedMap::clear_all_local) does here.
    pub fn clear_local(&self) {
        self.shared.near.clear();
    }

    /// Returns the cache, and starts its listener with the first call.
    pub(crate) fn near(&self) -> Result<&NearCache, ObjectError> {
        let (_, key) = self.object_ref.name_and_key()?;
        self.options.check(&self.object_ref)?;
        let Shared { near, started } = &*self.shared;
        if !started.load(Ordering::Acquire) && !started.swap(true, Ordering::AcqRel) {
            listen::start(self.object_ref.client(), key, near);
        }
        Ok(near)
    }
}

redgrid_core::clone_fields!(
    [K, V, KC: Clone, VC: Clone] LocalCachedMap<K, V, KC, VC> {
        object_ref, keys, values, map, shared, options, entries
    }
);

redgrid_core::debug_fields!([K, V, KC: std::fmt::Debug, VC: std::fmt::Debug] LocalCachedMap<K, V, KC, VC>, |it|
    name: it.object_ref.name(), keys: it.keys, values: it.values, options: it.options
);
