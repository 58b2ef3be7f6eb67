//! Moving a slot from one primary to another, step by step.

use std::{ops::RangeInclusive, time::Duration};

use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep_until};

use crate::{
    cluster::{Cluster, view},
    observer::Observer,
    server::RedisServer,
    topology::{SETTLED_WITHIN, TopologyError, ask, until},
};

/// Moves slots as a whole or in steps, so that tests can act in between.
///
/// After [`begin_migration`](Cluster::begin_migration) the old primary answers `ASK` for missing
/// keys, and the new one serves them after `ASKING`. A command with keys on both sides is answered
/// by `TRYAGAIN` (before 7.0 on the new primary only). After
/// [`finish_migration`](Cluster::finish_migration) the old primary answers `MOVED`.
///
/// # Errors
///
/// All methods fail in the same cases. [`TopologyError::Server`]: a node rejected a step; the
/// earlier steps remain in effect. [`TopologyError::TimedOut`]: a node did not answer for four
/// minutes, or no primary serves the slot. [`TopologyError::NotMigrating`]: the migration of the
/// slot was not begun.
impl Cluster {
    /// Moves a slot with all its keys to another primary, and waits until all nodes have the new
    /// owner.
    pub async fn migrate_slot(&self, slot: u16, to: &RedisServer) -> Result<(), TopologyError> {
        self.begin_migration(slot, to).await?;
        self.finish_migration(slot).await
    }

    /// Marks `slot` on both sides as migrating to `to`. All keys stay where they are.
    pub async fn begin_migration(&self, slot: u16, to: &RedisServer) -> Result<(), TopologyError> {
        let from = self.primary_of(slot).await?;
        let (from_id, to_id) = (id(from).await?, id(to).await?);
        // The new primary first: the old one must not redirect clients to a node that does not
        // expect them.
        set_slot(to, slot, &["IMPORTING", &from_id]).await?;
        set_slot(from, slot, &["MIGRATING", &to_id]).await
    }

    /// Moves one key of a slot that is migrating; `false` if the old primary does not have it.
    pub async fn move_key(&self, key: &str) -> Result<bool, TopologyError> {
        self.move_keys_named(&[key]).await
    }

    /// Moves these keys of one migrating slot with one command; `false` if the old primary has none
    /// of them.
    pub async fn move_keys_named<A: AsRef<str>>(&self, keys: &[A]) -> Result<bool, TopologyError> {
        let Some(first) = keys.first() else { return Ok(false) };
        let (from, to) = self.sides(self.slot_of(first.as_ref()).await?).await?;
        let keys: Vec<_> = keys.iter().map(|key| key.as_ref().as_bytes().to_vec()).collect();
        send(&from.observer().await?, to, &keys).await
    }

    /// Moves all keys of a slot that is migrating, and returns how many there were. The slot itself
    /// remains with the old primary.
    pub async fn move_keys(&self, slot: u16) -> Result<usize, TopologyError> {
        let (from, to) = self.sides(slot).await?;
        let observer = from.observer().await?;
        let mut moved = 0;
        loop {
            let keys: Vec<Vec<u8>> = observer.query(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), BATCH]).await?;
            if keys.is_empty() {
                return Ok(moved);
            }
            send(&observer, to, &keys).await?;
            moved += keys.len();
        }
    }

    /// Assigns the slot to the new primary, with the remaining keys, and waits until all nodes have
    /// the new owner.
    pub async fn finish_migration(&self, slot: u16) -> Result<(), TopologyError> {
        self.move_keys(slot).await?;
        let (from, to) = self.sides(slot).await?;
        let to_id = id(to).await?;
        // The new primary first: if neither served the slot, clients would be redirected back and
        // forth.
        for side in [to, from] {
            set_slot(side, slot, &["NODE", &to_id]).await?;
        }
        // The other nodes are notified directly: gossip would reach them a second later.
        let views = until(SETTLED_WITHIN, || self.views()).await?;
        for (node, view) in views {
            let replica = view::own(&view).is_none_or(|own| own.primary.is_some());
            if !replica && node.addr() != to.addr() && node.addr() != from.addr() {
                set_slot(node, slot, &["NODE", &to_id]).await?;
            }
        }
        self.wait_until_ok().await
    }

    /// Moves slots of one primary with all their keys to another, `some` slots at a time, and waits
    /// until all nodes have the new owner. Each group of `some` slots takes at least `each`.
    pub async fn migrate_slots(
        &self,
        slots: RangeInclusive<u16>,
        to: &RedisServer,
        (some, each): (u16, Duration),
    ) -> Result<(), TopologyError> {
        let from = self.primary_of(*slots.start()).await?;
        let mut others = Vec::new();
        for (node, view) in until(SETTLED_WITHIN, || self.views()).await? {
            let is_primary = view::own(&view).is_some_and(|own| own.primary.is_none());
            if is_primary && node.addr() != to.addr() && node.addr() != from.addr() {
                others.push(node.observer().await?);
            }
        }
        // All slots share one connection to each node. Otherwise a migration of thousands of slots
        // would open ten times as many connections.
        let moving = Moving {
            from_id: id(from).await?,
            to_id: id(to).await?,
            old: from.observer().await?,
            new: to.observer().await?,
            to,
            others,
        };
        let slots: Vec<u16> = slots.collect();
        for some in slots.chunks(usize::from(some).max(1)) {
            let earliest = Instant::now() + each;
            try_join_all(some.iter().map(|slot| moving.move_slot(*slot))).await?;
            sleep_until(earliest).await;
        }
        self.wait_until_ok().await
    }

    /// Returns the old and the new primary of a slot that is migrating.
    async fn sides(&self, slot: u16) -> Result<(&RedisServer, &RedisServer), TopologyError> {
        let from = self.primary_of(slot).await?;
        let reply: String = until(SETTLED_WITHIN, || ask(from, &["CLUSTER", "NODES"])).await?;
        let view = view::members(&reply);
        let target = view::own(&view).and_then(|own| own.target_of(slot));
        let addr = view.iter().find(|member| Some(member.id.as_str()) == target).and_then(|member| member.addr);
        let to = addr.and_then(|addr| self.node_at(addr));
        to.map(|to| (from, to)).ok_or(TopologyError::NotMigrating { slot })
    }
}

/// Slots that are migrating from one primary to another.
struct Moving<'a> {
    from_id: String,
    to_id: String,
    old: Observer,
    new: Observer,
    to: &'a RedisServer,
    others: Vec<Observer>,
}

impl Moving<'_> {
    /// Performs all steps of the migration of one slot.
    async fn move_slot(&self, slot: u16) -> Result<(), TopologyError> {
        let slot = slot.to_string();
        self.new.cmd(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.from_id]).await?;
        self.old.cmd(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.to_id]).await?;
        loop {
            let keys: Vec<Vec<u8>> = self.old.query(&["CLUSTER", "GETKEYSINSLOT", &slot, BATCH]).await?;
            if keys.is_empty() {
                break;
            }
            send(&self.old, self.to, &keys).await?;
        }
        for node in [&self.new, &self.old].into_iter().chain(&self.others) {
            node.cmd(&["CLUSTER", "SETSLOT", &slot, "NODE", &self.to_id]).await?;
        }
        Ok(())
    }
}

async fn id(node: &RedisServer) -> Result<String, TopologyError> {
    Ok(node.observer().await?.query(&["CLUSTER", "MYID"]).await?)
}

async fn set_slot(node: &RedisServer, slot: u16, state: &[&str]) -> Result<(), TopologyError> {
    let slot = slot.to_string();
    node.observer().await?.cmd(&[&["CLUSTER", "SETSLOT", &slot], state].concat()).await?;
    Ok(())
}

/// Moves keys from one node to another; `false` if none of them existed.
async fn send(from: &Observer, to: &RedisServer, keys: &[Vec<u8>]) -> Result<bool, TopologyError> {
    let (ip, port) = (to.announced().ip().to_string(), to.announced().port().to_string());
    let (user, secret) = to.testkit_login();
    let command = ["MIGRATE", &ip, &port, "", "0", TIMEOUT_MILLIS, "AUTH2", user, secret, "KEYS"];
    let mut parts: Vec<&[u8]> = command.iter().map(|part| part.as_bytes()).collect();
    parts.extend(keys.iter().map(Vec::as_slice));
    let answer: String = from.query(&parts).await?;
    Ok(answer != "NOKEY")
}

/// Number of keys moved by one command.
const BATCH: &str = "1000";

/// Timeout of one command: 5 s, less than the timeout of our connections.
const TIMEOUT_MILLIS: &str = "5000";
