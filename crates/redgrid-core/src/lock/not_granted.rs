//! The results of an acquire request that was not granted: busy, or a failure.

use std::sync::Arc;

use super::attempt::Attempt;
use super::table::Table;
use super::terms::AcquireRequest;
use super::waiter::{AcquireFailure, Answers, send};
use crate::clock::Instant;
use crate::connection::{CommitError, RequestOutcome};
use crate::error::ServerError;
impl Table {
    /// Handles a busy reply.
    pub(super) fn busy(self: &Arc<Self>, attempt: &Attempt, asked: &RequestOutcome) {
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
    pub(super) fn refused(
        self: &Arc<Self>,
        attempt: &Attempt,
        received: Instant,
        unanswered_until: Option<Instant>,
        time: u64,
    ) {
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
                    self.leave_queue(attempt);
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

    /// Releases the position of an attempt whose waiter has left.
    fn leave_queue(self: &Arc<Self>, attempt: &Attempt) {
        let Attempt { protocol, keys, entry, status, request, .. } = attempt;
        self.release_position(*protocol, keys, (*entry, status), request);
    }

    /// Delivers a failure (neither a grant nor busy) to the requesting waiter.
    ///
    /// Waiters that would fail for the same lack of durability fail with it. The others try in
    /// their order, each within its own timeout.
    pub(super) fn failed(self: &Arc<Self>, attempt: &Attempt, failure: AcquireFailure) {
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
                self.leave_queue(attempt);
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
