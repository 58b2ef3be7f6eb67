//! The engine of one client: renewals in bulk, deadlines, and verification after a reconnect.
//!
//! One timer serves all holds. A round takes up to a hundred holds of one kind and durability, in a cluster of one slot, into one script. Only a confirmed
//! renewal moves a deadline; one that merely failed is tried again until the deadline; "not yours" ends the hold at once.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::error::LostReason;
use super::handover::HandoverReason;
use super::hold::{Hold, Phase};
use super::lock_state::{Answers, send};
use super::schedule::Schedule;
use super::server_lease::ServerLease;
use super::table::{State, Table};
use super::terms;
use crate::clock::Instant;
use crate::config::Durability;
use crate::connection::{Reply, Server, certainly_over, is_same, unless_replaced};
use crate::error::{Code, ServerError};
use crate::observe::count;

/// Names renewed by one script. The server is busy for about 0.15 ms with it.
const BATCH: usize = 100;

/// The pause between two scripts of one burst: 2 ms, so that 10,000 names that are due together take a fifth of a second
/// and not the whole server.
const PACE: Duration = Duration::from_millis(2);

/// The least that an answer to a renewal is waited for.
const SHORTEST_WAIT: Duration = Duration::from_millis(20);

impl Table {
    /// Wakes the engine if something is due earlier than it sleeps.
    pub(super) fn wake_renewal(&self, schedule: &Schedule) {
        self.alarm.bring_forward(schedule.next());
    }

    /// The engine's loop; it ends when its task is aborted.
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
                    self.spawn_background(Box::pin(Arc::clone(&self).renew(group)));
                }
                tokio::time::sleep(PACE).await;
                self.expire();
            }
        }
    }

    fn expire(self: &Arc<Self>) {
        let now = self.now();
        let mut answers = Answers::new();
        let mut state = self.state();
        for server_lease in state.schedule.ended(now, self.soon(now)) {
            if server_lease.has_expired(now) {
                self.mark_lost(&mut state, &server_lease, LostReason::Expired);
            } else {
                answers.extend(self.owner_due(&mut state, &server_lease, now));
            }
        }
        drop(state);
        send(answers);
    }

    /// The lease of the present owner ends, that of the server lease does not: first it is told, and a margin later the next has it.
    fn owner_due(self: &Arc<Self>, state: &mut State, server_lease: &Arc<ServerLease>, now: Instant) -> Answers {
        let key = server_lease.slot_key();
        let Some(slot) = state.slots.get_mut(&key).filter(|slot| slot.has(server_lease)) else { return Answers::new() };
        if slot.holds.is_empty() {
            // Between two owners. The end that was noted is the former one's; that of the server lease stays noted.
            server_lease.set_owner_due(Instant::NEVER);
            state.schedule.moved(server_lease.id);
            return Answers::new();
        }
        let (mut due, mut keep_until) = (Instant::NEVER, Instant::PAST);
        for hold in std::mem::take(&mut slot.holds) {
            match due_of(&hold, now) {
                Due::At(at) => {
                    due = due.min(at);
                    slot.add(hold);
                }
                Due::NotTaken => keep_until = keep_until.max(hold.retained_until()),
                Due::Over => {
                    keep_until = keep_until.max(hold.retained_until());
                    slot.lost.push(Arc::downgrade(&hold));
                }
            }
        }
        let free = slot.holds.is_empty();
        if slot.holds.len() == 1 {
            server_lease.left_alone();
        }
        if slot.is_forgotten() {
            server_lease.stop_renewing();
        }
        server_lease.set_owner_due(due);
        state.schedule.moved(server_lease.id);
        match free {
            true if keep_until > now => self.release_unclaimed_grant(slot, server_lease, keep_until),
            true => return self.hand_over_next(state, &key, HandoverReason::HandOver, now),
            false => {}
        }
        Answers::new()
    }

    /// Ends a server lease that is no longer ours, tells the watchers of its owner, and lets the next of its queue try.
    pub(super) fn mark_lost(self: &Arc<Self>, state: &mut State, server_lease: &Arc<ServerLease>, reason: LostReason) {
        state.schedule.remove(server_lease.id);
        if !server_lease.end() {
            return;
        }
        tracing::debug!(name = %server_lease.target.name, %reason, "lost");
        let key = server_lease.slot_key();
        if let Some(slot) = state.slots.get_mut(&key).filter(|slot| slot.has(server_lease)) {
            slot.server_lease = None;
            self.take_out_served(slot);
            let (unheld, lives_on) = (slot.holds.is_empty(), slot.protocol.paired_mode().is_some());
            for hold in slot.holds.drain(..) {
                hold.end(reason.into());
                slot.lost.push(Arc::downgrade(&hold));
            }
            if unheld && reason == LostReason::Expired {
                // No guard will free what the server still has of it.
                self.spawn_background(self.release_work(None, Arc::clone(server_lease), Instant::PAST, None));
            } else if lives_on && reason == LostReason::Expired {
                // Others who are in beside it keep the key, and its field with that, when its lease is over.
                self.release_when_over(server_lease);
            }
            self.go_on(state, &key);
        }
    }

    fn next_batch(&self) -> Vec<Arc<ServerLease>> {
        let now = self.now();
        self.state().schedule.take_due(now, self.soon(now), BATCH)
    }

    /// Those that are due within half of the usual interval come along, so that a script carries many names.
    fn soon(&self, now: Instant) -> Instant {
        now + self.core.settings.watchdog_lease / 6
    }

    /// Renews (fixed leases: verifies) server leases of one kind, whose names may go together, by one script; a batch that is
    /// refused as a whole, in halves.
    fn renew(self: Arc<Self>, mut server_leases: Vec<Arc<ServerLease>>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            {
                // Given back since they were due: nothing is started for them any more.
                let state = self.state();
                server_leases.retain(|server_lease| state.schedule.get(server_lease.id).is_some());
            }
            let Some(first) = server_leases.first() else { return };
            let kind = first.kind;
            let sent = self.now();
            let leases: Vec<Duration> =
                server_leases.iter().map(|server_lease| lease_to_send(server_lease, sent)).collect();
            // What they want now: by the time of the answer one of them may have an owner who wants something else.
            let asked: Vec<Durability> =
                server_leases.iter().map(|server_lease| server_lease.wanted_durability()).collect();
            let fields: Vec<_> = server_leases.iter().map(|server_lease| server_lease.copied_field()).collect();
            let each = server_leases.iter().zip(&fields).zip(&leases);
            let claims: Vec<_> = each.map(|((server_lease, field), lease)| server_lease.claim(field, *lease)).collect();
            let (request, limit) = (Arc::new(kind.renew(&claims)), sent + self.core.settings.timeout);
            // An answer that is lost, or late, is not waited for as long as the node would: the lease may be shorter than that,
            // and twice is once. When it comes after all it counts: a machine that is too slow for every answer would
            // otherwise lose what the server has kept for it.
            let shortest =
                server_leases.iter().map(|server_lease| server_lease.deadline().since(sent)).min().unwrap_or_default();
            // A primary that was replaced meanwhile does not know of it: what it answers moves no deadline.
            let mut asking = pin!(unless_replaced(&*self.core.topology, &request, limit));
            // What gives back what may have been renewed by then does not give up before that is over.
            let unsure = |by: Instant| {
                for (server_lease, lease) in server_leases.iter().zip(&leases).filter(|(_, lease)| !lease.is_zero()) {
                    server_lease.raise_upper_bound(by + *lease);
                }
            };
            let over = certainly_over(limit, self.core.settings.timeout);
            let answer = tokio::select! {
                answer = &mut asking => answer,
                () = self.core.clock.sleep_until(sent + (shortest / 4).max(SHORTEST_WAIT)) => {
                    unsure(over);
                    self.try_again(&mut self.state(), &server_leases);
                    asking.await
                }
            };
            match answer.result.clone().and_then(Reply::into_typed::<Vec<i64>>) {
                Ok(statuses) if statuses.len() == server_leases.len() => {
                    // Nothing is written where it was only looked at.
                    let renewed = asked.iter().zip(&statuses).zip(&leases);
                    let mut wanted = renewed.filter(|((_, status), lease)| **status == 1 && !lease.is_zero());
                    let durability = wanted.next().map(|((asked, _), _)| *asked).unwrap_or_default();
                    if !Durability::Primary.covers(durability) {
                        // The primary has it, whatever comes of the proof, and however long that takes.
                        unsure(self.now());
                    }
                    if let Err(error) = answer.commit(durability, &server_leases[0].target.key).await {
                        tracing::debug!(server_leases = server_leases.len(), %error, "renewed, and not as durable as asked");
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
                    let error = other.err().map_or("another number of answers".to_owned(), |error| error.to_string());
                    tracing::debug!(server_leases = server_leases.len(), error, "renewal failed");
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
            // Its owner is another by now, and wants more than this renewal waited for.
            1 if !lease.is_zero() && !durability.covers(server_lease.wanted_durability()) => {
                server_lease.raise_upper_bound(now + lease);
                self.try_again(state, std::slice::from_ref(server_lease));
            }
            1 => {
                if !lease.is_zero() {
                    server_lease.confirmed(sent, lease, durability);
                }
                state.schedule.reschedule(server_lease.id, self.next_look(server_lease, sent, now));
            }
            0 => {
                // A release may have been on its way before the renewal: then this is no loss.
                if state.schedule.get(server_lease.id).is_some() {
                    self.mark_lost(state, server_lease, LostReason::Gone);
                }
            }
            _ => self.try_again(state, std::slice::from_ref(server_lease)),
        }
    }

    /// Renewals that failed are due again soon: after a thirtieth of the lease, at most a second.
    fn try_again(&self, state: &mut State, server_leases: &[Arc<ServerLease>]) {
        let now = self.now();
        for server_lease in server_leases {
            count::renewal_failed(server_lease.kind.name());
            let wait = (server_lease.lease() / 30).min(Duration::from_secs(1));
            state.schedule.reschedule(server_lease.id, now + wait);
        }
        self.wake_renewal(&state.schedule);
    }

    /// The server lease's end has moved.
    pub(super) fn reschedule(&self, server_lease: &ServerLease) {
        let mut state = self.state();
        let now = self.now();
        state.schedule.reschedule(server_lease.id, self.next_look(server_lease, now, now));
        self.wake_renewal(&state.schedule);
    }

    /// Looks after all holds of a node whose connection is new: the server behind it may have forgotten them.
    pub(crate) async fn verify_after_reconnects(self: Arc<Self>, server: Arc<dyn Server>) {
        let mut epoch = server.epoch();
        let mut last = epoch.borrow_and_update().clone();
        while epoch.changed().await.is_ok() {
            let now_at = epoch.borrow_and_update().clone();
            if now_at.is_none() || now_at == last {
                continue;
            }
            last = now_at;
            self.core.given_back.look();
            self.verify(|server_lease| is_same(&self.core.home(&server_lease.target.key), &server));
        }
    }

    /// Looks after the holds whose names another node decides by now: it may not know of them.
    pub(crate) fn verify_moved(&self) {
        self.verify(|server_lease| server_lease.has_moved(self.core.home(&server_lease.target.key).id()));
    }

    /// Looks after all holds, because a notice may have been missed.
    pub(crate) fn verify_all(&self) {
        self.verify(|_| true);
    }

    fn verify(&self, concerned: impl Fn(&ServerLease) -> bool) {
        let now = self.now();
        let mut state = self.state();
        let ids: Vec<u64> = state
            .schedule
            .all()
            .filter(|server_lease| concerned(server_lease))
            .map(|server_lease| server_lease.id)
            .collect();
        for id in ids {
            state.schedule.reschedule(id, now);
        }
        self.wake_renewal(&state.schedule);
    }

    /// How many holds are believed.
    pub(crate) fn holds(&self) -> usize {
        self.state().schedule.len()
    }

    /// Another client took a hold of ours by force, and says so.
    pub(crate) fn preempted(self: &Arc<Self>, field: &[u8]) {
        let Some(number) = number_of(field) else { return };
        let mut state = self.state();
        match state.schedule.get(number).cloned() {
            Some(server_lease) if server_lease.field() == field => {
                self.mark_lost(&mut state, &server_lease, LostReason::Forced)
            }
            Some(_) => {}
            None => {
                // Perhaps its grant is still on its way to us.
                let (now, patience) = (self.now(), self.core.settings.patience());
                state.forced.retain(|_, told| now.since(*told) < patience);
                state.forced.insert(number, now);
            }
        }
    }

    /// The server says that it does not have a hold of ours any more.
    pub(super) fn report_missing(self: &Arc<Self>, field: &[u8]) {
        let mut state = self.state();
        // A release may have been on its way before: then this is no loss.
        let server_lease = number_of(field).and_then(|number| state.schedule.get(number)).cloned();
        if let Some(server_lease) = server_lease.filter(|server_lease| server_lease.field() == field) {
            self.mark_lost(&mut state, &server_lease, LostReason::Gone);
        }
    }

    /// Those that may go together in one script.
    fn grouped(&self, mut server_leases: Vec<Arc<ServerLease>>) -> Vec<Vec<Arc<ServerLease>>> {
        let place = |server_lease: &Arc<ServerLease>| {
            (server_lease.kind.name(), self.core.topology.slot(&server_lease.target.key))
        };
        let group = |server_lease: &Arc<ServerLease>| (place(server_lease), server_lease.wanted_durability());
        server_leases.sort_by_key(place);
        server_leases.chunk_by(|one, other| group(one) == group(other)).map(<[_]>::to_vec).collect()
    }
}

/// What a look asks for: the lease of what is renewed, nothing more where it is fixed. Where others are in beside it, one of
/// them may have shortened what they share on the server: then what was confirmed before, so that it is there again.
fn lease_to_send(server_lease: &ServerLease, now: Instant) -> Duration {
    let left = server_lease.deadline().since(now);
    match server_lease.kind.is_shared() && !left.is_zero() {
        _ if server_lease.is_renewed_at(now) => server_lease.lease(),
        true => terms::with_margin(left),
        false => Duration::ZERO,
    }
}

/// What is due for one of those who have a server lease.
enum Due {
    /// Nothing before then.
    At(Instant),
    /// Its request is asked for an answer no more; if it ever is, it asks anew.
    NotTaken,
    /// Its lease has ended.
    Over,
}

/// The number of a server lease, by its field.
fn number_of(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.rsplit_once(':')?.1.parse().ok()
}

fn due_of(hold: &Hold, now: Instant) -> Due {
    let name = &hold.server_lease.target.name;
    // Another guard of its holder may live.
    if now >= hold.offered_until() && hold.revoke_offer() && hold.guards.fetch_sub(1, Ordering::AcqRel) == 1 {
        tracing::debug!(%name, "granted, and not taken");
        hold.end(Phase::Released);
        return Due::NotTaken;
    }
    if !hold.has_run_out(now) {
        let deadline = hold.deadline_of_its_own();
        return Due::At(if hold.is_offered() { deadline.min(hold.offered_until()) } else { deadline });
    }
    if hold.end(Phase::Expired) {
        tracing::debug!(%name, reason = %LostReason::Expired, "hold lost");
    }
    if now < hold.ends() { Due::At(hold.ends()) } else { Due::Over }
}

/// Whether a batch may have been refused because of some of its names only: one that is denied, or names on both sides of a
/// migration of their slot.
fn concerns_some(code: Code) -> bool {
    !code.is_passing() || code == Code::TryAgain
}
