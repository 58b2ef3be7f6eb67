//! Changing many keys, a part at a time: in the map, and then in the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use redgrid_codecs::{Decode, Encode};
use redgrid_core::object::{ObjectError, parts};
use redgrid_core::{BackgroundClient, Request, Script};
use tokio::sync::OwnedSemaphorePermit;

use super::carry::{Change, Made, is_unanswered};
use super::store::BackedError;
use super::turn::{Batch, Turn};
use super::{BackedMap, Inner, Mode};

static SET_MANY: Script<1> = Script::new("map/set_many", include_str!("../scripts/set_many.lua"));
static REMOVE_MANY: Script<1> = Script::new("map/remove_many", include_str!("../scripts/remove_many.lua"));

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
        let size = |(field, _, value): &Change<K, V>| field.len() + value.as_ref().map_or(0, |(_, bytes)| bytes.len());
        // A part takes room for all its keys at once, so it may not be larger than that.
        let most = match &self.0.mode {
            Mode::Behind(queue) => queue.capacity(),
            Mode::Kept | Mode::Through(_) => usize::MAX,
        };
        let mut removed = 0;
        for part in parts(&changes, size).flat_map(|part| part.chunks(most)) {
            let (inner, part) = (Arc::clone(&self.0), part.to_vec());
            removed += self.carried(|attendant| async move { inner.change_part(&attendant, part).await }).await?;
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
    async fn change_part(&self, attendant: &BackgroundClient, part: Vec<Change<K, V>>) -> Result<u64, BackedError> {
        let name = self.name()?;
        let rooms = match &self.mode {
            Mode::Behind(queue) => Some(queue.rooms(&name, part.len()).await?),
            Mode::Kept | Mode::Through(_) => None,
        };
        let mut turns = Vec::with_capacity(part.len());
        for (field, ..) in &part {
            match self.turn_unless_closed(attendant, field).await {
                Ok(turn) => turns.push(turn),
                Err(error) => {
                    futures_util::future::join_all(turns.into_iter().map(super::turn::Turn::over)).await;
                    return Err(error);
                }
            }
        }
        let outcome = self.change_in_turn(attendant, &turns, part, rooms.unwrap_or_default()).await;
        futures_util::future::join_all(turns.into_iter().map(super::turn::Turn::over)).await;
        outcome
    }

    async fn change_in_turn(
        &self,
        attendant: &BackgroundClient,
        turns: &[Turn],
        part: Vec<Change<K, V>>,
        rooms: Vec<OwnedSemaphorePermit>,
    ) -> Result<u64, BackedError> {
        let (removed, was) = match self.change_in_map(&part).await {
            Err(error) if is_unanswered(&error) => {
                self.settled(attendant, turns, part, rooms, &error).await?;
                return Err(error.into());
            }
            changed => changed?,
        };
        if let Mode::Behind(queue) = &self.mode {
            for ((field, key, value), room) in part.into_iter().zip(rooms) {
                queue.push(field, key, value.map(|(value, _)| value), room);
            }
            return Ok(removed);
        }
        let (mut changes, mut made) = (Vec::new(), Vec::new());
        for ((field, key, value), was) in part.into_iter().zip(was) {
            let (value, new) = value.unzip();
            changes.push((key, value));
            made.push((field, Made { was, new }));
        }
        self.through(attendant, turns, &Batch::of(changes), made).await?;
        Ok(removed)
    }

    /// Tells how many were removed, and, where there may be a way back, what they had.
    async fn change_in_map(&self, part: &[Change<K, V>]) -> Result<(u64, Vec<Option<Bytes>>), ObjectError> {
        let place = &self.map.place;
        let (_, map) = place.named()?;
        let sets = part.iter().any(|(.., value)| value.is_some());
        let told = matches!(self.mode, Mode::Through(_));
        let request = match (sets, told) {
            (true, true) => SET_MANY.with([map.clone()]),
            (false, true) => REMOVE_MANY.with([map.clone()]),
            (true, false) => place.command("HSET")?,
            (false, false) => place.command("HDEL")?,
        };
        let args = part.iter().flat_map(|(field, _, value)| {
            std::iter::once(field.clone()).chain(value.as_ref().map(|(_, bytes)| bytes.clone()))
        });
        let request = args.fold(request, Request::arg);
        if told {
            let was: Vec<Option<Bytes>> = place.change(request).await?;
            let removed = if sets { 0 } else { was.iter().flatten().count() as u64 };
            return Ok((removed, was));
        }
        let count: u64 = place.change(request).await?;
        Ok((if sets { 0 } else { count }, Vec::new()))
    }
}
