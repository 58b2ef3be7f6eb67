//! Operations on a whole sharded object of any type.

use std::time::{Duration, SystemTime};

use redgrid_core::object::layouts::bloom_filter;
use redgrid_core::object::{Layout, Lifetime, Object, ObjectError, alone};
use redgrid_core::{Client, Name};

use crate::layout::Kind;
use crate::sharded::{Shard, Sharded};

/// A shard of any type.
#[derive(Clone)]
pub(crate) struct AnyShard(Object);

impl Shard for AnyShard {
    type Options = Kind;

    fn kind(options: &Kind) -> Kind {
        *options
    }

    fn new(client: &Client, name: String, options: &Kind) -> Self {
        let (layout, primary_keys): (Layout, _) = if *options == Kind::Filter { (bloom_filter, 2) } else { (alone, 1) };
        AnyShard(Object::with_layout(client, Name::new(name), layout).with_primary_keys(primary_keys))
    }
}

/// A whole sharded object. Its operations run on all shards in parallel, but not in one step.
///
/// A lifetime applies to the existing shards. A shard that gets its first entry later has no
/// lifetime until one is set again. The shard layout, a small hash, has no lifetime. It stays until
/// the object is deleted; otherwise entries could be stored in shards that are never read. An
/// object cannot be renamed, because its shards must stay in their slots.
#[derive(Clone)]
#[doc(alias = "RExpirable")]
pub struct ShardedObject(Sharded<AnyShard>);

impl ShardedObject {
    pub(crate) fn new<P: Shard>(sharded: &Sharded<P>) -> Self {
        ShardedObject(sharded.with_shard_type(P::kind(&sharded.options)))
    }

    /// Returns the name, if it is valid.
    #[doc(alias = "getName")]
    pub fn name(&self) -> Option<&Name> {
        self.0.object_ref.name()
    }

    /// Returns the number of shards; `None` if no shard layout is stored.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn shards(&self) -> Result<Option<u32>, ObjectError> {
        Ok(self.0.stored_shards().await?.map(|shards| shards.layout.shards))
    }

    /// Returns whether any shard exists.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] if none of the shards that replied exists, but others failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "isExists")]
    pub async fn exists(&self) -> Result<bool, ObjectError> {
        self.0.any(|AnyShard(shard)| async move { shard.exists().await }).await
    }

    /// Deletes all shards, and then the shard layout. Returns whether any shard existed.
    ///
    /// Other users of the object notice a new layout within 10 seconds. Until then, they write to
    /// the shards of the previous layout.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that may still exist.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn delete(&self) -> Result<bool, ObjectError> {
        self.delete_with(|AnyShard(shard), ()| async move { shard.delete().await }).await
    }

    /// Deletes all shards, and then the shard layout. Returns whether any shard existed.
    ///
    /// As [`ShardedObject::delete`], but the servers free the memory in the background. Use it for
    /// large objects.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedObject::delete`].
    pub async fn unlink(&self) -> Result<bool, ObjectError> {
        self.delete_with(|AnyShard(shard), ()| async move { shard.unlink().await }).await
    }

    async fn delete_with<F>(&self, delete_one: impl Fn(AnyShard, ()) -> F) -> Result<bool, ObjectError>
    where
        F: Future<Output = Result<bool, ObjectError>>,
    {
        let (shards, is_stored) = self.0.verified_shards().await?;
        let results = self.0.fan_out(&shards, shards.every_shard(), delete_one).await?;
        if is_stored {
            self.0.delete_layout(&shards.layout).await?;
        }
        Ok(results.into_iter().any(|(_, existed)| existed))
    }

    /// Sets the lifetime of the existing shards, 1 ms to 3650 days. Returns whether any shard
    /// exists.
    ///
    /// The shard layout is kept.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that may have kept their previous lifetime.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "expire")]
    pub async fn expire_in(&self, lifetime: Duration) -> Result<bool, ObjectError> {
        self.0.change_all(|AnyShard(shard)| shard.expire_in(lifetime).into_future()).await
    }

    /// Lets the existing shards expire at this time by their servers' clocks. Returns whether any
    /// shard exists.
    ///
    /// The shard layout is kept.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedObject::expire_in`].
    #[doc(alias = "expireAt")]
    #[doc(alias = "expire")]
    pub async fn expire_at(&self, at: SystemTime) -> Result<bool, ObjectError> {
        self.0.change_all(|AnyShard(shard)| shard.expire_at(at).into_future()).await
    }

    /// Removes the lifetimes. Returns whether any shard had one.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedObject::expire_in`].
    #[doc(alias = "clearExpire")]
    pub async fn persist(&self) -> Result<bool, ObjectError> {
        self.0.change_all(|AnyShard(shard)| async move { shard.persist().await }).await
    }

    /// Returns the remaining lifetime of the shard that expires first.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] if a shard failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "remainTimeToLive")]
    pub async fn lifetime(&self) -> Result<Lifetime, ObjectError> {
        let shards = self.0.shards_to_read().await?;
        let results = self
            .0
            .fan_out(&shards, shards.every_shard(), |AnyShard(shard), ()| async move { shard.lifetime().await })
            .await?;
        Ok(results.into_iter().map(|(_, lifetime)| lifetime).fold(Lifetime::Absent, earlier))
    }

    /// Returns the memory that the object takes on the servers in bytes, by their estimate; `None`
    /// if no shard exists.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] if a shard failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "sizeInMemory")]
    pub async fn memory(&self) -> Result<Option<u64>, ObjectError> {
        let shards = self.0.shards_to_read().await?;
        let results = self
            .0
            .fan_out(&shards, shards.every_shard(), |AnyShard(shard), ()| async move { shard.memory().await })
            .await?;
        let sizes: Vec<u64> = results.into_iter().filter_map(|(_, size)| size).collect();
        Ok((!sizes.is_empty()).then(|| sizes.iter().sum()))
    }
}

fn earlier(one: Lifetime, other: Lifetime) -> Lifetime {
    match (one, other) {
        (Lifetime::Absent, other) | (other, Lifetime::Absent) => other,
        (Lifetime::Endless, other) | (other, Lifetime::Endless) => other,
        (Lifetime::Ends(one), Lifetime::Ends(other)) => Lifetime::Ends(one.min(other)),
    }
}

redgrid_core::debug_fields!(ShardedObject, |it| name: it.name());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_expiry_of_existing_shards_counts() {
        let expires = |secs| Lifetime::Ends(Duration::from_secs(secs));
        let all = |shards: &[Lifetime]| shards.iter().copied().fold(Lifetime::Absent, earlier);
        assert_eq!(all(&[Lifetime::Absent, Lifetime::Absent]), Lifetime::Absent);
        assert_eq!(all(&[Lifetime::Absent, Lifetime::Endless]), Lifetime::Endless);
        assert_eq!(all(&[Lifetime::Endless, expires(9), Lifetime::Absent, expires(5)]), expires(5));
    }
}
