//! Release of several keys together: one script per lock kind and hash slot, one outcome per key.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use redgrid_client::Client;
use redgrid_client::internal::RetryPolicy;
use tokio::sync::oneshot;

use crate::author::ClientExt;
use crate::clock::Instant;
use crate::lease::margin;
use crate::lock::acquire::{GRACE, HoldGuard};
use crate::lock::cleanup::BULK;
use crate::lock::error::ReleaseError;
use crate::lock::fairness::SubscriberCount;
use crate::lock::release::{Dropped, Release, released, yields_to_others};
use crate::lock::table::Table;
use crate::service::ClientParts;

/// Guards of several keys with the same client, lock kind and hash slot.
///
/// Dropping this value releases all of the holds together, in the background.
#[must_use = "dropping it releases all of its holds"]
pub struct MultiGrant(Vec<HoldGuard>);

/// Receives the outcome of one release.
type Outcome = oneshot::Receiver<Result<(), ReleaseError>>;

impl MultiGrant {
    /// Combines guards of keys with the same client, lock kind and hash slot.
    pub fn of(grants: Vec<HoldGuard>) -> Self {
        MultiGrant(grants)
    }

    /// Returns the guards in order.
    pub fn iter(&self) -> impl Iterator<Item = &HoldGuard> {
        self.0.iter()
    }

    /// Accepts all guards for the caller: see [`HoldGuard::accept_member`].
    pub fn commit(&self) {
        self.iter().for_each(HoldGuard::accept_member);
    }

    /// Releases all keys and waits for the replies, but no longer than `response_timeout`.
    ///
    /// Returns one error for each key whose release failed or is not confirmed. A release that gets
    /// no reply in this time continues in the background, at most until the lease ends.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release continues in the background.
    pub fn release(mut self) -> impl Future<Output = Vec<ReleaseError>> + Send + use<> {
        // Start the release before the future is awaited, so that several releases can run
        // concurrently.
        let keys: Vec<_> = self.iter().map(|grant| Arc::clone(grant.keys())).collect();
        let started = self.drop_guards();
        async move {
            // Keep the client alive until the replies arrive. Without a handle, the client would
            // shut down and report unsent releases as lost.
            let Some((errors, client)) = started else { return Vec::new() };
            tokio::select! {
                biased;
                errors = errors => errors.unwrap_or_default(),
                () = client.clock().sleep_until(client.clock().now() + client.response_timeout() + GRACE) => {
                    keys.into_iter().map(|keys| ReleaseError::unanswered(keys.name.clone())).collect()
                }
            }
        }
    }

    /// Stops the renewal of all keys, so that each hold ends with its lease.
    pub fn forget(mut self) {
        self.0.drain(..).for_each(HoldGuard::forget);
    }

    /// Drops all guards. Returns the receiver of the errors and a handle of the client. The handle
    /// keeps the client alive, because the guards may have had the client's last handles.
    fn drop_guards(&mut self) -> Option<(oneshot::Receiver<Vec<ReleaseError>>, Client)> {
        let client = self.0.first()?.client().clone();
        let table = Arc::clone(client.table());
        let (answer, receiver) = oneshot::channel();
        let (mut errors, mut releases) = (Vec::new(), Vec::new());
        for mut guard in self.0.drain(..) {
            guard.armed = false;
            match table.drop_guard(&guard.hold, guard.is_first, false) {
                // `Inline` does not occur here, because the last argument, `caller`, is false.
                Dropped::Done | Dropped::Inline(..) => {}
                Dropped::Lost(reason) => errors.push(ReleaseError::Lost { name: guard.name().clone(), reason }),
                Dropped::Last(release) => releases.push(release),
            }
        }
        if releases.is_empty() {
            let _ = answer.send(errors);
        } else {
            let work = Arc::clone(&table).release_together(releases, errors, answer);
            table.core.spawn_background(Box::pin(work));
        }
        Some((receiver, client))
    }
}

impl Drop for MultiGrant {
    fn drop(&mut self) {
        let _ = self.drop_guards();
    }
}

impl Table {
    async fn release_together(
        self: Arc<Self>,
        releases: Vec<Release>,
        mut errors: Vec<ReleaseError>,
        answer: oneshot::Sender<Vec<ReleaseError>>,
    ) {
        let now = self.now();
        // Some keys are released separately: those that stay taken for a while, and those that a
        // retransmission can acquire again.
        let (plain, alone): (Vec<_>, Vec<_>) = releases
            .into_iter()
            .partition(|release| release.keep_until <= now && release.server_lease.retransmission_ends().is_none());
        let mut waited: Vec<_> = alone.into_iter().map(|release| self.release_alone(release, None)).collect();
        let mut plain = plain.into_iter().peekable();
        while plain.peek().is_some() {
            let mut begun = Vec::with_capacity(BULK.min(plain.len()));
            for release in plain.by_ref().take(BULK) {
                match self.begin_release(&release) {
                    // A new request has reclaimed the server lease.
                    None => {}
                    // Requests of this process wait for the lock. So the lock is released
                    // separately, in the mode that lets other processes go first.
                    Some(true) => waited.push(self.release_alone(release, Some(true))),
                    Some(false) => {
                        self.take_out_served_of(&release.server_lease);
                        begun.push(release);
                    }
                }
            }
            self.release_part(begun, &mut errors, &mut waited).await;
        }
        for outcome in waited {
            errors.extend(outcome.await.ok().and_then(Result::err));
        }
        let _ = answer.send(errors);
    }

    /// Releases keys of one lock kind and hash slot by one script.
    async fn release_part(
        self: &Arc<Self>,
        releases: Vec<Release>,
        errors: &mut Vec<ReleaseError>,
        waited: &mut Vec<Outcome>,
    ) {
        let Some(first) = releases.first() else { return };
        let protocol = first.server_lease.protocol;
        let leases: Vec<_> = releases.iter().map(|release| &release.server_lease).collect();
        let request = {
            let fields: Vec<_> = leases.iter().map(|lease| self.core.field(lease.id)).collect();
            let each = leases.iter().zip(&fields);
            let claims: Vec<_> = each.map(|(lease, field)| lease.claim(field, Duration::ZERO)).collect();
            protocol.release_many(&claims)
        };
        let ends = leases.iter().map(|lease| lease.deadline() + margin(lease.lease())).min();
        let subscriptions = &self.core.subscriptions;
        let own: Vec<_> = leases.iter().map(|lease| subscriptions.own_subscription(&lease.keys.channel)).collect();
        let channels: Vec<_> = leases.iter().map(|lease| (&lease.keys.channel, &lease.keys.key)).collect();
        let counting = match yields_to_others(protocol) {
            true => subscriptions.replica_subscribers(&channels),
            false => None,
        };
        let counting = async { if let Some(counting) = counting { counting.await } else { Vec::new() } };
        let sending = self.core.give_back(request, ends.unwrap_or(Instant::MIN), RetryPolicy::Together);
        let (outcome, at_replicas) = join(sending, counting).await;
        let answers = outcome.result.clone().and_then(|reply| reply.into_typed::<Vec<i64>>());
        let answers = answers.ok().filter(|answers| answers.len() == releases.len());
        for (nth, release) in releases.into_iter().enumerate() {
            let status = answers.as_ref().map_or(-1, |answers| answers[nth]);
            if status == -1 {
                // The key cannot be written, or the whole request failed, for example while the
                // slot migrates. A separate release of this key succeeds or reports its own error.
                let yields = self.is_waited_for(&release);
                waited.push(self.release_alone(release, Some(yields)));
                continue;
            }
            // A status below -1 means that the server rejected the publication of the release.
            let unannounced = (status < -1).then_some(self.core.settings.poll_interval);
            let listeners = status.unsigned_abs().saturating_sub(if status < 0 { 2 } else { 1 });
            let count = SubscriberCount { listeners, unannounced, own: own[nth], ..SubscriberCount::default() };
            let count = (status != 0).then_some(count.with(at_replicas.get(nth).copied()));
            errors.extend(released(&release.server_lease, &outcome, Ok(status != 0)).err());
            self.release_answered(release.id, &release.server_lease, count);
        }
    }

    /// Spawns a task that releases one server lease. `begun` is passed on to
    /// [`release_task`](Table::release_task).
    fn release_alone(self: &Arc<Self>, release: Release, begun: Option<bool>) -> Outcome {
        let (answer, receiver) = oneshot::channel();
        self.core.spawn_background(self.release_task(release, begun, Some(answer)));
        receiver
    }

    fn is_waited_for(&self, release: &Release) -> bool {
        let (now, key) = (self.now(), release.server_lease.lock_id());
        self.state().locks.get_mut(&key).is_some_and(|lock| lock.next(now).is_some())
    }
}
