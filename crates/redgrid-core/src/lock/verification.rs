//! Verification of server leases that this process may have lost.
//!
//! A server lease is verified by a renewal that is sent at once. If the server replies that the
//! lease is not held, the server lease counts as lost.

use std::sync::Arc;

use redgrid_client::Server;
use redgrid_client::internal::is_same;

use super::error::LostReason;
use super::hold::ServerLease;
use super::table::Table;

impl Table {
    /// Verifies all holds whose keys belong to this node, because the server may have lost them.
    pub(crate) fn verify_node(&self, server: &Arc<dyn Server>) {
        self.verify(|server_lease| is_same(&self.core.home(&server_lease.keys.key), server));
    }

    /// Verifies the holds of keys that have moved to another node, because that node may lack the
    /// holds.
    pub(crate) fn verify_moved(&self) {
        self.verify(|server_lease| server_lease.has_moved(self.core.home(&server_lease.keys.key).id()));
    }

    /// Verifies all holds, because the notice of a forced takeover may have been missed.
    pub(crate) fn verify_all(&self) {
        self.verify(|_| true);
    }

    fn verify(&self, concerned: impl Fn(&ServerLease) -> bool) {
        let mut state = self.state();
        state.schedule.reschedule_all(self.now(), concerned);
        self.wake_renewal(&state.schedule);
    }

    /// Marks a server lease as lost after a notice from another client, which has taken over the
    /// lock.
    pub(crate) fn preempted(self: &Arc<Self>, field: &[u8]) {
        // Ignore a notice with the holder field of another client.
        let Some(number) = number_of(field).filter(|number| self.core.field(*number) == field) else { return };
        let mut state = self.state();
        match state.schedule.get(number).cloned() {
            Some(server_lease) => self.mark_lost(&mut state, &server_lease, LostReason::Forced),
            None => {
                // The reply with the grant may still be in flight: remember the notice until the
                // reply arrives.
                let (now, timeout) = (self.now(), self.core.settings.patience());
                state.forced.retain(|_, received| now.since(*received) < timeout);
                state.forced.insert(number, now);
            }
        }
    }

    /// Marks a server lease as lost, because the server no longer has its holder field.
    pub(super) fn report_missing(self: &Arc<Self>, field: &[u8]) {
        let mut state = self.state();
        // A server lease that has left the schedule was released, not lost.
        let server_lease = number_of(field).and_then(|number| state.schedule.get(number)).cloned();
        if let Some(server_lease) = server_lease.filter(|server_lease| self.core.field(server_lease.id) == field) {
            self.mark_lost(&mut state, &server_lease, LostReason::Gone);
        }
    }
}

/// Returns the id of the server lease with this holder field.
fn number_of(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.rsplit_once(':')?.1.parse().ok()
}
