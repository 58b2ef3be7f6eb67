//! One lock: its holders, its queue, and whether their clients are alive.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::name::{companion, suffixed};
use redgrid_core::{Code, Name, Request, ServerError};

use crate::ask::Answer;
use crate::clients::{Presence, first_clients};
use crate::error::{InspectError, unless_denied, unless_unreadable};
use crate::holder::{HolderField, HolderState, HolderView, Mode, WaiterView};
use crate::inspector::Inspector;
use crate::scripts::{LEASES, LOCK, QUEUE};

/// The most holders, and the most waiters of a queue, that are read: 1,000. Each keeps the server
/// busy for about 1 µs.
const MAX_HOLDERS: i64 = 1000;

/// The most readers of which the own leases are read.
const MAX_LEASES: usize = 100;

/// The most entries of a Redisson reader of which the leases are read. Each entry has a lease.
const MAX_ENTRIES: u64 = 8;

/// The kind of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockKind {
    /// Nothing is stored under the name, so a lock of any kind is free.
    Free,
    /// A lock with one holder, without a queue.
    Plain,
    /// A lock with one holder, and a queue of waiters.
    Fair,
    /// A lock with readers or a writer.
    ReadWrite,
    /// A lock with a holder that is the leader of an election.
    Election,
    /// Not a lock.
    NotALock {
        /// The server's name of the type of the value; empty without the permission for TYPE.
        type_name: String,
        /// The number of fields, if it is a hash.
        fields: u64,
    },
}

/// A lock as the server sees it, whatever its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockView {
    /// The name, without the namespace.
    pub name: String,
    /// Its kind.
    pub kind: LockKind,
    /// The holders. Of more than 1,000, it is a random selection.
    pub holders: Vec<HolderView>,
    /// The number of holders.
    pub holder_count: u64,
    /// The remaining lease; the longest one of a read-write lock. `None` if it is free, or has no
    /// lifetime.
    pub lease_left: Option<Duration>,
    /// Whether the lock is held, and its key has a lifetime. A held lock without one stays taken
    /// until it is released.
    pub has_lifetime: bool,
    /// The number of clients that wait: those that subscribe to its releases, and those in its
    /// queue. `None` if the user may not count subscribers.
    pub waiting_clients: Option<u64>,
    /// The first 1,000 waiters in the queue of a fair lock, the next one first.
    pub queue: Vec<WaiterView>,
    /// The length of the queue. `None` if the user may not read it.
    pub queue_len: Option<u64>,
    /// The last fencing token of a `FencedLock`. `None` for other locks, and if the user may not
    /// read it.
    pub token: Option<u64>,
}

impl LockView {
    /// Returns whether the lock has a holder.
    pub fn is_held(&self) -> bool {
        self.holder_count > 0
    }

    /// Returns the ids of the connected clients that hold the lock, each once, for
    /// [`Inspector::ask`].
    pub fn ask_ids(&self) -> Vec<String> {
        let ids: BTreeSet<&String> = self.holders.iter().filter_map(|holder| holder.ask_id.as_ref()).collect();
        ids.into_iter().cloned().collect()
    }

    /// Marks each holder as [`HolderState::Silent`] if its client was asked and did not answer.
    pub fn mark_silent(&mut self, answers: &[Answer]) {
        let is_silent = |id: &String| answers.iter().any(|answer| answer.id == *id && answer.report.is_none());
        for holder in &mut self.holders {
            if holder.state == HolderState::Alive && holder.ask_id.as_ref().is_some_and(is_silent) {
                holder.state = HolderState::Silent;
            }
        }
    }
}

/// The reply of the script about the key of a lock.
struct Stored {
    kind: LockKind,
    left: i64,
    count: u64,
    holders: Vec<HolderView>,
}

/// The queue of a fair lock.
#[derive(Default)]
struct Queue {
    len: Option<u64>,
    waiters: Vec<WaiterView>,
}

impl Inspector {
    /// Reads one lock, whatever its kind: plain, fair, fenced, read-write, or of an election.
    ///
    /// At most 1,000 holders and 1,000 waiters are read. The states are those of their first 100
    /// clients each; those of others are unknown. Of a large hash that is not a lock, eight
    /// fields are read.
    ///
    /// # Errors
    ///
    /// [`InspectError::Failed`] if the name is invalid, no server answers, or the user may not read
    /// the lock itself. Everything else that it may not read is unknown in the view.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lock(&self, name: impl AsRef<str>) -> Result<LockView, InspectError> {
        let name = Name::new(name)?;
        self.lock_with_key(name.as_str(), &self.client.key(&name)).await
    }

    /// Reads one lock as [`lock`](Inspector::lock). Its name need not be a valid name of this
    /// library: another program may have created it with any bytes.
    ///
    /// The name in the view is text, in which bytes that are not UTF-8 are escaped as `\xff`.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Inspector::lock). Every name is accepted.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lock_of_bytes(&self, name: impl AsRef<[u8]>) -> Result<LockView, InspectError> {
        let name = name.as_ref();
        let text = std::str::from_utf8(name).map_or_else(|_| name.escape_ascii().to_string(), str::to_owned);
        let key = match self.client.namespace().as_str() {
            "" => Bytes::copy_from_slice(name),
            namespace => [namespace.as_bytes(), b":", name].concat().into(),
        };
        self.lock_with_key(&text, &key).await
    }

    async fn lock_with_key(&self, name: &str, key: &Bytes) -> Result<LockView, InspectError> {
        let failed = |source| InspectError::of_object("read the lock", name, source);
        let stored = self.stored(key).await.map_err(failed)?;
        let mut view = LockView {
            name: name.to_owned(),
            kind: stored.kind,
            holders: stored.holders,
            holder_count: stored.count,
            lease_left: u64::try_from(stored.left).ok().map(Duration::from_millis),
            has_lifetime: stored.left >= 0,
            waiting_clients: None,
            queue: Vec::new(),
            queue_len: None,
            token: None,
        };
        if matches!(view.kind, LockKind::NotALock { .. }) {
            return Ok(view);
        }
        let (subscribers, queue, token, is_election) = tokio::join!(
            self.subscribers(key),
            self.fair_queue(key, &view.kind),
            self.token(key),
            self.is_election(key, &view),
        );
        let queue = queue.map_err(failed)?;
        view.token = token.map_err(failed)?;
        view.queue = queue.waiters;
        view.queue_len = queue.len;
        view.waiting_clients = subscribers.map_err(failed)?.map(|subscribers| {
            // Waiters in a queue subscribe to channels of their own.
            let queued: BTreeSet<&str> = view.queue.iter().map(|waiter| waiter.client.as_str()).collect();
            subscribers.saturating_add(u64::try_from(queued.len()).unwrap_or(u64::MAX))
        });
        if view.kind == LockKind::Plain {
            if is_election.map_err(failed)? {
                view.kind = LockKind::Election;
            } else if view.queue_len.is_some_and(|len| len > 0) {
                view.kind = LockKind::Fair;
            }
        }
        let readers = self.reader_leases(key, &view.holders);
        let mut clients = first_clients(view.holders.iter().map(|holder| &holder.client));
        clients.extend(first_clients(view.queue.iter().map(|waiter| &waiter.client)));
        let presence = self.presence(key, clients);
        let (leases, presence) = tokio::join!(readers, presence);
        let leases = leases.map_err(failed)?;
        let presence = presence.map_err(failed)?;
        for (holder, left) in view.holders.iter_mut().filter(|holder| holder.mode == Mode::Read).zip(leases) {
            holder.reader_lease_left = left;
        }
        apply(&mut view, &presence);
        Ok(view)
    }

    async fn stored(&self, key: &Bytes) -> Result<Stored, ServerError> {
        let reply: Vec<Bytes> = self.client.run(LOCK.with([key.clone()]).int(MAX_HOLDERS).idempotent()).await?;
        Ok(parse_stored(&reply))
    }

    /// Counts the subscribers to releases of the lock, or of the read-write lock of the same name;
    /// `None` without permission.
    async fn subscribers(&self, key: &Bytes) -> Result<Option<u64>, ServerError> {
        let channels = ["redisson_lock__channel", "redisson_rwlock"].map(|prefix| companion(prefix, key));
        unless_denied(self.client.waiting_subscribers(&channels, key).await)
    }

    /// Reads the queue of a fair lock, or that of the entry gate of a fair read-write lock.
    async fn fair_queue(&self, key: &Bytes, kind: &LockKind) -> Result<Queue, ServerError> {
        let owner = if *kind == LockKind::ReadWrite { companion("redgrid_rw_line", key) } else { key.clone() };
        let keys = [companion("redisson_lock_queue", &owner), companion("redgrid_fair", &owner)];
        let list = keys[0].clone();
        let reply = self.client.run_same_slot::<Vec<Bytes>>(QUEUE.with(keys).int(MAX_HOLDERS).idempotent()).await;
        let reply = match reply {
            // The two keys may be on two nodes, while a slot moves.
            Err(error) if error.code() == Some(Code::TryAgain) => {
                self.client.run(QUEUE.with([list]).int(MAX_HOLDERS).idempotent()).await
            }
            reply => reply,
        };
        let Some(reply) = unless_unreadable(reply)? else { return Ok(Queue::default()) };
        let mut parts = reply.iter();
        let len = parts.next().and_then(|len| number(len));
        let waiters = parts.as_slice().chunks_exact(2).filter_map(|pair| {
            let HolderField { client, number, .. } = HolderField::parse(&pair[0])?;
            let is_redgrid = match &pair[1][..] {
                b"" => HolderState::of_absent(&client) == HolderState::Gone,
                own => own == b"1",
            };
            Some(WaiterView { client, number: Some(number), is_redgrid, state: HolderState::Unknown })
        });
        Ok(Queue { len, waiters: waiters.collect() })
    }

    /// Reads the last token of a fenced lock. A longer value than a number is not read.
    async fn token(&self, key: &Bytes) -> Result<Option<u64>, ServerError> {
        let request = Request::command("GETRANGE").key(companion("redisson_lock_token", key));
        let token = self.client.run::<Bytes>(request.arg("0").arg("20").idempotent()).await;
        Ok(unless_unreadable(token)?.and_then(|token| number(&token)))
    }

    /// Returns whether there is a leader that holds the lock.
    async fn is_election(&self, key: &Bytes, view: &LockView) -> Result<bool, ServerError> {
        if view.kind != LockKind::Plain {
            return Ok(false);
        }
        let leader = companion("redgrid_leader", key);
        let exists = Request::command("HEXISTS").key(leader).arg("holder").idempotent();
        Ok(unless_unreadable(self.client.run::<bool>(exists).await)?.unwrap_or(false))
    }

    /// Returns the remaining leases of the first readers among these holders, in their order.
    async fn reader_leases(&self, key: &Bytes, holders: &[HolderView]) -> Result<Vec<Option<Duration>>, ServerError> {
        let readers: Vec<_> = holders.iter().filter(|holder| holder.mode == Mode::Read).take(MAX_LEASES).collect();
        if readers.is_empty() {
            return Ok(Vec::new());
        }
        let keys_of = |holder: &&HolderView| {
            let number = holder.number.unwrap_or_default();
            let kept = if holder.is_retained { ":kept" } else { "" };
            let lease = |entry: u64| format!("{}:{number}{kept}:rwlock_timeout:{entry}", holder.client);
            (1..=holder.entries.clamp(1, MAX_ENTRIES)).map(|entry| suffixed(key, &lease(entry))).collect::<Vec<_>>()
        };
        let keys: Vec<Vec<Bytes>> = readers.iter().map(keys_of).collect();
        let lefts = match self.client.run_same_slot::<Vec<i64>>(LEASES.with(keys.concat()).idempotent()).await {
            // While a slot moves, the keys may be on two nodes.
            Err(error) if matches!(error.code(), Some(Code::NoPermission | Code::TryAgain)) => {
                return Ok(vec![None; readers.len()]);
            }
            reply => reply?,
        };
        let mut lefts = lefts.into_iter();
        let longest = keys.iter().map(|keys| lefts.by_ref().take(keys.len()).max());
        Ok(longest.map(|left| left.map(|left| Duration::from_millis(u64::try_from(left).unwrap_or(0)))).collect())
    }
}

/// Sets whether the clients of the holders and waiters are alive.
fn apply(view: &mut LockView, presence: &Presence) {
    for holder in &mut view.holders {
        (holder.state, holder.ask_id) = presence.of(&holder.client);
    }
    for waiter in &mut view.queue {
        waiter.state = presence.of(&waiter.client).0;
    }
}

fn parse_stored(reply: &[Bytes]) -> Stored {
    let text = |at: usize| reply.get(at).map(|part| String::from_utf8_lossy(part).into_owned()).unwrap_or_default();
    let left = text(1).parse().unwrap_or(-2);
    let count = reply.get(2).and_then(|count| number(count)).unwrap_or_default();
    let other = |type_name: String| Stored {
        kind: LockKind::NotALock { type_name, fields: count },
        left,
        count: 0,
        holders: Vec::new(),
    };
    match text(0).as_str() {
        "none" => Stored { kind: LockKind::Free, left: -2, count: 0, holders: Vec::new() },
        "lock" => {
            let mode = text(3);
            let fields = reply.get(4..).unwrap_or_default().chunks_exact(2);
            let holders = fields.map(|pair| holder(&pair[0], &pair[1], !mode.is_empty())).collect::<Option<Vec<_>>>();
            let kind = if mode.is_empty() { LockKind::Plain } else { LockKind::ReadWrite };
            // One of the fields that were not in the sample is not a holder's.
            holders.map_or_else(|| other("hash".to_owned()), |holders| Stored { kind, left, count, holders })
        }
        type_name => other(type_name.to_owned()),
    }
}

fn holder(field: &[u8], entries: &[u8], is_read_write: bool) -> Option<HolderView> {
    let HolderField { client, number: grant, is_write, is_retained } = HolderField::parse(field)?;
    let mode = match (is_read_write, is_write) {
        (false, false) => Mode::Exclusive,
        (true, false) => Mode::Read,
        (true, true) => Mode::Write,
        // A writer's field in a hash without a mode is not a lock.
        (false, true) => return None,
    };
    Some(HolderView {
        client,
        number: Some(grant),
        entries: number(entries).unwrap_or(1),
        mode,
        state: HolderState::Unknown,
        reader_lease_left: None,
        is_retained,
        ask_id: None,
    })
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    fn stored(reply: &[&str]) -> Stored {
        parse_stored(&reply.iter().map(|part| Bytes::copy_from_slice(part.as_bytes())).collect::<Vec<_>>())
    }

    #[test]
    fn the_kind_follows_from_the_fields() {
        let plain = stored(&["lock", "30000", "1", "", &format!("{ID}:17"), "2"]);
        assert_eq!((plain.kind, plain.left, plain.count), (LockKind::Plain, 30000, 1));
        assert_eq!((plain.holders[0].mode, plain.holders[0].entries), (Mode::Exclusive, 2));
        let fields = [format!("{ID}:17"), format!("{ID}:17:write")];
        let rw = stored(&["lock", "-1", "2", "write", &fields[0], "1", &fields[1], ""]);
        let modes: Vec<_> = rw.holders.iter().map(|holder| (holder.mode, holder.entries)).collect();
        assert_eq!((rw.kind, modes), (LockKind::ReadWrite, vec![(Mode::Read, 1), (Mode::Write, 1)]));
        assert_eq!(stored(&["none"]).kind, LockKind::Free);
    }

    #[test]
    fn what_is_no_lock_has_no_holders() {
        let not = |type_name: &str, fields| LockKind::NotALock { type_name: type_name.into(), fields };
        let big = stored(&["hash", "-1", "1000000"]);
        assert_eq!((big.kind, big.count, big.holders.len()), (not("hash", 1_000_000), 0, 0));
        assert_eq!(stored(&["string", "-1", "0"]).kind, not("string", 0));
        assert_eq!(stored(&["", "-1", "0"]).kind, not("", 0));
        let mixed = stored(&["lock", "-1", "2", "", &format!("{ID}:17"), "1", "name", "Ada"]);
        assert_eq!(mixed.kind, not("hash", 2));
    }
}
