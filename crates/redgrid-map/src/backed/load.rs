//! Reading through: what is not in the map is loaded, once at a time for each key.

use std::collections::HashMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::{BoxFuture, Shared};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, stream};
use redgrid_codecs::{Decode, Encode};
use redgrid_core::object::ObjectError;

use super::store::{BackedError, Fault};
use super::turn::within;
use super::write::done;
use super::{BackedMap, Inner, Mode};
use crate::insert::INSERT_IF_ABSENT;

/// A load that all who want the key wait for.
type Flight = Shared<BoxFuture<'static, Result<Option<Bytes>, BackedError>>>;

/// The loads that run.
pub(super) type Flights = Mutex<HashMap<Bytes, Flight>>;

/// What loading many came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loaded {
    /// So many keys have the store's value now.
    pub loaded: u64,
    /// So many have the map's, as they had one.
    pub kept: u64,
    /// So many the store has nothing of.
    pub missing: u64,
}

/// What became of a key of many.
enum One {
    Loaded,
    Kept,
    Missing,
}

impl<K, V, KC, VC> BackedMap<K, V, KC, VC>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    KC: Encode<K>,
    VC: Encode<V> + Decode<V>,
{
    /// What the key has: in the map, or else in the store, from where it is put into the map.
    ///
    /// # Errors
    ///
    /// [`BackedError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// A load that has begun goes on for others.
    pub async fn get(&self, key: &K) -> Result<Option<V>, BackedError> {
        if let Some(value) = self.0.map.get(key).await? {
            return Ok(Some(value));
        }
        let field = self.0.map.place.encoded(&self.0.map.keys, key)?;
        let found = self.loaded(key, &field).await?;
        Ok(self.0.map.value(&field, found)?)
    }

    /// What the keys have, in their order: those that are missing in the map are loaded, 16 at a time.
    ///
    /// # Errors
    ///
    /// As [`BackedMap::get`].
    ///
    /// # Cancel safety
    ///
    /// As [`BackedMap::get`].
    #[doc(alias = "getAll")]
    pub async fn get_many<'a>(&self, keys: impl IntoIterator<Item = &'a K>) -> Result<Vec<Option<V>>, BackedError> {
        let keys: Vec<&K> = keys.into_iter().collect();
        let mut found = self.0.map.get_many(keys.iter().copied()).await?;
        let missing: Vec<(usize, K)> =
            found.iter().enumerate().filter(|(_, has)| has.is_none()).map(|(at, _)| (at, keys[at].clone())).collect();
        let loads = missing.into_iter().map(|(at, key)| async move { (at, self.get(&key).await) });
        let mut loads = std::pin::pin!(stream::iter(loads).buffer_unordered(AT_ONCE));
        while let Some((at, value)) = loads.next().await {
            found[at] = value?;
        }
        Ok(found)
    }

    /// Whether the key is in the map or in the store, from where it is put into the map.
    ///
    /// # Errors
    ///
    /// As [`BackedMap::get`].
    ///
    /// # Cancel safety
    ///
    /// As [`BackedMap::get`].
    #[doc(alias = "containsKey")]
    pub async fn contains_key(&self, key: &K) -> Result<bool, BackedError> {
        if self.0.map.contains_key(key).await? {
            return Ok(true);
        }
        let field = self.0.map.place.encoded(&self.0.map.keys, key)?;
        Ok(self.loaded(key, &field).await?.is_some())
    }

    /// Loads all keys that the store [names](crate::Loader::keys), so many at a time: those that the map has, too, where they
    /// are to be `replaced`.
    ///
    /// # Errors
    ///
    /// The first [`BackedError`]; what was loaded before is in the map.
    ///
    /// # Cancel safety
    ///
    /// What is loaded is in the map.
    #[doc(alias = "loadAll")]
    pub async fn load_all(&self, replaced: bool, at_once: usize) -> Result<Loaded, BackedError> {
        match &self.0.loader {
            None => Ok(Loaded::default()),
            Some(loader) => self.load_each(loader.keys(), replaced, at_once).await,
        }
    }

    /// Loads these keys, so many at a time: those that the map has, too, where they are to be `replaced`.
    ///
    /// # Errors
    ///
    /// As [`BackedMap::load_all`].
    ///
    /// # Cancel safety
    ///
    /// As [`BackedMap::load_all`].
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
        keys: BoxStream<'_, Result<K, Fault>>,
        replaced: bool,
        at_once: usize,
    ) -> Result<Loaded, BackedError> {
        let name = self.0.name()?;
        let one = async |key: Result<K, Fault>| {
            let key = key.map_err(|fault| BackedError::NotLoaded { name: name.clone(), source: fault.into() })?;
            let field = self.0.map.place.encoded(&self.0.map.keys, &key)?;
            if replaced {
                let (inner, key, field) = (Arc::clone(&self.0), key.clone(), field.clone());
                let load = tokio::spawn(async move { inner.load(key, field, true).await });
                let found = done(&name, load).await?;
                return Ok(found.map_or(One::Missing, |_| One::Loaded));
            }
            if self.0.map.contains_key(&key).await? {
                return Ok(One::Kept);
            }
            Ok::<_, BackedError>(self.loaded(&key, &field).await?.map_or(One::Missing, |_| One::Loaded))
        };
        let mut all = Loaded::default();
        let mut done = std::pin::pin!(keys.map(one).buffer_unordered(at_once.max(1)));
        while let Some(one) = done.next().await {
            match one? {
                One::Loaded => all.loaded += 1,
                One::Kept => all.kept += 1,
                One::Missing => all.missing += 1,
            }
        }
        Ok(all)
    }

    /// What the store has of a key that the map has not; the bytes are in the map then.
    async fn loaded(&self, key: &K, field: &Bytes) -> Result<Option<Bytes>, BackedError> {
        if self.0.loader.is_none() {
            return Ok(None);
        }
        self.flight(key, field)?.await
    }

    /// The load of this key that runs, or a new one.
    fn flight(&self, key: &K, field: &Bytes) -> Result<Flight, BackedError> {
        let name = self.0.name()?;
        let mut flights = self.0.flights.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(flight) = flights.get(field) {
            return Ok(flight.clone());
        }
        let (inner, key, of) = (Arc::clone(&self.0), key.clone(), field.clone());
        // In a task: it goes on whoever of those that wait goes away.
        let task = tokio::spawn(async move {
            let found = AssertUnwindSafe(inner.load(key, of.clone(), false)).catch_unwind().await;
            inner.flights.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&of);
            found.unwrap_or_else(|payload| resume_unwind(payload))
        });
        let flight = async move { done(&name, task).await };
        let flight = flight.boxed().shared();
        flights.insert(field.clone(), flight.clone());
        Ok(flight)
    }
}

/// How many missing keys of many are loaded at a time.
const AT_ONCE: usize = 16;

impl<K, V, KC, VC> Inner<K, V, KC, VC>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    KC: Encode<K>,
    VC: Encode<V> + Decode<V>,
{
    /// Loads a key and puts it into the map; tells what the map has then.
    async fn load(&self, key: K, field: Bytes, replaced: bool) -> Result<Option<Bytes>, BackedError> {
        let turn = self.turn(&field).await?;
        let found = self.load_in_turn(key, field, replaced).await;
        turn.over().await;
        found
    }

    async fn load_in_turn(&self, key: K, field: Bytes, replaced: bool) -> Result<Option<Bytes>, BackedError> {
        let map = &self.map;
        if !replaced {
            // From the primary: a replica may be behind, and others may have loaded it while this one waited.
            let has: Option<Bytes> = map.place.ask(map.place.command("HGET")?.arg(field.clone())).await?;
            if has.is_some() {
                return Ok(has);
            }
        }
        let mut waits = None;
        if let Mode::Behind(queue) = &self.mode {
            // The store is behind: what waits for it is newer than what it has.
            waits = queue.waits(&field);
        }
        let loaded = match (waits, self.loader.clone()) {
            (Some(waits), _) => waits,
            (None, Some(loader)) => {
                let loaded = within(&self.terms, async move { loader.load(&key).await }).await;
                loaded.map_err(|source| self.not_loaded(source))?
            }
            (None, None) => None,
        };
        let Some(value) = loaded else { return Ok(None) };
        let value = map.place.encoded(&map.values, &value)?;
        if replaced {
            let request = map.place.command("HSET")?.arg(field).arg(value.clone());
            map.place.change::<i64>(request).await?;
            return Ok(Some(value));
        }
        let has: Option<Bytes> = map.scripted(&INSERT_IF_ABSENT, [field, value.clone()]).await?;
        Ok(Some(has.unwrap_or(value)))
    }

    fn not_loaded(&self, source: Arc<dyn Error + Send + Sync>) -> BackedError {
        match self.name() {
            Ok(name) => BackedError::NotLoaded { name, source },
            Err(invalid) => ObjectError::into(invalid),
        }
    }
}
