//! The results of an acquire request that was not granted: busy, a failure, or a timeout.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use redgrid_client::internal::{Core, Progress, RequestOutcome, jittered};
use redgrid_client::{CommitError, ServerError};

use super::acquire::PendingAcquire;
use super::attempt::Attempt;
use super::cleanup::DeferredRelease;
use super::error::{AcquireError, AcquireFailure};
use super::hold::ServerLease;
use super::protocol::{AcquireReply, AcquireRequest};
use super::table::{Answers, LockId, Table, send};
use crate::clock::Instant;
use crate::failure::Failure;
use crate::introspection::UNKNOWN;

impl Attempt {
    fn deferred_release(&self, id: u64, limit: Option<Instant>) -> DeferredRelease {
        DeferredRelease::of(self.protocol, &self.key.keys, id, self.lease, limit)
    }
}

impl Table {
    /// Handles a reply that is no grant.
    ///
    /// `Continue` means that the request must be sent again. `Break` contains a time if another
    /// holder has the lock: the remaining time of that holder's lease.
    pub(super) fn not_granted(
        self: &Arc<Self>,
        attempt: &Attempt,
        id: u64,
        outcome: &RequestOutcome,
        reply: AcquireReply,
        was_late: &mut bool,
    ) -> ControlFlow<Option<Duration>> {
        let failure = match reply {
            AcquireReply::TooLate if !std::mem::replace(was_late, true) => {
                self.schedule_cleanup_of_retransmissions(attempt, id, outcome, false);
                return ControlFlow::Continue(());
            }
            AcquireReply::Busy { left, time, is_gone } => {
                self.schedule_cleanup_of_retransmissions(attempt, id, outcome, false);
                attempt.request.position.is_next_until(outcome.received, left);
                let under = attempt.context.as_ref().and_then(|context| context.under.as_ref());
                if let Some(under) = under.filter(|_| is_gone) {
                    // The hold that the request converts is gone. Report the loss before the reply
                    // is delivered.
                    self.report_missing(under);
                }
                self.refused(attempt, outcome.received, outcome.retransmission_ends, time);
                return ControlFlow::Break(Some(left));
            }
            AcquireReply::Failed(failure) => failure,
            _ => AcquireFailure::too_late_twice(),
        };
        let is_unknown = matches!(failure, AcquireFailure::Unknown(_));
        self.schedule_cleanup_of_retransmissions(attempt, id, outcome, is_unknown);
        self.failed(attempt, failure);
        ControlFlow::Break(None)
    }

    /// Releases a grant that is not as durable as requested, and then delivers the failure.
    ///
    /// Because the release comes first, a new request that the caller makes at once does not find
    /// the lock taken by that grant. If the request must be sent again, returns true and delivers
    /// no failure.
    pub(super) async fn not_durable(
        self: &Arc<Self>,
        attempt: &Attempt,
        id: u64,
        outcome: &RequestOutcome,
        error: CommitError,
    ) -> bool {
        let is_passing = error.is_passing() && self.now() < attempt.until;
        self.clean_up(attempt.deferred_release(id, outcome.retransmission_ends)).await;
        if is_passing {
            // The cause is a migration of the key's slot or a failover, and not a lack of replicas.
            // So the request is tried again.
            attempt.request.position.moved(self.number());
            tokio::time::sleep(jittered(self.core.settings.retry_delay)).await;
        } else {
            self.failed(attempt, AcquireFailure::NotDurable(error));
        }
        is_passing
    }

    /// Schedules a release of the lock if unanswered retransmissions may still acquire it. The
    /// release is sent when no retransmission can execute any more.
    ///
    /// With `is_unknown`, the last transmission may have acquired the lock, too. Then a release is
    /// also sent at once.
    pub(super) fn schedule_cleanup_of_retransmissions(
        self: &Arc<Self>,
        attempt: &Attempt,
        id: u64,
        outcome: &RequestOutcome,
        is_unknown: bool,
    ) {
        let limit = outcome.retransmission_ends.or(is_unknown.then_some(Instant::MIN));
        if attempt.queue().is_some() {
            // The position of the request in the server's queue is released in any case, when the
            // request or its hold ends. So only `limit` is recorded here.
            limit.into_iter().for_each(|limit| attempt.request.set_maybe_executed(limit));
        } else if limit.is_some() {
            let release = attempt.deferred_release(id, limit);
            self.schedule_cleanup(DeferredRelease { at_once: is_unknown, ..release });
        }
    }

    /// Handles a grant that counts as lost: a takeover seems to have ended it before it was
    /// installed.
    pub(super) fn superseded(self: &Arc<Self>, attempt: &Attempt, server_lease: &Arc<ServerLease>) {
        // If there was a takeover, this release finds no hold. But perhaps there was none: this
        // grant also counts as lost if its token is lower than the token of the last grant, due to
        // a difference between clocks. Then the release is needed to free the lock.
        self.leave_until(server_lease, Instant::MIN);
        attempt.request.position.moved(self.number());
        self.refused(attempt, server_lease.granted, None, 0);
    }

    /// Answers try-only requests: busy, or an unknown outcome if a retransmission can still
    /// execute. All other requests keep waiting. `time` is the server's time.
    fn refused(self: &Arc<Self>, attempt: &Attempt, received: Instant, unanswered_until: Option<Instant>, time: u64) {
        let mut answers = Answers::new();
        let mut state = self.state();
        // The request is marked as answered. Its unanswered retransmissions are tracked by
        // `set_maybe_executed`.
        attempt.request.progress.settled();
        if let Some(lock) = state.locks.get_mut(&attempt.key) {
            lock.contact = received;
            lock.request_in_flight = false;
            lock.completed(attempt.request.id);
            if attempt.queue().is_some() {
                let waits = lock
                    .queue
                    .iter()
                    .any(|waiter| waiter.request.id == attempt.request.id && !waiter.answer.is_closed());
                attempt.request.position.request_ended(waits);
                if !waits {
                    self.release_position_of(lock, &attempt.request);
                }
            }
            lock.retain_map(|waiter| {
                waiter.request.set_busy();
                let unsure = unanswered_until.filter(|_| waiter.request.id == attempt.request.id);
                match (waiter.request.options.once, unsure) {
                    (false, unsure) => {
                        unsure.into_iter().for_each(|until| waiter.request.set_maybe_executed(until));
                        return Some(waiter);
                    }
                    (true, None) => answers.push((waiter.answer, Ok(None))),
                    (true, Some(_)) => {
                        let why = ServerError::unknown("an earlier copy of the request was not answered");
                        answers.push((waiter.answer, Err(AcquireFailure::Unknown(why))));
                    }
                }
                None
            });
            lock.contended = lock.server_lease.is_none() && !lock.queue.is_empty();
            lock.begins_to_wait(time, !attempt.request.options.once);
            if lock.queue.is_empty() && !lock.loop_running {
                self.withdraw(lock);
            }
            self.go_on(&mut state, &attempt.key);
        }
        drop(state);
        send(answers);
    }

    /// Delivers the failure of an attempt to its waiter. "Busy" is not a failure.
    ///
    /// Waiters that would fail for the same lack of durability fail together with this waiter. All
    /// others try in their order, each within its own timeout.
    pub(super) fn failed(self: &Arc<Self>, attempt: &Attempt, failure: AcquireFailure) {
        if let AcquireFailure::Unknown(error) = &failure {
            self.events.record(UNKNOWN, &attempt.key.keys.name, format_args!("acquire: {error}"));
        }
        let now = self.now();
        let mut answers = Answers::new();
        let mut state = self.state();
        if let Some(lock) = state.locks.get_mut(&attempt.key) {
            lock.request_in_flight = false;
            lock.completed(attempt.request.id);
            lock.contended = false;
            let is_answered = match &failure {
                AcquireFailure::NotDone(ServerError::Refused { code, .. }) => !code.is_passing(),
                other => matches!(other, AcquireFailure::NotDurable(_)),
            };
            if is_answered {
                lock.contact = now;
            }
            if attempt.queue().is_some() && lock.queue.iter().all(|waiter| waiter.request.id != attempt.request.id) {
                // The waiter left while its request was in flight, and the request may still
                // execute. So the waiter's position is released.
                attempt.request.position.request_ended(false);
                self.release_position_of(lock, &attempt.request);
            }
            let mut failed = Vec::new();
            lock.retain_map(|waiter| {
                let is_it = waiter.request.id == attempt.request.id
                    || also_lacks_durability(&failure, &attempt.request.options, &waiter.request.options);
                if is_it {
                    failed.push(waiter);
                    return None;
                }
                Some(waiter)
            });
            for waiter in failed {
                self.release_position_of(lock, &waiter.request);
                answers.push((waiter.answer, Err(failure.clone())));
            }
            self.go_on(&mut state, &attempt.key);
        }
        drop(state);
        send(answers);
    }

    /// Returns the time of the last contact with the server about this key: the time of a reply, or
    /// the current time if a hold is valid.
    fn contact(&self, key: &LockId) -> Option<Instant> {
        let state = self.state();
        let lock = state.locks.get(key)?;
        // If a task of this process has a valid hold, the process counts as in contact now. While a
        // server lease is being adjusted or released, no task has a hold. Then only a reply counts
        // as contact.
        if lock.holds.first().is_some_and(|hold| hold.server_lease.is_valid_locally()) {
            return Some(self.now());
        }
        // If another process holds the lock, a waiter counts as in contact with the server while
        // the connection is up and the server answers other requests. A reply about this key is not
        // needed.
        let waits = if lock.contended { self.core.contact(key.key()) } else { None };
        Some(lock.contact.max(self.core.subscriptions.contact(key.key())).max(waits.unwrap_or(Instant::MIN)))
    }
}

/// Returns whether `other` would fail for the same lack of durability as `first`. The result is
/// true if `other` requests at least the durability of `first`, and waits at most as long for the
/// confirmation.
fn also_lacks_durability(failure: &AcquireFailure, first: &AcquireRequest, other: &AcquireRequest) -> bool {
    let is_lacking =
        matches!(failure, AcquireFailure::NotDurable(CommitError::Shortfall { .. } | CommitError::Unsupported { .. }));
    let (provided, requested) = (first.durability, other.durability);
    is_lacking && requested.covers(provided) && requested.timeout() <= provided.timeout()
}

impl PendingAcquire {
    /// Returns the time of the last contact with the server about this key, or `known` if that is
    /// later.
    pub(super) fn contact(&self, known: Instant) -> Instant {
        self.table().contact(&self.key).map_or(known, |contact| contact.max(known))
    }

    /// Returns the error of a request whose wait has ended without an answer.
    ///
    /// The error is `TimedOut` only if there was contact with the server within the last response
    /// timeout. Without contact, it is not known whether the lock is still taken, and the error
    /// says why there was no reply.
    pub(super) fn timeout_error(&self, now: Instant, contact: Instant) -> AcquireError {
        let (core, keys) = (&self.table().core, &self.key.keys);
        if now < self.request.may_execute_until() {
            let source = ServerError::unknown("a request without a reply may still be executed");
            self.table().events.record(UNKNOWN, &keys.name, format_args!("acquire: {source}"));
            return Failure::OutcomeUnknown { operation: AcquireError::operation(&keys.name), source }.into();
        }
        let is_current = now.since(contact) <= core.settings.response_timeout;
        if self.request.is_busy() && now >= self.request.until && is_current {
            let by_this_client = self.table().holds_key(self.kind, keys, None);
            return AcquireError::TimedOut {
                name: keys.name.clone(),
                waited: now.since(self.request.entered),
                by_this_client,
            };
        }
        no_answer(core, &self.request.progress, &keys.key).into_error(core, &keys.name)
    }
}

/// Returns the failure of a request about `key` that timed out without a reply.
pub(super) fn no_answer(core: &Core, progress: &Progress, key: &[u8]) -> AcquireFailure {
    match progress.is_sent() {
        true => AcquireFailure::Unknown(ServerError::unknown("the time ran out before an answer came")),
        false => progress.refusal().unwrap_or_else(|| core.no_contact(key)).into(),
    }
}
