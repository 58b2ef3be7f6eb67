//! The sharded set.

use std::borrow::Borrow;
use std::fmt;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, Raw};
use redgrid_core::object::{ObjectError, Place, Rounds};
use redgrid_core::{Client, Name};
use redgrid_set::Set;

use crate::layout::Kind;
use crate::object::ShardedObject;
use crate::scan::ShardedScan;
use crate::spread::{ByPart, Part, Parts, Spread, by_chance, by_part, in_order};

/// The type, with the codec of one that names none: there is one only with the feature `json`, so that what a set stores never
/// depends on the features that others ask for.
macro_rules! sharded_set {
    ($($default:tt)*) => {
        /// Values of type `T`, each once and in no order, spread over many keys of the servers by a hash of each: with the methods of a [`Set`]
        /// but for those that would have to be one step over all of it, or over several sets.
        ///
        /// Cheap to clone; clones are the same set: make one and clone it. The codec is part of the type, as of a [`Set`].
        #[doc(alias = "RClusteredSet")]
        pub struct ShardedSet<T, C: Codec $($default)*> {
            spread: Spread<Set<T, C>>,
        }
    };
}

#[cfg(feature = "json")]
sharded_set!(= redgrid_codecs::Json);
#[cfg(not(feature = "json"))]
sharded_set!();

impl<T, C: Codec> Part for Set<T, C> {
    type With = C;

    fn kind(_with: &C) -> Kind {
        Kind::Set
    }

    fn new(client: &Client, name: String, with: &C) -> Self {
        Set::<T, Raw>::new(client, name).with_codec(with.clone())
    }
}

impl<T, C: Codec + Default> ShardedSet<T, C> {
    /// The set with this name, divided as it is, or into 16 parts where it is not yet. Making one asks nobody: an invalid name, which one with a hash
    /// tag is here, is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ShardedSet { spread: Spread::new(client, name, C::default()) }
    }
}

impl<T, C: Codec> ShardedSet<T, C> {
    /// The same name with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> ShardedSet<T, D> {
        ShardedSet { spread: self.spread.by(codec) }
    }

    /// Divided into so many parts, a power of two of up to 1,024. Where it is divided into another number already, calls end
    /// [`ObjectError::InvalidArgument`]: what is stored is not divided anew.
    pub fn with_shards(mut self, shards: u32) -> Self {
        self.spread.wish.shards = Some(shards);
        self
    }

    /// What is asked of all parts alike: whether they are there, their lifetime, their deletion.
    pub fn object(&self) -> ShardedObject {
        ShardedObject::of(&self.spread)
    }

    fn encoded<Q: ?Sized>(&self, value: &Q) -> Result<Bytes, ObjectError>
    where
        C: Encode<Q>,
    {
        self.spread.place.encoded(&self.spread.with, value)
    }

    /// The part that has this value, or would have it, as a set of its own.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// It may be said how the set is divided; else nothing is changed.
    pub async fn part_of<Q: ?Sized>(&self, value: &Q) -> Result<Set<T, C>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let bytes = self.encoded(value)?;
        Ok(self.spread.to_change().await?.of(&bytes))
    }

    async fn read_part<Q: ?Sized>(&self, value: &Q) -> Result<Set<T, C>, ObjectError>
    where
        C: Encode<Q>,
    {
        let bytes = self.encoded(value)?;
        Ok(self.spread.to_read().await?.of(&bytes))
    }

    /// Values by the parts that have them.
    fn divided<'a, Q: ?Sized + 'a>(
        &self,
        parts: &Parts<Set<T, C>>,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<ByPart<&'a Q>, ObjectError>
    where
        C: Encode<Q>,
    {
        let part = |value: &'a Q| Ok((parts.layout.part_of(&self.encoded(value)?), value));
        Ok(by_part(values.into_iter().map(part).collect::<Result<Vec<_>, ObjectError>>()?))
    }

    /// How many values it has: the sum of what each part says, not all at one moment.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        let parts = self.spread.to_read().await?;
        self.spread.sum(&parts, parts.every(), |part, ()| async move { part.len().await }).await
    }

    /// Whether it has none.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] where those that answered have none, and some did not.
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedSet::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        let parts = self.spread.to_read().await?;
        Ok(!self.spread.any(&parts, |part, ()| async move { Ok(!part.is_empty().await?) }).await?)
    }

    /// Removes all values, each part's in one step; tells whether there were any. It stays divided as it is.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that may have theirs.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        let (parts, _) = self.spread.to_end().await?;
        let told = self.spread.each(&parts, parts.every(), |part, ()| async move { part.clear().await }).await?;
        Ok(told.into_iter().any(|(_, had_some)| had_some))
    }

    /// Inserts a value; tells whether it is new.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "add")]
    pub async fn insert<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.part_of(value).await?.insert(value).await
    }

    /// Inserts values: the parts that have them are asked at the same time, each for 500 of its values or about 4 MiB at a time. Tells how many are
    /// new.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts into which some values may not be inserted.
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedSet::insert`].
    #[doc(alias = "addAll")]
    #[doc(alias = "addAllCounted")]
    pub async fn insert_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let parts = self.spread.to_change().await?;
        let values = self.divided(&parts, values)?;
        let ask = |part: Set<T, C>, values: Vec<(usize, &'a Q)>| async move {
            part.insert_many(values.into_iter().map(|(_, value)| value)).await
        };
        self.spread.sum(&parts, values, ask).await
    }

    /// Removes a value; tells whether it was in.
    ///
    /// # Errors
    ///
    /// As [`ShardedSet::insert`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedSet::insert`].
    pub async fn remove<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.read_part(value).await?.remove(value).await
    }

    /// Removes values: the parts that have them are asked at the same time, each for 500 of its values or about 4 MiB at a time. Tells how many were
    /// in.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts in which some values may be left.
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedSet::insert`].
    #[doc(alias = "removeAll")]
    #[doc(alias = "removeAllCounted")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let parts = self.spread.to_read().await?;
        let values = self.divided(&parts, values)?;
        let ask = |part: Set<T, C>, values: Vec<(usize, &'a Q)>| async move {
            part.remove_many(values.into_iter().map(|(_, value)| value)).await
        };
        self.spread.sum(&parts, values, ask).await
    }

    /// Whether a value is in.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        self.read_part(value).await?.contains(value).await
    }

    /// Of each value whether it is in, in their order: the parts that have them are asked at the same time.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedSet::contains`].
    #[doc(alias = "containsEach")]
    pub async fn contains_each<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<bool>, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let parts = self.spread.to_read().await?;
        let values = self.divided(&parts, values)?;
        let ask = |part: Set<T, C>, values: Vec<(usize, &'a Q)>| async move {
            let found = part.contains_each(values.iter().map(|(_, value)| *value)).await?;
            Ok(values.into_iter().map(|(at, _)| at).zip(found).collect())
        };
        Ok(in_order(self.spread.each(&parts, values, ask).await?))
    }

    /// Whether all of these are in.
    ///
    /// # Errors
    ///
    /// As [`ShardedSet::contains_each`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedSet::contains`].
    #[doc(alias = "containsAll")]
    pub async fn contains_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        Ok(self.contains_each(values).await?.into_iter().all(|is_in| is_in))
    }
}

impl<T, C: Decode<T>> ShardedSet<T, C> {
    /// All values in one answer of each part: as large as all of them. For large sets there is [`ShardedSet::stream`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readAll")]
    pub async fn read_all(&self) -> Result<Vec<T>, ObjectError> {
        let parts = self.spread.to_read().await?;
        let told = self.spread.each(&parts, parts.every(), |part, ()| async move { part.read_all().await }).await?;
        Ok(told.into_iter().flat_map(|(_, values)| values).collect())
    }

    /// A value by chance, which stays; `None` where there is none. All parts are asked how many they have, and then the one that chance falls on.
    ///
    /// # Errors
    ///
    /// As [`ShardedSet::read_all`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedSet::read_all`].
    pub async fn random(&self) -> Result<Option<T>, ObjectError> {
        Ok(self.random_many(1).await?.pop())
    }

    /// Some values by chance, each once: `count` of them, or all where there are fewer; fewer also where some are removed while it is asked. They
    /// stay.
    ///
    /// # Errors
    ///
    /// As [`ShardedSet::read_all`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedSet::read_all`].
    #[doc(alias = "random")]
    pub async fn random_many(&self, count: u32) -> Result<Vec<T>, ObjectError> {
        let parts = self.spread.to_read().await?;
        let has = self.spread.each(&parts, parts.every(), |part, ()| async move { part.len().await }).await?;
        let ask = |part: Set<T, C>, count| async move { part.random_many(count).await };
        let told = self.spread.each(&parts, by_chance(has, count), ask).await?;
        Ok(told.into_iter().flat_map(|(_, values)| values).collect())
    }

    /// Removes a value by chance, and tells it; `None` where all parts were found empty. Where its answer is lost the value is gone.
    ///
    /// The primaries of all parts are asked how many they have, and then the one that chance falls on; anew where others were quicker.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] where those that answered are empty, and some did not; [`ObjectError::Contended`] where others were quicker until the
    /// time of a call was over. Else [`ObjectError`] says what is true then; the value is removed also where it can not be decoded.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it: then the value is nobody's.
    #[doc(alias = "removeRandom")]
    pub async fn pop(&self) -> Result<Option<T>, ObjectError> {
        let parts = self.spread.to_read().await?;
        let place = &self.spread.place;
        let name = place.named()?.0;
        let mut rounds = Rounds::of(place.client(), name);
        // By the primaries: what a replica says may be long over.
        let len = |part: Set<T, C>, ()| async move {
            let object = part.object();
            let part = Place::new(place.client(), object.name().map_or("", Name::as_str));
            part.ask::<u64>(part.command("SCARD")?).await
        };
        loop {
            let (mut has, mut failed) = (Vec::new(), Vec::new());
            for (number, told) in self.spread.settled(&parts, parts.every(), len).await {
                match told {
                    Ok(len) => has.push((number, len)),
                    Err(error) => failed.push((number, error)),
                }
            }
            let Some((part, _)) = by_chance(has, 1).pop() else {
                return ObjectError::of_shards(name, failed).map_or(Ok(None), Err);
            };
            if let Some(value) = parts.all[part as usize].pop().await? {
                return Ok(Some(value));
            }
            rounds.lost().await?;
        }
    }
}

impl<T: Send + 'static, C: Decode<T>> ShardedSet<T, C> {
    /// All values, as a stream, in no order.
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> ShardedScan<T> {
        ShardedScan::of(&self.spread, |part| part.stream())
    }
}

impl<T, C: Codec> Clone for ShardedSet<T, C> {
    fn clone(&self) -> Self {
        ShardedSet { spread: self.spread.clone() }
    }
}

impl<T, C: Codec> fmt::Debug for ShardedSet<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ShardedSet");
        shown.field("name", &self.spread.place.name()).field("codec", &self.spread.with).finish_non_exhaustive()
    }
}
