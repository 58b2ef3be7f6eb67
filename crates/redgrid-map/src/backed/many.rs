//! Changing many keys, a part at a time: in the map, and then in the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use redgrid_codecs::{Decode, Encode};
use redgrid_core::Request;
use redgrid_core::object::parts;

use super::store::BackedError;
use super::turn::Batch;
use super::write::{Made, done};
use super::{BackedMap, Inner, Mode};

/// A key as its codec writes it, itself, and what it is to have: its value and the bytes of that.
type Change<K, V> = (Bytes, K, Option<(V, Bytes)>);

impl<K, V, KC, VC> BackedMap<K, V, KC, VC>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    KC: Encode<K>,
    VC: Encode<V> + Decode<V>,
{
    /// Gives many keys values, 500 of them or about 4 MiB at a time, each part in the map and then in the store: after an error some
    /// may have theirs. Of a key that comes twice the last counts.
    ///
    /// # Errors
    ///
    /// [`BackedError`] says what is true of the part that failed; those before it are done, those behind it not begun.
    ///
    /// # Cancel safety
    ///
    /// What has begun goes on in the background, until map and store agree.
    #[doc(alias = "putAll")]
    pub async fn set_many(&self, entries: impl IntoIterator<Item = (K, V)>) -> Result<(), BackedError> {
        let mut changes = BTreeMap::new();
        for (key, value) in entries {
            let (field, bytes) = self.0.map.both(&key, &value)?;
            changes.insert(field.clone(), (field, key, Some((value, bytes))));
        }
        self.change_many(changes.into_values().collect()).await.map(drop)
    }

    /// Removes keys, 500 or about 4 MiB at a time, each part in the map and then in the store, in the store also those that the map has not;
    /// tells how many were in the map.
    ///
    /// # Errors
    ///
    /// As [`BackedMap::set_many`].
    ///
    /// # Cancel safety
    ///
    /// As [`BackedMap::set_many`].
    pub async fn remove_many(&self, keys: impl IntoIterator<Item = K>) -> Result<u64, BackedError> {
        let mut changes = BTreeMap::new();
        for key in keys {
            let field = self.0.map.place.encoded(&self.0.map.keys, &key)?;
            changes.insert(field.clone(), (field, key, None));
        }
        self.change_many(changes.into_values().collect()).await
    }

    /// In the order of their fields: two that change many never wait for each other's keys.
    async fn change_many(&self, changes: Vec<Change<K, V>>) -> Result<u64, BackedError> {
        let name = self.0.name()?;
        let size = |(field, _, value): &Change<K, V>| field.len() + value.as_ref().map_or(0, |(_, bytes)| bytes.len());
        // A part takes room for all its keys at once, so it may not be larger than that.
        let most = match &self.0.mode {
            Mode::Behind(queue) => queue.capacity(),
            Mode::Kept | Mode::Through(_) => usize::MAX,
        };
        let mut removed = 0;
        for part in parts(&changes, size).flat_map(|part| part.chunks(most)) {
            let (inner, part) = (Arc::clone(&self.0), part.to_vec());
            let task = tokio::spawn(async move { inner.change_part(part).await });
            removed += done(&name, task).await?;
        }
        Ok(removed)
    }
}

impl<K, V, KC, VC> Inner<K, V, KC, VC>
where
    K: Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    KC: Encode<K>,
    VC: Encode<V> + Decode<V>,
{
    async fn change_part(&self, part: Vec<Change<K, V>>) -> Result<u64, BackedError> {
        let name = self.name()?;
        let rooms = match &self.mode {
            Mode::Behind(queue) => Some(queue.rooms(&name, part.len()).await?),
            Mode::Kept | Mode::Through(_) => None,
        };
        let mut turns = Vec::with_capacity(part.len());
        for (field, ..) in &part {
            match self.turn(field).await {
                Ok(turn) => turns.push(turn),
                Err(error) => {
                    futures_util::future::join_all(turns.into_iter().map(super::turn::Turn::over)).await;
                    return Err(error);
                }
            }
        }
        let outcome = self.change_in_turn(part, rooms).await;
        futures_util::future::join_all(turns.into_iter().map(super::turn::Turn::over)).await;
        outcome
    }

    async fn change_in_turn(
        &self,
        part: Vec<Change<K, V>>,
        rooms: Option<Vec<tokio::sync::OwnedSemaphorePermit>>,
    ) -> Result<u64, BackedError> {
        let place = &self.map.place;
        let fields = || -> Vec<Bytes> { part.iter().map(|(field, ..)| field.clone()).collect() };
        // What they have, for the way back: others may change it before it is changed here, and then it stays as it is here.
        let was: Vec<Option<Bytes>> =
            place.ask(fields().into_iter().fold(place.command("HMGET")?, Request::arg)).await?;
        let mut set = place.command("HSET")?;
        let mut sets = false;
        for (field, _, value) in &part {
            if let Some((_, bytes)) = value {
                set = set.arg(field.clone()).arg(bytes.clone());
                sets = true;
            }
        }
        let removed = match sets {
            true => place.change::<i64>(set).await.map(|_| 0)?,
            false => place.change::<u64>(fields().into_iter().fold(place.command("HDEL")?, Request::arg)).await?,
        };
        if let (Mode::Behind(queue), Some(rooms)) = (&self.mode, rooms) {
            for ((field, key, value), room) in part.into_iter().zip(rooms) {
                queue.push(field, key, value.map(|(value, _)| value), room);
            }
            return Ok(removed);
        }
        let (mut written, mut gone, mut made) = (Vec::new(), Vec::new(), Vec::new());
        for ((field, key, value), was) in part.into_iter().zip(was) {
            let new = match value {
                Some((value, bytes)) => {
                    written.push((key, value));
                    Some(bytes)
                }
                None => {
                    gone.push(key);
                    None
                }
            };
            made.push((field, Made { was, new }));
        }
        let batch = if sets { Batch::Write(Arc::new(written)) } else { Batch::Delete(Arc::new(gone)) };
        self.through(&batch, &made).await?;
        Ok(removed)
    }
}
