//! What every sharded object has, whatever it is.

use std::fmt;
use std::time::{Duration, SystemTime};

use redgrid_core::object::layouts::bloom_filter;
use redgrid_core::object::{Layout, Lifetime, Object, ObjectError, alone};
use redgrid_core::{Client, Name};

use crate::layout::Kind;
use crate::spread::{Part, Spread};

/// A part, whatever it is.
#[derive(Clone)]
pub(crate) struct Whole(Object);

impl Part for Whole {
    type With = Kind;

    fn kind(with: &Kind) -> Kind {
        *with
    }

    fn new(client: &Client, name: String, with: &Kind) -> Self {
        let (layout, faces): (Layout, _) = if *with == Kind::Filter { (bloom_filter, 2) } else { (alone, 1) };
        Whole(Object::with_layout(client, Name::new(name), layout).and_faces(faces))
    }
}

/// A sharded object as a whole: what is asked of all its parts, at the same time and not in one step.
///
/// A lifetime is that of the parts that are there: a part that gets its first entry later has none until it is set again. What says how the object is
/// divided, a small hash, has none: it stays until the object is deleted, so that nothing is ever where nobody looks. Parts keep their places, so there
/// is no other name for all of them.
#[derive(Clone)]
#[doc(alias = "RExpirable")]
pub struct ShardedObject(Spread<Whole>);

impl ShardedObject {
    pub(crate) fn of<P: Part>(spread: &Spread<P>) -> Self {
        ShardedObject(spread.by(P::kind(&spread.with)))
    }

    /// The name, where it can be one.
    #[doc(alias = "getName")]
    pub fn name(&self) -> Option<&Name> {
        self.0.place.name()
    }

    /// How many parts it has; `None` where nobody has stored how it is divided.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn shards(&self) -> Result<Option<u32>, ObjectError> {
        Ok(self.0.agreed().await?.map(|parts| parts.layout.shards))
    }

    /// Whether any part is there.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] where none of those that answered is there, and some did not.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "isExists")]
    pub async fn exists(&self) -> Result<bool, ObjectError> {
        let parts = self.0.to_read().await?;
        self.0.any(&parts, |Whole(part), ()| async move { part.exists().await }).await
    }

    /// Deletes all parts, and then how it was divided; tells whether any was there. Others that use it meanwhile notice a new division within
    /// 10 seconds: what they write until then is where the former one has it.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that may be there still.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn delete(&self) -> Result<bool, ObjectError> {
        self.removed(|Whole(part), ()| async move { part.delete().await }).await
    }

    /// The same, and the servers free the memory in the background: for large ones.
    ///
    /// # Errors
    ///
    /// As [`ShardedObject::delete`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedObject::delete`].
    pub async fn unlink(&self) -> Result<bool, ObjectError> {
        self.removed(|Whole(part), ()| async move { part.unlink().await }).await
    }

    async fn removed<F>(&self, remove: impl Fn(Whole, ()) -> F) -> Result<bool, ObjectError>
    where
        F: Future<Output = Result<bool, ObjectError>>,
    {
        let (parts, is_agreed) = self.0.to_end().await?;
        let told = self.0.each(&parts, parts.every(), remove).await?;
        if is_agreed {
            self.0.disagree(&parts.layout).await?;
        }
        Ok(told.into_iter().any(|(_, was_there)| was_there))
    }

    /// Has the parts that are there deleted after this time, 1 ms to 3650 days; tells whether any is there. It stays divided as it is.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that may have the lifetime they had.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "expire")]
    pub async fn expire_in(&self, lifetime: Duration) -> Result<bool, ObjectError> {
        self.lives(|Whole(part), ()| part.expire_in(lifetime).into_future()).await
    }

    /// Has the parts that are there deleted at this time by their servers' clocks; tells whether any is there. It stays divided as it is.
    ///
    /// # Errors
    ///
    /// As [`ShardedObject::expire_in`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedObject::expire_in`].
    #[doc(alias = "expireAt")]
    #[doc(alias = "expire")]
    pub async fn expire_at(&self, at: SystemTime) -> Result<bool, ObjectError> {
        self.lives(|Whole(part), ()| part.expire_at(at).into_future()).await
    }

    /// Has it live on without an end; tells whether any part had one.
    ///
    /// # Errors
    ///
    /// As [`ShardedObject::expire_in`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedObject::expire_in`].
    #[doc(alias = "clearExpire")]
    pub async fn persist(&self) -> Result<bool, ObjectError> {
        self.lives(|Whole(part), ()| async move { part.persist().await }).await
    }

    async fn lives<F>(&self, live: impl Fn(Whole, ()) -> F) -> Result<bool, ObjectError>
    where
        F: Future<Output = Result<bool, ObjectError>>,
    {
        let (parts, _) = self.0.to_end().await?;
        let told = self.0.each(&parts, parts.every(), live).await?;
        Ok(told.into_iter().any(|(_, did)| did))
    }

    /// When the first of its parts ends.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] where a part does not say.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "remainTimeToLive")]
    pub async fn lifetime(&self) -> Result<Lifetime, ObjectError> {
        let parts = self.0.to_read().await?;
        let told = self.0.each(&parts, parts.every(), |Whole(part), ()| async move { part.lifetime().await }).await?;
        Ok(told.into_iter().map(|(_, lifetime)| lifetime).fold(Lifetime::Absent, sooner))
    }

    /// How many bytes of the servers' memory it takes, by their estimate; `None` where no part is there.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] where a part does not say.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "sizeInMemory")]
    pub async fn memory(&self) -> Result<Option<u64>, ObjectError> {
        let parts = self.0.to_read().await?;
        let told = self.0.each(&parts, parts.every(), |Whole(part), ()| async move { part.memory().await }).await?;
        let sizes: Vec<u64> = told.into_iter().filter_map(|(_, size)| size).collect();
        Ok((!sizes.is_empty()).then(|| sizes.iter().sum()))
    }
}

fn sooner(one: Lifetime, other: Lifetime) -> Lifetime {
    match (one, other) {
        (Lifetime::Absent, other) | (other, Lifetime::Absent) => other,
        (Lifetime::Endless, other) | (other, Lifetime::Endless) => other,
        (Lifetime::Ends(one), Lifetime::Ends(other)) => Lifetime::Ends(one.min(other)),
    }
}

impl fmt::Debug for ShardedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedObject").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_counts_among_those_that_are_there() {
        let ends = |secs| Lifetime::Ends(Duration::from_secs(secs));
        let all = |parts: &[Lifetime]| parts.iter().copied().fold(Lifetime::Absent, sooner);
        assert_eq!(all(&[Lifetime::Absent, Lifetime::Absent]), Lifetime::Absent);
        assert_eq!(all(&[Lifetime::Absent, Lifetime::Endless]), Lifetime::Endless);
        assert_eq!(all(&[Lifetime::Endless, ends(9), Lifetime::Absent, ends(5)]), ends(5));
    }
}
