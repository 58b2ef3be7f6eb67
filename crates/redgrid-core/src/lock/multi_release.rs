//! Release of several keys together: one script per lock kind and hash slot, one outcome per key.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join;
use tokio::sync::oneshot;

use super::drop_guard::{DropStep, ReleasedBy};
use super::error::{LostReason, ReleaseError};
use super::fairness::SubscriberCount;
use super::guard::HoldGuard;
use super::hold::Hold;
use super::pending_acquire::GRACE;
use super::protocol::{HoldArgs, LockKeys, LockProtocol};
use super::release::{released, yields_to_others};
use super::server_lease::ServerLease;
use super::shutdown::BULK;
use super::table::Table;
use super::terms;
use crate::author::ClientExt;
use crate::clock::Instant;
use crate::connection::{Client, RequestOutcome, RetryPolicy};
use crate::error::ServerError;
/// Guards of several keys of one client, lock kind and hash slot.
///
/// Dropping it releases all of them together, in the background.
#[must_use = "dropping it releases all of its holds"]
pub struct MultiGrant(Vec<HoldGuard>);

impl MultiGrant {
    /// Combines guards of one client, lock kind and hash slot.
    pub fn of(grants: Vec<HoldGuard>) -> Self {
        MultiGrant(grants)
    }

    /// Returns the guards in order.
    pub fn iter(&self) -> impl Iterator<Item = &HoldGuard> {
        self.0.iter()
    }

    /// Hands all guards over to the caller: see [`HoldGuard::accept_member`].
    pub fn commit(&self) {
        self.iter().for_each(HoldGuard::accept_member);
    }

    /// Releases all keys and waits for the replies, for at most `response_timeout`.
    ///
    /// Returns one error for each key that failed. A release without a reply in time continues in
    /// the background until the lease ends.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release continues in the background.
    pub fn release(mut self) -> impl Future<Output = Vec<ReleaseError>> + Send + use<> {
        // Start the release before the future is awaited, so that several can run concurrently.
        let targets: Vec<_> = self.iter().map(|grant| Arc::clone(grant.keys())).collect();
        let told = self.drop_guards();
        async move {
            // Keep the client alive until then: its shutdown would report every unsent release as
            // lost.
            let Some((told, client)) = told else { return Vec::new() };
            tokio::select! {
                biased;
                told = told => told.unwrap_or_default(),
                () = client.clock().sleep_until(client.clock().now() + client.response_timeout() + GRACE) => {
                    let source = || ServerError::unknown("no answer came in time; the release goes on until the lease ends");
                    let unknown = |target: Arc<LockKeys>| {
                        ReleaseError::OutcomeUnknown { name: target.name.clone(), source: source() }
                    };
                    targets.into_iter().map(unknown).collect()
                }
            }
        }
    }

    /// Stops the renewal of all keys and leaves each to its lease.
    pub fn forget(mut self) {
        self.0.drain(..).for_each(HoldGuard::forget);
    }

    /// Drops all guards. Returns the receiver of the errors, and the client, whose last handle they
    /// may own.
    fn drop_guards(&mut self) -> Option<(oneshot::Receiver<Vec<ReleaseError>>, Client)> {
        let client = self.0.first()?.client().clone();
        let table = Arc::clone(client.table());
        let holds: Vec<_> = self.0.drain(..).map(HoldGuard::disarm).collect();
        let (tell, told) = oneshot::channel();
        let mut errors = Vec::new();
        let mut leaving = Vec::new();
        for (hold, is_first) in &holds {
            match table.drop_last_guard(hold, *is_first, ReleasedBy::Task) {
                DropStep::Done => {}
                DropStep::Lost(reason) => errors.push(lost(&hold.server_lease, reason)),
                DropStep::Release { id, keep_until } => leaving.push(PendingRelease::of(hold, id, keep_until)),
                // Only releases by a caller are polled inline; these are released by a task.
                DropStep::ReleasingInline(inline_task, _) => {
                    inline_task.take().into_iter().for_each(|work| table.spawn_background(work))
                }
            }
        }
        if leaving.is_empty() {
            let _ = tell.send(errors);
        } else {
            let work = Arc::clone(&table).release_together(leaving, errors, tell);
            table.spawn_background(Box::pin(work));
        }
        Some((told, client))
    }
}

impl Drop for MultiGrant {
    fn drop(&mut self) {
        let _ = self.drop_guards();
    }
}

fn lost(server_lease: &ServerLease, reason: LostReason) -> ReleaseError {
    ReleaseError::Lost { name: server_lease.keys.name.clone(), reason }
}

/// A server lease that is about to be released.
struct PendingRelease {
    id: u64,
    server_lease: Arc<ServerLease>,
    keep_until: Instant,
}

impl PendingRelease {
    fn of(hold: &Hold, id: u64, keep_until: Instant) -> PendingRelease {
        PendingRelease { id, server_lease: Arc::clone(&hold.server_lease), keep_until }
    }
}

impl Table {
    async fn release_together(
        self: Arc<Self>,
        leaving: Vec<PendingRelease>,
        mut errors: Vec<ReleaseError>,
        tell: oneshot::Sender<Vec<ReleaseError>>,
    ) {
        let now = self.now();
        // Release separately what stays retained for a while, or what a retransmission may acquire
        // again.
        let (plain, alone): (Vec<_>, Vec<_>) = leaving
            .into_iter()
            .partition(|leaving| leaving.keep_until <= now && leaving.server_lease.retransmission_ends().is_none());
        let mut waited: Vec<_> = alone.into_iter().map(|leaving| self.release_alone(leaving)).collect();
        for part in plain.chunks(BULK) {
            let mut going = Vec::with_capacity(part.len());
            for PendingRelease { id, server_lease, keep_until } in part {
                match self.begin_release(Some(*id), server_lease) {
                    // A new request has reclaimed it.
                    None => {}
                    // Requests of this process wait for it by now, so other processes are notified
                    // by `release_yielding`.
                    Some(true) => {
                        let server_lease = Arc::clone(server_lease);
                        waited.push(self.release_begun(PendingRelease {
                            id: *id,
                            server_lease,
                            keep_until: *keep_until,
                        }));
                    }
                    Some(false) => {
                        self.take_out_served_of(server_lease);
                        going.push((*id, server_lease));
                    }
                }
            }
            self.release_part(&going, &mut errors, &mut waited).await;
        }
        for outcome in waited {
            errors.extend(outcome.await.ok().and_then(Result::err));
        }
        let _ = tell.send(errors);
    }

    /// Releases keys of one lock kind and hash slot by one script.
    async fn release_part(
        self: &Arc<Self>,
        going: &[(u64, &Arc<ServerLease>)],
        errors: &mut Vec<ReleaseError>,
        waited: &mut Vec<oneshot::Receiver<Result<(), ReleaseError>>>,
    ) {
        let Some((_, first)) = going.first() else { return };
        let fields: Vec<_> = going.iter().map(|(_, server_lease)| server_lease.copied_field()).collect();
        let each = going.iter().zip(&fields);
        let claims: Vec<_> =
            each.map(|((_, server_lease), field)| server_lease.claim(field, std::time::Duration::ZERO)).collect();
        let ends =
            going.iter().map(|(_, server_lease)| server_lease.deadline() + terms::margin(server_lease.lease())).min();
        let own: Vec<_> = going
            .iter()
            .map(|(_, server_lease)| self.core.subscriptions.own_subscription(&server_lease.keys.channel))
            .collect();
        let channels: Vec<_> =
            going.iter().map(|(_, server_lease)| (&server_lease.keys.channel, &server_lease.keys.key)).collect();
        let counting = if yields_to_others(first.protocol) {
            self.core.subscriptions.replica_subscribers(&channels)
        } else {
            None
        };
        let counting = async { if let Some(counting) = counting { counting.await } else { Vec::new() } };
        let sending = self.send_all_back(first.protocol, &claims, ends.unwrap_or(Instant::MIN));
        let (asked, replica_subscribers) = join(sending, counting).await;
        let answers = asked.result.clone().and_then(|reply| reply.into_typed::<Vec<i64>>());
        let answers = answers.ok().filter(|answers| answers.len() == going.len());
        for (nth, (id, server_lease)) in going.iter().enumerate() {
            let status = answers.as_ref().map_or(-1, |answers| answers[nth]);
            if status == -1 {
                // The key is read-only, all keys were rejected, or the slot is migrating: release
                // it alone for its own error.
                let leaving =
                    PendingRelease { id: *id, server_lease: Arc::clone(server_lease), keep_until: Instant::MIN };
                waited.push(self.release_begun(leaving));
                continue;
            }
            // A status below -1 means that the server rejected the publication of the release.
            let unannounced = (status < -1).then_some(self.core.settings.poll_interval);
            let listeners = status.unsigned_abs().saturating_sub(if status < 0 { 2 } else { 1 });
            let told = SubscriberCount { listeners, unannounced, own: own[nth], ..SubscriberCount::default() };
            let audience = (status != 0).then_some(told.with(replica_subscribers.get(nth).copied()));
            errors.extend(released(server_lease, &asked, Ok(status != 0)).err());
            self.release_answered(Some(*id), server_lease, audience);
        }
    }

    async fn send_all_back(&self, kind: &dyn LockProtocol, claims: &[HoldArgs<'_>], until: Instant) -> RequestOutcome {
        self.core.give_back(kind.release_many(claims), until, RetryPolicy::Together).await
    }

    fn release_alone(self: &Arc<Self>, leaving: PendingRelease) -> oneshot::Receiver<Result<(), ReleaseError>> {
        let (tell, told) = oneshot::channel();
        self.spawn_background(self.release_work(
            Some(leaving.id),
            leaving.server_lease,
            leaving.keep_until,
            Some(tell),
        ));
        told
    }

    /// Like `release_alone`, for a server lease whose release has begun.
    fn release_begun(self: &Arc<Self>, leaving: PendingRelease) -> oneshot::Receiver<Result<(), ReleaseError>> {
        let (tell, told) = oneshot::channel();
        let PendingRelease { id, server_lease, keep_until } = leaving;
        let give_way = self.is_waited_for(&server_lease);
        self.spawn_background(self.begun_release(id, server_lease, (keep_until, give_way), tell));
        told
    }

    /// Releases keys that no task of this process holds. Returns when the last answered request was
    /// sent.
    pub(super) async fn give_back_all(
        &self,
        kind: &dyn LockProtocol,
        claims: &[(Arc<LockKeys>, Bytes)],
        limit: Instant,
        lease: std::time::Duration,
    ) -> Instant {
        let mut sent = Instant::MAX;
        for part in claims.chunks(BULK) {
            let claims: Vec<_> = part
                .iter()
                .map(|(target, field)| HoldArgs { target, field, lease: std::time::Duration::ZERO })
                .collect();
            let asked = self.send_all_back(kind, &claims, limit.max(self.now()) + lease).await;
            if let Err(error) = &asked.result {
                tracing::debug!(names = part.len(), %error, "could not give back; the lease ends it");
                // One invalid key rejects all of them, and so does a slot migration: release them
                // one by one.
                for claim in claims.into_iter().filter(|_| matches!(error, ServerError::Refused { .. })) {
                    let until = limit.max(self.now()) + lease;
                    let request = kind.release(claim);
                    self.core.give_back(request, until, RetryPolicy::ToTheEnd).await;
                }
            }
            sent = sent.min(asked.sent);
        }
        sent
    }
}
