//! Blocks of ids in the format of Redisson's `RIdGenerator`.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::name::{InvalidName, suffixed};
use redgrid_core::{Client, ConnectionId, IdempotentScript, Name, Script, ServerError};

use crate::block::Block;
use crate::error::IdError;
use crate::prefetch::{BlockSource, Demand};

static TRY_INIT: IdempotentScript<2> =
    IdempotentScript::new("id_generator/try_init", include_str!("scripts/try_init.lua"));
static DELETE: IdempotentScript<2> = IdempotentScript::new("id_generator/delete", include_str!("scripts/delete.lua"));
static BLOCK: Script<2> = Script::new("id_generator/block", include_str!("scripts/block.lua"));

/// The ids under a name, and the last block that this client has fetched.
pub(crate) struct Series {
    pub(crate) name: Name,
    keys: [Bytes; 2],
    last_block: Mutex<Option<LastBlock>>,
}

/// A change of the generator on the server.
pub(crate) enum Change {
    /// Initializes the generator if it is not initialized.
    TryInit { start: i64, size: i64 },
    /// Deletes the generator.
    Delete,
}

/// The last block, and the server that issued it.
struct LastBlock {
    /// The first id after the block.
    end: i64,
    server: Option<ConnectionId>,
}

impl Series {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>) -> Result<Self, InvalidName> {
        let name = Name::new(name)?;
        let next = client.key(&name);
        let keys = [next.clone(), suffixed(&next, "allocation")];
        Ok(Series { name, keys, last_block: Mutex::new(None) })
    }

    /// Returns the key of the next id.
    pub(crate) fn key(&self) -> &Bytes {
        &self.keys[0]
    }

    fn error(&self, error: ServerError) -> IdError {
        IdError::of_ids(&self.name, error)
    }

    fn last_block(&self) -> MutexGuard<'_, Option<LastBlock>> {
        self.last_block.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Fetches ids that are at least `from`. Returns the first id, and the number of ids.
    async fn take(
        &self,
        client: &Client,
        wanted: u64,
        from: Option<i64>,
        until: Instant,
    ) -> Result<(i64, u64), IdError> {
        let request = BLOCK.with(self.keys.clone()).arg(wanted.to_string());
        let request = request.arg(from.map(|from| from.to_string()).unwrap_or_default()).idempotent();
        let reply = client.run_until::<Vec<String>>(request, until).await;
        let reply = reply.map_err(|error| {
            if error.is_overflow() { IdError::Exhausted { name: self.name.clone() } } else { self.error(error) }
        })?;
        let unexpected = || {
            let got = format!("{reply:?}");
            IdError::of_ids(&self.name, ServerError::Decode { expected: "a block of ids", got })
        };
        match reply.as_slice() {
            [status, first, count] if status == "block" => {
                let block = first.parse().ok().zip(count.parse().ok());
                block.filter(|(_, count)| *count > 0).ok_or_else(unexpected)
            }
            [status, key_kind, got] if status == "strange" => {
                let (key, expected) = match key_kind.as_str() {
                    "next" => (&self.keys[0], "a whole number from -2^63 to 2^63 - 1"),
                    _ => (&self.keys[1], "a whole number from 1 to 2^63 - 1"),
                };
                Err(IdError::NotANumber { key: String::from_utf8_lossy(key).into(), expected, got: got.clone() })
            }
            _ => Err(unexpected()),
        }
    }

    /// Returns the end of the last block if another server issued it.
    ///
    /// The current server may have lost that block, so its ids must start there or later.
    fn end_elsewhere(&self, server: Option<&ConnectionId>) -> Option<i64> {
        let last_block = self.last_block();
        last_block.as_ref().filter(|last| !is_same_server(last.server.as_ref(), server)).map(|last| last.end)
    }
}

/// Returns whether both connections are to the same server process, and so to the same memory.
///
/// If the user may not read the run id, returns whether they are the same connection.
fn is_same_server(one: Option<&ConnectionId>, other: Option<&ConnectionId>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if !one.run_id.is_empty() => one.run_id == other.run_id,
        (one, other) => one == other,
    }
}

impl BlockSource for Series {
    type Condition = Option<ConnectionId>;
    type Change = Change;
    const MIN_PREFETCH_SIZE: u64 = 1;

    async fn fetch(
        &self,
        client: &Client,
        demand: Demand,
        until: Instant,
    ) -> Result<Block<Option<ConnectionId>>, IdError> {
        loop {
            let server_before = client.epoch_of(self.key());
            let from = server_before.as_ref().and_then(|server| self.end_elsewhere(Some(server)));
            let (first, count) = self.take(client, demand.wanted, from, until).await?;
            let server = client.epoch_of(self.key());
            // The server was replaced meanwhile. The old server may have issued the block, and the
            // new one may lack it.
            if server_before.is_some() && !is_same_server(server_before.as_ref(), server.as_ref()) {
                continue;
            }
            if self.end_elsewhere(server.as_ref()).is_none_or(|end| end <= first) {
                let end = i64::try_from(i128::from(first) + i128::from(count)).unwrap_or(i64::MAX);
                *self.last_block() = Some(LastBlock { end, server: server.clone() });
                return Ok(Block {
                    next: first,
                    remaining: count,
                    size: count,
                    valid_until: Instant::MAX,
                    condition: server,
                });
            }
        }
    }

    async fn change(&self, client: &Client, change: Change) -> Result<bool, IdError> {
        let request = match change {
            Change::TryInit { start, size } => TRY_INIT.with(self.keys.clone()).int(start).int(size),
            Change::Delete => DELETE.with(self.keys.clone()),
        };
        let reply = client.run_exactly_once::<Vec<i64>>(request).await;
        let is_done = reply.map_err(|error| IdError::of_change(&self.name, error))? != [0];
        if is_done {
            // Ids start again, so the last block is not a lower bound any more.
            *self.last_block() = None;
        }
        Ok(is_done)
    }

    fn name(&self) -> &Name {
        &self.name
    }

    /// Returns whether a block is still valid. It is valid while there is no connection, because
    /// the server that issued it has not been replaced yet.
    fn is_valid(&self, client: &Client, server: &Option<ConnectionId>) -> bool {
        let current = client.epoch_of(self.key());
        current.is_none() || is_same_server(server.as_ref(), current.as_ref())
    }
}
