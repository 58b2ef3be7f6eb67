//! Sends the acquire request of a lock and delivers its result to the waiters that it concerns.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;

use super::cleanup::DeferredRelease;
use super::handover::{HandoverReason, InstallOutcome};
use super::inline_task::BackgroundTask;
use super::lock_state::{AcquireFailure, Answers, LockId, LockState, RequestStatus, Waiter, send};
use super::protocol::{AcquireContext, HoldArgs, LockKeys, LockProtocol, ServerQueue};
use super::server_lease::{GrantReply, ServerLease};
use super::table::Table;
use super::terms::{self, AcquireRequest};
use crate::clock::Instant;
use crate::connection::{CommitError, Reply, RequestOutcome, RetryPolicy, jittered};
use crate::error::ServerError;
use crate::pinned::pinned;

/// One acquire attempt: the waiter that it is for, and the parameters of its request.
pub(super) struct Attempt {
    pub(super) key: LockId,
    protocol: &'static dyn LockProtocol,
    pub(super) keys: Arc<LockKeys>,
    entry: u64,
    request: Arc<AcquireRequest>,
    status: Arc<RequestStatus>,
    until: Instant,
    /// Lease requested on the server.
    lease: Duration,
    handover_window: Duration,
    /// End of the hand-over window that the grant continues, if any.
    continued: Option<Instant>,
    context: AcquireContext,
}

impl Attempt {
    /// Returns the server queue in which the attempt has, or gets, a position. A `once` request has
    /// none.
    fn queue(&self) -> Option<&'static dyn ServerQueue> {
        self.protocol.queue().filter(|_| !self.request.once)
    }

    /// Builds the release of what the attempt may acquire until `limit`.
    fn deferred_release(&self, field: &Bytes, limit: Instant, at_once: bool) -> DeferredRelease {
        let (kind, target, field, lease) = (self.protocol, Arc::clone(&self.keys), field.clone(), self.lease);
        DeferredRelease { protocol: kind, keys: target, field, limit, at_once, keep_until: Instant::MIN, lease }
    }
}

/// Parsed reply to an acquire request.
pub(super) enum AcquireReply {
    Granted {
        token: u64,
        /// Other holders lost the lock by it (forced takeover).
        robbed: bool,
    },
    /// Others hold the lock for this long.
    Busy(Duration),
    TooLate,
    Failed(AcquireFailure),
}

impl Table {
    /// Builds the attempt of the first waiter whose future and timeout are still live.
    pub(super) fn attempt_of(&self, key: &LockId, lock: &mut LockState, now: Instant) -> Option<Attempt> {
        let first = lock.queue.iter().position(|entry| !entry.answer.is_closed() && entry.until > now)?;
        self.attempt_for(key, lock, first, now)
    }

    /// Builds the attempt of the waiter at index `at` of the local queue.
    pub(super) fn attempt_for(&self, key: &LockId, lock: &mut LockState, at: usize, now: Instant) -> Option<Attempt> {
        let entry = lock.queue.get(at)?;
        let spare = self.extra_lease(lock.protocol, key);
        let handover_window = if lock.protocol.hands_over_locally() { spare } else { Duration::ZERO };
        // A request with a timeout waits until then, even without contact to the server.
        let patience = if entry.request.wait.is_some() { Duration::MAX } else { self.core.settings.patience() };
        Some(Attempt {
            key: key.clone(),
            protocol: lock.protocol,
            keys: Arc::clone(&lock.keys),
            entry: entry.id,
            request: Arc::clone(&entry.request),
            status: Arc::clone(&entry.status),
            until: entry.until.min(now + patience),
            lease: entry.request.server_lease(spare),
            handover_window,
            continued: Some(std::mem::take(&mut lock.continued)).filter(|ends| *ends > Instant::MIN),
            context: AcquireContext {
                under: lock.under.as_deref().cloned(),
                since: lock.waits_since,
                waits: !entry.request.once,
            },
        })
    }

    /// Builds the attempt of the first waiter as a task that delivers its own result.
    pub(super) fn attempt(self: &Arc<Self>, key: &LockId, lock: &mut LockState, now: Instant) -> BackgroundTask {
        let table = Arc::clone(self);
        if let Some(attempt) = self.attempt_of(key, lock, now) {
            return pinned(|| table.try_for(attempt).map(drop));
        }
        // Every timeout has passed before a request could be sent.
        let key = key.clone();
        Box::pin(async move {
            let mut state = table.state();
            if let Some(lock) = state.locks.get_mut(&key) {
                lock.asking = false;
            }
            table.go_on(&mut state, &key);
        })
    }

    /// Sends the request and delivers the result to all waiters that it concerns.
    ///
    /// The request is sent a second time if the server found the first too late. It is also
    /// repeated while the requested durability fails only temporarily. Returns how long others hold
    /// the lock, if they do.
    #[expect(clippy::manual_async_fn, reason = "that one would have room for the attempt twice")]
    pub(super) fn try_for(self: Arc<Self>, attempt: Attempt) -> impl Future<Output = Option<Duration>> + Send {
        async move {
            let durability = attempt.request.durability;
            let mut late = false;
            let (id, field, asked, verdict, proven) = loop {
                let (id, field, asked) = self.send(&attempt).await;
                let verdict = parse_reply(&asked);
                if let (AcquireReply::TooLate, false) = (&verdict, late) {
                    self.schedule_cleanup_of_retransmissions(&attempt, &field, &asked, false);
                    late = true;
                    continue;
                }
                let proven = match verdict {
                    AcquireReply::Granted { .. } => self.core.commit(&asked, durability, &attempt.keys.key).await,
                    _ => Ok(()),
                };
                if proven.as_ref().is_err_and(CommitError::is_passing) && self.now() < attempt.until {
                    // Its slot or its primary is moving (migration, failover): the replicas are not
                    // at fault.
                    let what =
                        attempt.deferred_release(&field, asked.retransmission_ends.unwrap_or(Instant::MIN), true);
                    Box::pin(self.clean_up(what)).await;
                    attempt.status.position.moved(self.number());
                    tokio::time::sleep(jittered(self.core.settings.retry_delay)).await;
                    continue;
                }
                break (id, field, asked, verdict, proven);
            };
            match verdict {
                AcquireReply::Granted { .. } if proven.is_err() => {
                    // Release before the failure is delivered. An immediate new request must not
                    // find the lock held by the grant that is being released.
                    let what =
                        attempt.deferred_release(&field, asked.retransmission_ends.unwrap_or(Instant::MIN), true);
                    Box::pin(self.clean_up(what)).await;
                    self.failed(
                        &attempt,
                        proven.map_or_else(AcquireFailure::NotDurable, |()| AcquireFailure::ShuttingDown),
                    );
                    None
                }
                AcquireReply::Granted { .. } if self.now() >= terms::deadline(asked.sent, attempt.lease) => {
                    // The lease ended before the grant was known here. A guard that holds nothing
                    // is no result.
                    self.schedule_cleanup_of_retransmissions(&attempt, &field, &asked, true);
                    let why = ServerError::unknown("the answer came when the lease had ended");
                    self.failed(&attempt, AcquireFailure::Unknown(why));
                    None
                }
                AcquireReply::Granted { token, .. } => {
                    let (lease, handover_ends) = (
                        (attempt.lease, durability),
                        attempt.continued.unwrap_or(asked.sent + attempt.handover_window),
                    );
                    let mut granted = GrantReply::by(&asked, id, field, token, lease, handover_ends);
                    if attempt.queue().is_some() {
                        // An earlier request for this queue position may also execute late.
                        let unsure = Some(attempt.status.may_execute_until()).filter(|until| *until > asked.sent);
                        granted.retransmission_ends = granted.retransmission_ends.max(unsure);
                    }
                    self.granted(&attempt, granted)
                }
                AcquireReply::Busy(left) => {
                    self.schedule_cleanup_of_retransmissions(&attempt, &field, &asked, false);
                    attempt.status.position.is_next_until(asked.received, left);
                    self.busy(&attempt, &asked);
                    Some(left)
                }
                AcquireReply::TooLate => {
                    self.schedule_cleanup_of_retransmissions(&attempt, &field, &asked, false);
                    let why = ServerError::not_sent("the server found the request too late, twice: its clock jumps");
                    self.failed(&attempt, AcquireFailure::Unavailable(why));
                    None
                }
                AcquireReply::Failed(failure) => {
                    let failure = if asked.retransmission_ends.is_some() { failure.unknown() } else { failure };
                    let unknown = matches!(failure, AcquireFailure::Unknown(_));
                    self.schedule_cleanup_of_retransmissions(&attempt, &field, &asked, unknown);
                    self.failed(&attempt, failure);
                    None
                }
            }
        }
    }

    async fn send(&self, attempt: &Attempt) -> (u64, Bytes, RequestOutcome) {
        let queue = attempt.queue();
        let id = queue.map_or_else(|| self.number(), |_| attempt.status.position.number(attempt.entry));
        let field = self.core.field(id);
        let claim = HoldArgs { target: &attempt.keys, field: &field, lease: attempt.lease };
        let request = match queue {
            None => attempt.protocol.enter(claim, &attempt.context),
            Some(queue) => {
                attempt.status.position.asked();
                queue.enter(claim, self.position_ttl())
            }
        };
        let asked = self.core.exchange(request, attempt.until, RetryPolicy::Retries, &attempt.status.progress).await;
        (id, field, asked)
    }

    /// Schedules the release of what unanswered retransmissions may acquire. It is sent when they
    /// can no longer execute.
    fn schedule_cleanup_of_retransmissions(
        self: &Arc<Self>,
        attempt: &Attempt,
        field: &Bytes,
        asked: &RequestOutcome,
        unknown: bool,
    ) {
        // A reply that cannot be parsed may have been a grant.
        let limit = asked.retransmission_ends.or(unknown.then_some(Instant::MIN));
        if attempt.queue().is_some() {
            // The position is released together with the request or the hold.
            limit.into_iter().for_each(|limit| attempt.status.set_maybe_executed(limit));
        } else if let Some(limit) = limit {
            self.schedule_cleanup(attempt.deferred_release(field, limit, unknown));
        }
    }

    /// Installs a grant and hands it to the requesting waiter, to the next one, or back to the
    /// server.
    ///
    /// Returns the same as `try_for` if the grant was superseded before it was known here.
    fn granted(self: &Arc<Self>, attempt: &Attempt, granted: GrantReply) -> Option<Duration> {
        let (sent, received) = (granted.sent, granted.received);
        let (target, clock) = (Arc::clone(&attempt.keys), self.core.clock.clone());
        let server_lease = Arc::new(ServerLease::new(granted, &attempt.key, target, attempt.protocol, clock));
        let mut state = self.state();
        let lock = match self.install_grant(&mut state, &attempt.key, &server_lease, sent) {
            InstallOutcome::Ours { lock, .. } => lock,
            InstallOutcome::Closed => {
                if let Some(lock) = state.locks.get_mut(&attempt.key) {
                    lock.asking = false;
                }
                Table::remove_if_idle(&mut state, &attempt.key);
                drop(state);
                self.give_back(&server_lease);
                return None;
            }
            InstallOutcome::Superseded => {
                drop(state);
                // After a forced takeover this release finds nothing. If the clocks misled the
                // comparison, it is needed.
                self.give_back(&server_lease);
                attempt.status.position.moved(self.number());
                self.refused(attempt, received, None, 0);
                return Some(Duration::ZERO);
            }
        };
        let (now, mut answers) = (self.now(), Answers::new());
        attempt.status.position.left();
        lock.asking = false;
        lock.completed(attempt.entry);
        if attempt.queue().is_some() && !lock.promote(attempt.entry, received) {
            // The server granted it at this waiter's queue position: no other waiter may use it.
            self.release_unclaimed_grant(lock, &server_lease, Instant::MIN);
            self.go_on(&mut state, &attempt.key);
            return None;
        }
        // The grant has withdrawn the announcement.
        lock.announced = false;
        lock.waits_since = 0;
        if now >= terms::deadline(sent, attempt.request.lease.duration()) {
            // The lease that the waiter requested is over; the lease on the server is not.
            let asker = lock.queue.iter().position(|entry| entry.id == attempt.entry);
            let why = ServerError::unknown("the answer came when the lease had ended");
            let asker = asker.and_then(|at| lock.queue.remove(at));
            answers.extend(asker.map(|entry| (entry.answer, Err(AcquireFailure::Unknown(why)))));
            if attempt.queue().is_some() {
                // The server granted it at this waiter's queue position: no other waiter may use
                // it.
                self.release_unclaimed_grant(lock, &server_lease, Instant::MIN);
                self.go_on(&mut state, &attempt.key);
                drop(state);
                send(answers);
                return None;
            }
        }
        if lock.queue.iter().any(|entry| entry.request.once) {
            // If the requesting waiter has left, the next one gets the grant without another
            // request. Every other `once` request that does not share the grant is answered as
            // busy.
            let first = lock.next(received).map(|entry| (entry.id, entry.request.holder));
            let is_in = |entry: &Waiter| {
                attempt.protocol.is_shared()
                    || first.is_some_and(|(id, holder)| {
                        id == entry.id || (holder.is_some() && holder == entry.request.holder)
                    })
            };
            lock.retain_map(|entry| match entry.request.once && !is_in(&entry) {
                true => {
                    answers.push((entry.answer, Ok(None)));
                    None
                }
                false => Some(entry),
            });
        }
        lock.queue.iter().for_each(|entry| entry.status.set_busy());
        let passed_on =
            self.hand_over_next(&mut state, &attempt.key, HandoverReason::Granted { entry: attempt.entry, sent }, now);
        if answers.is_empty() {
            answers = passed_on;
        } else {
            answers.extend(passed_on);
        }
        self.go_on(&mut state, &attempt.key);
        drop(state);
        send(answers);
        None
    }

    /// Handles a busy reply.
    fn busy(self: &Arc<Self>, attempt: &Attempt, asked: &RequestOutcome) {
        let told = asked.result.clone().and_then(|reply| reply.into_typed::<(i64, u64, i64)>());
        let (_, time, left) = told.unwrap_or_default();
        if let (Some(under), -2) = (&attempt.context.under, left) {
            // The hold under which the request was made is gone. Report that before the reply is
            // delivered.
            self.report_missing(under);
        }
        self.refused(attempt, asked.received, asked.retransmission_ends, time);
    }

    /// Answers `once` requests as busy and keeps the other waiters; `time` is the server's time.
    fn refused(self: &Arc<Self>, attempt: &Attempt, received: Instant, unanswered_until: Option<Instant>, time: u64) {
        let mut answers = Answers::new();
        let mut state = self.state();
        // Unanswered retransmissions are tracked by their own time.
        attempt.status.progress.settled();
        if let Some(lock) = state.locks.get_mut(&attempt.key) {
            lock.contact = received;
            lock.asking = false;
            lock.completed(attempt.entry);
            let waits = lock.queue.iter().any(|entry| entry.id == attempt.entry && !entry.answer.is_closed());
            if attempt.queue().is_some() {
                attempt.status.position.landed(waits);
                if !waits {
                    self.release_position(
                        attempt.protocol,
                        &attempt.keys,
                        (attempt.entry, &attempt.status),
                        &attempt.request,
                    );
                }
            }
            lock.retain_map(|entry| {
                entry.status.set_busy();
                let unsure = unanswered_until.filter(|_| entry.id == attempt.entry);
                match (entry.request.once, unsure) {
                    (false, unsure) => {
                        unsure.into_iter().for_each(|until| entry.status.set_maybe_executed(until));
                        return Some(entry);
                    }
                    (true, None) => answers.push((entry.answer, Ok(None))),
                    (true, Some(_)) => {
                        let why = ServerError::unknown("an earlier copy of the request was not answered");
                        answers.push((entry.answer, Err(AcquireFailure::Unknown(why))));
                    }
                }
                None
            });
            lock.contended = lock.server_lease.is_none() && !lock.queue.is_empty();
            if lock.waits_since == 0 {
                lock.waits_since = time;
            }
            lock.announced |= attempt.context.waits && attempt.protocol.announces_every().is_some();
            if lock.queue.is_empty() && !lock.loop_running {
                self.withdraw(lock);
            }
            self.go_on(&mut state, &attempt.key);
        }
        drop(state);
        send(answers);
    }

    /// Delivers a failure (neither a grant nor busy) to the requesting waiter.
    ///
    /// Waiters that would fail for the same lack of durability fail with it. The others try in
    /// their order, each within its own timeout.
    fn failed(self: &Arc<Self>, attempt: &Attempt, failure: AcquireFailure) {
        let now = self.now();
        let mut answers = Answers::new();
        let mut state = self.state();
        if let Some(lock) = state.locks.get_mut(&attempt.key) {
            lock.asking = false;
            lock.completed(attempt.entry);
            lock.contended = false;
            if matches!(failure, AcquireFailure::Refused(_) | AcquireFailure::NotDurable(_)) {
                lock.contact = now;
            }
            if attempt.queue().is_some() && lock.queue.iter().all(|entry| entry.id != attempt.entry) {
                // The waiter left while its request was in flight. That request may still execute.
                attempt.status.position.landed(false);
                self.release_position(
                    attempt.protocol,
                    &attempt.keys,
                    (attempt.entry, &attempt.status),
                    &attempt.request,
                );
            }
            lock.retain_map(|entry| {
                match entry.id == attempt.entry || also_lacks_durability(&failure, &attempt.request, &entry.request) {
                    true => {
                        self.release_position(
                            attempt.protocol,
                            &attempt.keys,
                            (entry.id, &entry.status),
                            &entry.request,
                        );
                        answers.push((entry.answer, Err(failure.clone())));
                        None
                    }
                    false => Some(entry),
                }
            });
            self.go_on(&mut state, &attempt.key);
        }
        drop(state);
        send(answers);
    }
}

/// Returns whether another waiter would fail for the same lack of durability. The first waiter has
/// just waited as long for the same or less.
fn also_lacks_durability(failure: &AcquireFailure, first: &AcquireRequest, other: &AcquireRequest) -> bool {
    let lacking =
        matches!(failure, AcquireFailure::NotDurable(CommitError::Shortfall { .. } | CommitError::Unsupported { .. }));
    let (has, asked) = (first.durability, other.durability);
    lacking && asked.covers(has) && asked.timeout() <= has.timeout()
}

pub(super) fn failure_of(error: ServerError) -> AcquireFailure {
    match error {
        ServerError::Refused { code, .. } if !code.is_passing() => AcquireFailure::Refused(error),
        ServerError::Refused { .. } | ServerError::NotSent { .. } => AcquireFailure::Unavailable(error),
        ServerError::Unauthorized { .. } => AcquireFailure::Unauthorized(error),
        ServerError::ShuttingDown => AcquireFailure::ShuttingDown,
        ServerError::Unknown { .. } | ServerError::Decode { .. } => AcquireFailure::Unknown(error),
    }
}

/// Smallest plausible server time (µs since 1970; year 2001). Smaller integers are no times.
const MIN_SERVER_TIME: i64 = 1_000_000_000_000_000;

/// Parses the reply to an acquire request, and learns the server's time from it.
pub(super) fn parse_reply(asked: &RequestOutcome) -> AcquireReply {
    let reply = match &asked.result {
        Ok(reply) => reply,
        Err(error) => return AcquireReply::Failed(failure_of(error.clone())),
    };
    let answer = match reply {
        // The most frequent reply: granted at that time, and taken from no other holder.
        Reply::Int(time) if *time > MIN_SERVER_TIME => Ok((1, time.unsigned_abs(), 0, time.unsigned_abs())),
        // Read element by element: a copy of the list would be one more for each acquire.
        Reply::Array(parts) => match &parts[..] {
            [status, time, left] => read(status, time, left, time),
            [status, time, left, token] => read(status, time, left, token),
            _ => Err(misfit(reply)),
        },
        Reply::Error(error) => Err(error.clone()),
        other => Err(misfit(other)),
    };
    match answer {
        Ok((status, time, left, token)) => {
            // After a reconnect, the clock estimate belongs to another server process.
            if asked.by.current_connection_id() == asked.epoch {
                asked.by.time().observe_exchange(time, asked.sent, asked.received);
            }
            match status {
                1 => AcquireReply::Granted { token, robbed: left > 0 },
                0 => AcquireReply::Busy(match left {
                    // The key ended while the script ran, or is about to end: retry soon.
                    -2 | 0 => Duration::from_millis(1),
                    // The key has no TTL: only a message or the poll reports its release.
                    ..0 => Duration::MAX,
                    left => Duration::from_millis(left.unsigned_abs()),
                }),
                _ => AcquireReply::TooLate,
            }
        }
        Err(error) => AcquireReply::Failed(AcquireFailure::Unknown(error)),
    }
}

fn misfit(reply: &Reply) -> ServerError {
    reply.clone().misfit("when it was granted, or a list of three or four")
}

fn read(status: &Reply, time: &Reply, left: &Reply, token: &Reply) -> Result<(i64, u64, i64, u64), ServerError> {
    let (status, left) = (status.clone().into_typed()?, left.clone().into_typed()?);
    Ok((status, time.clone().into_typed()?, left, token.clone().into_typed()?))
}
