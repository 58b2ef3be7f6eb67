//! Decides by the class of an error whether a request is retried. All retries of a request share
//! one deadline.
//!
//! A request that was not sent, or was refused for a temporary reason, is retried after a jittered
//! pause. A request that may have been executed is sent again only if it is idempotent.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::progress::{Obstacle, Progress};
use super::send::RequestOutcome;
use crate::clock::{Clock, Instant};
use crate::connection::{Core, Request, Server, is_same};
use crate::count;
use crate::error::{Code, ServerError};

/// How often, or how long, a request is sent again after lost replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only redgrid-core uses it.
pub enum RetryPolicy {
    /// Sends the request again as often as the setting `retries` allows.
    Retries,
    /// Sends the request again until its deadline. Releases use this policy, because a release must
    /// not be abandoned before its deadline.
    ToTheEnd,
    /// Like `ToTheEnd`, for exactly-once requests. But a refused login ends the request,
    /// unless the server may still execute an earlier transmission.
    Once,
    /// Like `Once`, for several keys. The server answers TRYAGAIN while a migration has moved only
    /// some of the keys. That error is returned at once, because the caller can then send one
    /// request for each key.
    Together,
    /// Like `Retries`, with a limit: no transmission executes after this duration, which begins
    /// when the first unanswered transmission is sent.
    ///
    /// After this duration, the effect of the first transmission may have ended, and another
    /// transmission would act a second time.
    Within(Duration),
}

/// The transmissions of one request so far.
pub(super) struct Tries {
    policy: RetryPolicy,
    until: Instant,
    /// When the first unanswered transmission was sent.
    ///
    /// The value is kept when the server reports that a later transmission arrived too late,
    /// because the first transmission may have executed.
    first: Option<Instant>,
    /// Number of unanswered transmissions that may still execute. The setting `retries` limits this
    /// number.
    ///
    /// The number is set to 0 when the server reports that a later transmission arrived too late.
    /// By then the deadlines of the earlier transmissions have passed, too.
    unknowns: u32,
    /// Time until which an unanswered transmission may execute. Once set, the value stays `Some`,
    /// because that transmission may have executed.
    pub(super) unanswered: Option<Instant>,
}

impl Tries {
    pub(super) fn new(policy: RetryPolicy, until: Instant) -> Self {
        Tries { policy, until, first: None, unknowns: 0, unanswered: None }
    }

    /// Returns the time until which a transmission that is sent now may execute.
    pub(super) fn limit(&self, sent: Instant, timeout: Duration) -> Instant {
        match (self.policy, self.first) {
            (RetryPolicy::Within(window), Some(first)) => (sent + timeout).min(first + window),
            _ => sent + timeout,
        }
    }

    /// Returns the outcome of a request whose last transmission was not sent.
    pub(super) fn unsent(&self, error: ServerError, to: &Arc<dyn Server>, now: Instant) -> RequestOutcome {
        let (by, retransmission_ends) = (Arc::clone(to), self.unanswered);
        RequestOutcome { result: Err(error), sent: now, received: now, retransmission_ends, by, epoch: None }
    }

    /// Returns whether a refused login or an error from [`Server::refusal`] ends the request.
    /// Returns false for a release, and while an earlier transmission of the request may still
    /// execute.
    fn heeds_refusal(&self) -> bool {
        self.policy != RetryPolicy::ToTheEnd && self.unknowns == 0
    }
}

/// A request that is sent until it is finally answered.
pub(super) struct Exchange<'a> {
    pub(super) core: &'a Core,
    pub(super) request: Arc<Request>,
    pub(super) progress: &'a Progress,
    pub(super) tries: Tries,
}

impl Exchange<'_> {
    /// Returns whether another transmission may follow an unsuccessful one, after
    /// [`Exchange::pause`].
    pub(super) fn goes_on(&mut self, outcome: &mut RequestOutcome, limit: Instant) -> bool {
        let Exchange { core, request, progress, tries } = self;
        let mut is_lasting = false;
        if matches!(outcome.result, Err(ServerError::NotSent { .. }))
            && tries.heeds_refusal()
            && let Some(lasting) = outcome.by.refusal().borrow().clone()
        {
            (outcome.result, is_lasting) = (Err(lasting), true);
        }
        let again = match &outcome.result {
            Err(error @ ServerError::NotSent { .. }) => {
                progress.not_done();
                let node = Obstacle::Node(Arc::clone(&outcome.by));
                progress.waits(Some(if is_lasting { Obstacle::Error(error.clone()) } else { node }));
                !is_lasting
            }
            Err(error @ ServerError::Unauthorized { .. }) => {
                progress.refused(error);
                !tries.heeds_refusal()
            }
            Err(ServerError::ShuttingDown) => {
                progress.not_done();
                false
            }
            Err(ServerError::Refused { code: Code::TryAgain, .. }) if tries.policy == RetryPolicy::Together => false,
            Err(error @ ServerError::Refused { code, message }) => {
                progress.refused(error);
                code.is_passing() && request.is_servers_own(message)
            }
            Err(ServerError::Unknown { .. }) => {
                progress.unanswered();
                tries.unanswered = tries.unanswered.max(Some(may_execute_until(limit, core.settings.response_timeout)));
                tries.unknowns += 1;
                let first = *tries.first.get_or_insert(outcome.sent);
                let more = match tries.policy {
                    RetryPolicy::ToTheEnd | RetryPolicy::Once | RetryPolicy::Together => true,
                    RetryPolicy::Retries => tries.unknowns <= core.settings.retries,
                    RetryPolicy::Within(window) => {
                        tries.unknowns <= core.settings.retries && outcome.received < first + window
                    }
                };
                request.is_idempotent() && more
            }
            Ok(_) | Err(ServerError::Decode { .. }) => return true,
        };
        outcome.retransmission_ends = tries.unanswered;
        if !again || outcome.received >= tries.until {
            return false;
        }
        let Some(end) = core.life.error() else { return true };
        // The outcome still shows, by `retransmission_ends`, that an earlier transmission may have
        // executed.
        outcome.result = Err(end);
        false
    }

    /// Waits until the next transmission may be sent, and returns `None`. Returns the final outcome
    /// if no time is left for another transmission.
    pub(super) async fn pause(&mut self, mut outcome: RequestOutcome, at_home: bool) -> Option<RequestOutcome> {
        let reason = count::retry_reason(&outcome.result);
        if matches!(outcome.result, Ok(_) | Err(ServerError::Decode { .. })) {
            let last = self.too_late(outcome).await;
            if last.is_none() {
                count::retried(reason);
            }
            return last;
        }
        self.wait(&outcome.by, at_home).await;
        if self.core.clock.now() < self.tries.until {
            count::retried(reason);
            return None;
        }
        if matches!(outcome.result, Err(ServerError::NotSent { .. })) && outcome.by.current_connection_id().is_none() {
            // The cause of the missing connection may have been found meanwhile.
            outcome.result = Err(outcome.by.unreached());
        }
        Some(outcome)
    }

    /// Waits until the next transmission may be sent, at most until the end of the request.
    ///
    /// If `server` is the primary of the key (`at_home`), waits for its connection. If the primary
    /// is connected now, or if `server` is not the primary, the retry delay passes first. A
    /// topology change or the end of the client ends the wait at once. If the request heeds
    /// refusals, a refusal of this client by the server ends the wait, too.
    async fn wait(&self, server: &Arc<dyn Server>, at_home: bool) {
        let core = self.core;
        let mut changes = core.topology.changes();
        if at_home && !is_same(&core.topology.primary(self.request.first_key()), server) {
            return;
        }
        let mut epoch = server.connection_id();
        let is_up = epoch.borrow().is_some();
        let wait = async {
            if is_up || !at_home {
                tokio::time::sleep(jittered(core.settings.retry_delay)).await;
            }
            // A request that was redirected to this node, or is a read, need not wait for a
            // connection of this node: the next transmission chooses its node anew. If the node was
            // closed permanently, no connection follows, so another event has to end the wait.
            if at_home && epoch.wait_for(Option::is_some).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let mut refusal = server.refusal();
        tokio::select! {
            () = wait => {}
            Ok(()) = changes.changed() => {}
            Ok(_) = refusal.wait_for(Option::is_some), if self.tries.heeds_refusal() => {}
            () = core.life.over() => {}
            () = core.clock.sleep_until(self.tries.until) => {}
        }
    }

    /// Handles a transmission that reached the server too late, and had no effect. An earlier
    /// transmission may have had an effect.
    async fn too_late(&mut self, mut outcome: RequestOutcome) -> Option<RequestOutcome> {
        let Exchange { core, progress, tries, .. } = self;
        tries.unknowns = 0;
        if tries.unanswered.is_some() {
            progress.unanswered()
        } else {
            progress.not_done()
        };
        let again = core.clock.now() + jittered(core.settings.retry_delay);
        if again < tries.until {
            core.clock.sleep_until(again).await;
            return None;
        }
        outcome.result = Err(match tries.unanswered {
            Some(_) => ServerError::unknown("the last copy of the request reached the server too late"),
            None => ServerError::not_sent("the request reached the server too late"),
        });
        Some(outcome)
    }
}

/// Waits until fewer requests than the limit are in flight.
///
/// The response timeout of the transmission starts only after this wait.
///
/// # Errors
///
/// [`ServerError::NotSent`] when `until` has passed.
///
/// # Cancel safety
///
/// Dropping the future gives up its position in the queue.
pub(super) async fn admitted<'a>(
    limit: &'a Semaphore,
    clock: &Clock,
    until: Instant,
    progress: &Progress,
) -> Result<SemaphorePermit<'a>, ServerError> {
    let waited = || ServerError::not_sent("too many requests were in flight (see `max_in_flight`)");
    progress.waits(Some(Obstacle::Error(waited())));
    let permit = async {
        tokio::select! {
            biased;
            permit = limit.acquire() => permit.map_err(|_| waited()),
            // The client's clock is not used here. To detect a suspend of the machine, that clock
            // wakes each waiting caller every second, and very many callers may wait here.
            () = tokio::time::sleep(until.since(clock.now())) => Err(waited()),
        }
    };
    // The wait is exempt from the runtime's cooperative budget. Otherwise a task with thousands of
    // calls would exhaust the budget in each poll, be woken at once, and poll all calls again.
    let permit = tokio::task::unconstrained(permit).await?;
    if clock.now() >= until {
        return Err(waited());
    }
    progress.waits(None);
    Ok(permit)
}

/// Returns the local time from which a transmission with this `limit` certainly cannot execute.
/// This time is later than `limit` by a small margin.
///
/// The server's clock may be slower than the local one by twice the allowed drift (500 ppm each),
/// and its resolution is one microsecond. Without the margin, a late transmission could still
/// acquire a lock just after the client's last release of it was answered. That grant would not be
/// released any more. The model (`redgrid-models`) shows this.
pub fn may_execute_until(limit: Instant, window: Duration) -> Instant {
    limit + window / 1000 + Duration::from_millis(1)
}

/// Returns a random duration, evenly distributed between 0.5 and 1.5 times `mean`.
pub fn jittered(mean: Duration) -> Duration {
    mean.mul_f64(0.5 + fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn after_a_lost_answer_no_copy_executes_after_the_first_ones_window() {
        let sent = Instant::MIN + 100 * MS;
        let limits = |policy| {
            let first = Tries::new(policy, Instant::MAX);
            let again = Tries { first: Some(sent), ..Tries::new(policy, Instant::MAX) };
            (first.limit(sent, 30 * MS), again.limit(sent + 40 * MS, 30 * MS))
        };
        assert_eq!(limits(RetryPolicy::Within(50 * MS)), (sent + 30 * MS, sent + 50 * MS));
        assert_eq!(limits(RetryPolicy::Retries), (sent + 30 * MS, sent + 70 * MS));
    }

    #[test]
    fn a_refusal_of_the_login_ends_a_request_unless_it_releases_or_a_copy_may_execute() {
        let heeds = |policy, unknowns| Tries { unknowns, ..Tries::new(policy, Instant::MAX) }.heeds_refusal();
        assert!(heeds(RetryPolicy::Retries, 0) && heeds(RetryPolicy::Once, 0));
        assert!(!heeds(RetryPolicy::ToTheEnd, 0) && !heeds(RetryPolicy::Retries, 1));
    }
}
