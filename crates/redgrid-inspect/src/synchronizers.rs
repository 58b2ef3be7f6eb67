//! Semaphores, latches, barriers, events and elections.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::name::companion;
use redgrid_core::object::layouts;
use redgrid_core::{Name, Request, ServerError};

use crate::error::{InspectError, unless_unreadable};
use crate::holder::HolderView;
use crate::inspector::Inspector;
use crate::lock::LockKind;
use crate::object_kind::ObjectKind;
use crate::scripts::SYNCHRONIZER;

/// A synchronizer as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SynchronizerView {
    /// The name, without the namespace.
    pub name: String,
    /// Its kind.
    pub kind: ObjectKind,
    /// Its state.
    pub state: SynchronizerState,
    /// The remaining lifetime of its key. `None` if it has none.
    pub lifetime: Option<Duration>,
}

/// The state of a synchronizer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SynchronizerState {
    /// A semaphore.
    Semaphore {
        /// Permits that can be acquired now. Negative if permits were taken away while they were
        /// held.
        free: i64,
        /// Permits that are held with a lease. `None` for a semaphore without leases: then the
        /// server does not know how many are held.
        leased: Option<u64>,
        /// The time until the first of these leases ends, unless it is renewed.
        next_end: Option<Duration>,
        /// The length of the queue of a fair semaphore.
        queue_len: u64,
    },
    /// A latch.
    Latch {
        /// The remaining count.
        count: i64,
        /// The number of the round. `None` if only Redisson's clients have used the latch.
        round: Option<u64>,
    },
    /// A barrier.
    Barrier {
        /// How often it has opened.
        round: u64,
        /// The number of parties that open it.
        parties: u64,
        /// The number of parties that wait.
        waiting: u64,
    },
    /// A double barrier.
    DoubleBarrier {
        /// How often it has opened.
        session: u64,
        /// The number of parties that open it.
        parties: u64,
        /// The number of parties that wait outside.
        waiting: u64,
        /// The number of parties inside.
        inside: u64,
    },
    /// A phaser.
    Phaser {
        /// The current phase, from 0.
        phase: u64,
        /// The number of registered parties.
        parties: u64,
        /// The number of parties that have arrived at the phase.
        arrived: u64,
        /// Whether it has ended.
        has_ended: bool,
    },
    /// A `Notify` or a condition variable.
    WaitQueue {
        /// How often all waiters were notified.
        round: u64,
        /// The number of waiters.
        waiting: u64,
        /// Whether a notification is stored for the next waiter.
        has_permit: bool,
    },
    /// An event.
    Event {
        /// Whether it is set.
        is_set: bool,
        /// How often it became set.
        times: u64,
    },
    /// An election.
    Election {
        /// The leader. `None` if there is none.
        leader: Option<HolderView>,
        /// The term of the leader.
        term: Option<u64>,
        /// The remaining lease of the leader.
        lease_left: Option<Duration>,
    },
}

/// The reply of the script.
struct Stored {
    lifetime: Option<Duration>,
    /// The server's time, in milliseconds since 1970.
    now: u64,
    values: Vec<Bytes>,
    /// Three parts for each companion.
    companions: Vec<Bytes>,
}

impl Stored {
    fn number(&self, at: usize) -> u64 {
        self.values.get(at).and_then(|value| number(value)).unwrap_or_default()
    }

    /// Returns a part of a companion: 0 its length, 1 the number of scores in the future, 2 the
    /// time until the first of them.
    fn of_companion<N: std::str::FromStr>(&self, companion: usize, part: usize) -> Option<N> {
        self.companions.get(companion * 3 + part).and_then(|part| number(part))
    }

    fn len(&self, companion: usize) -> u64 {
        self.of_companion(companion, 0).unwrap_or_default()
    }

    fn live(&self, companion: usize) -> u64 {
        self.of_companion(companion, 1).unwrap_or_default()
    }
}

impl Inspector {
    /// Reads a synchronizer of this kind; `None` if it does not exist, or is of another kind.
    ///
    /// At most three keys are read: numbers, and some fields of a hash.
    ///
    /// # Errors
    ///
    /// [`InspectError::Failed`] if the name is invalid, no server answers, or the user may not read
    /// the object.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn synchronizer(
        &self,
        name: impl AsRef<str>,
        kind: ObjectKind,
    ) -> Result<Option<SynchronizerView>, InspectError> {
        let name = Name::new(name)?;
        if kind == ObjectKind::Election {
            return self.election(&name).await;
        }
        let keys = keys_of(kind, &self.client.key(&name));
        if keys.is_empty() {
            return Ok(None);
        }
        let failed = |source| InspectError::of_object("read the synchronizer", name.as_str(), source);
        let stored = self.stored_synchronizer(keys, fields_of(kind)).await.map_err(failed)?;
        let view = |stored: Stored| {
            let state = state_of(kind, &stored)?;
            Some(SynchronizerView { name: name.as_str().to_owned(), kind, state, lifetime: stored.lifetime })
        };
        Ok(stored.and_then(view))
    }

    async fn stored_synchronizer(
        &self,
        keys: Vec<Bytes>,
        fields: &[&'static str],
    ) -> Result<Option<Stored>, ServerError> {
        let request = SYNCHRONIZER.with(keys.into_iter().take(3));
        let request = fields.iter().fold(request, |request, field| request.arg(*field));
        let reply: Vec<Bytes> = self.client.run(request.idempotent()).await?;
        let type_name = if fields.is_empty() { "string" } else { "hash" };
        let [found, left, now, parts @ ..] = reply.as_slice() else { return Ok(None) };
        if found[..] != *type_name.as_bytes() {
            return Ok(None);
        }
        let (values, companions) = parts.split_at_checked(fields.len().max(1)).unwrap_or_default();
        let lifetime = number(left).map(Duration::from_millis);
        let now = number(now).unwrap_or_default();
        Ok(Some(Stored { lifetime, now, values: values.to_vec(), companions: companions.to_vec() }))
    }

    async fn election(&self, name: &Name) -> Result<Option<SynchronizerView>, InspectError> {
        let lock = self.lock(name).await?;
        if lock.kind != LockKind::Election {
            return Ok(None);
        }
        let failed = |source| InspectError::of_object("read the election", name.as_str(), source);
        let request = Request::command("HGET").key(companion("redgrid_leader", &self.client.key(name))).arg("term");
        let term = unless_unreadable(self.client.run::<Option<Bytes>>(request.idempotent()).await).map_err(failed)?;
        let state = SynchronizerState::Election {
            leader: lock.holders.first().cloned(),
            term: term.flatten().and_then(|term| number(&term)),
            lease_left: lock.lease_left,
        };
        let (name, kind) = (name.as_str().to_owned(), ObjectKind::Election);
        Ok(Some(SynchronizerView { name, kind, state, lifetime: lock.lease_left }))
    }
}

/// Returns the keys of a synchronizer, the primary one first; none for other kinds.
fn keys_of(kind: ObjectKind, key: &[u8]) -> Vec<Bytes> {
    match kind {
        ObjectKind::Semaphore | ObjectKind::PermitExpirableSemaphore => layouts::permit_expirable_semaphore(key),
        ObjectKind::CountDownLatch => layouts::countdown_latch(key),
        ObjectKind::Barrier => layouts::barrier(key),
        ObjectKind::DoubleBarrier => layouts::double_barrier(key),
        ObjectKind::Phaser => layouts::phaser(key),
        ObjectKind::Notify => layouts::notify(key),
        ObjectKind::Condition => layouts::condition(key),
        ObjectKind::Event => layouts::event(key),
        _ => Vec::new(),
    }
}

/// Returns the fields that are read of the hash of a synchronizer; none for a string.
fn fields_of(kind: ObjectKind) -> &'static [&'static str] {
    match kind {
        ObjectKind::Barrier => &["round", "parties"],
        ObjectKind::DoubleBarrier => &["session", "parties"],
        ObjectKind::Phaser => &["phase", "ended"],
        ObjectKind::Notify | ObjectKind::Condition => &["round", "permit"],
        ObjectKind::Event => &["set", "times", "until"],
        _ => &[],
    }
}

fn state_of(kind: ObjectKind, stored: &Stored) -> Option<SynchronizerState> {
    Some(match kind {
        ObjectKind::Semaphore | ObjectKind::PermitExpirableSemaphore => {
            let left: i64 = number(stored.values.first()?)?;
            let (len, leased) = (stored.len(0), stored.live(0));
            let expired = i64::try_from(len.saturating_sub(leased)).unwrap_or(i64::MAX);
            SynchronizerState::Semaphore {
                // Expired leases are returned by the next request.
                free: left.saturating_add(expired),
                leased: (kind == ObjectKind::PermitExpirableSemaphore).then_some(leased),
                next_end: stored.of_companion(0, 2).map(Duration::from_millis),
                queue_len: stored.len(1),
            }
        }
        ObjectKind::CountDownLatch => {
            SynchronizerState::Latch { count: number(stored.values.first()?)?, round: stored.of_companion(0, 0) }
        }
        ObjectKind::Barrier => {
            SynchronizerState::Barrier { round: stored.number(0), parties: stored.number(1), waiting: stored.live(0) }
        }
        ObjectKind::DoubleBarrier => SynchronizerState::DoubleBarrier {
            session: stored.number(0),
            parties: stored.number(1),
            waiting: stored.live(0),
            inside: stored.live(1),
        },
        ObjectKind::Phaser => SynchronizerState::Phaser {
            phase: stored.number(0),
            parties: stored.live(0),
            arrived: stored.len(1),
            has_ended: stored.number(1) == 1,
        },
        ObjectKind::Notify | ObjectKind::Condition => SynchronizerState::WaitQueue {
            round: stored.number(0),
            waiting: stored.len(0),
            has_permit: stored.number(1) == 1,
        },
        ObjectKind::Event => {
            let until = stored.number(2);
            let is_set = stored.number(0) == 1 && (until == 0 || until > stored.now);
            SynchronizerState::Event { is_set, times: stored.number(1) }
        }
        _ => return None,
    })
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
