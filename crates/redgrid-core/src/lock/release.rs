//! Ends a hold when its last guard is dropped, and releases its lock.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use redgrid_client::internal::{RequestOutcome, RetryPolicy, pinned};
use redgrid_client::{Code, Reply, ServerError};
use tokio::sync::oneshot;

use super::acquire::{GRACE, HoldGuard};
use super::error::{LostReason, ReleaseError};
use super::fairness::SubscriberCount;
use super::hold::{Hold, ServerLease};
use super::protocol::LockProtocol;
use super::table::{Answers, Busy, Table, send};
use crate::author::ClientExt;
use crate::clock::Instant;
use crate::observe::{OpContext, OpSpan};
use crate::unpolled::{BackgroundTask, InPlace, InlineTask};

impl HoldGuard {
    /// Releases the hold and waits for the reply, but no longer than `response_timeout`.
    ///
    /// Without a reply in that time, the release goes on in the background. It ends when the server
    /// answers, or when the lease has certainly ended on the server. An unanswered
    /// [`extend`](HoldGuard::extend) may have lengthened that lease.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] if the hold had ended before; [`ReleaseError::OutcomeUnknown`] if no
    /// reply arrives in time; [`ReleaseError::Refused`] if the server refused the release.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the release goes on in the background.
    pub fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send + use<> {
        let op = OpSpan::release(op_context(&self.hold), self.hold.token);
        op.instrument(self.release_and_wait())
    }

    async fn release_and_wait(mut self) -> Result<(), ReleaseError> {
        self.armed = false;
        let name = self.hold.server_lease.keys.name.clone();
        let (task, receiver) = match self.table().drop_guard(&self.hold, self.is_first, true) {
            Dropped::Done => return Ok(()),
            Dropped::Lost(reason) => return Err(ReleaseError::Lost { name, reason }),
            Dropped::Last(release) => {
                let (answer, receiver) = oneshot::channel();
                self.table().core.spawn_background(self.table().release_task(release, None, Some(answer)));
                (None, receiver)
            }
            Dropped::Inline(inline_task, receiver) => (Some(inline_task), receiver),
        };
        let core = &self.table().core;
        let until = core.clock.now() + core.settings.response_timeout + GRACE;
        // On a live connection, an inline request wakes its caller even if no reply arrives in
        // time. The caller sets a timer of its own only after that wake-up, because most replies
        // arrive earlier.
        let wakes_itself = task.is_some() && core.is_connected(&self.hold.server_lease.keys.key);
        let mut outcome = InPlace { client: self.client.clone(), receiver, task };
        let mut polled = false;
        let first = poll_fn(|cx| match outcome.poll_unpin(cx) {
            Poll::Ready(released) => Poll::Ready(Some(released)),
            Poll::Pending if !wakes_itself || std::mem::replace(&mut polled, true) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        let released = match first.await {
            Some(released) => released,
            None => {
                // Boxed, because few releases need this future. Without the box, it would take
                // space in every release.
                let bounded = Box::pin(async {
                    tokio::select! {
                        biased;
                        released = &mut outcome => Some(released),
                        () = core.clock.sleep_until(until) => None,
                    }
                });
                let Some(released) = bounded.await else { return Err(ReleaseError::unanswered(name)) };
                released
            }
        };
        released.unwrap_or_else(|| Err(ReleaseError::OutcomeUnknown { name, source: self.client.ended() }))
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        if self.armed
            && let Dropped::Last(release) = self.table().drop_guard(&self.hold, self.is_first, false)
        {
            self.table().core.spawn_background(self.table().release_task(release, None, None));
        }
    }
}

pub(super) fn op_context(hold: &Hold) -> OpContext<'_> {
    OpContext { labels: hold.server_lease.labels(), name: &hold.server_lease.keys.name }
}

/// The consequence of dropping one guard of a hold.
pub(super) enum Dropped {
    /// No release is due: other guards or sharers remain, or another task has the lock now.
    Done,
    /// The hold was lost before the guard was dropped.
    Lost(LostReason),
    /// The last guard was dropped, and no local task gets the server lease. So the server lease
    /// must be released.
    Last(Release),
    /// The last guard was dropped. The release has begun, and the caller polls it inline.
    Inline(InlineTask, oneshot::Receiver<Result<(), ReleaseError>>),
}

/// A server lease that is about to be released.
pub(super) struct Release {
    /// Id of the release; `None` if the server lease had already been removed from its lock state.
    pub(super) id: Option<u64>,
    pub(super) server_lease: Arc<ServerLease>,
    /// Until when the lock stays taken; in the past if the lock becomes free at once.
    pub(super) keep_until: Instant,
}

/// How a lock is released.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReleaseMode {
    Release,
    /// The lock is released, and other processes go first, although requests of this process wait.
    Yield,
    /// The lock stays taken until this time has passed.
    Retain(Duration),
}

/// The outcome of a release.
pub(super) struct Released {
    pub(super) result: Result<(), ReleaseError>,
    /// Subscribers that may wait for the lock; `None` if there are none or the lock stays taken.
    pub(super) subscribers: Option<SubscriberCount>,
}

/// Value of `waiting` in the reply to a release: the server refused to publish the release.
const REFUSED: u64 = 2;

impl Table {
    /// Drops one guard of a hold; `is_first` says whether it is the hold's first guard.
    ///
    /// The last guard hands the server lease over, or releases it. If `caller` is set and no
    /// request of this process waits for the lock, the caller polls the release inline. In all
    /// other cases a background task sends the release later.
    pub(super) fn drop_guard(self: &Arc<Self>, hold: &Arc<Hold>, is_first: bool, caller: bool) -> Dropped {
        let mut state = self.state();
        let now = self.now();
        let lost = hold.lost_by(now);
        if hold.count_off(is_first) != Some(0) {
            return lost.map_or(Dropped::Done, Dropped::Lost);
        }
        hold.end(None);
        let server_lease = Arc::clone(&hold.server_lease);
        let (key, keep_until) = (server_lease.lock_id(), hold.retained_until());
        let lock = state.locks.get_mut(&key).filter(|lock| lock.position(hold).is_some());
        let Some(lock) = lock else {
            state.remove_if_idle(&key);
            drop(state);
            if lost == Some(LostReason::Expired) && server_lease.is_over() {
                // The lease has ended by the local clock. On the server, the hold can last longer
                // by the margin. So it is released.
                let release = Release { id: None, server_lease, keep_until };
                self.core.spawn_background(self.release_task(release, None, None));
            }
            return Dropped::Lost(lost.unwrap_or(LostReason::Gone));
        };
        lock.remove_hold(hold);
        if !lock.holds.is_empty() {
            lock.left_by_one(&server_lease);
            return lost.map_or(Dropped::Done, Dropped::Lost);
        }
        let keeps = keep_until > now;
        if !keeps && !lock.queue.is_empty() && self.may_pass_on(lock, &server_lease, now) {
            let answers = self.hand_over_next(&mut state, &key, None, now);
            drop(state);
            send(answers);
            return lost.map_or(Dropped::Done, Dropped::Lost);
        }
        let id = self.number();
        let is_inline = caller && lost.is_none() && lock.queue.is_empty() && !lock.loop_running;
        // A new request can reclaim the server lease until a background task sends the release. But
        // if the hold was lost or keeps the lock taken, the server lease cannot be reclaimed.
        lock.busy = Busy::Release { id, queued: !is_inline && !keeps && lost.is_none() };
        let release = Release { id: Some(id), server_lease, keep_until };
        let server_lease = hold.server_lease.id;
        let outcome = if is_inline {
            // The release becomes the lock's inline task. A new waiter moves it to the background.
            let (answer, receiver) = oneshot::channel();
            let inline_task =
                InlineTask::observed(&self.unpolled, self.release_task(release, Some(false), Some(answer)));
            lock.inline_task = Some((server_lease, inline_task.clone()));
            Dropped::Inline(inline_task, receiver)
        } else if let Some(reason) = lost {
            self.core.spawn_background(self.release_task(release, None, None));
            Dropped::Lost(reason)
        } else {
            Dropped::Last(release)
        };
        state.schedule.remove(server_lease);
        outcome
    }

    /// Returns the release of a server lease as a background task.
    ///
    /// The task runs until the server has answered or the lease has ended. If `begun` is `None`,
    /// the release has not begun: a new request can still reclaim the server lease, and then the
    /// task does nothing. Otherwise `begun` says whether requests of this process wait.
    pub(super) fn release_task(
        self: &Arc<Self>,
        release: Release,
        begun: Option<bool>,
        answer: Option<oneshot::Sender<Result<(), ReleaseError>>>,
    ) -> BackgroundTask {
        let table = Arc::clone(self);
        pinned(|| async move {
            let result = match begun.or_else(|| table.begin_release(&release)) {
                None => Ok(()),
                Some(yields) => {
                    let Release { id, server_lease, keep_until } = release;
                    let Released { result, subscribers } = table.release(&server_lease, keep_until, yields).await;
                    table.release_answered(id, &server_lease, subscribers);
                    table.note_released(&server_lease, &result);
                    // A missing permission can still be granted before the lease ends.
                    if let Err(ReleaseError::Refused { source, .. }) = &result
                        && source.code() == Some(Code::NoPermission)
                    {
                        let denied = Arc::clone(&table).release_denied(server_lease, keep_until);
                        table.core.spawn_background(Box::pin(denied));
                    }
                    result
                }
            };
            if let Some(answer) = answer {
                let _ = answer.send(result);
            }
        })
    }

    pub(super) async fn release(
        self: &Arc<Self>,
        server_lease: &Arc<ServerLease>,
        keep_until: Instant,
        yields: bool,
    ) -> Released {
        if server_lease.protocol.queue().is_some()
            && let Some(released) = Box::pin(self.release_in_queue(server_lease, keep_until)).await
        {
            return released;
        }
        let (mut mode, until) = match keep_until == Instant::MIN && !yields {
            true => (ReleaseMode::Release, server_lease.lease_ends()),
            false => self.release_mode(server_lease, keep_until, yields),
        };
        let own = self.core.subscriptions.own_subscription(&server_lease.keys.channel);
        // Subscribers at a replica are counted at the same time, so that the release is sent at
        // once. If waiters subscribe at the primary, no such count is needed.
        let channel = (&server_lease.keys.channel, &server_lease.keys.key);
        let counting = match yields_to_others(server_lease.protocol) {
            true => self.core.subscriptions.replica_subscribers(&[channel]),
            false => None,
        };
        let (mut outcome, at_replicas) = match counting {
            None => (self.send_release(server_lease, mode, until).await, None),
            Some(counting) => {
                let (outcome, counts) = Box::pin(join(self.send_release(server_lease, mode, until), counting)).await;
                (outcome, counts.first().copied())
            }
        };
        if outcome.result.is_err() {
            let again = self.release_again(server_lease, (keep_until, yields), (mode, until), outcome);
            (mode, outcome) = Box::pin(again).await;
        }
        if server_lease.retransmission_ends().is_some() {
            self.release_late_copies(server_lease, outcome.sent, keep_until);
        }
        // The status is 1 + the number of subscribers. If the reply has a second element, it is
        // `waiting`.
        let answer = outcome.result.clone().and_then(|reply| match reply {
            Reply::Array(_) => reply.into_typed::<(u64, u64)>(),
            status => Ok((status.into_typed()?, 0)),
        });
        let mut subscribers = None;
        if let ReleaseMode::Retain(_) = mode {
            self.end_retained(server_lease, keep_until);
        } else if let Ok((status @ 1.., waiting)) = answer {
            let may_wait = status > 1 || waiting > 0 || at_replicas.is_some();
            if may_wait || server_lease.protocol.read_write().is_some() {
                let unannounced = (waiting == REFUSED).then_some(self.core.settings.poll_interval);
                let (listeners, unseen) = (status - 1, waiting == 1);
                let own = own.counted_until(self.core.subscriptions.own_subscription(&server_lease.keys.channel));
                let count = SubscriberCount { listeners, unseen, unannounced, own, ..SubscriberCount::default() };
                subscribers = Some(count.with(at_replicas));
            }
        }
        Released { result: released(server_lease, &outcome, answer.map(|(status, _)| status > 0)), subscribers }
    }

    pub(super) async fn send_release(
        &self,
        server_lease: &ServerLease,
        mode: ReleaseMode,
        until: Instant,
    ) -> RequestOutcome {
        let request = {
            let (protocol, field) = (server_lease.protocol, self.core.field(server_lease.id));
            match mode {
                ReleaseMode::Release => protocol.release(server_lease.claim(&field, Duration::ZERO)),
                ReleaseMode::Yield => protocol.release_yielding(server_lease.claim(&field, Duration::ZERO)),
                ReleaseMode::Retain(keep) => protocol.retain(server_lease.claim(&field, keep)),
            }
        };
        self.core.give_back(request, until, RetryPolicy::ToTheEnd).await
    }

    /// Clears the lock state after the release of its server lease.
    pub(super) fn release_answered(
        self: &Arc<Self>,
        id: Option<u64>,
        server_lease: &Arc<ServerLease>,
        subscribers: Option<SubscriberCount>,
    ) {
        let key = server_lease.lock_id();
        let mut state = self.state();
        let plan = subscribers.and_then(|count| self.yield_plan(&state, &key, server_lease.protocol, count));
        let Some(lock) = state.locks.get_mut(&key) else { return };
        let now = self.now();
        lock.contact = now;
        lock.completed(server_lease.id);
        if matches!(lock.busy, Busy::Release { id: current, .. } if Some(current) == id) {
            lock.busy = Busy::No;
        }
        let mut answers = Answers::new();
        if lock.has(server_lease) {
            lock.server_lease = None;
            if let Some(plan) = plan {
                answers = self.yield_to_others(&mut state, &key, plan, server_lease.handover_ends, now);
            }
        }
        server_lease.end();
        self.go_on(&mut state, &key);
        drop(state);
        send(answers);
    }
}

/// Returns whether a lock kind yields to other subscribers. Kinds with a server queue or with
/// shared holds do not yield.
pub(super) fn yields_to_others(kind: &dyn LockProtocol) -> bool {
    kind.queue().is_none() && !kind.is_shared()
}

/// Returns the outcome of a release. `was_ours` is the reply: whether the lock was still held.
pub(super) fn released(
    server_lease: &ServerLease,
    outcome: &RequestOutcome,
    was_ours: Result<bool, ServerError>,
) -> Result<(), ReleaseError> {
    let name = || server_lease.keys.name.clone();
    let (in_time, repeat) = (outcome.received <= server_lease.deadline(), outcome.was_retransmitted());
    let unclear =
        |what: &'static str| Err(ReleaseError::OutcomeUnknown { name: name(), source: ServerError::unknown(what) });
    match was_ours {
        // The hold's lease may have ended, and a late transmission of the acquire may have restored
        // the hold. In between, others may have held the lock.
        Ok(true) if !in_time && server_lease.retransmission_ends().is_some() => {
            unclear("the lease may have ended in between")
        }
        Ok(true) => Ok(()),
        // The lease cannot have ended before the deadline. So an earlier copy of this release freed
        // the lock, or the hold was taken over or deleted first. The reply does not say which.
        Ok(false) if repeat && in_time => Ok(()),
        Ok(false) if repeat => unclear("the lease ended before the release was answered"),
        Ok(false) => Err(ReleaseError::Lost { name: name(), reason: LostReason::Gone }),
        Err(source @ ServerError::Refused { .. }) => Err(ReleaseError::Refused { name: name(), source }),
        Err(source) => Err(ReleaseError::OutcomeUnknown { name: name(), source }),
    }
}
