//! Read-through: loads entries that are not in the map, one load per key at a time.

use std::collections::HashMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::slice;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::{BoxFuture, Shared};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, stream};
use redgrid_codecs::{Decode, Encode};
use redgrid_core::object::ObjectError;

use super::key_lock::{KeyGuard, lock_lost};
use super::store::{BackedError, Storable, StoreError, StoreTimeout};
use super::store_call::call_store;
use super::write_task::join;
use super::{BackedMap, Inner, Mode};
use crate::insert::INSERT_IF_ABSENT;

/// A load that all callers of the key share.
type PendingLoad = Shared<BoxFuture<'static, Result<Option<Bytes>, BackedError>>>;

/// The running loads, by encoded key.
pub(super) type PendingLoads = Mutex<HashMap<Bytes, PendingLoad>>;

/// The result of loading many keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Loaded {
    /// Number of keys that have the store's value now.
    pub loaded: u64,
    /// Number of keys that keep the map's value.
    pub kept: u64,
    /// Number of keys that the store does not have.
    pub missing: u64,
}

/// The result of loading one of many keys.
enum LoadResult {
    Loaded,
    Kept,
    Missing,
}

impl<K: Storable, V: Storable, KC: Encode<K>, VC: Encode<V> + Decode<V>> BackedMap<K, V, KC, VC> {
    /// Returns the value of a key. If it is not in the map, it is loaded from the store and
    /// inserted.
    ///
    /// # Errors
    ///
    /// [`BackedError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A load that has begun continues for other callers.
    pub async fn get(&self, key: &K) -> Result<Option<V>, BackedError> {
        if let Some(value) = self.0.map.get(key).await? {
            return Ok(Some(value));
        }
        let field = self.0.map.object_ref.encoded(&self.0.map.keys, key)?;
        let found = self.load_missing(key, &field).await?;
        Ok(self.0.map.decode_value(&field, found)?)
    }

    /// Returns the values of keys, in their order. Missing entries are loaded, 16 at a time.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BackedMap::get`].
    #[doc(alias = "getAll")]
    pub async fn get_many<'a>(&self, keys: impl IntoIterator<Item = &'a K>) -> Result<Vec<Option<V>>, BackedError> {
        let keys: Vec<&K> = keys.into_iter().collect();
        let mut found = self.0.map.get_many(keys.iter().copied()).await?;
        let missing = found.iter().enumerate().filter(|(_, value)| value.is_none());
        let missing: Vec<(usize, K)> = missing.map(|(index, _)| (index, keys[index].clone())).collect();
        let loads = missing.into_iter().map(|(index, key)| async move { (index, self.get(&key).await) });
        let mut loads = std::pin::pin!(stream::iter(loads).buffer_unordered(MAX_CONCURRENT_LOADS));
        while let Some((index, value)) = loads.next().await {
            found[index] = value?;
        }
        Ok(found)
    }

    /// Returns whether a key is in the map or in the store. If it is only in the store, it is
    /// inserted into the map.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BackedMap::get`].
    #[doc(alias = "containsKey")]
    pub async fn contains_key(&self, key: &K) -> Result<bool, BackedError> {
        if self.0.map.contains_key(key).await? {
            return Ok(true);
        }
        let field = self.0.map.object_ref.encoded(&self.0.map.keys, key)?;
        Ok(self.load_missing(key, &field).await?.is_some())
    }

    /// Loads all keys that the store [lists](crate::Loader::keys), `at_once` at a time. Keys that
    /// are in the map are loaded only if they are to be `replaced`.
    ///
    /// # Errors
    ///
    /// The first [`BackedError`]. Entries that were loaded before it are in the map.
    ///
    /// # Cancel safety
    ///
    /// Entries that were loaded before the drop are in the map.
    #[doc(alias = "loadAll")]
    pub async fn load_all(&self, replaced: bool, at_once: usize) -> Result<Loaded, BackedError> {
        match &self.0.loader {
            None => Ok(Loaded::default()),
            Some(loader) => {
                let within = self.0.store_options.store_timeout;
                // Each key has the time limit of any other call to the store.
                let keys = stream::unfold(Some(loader.keys()), move |keys| async move {
                    let mut keys = keys?;
                    match tokio::time::timeout(within, keys.next()).await {
                        Ok(key) => key.map(|key| (key, Some(keys))),
                        Err(_) => Some((Err(StoreTimeout(within).into()), None)),
                    }
                });
                self.load_each(keys.boxed(), replaced, at_once).await
            }
        }
    }

    /// Loads these keys, `at_once` at a time. Keys that are in the map are loaded only if they are
    /// to be `replaced`.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BackedMap::load_all`].
    #[doc(alias = "loadAll")]
    pub async fn load_many(
        &self,
        keys: impl IntoIterator<Item = K, IntoIter: Send>,
        replaced: bool,
        at_once: usize,
    ) -> Result<Loaded, BackedError> {
        self.load_each(stream::iter(keys).map(Ok).boxed(), replaced, at_once).await
    }

    async fn load_each(
        &self,
        keys: BoxStream<'_, Result<K, StoreError>>,
        replaced: bool,
        at_once: usize,
    ) -> Result<Loaded, BackedError> {
        let name = self.0.name()?;
        let load_one = async |key: Result<K, StoreError>| {
            let key = key.map_err(|fault| BackedError::NotLoaded { name: name.clone(), source: fault.into() })?;
            let field = self.0.map.object_ref.encoded(&self.0.map.keys, &key)?;
            if replaced {
                let (inner, key, field) = (Arc::clone(&self.0), key.clone(), field.clone());
                let load = tokio::spawn(async move { inner.load(key, field, true).await });
                let found = join(&name, load).await?;
                return Ok(found.map_or(LoadResult::Missing, |_| LoadResult::Loaded));
            }
            if self.0.map.contains_key(&key).await? {
                return Ok(LoadResult::Kept);
            }
            Ok::<_, BackedError>(
                self.load_missing(&key, &field).await?.map_or(LoadResult::Missing, |_| LoadResult::Loaded),
            )
        };
        let mut totals = Loaded::default();
        let mut results = std::pin::pin!(keys.map(load_one).buffer_unordered(at_once.max(1)));
        while let Some(result) = results.next().await {
            match result? {
                LoadResult::Loaded => totals.loaded += 1,
                LoadResult::Kept => totals.kept += 1,
                LoadResult::Missing => totals.missing += 1,
            }
        }
        Ok(totals)
    }

    /// Loads a key that is not in the map and inserts it. Returns its bytes in the map; `None` if
    /// the store does not have it.
    async fn load_missing(&self, key: &K, field: &Bytes) -> Result<Option<Bytes>, BackedError> {
        if self.0.loader.is_none() {
            return Ok(None);
        }
        self.pending_load(key, field)?.await
    }

    /// Returns the running load of this key, or starts one.
    fn pending_load(&self, key: &K, field: &Bytes) -> Result<PendingLoad, BackedError> {
        let name = self.0.name()?;
        let mut pending_loads = self.0.pending_loads.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(load) = pending_loads.get(field) {
            return Ok(load.clone());
        }
        let (inner, key, owned_field) = (Arc::clone(&self.0), key.clone(), field.clone());
        // The load runs in a task of its own, so that it continues when callers are dropped.
        let task = tokio::spawn(async move {
            let found = AssertUnwindSafe(inner.load(key, owned_field.clone(), false)).catch_unwind().await;
            inner.pending_loads.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&owned_field);
            found.unwrap_or_else(|payload| resume_unwind(payload))
        });
        let load = async move { join(&name, task).await };
        let load = load.boxed().shared();
        pending_loads.insert(field.clone(), load.clone());
        Ok(load)
    }
}

/// Number of missing keys that [`BackedMap::get_many`] loads at a time.
const MAX_CONCURRENT_LOADS: usize = 16;

impl<K: Storable, V: Storable, KC: Encode<K>, VC: Encode<V> + Decode<V>> Inner<K, V, KC, VC> {
    /// Loads a key and inserts it into the map. Returns the map's value afterwards.
    async fn load(&self, key: K, field: Bytes, replaced: bool) -> Result<Option<Bytes>, BackedError> {
        let guard = self.lock_key(&field).await?;
        let found = self.load_locked(&guard, key, field, replaced).await;
        guard.release().await;
        found
    }

    async fn load_locked(
        &self,
        guard: &KeyGuard,
        key: K,
        field: Bytes,
        replaced: bool,
    ) -> Result<Option<Bytes>, BackedError> {
        let map = &self.map;
        if !replaced {
            // Another process may have loaded the key while this one waited for the lock. Read from
            // the primary: a replica may lag.
            let current: Option<Bytes> =
                map.object_ref.read_primary(map.object_ref.command("HGET")?.arg(field.clone())).await?;
            if current.is_some() {
                return Ok(current);
            }
        }
        let mut pending = None;
        if let Mode::WriteBehind(queue) = &self.mode {
            // The store is behind the map: a pending change is newer than the store's value.
            pending = queue.pending_value(&field);
        }
        let loaded = match (pending, self.loader.clone()) {
            (Some(pending), _) => pending,
            (None, Some(loader)) => {
                let loaded = tokio::select! {
                    biased;
                    lost = lock_lost(slice::from_ref(guard)) => Err(lost),
                    loaded = call_store(&self.store_options, async move { loader.load(&key).await }) => loaded,
                };
                loaded.map_err(|source| self.load_error(source))?
            }
            (None, None) => None,
        };
        let Some(value) = loaded else { return Ok(None) };
        let value = map.object_ref.encoded(&map.values, &value)?;
        if replaced {
            let request = map.object_ref.command("HSET")?.arg(field).arg(value.clone());
            map.object_ref.change::<i64>(request).await?;
            return Ok(Some(value));
        }
        let current: Option<Bytes> = map.run_script(&INSERT_IF_ABSENT, [field, value.clone()]).await?;
        Ok(Some(current.unwrap_or(value)))
    }

    fn load_error(&self, source: Arc<dyn Error + Send + Sync>) -> BackedError {
        match self.name() {
            Ok(name) => BackedError::NotLoaded { name, source },
            Err(invalid) => ObjectError::into(invalid),
        }
    }
}
