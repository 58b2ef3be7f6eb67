//! Computing the value of a key under its lock, as Redisson does.

use std::borrow::Borrow;
use std::time::Duration;

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Holder;
use redgrid_core::object::{ObjectError, Rounds};
use redgrid_locks::{AcquireError, LockLost};

use crate::map::Map;
use crate::update::Step;

/// How often others who have no lock may be quicker: beyond it the function would go on for ever.
const ROUNDS: u32 = 100;

/// Why nothing was computed, or its outcome is not known.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ComputeError {
    /// The key's lock was not to be had. Nothing is changed.
    #[error("the lock of the key was not acquired")]
    NotLocked(#[from] AcquireError),
    /// The key's lock was lost meanwhile. Nothing is changed.
    #[error("the lock of the key was lost while its value was computed")]
    Lost(#[from] LockLost),
    /// The map was not read or changed; it says what is true.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// Computes values under the locks of their keys; made by [`Map::locked`].
///
/// It costs an acquire and a release more than [`Map::alter`], and is for what is to run once while nobody else computes: a
/// function that waits for something, costs much, or has effects of its own. It and Redisson's `compute`, `computeIfAbsent`,
/// `computeIfPresent` and `merge` exclude each other. Who changes the map without the lock is not kept out, and not overwritten
/// either: where that has happened, the function is called anew with what is there.
#[derive(Debug, Clone)]
#[must_use = "nothing is computed yet"]
pub struct Locked<'m, K, V, KC, VC> {
    map: &'m Map<K, V, KC, VC>,
    wait: Duration,
    lease: Option<Duration>,
    holder: Option<Holder>,
}

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// What computes under the locks of keys. Waits for them as long as a call may take, [`Client::patience`](crate::Client::patience), unless
    /// [`Locked::timeout`] says otherwise.
    ///
    /// ```no_run
    /// # async fn price_of(product: &str) -> u64 { 1 }
    /// # #[cfg(feature = "json")]
    /// # async fn demo(prices: &redgrid_map::Map<String, u64>) -> Result<(), redgrid_map::ComputeError> {
    /// let price = prices.locked().compute_if_absent("P0001", || async { Some(price_of("P0001").await) }).await?;
    /// # Ok(()) }
    /// ```
    pub fn locked(&self) -> Locked<'_, K, V, KC, VC> {
        Locked { map: self, wait: self.place.client().patience(), lease: None, holder: None }
    }
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> Locked<'_, K, V, KC, VC> {
    /// Waits at most this long for others who have the key's lock.
    pub fn timeout(self, wait: Duration) -> Self {
        Locked { wait, ..self }
    }

    /// Holds the key's lock for so long at most, without renewal; else it is renewed while the function runs.
    pub fn lease(self, lease: Duration) -> Self {
        Locked { lease: Some(lease), ..self }
    }

    /// Computes as this holder, who may have the key's lock already. Without it, whoever has the lock waits for himself.
    pub fn holder(self, holder: &Holder) -> Self {
        Locked { holder: Some(holder.clone()), ..self }
    }

    /// Replaces the key's value, or its absence, by what `change` makes of it: `None` removes it. Tells what it is then.
    ///
    /// # Errors
    ///
    /// [`ComputeError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropped before the function is done, nothing is changed and the lock goes back; what has left later is carried out.
    /// A future that is kept and not polled while it has the lock keeps the key's lock: [`Locked::lease`] bounds that.
    pub async fn compute<Q: ?Sized, F, R>(self, key: &Q, mut change: F) -> Result<Option<V>, ComputeError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        F: FnMut(Option<V>) -> R,
        R: Future<Output = Option<V>>,
    {
        let acquire = self.map.lock(key)?.acquire().timeout(self.wait);
        let acquire = self.lease.into_iter().fold(acquire, |acquire, lease| acquire.lease(lease));
        let guard = self.holder.iter().fold(acquire, |acquire, holder| acquire.holder(holder)).await?;
        let (name, _) = self.map.place.named()?;
        let field = self.map.place.encoded(&self.map.keys, key)?;
        let (mut seen, mut times) = (None, 0);
        // Each round has the patience of a call: the function may take longer than one.
        let computed = loop {
            let rounds = || Rounds::of(self.map.place.client(), name);
            let was = match seen.take() {
                Some(was) => was,
                None => self.map.stored(&rounds(), &field).await?,
            };
            let new = guard.run(change(self.map.value(&field, was.clone())?)).await?;
            match self.map.step(&rounds(), &field, was, new.as_ref()).await? {
                Step::Done => break new,
                Step::Other(told) => seen = told,
            }
            times += 1;
            if times == ROUNDS {
                return Err(ObjectError::Contended { name: name.clone(), times }.into());
            }
        };
        // What was written was compared with what was read: it stands, whatever becomes of the lock.
        let _ = guard.release().await;
        Ok(computed)
    }

    /// Gives the key what `make` makes, if it is not in the map: `None` leaves it so. Tells what it is then.
    ///
    /// # Errors
    ///
    /// [`ComputeError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`Locked::compute`].
    #[doc(alias = "computeIfAbsent")]
    pub async fn compute_if_absent<Q: ?Sized, F, R>(self, key: &Q, mut make: F) -> Result<Option<V>, ComputeError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        F: FnMut() -> R,
        R: Future<Output = Option<V>>,
    {
        let (name, _) = self.map.place.named()?;
        let field = self.map.place.encoded(&self.map.keys, key)?;
        // From the primary: a replica may have it not yet, or still.
        let has = self.map.stored(&Rounds::of(self.map.place.client(), name), &field).await?;
        if let Some(value) = self.map.value(&field, has)? {
            return Ok(Some(value));
        }
        let change = |has: Option<V>| {
            let made = has.is_none().then(&mut make);
            async move {
                match made {
                    Some(made) => made.await,
                    None => has,
                }
            }
        };
        self.compute(key, change).await
    }

    /// Replaces the key's value, if it is in the map, by what `change` makes of it: `None` removes it. Tells what it is then.
    ///
    /// # Errors
    ///
    /// [`ComputeError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`Locked::compute`].
    #[doc(alias = "computeIfPresent")]
    pub async fn compute_if_present<Q: ?Sized, F, R>(self, key: &Q, mut change: F) -> Result<Option<V>, ComputeError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        F: FnMut(V) -> R,
        R: Future<Output = Option<V>>,
    {
        let change = |has: Option<V>| {
            let changing = has.map(&mut change);
            async move {
                match changing {
                    Some(changing) => changing.await,
                    None => None,
                }
            }
        };
        self.compute(key, change).await
    }

    /// Gives the key `value`, or, where it is in the map, what `combine` makes of what it has and `value`: `None` removes it. Tells
    /// what it is then.
    ///
    /// # Errors
    ///
    /// [`ComputeError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`Locked::compute`].
    pub async fn merge<Q: ?Sized, F, R>(self, key: &Q, value: &V, mut combine: F) -> Result<Option<V>, ComputeError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        V: Clone,
        F: FnMut(V, V) -> R,
        R: Future<Output = Option<V>>,
    {
        let change = |has: Option<V>| {
            let value = value.clone();
            let combined = match has {
                Some(has) => Ok(combine(has, value)),
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
