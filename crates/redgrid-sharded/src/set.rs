//! The sharded set.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, EncodesFor, Raw};
use redgrid_core::object::{CasLoop, ObjectError, ObjectRef};
use redgrid_core::{Client, Name};
use redgrid_set::Set;

use crate::fan_out::allocate_randomly;
use crate::layout::Kind;
use crate::methods::{collection_methods, sharded_methods};
use crate::scan::ShardedScan;
use crate::sharded::{Shard, Sharded};

redgrid_core::default_codec! {
    /// An unordered set of values of type `T`. A hash of each value determines its shard, which is
    /// one of many keys on the servers.
    ///
    /// It has the methods of a [`Set`], except those that require one step on the whole set or on
    /// several sets.
    ///
    /// It is cheap to clone; clones are handles of the same set: create one and clone it. The codec
    /// is part of the type, as in a [`Set`].
    #[doc(alias = "RClusteredSet")]
    pub struct ShardedSet<T; C: Codec> {
        sharded: Sharded<Set<T, C>>,
    }
}

impl<T, C: Codec> Shard for Set<T, C> {
    type Options = C;

    fn kind(_options: &C) -> Kind {
        Kind::Set
    }

    fn new(client: &Client, name: String, options: &C) -> Self {
        Set::<T, Raw>::new(client, name).with_codec(options.clone())
    }
}

sharded_methods!([T, C: Codec] ShardedSet<T, C>);
collection_methods!("values", [T, C: Codec] ShardedSet<T, C>);

impl<T, C: Codec + Default> ShardedSet<T, C> {
    /// Returns the set with this name. It uses the stored shard layout or, if there is none, 16
    /// shards.
    ///
    /// No request is sent: an invalid name is reported by the first call. A name with a hash tag is
    /// invalid here.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        ShardedSet { sharded: Sharded::new(client, name, C::default()) }
    }
}

impl<T, C: Codec> ShardedSet<T, C> {
    /// Returns a handle of the same name with another codec.
    pub fn with_codec<D: Codec>(self, codec: D) -> ShardedSet<T, D> {
        ShardedSet { sharded: self.sharded.with_shard_type(codec) }
    }

    fn encode<Q: ?Sized>(&self, value: &Q) -> Result<Bytes, ObjectError>
    where
        C: Encode<Q>,
    {
        self.sharded.object_ref.encoded(&self.sharded.options, value)
    }

    /// Returns the shard of a value, as a plain set. It does not matter whether the set contains
    /// the value.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// This call may store the shard layout. It changes nothing else.
    pub async fn shard_of<Q: ?Sized>(&self, value: &Q) -> Result<Set<T, C>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let bytes = self.encode(value)?;
        Ok(self.sharded.shards_to_change().await?.shard_of(&bytes))
    }

    async fn shard_to_read<Q: ?Sized>(&self, value: &Q) -> Result<Set<T, C>, ObjectError>
    where
        C: Encode<Q>,
    {
        let bytes = self.encode(value)?;
        Ok(self.sharded.shards_to_read().await?.shard_of(&bytes))
    }

    /// Inserts a value. Returns whether it is new.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "add")]
    pub async fn insert<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.shard_of(value).await?.insert(value).await
    }

    /// Inserts values, on their shards in parallel. A request contains up to 500 values or about 4
    /// MiB. Returns the number of new values.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards in which some values may not have been inserted.
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedSet::insert`].
    #[doc(alias = "addAll")]
    #[doc(alias = "addAllCounted")]
    pub async fn insert_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let shards = self.sharded.shards_to_change().await?;
        let values = shards.group(values, |value| self.encode(*value))?;
        let call =
            |shard: Set<T, C>, (_, values): (Vec<usize>, Vec<&'a Q>)| async move { shard.insert_many(values).await };
        self.sharded.fan_out_sum(&shards, values, call).await
    }

    /// Removes a value. Returns whether the set contained it.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedSet::insert`].
    pub async fn remove<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.shard_to_read(value).await?.remove(value).await
    }

    /// Removes values, on their shards in parallel. A request contains up to 500 values or about 4
    /// MiB. Returns the number of removed values.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards in which some values may remain.
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedSet::insert`].
    #[doc(alias = "removeAll")]
    #[doc(alias = "removeAllCounted")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let shards = self.sharded.shards_to_read().await?;
        let values = shards.group(values, |value| self.encode(*value))?;
        let call =
            |shard: Set<T, C>, (_, values): (Vec<usize>, Vec<&'a Q>)| async move { shard.remove_many(values).await };
        self.sharded.fan_out_sum(&shards, values, call).await
    }

    /// Returns whether the set contains a value.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.shard_to_read(value).await?.contains(value).await
    }

    /// Returns for each value, in their order, whether the set contains it. The shards are read in
    /// parallel.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that could not be read.
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedSet::contains`].
    #[doc(alias = "containsEach")]
    pub async fn contains_each<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<bool>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let shards = self.sharded.shards_to_read().await?;
        let values = shards.group(values, |value| self.encode(*value))?;
        let call = |shard: Set<T, C>, values: Vec<&'a Q>| async move { shard.contains_each(values).await };
        self.sharded.each(&shards, values, call).await
    }

    /// Returns whether the set contains all of the values.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedSet::contains_each`].
    #[doc(alias = "containsAll")]
    pub async fn contains_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.contains_each(values).await?.into_iter().all(|is_contained| is_contained))
    }
}

impl<T, C: Decode<T>> ShardedSet<T, C> {
    /// Returns all values. Each shard returns its values in one reply, which is as large as all of
    /// them. For large sets use [`ShardedSet::stream`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAll")]
    pub async fn read_all(&self) -> Result<Vec<T>, ObjectError> {
        self.sharded.all(|shard| async move { shard.read_all().await }).await
    }

    /// Returns a random value without removing it; `None` if the set is empty.
    ///
    /// The call reads the sizes of all shards, and then a value from a random one.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedSet::read_all`].
    pub async fn random(&self) -> Result<Option<T>, ObjectError> {
        Ok(self.random_many(1).await?.pop())
    }

    /// Returns `count` distinct random values without removing them, or all values if there are
    /// fewer. If other clients remove values during the call, it may return fewer than `count`.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedSet::read_all`].
    #[doc(alias = "random")]
    pub async fn random_many(&self, count: u32) -> Result<Vec<T>, ObjectError> {
        let len = |shard: Set<T, C>| async move { shard.len().await };
        self.sharded.random(count, len, |shard, count| async move { shard.random_many(count).await }).await
    }

    /// Removes a random value and returns it; `None` if all shards are empty. If the reply is lost,
    /// the value is lost.
    ///
    /// The call reads the sizes of all shards from the primaries, and then pops from a random
    /// shard. If other clients have emptied that shard meanwhile, the call repeats both steps.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] if the shards that replied are empty, but others failed.
    /// [`ObjectError::Contended`] if other clients emptied the chosen shard at each attempt, until
    /// the call's time limit. Otherwise [`ObjectError`] states what failed and whether anything may
    /// have changed. A value that cannot be decoded is removed as well.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped: in that case a
    /// removed value is lost.
    #[doc(alias = "removeRandom")]
    pub async fn pop(&self) -> Result<Option<T>, ObjectError> {
        let shards = self.sharded.shards_to_read().await?;
        let object_ref = &self.sharded.object_ref;
        let name = object_ref.name_and_key()?.0;
        let mut cas_loop = CasLoop::new(object_ref.client(), name);
        // The primaries are read, because the reply of a replica may be outdated.
        let len = |shard: Set<T, C>, ()| async move {
            let object = shard.object();
            let shard = ObjectRef::new(object_ref.client(), object.name().map_or("", Name::as_str));
            shard.read_primary::<u64>(shard.command("SCARD")?).await
        };
        loop {
            let (mut sizes, mut failed) = (Vec::new(), Vec::new());
            for (number, result) in self.sharded.fan_out_collect(&shards, shards.every_shard(), len).await {
                match result {
                    Ok(len) => sizes.push((number, len)),
                    Err(error) => failed.push((number, error)),
                }
            }
            let Some((shard, _)) = allocate_randomly(sizes, 1).pop() else {
                return ObjectError::of_shards(name, failed).map_or(Ok(None), Err);
            };
            if let Some(value) = shards.all[shard as usize].pop().await? {
                return Ok(Some(value));
            }
            cas_loop.lost().await?;
        }
    }
}

impl<T: Send + 'static, C: Decode<T>> ShardedSet<T, C> {
    /// Returns a stream of all values, in no order.
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> ShardedScan<T> {
        ShardedScan::new(&self.sharded, |shard| shard.stream())
    }
}

redgrid_core::debug_fields!([T, C: Codec] ShardedSet<T, C>, |it|
    name: it.sharded.object_ref.name(), codec: it.sharded.options
);
