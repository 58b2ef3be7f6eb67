//! The requests about a read-write lock that are not acquires: announcements of writers, removal of
//! holders with expired leases, and deferred releases.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::internal::{RetryPolicy, once};
use redgrid_client::{Reply, Request};

use super::AcquireContext;
use crate::clock::Instant;
use crate::lock::hold::ServerLease;
use crate::lock::protocol::AcquireRequest;
use crate::lock::table::{LockId, LockState, Table};

impl Table {
    pub(in crate::lock) fn acquire_context(
        &self,
        shared: Option<&super::SharedGrant>,
        request: &AcquireRequest,
    ) -> AcquireContext {
        let under = shared.and_then(|shared| shared.under).map(|id| self.core.field(id));
        AcquireContext { under, since: shared.map_or(0, |shared| shared.waits_since), waits: !request.once }
    }

    /// Withdraws the announcement of a waiter, if the announcement was sent.
    pub(in crate::lock) fn withdraw(&self, lock: &mut LockState) {
        let Some((mode, shared)) = lock.protocol.read_write().zip(lock.shared.as_mut()) else { return };
        if std::mem::take(&mut shared.is_announced)
            && let Some(request) = mode.withdraw(&lock.keys, &self.core.id, self.number())
        {
            // If the withdrawal is lost, the announcement expires.
            self.core.run_detached(request);
        }
    }

    /// Announces on the server that a request of this process waits.
    pub(in crate::lock) async fn announce(&self, key: &LockId, timeout: Duration) {
        let request = {
            let mut state = self.state();
            let Some(lock) = state.locks.get_mut(key) else { return };
            lock.shared.get_or_insert_default().is_announced = true;
            lock.protocol.read_write().and_then(|mode| mode.announce(&lock.keys, &self.core.id, self.number()))
        };
        if let Some(request) = request {
            let _ = once(&*self.core.topology, request, self.now() + timeout).await;
        }
    }

    /// Evicts holders with expired leases; otherwise they would block others until the key's TTL
    /// ends.
    pub(in crate::lock) async fn evict_expired(&self, key: &LockId, timeout: Duration) {
        let about = self.state().locks.get(key).map(|lock| (lock.protocol, Arc::clone(&lock.keys)));
        let Some((mode, keys)) = about.and_then(|(kind, keys)| Some((kind.read_write()?, keys))) else { return };
        let (Some(request), limit) = (mode.holders(&keys), self.now() + timeout) else { return };
        let answer = once(&*self.core.topology, request, limit).await.result;
        let Ok(holders) = answer.and_then(Reply::into_typed::<Vec<Bytes>>) else { return };
        for request in mode.evict_expired(&keys, &holders) {
            // If this request fails, the next call of this method evicts the holders.
            let _ = once(&*self.core.topology, request, limit).await;
        }
    }

    /// Sends a request at `keep_until` that ends a retention. Does nothing for lock kinds in which
    /// the retention ends by itself, because the key expires at that time.
    ///
    /// The write lock needs the request: its former holder may still have a read lock, and extend
    /// the lifetime of the key. Then the key does not expire when the retention is over.
    pub(in crate::lock) fn end_retained(&self, server_lease: &ServerLease, keep_until: Instant) {
        let field = self.core.field(server_lease.id);
        let mode = server_lease.protocol.read_write();
        if let Some(request) = mode.and_then(|mode| mode.end_retained(server_lease.claim(&field, Duration::ZERO))) {
            self.give_back_at(keep_until, request, server_lease.lease());
        }
    }

    /// Releases a server lease at the time at which it must have ended on the server.
    ///
    /// Other holders of a read-write lock extend the lifetime of the key. Without this release, the
    /// expired holder field would stay on the server as long as the key.
    pub(in crate::lock) fn release_when_over(&self, server_lease: &ServerLease) {
        let field = self.core.field(server_lease.id);
        let request = server_lease.protocol.release(server_lease.claim(&field, Duration::ZERO));
        self.give_back_at(server_lease.lease_ends(), request, server_lease.lease());
    }

    /// Sends `request` at the time `at`, and retries it until `timeout` has passed.
    ///
    /// A shutdown does not wait for the request, and may prevent it. The holder field then stays on
    /// the server until the key expires, at the latest.
    fn give_back_at(&self, at: Instant, request: Request, timeout: Duration) {
        let core = Arc::clone(&self.core);
        self.core.spawn_background(Box::pin(async move {
            tokio::select! {
                () = core.clock.sleep_until(at) => {
                    core.give_back(request, at + timeout, RetryPolicy::ToTheEnd).await;
                }
                () = core.life.shutdown_requested() => {}
            }
        }));
    }
}

impl LockState {
    /// Records that a request found the lock taken at the server time `time`. `waits` is false for
    /// a try-only request.
    pub(in crate::lock) fn begins_to_wait(&mut self, time: u64, waits: bool) {
        let Some(mode) = self.protocol.read_write() else { return };
        let shared = self.shared.get_or_insert_default();
        if shared.waits_since == 0 {
            shared.waits_since = time;
        }
        shared.is_announced |= waits && mode.announces_every().is_some();
    }
}
