//! Sets the lease of a hold.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redgrid_client::ServerError;

use super::acquire::HoldGuard;
use super::error::ExtendError;
use super::hold::Hold;
use super::protocol::AcquireRequest;
use super::release::op_context;
use super::table::{State, Table};
use crate::clock::Instant;
use crate::config::{LONGEST_LEASE, SHORTEST_LEASE};
use crate::lease::{LeaseMode, deadline};
use crate::observe::OpSpan;
use crate::service::ClientParts;

impl HoldGuard {
    /// Sets the lease of the hold to `lease`, counted from now.
    ///
    /// The future does not keep the hold alive: dropping the last guard releases the hold, even if
    /// the future still exists. If the future is first polled after the release, it fails and
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`ExtendError`] says which lease is valid after the failure.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the new lease may or may not be in force. The hold is then
    /// valid until the old or the new lease ends, whichever is earlier.
    pub fn extend(&self, lease: Duration) -> impl Future<Output = Result<(), ExtendError>> + Send + use<> {
        let (client, hold) = (self.client.clone(), Arc::clone(&self.hold));
        let op = OpSpan::extend(op_context(&hold), hold.token);
        op.instrument(async move { set_lease(client.table(), &hold, lease).await })
    }
}

impl Hold {
    /// Sets a fixed lease, counted from `from`. Changes nothing if the hold has run out by `now`.
    pub(super) fn set_end(&self, from: Instant, lease: Duration, now: Instant) {
        if self.own_deadline.set(deadline(from, lease), now) {
            self.ends.store((from + lease).as_nanos(), Ordering::Release);
        }
    }
}

async fn set_lease(table: &Arc<Table>, hold: &Arc<Hold>, lease: Duration) -> Result<(), ExtendError> {
    let server_lease = &hold.server_lease;
    let name = || server_lease.keys.name.clone();
    if lease < SHORTEST_LEASE || lease > LONGEST_LEASE {
        return Err(ExtendError::InvalidArgument { name: name(), expected: "100 ms to 30 days", got: lease });
    }
    if let Some(reason) = hold.lost() {
        return Err(ExtendError::Lost { name: name(), reason });
    }
    if hold.end.get().is_some() {
        // No request is sent: another task may have the server lease by now.
        return Err(ExtendError::NotExtended { name: name(), source: ServerError::not_sent("the hold was released") });
    }
    let now = server_lease.clock.now();
    let fixed = matches!(hold.request.lease, LeaseMode::Fixed(_));
    // The lease on the server also covers the rest of `at_least`, even if the hold ends earlier.
    let on_server = if fixed {
        let keep = hold.retained_until().since(now);
        AcquireRequest { lease: LeaseMode::Fixed(lease), at_least: keep, ..AcquireRequest::clone(&hold.request) }
            .server_lease(Duration::ZERO)
    } else {
        lease
    };
    let shorter = if fixed { now + lease < hold.ends() } else { deadline(now, lease) < server_lease.deadline() };
    if shorter && server_lease.is_renewed_at(now) {
        // Renewed leases are not shortened, because the next renewal would lengthen them again. A
        // caller that wants to end such a hold early can release it.
        return Ok(());
    }
    let set = if shorter {
        if fixed {
            hold.set_end(now, lease, now);
            table.owner_moved(&mut table.state(), hold);
        }
        if table.is_shared(hold) {
            // The lease on the server is not shortened, because other tasks share it. Only this
            // hold ends earlier, by the local clock.
            return Ok(());
        }
        table.shorten(server_lease, on_server, hold.request.durability).await
    } else {
        table.lengthen(server_lease, on_server, hold.request.durability).await
    };
    if let Ok(sent) = set
        && fixed
        && !shorter
    {
        hold.set_end(sent, lease, server_lease.clock.now());
        table.owner_moved(&mut table.state(), hold);
    }
    match (set, hold.lost()) {
        (Ok(_) | Err(ExtendError::Lost { .. }), Some(reason)) => Err(ExtendError::Lost { name: name(), reason }),
        (set, _) => set.map(drop),
    }
}

impl Table {
    /// Moves the server lease in the schedule after a hold's own lease was changed.
    pub(super) fn owner_moved(&self, state: &mut State, hold: &Arc<Hold>) {
        let lock = state.locks.get(&hold.server_lease.lock_id());
        if let Some(lock) = lock.filter(|lock| lock.position(hold).is_some()) {
            let first = lock.holds.iter().map(|hold| hold.own_deadline.at()).min();
            hold.server_lease.set_owner_due(first.unwrap_or(Instant::MAX));
            state.schedule.moved(hold.server_lease.id);
            self.wake_renewal(&state.schedule);
        }
    }
}
