//! Changes of many keys, a chunk at a time: first in the map, then in the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use redgrid_codecs::{Decode, Encode};
use redgrid_core::object::{ObjectError, chunks};
use redgrid_core::{BackgroundClient, Request, Script};
use tokio::sync::OwnedSemaphorePermit;

use super::key_lock::KeyGuard;
use super::store::{BackedError, Storable};
use super::store_call::StoreWrite;
use super::write_task::{AppliedChange, Change, is_unanswered};
use super::{BackedMap, Inner, Mode};

static SET_MANY: Script<1> = Script::new("map/set_many", include_str!("../scripts/set_many.lua"));
static REMOVE_MANY: Script<1> = Script::new("map/remove_many", include_str!("../scripts/remove_many.lua"));

impl<K: Storable, V: Storable, KC: Encode<K>, VC: Encode<V> + Decode<V>> BackedMap<K, V, KC, VC> {
    /// Sets the values of keys, up to 500 or about 4 MiB at a time. Each chunk is set in the map
    /// and then in the store. After an error some keys may be set.
    ///
    /// If a key occurs twice, its last value counts.
    ///
    /// # Errors
    ///
    /// [`BackedError`] of the chunk that failed. The chunks before it are done; those after it are
    /// not started.
    ///
    /// # Cancel safety
    ///
    /// A chunk that was started is completed in the background, until map and store agree.
    #[doc(alias = "putAll")]
    pub async fn set_many(&self, entries: impl IntoIterator<Item = (K, V)>) -> Result<(), BackedError> {
        let mut changes = BTreeMap::new();
        for (key, value) in entries {
            let (field, bytes) = self.0.map.encode_entry(&key, &value)?;
            changes.insert(field.clone(), (field, key, Some((value, bytes))));
        }
        self.change_many(changes.into_values().collect()).await.map(drop)
    }

    /// Removes keys, up to 500 or about 4 MiB at a time. Each chunk is removed from the map and
    /// then from the store. Returns how many were in the map.
    ///
    /// Keys that are not in the map are removed from the store as well.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BackedMap::set_many`].
    pub async fn remove_many(&self, keys: impl IntoIterator<Item = K>) -> Result<u64, BackedError> {
        let mut changes = BTreeMap::new();
        for key in keys {
            let field = self.0.map.object_ref.encoded(&self.0.map.keys, &key)?;
            changes.insert(field.clone(), (field, key, None));
        }
        self.change_many(changes.into_values().collect()).await
    }

    /// The changes are in the order of their fields. Concurrent calls therefore lock keys in the
    /// same order and cannot deadlock.
    async fn change_many(&self, changes: Vec<Change<K, V>>) -> Result<u64, BackedError> {
        let size = |(field, _, value): &Change<K, V>| field.len() + value.as_ref().map_or(0, |(_, bytes)| bytes.len());
        // A chunk reserves capacity for all its keys at once, so it must not exceed the total
        // capacity.
        let max_chunk = match &self.0.mode {
            Mode::WriteBehind(queue) => queue.capacity(),
            Mode::NoWriter | Mode::WriteThrough(_) => usize::MAX,
        };
        let mut removed = 0;
        for chunk in chunks(&changes, size).flat_map(|part| part.chunks(max_chunk)) {
            let (inner, chunk) = (Arc::clone(&self.0), chunk.to_vec());
            removed +=
                self.run_in_task(|background| async move { inner.change_chunk(&background, chunk).await }).await?;
        }
        Ok(removed)
    }
}

impl<K: Storable, V: Storable, KC: Encode<K>, VC: Encode<V> + Decode<V>> Inner<K, V, KC, VC> {
    async fn change_chunk(&self, background: &BackgroundClient, chunk: Vec<Change<K, V>>) -> Result<u64, BackedError> {
        let name = self.name()?;
        let permits = match &self.mode {
            Mode::WriteBehind(queue) => Some(queue.reserve(&name, chunk.len()).await?),
            Mode::NoWriter | Mode::WriteThrough(_) => None,
        };
        let mut guards = Vec::with_capacity(chunk.len());
        for (field, ..) in &chunk {
            match self.lock_key_unless_closing(background, field).await {
                Ok(guard) => guards.push(guard),
                Err(error) => {
                    join_all(guards.into_iter().map(KeyGuard::release)).await;
                    return Err(error);
                }
            }
        }
        let outcome = self.change_locked(background, &guards, chunk, permits.unwrap_or_default()).await;
        join_all(guards.into_iter().map(KeyGuard::release)).await;
        outcome
    }

    async fn change_locked(
        &self,
        background: &BackgroundClient,
        guards: &[KeyGuard],
        chunk: Vec<Change<K, V>>,
        permits: Vec<OwnedSemaphorePermit>,
    ) -> Result<u64, BackedError> {
        let (removed, previous) = match self.change_map(&chunk).await {
            Err(error) if is_unanswered(&error) => {
                self.resolve_unknown_outcome(background, guards, chunk, permits, &error).await?;
                return Err(error.into());
            }
            changed => changed?,
        };
        if let Mode::WriteBehind(queue) = &self.mode {
            for ((field, key, value), permit) in chunk.into_iter().zip(permits) {
                queue.push(field, key, value.map(|(value, _)| value), permit);
            }
            return Ok(removed);
        }
        let (mut changes, mut applied) = (Vec::new(), Vec::new());
        for ((field, key, value), previous) in chunk.into_iter().zip(previous) {
            let (value, new) = value.unzip();
            changes.push((key, value));
            applied.push((field, AppliedChange { previous, new }));
        }
        self.write_through(background, guards, &StoreWrite::of(changes), applied).await?;
        Ok(removed)
    }

    /// Changes the map. Returns the number of removed keys and, if the change may have to be
    /// undone, the previous values.
    async fn change_map(&self, chunk: &[Change<K, V>]) -> Result<(u64, Vec<Option<Bytes>>), ObjectError> {
        let object_ref = &self.map.object_ref;
        let (_, map) = object_ref.name_and_key()?;
        let sets = chunk.iter().any(|(.., value)| value.is_some());
        let return_previous = matches!(self.mode, Mode::WriteThrough(_));
        let request = match (sets, return_previous) {
            (true, true) => SET_MANY.with([map.clone()]),
            (false, true) => REMOVE_MANY.with([map.clone()]),
            (true, false) => object_ref.command("HSET")?,
            (false, false) => object_ref.command("HDEL")?,
        };
        let args = chunk.iter().flat_map(|(field, _, value)| {
            std::iter::once(field.clone()).chain(value.as_ref().map(|(_, bytes)| bytes.clone()))
        });
        let request = args.fold(request, Request::arg);
        if return_previous {
            let previous: Vec<Option<Bytes>> = object_ref.change(request).await?;
            let removed = if sets { 0 } else { previous.iter().flatten().count() as u64 };
            return Ok((removed, previous));
        }
        let count: u64 = object_ref.change(request).await?;
        Ok((if sets { 0 } else { count }, Vec::new()))
    }
}
