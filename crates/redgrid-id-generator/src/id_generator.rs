//! Ids in blocks, as Redisson gives them.

use std::fmt;
use std::sync::Arc;

use redgrid_core::Client;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};

use crate::error::IdError;
use crate::series::{Change, Series};
use crate::supply::Supply;

/// Unique whole numbers for all processes that reach the same server. Redisson's `RIdGenerator` on the wire.
///
/// Cheap to clone; clones, and all generators of a client with one name, give from the same block. Making one asks nobody: an invalid
/// name is told by the first call. It may be made for each id: the client has its block, and remembers how far the ids of a name were,
/// for as long as it lives.
///
/// A client takes ids in blocks, 5,000 unless [`try_init`](IdGenerator::try_init) said otherwise, and gives them from memory. The
/// next block is asked for in the background when half of one is used. Ids of a client rise; those of several are mixed in blocks,
/// and what a client has in memory when it ends, two blocks at most, is left out.
///
/// ```no_run
/// # async fn demo(client: &redgrid_id_generator::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_id_generator::IdGenerator;
///
/// let tickets = IdGenerator::new(client, "ticket");
/// tickets.try_init(1_000_000, 100).await?; // the first to say so decides
/// let id = tickets.next().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "RIdGenerator")]
#[doc(alias = "RedissonIdGenerator")]
#[derive(Clone)]
pub struct IdGenerator {
    client: Client,
    supply: Result<Arc<Supply<Series>>, InvalidName>,
}

impl IdGenerator {
    /// The generator with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let supply = Series::new(client, name).map(|series| {
            let key = series.key().clone();
            client.kept(&key, || Supply::new(client, series))
        });
        IdGenerator { client: client.clone(), supply }
    }

    fn supply(&self) -> Result<&Arc<Supply<Series>>, IdError> {
        self.supply.as_ref().map_err(|invalid| invalid.clone().into())
    }

    /// Says where ids begin, and how many a block has: 1 to 2^63 - 1. False where that was said before, by whomever; what was said
    /// stays. It acts once, although answers are lost.
    ///
    /// With larger blocks the server is asked less often, and more ids are left out when a process ends.
    ///
    /// # Errors
    ///
    /// [`IdError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it was sent, it sets nothing; dropped later, it sets it once.
    #[doc(alias = "tryInit")]
    pub async fn try_init(&self, start: i64, block: i64) -> Result<bool, IdError> {
        let supply = self.supply()?;
        if block < 1 {
            return Err(IdError::InvalidArgument {
                name: supply.source().name.clone(),
                option: "block",
                expected: "1 to 2^63 - 1",
                got: block.to_string(),
            });
        }
        supply.change(&self.client, Change::TryInit { start, size: block }).await
    }

    /// An id that nobody else is given, larger than those that this client was given before.
    ///
    /// ```no_run
    /// # async fn demo(tickets: redgrid_id_generator::IdGenerator) -> Result<(), Box<dyn std::error::Error>> {
    /// let (one, other) = (tickets.next().await?, tickets.next().await?);
    /// assert!(one < other);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`IdError`] says why there is none.
    ///
    /// # Cancel safety
    ///
    /// Dropping it may leave an id out, and never gives one twice.
    #[doc(alias = "nextId")]
    pub async fn next(&self) -> Result<i64, IdError> {
        self.supply()?.next(&self.client).await
    }

    /// What every object has: whether it is there, its lifetime, other names, its events; with the size of its blocks.
    ///
    /// It knows nothing of what clients have in memory: after a deletion or a rename they give those ids first, this client too. A
    /// generator that expires begins at 1 again, and so do ids: [`delete`](IdGenerator::delete) is what is meant as a rule.
    pub fn object(&self) -> Object {
        let name = self.supply.as_ref().map(|supply| supply.source().name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, layouts::id_generator)
    }

    /// Deletes the generator, and what this client has in memory: ids begin at 1 again, or as the next
    /// [`try_init`](IdGenerator::try_init) says. Other clients give what they have in memory. False where
    /// there was none; then this client goes on, too. A request for a block that was under way may begin the generator again behind it.
    ///
    /// # Errors
    ///
    /// [`IdError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it was sent, it deletes nothing; dropped later, it deletes once, and this client may still give what it has in
    /// memory.
    pub async fn delete(&self) -> Result<bool, IdError> {
        self.supply()?.change(&self.client, Change::Delete).await
    }
}

impl fmt::Debug for IdGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.supply.as_ref().map(|supply| &supply.source().name);
        f.debug_struct("IdGenerator").field("name", &name).finish_non_exhaustive()
    }
}
