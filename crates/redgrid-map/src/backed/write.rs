//! Changing a key: in the map, and then in the store.

use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use redgrid_codecs::{Decode, Encode};
use redgrid_core::BackgroundClient;
use redgrid_core::object::{ObjectError, Rounds};
use tokio::sync::OwnedSemaphorePermit;

use super::carry::{Made, is_unanswered};
use super::store::BackedError;
use super::turn::{Batch, Turn};
use super::{BackedMap, Inner, Mode};
use crate::compare::{compare_and_remove, compare_and_set};
use crate::insert::{INSERT, INSERT_IF_ABSENT, REPLACE};
use crate::remove::REMOVE;
use crate::update::Step;

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
        let was = self.changed(key.clone(), Some(value), true, change).await?;
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
        self.changed(key, Some(value), true, change).await.map(drop)
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
        let has = self.changed(key.clone(), Some(value), true, change).await?;
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
        let was = self.changed(key.clone(), Some(value), true, change).await?;
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
        Ok(self.changed(key, Some(new), true, change).await?.is_some())
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
        Ok(self.changed(key, None, false, change).await?.is_some())
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
        let was = self.changed(key.clone(), None, true, change).await?;
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
            if self.changed(key.clone(), new.clone(), new.is_some(), step).await?.is_some() {
                return Ok(new);
            }
            rounds.lost().await?;
        }
    }

    fn told(&self, key: &K, bytes: Option<Bytes>) -> Result<Option<V>, BackedError> {
        let field = self.0.map.place.encoded(&self.0.map.keys, key)?;
        Ok(self.0.map.value(&field, bytes)?)
    }

    /// Makes a change in the map, and then what it made of the key in the store; it goes on whoever goes away. After a lost answer what the
    /// map has tells whether it was made, where that is a `sign`.
    async fn changed(
        &self,
        key: K,
        value: Option<V>,
        sign: bool,
        change: impl Future<Output = Changed> + Send + 'static,
    ) -> Result<Option<Bytes>, BackedError> {
        let inner = Arc::clone(&self.0);
        let field = inner.map.place.encoded(&inner.map.keys, &key)?;
        self.carried(|attendant| async move {
            let room = match &inner.mode {
                Mode::Behind(queue) => queue.rooms(&inner.name()?, 1).await?.pop(),
                Mode::Kept | Mode::Through(_) => None,
            };
            let turn = inner.turn_unless_closed(&attendant, &field).await?;
            let outcome = inner.changed_in_turn(&attendant, &turn, (field, key, value), sign, room, change).await;
            turn.over().await;
            outcome
        })
        .await
    }
}

impl<K, V, KC, VC> Inner<K, V, KC, VC>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    KC: Encode<K>,
    VC: Encode<V> + Decode<V>,
{
    async fn changed_in_turn(
        &self,
        attendant: &BackgroundClient,
        turn: &Turn,
        (field, key, value): (Bytes, K, Option<V>),
        sign: bool,
        room: Option<OwnedSemaphorePermit>,
        change: impl Future<Output = Changed> + Send,
    ) -> Result<Option<Bytes>, BackedError> {
        let turns = slice::from_ref(turn);
        let (answer, made) = match change.await {
            Err(error) if sign && is_unanswered(&error) => {
                let encoded =
                    |value: V| Ok::<_, ObjectError>((self.map.place.encoded(&self.map.values, &value)?, value));
                let value = value.map(encoded).transpose()?.map(|(bytes, value)| (value, bytes));
                let rooms = room.into_iter().collect();
                self.settled(attendant, turns, vec![(field, key, value)], rooms, &error).await?;
                return Err(error.into());
            }
            changed => changed?,
        };
        let Some(made) = made else { return Ok(answer) };
        match (&self.mode, room) {
            (Mode::Behind(queue), Some(room)) => queue.push(field, key, value, room),
            _ => self.through(attendant, turns, &Batch::of([(key, value)]), vec![(field, made)]).await?,
        }
        Ok(answer)
    }
}

/// An answer that says whether it was done.
fn flagged(made: Option<Made>) -> (Option<Bytes>, Option<Made>) {
    (made.is_some().then(Bytes::new), made)
}
