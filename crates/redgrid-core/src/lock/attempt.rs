//! Asking the server for a name, and what its answer means for those who wait.

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
use crate::connection::{CommitError, Exchange, Persistence, Reply, jittered};
use crate::error::ServerError;
use crate::pinned::pinned;

/// One attempt: for whom, and where.
pub(super) struct Attempt {
    pub(super) key: LockId,
    kind: &'static dyn LockProtocol,
    pub(super) target: Arc<LockKeys>,
    entry: u64,
    request: Arc<AcquireRequest>,
    status: Arc<RequestStatus>,
    until: Instant,
    /// The lease on the server.
    lease: Duration,
    stretch: Duration,
    /// When the stretch ends that it continues.
    continued: Option<Instant>,
    context: AcquireContext,
}

impl Attempt {
    /// The queue on the server in which it has, or gets, a place. One look has none.
    fn queue(&self) -> Option<&'static dyn ServerQueue> {
        self.kind.queue().filter(|_| !self.request.once)
    }

    /// What it may have taken until `limit`, to be given back.
    fn deferred_release(&self, field: &Bytes, limit: Instant, at_once: bool) -> DeferredRelease {
        let (kind, target, field, lease) = (self.kind, Arc::clone(&self.target), field.clone(), self.lease);
        DeferredRelease { kind, target, field, limit, at_once, keep_until: Instant::PAST, lease }
    }
}

/// What the server said to an acquire.
pub(super) enum AcquireReply {
    Granted {
        token: u64,
        /// It was taken from somebody.
        robbed: bool,
    },
    /// Taken by others, for so long.
    Busy(Duration),
    TooLate,
    Failed(AcquireFailure),
}

impl Table {
    /// The attempt of the first in the queue.
    pub(super) fn attempt_of(&self, key: &LockId, slot: &mut LockState, now: Instant) -> Option<Attempt> {
        let first = slot.queue.iter().position(|entry| !entry.answer.is_closed() && entry.until > now)?;
        self.attempt_for(key, slot, first, now)
    }

    /// The attempt of whoever stands at this place of the queue.
    pub(super) fn attempt_for(&self, key: &LockId, slot: &mut LockState, at: usize, now: Instant) -> Option<Attempt> {
        let entry = slot.queue.get(at)?;
        let spare = self.extra_lease(slot.protocol, key);
        let stretch = if slot.protocol.hands_over_locally() { spare } else { Duration::ZERO };
        // Who set a bound waits up to it, without contact too.
        let patience = if entry.request.wait.is_some() { Duration::MAX } else { self.core.settings.patience() };
        Some(Attempt {
            key: key.clone(),
            kind: slot.protocol,
            target: Arc::clone(&slot.keys),
            entry: entry.id,
            request: Arc::clone(&entry.request),
            status: Arc::clone(&entry.seen),
            until: entry.until.min(now + patience),
            lease: entry.request.server_lease(spare),
            stretch,
            continued: Some(std::mem::take(&mut slot.continued)).filter(|ends| *ends > Instant::PAST),
            context: AcquireContext {
                under: slot.under.as_deref().cloned(),
                since: slot.waits_since,
                waits: !entry.request.once,
            },
        })
    }

    /// The same as work that delivers its result itself.
    pub(super) fn attempt(self: &Arc<Self>, key: &LockId, slot: &mut LockState, now: Instant) -> BackgroundTask {
        let table = Arc::clone(self);
        if let Some(attempt) = self.attempt_of(key, slot, now) {
            return pinned(|| table.try_for(attempt).map(drop));
        }
        // Whose time was over before it could ask.
        let key = key.clone();
        Box::pin(async move {
            let mut state = table.state();
            if let Some(slot) = state.slots.get_mut(&key) {
                slot.asking = false;
            }
            table.go_on(&mut state, &key);
        })
    }

    /// Asks once (twice, when the first was too late) and tells those whom the answer concerns. Returns how long the
    /// name is taken by others, if it is.
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
                    AcquireReply::Granted { .. } => self.core.commit(&asked, durability, &attempt.target.key).await,
                    _ => Ok(()),
                };
                if proven.as_ref().is_err_and(CommitError::is_passing) && self.now() < attempt.until {
                    // Its slot or its primary is on the move: nothing is wrong with the replicas.
                    let what = attempt.deferred_release(&field, asked.unanswered_until.unwrap_or(Instant::PAST), true);
                    Box::pin(self.clean_up(what)).await;
                    attempt.status.position.moved(self.number());
                    tokio::time::sleep(jittered(self.core.settings.retry_delay)).await;
                    continue;
                }
                break (id, field, asked, verdict, proven);
            };
            match verdict {
                AcquireReply::Granted { .. } if proven.is_err() => {
                    // Before it is told: who asks again at once is not to find the name taken by what is being given back.
                    let what = attempt.deferred_release(&field, asked.unanswered_until.unwrap_or(Instant::PAST), true);
                    Box::pin(self.clean_up(what)).await;
                    self.failed(
                        &attempt,
                        proven.map_or_else(AcquireFailure::NotDurable, |()| AcquireFailure::ShuttingDown),
                    );
                    None
                }
                AcquireReply::Granted { .. } if self.now() >= terms::deadline(asked.sent, attempt.lease) => {
                    // Over before it was known: a guard that holds nothing would be no answer.
                    self.schedule_cleanup_of_retransmissions(&attempt, &field, &asked, true);
                    let why = ServerError::unknown("the answer came when the lease had ended");
                    self.failed(&attempt, AcquireFailure::Unknown(why));
                    None
                }
                AcquireReply::Granted { token, .. } => {
                    let (lease, stretch_ends) =
                        ((attempt.lease, durability), attempt.continued.unwrap_or(asked.sent + attempt.stretch));
                    let mut granted = GrantReply::by(&asked, id, field, token, lease, stretch_ends);
                    if attempt.queue().is_some() {
                        // An earlier word for its place may be carried out late, too.
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
                    let failure = if asked.unanswered_until.is_some() { failure.unknown() } else { failure };
                    let unknown = matches!(failure, AcquireFailure::Unknown(_));
                    self.schedule_cleanup_of_retransmissions(&attempt, &field, &asked, unknown);
                    self.failed(&attempt, failure);
                    None
                }
            }
        }
    }

    async fn send(&self, attempt: &Attempt) -> (u64, Bytes, Exchange) {
        let queue = attempt.queue();
        let id = queue.map_or_else(|| self.number(), |_| attempt.status.position.number(attempt.entry));
        let field = self.core.field(id);
        let claim = HoldArgs { target: &attempt.target, field: &field, lease: attempt.lease };
        let request = match queue {
            None => attempt.kind.enter(claim, &attempt.context),
            Some(queue) => {
                attempt.status.position.asked();
                queue.enter(claim, self.position_ttl())
            }
        };
        let asked = self.core.exchange(request, attempt.until, Persistence::Retries, &attempt.status.progress).await;
        (id, field, asked)
    }

    /// Copies without an answer may still be carried out: give back what they take, once their time is over.
    fn schedule_cleanup_of_retransmissions(
        self: &Arc<Self>,
        attempt: &Attempt,
        field: &Bytes,
        asked: &Exchange,
        unknown: bool,
    ) {
        // An answer that is not understood may have been a grant.
        let limit = asked.unanswered_until.or(unknown.then_some(Instant::PAST));
        if attempt.queue().is_some() {
            // Its place is given up with the request, or the hold.
            limit.into_iter().for_each(|limit| attempt.status.set_maybe_executed(limit));
        } else if let Some(limit) = limit {
            self.schedule_cleanup(attempt.deferred_release(field, limit, unknown));
        }
    }

    /// The name is ours: it goes to the one who asked, to the next who waits, or back.
    /// Returns as `try_for` does, when it had been taken from us before it was known.
    fn granted(self: &Arc<Self>, attempt: &Attempt, granted: GrantReply) -> Option<Duration> {
        let (sent, received) = (granted.sent, granted.received);
        let (target, clock) = (Arc::clone(&attempt.target), self.core.clock.clone());
        let server_lease = Arc::new(ServerLease::new(granted, &attempt.key, target, attempt.kind, clock));
        let mut state = self.state();
        let slot = match self.install_grant(&mut state, &attempt.key, &server_lease, sent) {
            InstallOutcome::Ours { slot, .. } => slot,
            InstallOutcome::Closed => {
                if let Some(slot) = state.slots.get_mut(&attempt.key) {
                    slot.asking = false;
                }
                Table::remove_if_idle(&mut state, &attempt.key);
                drop(state);
                self.give_back(&server_lease);
                return None;
            }
            InstallOutcome::Superseded => {
                drop(state);
                // Where it was robbed there is nothing to give back; where clocks deceive us, there is.
                self.give_back(&server_lease);
                attempt.status.position.moved(self.number());
                self.refused(attempt, received, None, 0);
                return Some(Duration::ZERO);
            }
        };
        let (now, mut answers) = (self.now(), Answers::new());
        attempt.status.position.left();
        slot.asking = false;
        slot.completed(attempt.entry);
        if attempt.queue().is_some() && !slot.promote(attempt.entry, received) {
            // It was this one's turn, and nobody else's.
            self.release_unclaimed_grant(slot, &server_lease, Instant::PAST);
            self.go_on(&mut state, &attempt.key);
            return None;
        }
        // The grant has taken it back.
        slot.announced = false;
        slot.waits_since = 0;
        if now >= terms::deadline(sent, attempt.request.lease.duration()) {
            // What the one who asked wanted is over; what the server keeps for us is not.
            let asker = slot.queue.iter().position(|entry| entry.id == attempt.entry);
            let why = ServerError::unknown("the answer came when the lease had ended");
            let asker = asker.and_then(|at| slot.queue.remove(at));
            answers.extend(asker.map(|entry| (entry.answer, Err(AcquireFailure::Unknown(why)))));
            if attempt.queue().is_some() {
                // It was this one's turn, and nobody else's.
                self.release_unclaimed_grant(slot, &server_lease, Instant::PAST);
                self.go_on(&mut state, &attempt.key);
                drop(state);
                send(answers);
                return None;
            }
        }
        if slot.queue.iter().any(|entry| entry.request.once) {
            // It may have been asked for by somebody who has left: then the next has it, without asking again.
            let first = slot.next(received).map(|entry| (entry.id, entry.request.holder));
            let is_in = |entry: &Waiter| {
                attempt.kind.is_shared()
                    || first.is_some_and(|(id, holder)| {
                        id == entry.id || (holder.is_some() && holder == entry.request.holder)
                    })
            };
            slot.retain_map(|entry| match entry.request.once && !is_in(&entry) {
                true => {
                    answers.push((entry.answer, Ok(None)));
                    None
                }
                false => Some(entry),
            });
        }
        slot.queue.iter().for_each(|entry| entry.seen.set_busy());
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

    /// Others have the name.
    fn busy(self: &Arc<Self>, attempt: &Attempt, asked: &Exchange) {
        let told = asked.result.clone().and_then(|reply| reply.into_typed::<(i64, u64, i64)>());
        let (_, time, left) = told.unwrap_or_default();
        if let (Some(under), -2) = (&attempt.context.under, left) {
            // What it asked under is gone: told before the answer is.
            self.report_missing(under);
        }
        self.refused(attempt, asked.received, asked.unanswered_until, time);
    }

    /// The same at `time` of the server: those who only looked are told, the rest goes on waiting.
    fn refused(self: &Arc<Self>, attempt: &Attempt, received: Instant, unanswered_until: Option<Instant>, time: u64) {
        let mut answers = Answers::new();
        let mut state = self.state();
        // An unanswered copy is remembered by its own time.
        attempt.status.progress.settled();
        if let Some(slot) = state.slots.get_mut(&attempt.key) {
            slot.contact = received;
            slot.asking = false;
            slot.completed(attempt.entry);
            let waits = slot.queue.iter().any(|entry| entry.id == attempt.entry && !entry.answer.is_closed());
            if attempt.queue().is_some() {
                attempt.status.position.landed(waits);
                if !waits {
                    self.release_position(
                        attempt.kind,
                        &attempt.target,
                        (attempt.entry, &attempt.status),
                        &attempt.request,
                    );
                }
            }
            slot.retain_map(|entry| {
                entry.seen.set_busy();
                let unsure = unanswered_until.filter(|_| entry.id == attempt.entry);
                match (entry.request.once, unsure) {
                    (false, unsure) => {
                        unsure.into_iter().for_each(|until| entry.seen.set_maybe_executed(until));
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
            slot.contended = slot.server_lease.is_none() && !slot.queue.is_empty();
            if slot.waits_since == 0 {
                slot.waits_since = time;
            }
            slot.announced |= attempt.context.waits && attempt.kind.announces_every().is_some();
            if slot.queue.is_empty() && !slot.loop_running {
                self.withdraw(slot);
            }
            self.go_on(&mut state, &attempt.key);
        }
        drop(state);
        send(answers);
    }

    /// No grant and no "busy": the one who asked is told. Others of the queue try in their turn, each within its own time.
    fn failed(self: &Arc<Self>, attempt: &Attempt, failure: AcquireFailure) {
        let now = self.now();
        let mut answers = Answers::new();
        let mut state = self.state();
        if let Some(slot) = state.slots.get_mut(&attempt.key) {
            slot.asking = false;
            slot.completed(attempt.entry);
            slot.contended = false;
            if matches!(failure, AcquireFailure::Refused(_) | AcquireFailure::NotDurable(_)) {
                slot.contact = now;
            }
            if attempt.queue().is_some() && slot.queue.iter().all(|entry| entry.id != attempt.entry) {
                // Given up while its word was under way, which may be carried out late.
                attempt.status.position.landed(false);
                self.release_position(
                    attempt.kind,
                    &attempt.target,
                    (attempt.entry, &attempt.status),
                    &attempt.request,
                );
            }
            slot.retain_map(|entry| {
                match entry.id == attempt.entry || also_lacks_durability(&failure, &attempt.request, &entry.request) {
                    true => {
                        self.release_position(attempt.kind, &attempt.target, (entry.id, &entry.seen), &entry.request);
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

/// Whether another of the queue would wait in vain for what the first has just waited for as long.
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

/// No server's clock shows less, in microseconds since 1970: a year of 2001. What is less is no time.
const MIN_SERVER_TIME: i64 = 1_000_000_000_000_000;

/// What an answer to an acquire means; it also tells the server's time.
pub(super) fn parse_reply(asked: &Exchange) -> AcquireReply {
    let reply = match &asked.result {
        Ok(reply) => reply,
        Err(error) => return AcquireReply::Failed(failure_of(error.clone())),
    };
    let answer = match reply {
        // Granted then, and from nobody: what most are told.
        Reply::Int(time) if *time > MIN_SERVER_TIME => Ok((1, time.unsigned_abs(), 0, time.unsigned_abs())),
        // Part by part: a copy of the list would be one more for each acquire.
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
            // A clock that was reset meanwhile is that of another process.
            if asked.by.current_epoch() == asked.epoch {
                asked.by.time().observe_exchange(time, asked.sent, asked.received);
            }
            match status {
                1 => AcquireReply::Granted { token, robbed: left > 0 },
                0 => AcquireReply::Busy(match left {
                    // Gone between two looks of the script, or about to be: look again soon.
                    -2 | 0 => Duration::from_millis(1),
                    // No lifetime at all: only a message or the poll will tell.
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
