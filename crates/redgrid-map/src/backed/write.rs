//! Changes of single keys: first in the map, then in the store.

use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use redgrid_codecs::{Decode, Encode};
use redgrid_core::BackgroundClient;
use redgrid_core::object::{CasLoop, ObjectError};
use tokio::sync::OwnedSemaphorePermit;

use super::key_lock::KeyGuard;
use super::store::{BackedError, Storable};
use super::store_call::StoreWrite;
use super::write_task::{AppliedChange, is_unanswered};
use super::{BackedMap, Inner, Mode};
use crate::compare::{compare_and_remove, compare_and_set};
use crate::insert::{INSERT, INSERT_IF_ABSENT, REPLACE};
use crate::remove::REMOVE;
use crate::update::Attempt;

/// The result of a change of the map: the reply, and the values before and after it if a value was
/// changed.
type ChangeResult = Result<(Option<Bytes>, Option<AppliedChange>), ObjectError>;

impl<K: Storable, V: Storable, KC: Encode<K>, VC: Encode<V> + Decode<V>> BackedMap<K, V, KC, VC> {
    /// Sets the value of a key in map and store. Returns the previous value in the map.
    ///
    /// The previous value is not loaded from the store.
    ///
    /// # Errors
    ///
    /// [`BackedError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A change that was started is completed in the background, until map and store agree.
    #[doc(alias = "put")]
    pub async fn insert(&self, key: K, value: V) -> Result<Option<V>, BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, bytes) = inner.map.encode_entry(&key, &value)?;
        let new = Some(bytes.clone());
        let change = async move {
            let previous: Option<Bytes> = inner.map.run_script(&INSERT, [field, bytes]).await?;
            Ok((previous.clone(), Some(AppliedChange { previous, new })))
        };
        let previous = self.apply(key.clone(), Some(value), true, change).await?;
        self.decode_reply(&key, previous)
    }

    /// Sets the value of a key in map and store.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BackedMap::insert`].
    #[doc(alias = "fastPut")]
    pub async fn set(&self, key: K, value: V) -> Result<(), BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, bytes) = inner.map.encode_entry(&key, &value)?;
        let new = Some(bytes.clone());
        let change = async move {
            // The previous value is needed for an undo.
            let previous: Option<Bytes> = inner.map.run_script(&INSERT, [field, bytes]).await?;
            Ok((None, Some(AppliedChange { previous, new })))
        };
        self.apply(key, Some(value), true, change).await.map(drop)
    }

    /// Sets the value of a key that is not in the map, in map and store. Otherwise returns the
    /// current value.
    ///
    /// The store is not read: it may already have the key.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BackedMap::insert`].
    #[doc(alias = "putIfAbsent")]
    #[doc(alias = "fastPutIfAbsent")]
    pub async fn insert_if_absent(&self, key: K, value: V) -> Result<Option<V>, BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, bytes) = inner.map.encode_entry(&key, &value)?;
        let new = Some(bytes.clone());
        let change = async move {
            let current: Option<Bytes> = inner.map.run_script(&INSERT_IF_ABSENT, [field, bytes]).await?;
            let applied = current.is_none().then_some(AppliedChange { previous: None, new });
            Ok((current, applied))
        };
        let current = self.apply(key.clone(), Some(value), true, change).await?;
        self.decode_reply(&key, current)
    }

    /// Sets the value of a key that is in the map, in map and store. Returns the previous value.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BackedMap::insert`].
    #[doc(alias = "putIfExists")]
    #[doc(alias = "fastPutIfExists")]
    #[doc(alias = "fastReplace")]
    pub async fn replace(&self, key: K, value: V) -> Result<Option<V>, BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, bytes) = inner.map.encode_entry(&key, &value)?;
        let new = Some(bytes.clone());
        let change = async move {
            let previous: Option<Bytes> = inner.map.run_script(&REPLACE, [field, bytes]).await?;
            let applied = previous.is_some().then(|| AppliedChange { previous: previous.clone(), new });
            Ok((previous, applied))
        };
        let previous = self.apply(key.clone(), Some(value), true, change).await?;
        self.decode_reply(&key, previous)
    }

    /// Sets the value of a key in map and store if its value in the map is `expected`. Returns
    /// whether it was set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BackedMap::insert`].
    #[doc(alias = "replace")]
    pub async fn compare_and_set(&self, key: K, expected: &V, new: V) -> Result<bool, BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, bytes) = inner.map.encode_entry(&key, &new)?;
        let expected = self.0.map.object_ref.encoded(&self.0.map.values, expected)?;
        let change = async move {
            let (_, map) = inner.map.object_ref.name_and_key()?;
            let request = compare_and_set(map, false, [field, expected.clone(), bytes.clone()]);
            let is_set: bool = inner.map.object_ref.change(request).await?;
            Ok(reply_flag(is_set.then_some(AppliedChange { previous: Some(expected), new: Some(bytes) })))
        };
        Ok(self.apply(key, Some(new), true, change).await?.is_some())
    }

    /// Removes a key from map and store if its value in the map is `expected`. Returns whether it
    /// was removed.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BackedMap::insert`].
    pub async fn compare_and_remove(&self, key: K, expected: &V) -> Result<bool, BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, expected) = inner.map.encode_entry(&key, expected)?;
        let change = async move {
            let (_, map) = inner.map.object_ref.name_and_key()?;
            let request = compare_and_remove(map, false, [field, expected.clone()]);
            let is_removed: bool = inner.map.object_ref.change(request).await?;
            Ok(reply_flag(is_removed.then_some(AppliedChange { previous: Some(expected), new: None })))
        };
        Ok(self.apply(key, None, false, change).await?.is_some())
    }

    /// Removes a key from map and store. Returns the removed value of the map.
    ///
    /// A key that is not in the map is removed from the store as well.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BackedMap::insert`].
    #[doc(alias = "fastRemove")]
    pub async fn remove(&self, key: K) -> Result<Option<V>, BackedError> {
        let inner = Arc::clone(&self.0);
        let field = inner.map.object_ref.encoded(&inner.map.keys, &key)?;
        let change = async move {
            let previous: Option<Bytes> = inner.map.run_script(&REMOVE, [field]).await?;
            Ok((previous.clone(), Some(AppliedChange { previous, new: None })))
        };
        let previous = self.apply(key.clone(), None, true, change).await?;
        self.decode_reply(&key, previous)
    }

    /// Replaces the value of a key with the result of `change`, in map and store. Returns the new
    /// value.
    ///
    /// A key that is not in the map is loaded first. `change` receives `None` if the store does not
    /// have it either. If `change` returns `None`, the key is removed. `change` is called again if
    /// another client has changed the value meanwhile.
    ///
    /// # Errors
    ///
    /// As for [`BackedMap::insert`]. [`ObjectError::Contended`] if other clients changed the value
    /// before each attempt, until the time limit of a call.
    ///
    /// # Cancel safety
    ///
    /// As for [`BackedMap::insert`].
    #[doc(alias = "compute")]
    #[doc(alias = "computeIfAbsent")]
    #[doc(alias = "computeIfPresent")]
    #[doc(alias = "merge")]
    pub async fn alter(
        &self,
        key: K,
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>, BackedError> {
        let name = self.0.name()?;
        let map = &self.0.map;
        let field = map.object_ref.encoded(&map.keys, &key)?;
        let mut cas_loop = CasLoop::new(map.object_ref.client(), &name);
        loop {
            self.get(&key).await?;
            let previous = map.read_stored(&cas_loop, &field).await?;
            let new = change(map.decode_value(&field, previous.clone())?);
            if previous.is_none() && new.is_none() {
                return Ok(None);
            }
            let (inner, new_value) = (Arc::clone(&self.0), new.clone());
            let new_bytes = new.as_ref().map(|new| map.object_ref.encoded(&map.values, new)).transpose()?;
            let owned_field = field.clone();
            let attempt = async move {
                let cas_loop = CasLoop::new(inner.map.object_ref.client(), &inner.name()?);
                match inner.map.try_replace(&cas_loop, &owned_field, previous.clone(), new_value.as_ref()).await? {
                    Attempt::Done => Ok(reply_flag(Some(AppliedChange { previous, new: new_bytes }))),
                    Attempt::Conflict(_) => Ok(reply_flag(None)),
                }
            };
            if self.apply(key.clone(), new.clone(), new.is_some(), attempt).await?.is_some() {
                return Ok(new);
            }
            cas_loop.lost().await?;
        }
    }

    fn decode_reply(&self, key: &K, bytes: Option<Bytes>) -> Result<Option<V>, BackedError> {
        let field = self.0.map.object_ref.encoded(&self.0.map.keys, key)?;
        Ok(self.0.map.decode_value(&field, bytes)?)
    }

    /// Changes a key in the map, and then in the store. The change continues if the caller is
    /// dropped.
    ///
    /// `verifiable` states whether the value in the map shows, after a lost reply, that the change
    /// was made.
    async fn apply(
        &self,
        key: K,
        value: Option<V>,
        verifiable: bool,
        change: impl Future<Output = ChangeResult> + Send + 'static,
    ) -> Result<Option<Bytes>, BackedError> {
        let inner = Arc::clone(&self.0);
        let field = inner.map.object_ref.encoded(&inner.map.keys, &key)?;
        self.run_in_task(|background| async move {
            let permit = match &inner.mode {
                Mode::WriteBehind(queue) => queue.reserve(&inner.name()?, 1).await?.pop(),
                Mode::NoWriter | Mode::WriteThrough(_) => None,
            };
            let guard = inner.lock_key_unless_closing(&background, &field).await?;
            let outcome =
                inner.apply_locked(&background, &guard, (field, key, value), verifiable, permit, change).await;
            guard.release().await;
            outcome
        })
        .await
    }
}

impl<K: Storable, V: Storable, KC: Encode<K>, VC: Encode<V> + Decode<V>> Inner<K, V, KC, VC> {
    async fn apply_locked(
        &self,
        background: &BackgroundClient,
        guard: &KeyGuard,
        (field, key, value): (Bytes, K, Option<V>),
        verifiable: bool,
        permit: Option<OwnedSemaphorePermit>,
        change: impl Future<Output = ChangeResult> + Send,
    ) -> Result<Option<Bytes>, BackedError> {
        let guards = slice::from_ref(guard);
        let (reply, applied) = match change.await {
            Err(error) if verifiable && is_unanswered(&error) => {
                let encode =
                    |value: V| Ok::<_, ObjectError>((self.map.object_ref.encoded(&self.map.values, &value)?, value));
                let value = value.map(encode).transpose()?.map(|(bytes, value)| (value, bytes));
                let permits = permit.into_iter().collect();
                let changes = vec![(field, key, value)];
                self.resolve_unknown_outcome(background, guards, changes, permits, &error).await?;
                return Err(error.into());
            }
            changed => changed?,
        };
        let Some(applied) = applied else { return Ok(reply) };
        match (&self.mode, permit) {
            (Mode::WriteBehind(queue), Some(permit)) => queue.push(field, key, value, permit),
            _ => {
                let write = StoreWrite::of([(key, value)]);
                self.write_through(background, guards, &write, vec![(field, applied)]).await?;
            }
        }
        Ok(reply)
    }
}

/// Returns a reply that is `Some` if the change was made.
fn reply_flag(applied: Option<AppliedChange>) -> (Option<Bytes>, Option<AppliedChange>) {
    (applied.is_some().then(Bytes::new), applied)
}
