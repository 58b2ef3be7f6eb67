//! Ids in blocks, as in Redisson.

use std::fmt;
use std::sync::Arc;

use redgrid_core::author::ClientExt;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Failure};

use crate::error::IdError;
use crate::prefetch::Prefetcher;
use crate::series::{Change, Series};

/// Unique whole numbers for all processes that use the same server. It has the wire format of
/// Redisson's `RIdGenerator`.
///
/// It is cheap to clone. Clones, and all generators of a client with the same name, issue ids of
/// the same block. Creating a generator sends no request: an invalid name is reported by the first
/// call. A generator may be created for each id: the client keeps the block and the position of
/// each name for as long as it lives.
///
/// A client fetches ids in blocks and issues them from memory. A block has 5,000 ids unless
/// [`try_init`](IdGenerator::try_init) has set another size. The next block is fetched in the
/// background when half of the current one is used. Ids of a client increase; ids of several
/// clients are interleaved in blocks. Ids that a client has in memory when it ends, at most two
/// blocks, are skipped.
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
    prefetcher: Result<Arc<Prefetcher<Series>>, InvalidName>,
}

impl IdGenerator {
    /// Returns the generator with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let prefetcher = Series::new(client, name).map(|series| {
            let key = series.key().clone();
            client.kept(&key, || Prefetcher::new(client, series))
        });
        IdGenerator { client: client.clone(), prefetcher }
    }

    fn prefetcher(&self) -> Result<&Arc<Prefetcher<Series>>, IdError> {
        self.prefetcher.as_ref().map_err(|invalid| invalid.clone().into())
    }

    /// Sets the first id and the block size, 1 to 2^63 - 1. Returns false, and changes nothing, if
    /// any client has already set them.
    ///
    /// Larger blocks need fewer requests, but more ids are skipped when a process ends. The call is
    /// executed exactly once, even if replies are lost.
    ///
    /// # Errors
    ///
    /// [`IdError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its request is sent, nothing is set. If it is dropped later,
    /// the values are set once.
    #[doc(alias = "tryInit")]
    pub async fn try_init(&self, start: i64, block: i64) -> Result<bool, IdError> {
        let prefetcher = self.prefetcher()?;
        if block < 1 {
            return Err(Failure::invalid_argument(&prefetcher.source().name, "block", "1 to 2^63 - 1", block).into());
        }
        prefetcher.change(&self.client, Change::TryInit { start, size: block }).await
    }

    /// Returns a unique id. It is larger than all ids that this client has already issued.
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
    /// [`IdError`] states why no id was issued.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may skip an id. No id is issued twice.
    #[doc(alias = "nextId")]
    pub async fn next(&self) -> Result<i64, IdError> {
        self.prefetcher()?.next(&self.client).await
    }

    /// Returns the [`Object`] of this name: existence, lifetime, other names, events. It includes
    /// the key of the block size.
    ///
    /// Its operations ignore ids in the memory of clients. After a deletion or a rename, all
    /// clients, including this one, first issue the ids that they have in memory. A generator that
    /// expires restarts at 1. To delete a generator, [`delete`](IdGenerator::delete) is usually the
    /// right method.
    pub fn object(&self) -> Object {
        let name = self.prefetcher.as_ref().map(|prefetcher| prefetcher.source().name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, layouts::id_generator)
    }

    /// Deletes the generator, and the ids in the memory of this client. Returns whether the
    /// generator existed.
    ///
    /// Ids restart at 1, or at the start of the next [`try_init`](IdGenerator::try_init). Other
    /// clients still issue the ids that they have in memory. So does this client if the generator
    /// did not exist. A request for a block that is in flight may create the generator again.
    ///
    /// # Errors
    ///
    /// [`IdError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its request is sent, nothing is deleted. If it is dropped
    /// later, the generator is deleted once, and this client may still issue the ids that it has in
    /// memory.
    pub async fn delete(&self) -> Result<bool, IdError> {
        self.prefetcher()?.change(&self.client, Change::Delete).await
    }
}

impl fmt::Debug for IdGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.prefetcher.as_ref().map(|prefetcher| &prefetcher.source().name);
        f.debug_struct("IdGenerator").field("name", &name).finish_non_exhaustive()
    }
}
