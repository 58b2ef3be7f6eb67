//! Several lock states for one key.
//!
//! Tasks that may hold together share a grant if they request it within its hand-over window, with
//! options that it satisfies. Later requests, or those with other options, open a further grant
//! beside it. A request that converts from another hold has a grant of its own, too. Examples are a
//! writer that reads and a reader that becomes a writer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::error::AcquireError;
use super::guard::HoldGuard;
use super::handover_window::{self, CurrentLease, LeaseFit};
use super::hold::Hold;
use super::holder::{Holder, HolderId};
use super::lock_state::{Busy, LockId, LockState};
use super::pending_acquire::PendingAcquire;
use super::protocol::{LockKeys, LockProtocol};
use super::server_lease::{Schedule, ServerLease};
use super::table::{State, Table};
use super::terms::AcquireRequest;
use super::waiter::{Answers, Waiter};
use crate::clock::Instant;
use crate::connection::{Client, Reply, Request, once};
/// Grants that a new request is compared with, newest first. Further grants exist only for other
/// options.
const COMPARED_GRANTS: usize = 4;

/// The further grants of each key, by lock kind.
#[derive(Default)]
pub(super) struct GrantSet(HashMap<(&'static str, Bytes), Vec<u64>>);

impl GrantSet {
    pub(super) fn insert(&mut self, key: &LockId) {
        if key.2 != 0 {
            self.0.entry((key.0, key.key().clone())).or_default().push(key.2);
        }
    }

    pub(super) fn remove(&mut self, key: &LockId) {
        if key.2 == 0 {
            return;
        }
        let of = (key.0, key.key().clone());
        if let Some(parts) = self.0.get_mut(&of) {
            parts.retain(|part| *part != key.2);
            if parts.is_empty() {
                self.0.remove(&of);
            }
        }
    }

    /// Returns the grants of a key, newest first.
    fn of(&self, kind: &'static str, target: &Arc<LockKeys>) -> impl Iterator<Item = LockId> + use<'_> {
        let parts = if self.0.is_empty() { None } else { self.0.get(&(kind, target.key.clone())) };
        let target = Arc::clone(target);
        parts.into_iter().flatten().rev().map(move |part| LockId(kind, Arc::clone(&target), *part))
    }
}

impl State {
    /// Returns the ids of all lock states of a key, of this kind and of its paired mode.
    pub(super) fn all_of(&self, kind: &dyn LockProtocol, target: &Arc<LockKeys>) -> Vec<LockId> {
        let kinds = std::iter::once(kind.name()).chain(kind.paired_mode());
        kinds.flat_map(|kind| self.grants_of(kind, target)).collect()
    }

    /// Returns the ids of a key's lock states, including one that may not exist.
    pub(super) fn grants_of(
        &self,
        kind: &'static str,
        target: &Arc<LockKeys>,
    ) -> impl Iterator<Item = LockId> + use<'_> {
        std::iter::once(LockId(kind, Arc::clone(target), 0)).chain(self.parts.of(kind, target))
    }

    /// Returns whether a request of this process waits for the key in the paired mode.
    pub(super) fn waits_in_paired_mode(&self, kind: &dyn LockProtocol, target: &Arc<LockKeys>) -> bool {
        let waits = |key: LockId| {
            self.locks.get(&key).is_some_and(|lock| lock.queue.iter().any(|entry| !entry.answer.is_closed()))
        };
        kind.paired_mode().is_some_and(|other| self.grants_of(other, target).any(waits))
    }

    /// Returns the holder field from which the request may convert, if its holder has the paired
    /// mode.
    ///
    /// A request that would wait for its own hold fails with [`AcquireError::WouldDeadlock`].
    pub(super) fn held_in_paired_mode(
        &self,
        kind: &dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: &AcquireRequest,
    ) -> Result<Option<Bytes>, AcquireError> {
        let Some(other) = kind.paired_mode() else { return Ok(None) };
        let scope = Holder::current().map(|holder| holder.id());
        if request.holder.is_none() && scope.is_none() {
            return Ok(None);
        }
        let locks: Vec<&LockState> =
            self.grants_of(other, target).filter_map(|key| self.locks.get(&key).map(|lock| &**lock)).collect();
        let mut held = locks.iter().flat_map(|lock| lock.held()).filter(|hold| hold.holder().is_some());
        let (waits, deadlock) = (!request.once, AcquireError::WouldDeadlock { name: target.name.clone() });
        match held.find(|hold| hold.holder() == request.holder || hold.holder() == scope) {
            Some(hold) if kind.is_shared() && hold.holder() == request.holder => {
                // While a second hold exists under it, the lease is released without local
                // hand-over.
                hold.server_lease.seal();
                Ok(Some(hold.server_lease.copied_field()))
            }
            Some(_) if waits => Err(deadlock),
            _ => Ok(None),
        }
    }
}

impl Table {
    /// Places a request into an existing or new lock state, or shares an existing grant at once.
    pub(super) fn place(
        &self,
        state: &mut State,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        (request, under): (&Arc<AcquireRequest>, &Option<Bytes>),
    ) -> Placement {
        let whole = LockId::of(kind, target);
        if under.is_none() && !kind.is_shared() {
            return Placement::Queue(whole);
        }
        let private = under.is_some() || !request.at_least.is_zero() || request.max_hold.is_some();
        let (now, handover_window) = (self.now(), self.handover_window(kind, &whole));
        if !private {
            let looks: Vec<LockId> = state.parts.of(whole.0, target).take(COMPARED_GRANTS).collect();
            let State { locks, schedule, .. } = &mut *state;
            for key in looks {
                let Some(lock) = locks.get_mut(&key).filter(|lock| !lock.private) else { continue };
                if let Some(server_lease) = shareable(lock, request, handover_window, now) {
                    let hold = self.create_hold((schedule, lock), &server_lease, (now, now), Arc::clone(request));
                    return Placement::Shared(hold);
                }
                if lock.can_join_pending(request, handover_window, now) {
                    return Placement::Queue(key);
                }
            }
        }
        let key = LockId(whole.0, whole.1, self.number());
        let mut lock = Box::new(LockState::new(kind, Arc::clone(target), now));
        (lock.private, lock.under) = (private, under.clone().map(Box::new));
        state.parts.insert(&key);
        state.locks.insert(key.clone(), lock);
        Placement::Queue(key)
    }

    /// Gives every waiter a hold of the shared grant.
    pub(super) fn share(
        &self,
        (schedule, lock): (&mut Schedule, &mut LockState),
        server_lease: &Arc<ServerLease>,
        (from, now): (Instant, Instant),
        entries: impl Iterator<Item = Waiter>,
    ) -> Answers {
        let mut answers = Answers::new();
        for entry in entries {
            let hold = self.create_hold((schedule, lock), server_lease, (from, now), entry.request);
            answers.push((entry.answer, Ok(Some(HoldGuard::first(entry.client, hold)))));
        }
        answers
    }

    /// Returns whether the holder has the key, in this mode or the paired one.
    pub(crate) fn is_in(&self, kind: &dyn LockProtocol, target: &Arc<LockKeys>, holder: HolderId) -> bool {
        self.any_hold(kind, target, |hold| hold.holder() == Some(holder))
    }

    /// Returns whether this client holds the key, in this mode or the paired one.
    pub(crate) fn holds_key(&self, kind: &dyn LockProtocol, target: &Arc<LockKeys>) -> bool {
        self.any_hold(kind, target, |_| true)
    }

    fn any_hold(&self, kind: &dyn LockProtocol, target: &Arc<LockKeys>, is_it: impl Fn(&Hold) -> bool) -> bool {
        let state = self.state();
        let locks = state.all_of(kind, target);
        let mut held = locks.iter().filter_map(|key| state.locks.get(key)).flat_map(|lock| lock.held());
        held.any(|hold| is_it(hold))
    }

    /// Returns whether other holds share the server lease.
    pub(super) fn is_shared(&self, hold: &Arc<Hold>) -> bool {
        let state = self.state();
        state
            .locks
            .get(&hold.server_lease.lock_id())
            .is_some_and(|lock| lock.has(&hold.server_lease) && lock.holds.len() > 1)
    }

    /// Requests `kind` of the same key, converting from `hold`; `None` if other sharers prevent
    /// that.
    pub(super) fn enter_converting(
        self: &Arc<Self>,
        client: &Client,
        hold: &Arc<Hold>,
        kind: &'static dyn LockProtocol,
        request: AcquireRequest,
    ) -> Result<Option<PendingAcquire>, AcquireError> {
        let server_lease = &hold.server_lease;
        {
            let state = self.state();
            let alone = || {
                let lock = state.locks.get(&server_lease.lock_id()).filter(|lock| lock.has(server_lease));
                lock.is_some_and(|lock| lock.holds.len() == 1)
            };
            if !hold.is_held() {
                return Err(AcquireError::Lost { name: server_lease.keys.name.clone() });
            }
            // Seal before checking for other sharers: no task joins them afterwards.
            server_lease.seal();
            if !kind.is_shared() && !alone() {
                return Ok(None);
            }
        }
        self.enter_from(client, kind, &server_lease.keys, request, Some(server_lease.copied_field())).map(Some)
    }

    /// Withdraws the announcement of a waiter, if one was sent.
    pub(super) fn withdraw(&self, lock: &mut LockState) {
        if std::mem::take(&mut lock.announced)
            && let Some(request) = lock.protocol.withdraw(&lock.keys, &self.core.id, self.number())
        {
            // If the withdrawal is lost, the announcement expires.
            self.run_detached(request);
        }
    }

    /// Sends `request` once from a background task and ignores the outcome.
    pub(crate) fn run_detached(&self, request: Request) {
        let (core, limit) = (Arc::clone(&self.core), self.now() + self.core.settings.response_timeout);
        self.spawn_background(Box::pin(async move {
            let _ = once(&*core.topology, request, limit).await;
        }));
    }

    /// Announces that a request of this process waits.
    pub(super) async fn announce(&self, key: &LockId, within: Duration) {
        let request = {
            let mut state = self.state();
            let Some(lock) = state.locks.get_mut(key) else { return };
            lock.announced = true;
            lock.protocol.announce(&lock.keys, &self.core.id, self.number())
        };
        if let Some(request) = request {
            let _ = once(&*self.core.topology, request, self.now() + within).await;
        }
    }

    /// Evicts holders with expired leases; otherwise they would block until the key's TTL ends.
    pub(super) async fn evict_expired(&self, key: &LockId, within: Duration) {
        let about = self.state().locks.get(key).map(|lock| (lock.protocol, Arc::clone(&lock.keys)));
        let Some((kind, target)) = about else { return };
        let (Some(request), limit) = (kind.holders(&target), self.now() + within) else { return };
        let answer = once(&*self.core.topology, request, limit).await.result;
        let Ok(holders) = answer.and_then(Reply::into_typed::<Vec<Bytes>>) else { return };
        for request in kind.evict_expired(&target, &holders) {
            // A holder that is missed here is found the next time.
            let _ = once(&*self.core.topology, request, limit).await;
        }
    }
}

/// Where a request was placed.
pub(super) enum Placement {
    Queue(LockId),
    /// Granted already, through a shared grant.
    Shared(Arc<Hold>),
}

/// Returns the server lease of a lock state, if it can be shared with the request.
fn shareable(
    lock: &LockState,
    request: &AcquireRequest,
    handover_window: Duration,
    now: Instant,
) -> Option<Arc<ServerLease>> {
    let server_lease = lock
        .server_lease
        .as_ref()
        .filter(|server_lease| server_lease.is_valid_locally() && server_lease.may_hand_over(now))?;
    let shared = lock.busy == Busy::No && lock.held().next().is_some();
    (shared && satisfies(server_lease, request, handover_window, now)).then(|| Arc::clone(server_lease))
}

fn satisfies(server_lease: &ServerLease, request: &AcquireRequest, handover_window: Duration, now: Instant) -> bool {
    let (renewed, lease) = (server_lease.has_renewed_lease(), server_lease.lease());
    let (deadline, durability) = (server_lease.deadline(), server_lease.durability());
    let held = CurrentLease { renewed, lease, deadline, durability };
    // All sharers have the same durability, so that renewals satisfy each of them.
    request.durability == server_lease.wanted_durability()
        && handover_window::fit(&held, request, handover_window, now) == LeaseFit::Yes
}

impl LockState {
    /// Returns whether the request may wait with the others, because it can share their grant.
    fn can_join_pending(&self, request: &AcquireRequest, handover_window: Duration, now: Instant) -> bool {
        if self.is_reclaimable(now) {
            return self.queue.is_empty()
                && self.server_lease.as_ref().is_some_and(|had| satisfies(had, request, handover_window, now));
        }
        let alike =
            |entry: &Waiter| entry.request.lease == request.lease && entry.request.durability == request.durability;
        self.server_lease.is_none() && self.busy == Busy::No && !self.queue.is_empty() && self.queue.iter().all(alike)
    }
}
