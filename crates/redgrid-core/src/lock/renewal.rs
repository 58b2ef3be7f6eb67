//! The renewal loop for all locks of a client. It renews leases in batches, and ends holds.
//!
//! One timer serves all holds. One script renews up to 100 server leases. These server leases have
//! the same kind and durability and, in a cluster, the same hash slot. Only a confirmed renewal
//! moves a deadline. A renewal that failed is retried until the deadline. If the server replies
//! that a lease is not held, this process ends that lease at once.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redgrid_client::internal::{may_execute_until, unless_replaced};
use redgrid_client::{Code, Reply, ServerError};

use super::error::LostReason;
use super::hold::{Hold, ServerLease};
use super::release::Release;
use super::table::{Answers, State, Table, send};
use crate::clock::Instant;
use crate::config::Durability;
use crate::lease::{renewal_lag, retry_pause, with_margin};
use crate::observe::count;

/// Largest number of keys that one script renews. Such a script keeps the server busy for about
/// 0.15 ms.
const BATCH: usize = 100;

/// The pause between two scripts of a burst: 2 ms.
///
/// If 10,000 keys are due together, their renewal takes a fifth of a second, and leaves the server
/// time for other requests.
const PACE: Duration = Duration::from_millis(2);

/// The shortest time without a reply after which a renewal is scheduled again: 20 ms.
const SHORTEST_WAIT: Duration = Duration::from_millis(20);

impl Table {
    /// Runs the renewal loop; it ends when its task is aborted.
    pub(crate) async fn run_renewal(self: Arc<Self>) {
        loop {
            {
                let state = self.state();
                self.alarm.set(state.schedule.next());
            }
            self.alarm.elapsed(&self.core.clock).await;
            self.expire();
            loop {
                let batch = self.next_batch();
                if batch.is_empty() {
                    break;
                }
                for group in self.grouped(batch) {
                    self.core.spawn_background(Box::pin(Arc::clone(&self).renew(group)));
                }
                let resumes = self.now() + PACE;
                tokio::time::sleep(PACE).await;
                count::stalled(self.now().since(resumes));
                self.expire();
            }
        }
    }

    fn expire(self: &Arc<Self>) {
        let now = self.now();
        let mut answers = Answers::new();
        let mut state = self.state();
        for server_lease in state.schedule.ended(now, self.soon(now)) {
            if server_lease.deadline.has_passed(now) {
                self.mark_lost(&mut state, &server_lease, LostReason::Expired);
            } else {
                answers.extend(self.owner_due(&mut state, &server_lease, now));
            }
        }
        drop(state);
        send(answers);
    }

    /// Handles the end of the current owner's lease, while the server lease continues.
    ///
    /// The owner is notified first, and the next task gets the lock one margin later.
    fn owner_due(self: &Arc<Self>, state: &mut State, server_lease: &Arc<ServerLease>, now: Instant) -> Answers {
        let key = server_lease.lock_id();
        let Some(lock) = state.locks.get_mut(&key).filter(|lock| lock.has(server_lease)) else { return Answers::new() };
        if lock.holds.is_empty() {
            // The server lease has no owner at the moment: forget the end of the former owner's
            // lease. The end of the server lease stays scheduled.
            server_lease.set_owner_due(Instant::MAX);
            state.schedule.moved(server_lease.id);
            return Answers::new();
        }
        let (mut due, mut keep_until) = (Instant::MAX, Instant::MIN);
        for hold in std::mem::take(&mut lock.holds) {
            match self.due_of(&hold, now) {
                Due::At(at) => {
                    due = due.min(at);
                    lock.add(hold);
                }
                Due::NotTaken => keep_until = keep_until.max(hold.retained_until()),
                Due::Over => {
                    keep_until = keep_until.max(hold.retained_until());
                    lock.remember_lost(&hold);
                }
            }
        }
        let free = lock.holds.is_empty();
        lock.left_by_one(server_lease);
        server_lease.set_owner_due(due);
        state.schedule.moved(server_lease.id);
        match free {
            true if keep_until > now => self.release_unclaimed_grant(lock, server_lease, keep_until),
            true => return self.hand_over_next(state, &key, None, now),
            false => {}
        }
        Answers::new()
    }

    /// Ends a server lease that is lost, notifies its watchers, and lets the next waiter try.
    pub(super) fn mark_lost(self: &Arc<Self>, state: &mut State, server_lease: &Arc<ServerLease>, reason: LostReason) {
        state.schedule.remove(server_lease.id);
        if !server_lease.end() {
            return;
        }
        tracing::debug!(name = %server_lease.keys.name, %reason, "lost");
        let key = server_lease.lock_id();
        if let Some(lock) = state.locks.get_mut(&key).filter(|lock| lock.has(server_lease)) {
            lock.server_lease = None;
            self.take_out_served(lock);
            let (unheld, lives_on) = (lock.holds.is_empty(), lock.protocol.read_write().is_some());
            let holds = std::mem::take(&mut lock.holds);
            // A hold whose own lease ended earlier is already marked as ended, and is not counted.
            let lost = holds.iter().filter(|hold| hold.mark_ended(Some(reason))).count();
            self.note_lost(server_lease, reason, lost);
            for hold in &holds {
                hold.notify_ended();
                lock.remember_lost(hold);
            }
            if unheld && reason == LostReason::Expired {
                // The server may still have the lease, and no guard is left whose drop would
                // release it.
                let release = Release { id: None, server_lease: Arc::clone(server_lease), keep_until: Instant::MIN };
                self.core.spawn_background(self.release_task(release, None, None));
            } else if lives_on && reason == LostReason::Expired {
                // Other holders may extend the lifetime of the key beyond this lease. Without a
                // release, this holder field would stay on the server as long as the key.
                self.release_when_over(server_lease);
            }
            self.go_on(state, &key);
        }
    }

    fn next_batch(&self) -> Vec<Arc<ServerLease>> {
        let now = self.now();
        self.state().schedule.take_due(now, self.soon(now), BATCH)
    }

    /// Returns the time that is half a renewal interval ahead. Leases that are due by that time are
    /// renewed now, so that one script renews many keys.
    fn soon(&self, now: Instant) -> Instant {
        now + self.core.settings.watchdog_lease / 6
    }

    /// Renews server leases of one kind and hash slot by one script. Server leases for which
    /// [`lease_to_send`] returns zero are only verified.
    ///
    /// If the server rejects the batch because of some of its keys, the batch is split in halves.
    fn renew(self: Arc<Self>, mut server_leases: Vec<Arc<ServerLease>>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            {
                // Skip server leases that were released after this batch was selected.
                let state = self.state();
                server_leases.retain(|server_lease| state.schedule.get(server_lease.id).is_some());
            }
            let Some(first) = server_leases.first() else { return };
            let kind = first.protocol;
            let sent = self.now();
            let leases: Vec<_> = server_leases.iter().map(|server_lease| lease_to_send(server_lease, sent)).collect();
            // Read now which durability the current owners request. By the time the reply arrives,
            // a new owner may request another durability.
            let wanted: Vec<_> = server_leases.iter().map(|server_lease| server_lease.wanted_durability()).collect();
            let fields: Vec<_> = server_leases.iter().map(|server_lease| self.core.field(server_lease.id)).collect();
            let each = server_leases.iter().zip(&fields).zip(&leases);
            let claims: Vec<_> = each.map(|((server_lease, field), lease)| server_lease.claim(field, *lease)).collect();
            let (request, limit) = (Arc::new(kind.renew(&claims)), sent + self.core.settings.response_timeout);
            // Another renewal is scheduled before the response timeout, because the lease may be
            // shorter than that timeout. A second renewal does no harm: renewals are idempotent. A
            // late reply to the first renewal is still used. Otherwise a process that receives
            // every reply late would lose holds that the server has kept.
            let shortest =
                server_leases.iter().map(|server_lease| server_lease.deadline().since(sent)).min().unwrap_or_default();
            // If the primary is replaced meanwhile, the reply of the old primary moves no deadline:
            // the new primary may not have the lease.
            let mut response = pin!(unless_replaced(&*self.core.topology, &request, limit));
            // An unanswered renewal may have lengthened the lease on the server. A failing release
            // must then be retried until that longer lease is over.
            let unsure = |by: Instant| {
                for (server_lease, lease) in server_leases.iter().zip(&leases).filter(|(_, lease)| !lease.is_zero()) {
                    server_lease.raise_upper_bound(by + *lease);
                }
            };
            let over = may_execute_until(limit, self.core.settings.response_timeout);
            let answer = tokio::select! {
                answer = &mut response => answer,
                () = self.core.clock.sleep_until(sent + (shortest / 4).max(SHORTEST_WAIT)) => {
                    unsure(over);
                    self.renew_soon(&mut self.state(), &server_leases);
                    response.await
                }
            };
            match answer.result.clone().and_then(Reply::into_typed::<Vec<i64>>) {
                Ok(statuses) if statuses.len() == server_leases.len() => {
                    // A verification writes nothing, so its durability is not checked.
                    let is_renewed = |nth: &usize| statuses[*nth] == 1 && !leases[*nth].is_zero();
                    let durability = (0..leases.len()).find(is_renewed).map(|nth| wanted[nth]).unwrap_or_default();
                    if !Durability::Primary.covers(durability) {
                        // The primary has renewed the leases, even if the durability check fails or
                        // takes long. So the leases' upper bounds are raised before the check.
                        unsure(self.now());
                    }
                    if let Err(error) = answer.commit(durability, &server_leases[0].keys.key).await {
                        let count = server_leases.len();
                        tracing::debug!(server_leases = count, %error, "renewed without confirmed durability");
                        self.note_not_renewed(&server_leases, &error);
                        self.try_again(&mut self.state(), &server_leases);
                        return;
                    }
                    let now = self.now();
                    let mut state = self.state();
                    for ((server_lease, status), lease) in server_leases.iter().zip(statuses).zip(leases) {
                        self.renewed((&mut state, now), server_lease, status, (sent, lease, durability));
                    }
                    self.wake_renewal(&state.schedule);
                }
                Err(error) if error.code().is_some_and(concerns_some) && server_leases.len() > 1 => {
                    let (left, right) = server_leases.split_at(server_leases.len() / 2);
                    Arc::clone(&self).renew(left.to_vec()).await;
                    Arc::clone(&self).renew(right.to_vec()).await;
                }
                other => {
                    if !other.as_ref().is_err_and(ServerError::is_not_done) {
                        unsure(over);
                    }
                    let error = other.err().map_or("wrong number of replies".to_owned(), |error| error.to_string());
                    tracing::debug!(server_leases = server_leases.len(), error, "renewal failed");
                    self.note_not_renewed(&server_leases, &error);
                    self.try_again(&mut self.state(), &server_leases);
                }
            }
        })
    }

    fn renewed(
        self: &Arc<Self>,
        (state, now): (&mut State, Instant),
        server_lease: &Arc<ServerLease>,
        status: i64,
        (sent, lease, durability): (Instant, Duration, Durability),
    ) {
        match status {
            // A new owner requests more durability than this renewal has confirmed: renew again
            // soon.
            1 if !lease.is_zero() && !durability.covers(server_lease.wanted_durability()) => {
                server_lease.raise_upper_bound(now + lease);
                self.renew_soon(state, std::slice::from_ref(server_lease));
            }
            1 => {
                if !lease.is_zero() {
                    count::renewed(server_lease.labels(), renewal_lag(lease, server_lease.deadline(), now));
                    server_lease.confirmed(sent, lease, durability);
                }
                state.schedule.reschedule(server_lease.id, self.next_check(server_lease, sent, now));
            }
            0 => {
                // A server lease that has left the schedule was released, not lost.
                if state.schedule.get(server_lease.id).is_some() {
                    self.mark_lost(state, server_lease, LostReason::Gone);
                }
            }
            _ => self.try_again(state, std::slice::from_ref(server_lease)),
        }
    }

    /// Records a failed renewal, and schedules the next one.
    fn try_again(&self, state: &mut State, server_leases: &[Arc<ServerLease>]) {
        let (now, response_timeout) = (self.now(), self.core.settings.response_timeout);
        for server_lease in server_leases {
            state.record_failed_renewal(server_lease);
            let is_scheduled = state.schedule.get(server_lease.id).is_some();
            let is_needed = is_scheduled && !server_lease.is_over() && server_lease.is_renewed_at(now);
            let (lease, deadline) = (server_lease.lease(), server_lease.deadline());
            if is_needed && server_lease.overdue.begins(lease, deadline, now, response_timeout) {
                count::renewal_overdue(server_lease.labels());
            }
        }
        self.renew_soon(state, server_leases);
    }

    /// Schedules another renewal, whether the last one has failed or may still be confirmed.
    fn renew_soon(&self, state: &mut State, server_leases: &[Arc<ServerLease>]) {
        let now = self.now();
        for server_lease in server_leases {
            state.schedule.reschedule(server_lease.id, now + retry_pause(server_lease.lease()));
        }
        self.wake_renewal(&state.schedule);
    }

    /// Schedules the server lease again after its end has moved.
    pub(super) fn reschedule(&self, server_lease: &ServerLease) {
        let mut state = self.state();
        let now = self.now();
        state.schedule.reschedule(server_lease.id, self.next_check(server_lease, now, now));
        self.wake_renewal(&state.schedule);
    }

    /// Groups server leases by kind, hash slot and durability.
    pub(super) fn grouped(&self, mut server_leases: Vec<Arc<ServerLease>>) -> Vec<Vec<Arc<ServerLease>>> {
        let place = |server_lease: &Arc<ServerLease>| {
            (server_lease.protocol.name(), self.core.topology.slot(&server_lease.keys.key))
        };
        let group = |server_lease: &Arc<ServerLease>| (place(server_lease), server_lease.wanted_durability());
        server_leases.sort_by_key(place);
        server_leases.chunk_by(|one, other| group(one) == group(other)).map(<[_]>::to_vec).collect()
    }
}

/// Returns the lease that a renewal requests. If renewals extend the lease, this is the full length
/// of the lease. Otherwise this is zero: the server then only checks whether the lease is still
/// held.
///
/// Shared locks are an exception: instead of zero, the renewal requests the remaining time of the
/// confirmed lease. Other holders may have shortened the lifetime of the key, and the renewal
/// restores this lifetime.
fn lease_to_send(server_lease: &ServerLease, now: Instant) -> Duration {
    let left = server_lease.deadline().since(now);
    match server_lease.protocol.is_shared() && !left.is_zero() {
        _ if server_lease.is_renewed_at(now) => server_lease.lease(),
        true => with_margin(left),
        false => Duration::ZERO,
    }
}

/// The next action that is due for one hold of a server lease.
enum Due {
    /// Nothing is due before this time.
    At(Instant),
    /// The caller has not polled for the grant in time. If the caller polls later, a new request is
    /// made.
    NotTaken,
    /// The hold's own lease has ended.
    Over,
}

impl Table {
    fn due_of(&self, hold: &Hold, now: Instant) -> Due {
        let name = &hold.server_lease.keys.name;
        // Revoking the offer ends the hold only if no other guard of the hold is alive.
        if now >= hold.offered_until() && hold.revoke_offer() && hold.guards.fetch_sub(1, Ordering::AcqRel) == 1 {
            tracing::debug!(%name, "a grant was not taken by its caller");
            hold.end(None);
            return Due::NotTaken;
        }
        if !hold.own_deadline.has_passed(now) {
            let deadline = hold.own_deadline.at();
            return Due::At(if hold.is_offered() { deadline.min(hold.offered_until()) } else { deadline });
        }
        if hold.end(Some(LostReason::Expired)) {
            tracing::debug!(%name, reason = %LostReason::Expired, "hold lost");
            self.note_lost(&hold.server_lease, LostReason::Expired, 1);
        }
        if now < hold.ends() { Due::At(hold.ends()) } else { Due::Over }
    }
}

/// Returns whether this error of a batch may concern only some of the batch's keys.
///
/// For example, the user may have no permission for one of the keys, or a slot migration may have
/// moved only some of them.
fn concerns_some(code: Code) -> bool {
    !code.is_passing() || code == Code::TryAgain
}
