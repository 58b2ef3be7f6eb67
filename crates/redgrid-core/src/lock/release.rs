//! Release of a hold, and of all holds when the client shuts down.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::oneshot;

use super::error::{LostReason, ReleaseError};
use super::fairness::{SubscriberCount, YieldPlan};
use super::handover::HandoverReason;
use super::hold::{Hold, Phase};
use super::inline_task::{BackgroundTask, InlineTask};
use super::lock_state::{AcquireFailure, Answers, Busy, send};
use super::protocol::LockProtocol;
use super::server_lease::ServerLease;
use super::table::Table;
use crate::clock::Instant;
use crate::connection::{Reply, Request, RequestOutcome, RetryPolicy};
use crate::error::{Code, ServerError};
use crate::pinned::pinned;

/// How a lock is released.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReleaseMode {
    Release,
    /// While other requests of this process wait.
    Yield,
    /// The lock stays taken for this long.
    Retain(Duration),
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

/// Largest number of locks that one script releases.
pub(super) const BULK: usize = 500;

/// What dropping one guard of a hold leads to, before the release is built.
pub(super) enum DropStep {
    /// Other guards of the same holder are alive, or another task has the lock now.
    Done,
    /// The hold was lost before.
    Lost(LostReason),
    /// The last guard, without waiters in this process: release the server lease under this id.
    Release { id: u64, keep_until: Instant },
    /// The last guard; its release has begun and is polled inline.
    ReleasingInline(InlineTask, ReleaseReceiver),
}

/// What drives a release.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReleasedBy {
    /// A background task, later. Until then a new request may reclaim the server lease.
    Task,
    /// The caller, at once, unless a request of this process waits for the lock.
    Caller,
}

/// Receives the outcome of a release.
pub(super) type ReleaseReceiver = oneshot::Receiver<Result<(), ReleaseError>>;

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

/// What dropping one guard leads to.
pub(super) enum DropOutcome {
    /// Other guards of the same holder are alive, or another task has the lock now.
    Done,
    /// The hold was lost before.
    Lost(LostReason),
    /// The last guard, without waiters in this process: run this release in a task; the receiver
    /// gets its outcome.
    Release(BackgroundTask, ReleaseReceiver),
    /// The last guard; its release has begun and its caller polls it inline.
    Leaves(InlineTask, ReleaseReceiver),
}

/// The outcome of a release.
pub(super) struct Released {
    pub(super) result: Result<(), ReleaseError>,
    /// Waiters of other processes, if the lock was released to all.
    pub(super) subscribers: Option<SubscriberCount>,
}

impl Table {
    /// Drops one guard of a hold. The caller drives the release that this may return.
    pub(super) fn drop_guard(self: &Arc<Self>, hold: &Arc<Hold>, is_first: bool, by: ReleasedBy) -> DropOutcome {
        match self.drop_last_guard(hold, is_first, by) {
            DropStep::Done => DropOutcome::Done,
            DropStep::Lost(reason) => DropOutcome::Lost(reason),
            DropStep::ReleasingInline(inline_task, told) => DropOutcome::Leaves(inline_task, told),
            DropStep::Release { id, keep_until } => {
                let (tell, told) = oneshot::channel();
                DropOutcome::Release(
                    self.release_work(Some(id), Arc::clone(&hold.server_lease), keep_until, Some(tell)),
                    told,
                )
            }
        }
    }

    /// Drops one guard of a hold: its first one, or another.
    pub(super) fn drop_last_guard(self: &Arc<Self>, hold: &Arc<Hold>, is_first: bool, by: ReleasedBy) -> DropStep {
        let mut state = self.state();
        if hold.count_off(is_first) != Some(0) {
            return hold.lost().map_or(DropStep::Done, DropStep::Lost);
        }
        let now = self.now();
        let lost = hold.lost_by(now);
        hold.end(Phase::Released);
        let server_lease = &hold.server_lease;
        let (key, keep_until) = (server_lease.lock_id(), hold.retained_until());
        let lock = state.locks.get_mut(&key);
        let Some((lock, at)) = lock.and_then(|lock| lock.position(hold).map(|at| (lock, at))) else {
            Self::remove_if_idle(&mut state, &key);
            drop(state);
            if lost == Some(LostReason::Expired) && server_lease.is_over() {
                // The lease has ended by the local clock. The server's key may live on for the
                // margin: delete it.
                self.spawn_background(self.release_work(None, Arc::clone(server_lease), keep_until, None));
            }
            return DropStep::Lost(lost.unwrap_or(LostReason::Gone));
        };
        lock.remove(at);
        if !lock.holds.is_empty() {
            // Other tasks share the lease.
            if lock.holds.len() == 1 {
                server_lease.left_alone();
            }
            if lock.is_forgotten() {
                server_lease.stop_renewing();
            }
            return lost.map_or(DropStep::Done, DropStep::Lost);
        }
        let keep = keep_until > now;
        let passes_on = server_lease.may_hand_over(now) || self.passes_locally(lock).is_some();
        if !keep && server_lease.is_valid_locally_at(now) && passes_on && lock.next(now).is_some() {
            let answers = self.hand_over_next(&mut state, &key, HandoverReason::HandOver, now);
            drop(state);
            send(answers);
            return lost.map_or(DropStep::Done, DropStep::Lost);
        }
        let id = self.number();
        let leaves = by == ReleasedBy::Caller && lost.is_none() && lock.queue.is_empty() && !lock.loop_running;
        // A release that waits for a task may still be reclaimed by a new request, unless the hold
        // was lost.
        let queued = !leaves && !keep && lost.is_none();
        lock.busy = Busy::Release { id, server_lease: server_lease.id, queued };
        if leaves {
            // Registered as the lock's inline task: a new waiter moves it to a background task.
            let (tell, told) = oneshot::channel();
            let inline_task = InlineTask::observed(
                &self.core.unpolled,
                self.begun_release(id, Arc::clone(server_lease), (keep_until, false), tell),
            );
            lock.register(server_lease.id, &inline_task);
            state.schedule.remove(server_lease.id);
            return DropStep::ReleasingInline(inline_task, told);
        }
        state.schedule.remove(server_lease.id);
        drop(state);
        match lost {
            Some(reason) => {
                self.spawn_background(self.release_work(Some(id), Arc::clone(server_lease), keep_until, None));
                DropStep::Lost(reason)
            }
            None => DropStep::Release { id, keep_until },
        }
    }

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

    async fn release(
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
                () = core.ended.is_asked() => {}
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

    async fn send_release(&self, server_lease: &ServerLease, way: ReleaseMode, until: Instant) -> RequestOutcome {
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

    /// Shuts the table down: rejects new requests, wakes all waiters, ends all holds and releases
    /// them in bulk.
    ///
    /// Returns the background tasks that complete the shutdown.
    pub(crate) fn close(self: &Arc<Self>) -> Vec<BackgroundTask> {
        let mut state = self.state();
        state.closed = true;
        let mut waiting = Vec::new();
        let mut inline_tasks = Vec::new();
        for lock in state.locks.values_mut() {
            for entry in lock.queue.drain(..) {
                self.release_position(lock.protocol, &lock.keys, (entry.id, &entry.status), &entry.request);
                waiting.push(entry.answer);
            }
            self.take_out_served(lock);
            lock.notify_loop();
            // Drive inline tasks to their end from here: their callers may stop polling.
            inline_tasks.extend(lock.inline_tasks.drain(..).map(|(_, inline_task)| inline_task));
        }
        let server_leases = state.schedule.drain();
        let mut held = Vec::new();
        for server_lease in server_leases.into_iter().filter(|server_lease| server_lease.end()) {
            let key = server_lease.lock_id();
            let Some(lock) = state.locks.get_mut(&key).filter(|lock| lock.has(&server_lease)) else { continue };
            lock.server_lease = None;
            // A forgotten hold is left to its lease.
            let forgotten = lock.is_forgotten();
            let keep_until = lock.holds.iter().map(|hold| hold.retained_after_shutdown()).max().unwrap_or(Instant::MIN);
            for hold in lock.holds.drain(..) {
                hold.end(Phase::ShutDown);
            }
            if !forgotten {
                held.push((server_lease, keep_until));
            }
            Self::remove_if_idle(&mut state, &key);
        }
        drop(state);
        for answer in waiting {
            let _ = answer.send(Err(AcquireFailure::ShuttingDown));
        }
        let now = self.now();
        let (keeping, plain): (Vec<_>, Vec<_>) = held
            .into_iter()
            .partition(|(server_lease, keep_until)| *keep_until > now || server_lease.retransmission_ends().is_some());
        let mut work: Vec<BackgroundTask> =
            inline_tasks.into_iter().filter_map(|inline_task: InlineTask| inline_task.take()).collect();
        for (server_lease, keep_until) in keeping {
            let table = Arc::clone(self);
            work.push(Box::pin(async move {
                table.release(&server_lease, keep_until, false).await;
            }));
        }
        let mut plain: Vec<_> = plain.into_iter().map(|(server_lease, _)| server_lease).collect();
        let place = |server_lease: &Arc<ServerLease>| {
            (server_lease.protocol.name(), self.core.topology.slot(&server_lease.keys.key))
        };
        plain.sort_by_key(place);
        let together = |a: &Arc<ServerLease>, b: &Arc<ServerLease>| place(a) == place(b);
        for group in plain.chunk_by(together) {
            for part in group.chunks(BULK) {
                let (table, part) = (Arc::clone(self), part.to_vec());
                work.push(Box::pin(async move { table.release_many(&part).await }));
            }
        }
        work
    }

    async fn release_many(&self, server_leases: &[Arc<ServerLease>]) {
        let Some(first) = server_leases.first() else { return };
        let fields: Vec<_> = server_leases.iter().map(|server_lease| server_lease.copied_field()).collect();
        let each = server_leases.iter().zip(&fields);
        let claims: Vec<_> = each.map(|(server_lease, field)| server_lease.claim(field, Duration::ZERO)).collect();
        let request = first.protocol.release_many(&claims);
        let until = self.now() + self.core.settings.patience();
        let asked = self.core.give_back(request, until, RetryPolicy::Together).await;
        if asked.result.is_err() && server_leases.len() > 1 {
            // One invalid key rejects all of them, and so does a slot migration: release them one
            // by one.
            for server_lease in server_leases {
                self.send_release(server_lease, ReleaseMode::Release, until).await;
            }
        }
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
