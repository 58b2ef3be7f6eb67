//! Readers and writers: several grants of one key, and holds that are converted into others.
//!
//! A reader's request shares an existing grant if it is made within the grant's hand-over window,
//! and if the grant satisfies the request's options. Otherwise the request leads to a second grant
//! of the same key. A request that converts another hold always has a grant of its own. There are
//! two such conversions: the holder of the write lock requests a read lock, or the holder of a read
//! lock requests the write lock.

mod waiting;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::Request;

use super::acquire::{HoldGuard, PendingAcquire};
use super::error::AcquireError;
use super::handover_window::LeaseFit;
use super::hold::{Hold, ServerLease};
use super::protocol::{AcquireRequest, HoldArgs, Holder, LockKeys, LockProtocol};
use super::table::{Answers, Busy, LockId, LockState, Schedule, State, Table, Waiter};
use crate::clock::Instant;

/// Arguments that a reader's or writer's request sends in addition to its options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct AcquireContext {
    /// Holder field of the hold that this request converts, on the same key; `None` if it converts
    /// none.
    ///
    /// Such a hold is a write lock whose holder requests a read lock, or a read lock whose holder
    /// requests the write lock.
    pub under: Option<Bytes>,
    /// Server time since which the request waits, in microseconds; zero for a new request.
    pub since: u64,
    /// Whether the request waits if the lock is taken; `false` for a try-only request.
    pub waits: bool,
}

/// One of the two modes of a read-write lock.
pub trait ReadWriteMode: Send + Sync {
    /// Returns whether tasks of this process share a grant: a request within the grant's hand-over
    /// window joins the grant.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns the name of the lock kind that is the other mode of the same read-write lock.
    fn paired_mode(&self) -> &'static str;

    /// Returns the acquire request, like [`LockProtocol::acquire`], with the `context` as further
    /// arguments.
    fn enter(&self, claim: HoldArgs<'_>, context: &AcquireContext) -> Request;

    /// Returns the interval at which a client announces its waiting requests; `None` if requests of
    /// this mode are not announced. Later requests of the other mode wait behind an announced
    /// request.
    fn announces_every(&self) -> Option<Duration> {
        None
    }

    /// Returns the request that announces a waiter of the client with this id; `None` for kinds
    /// without announcements.
    ///
    /// A client numbers its announcements and its acquires in one ascending sequence. The number of
    /// an acquire is part of its holder field.
    fn announce(&self, _target: &LockKeys, _client: &str, _number: u64) -> Option<Request> {
        None
    }

    /// Returns the request that withdraws the announcement. The request has no effect if the client
    /// has made a later announcement, which has a higher number.
    fn withdraw(&self, _target: &LockKeys, _client: &str, _number: u64) -> Option<Request> {
        None
    }

    /// Returns the request that lists the holders. The reply is the argument of
    /// [`evict_expired`](ReadWriteMode::evict_expired).
    fn holders(&self, _target: &LockKeys) -> Option<Request> {
        None
    }

    /// Returns requests that evict expired holders: those in the given list whose leases have
    /// ended.
    ///
    /// Waiters send these requests periodically.
    fn evict_expired(&self, _target: &LockKeys, _holders: &[Bytes]) -> Vec<Request> {
        Vec::new()
    }

    /// Returns the request that ends a retention, which [`LockProtocol::retain`] began. Returns
    /// `None` if no request is needed, because the key expires when the retention is over.
    ///
    /// The write lock needs the request: its former holder may still have a read lock, and extend
    /// the lifetime of the key. The request can be sent more than once.
    fn end_retained(&self, _claim: HoldArgs<'_>) -> Option<Request> {
        None
    }
}

/// The fields of a lock state that only readers and writers need.
#[derive(Default)]
pub(in crate::lock) struct SharedGrant {
    /// The requests convert a hold of the server lease with this id; `None` if they convert no
    /// hold.
    pub(in crate::lock) under: Option<u64>,
    /// Whether this grant is for a single request: no other request is allowed to share it.
    is_private: bool,
    /// Server time since which the requests wait, in microseconds; 0 while none waits.
    waits_since: u64,
    /// Whether the server has an announcement that this client has a waiter.
    is_announced: bool,
}

impl SharedGrant {
    /// Records that a waiter was granted the lock. On the server, the grant has withdrawn the
    /// waiter's announcement.
    pub(in crate::lock) fn stops_waiting(&mut self) {
        (self.waits_since, self.is_announced) = (0, false);
    }
}

/// A new request is compared with at most this many grants of its key, newest first: 4. A key has
/// more shareable grants only if its requests differ in their options.
const COMPARED_GRANTS: usize = 4;

/// For each lock kind and key, the numbers of the grants that have a number of their own: grants of
/// readers and of conversions. All other grants have number 0 (see [`LockId`]).
#[derive(Default)]
pub(in crate::lock) struct GrantSet(HashMap<(&'static str, Bytes), Vec<u64>>);

impl GrantSet {
    pub(in crate::lock) fn insert(&mut self, key: &LockId) {
        self.0.entry((key.kind, key.key().clone())).or_default().push(key.grant);
    }

    pub(in crate::lock) fn remove(&mut self, key: &LockId) {
        let of = (key.kind, key.key().clone());
        if let Some(grants) = self.0.get_mut(&of) {
            grants.retain(|grant| *grant != key.grant);
            if grants.is_empty() {
                self.0.remove(&of);
            }
        }
    }

    /// Returns the grants of a key that are in this set, from the newest to the oldest.
    fn of(&self, kind: &'static str, target: &Arc<LockKeys>) -> impl Iterator<Item = LockId> + use<'_> {
        let grants = if self.0.is_empty() { None } else { self.0.get(&(kind, target.key.clone())) };
        let target = Arc::clone(target);
        grants.into_iter().flatten().rev().map(move |grant| LockId { kind, keys: Arc::clone(&target), grant: *grant })
    }
}

impl State {
    /// Returns the ids of all lock states of a key: those of this kind, and those of the other mode
    /// of a read-write lock.
    pub(in crate::lock) fn all_of(&self, kind: &dyn LockProtocol, keys: &Arc<LockKeys>) -> Vec<LockId> {
        let kinds = std::iter::once(kind.name()).chain(kind.read_write().map(ReadWriteMode::paired_mode));
        kinds.flat_map(|kind| self.grants_of(kind, keys)).collect()
    }

    /// Returns the ids of a key's lock states of one kind.
    ///
    /// The first id always has grant number 0. Only grants of readers and of conversions have other
    /// numbers (see [`LockId`]). The first id is returned even if no lock state has it.
    pub(in crate::lock) fn grants_of(
        &self,
        kind: &'static str,
        keys: &Arc<LockKeys>,
    ) -> impl Iterator<Item = LockId> + use<'_> {
        std::iter::once(LockId { kind, keys: Arc::clone(keys), grant: 0 }).chain(self.grants.of(kind, keys))
    }

    /// Returns whether a request of this process waits for the same key in the paired mode (writing
    /// for a read lock, and vice versa).
    pub(in crate::lock) fn waits_in_paired_mode(&self, kind: &dyn LockProtocol, keys: &Arc<LockKeys>) -> bool {
        let waits = |key: LockId| {
            self.locks.get(&key).is_some_and(|lock| lock.queue.iter().any(|waiter| !waiter.answer.is_closed()))
        };
        kind.read_write().is_some_and(|mode| self.grants_of(mode.paired_mode(), keys).any(waits))
    }

    /// Finds the hold that the request converts: a hold of the same holder in the paired mode.
    /// Returns the id of its server lease; `None` if there is no such hold.
    ///
    /// The error is [`AcquireError::WouldDeadlock`] if the request would wait for a hold of its own
    /// holder, or for a hold of the current holder (`Holder::scope`).
    pub(in crate::lock) fn held_in_paired_mode(
        &self,
        kind: &dyn LockProtocol,
        keys: &Arc<LockKeys>,
        request: &AcquireRequest,
    ) -> Result<Option<u64>, AcquireError> {
        let scope = Holder::current().map(|holder| holder.id());
        let Some(mode) = kind.read_write().filter(|_| request.holder.is_some() || scope.is_some()) else {
            return Ok(None);
        };
        let locks: Vec<&LockState> = self
            .grants_of(mode.paired_mode(), keys)
            .filter_map(|key| self.locks.get(&key).map(|lock| &**lock))
            .collect();
        let mut held = locks.iter().flat_map(|lock| lock.held()).filter(|hold| hold.request.holder.is_some());
        match held.find(|hold| hold.request.holder == request.holder || hold.request.holder == scope) {
            Some(hold) if mode.is_shared() && hold.request.holder == request.holder => {
                // From now on, the hold of the new request depends on this server lease. So this
                // lease must not be handed over locally.
                hold.server_lease.seal();
                Ok(Some(hold.server_lease.id))
            }
            Some(_) if !request.once => Err(AcquireError::WouldDeadlock { name: keys.name.clone() }),
            _ => Ok(None),
        }
    }
}

impl Table {
    /// Lets the request share an existing grant, if that is possible at once. Otherwise returns
    /// `None`, and chooses the lock state in which the request waits: an existing one or a new one.
    /// The key of `pending` identifies it.
    pub(in crate::lock) fn place(
        &self,
        state: &mut State,
        pending: &mut PendingAcquire,
        under: Option<u64>,
    ) -> Option<Arc<Hold>> {
        let (kind, request, whole) = (pending.kind, &pending.request.options, pending.key.clone());
        if under.is_none() && !kind.is_shared() {
            return None;
        }
        let keys = &whole.keys;
        let is_private = under.is_some() || !request.at_least.is_zero() || request.max_hold.is_some();
        let (now, handover_window) = (self.now(), self.handover_window(kind, &whole));
        if !is_private {
            let candidates: Vec<LockId> = state.grants.of(whole.kind, keys).take(COMPARED_GRANTS).collect();
            let State { locks, schedule, .. } = &mut *state;
            for key in candidates {
                let Some(lock) = locks.get_mut(&key) else { continue };
                if lock.shared.as_ref().is_some_and(|shared| shared.is_private) {
                    continue;
                }
                if let Some(server_lease) = shareable(lock, request, handover_window, now) {
                    return Some(self.create_hold((schedule, lock), &server_lease, (now, now), Arc::clone(request)));
                }
                if lock.can_join_pending(request, handover_window, now) {
                    pending.key = key;
                    return None;
                }
            }
        }
        let mut lock = Box::new(LockState::new(kind, Arc::clone(keys), now));
        lock.shared = Some(Box::new(SharedGrant { under, is_private, ..SharedGrant::default() }));
        pending.key = LockId { grant: self.number(), ..whole };
        state.grants.insert(&pending.key);
        state.locks.insert(pending.key.clone(), lock);
        None
    }

    /// Gives every waiter a hold of the shared grant.
    pub(in crate::lock) fn share(
        &self,
        (schedule, lock): (&mut Schedule, &mut LockState),
        server_lease: &Arc<ServerLease>,
        (from, now): (Instant, Instant),
        waiters: impl Iterator<Item = Waiter>,
    ) -> Answers {
        let mut answers = Answers::new();
        for waiter in waiters.filter(|waiter| !waiter.answer.is_closed()) {
            self.wait_ended(lock, &waiter.request, || now);
            let hold =
                self.create_hold((schedule, lock), server_lease, (from, now), Arc::clone(&waiter.request.options));
            answers.push((waiter.answer, Ok(Some(HoldGuard::first(waiter.client, hold)))));
        }
        answers
    }

    /// Returns whether other holds share the server lease of `hold`.
    pub(in crate::lock) fn is_shared(&self, hold: &Arc<Hold>) -> bool {
        let state = self.state();
        let lock = state.locks.get(&hold.server_lease.lock_id());
        lock.is_some_and(|lock| lock.has(&hold.server_lease) && lock.holds.len() > 1)
    }
}

impl HoldGuard {
    /// Converts this hold: requests a hold of the other mode on the same key. This hold continues.
    ///
    /// Returns `None` if a try-only request finds other holders of the key, or if the new hold
    /// would exclude tasks that share this hold's grant.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state after the failure. The error is `Lost` if this hold has
    /// ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not change this hold. If the server grants the new hold all the
    /// same, the grant is released in the background.
    pub async fn convert(
        &self,
        kind: &'static dyn LockProtocol,
        request: AcquireRequest,
    ) -> Result<Option<HoldGuard>, AcquireError> {
        let (table, server_lease) = (self.table(), &self.hold.server_lease);
        {
            let state = table.state();
            if !self.hold.is_held() {
                return Err(AcquireError::Lost { name: server_lease.keys.name.clone() });
            }
            // Seal before checking for other sharers, so that no task joins them after the check.
            server_lease.seal();
            let lock = state.locks.get(&server_lease.lock_id()).filter(|lock| lock.has(server_lease));
            if !kind.is_shared() && lock.is_none_or(|lock| lock.holds.len() != 1) {
                return Ok(None);
            }
        }
        let under = Some(server_lease.id);
        table.enter_from(&self.client, kind, &server_lease.keys, &request, under)?.outcome().await
    }

    /// Returns whether other tasks of this process share the same grant of the server.
    pub fn is_shared(&self) -> bool {
        self.table().is_shared(&self.hold)
    }

    /// Completes when no other task shares the grant any more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn unshared(&self) {
        let alone = self.hold.server_lease.alone();
        loop {
            let mut notified = std::pin::pin!(alone.notified());
            notified.as_mut().enable();
            if !self.is_shared() {
                return;
            }
            notified.await;
        }
    }
}

/// Returns the server lease of a lock state, if the request can share it.
fn shareable(
    lock: &LockState,
    request: &AcquireRequest,
    handover_window: Duration,
    now: Instant,
) -> Option<Arc<ServerLease>> {
    let server_lease = lock.server_lease.as_ref().filter(|ours| ours.is_valid_locally() && ours.may_hand_over(now))?;
    let is_held = lock.busy == Busy::No && lock.held().next().is_some();
    (is_held && satisfies(server_lease, request, handover_window, now)).then(|| Arc::clone(server_lease))
}

fn satisfies(server_lease: &ServerLease, request: &AcquireRequest, handover_window: Duration, now: Instant) -> bool {
    // All sharers have the same durability, so that renewals satisfy each of them.
    request.durability == server_lease.wanted_durability()
        && server_lease.fit(request, handover_window, now) == LeaseFit::Yes
}

impl LockState {
    /// Returns whether the request can join the queue of this lock state. There are two cases: the
    /// request can share the grant that the queued requests wait for, or it can reclaim the server
    /// lease before the release of that lease is sent.
    fn can_join_pending(&self, request: &AcquireRequest, handover_window: Duration, now: Instant) -> bool {
        if self.is_reclaimable(now) {
            return self.queue.is_empty()
                && self.server_lease.as_ref().is_some_and(|had| satisfies(had, request, handover_window, now));
        }
        let is_alike = |waiter: &Waiter| {
            waiter.request.options.lease == request.lease && waiter.request.options.durability == request.durability
        };
        self.server_lease.is_none()
            && self.busy == Busy::No
            && !self.queue.is_empty()
            && self.queue.iter().all(is_alike)
    }

    /// Does the work that is due after a hold of a server lease has ended. If one sharer remains,
    /// it is notified. If only forgotten holds (without a guard) remain, renewals stop.
    pub(in crate::lock) fn left_by_one(&self, server_lease: &ServerLease) {
        if self.holds.len() == 1 {
            server_lease.left_alone();
        }
        if self.is_forgotten() {
            server_lease.stop_renewing();
        }
    }
}
