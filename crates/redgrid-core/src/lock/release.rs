//! Release of a hold.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::oneshot;

use super::error::{LostReason, ReleaseError};
use super::fairness::{SubscriberCount, YieldPlan};
use super::inline_task::BackgroundTask;
use super::lock_state::Busy;
use super::protocol::LockProtocol;
use super::server_lease::ServerLease;
use super::table::Table;
use super::waiter::{Answers, send};
use crate::clock::Instant;
use crate::connection::{Reply, Request, RequestOutcome, RetryPolicy};
use crate::error::{Code, ServerError};
use crate::pinned::pinned;
/// How a lock is released.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReleaseMode {
    Release,
    /// While other requests of this process wait.
    Yield,
    /// The lock stays taken for this long.
    Retain(Duration),
}

/// Returns whether a lock kind yields to other subscribers. Kinds with a server queue or shared
/// holds do not.
pub(super) fn yields_to_others(kind: &dyn LockProtocol) -> bool {
    kind.queue().is_none() && !kind.is_shared()
}

/// The first pause before a release that was denied is sent again: 100 ms. The longest is 1 s,
/// because a shutdown waits for it.
const DENIED_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_DENIED_PAUSE: Duration = Duration::from_secs(1);

/// Returns whether the server denied a release for lack of permission.
///
/// The permission may be granted before the lease ends.
fn is_denied(error: &ReleaseError) -> bool {
    matches!(error, ReleaseError::Refused { source, .. } if source.code() == Some(Code::NoPermission))
}

/// The reply to a release, in any mode.
struct ReleaseReply {
    was_ours: bool,
    listeners: u64,
    unseen: bool,
    /// The server rejected the publication of the release.
    refused: bool,
}

/// Value of `waiting` in the reply: the server rejected the publication of the release.
const REFUSED: u64 = 2;

impl ReleaseReply {
    fn read(reply: Reply) -> Result<ReleaseReply, ServerError> {
        let (status, waiting) = match reply {
            Reply::Array(_) => reply.into_typed::<(u64, u64)>()?,
            status => (status.into_typed()?, 0),
        };
        let (unseen, refused) = (waiting == 1, waiting == REFUSED);
        Ok(ReleaseReply { was_ours: status > 0, listeners: status.saturating_sub(1), unseen, refused })
    }
}

/// The outcome of a release.
pub(super) struct Released {
    pub(super) result: Result<(), ReleaseError>,
    /// Waiters of other processes, if the lock was released to all.
    pub(super) subscribers: Option<SubscriberCount>,
}

impl Table {
    /// Returns the release of a server lease as a background task.
    ///
    /// It runs until the server has answered or the lease has ended. Before it starts, a new
    /// request may reclaim the server lease; then it does nothing.
    pub(super) fn release_work(
        self: &Arc<Self>,
        id: Option<u64>,
        server_lease: Arc<ServerLease>,
        keep_until: Instant,
        tell: Option<oneshot::Sender<Result<(), ReleaseError>>>,
    ) -> BackgroundTask {
        let table = Arc::clone(self);
        pinned(|| async move {
            let result = match table.begin_release(id, &server_lease) {
                None => Ok(()),
                Some(give_way) => table.release_and_report(id, &server_lease, (keep_until, give_way)).await,
            };
            if let Some(tell) = tell {
                let _ = tell.send(result);
            }
        })
    }

    /// Like `release_work`, for a release that has begun; `how.1` is whether requests of this
    /// process wait.
    pub(super) fn begun_release(
        self: &Arc<Self>,
        id: u64,
        server_lease: Arc<ServerLease>,
        how: (Instant, bool),
        tell: oneshot::Sender<Result<(), ReleaseError>>,
    ) -> BackgroundTask {
        let table = Arc::clone(self);
        pinned(|| async move {
            let _ = tell.send(table.release_and_report(Some(id), &server_lease, how).await);
        })
    }

    /// Begins the release, which is sent next.
    ///
    /// Returns whether requests of this process wait, or `None` if the server lease was reclaimed.
    /// Without an id the server lease was removed from its lock before.
    pub(super) fn begin_release(&self, id: Option<u64>, server_lease: &Arc<ServerLease>) -> Option<bool> {
        let mut state = self.state();
        let Some(id) = id else { return Some(false) };
        let lock = state.locks.get_mut(&server_lease.lock_id())?;
        match &mut lock.busy {
            Busy::Release { id: present, queued, .. } if *present == id => *queued = false,
            _ => return None,
        }
        // Most locks have no waiter; then the clock is not read.
        let give_way = !lock.queue.is_empty() && lock.next(self.now()).is_some();
        state.schedule.remove(server_lease.id);
        Some(give_way)
    }

    pub(super) async fn release(
        self: &Arc<Self>,
        server_lease: &Arc<ServerLease>,
        keep_until: Instant,
        give_way: bool,
    ) -> Released {
        let mut way = self.release_mode(keep_until, give_way);
        if server_lease.protocol.queue().is_some() {
            if let ReleaseMode::Retain(_) = way {
                self.take_out_served_of(server_lease);
            } else if let Some(released) =
                Box::pin(self.release_and_pass(server_lease, server_lease.lease_ends())).await
            {
                return released;
            }
        }
        let mut until = self.sent_until(server_lease, way);
        let own = self.core.subscriptions.own_subscription(&server_lease.keys.channel);
        // Run both requests concurrently, so that the release does not wait for the replica's
        // count. Without subscribers on replicas no count is requested.
        let channel = (&server_lease.keys.channel, &server_lease.keys.key);
        let counting = if yields_to_others(server_lease.protocol) {
            self.core.subscriptions.replica_subscribers(&[channel])
        } else {
            None
        };
        let (mut asked, replica_subscribers) = match counting {
            None => (self.send_release(server_lease, way, until).await, None),
            Some(counting) => {
                let (asked, replica_subscribers) =
                    Box::pin(join(self.send_release(server_lease, way, until), counting)).await;
                (asked, replica_subscribers.first().copied())
            }
        };
        while asked.result.is_err() && server_lease.lease_ends() > until && self.now() >= until {
            // A renewal was in flight at the start, or less time is to be retained by now.
            way = self.release_mode(keep_until, give_way);
            until = self.sent_until(server_lease, way);
            let again = Box::pin(self.send_release(server_lease, way, until)).await;
            asked = RequestOutcome {
                retransmission_ends: again.retransmission_ends.max(asked.retransmission_ends),
                ..again
            };
        }
        let denied = |error: &ServerError| error.code() == Some(Code::NoPermission);
        if way == ReleaseMode::Yield && asked.result.as_ref().is_err_and(denied) {
            // Perhaps only reading the flag of polling waiters was denied.
            asked = self.send_release(server_lease, ReleaseMode::Release, until).await;
        }
        self.release_late_copies(server_lease, asked.sent, keep_until);
        if let ReleaseMode::Retain(_) = way {
            self.end_retained(server_lease, keep_until);
        }
        let answer = asked.result.clone().and_then(ReleaseReply::read);
        let is_free = !matches!(way, ReleaseMode::Retain(_));
        let audience = answer.as_ref().ok().filter(|answer| answer.was_ours && is_free);
        let audience = audience.map(|answer| {
            let (listeners, unseen) = (answer.listeners, answer.unseen);
            let unannounced = answer.refused.then_some(self.core.settings.poll_interval);
            SubscriberCount { listeners, unseen, unannounced, own, ..SubscriberCount::default() }
                .with(replica_subscribers)
        });
        let result = released(server_lease, &asked, answer.map(|answer| answer.was_ours));
        Released { result, subscribers: audience }
    }

    /// Runs a release that has begun to its end and reports the outcome.
    async fn release_and_report(
        self: &Arc<Self>,
        id: Option<u64>,
        server_lease: &Arc<ServerLease>,
        (keep_until, give_way): (Instant, bool),
    ) -> Result<(), ReleaseError> {
        let released = self.release(server_lease, keep_until, give_way).await;
        if released.result.as_ref().is_err_and(is_denied) {
            self.spawn_background(Box::pin(Arc::clone(self).release_denied(Arc::clone(server_lease), keep_until)));
        }
        self.release_answered(id, server_lease, released.subscribers);
        released.result
    }

    /// Retries a denied release until it succeeds or the lease ends.
    ///
    /// It removes only the server lease's own holder field: a later holder is not affected. Until
    /// `keep_until` the lock stays taken.
    async fn release_denied(self: Arc<Self>, server_lease: Arc<ServerLease>, keep_until: Instant) {
        let mut pause = DENIED_PAUSE;
        loop {
            let again = self.now() + pause;
            if again >= server_lease.lease_ends() || self.is_closed() {
                return;
            }
            self.core.clock.sleep_until(again).await;
            let way = self.release_mode(keep_until, false);
            let asked = self.send_release(&server_lease, way, server_lease.lease_ends()).await;
            if asked.result.is_ok() {
                return;
            }
            pause = (pause * 2).min(LONGEST_DENIED_PAUSE);
        }
    }

    /// Ends at `keep_until` what was retained, for kinds where the lifetime of the key may not.
    fn end_retained(self: &Arc<Self>, server_lease: &ServerLease, keep_until: Instant) {
        let field = server_lease.copied_field();
        if let Some(request) = server_lease.protocol.end_retained(server_lease.claim(&field, Duration::ZERO)) {
            self.give_back_at(keep_until, request, server_lease.lease());
        }
    }

    /// Sends `request` at the instant `at`, for `within` at most. A shutdown does not wait for it: the
    /// lifetime of the key ends what is left.
    pub(super) fn give_back_at(self: &Arc<Self>, at: Instant, request: Request, within: Duration) {
        let core = Arc::clone(&self.core);
        self.spawn_background(Box::pin(async move {
            tokio::select! {
                () = core.clock.sleep_until(at) => {
                    core.give_back(request, at + within, RetryPolicy::ToTheEnd).await;
                }
                () = core.life.asked() => {}
            }
        }));
    }

    pub(super) fn is_waited_for(&self, server_lease: &ServerLease) -> bool {
        let now = self.now();
        self.state().locks.get_mut(&server_lease.lock_id()).is_some_and(|lock| lock.next(now).is_some())
    }

    /// Returns the mode of a release that retains the lock until `keep_until`, as of now.
    fn release_mode(&self, keep_until: Instant, give_way: bool) -> ReleaseMode {
        // Most releases retain nothing; then the clock is not read.
        let keep = if keep_until == Instant::MIN { Duration::ZERO } else { keep_until.since(self.now()) };
        match (keep.is_zero(), give_way) {
            (false, _) => ReleaseMode::Retain(keep),
            (true, true) => ReleaseMode::Yield,
            (true, false) => ReleaseMode::Release,
        }
    }

    /// Returns until when the release is sent: to the end of the lease.
    ///
    /// A release that retains is sent for at most one response timeout, because the time to retain
    /// shrinks.
    fn sent_until(&self, server_lease: &ServerLease, way: ReleaseMode) -> Instant {
        match way {
            ReleaseMode::Retain(_) => server_lease.lease_ends().min(self.now() + self.core.settings.response_timeout),
            ReleaseMode::Release | ReleaseMode::Yield => server_lease.lease_ends(),
        }
    }

    pub(super) async fn send_release(
        &self,
        server_lease: &ServerLease,
        way: ReleaseMode,
        until: Instant,
    ) -> RequestOutcome {
        let request = {
            let field = server_lease.copied_field();
            match way {
                ReleaseMode::Release => server_lease.protocol.release(server_lease.claim(&field, Duration::ZERO)),
                ReleaseMode::Yield => {
                    server_lease.protocol.release_yielding(server_lease.claim(&field, Duration::ZERO))
                }
                ReleaseMode::Retain(keep) => server_lease.protocol.retain(server_lease.claim(&field, keep)),
            }
        };
        self.core.give_back(request, until, RetryPolicy::ToTheEnd).await
    }

    pub(super) fn release_answered(
        self: &Arc<Self>,
        id: Option<u64>,
        server_lease: &Arc<ServerLease>,
        audience: Option<SubscriberCount>,
    ) {
        let key = server_lease.lock_id();
        let mut state = self.state();
        let (now, mut answers) = (self.now(), Answers::new());
        // Shared kinds do not yield: waiters announce themselves. Waiters of the paired mode count
        // as others.
        let beside = u64::from(state.waits_in_paired_mode(server_lease.protocol, &server_lease.keys));
        let audience = audience.filter(|_| !server_lease.protocol.is_shared());
        let audience = audience.map(|told| SubscriberCount { listeners: told.listeners + beside, ..told });
        let audience = audience.map(|told| state.phantoms.without(&key, told, now));
        let Some(lock) = state.locks.get_mut(&key) else { return };
        lock.contact = now;
        lock.completed(server_lease.id);
        if matches!(lock.busy, Busy::Release { id: present, .. } if Some(present) == id) {
            lock.busy = Busy::No;
        }
        if lock.has(server_lease) {
            lock.server_lease = None;
            let turn = audience.and_then(|audience| YieldPlan::after(audience, self.round_trip(&key)));
            if lock.next(now).is_some() {
                lock.yield_plan = turn.map(Box::new);
                if turn.is_some() {
                    // Other processes go first, so the lock is busy for try-only waiters.
                    answers = lock.reject_try_waiters();
                }
            } else if let Some(turn) = turn {
                self.remember_yield(&mut state, &key, turn, server_lease.handover_ends);
            }
        }
        server_lease.end();
        self.go_on(&mut state, &key);
        drop(state);
        send(answers);
    }
}

/// Returns the outcome of a release from its reply, which says whether the lock was held.
pub(super) fn released(
    server_lease: &ServerLease,
    asked: &RequestOutcome,
    was_ours: Result<bool, ServerError>,
) -> Result<(), ReleaseError> {
    let name = || server_lease.keys.name.clone();
    let (in_time, repeat) = (asked.received <= server_lease.deadline(), asked.was_retransmitted());
    let unclear =
        |what: &'static str| Err(ReleaseError::OutcomeUnknown { name: name(), source: ServerError::unknown(what) });
    match was_ours {
        // After the lease, a late transmission of the acquire may have restored the hold, with
        // other holders in between.
        Ok(true) if !in_time && server_lease.retransmission_ends().is_some() => {
            unclear("the lease may have ended in between")
        }
        Ok(true) => Ok(()),
        // An earlier transmission may have released it: no other process can have held it before
        // the deadline.
        Ok(false) if repeat && in_time => Ok(()),
        Ok(false) if repeat => unclear("the lease ended before the release was answered"),
        Ok(false) => Err(ReleaseError::Lost { name: name(), reason: LostReason::Gone }),
        Err(source @ ServerError::Refused { .. }) => Err(ReleaseError::Refused { name: name(), source }),
        Err(source) => Err(ReleaseError::OutcomeUnknown { name: name(), source }),
    }
}
