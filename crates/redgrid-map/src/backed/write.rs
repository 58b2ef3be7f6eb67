//! Changing a key: in the map, and then in the store.

use std::sync::Arc;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Name;
use redgrid_core::object::{ObjectError, Rounds};
use tokio::task::JoinHandle;

use super::store::BackedError;
use super::turn::Batch;
use super::{BackedMap, Inner, Mode};
use crate::compare::{compare_and_remove, compare_and_set};
use crate::insert::{INSERT, INSERT_IF_ABSENT, REPLACE};
use crate::remove::REMOVE;
use crate::update::Step;

/// What a change made of a key in the map.
pub(super) struct Made {
    pub(super) was: Option<Bytes>,
    pub(super) new: Option<Bytes>,
}

/// A change in the map: its answer, and what it made of the key where it made anything.
type Changed = Result<(Option<Bytes>, Option<Made>), ObjectError>;

impl<K, V, KC, VC> BackedMap<K, V, KC, VC>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    KC: Encode<K>,
    VC: Encode<V> + Decode<V>,
{
    /// Gives the key a value, in map and store; tells what it had in the map, which is not loaded for that.
    ///
    /// # Errors
    ///
    /// [`BackedError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has begun goes on in the background, until map and store agree.
    #[doc(alias = "put")]
    pub async fn insert(&self, key: K, value: V) -> Result<Option<V>, BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, bytes) = inner.map.both(&key, &value)?;
        let made = Some(bytes.clone());
        let change = async move {
            let was: Option<Bytes> = inner.map.scripted(&INSERT, [field, bytes]).await?;
            Ok((was.clone(), Some(Made { was, new: made })))
        };
        let was = self.changed(key.clone(), Some(value), change).await?;
        self.told(&key, was)
    }

    /// Gives the key a value, in map and store.
    ///
    /// # Errors
    ///
    /// As [`BackedMap::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`BackedMap::insert`].
    #[doc(alias = "fastPut")]
    pub async fn set(&self, key: K, value: V) -> Result<(), BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, bytes) = inner.map.both(&key, &value)?;
        let made = Some(bytes.clone());
        let change = async move {
            // With what it had: so it can be changed back.
            let was: Option<Bytes> = inner.map.scripted(&INSERT, [field, bytes]).await?;
            Ok((None, Some(Made { was, new: made })))
        };
        self.changed(key, Some(value), change).await.map(drop)
    }

    /// Gives the key a value if it is not in the map; else tells what it has. The store is not asked whether it has the key.
    ///
    /// # Errors
    ///
    /// As [`BackedMap::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`BackedMap::insert`].
    #[doc(alias = "putIfAbsent")]
    #[doc(alias = "fastPutIfAbsent")]
    pub async fn insert_if_absent(&self, key: K, value: V) -> Result<Option<V>, BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, bytes) = inner.map.both(&key, &value)?;
        let new = Some(bytes.clone());
        let change = async move {
            let has: Option<Bytes> = inner.map.scripted(&INSERT_IF_ABSENT, [field, bytes]).await?;
            let made = has.is_none().then_some(Made { was: None, new });
            Ok((has, made))
        };
        let has = self.changed(key.clone(), Some(value), change).await?;
        self.told(&key, has)
    }

    /// Gives the key a value if it is in the map; tells what it had.
    ///
    /// # Errors
    ///
    /// As [`BackedMap::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`BackedMap::insert`].
    #[doc(alias = "putIfExists")]
    #[doc(alias = "fastPutIfExists")]
    #[doc(alias = "fastReplace")]
    pub async fn replace(&self, key: K, value: V) -> Result<Option<V>, BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, bytes) = inner.map.both(&key, &value)?;
        let new = Some(bytes.clone());
        let change = async move {
            let was: Option<Bytes> = inner.map.scripted(&REPLACE, [field, bytes]).await?;
            let made = was.is_some().then(|| Made { was: was.clone(), new });
            Ok((was, made))
        };
        let was = self.changed(key.clone(), Some(value), change).await?;
        self.told(&key, was)
    }

    /// Gives the key a value if it has `expected` in the map; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`BackedMap::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`BackedMap::insert`].
    #[doc(alias = "replace")]
    pub async fn compare_and_set(&self, key: K, expected: &V, new: V) -> Result<bool, BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, bytes) = inner.map.both(&key, &new)?;
        let expected = self.0.map.place.encoded(&self.0.map.values, expected)?;
        let change = async move {
            let (_, map) = inner.map.place.named()?;
            let request = compare_and_set(map, false, [field, expected.clone(), bytes.clone()]);
            let done: bool = inner.map.place.change(request).await?;
            Ok(flagged(done.then_some(Made { was: Some(expected), new: Some(bytes) })))
        };
        Ok(self.changed(key, Some(new), change).await?.is_some())
    }

    /// Removes the key if it has `expected` in the map; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`BackedMap::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`BackedMap::insert`].
    pub async fn compare_and_remove(&self, key: K, expected: &V) -> Result<bool, BackedError> {
        let inner = Arc::clone(&self.0);
        let (field, expected) = inner.map.both(&key, expected)?;
        let change = async move {
            let (_, map) = inner.map.place.named()?;
            let done: bool = inner.map.place.change(compare_and_remove(map, false, [field, expected.clone()])).await?;
            Ok(flagged(done.then_some(Made { was: Some(expected), new: None })))
        };
        Ok(self.changed(key, None, change).await?.is_some())
    }

    /// Removes the key, in map and store, in the store also where the map has it not; tells what it had in the map.
    ///
    /// # Errors
    ///
    /// As [`BackedMap::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`BackedMap::insert`].
    #[doc(alias = "fastRemove")]
    pub async fn remove(&self, key: K) -> Result<Option<V>, BackedError> {
        let inner = Arc::clone(&self.0);
        let field = inner.map.place.encoded(&inner.map.keys, &key)?;
        let change = async move {
            let was: Option<Bytes> = inner.map.scripted(&REMOVE, [field]).await?;
            Ok((was.clone(), Some(Made { was, new: None })))
        };
        let was = self.changed(key.clone(), None, change).await?;
        self.told(&key, was)
    }

    /// Replaces the key's value, or its absence, by what `change` makes of it: `None` removes it. It is loaded first where the map has it not.
    /// Tells what it is then. `change` is called anew with each new value.
    ///
    /// # Errors
    ///
    /// As [`BackedMap::insert`]; [`ObjectError::Contended`] when others were quicker for as long as a call may take.
    ///
    /// # Cancel safety
    ///
    /// As [`BackedMap::insert`].
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
        let field = map.place.encoded(&map.keys, &key)?;
        let mut rounds = Rounds::of(map.place.client(), &name);
        loop {
            self.get(&key).await?;
            let was = map.stored(&rounds, &field).await?;
            let new = change(map.value(&field, was.clone())?);
            if was.is_none() && new.is_none() {
                return Ok(None);
            }
            let (inner, told) = (Arc::clone(&self.0), new.clone());
            let (of, bytes) = (field.clone(), new.as_ref().map(|new| map.place.encoded(&map.values, new)).transpose()?);
            let step = async move {
                let rounds = Rounds::of(inner.map.place.client(), &inner.name()?);
                match inner.map.step(&rounds, &of, was.clone(), told.as_ref()).await? {
                    Step::Done => Ok(flagged(Some(Made { was, new: bytes }))),
                    Step::Other(_) => Ok(flagged(None)),
                }
            };
            if self.changed(key.clone(), new.clone(), step).await?.is_some() {
                return Ok(new);
            }
            rounds.lost().await?;
        }
    }

    fn told(&self, key: &K, bytes: Option<Bytes>) -> Result<Option<V>, BackedError> {
        let field = self.0.map.place.encoded(&self.0.map.keys, key)?;
        Ok(self.0.map.value(&field, bytes)?)
    }

    /// Makes a change in the map, and then what it made of the key in the store; in a task, which goes on whoever goes away.
    async fn changed(
        &self,
        key: K,
        value: Option<V>,
        change: impl Future<Output = Changed> + Send + 'static,
    ) -> Result<Option<Bytes>, BackedError> {
        let (inner, name) = (Arc::clone(&self.0), self.0.name()?);
        let field = inner.map.place.encoded(&inner.map.keys, &key)?;
        let task = tokio::spawn(async move {
            let room = match &inner.mode {
                Mode::Behind(queue) => queue.rooms(&name, 1).await?.pop(),
                Mode::Kept | Mode::Through(_) => None,
            };
            let turn = inner.turn(&field).await?;
            let outcome = async {
                let (answer, made) = change.await?;
                let Some(made) = made else { return Ok(answer) };
                match (&inner.mode, room) {
                    (Mode::Behind(queue), Some(room)) => queue.push(field, key, value, room),
                    _ => {
                        let batch = match value {
                            Some(value) => Batch::Write(Arc::new(vec![(key, value)])),
                            None => Batch::Delete(Arc::new(vec![key])),
                        };
                        inner.through(&batch, &[(field, made)]).await?;
                    }
                }
                Ok(answer)
            }
            .await;
            turn.over().await;
            outcome
        });
        done(&self.0.name()?, task).await
    }
}

/// What a task came to that changes map and store. A panic in it, which only a codec can have, goes on in who waits.
pub(super) async fn done<T>(name: &Name, task: JoinHandle<Result<T, BackedError>>) -> Result<T, BackedError> {
    match task.await {
        Ok(done) => done,
        Err(panic) if panic.is_panic() => std::panic::resume_unwind(panic.into_panic()),
        Err(_) => Err(BackedError::Ended { name: name.clone() }),
    }
}

/// An answer that says whether it was done.
fn flagged(made: Option<Made>) -> (Option<Bytes>, Option<Made>) {
    (made.is_some().then(Bytes::new), made)
}

impl<K, V, KC, VC> Inner<K, V, KC, VC>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
    KC: Codec,
    VC: Codec,
{
    /// Writes to the store what was made in the map; where that does not take it, the map is changed back.
    pub(super) async fn through(&self, batch: &Batch<K, V>, made: &[(Bytes, Made)]) -> Result<(), BackedError> {
        let Mode::Through(writer) = &self.mode else { return Ok(()) };
        let (name, attempts) = (self.name()?, self.terms.attempts);
        let Err(source) = batch.stored(&self.terms, writer).await else { return Ok(()) };
        for (field, made) in made {
            if let Err(undo) = self.undone(field, made).await {
                return Err(BackedError::Divided { name, attempts, undo: Arc::new(undo), source });
            }
        }
        Err(BackedError::NotStored { name, attempts, source })
    }

    /// Gives a key what it had before a change, unless others have changed it since.
    async fn undone(&self, field: &Bytes, made: &Made) -> Result<(), ObjectError> {
        let (_, map) = self.map.place.named()?;
        let request = match (made.was.clone(), made.new.clone()) {
            (None, None) => return Ok(()),
            (Some(was), Some(new)) if was == new => return Ok(()),
            (Some(was), Some(new)) => compare_and_set(map, false, [field.clone(), new, was]),
            (None, Some(new)) => compare_and_remove(map, false, [field.clone(), new]),
            (Some(was), None) => self.map.place.command("HSETNX")?.arg(field.clone()).arg(was),
        };
        self.map.place.change::<bool>(request).await.map(drop)
    }
}
