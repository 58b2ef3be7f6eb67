//! Computes the value of a key under its lock, as Redisson does.

use std::time::Duration;

use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::Holder;
use redgrid_core::author::ClientExt;
use redgrid_core::object::{CasLoop, ObjectError};
use redgrid_locks::{AcquireError, LockLost};

use crate::map::Map;
use crate::update::Attempt;

/// Maximum number of attempts. Writers without the lock may change the value each time: without
/// this limit the function could be called forever.
const MAX_ATTEMPTS: u32 = 100;

/// Reason why no value was computed, or why the outcome is unknown.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ComputeError {
    /// The key's lock was not acquired. Nothing is changed.
    #[error("cannot lock the key: {0}")]
    NotLocked(#[from] AcquireError),
    /// The key's lock was lost before the value was written. Nothing is changed.
    #[error("the lock of the key was lost while its value was computed: {0}")]
    Lost(#[from] LockLost),
    /// A request to the map failed. The contained error states whether anything may have changed.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// Computes values under the locks of their keys; created by [`Map::locked`].
///
/// Use it for a function that must not run concurrently: one that waits, is expensive or has side
/// effects. It costs an acquire and a release more than [`Map::alter`]. Calls of its methods, and
/// of Redisson's `compute`, `computeIfAbsent`, `computeIfPresent` and `merge`, exclude each other.
///
/// Writers without the lock are not blocked, and their changes are not overwritten. If one has
/// changed the value, the function is called again with the new value.
#[derive(Debug, Clone)]
#[must_use = "does nothing until one of its methods is awaited"]
pub struct Locked<'m, K, V, KC, VC> {
    map: &'m Map<K, V, KC, VC>,
    timeout: Duration,
    lease: Option<Duration>,
    holder: Option<Holder>,
}

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// Returns a builder that computes values under the locks of their keys.
    ///
    /// It waits for a lock up to `response_timeout × (retries + 1)`, the time limit of a
    /// call, unless [`Locked::timeout`] is set.
    ///
    /// ```no_run
    /// # async fn price_of(product: &str) -> u64 { 1 }
    /// # #[cfg(feature = "json")]
    /// # async fn demo(prices: &redgrid_map::Map<String, u64>) -> Result<(), redgrid_map::ComputeError> {
    /// let compute = || async { Some(price_of("P0001").await) };
    /// let price = prices.locked().compute_if_absent("P0001", compute).await?;
    /// # Ok(()) }
    /// ```
    pub fn locked(&self) -> Locked<'_, K, V, KC, VC> {
        Locked { map: self, timeout: self.object_ref.client().patience(), lease: None, holder: None }
    }
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> Locked<'_, K, V, KC, VC> {
    /// Sets the longest wait for the key's lock.
    pub fn timeout(self, timeout: Duration) -> Self {
        Locked { timeout, ..self }
    }

    /// Sets a lease for the key's lock, without renewal. By default the lock is renewed while the
    /// function runs.
    pub fn lease(self, lease: Duration) -> Self {
        Locked { lease: Some(lease), ..self }
    }

    /// Sets the holder, which may already hold the key's lock. Without it, a caller that holds the
    /// lock would wait for itself.
    pub fn holder(self, holder: &Holder) -> Self {
        Locked { holder: Some(holder.clone()), ..self }
    }

    /// Replaces the value of a key with the result of `change`. Returns the new value.
    ///
    /// `change` receives `None` if the key is not in the map. If it returns `None`, the key is
    /// removed.
    ///
    /// # Errors
    ///
    /// [`ComputeError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the function has completed, nothing is changed and the lock
    /// is released. A request that was already sent is executed.
    ///
    /// A future that holds the lock and is no longer polled keeps the lock. [`Locked::lease`]
    /// bounds that time.
    pub async fn compute<Q: ?Sized, F, R>(self, key: &Q, mut change: F) -> Result<Option<V>, ComputeError>
    where
        F: FnMut(Option<V>) -> R,
        R: Future<Output = Option<V>>,
        KC: EncodesFor<K, Q>,
    {
        let acquire = self.map.lock(key)?.acquire().timeout(self.timeout);
        let acquire = self.lease.into_iter().fold(acquire, |acquire, lease| acquire.lease(lease));
        let guard = self.holder.iter().fold(acquire, |acquire, holder| acquire.holder(holder)).await?;
        let (name, _) = self.map.object_ref.name_and_key()?;
        let field = self.map.object_ref.encoded(&self.map.keys, key)?;
        let mut known = None;
        let mut attempts = 0;
        // Each attempt has the whole time limit of a call: the function may take longer than that.
        let computed = loop {
            let cas_loop = || CasLoop::new(self.map.object_ref.client(), name);
            let previous = match known.take() {
                Some(previous) => previous,
                None => self.map.read_stored(&cas_loop(), &field).await?,
            };
            let new = guard.run(change(self.map.decode_value(&field, previous.clone())?)).await?;
            match self.map.try_replace(&cas_loop(), &field, previous, new.as_ref()).await? {
                Attempt::Done => break new,
                Attempt::Conflict(current) => known = current,
            }
            attempts += 1;
            if attempts == MAX_ATTEMPTS {
                return Err(ObjectError::Contended { name: name.clone(), times: attempts }.into());
            }
        };
        // The write was a compare-and-set, so it is valid even if the lock has been lost.
        let _ = guard.release().await;
        Ok(computed)
    }

    /// Sets a key that is not in the map to the result of `make`. Returns the new or current value.
    ///
    /// If `make` returns `None`, nothing is set.
    ///
    /// # Errors
    ///
    /// [`ComputeError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// As for [`Locked::compute`].
    #[doc(alias = "computeIfAbsent")]
    pub async fn compute_if_absent<Q: ?Sized, F, R>(self, key: &Q, mut make: F) -> Result<Option<V>, ComputeError>
    where
        F: FnMut() -> R,
        R: Future<Output = Option<V>>,
        KC: EncodesFor<K, Q>,
    {
        let (name, _) = self.map.object_ref.name_and_key()?;
        let field = self.map.object_ref.encoded(&self.map.keys, key)?;
        // Read from the primary: a replica may not have the value yet, or may still have a removed
        // one.
        let current = self.map.read_stored(&CasLoop::new(self.map.object_ref.client(), name), &field).await?;
        if let Some(value) = self.map.decode_value(&field, current)? {
            return Ok(Some(value));
        }
        let change = |current: Option<V>| {
            let future = current.is_none().then(&mut make);
            async move {
                match future {
                    Some(future) => future.await,
                    None => current,
                }
            }
        };
        self.compute(key, change).await
    }

    /// Replaces the value of a key that is in the map with the result of `change`. Returns the new
    /// value.
    ///
    /// If `change` returns `None`, the key is removed.
    ///
    /// # Errors
    ///
    /// [`ComputeError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// As for [`Locked::compute`].
    #[doc(alias = "computeIfPresent")]
    pub async fn compute_if_present<Q: ?Sized, F, R>(self, key: &Q, mut change: F) -> Result<Option<V>, ComputeError>
    where
        F: FnMut(V) -> R,
        R: Future<Output = Option<V>>,
        KC: EncodesFor<K, Q>,
    {
        let change = |current: Option<V>| {
            let changed = current.map(&mut change);
            async move {
                match changed {
                    Some(changed) => changed.await,
                    None => None,
                }
            }
        };
        self.compute(key, change).await
    }

    /// Sets a key to `value`, or, if it is in the map, to the result of `combine`. Returns the new
    /// value.
    ///
    /// `combine` receives the current value and `value`. If it returns `None`, the key is removed.
    ///
    /// # Errors
    ///
    /// [`ComputeError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// As for [`Locked::compute`].
    pub async fn merge<Q: ?Sized, F, R>(self, key: &Q, value: &V, mut combine: F) -> Result<Option<V>, ComputeError>
    where
        V: Clone,
        F: FnMut(V, V) -> R,
        R: Future<Output = Option<V>>,
        KC: EncodesFor<K, Q>,
    {
        let change = |current: Option<V>| {
            let value = value.clone();
            let combined = match current {
                Some(current) => Ok(combine(current, value)),
                None => Err(value),
            };
            async move {
                match combined {
                    Ok(combined) => combined.await,
                    Err(value) => Some(value),
                }
            }
        };
        self.compute(key, change).await
    }
}
