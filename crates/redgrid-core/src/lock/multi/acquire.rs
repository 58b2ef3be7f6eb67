//! Atomic acquire of several keys: all or none, by one script for keys in the same hash slot.
//!
//! Each granted key becomes a server lease of its own. That server lease is renewed, lost,
//! re-entered and handed over like one that was acquired alone.

use std::sync::Arc;
use std::time::Duration;

use redgrid_client::internal::{Progress, RequestOutcome, RetryPolicy, jittered};
use redgrid_client::{Client, ServerError};
use tokio::sync::oneshot;

use super::MultiGrant;
use crate::clock::Instant;
use crate::lease::deadline;
use crate::lock::acquire::{GRACE, HoldGuard};
use crate::lock::attempt::{GrantReply, NotInstalled};
use crate::lock::cleanup::DeferredRelease;
use crate::lock::error::{AcquireError, AcquireFailure};
use crate::lock::hold::{Hold, ServerLease};
use crate::lock::not_granted::no_answer;
use crate::lock::protocol::{AcquireReply, AcquireRequest, HoldArgs, LockKeys, LockProtocol, parse_reply};
use crate::lock::reentry::reenter;
use crate::lock::table::{Answers, Busy, LockId, LockState, State, Table, send};

/// Number of keys after which the table is unlocked for a moment, so that other tasks can lock it.
const CHUNK: usize = 500;

/// The result of one attempt to acquire several keys.
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum MultiOutcome {
    /// All keys were acquired; the guards are in the order of the request.
    All(MultiGrant),
    /// None of the keys was acquired.
    Busy {
        /// Index of the first key that is taken.
        at: usize,
        /// Whether the key is held by any client, or has a waiter in this process.
        ///
        /// `false` if this process is only acquiring or releasing the key at the moment.
        theirs: bool,
    },
}

/// The result of the check whether this process's own state allows the acquire.
enum LocalCheck {
    Busy {
        at: usize,
        theirs: bool,
    },
    /// Other processes are still being notified of a release, and go first. The check must be
    /// repeated at the contained time.
    NotBefore(Instant),
    /// The keys in `wanted` are reserved: until the multi-key acquire has ended, this process sends
    /// no other acquire request for them.
    Reserved {
        /// The keys that the request's holder already holds: for each, its index in the request and
        /// a guard of the re-entered hold.
        entered: Entered,
        /// The other keys: for each, its index in the request and the end of the hand-over window
        /// that the grant continues. The end is `None` if the grant begins a new window.
        wanted: Wanted,
    },
}

type Entered = Vec<(usize, HoldGuard)>;
type Wanted = Vec<(usize, Option<Instant>)>;

/// An acquire of several keys of one lock kind and hash slot.
struct MultiRequest {
    client: Client,
    kind: &'static dyn LockProtocol,
    targets: Vec<Arc<LockKeys>>,
    request: AcquireRequest,
    until: Instant,
    progress: Arc<Progress>,
}

impl MultiRequest {
    fn key(&self, at: usize) -> LockId {
        LockId::of(self.kind, &self.targets[at])
    }
}

/// One request for all wanted keys, and its outcome.
struct MultiCall {
    /// For each key, its index in the acquire and the number in the holder field.
    claims: Vec<(usize, u64)>,
    outcome: RequestOutcome,
}

impl MultiCall {
    /// Returns the parsed reply, and the index of the key that the reply concerns.
    fn verdict(&self) -> (AcquireReply, usize) {
        let reply = || self.outcome.result.clone();
        // The script for a single key replies without the number of a key. Such a reply concerns
        // the first claim.
        let place = |nth: u64| {
            let at = usize::try_from(nth).ok().and_then(|nth| self.claims.get(nth.checked_sub(1)?));
            at.map_or(self.claims[0].0, |claim| claim.0)
        };
        let refused = reply().and_then(|reply| reply.into_typed::<(i64, u64, u64, String)>());
        if let Ok((REFUSED, _, nth, text)) = refused {
            let failure = AcquireFailure::from(ServerError::refused(text));
            let failure = if self.outcome.was_retransmitted() { failure.unknown() } else { failure };
            return (AcquireReply::Failed(failure), place(nth));
        }
        let nth = reply().and_then(|reply| reply.into_typed::<(i64, u64, i64, u64)>()).map_or(1, |(.., nth)| nth);
        (parse_reply(&self.outcome), place(nth))
    }

    fn deferred_release(&self, request: &MultiRequest, lease: Duration) -> DeferredRelease {
        let claims = self.claims.iter().map(|(at, id)| (Arc::clone(&request.targets[*at]), *id)).collect();
        DeferredRelease::of_all(request.kind, claims, lease, self.outcome.retransmission_ends)
    }
}

/// Status of a reply: the server has rejected the whole request because of one key.
const REFUSED: i64 = 3;

impl Table {
    /// Acquires all of `targets` or none.
    ///
    /// All keys must be in one hash slot. If there are several keys, their lock kind must have a
    /// [`multi_key`](LockProtocol::multi_key) protocol.
    pub(crate) async fn acquire_all(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn LockProtocol,
        targets: Vec<Arc<LockKeys>>,
        wanted: AcquireRequest,
        until: Instant,
    ) -> Result<MultiOutcome, AcquireError> {
        let Some((first, key)) = targets.first().map(|target| (target.name.clone(), target.key.clone())) else {
            return Ok(MultiOutcome::All(MultiGrant::of(Vec::new())));
        };
        let (answer, outcome) = oneshot::channel();
        let contact_deadline = self.now() + self.core.settings.patience();
        let over = until.min(contact_deadline + wanted.durability.timeout()) + GRACE;
        let progress = Arc::new(Progress::default());
        let (until, seen) = (until.min(contact_deadline), Arc::clone(&progress));
        let multi = MultiRequest { client: client.clone(), kind, targets, request: wanted, until, progress };
        let table = Arc::clone(self);
        // The attempt runs in a background task. If the caller's future is dropped, the result
        // cannot be delivered and is dropped, which releases the grants.
        self.core.spawn_background(Box::pin(async move {
            let _ = answer.send(table.try_all(&multi).await);
        }));
        tokio::select! {
            biased;
            answer = outcome => {
                answer.unwrap_or_else(|_| Err(AcquireFailure::ShuttingDown.into_error(&self.core, &first)))
            }
            () = self.core.clock.sleep_until(over) => {
                Err(no_answer(&self.core, &seen, &key).into_error(&self.core, &first))
            }
        }
    }

    async fn try_all(self: &Arc<Self>, multi: &MultiRequest) -> Result<MultiOutcome, AcquireError> {
        let mut waited = false;
        let (entered, wanted) = loop {
            match self.reserve(multi, waited)? {
                LocalCheck::Busy { at, theirs } => return Ok(MultiOutcome::Busy { at, theirs }),
                LocalCheck::NotBefore(instant) => self.core.clock.sleep_until(instant).await,
                LocalCheck::Reserved { entered, wanted } => break (entered, wanted),
            }
            waited = true;
        };
        if wanted.is_empty() {
            return Ok(MultiOutcome::All(MultiGrant::of(entered.into_iter().map(|(_, grant)| grant).collect())));
        }
        let handover_window = self.handover_window(multi.kind, &multi.key(wanted[0].0));
        let lease = multi.request.server_lease(handover_window);
        let mut was_late = false;
        let (failure, at) = loop {
            let call = self.send_multi(multi, &wanted, lease).await;
            let (outcome, first) = (&call.outcome, call.claims[0].0);
            let (reply, at) = call.verdict();
            let token = match reply {
                AcquireReply::Granted { token, .. } => token,
                AcquireReply::TooLate if !std::mem::replace(&mut was_late, true) => {
                    self.clean_up_copies(multi, &call, lease, false);
                    continue;
                }
                AcquireReply::Busy { .. } => {
                    self.clean_up_copies(multi, &call, lease, false);
                    self.unreserve(multi, &wanted);
                    return Ok(MultiOutcome::Busy { at, theirs: true });
                }
                AcquireReply::TooLate => {
                    self.clean_up_copies(multi, &call, lease, false);
                    break (AcquireFailure::too_late_twice(), first);
                }
                AcquireReply::Failed(failure) => {
                    self.clean_up_copies(multi, &call, lease, matches!(failure, AcquireFailure::Unknown(_)));
                    break (failure, at);
                }
            };
            if let Err(error) = self.core.commit(outcome, multi.request.durability, &multi.targets[first].key).await {
                // Release the grant first: otherwise a retry, or a new request of the caller, would
                // find the keys taken by this grant.
                self.clean_up(call.deferred_release(multi, lease)).await;
                if error.is_passing() && self.now() < multi.until {
                    tokio::time::sleep(jittered(self.core.settings.retry_delay)).await;
                    continue;
                }
                break (AcquireFailure::NotDurable(error), first);
            }
            if self.now() >= deadline(outcome.sent, lease.min(multi.request.lease.duration())) {
                self.clean_up_copies(multi, &call, lease, true);
                let why = ServerError::unknown("the reply arrived after the end of the lease");
                break (AcquireFailure::Unknown(why), first);
            }
            return self.install_all(multi, &call, (entered, wanted), token, (lease, handover_window));
        };
        self.unreserve(multi, &wanted);
        Err(failure.into_error(&self.core, &multi.targets[at].name))
    }

    /// Schedules a release of the call's keys if earlier transmissions may still acquire them.
    ///
    /// With `at_once`, a release is also sent now, because the last transmission may have acquired
    /// the keys.
    fn clean_up_copies(self: &Arc<Self>, multi: &MultiRequest, call: &MultiCall, lease: Duration, at_once: bool) {
        if at_once || call.outcome.was_retransmitted() {
            self.schedule_cleanup(DeferredRelease { at_once, ..call.deferred_release(multi, lease) });
        }
    }

    /// Reserves all of the keys or none. While a key is reserved, this process sends no other
    /// acquire request for it.
    fn reserve(self: &Arc<Self>, multi: &MultiRequest, waited: bool) -> Result<LocalCheck, AcquireError> {
        let now = self.now();
        let mut state = self.state();
        if state.closed {
            return Err(AcquireFailure::ShuttingDown.into_error(&self.core, &multi.targets[0].name));
        }
        let mut entered: Vec<(usize, Arc<Hold>)> = Vec::new();
        let mut wanted = Vec::with_capacity(multi.targets.len());
        let mut not_before = Instant::MIN;
        for (at, target) in multi.targets.iter().enumerate() {
            let key = multi.key(at);
            let Some(lock) = state.locks.get_mut(&key) else {
                // If this process released the key recently, other processes go first. This request
                // cannot wait behind those processes in a queue. So the key counts as busy. A
                // try-only request is delayed instead, until these processes were notified.
                let recent = state.recent.get(&key, now);
                let continued = recent.map(|recent| recent.handover_ends).filter(|ends| *ends > now);
                if let Some(recent) = recent.filter(|_| continued.is_none()) {
                    match recent.yields_until(now) {
                        _ if !multi.request.once => return Ok(LocalCheck::Busy { at, theirs: true }),
                        Some(_) if recent.plan.is_wanted() => return Ok(LocalCheck::Busy { at, theirs: true }),
                        Some(until) => not_before = not_before.max(until),
                        None => {}
                    }
                }
                wanted.push((at, continued));
                continue;
            };
            if let Some(known) = reenter(lock, &multi.request, target) {
                entered.push((at, known?));
                continue;
            }
            lock.queue.retain(|entry| !entry.answer.is_closed());
            let alone = lock.queue.is_empty()
                && lock.server_lease.is_none()
                && lock.busy == Busy::No
                && !lock.request_in_flight;
            if !alone {
                return Ok(LocalCheck::Busy { at, theirs: lock.is_taken() || !lock.queue.is_empty() });
            }
            wanted.push((at, None));
        }
        if not_before > now && !waited {
            return Ok(LocalCheck::NotBefore(not_before));
        }
        for (at, _) in &wanted {
            let (kind, target) = (multi.kind, &multi.targets[*at]);
            let lock = state
                .locks
                .entry(multi.key(*at))
                .or_insert_with(|| Box::new(LockState::new(kind, Arc::clone(target), now)));
            lock.request_in_flight = true;
        }
        let entered =
            entered.into_iter().map(|(at, hold)| (at, HoldGuard::further(multi.client.clone(), hold))).collect();
        Ok(LocalCheck::Reserved { entered, wanted })
    }

    /// Ends the reservation of all wanted keys. Requests that waited for the end of the reservation
    /// can then proceed.
    fn unreserve(self: &Arc<Self>, multi: &MultiRequest, wanted: &[(usize, Option<Instant>)]) {
        let now = self.now();
        for part in wanted.chunks(CHUNK) {
            let mut state = self.state();
            for (at, _) in part {
                self.end_request(&mut state, &multi.key(*at), now);
            }
        }
    }

    /// Ends the reservation of one key: other requests of this process for the key can be sent
    /// again.
    fn end_request(self: &Arc<Self>, state: &mut State, key: &LockId, now: Instant) {
        if let Some(lock) = state.locks.get_mut(key) {
            lock.request_in_flight = false;
            lock.contact = now;
        }
        self.go_on(state, key);
    }

    async fn send_multi(
        &self,
        multi: &MultiRequest,
        wanted: &[(usize, Option<Instant>)],
        lease: Duration,
    ) -> MultiCall {
        let claims: Vec<_> = wanted.iter().map(|(at, _)| (*at, self.number())).collect();
        let request = {
            let fields: Vec<_> = claims.iter().map(|(_, id)| self.core.field(*id)).collect();
            let each = claims.iter().zip(&fields);
            let each: Vec<_> =
                each.map(|((at, _), field)| HoldArgs { target: &multi.targets[*at], field, lease }).collect();
            match multi.kind.multi_key() {
                Some(together) if each.len() > 1 => together.acquire_many(&each),
                _ => multi.kind.acquire(each[0]),
            }
        };
        let outcome = self.core.exchange(request, multi.until, RetryPolicy::Retries, &multi.progress).await;
        MultiCall { claims, outcome }
    }

    /// Installs a server lease for each granted key, with one hold for the caller.
    fn install_all(
        self: &Arc<Self>,
        multi: &MultiRequest,
        call: &MultiCall,
        (mut grants, wanted): (Entered, Wanted),
        token: u64,
        (lease, handover_window): (Duration, Duration),
    ) -> Result<MultiOutcome, AcquireError> {
        let (sent, now) = (call.outcome.sent, self.now());
        let (mut superseded, mut closed) = (None, false);
        let claimed: Vec<_> = call.claims.iter().zip(&wanted).collect();
        for part in claimed.chunks(CHUNK) {
            let (mut answers, mut unwanted) = (Answers::new(), Vec::new());
            let mut state = self.state();
            for ((at, id), (_, continued)) in part {
                let ends = continued.unwrap_or(sent + handover_window);
                let granted = GrantReply::by(&call.outcome, *id, token, (lease, multi.request.durability), ends);
                let key = multi.key(*at);
                let server_lease = Arc::new(ServerLease::new(granted, &key, multi.kind, self.core.clock.clone()));
                let request = state.shared(&multi.request);
                match self.install_grant(&mut state, &key, &server_lease, sent) {
                    Ok((lock, schedule)) => {
                        let hold = self.create_hold((schedule, lock), &server_lease, (sent, now), request);
                        hold.reserve();
                        grants.push((*at, HoldGuard::first(multi.client.clone(), hold)));
                        answers.extend(lock.reject_try_waiters());
                        lock.queue.iter().for_each(|entry| entry.request.set_busy());
                    }
                    Err(NotInstalled::Superseded) => {
                        superseded = Some(*at);
                        unwanted.push(server_lease);
                    }
                    Err(NotInstalled::Closed) => {
                        closed = true;
                        unwanted.push(server_lease);
                    }
                }
                self.end_request(&mut state, &key, now);
            }
            drop(state);
            send(answers);
            unwanted.iter().for_each(|server_lease| self.leave_until(server_lease, Instant::MIN));
        }
        grants.sort_by_key(|(at, _)| *at);
        let bundle = MultiGrant::of(grants.into_iter().map(|(_, grant)| grant).collect());
        match superseded {
            _ if closed => Err(AcquireFailure::ShuttingDown.into_error(&self.core, &multi.targets[0].name)),
            Some(at) => Ok(MultiOutcome::Busy { at, theirs: true }),
            None => Ok(MultiOutcome::All(bundle)),
        }
    }
}
