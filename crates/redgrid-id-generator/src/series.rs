//! Blocks of ids as Redisson's RIdGenerator takes them.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::name::{InvalidName, suffixed};
use redgrid_core::{Client, ConnectionId, IdempotentScript, Name, Script, ServerError};

use crate::block::Block;
use crate::error::IdError;
use crate::supply::{Need, Source};

static TRY_INIT: IdempotentScript<2> =
    IdempotentScript::new("id_generator/try_init", include_str!("scripts/try_init.lua"));
static DELETE: IdempotentScript<2> = IdempotentScript::new("id_generator/delete", include_str!("scripts/delete.lua"));
static BLOCK: Script<2> = Script::new("id_generator/block", include_str!("scripts/block.lua"));

/// The numbers under a name, and what a client has had of them.
pub(crate) struct Series {
    pub(crate) name: Name,
    keys: [Bytes; 2],
    had: Mutex<Option<Had>>,
}

/// What can be done to a generator.
pub(crate) enum Change {
    /// It is set up, unless it was before.
    TryInit { start: i64, size: i64 },
    /// It is deleted.
    Delete,
}

/// The last block, and who gave it.
struct Had {
    /// The id behind it.
    end: i64,
    by: Option<ConnectionId>,
}

impl Series {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>) -> Result<Self, InvalidName> {
        let name = Name::new(name)?;
        let next = client.key(&name);
        let keys = [next.clone(), suffixed(&next, "allocation")];
        Ok(Series { name, keys, had: Mutex::new(None) })
    }

    /// The key of the next id.
    pub(crate) fn key(&self) -> &Bytes {
        &self.keys[0]
    }

    fn failed(&self, error: ServerError) -> IdError {
        IdError::of_ids(&self.name, error)
    }

    fn had(&self) -> MutexGuard<'_, Option<Had>> {
        self.had.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Some ids, none of them below `from`: the first, and how many.
    async fn take(
        &self,
        client: &Client,
        wanted: u64,
        from: Option<i64>,
        until: Instant,
    ) -> Result<(i64, u64), IdError> {
        let request = BLOCK.with(self.keys.clone()).arg(wanted.to_string());
        let request = request.arg(from.map(|from| from.to_string()).unwrap_or_default()).idempotent();
        let told = client.run_until::<Vec<String>>(request, until).await;
        let told = told.map_err(|error| match error.is_overflow() {
            true => IdError::Exhausted { name: self.name.clone() },
            false => self.failed(error),
        })?;
        let unexpected = || {
            let got = format!("{told:?}");
            IdError::of_ids(&self.name, ServerError::Decode { expected: "a block of ids", got })
        };
        match told.as_slice() {
            [kind, first, ids] if kind == "block" => {
                let block = first.parse().ok().zip(ids.parse().ok());
                block.filter(|(_, ids)| *ids > 0).ok_or_else(unexpected)
            }
            [kind, which, got] if kind == "strange" => {
                let (key, expected) = match which.as_str() {
                    "next" => (&self.keys[0], "a whole number from -2^63 to 2^63 - 1"),
                    _ => (&self.keys[1], "a whole number from 1 to 2^63 - 1"),
                };
                Err(IdError::NotANumber { key: String::from_utf8_lossy(key).into(), expected, got: got.clone() })
            }
            _ => Err(unexpected()),
        }
    }

    /// Where ids are to go on at the earliest at a server that may not know how far they were: behind those that this client has had
    /// of the server before it.
    fn had_elsewhere(&self, by: Option<&ConnectionId>) -> Option<i64> {
        let had = self.had();
        had.as_ref().filter(|had| !is_same_server(had.by.as_ref(), by)).map(|had| had.end)
    }
}

/// Whether one server gave both, with the same memory. Where it may not be asked who it is, the same connection.
fn is_same_server(one: Option<&ConnectionId>, other: Option<&ConnectionId>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if !one.run_id.is_empty() => one.run_id == other.run_id,
        (one, other) => one == other,
    }
}

impl Source for Series {
    type While = Option<ConnectionId>;
    type Change = Change;
    const WORTH_MORE: u64 = 1;

    async fn fetch(&self, client: &Client, need: Need, until: Instant) -> Result<Block<Option<ConnectionId>>, IdError> {
        loop {
            let asked = client.epoch_of(self.key());
            let from = asked.as_ref().and_then(|asked| self.had_elsewhere(Some(asked)));
            let (first, ids) = self.take(client, need.wanted, from, until).await?;
            let by = client.epoch_of(self.key());
            // Who was replaced meanwhile may have given it, and be forgotten.
            if asked.is_some() && !is_same_server(asked.as_ref(), by.as_ref()) {
                continue;
            }
            if self.had_elsewhere(by.as_ref()).is_none_or(|end| end <= first) {
                let end = i64::try_from(i128::from(first) + i128::from(ids)).unwrap_or(i64::MAX);
                *self.had() = Some(Had { end, by: by.clone() });
                return Ok(Block { next: first, left: ids, size: ids, until: Instant::MAX, while_: by });
            }
        }
    }

    async fn change(&self, client: &Client, change: Change) -> Result<bool, IdError> {
        let request = match change {
            Change::TryInit { start, size } => TRY_INIT.with(self.keys.clone()).int(start).int(size),
            Change::Delete => DELETE.with(self.keys.clone()),
        };
        let told = client.run_exactly_once::<Vec<i64>>(request).await;
        let is_done = told.map_err(|error| IdError::of_change(&self.name, error))? != [0];
        if is_done {
            // What was had is no measure any more: ids begin anew.
            *self.had() = None;
        }
        Ok(is_done)
    }

    fn name(&self) -> &Name {
        &self.name
    }

    /// Without contact they are good: nobody has replaced who gave them yet.
    fn stands(&self, client: &Client, by: &Option<ConnectionId>) -> bool {
        let now = client.epoch_of(self.key());
        now.is_none() || is_same_server(by.as_ref(), now.as_ref())
    }
}
