//! The engine of one client: renewals in bulk, deadlines, and verification after a reconnect.
//!
//! One timer serves all holds. A round takes up to a hundred holds of one node and kind into one script. Only a confirmed
//! renewal moves a deadline; one that merely failed is tried again until the deadline; "not yours" ends the hold at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::error::LostReason;
use super::state::{Hold, Phase};
use super::table::{SlotKey, State, Table};
use super::terms;
use crate::clock::Instant;
use crate::connection::Server;

/// Names renewed by one script. The server is busy for about 0.15 ms with it.
const BATCH: usize = 100;

/// The pause between two scripts of one burst: 2 ms, so that 10,000 names that are due together take a fifth of a second
/// and not the whole server.
const PACE: Duration = Duration::from_millis(2);

impl Table {
    /// Puts a new hold under the engine's care.
    pub(super) fn register(&self, state: &mut State, hold: &Arc<Hold>) {
        let due = hold.is_renewed().then(|| terms::next_renewal(hold.granted, hold.lease()));
        state.schedule.insert(Arc::clone(hold), due);
        self.wake_engine(state);
    }

    /// Wakes the engine if something is due earlier than it sleeps.
    pub(super) fn wake_engine(&self, state: &State) {
        if state.schedule.next().as_nanos() < self.engine_wakes.load(Ordering::Acquire) {
            self.engine.notify_one();
        }
    }

    /// The engine's loop; it ends when its task is aborted.
    pub(crate) async fn run_engine(self: Arc<Self>) {
        loop {
            let wakes = {
                let state = self.state();
                let next = state.schedule.next();
                self.engine_wakes.store(next.as_nanos(), Ordering::Release);
                next
            };
            tokio::select! {
                () = self.core.clock.sleep_until(wakes) => {}
                () = self.engine.notified() => {}
            }
            self.expire();
            loop {
                let batch = self.next_batch();
                if batch.is_empty() {
                    break;
                }
                for group in grouped(batch) {
                    self.hand_over(Box::pin(Arc::clone(&self).renew(group)));
                }
                tokio::time::sleep(PACE).await;
                self.expire();
            }
        }
    }

    fn expire(self: &Arc<Self>) {
        let mut state = self.state();
        for hold in state.schedule.expired(self.now()) {
            self.lose(&mut state, &hold, LostReason::Expired);
        }
    }

    /// Ends a hold that is no longer ours, tells its watchers, and lets the next of its queue try.
    pub(super) fn lose(self: &Arc<Self>, state: &mut State, hold: &Arc<Hold>, reason: LostReason) {
        state.schedule.remove(hold.id);
        if !hold.end(reason.into()) {
            return;
        }
        tracing::debug!(name = %hold.target.name, %reason, "hold lost");
        let key = SlotKey(hold.kind.name(), hold.target.key.clone());
        if let Some(slot) = state.slots.get_mut(&key)
            && slot.hold.as_ref().is_some_and(|held| Arc::ptr_eq(held, hold))
        {
            slot.hold = None;
            slot.lost.push(Arc::downgrade(hold));
            self.go_on(state, &key);
        }
    }

    fn next_batch(&self) -> Vec<Arc<Hold>> {
        let now = self.now();
        let mut state = self.state();
        // Those that are due within half of the usual interval come along, so that a script carries many names.
        let soon = now + self.core.settings.watchdog_lease / 6;
        state.schedule.take_due(now, soon, BATCH)
    }

    /// Renews (fixed leases: verifies) holds of one node and kind by one script; a batch that is refused as a whole, in
    /// halves.
    fn renew(self: Arc<Self>, mut holds: Vec<Arc<Hold>>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            // Released since they were due: nothing is started for them any more.
            holds.retain(|hold| hold.phase() == Phase::Held);
            let Some(first) = holds.first() else { return };
            let (server, kind) = (Arc::clone(&first.server), first.kind);
            let lease = |hold: &Hold| if hold.is_renewed() { hold.lease() } else { Duration::ZERO };
            let claims: Vec<_> = holds.iter().map(|hold| hold.claim(lease(hold))).collect();
            let sent = self.now();
            let request = kind.renew(&claims).not_after(sent + self.core.settings.timeout);
            let answer = server.call(vec![request]).await.pop();
            let answer = answer.map(|answer| answer.and_then(|reply| reply.into_typed::<Vec<i64>>()));
            match answer {
                Some(Ok(statuses)) if statuses.len() == holds.len() => {
                    for (hold, status) in holds.iter().zip(statuses) {
                        self.renewed(hold, status, sent);
                    }
                }
                Some(Err(error)) if error.code().is_some_and(|code| !code.is_passing()) && holds.len() > 1 => {
                    let (left, right) = holds.split_at(holds.len() / 2);
                    Arc::clone(&self).renew(left.to_vec()).await;
                    Arc::clone(&self).renew(right.to_vec()).await;
                }
                other => {
                    let error = other.and_then(Result::err).map(|error| error.to_string()).unwrap_or_default();
                    tracing::debug!(holds = holds.len(), error, "renewal failed");
                    holds.iter().for_each(|hold| self.try_again(hold));
                }
            }
        })
    }

    fn renewed(self: &Arc<Self>, hold: &Arc<Hold>, status: i64, sent: Instant) {
        match status {
            1 => {
                let lease = hold.lease();
                let due = hold.is_renewed().then(|| {
                    hold.confirmed(sent, lease);
                    terms::next_renewal(sent, lease)
                });
                let mut state = self.state();
                state.schedule.reschedule(hold.id, due);
                self.wake_engine(&state);
            }
            0 => {
                let mut state = self.state();
                // A release may have been on its way before the renewal: then this is no loss.
                if state.schedule.get(hold.id).is_some() {
                    self.lose(&mut state, hold, LostReason::Gone);
                }
            }
            _ => self.try_again(hold),
        }
    }

    /// A renewal that failed is due again soon: after a thirtieth of the lease, at most a second.
    fn try_again(&self, hold: &Arc<Hold>) {
        let wait = (hold.lease() / 30).min(Duration::from_secs(1));
        let mut state = self.state();
        state.schedule.reschedule(hold.id, Some(self.now() + wait));
        self.wake_engine(&state);
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
            self.verify(|hold| hold.server.id() == server.id());
        }
    }

    /// Looks after all holds, because a notice may have been missed.
    pub(crate) fn verify_all(&self) {
        self.verify(|_| true);
    }

    fn verify(&self, concerned: impl Fn(&Hold) -> bool) {
        let now = self.now();
        let mut state = self.state();
        let ids: Vec<u64> = state.schedule.all().filter(|hold| concerned(hold)).map(|hold| hold.id).collect();
        for id in ids {
            state.schedule.reschedule(id, Some(now));
        }
        self.wake_engine(&state);
    }

    /// How many holds are believed.
    pub(crate) fn holds(&self) -> usize {
        self.state().schedule.len()
    }

    /// Another client took a hold of ours by force, and says so.
    pub(crate) fn forced(self: &Arc<Self>, field: &[u8]) {
        let number = std::str::from_utf8(field).ok().and_then(|text| text.rsplit_once(':')?.1.parse().ok());
        let Some(number) = number else { return };
        let mut state = self.state();
        match state.schedule.get(number).cloned() {
            Some(hold) if hold.field == field => self.lose(&mut state, &hold, LostReason::Forced),
            Some(_) => {}
            None => {
                // Perhaps its grant is still on its way to us.
                let (now, patience) = (self.now(), self.core.settings.patience());
                state.forced.retain(|_, told| now.since(*told) < patience);
                state.forced.insert(number, now);
            }
        }
    }
}

fn grouped(holds: Vec<Arc<Hold>>) -> Vec<Vec<Arc<Hold>>> {
    let mut groups: Vec<Vec<Arc<Hold>>> = Vec::new();
    for hold in holds {
        let fits = |group: &&mut Vec<Arc<Hold>>| {
            group[0].server.id() == hold.server.id() && group[0].kind.name() == hold.kind.name()
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(hold),
            None => groups.push(vec![hold]),
        }
    }
    groups
}
