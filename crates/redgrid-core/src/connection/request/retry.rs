//! Retries in one place, by error class, within one deadline.
//!
//! A request that was not sent, or was refused for a passing reason, is retried with jittered
//! waits. A request that may have been executed is sent again only if it is idempotent. Each
//! transmission has its own time limit.

mod progress;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use self::progress::Obstacle;
pub(crate) use self::progress::Progress;
use crate::clock::{Clock, Instant};
use crate::connection::link::patience;
use crate::connection::route::{Answer, once_telling};
use crate::connection::{ConnectionId, Core, Reply, Request, Server, Topology, TopologyHint, is_same};
use crate::error::{Code, ServerError};

/// The outcome of one request, over all its transmissions.
pub(crate) struct RequestOutcome {
    pub(crate) result: Result<Reply, ServerError>,
    /// The instant before the answered (or last) transmission was sent.
    pub(crate) sent: Instant,
    /// When the reply arrived.
    pub(crate) received: Instant,
    /// Until when an unanswered transmission may still execute; `None` if every transmission was
    /// answered.
    pub(crate) retransmission_ends: Option<Instant>,
    /// The node that answered (or did not), and on which connection.
    pub(crate) by: Arc<dyn Server>,
    pub(crate) epoch: Option<ConnectionId>,
}

impl RequestOutcome {
    fn unsent(error: ServerError, by: Arc<dyn Server>, now: Instant, retransmission_ends: Option<Instant>) -> Self {
        RequestOutcome { result: Err(error), sent: now, received: now, retransmission_ends, by, epoch: None }
    }

    /// Returns whether an earlier transmission may have executed before the answered one.
    pub(crate) fn was_retransmitted(&self) -> bool {
        self.retransmission_ends.is_some()
    }

    /// Returns whether the server found the transmission too late and returned -1 and its time.
    ///
    /// That time is passed to the server's clock estimate.
    pub(in crate::connection) fn has_reported_time(&self) -> bool {
        let Ok(Reply::Array(parts)) = &self.result else { return false };
        let [late, time] = &parts[..] else { return false };
        let (Ok(-1), Ok(time)) = (late.clone().into_typed::<i64>(), time.clone().into_typed::<u64>()) else {
            return false;
        };
        self.report_time(time);
        true
    }

    /// Records the server's time from the reply to a late transmission.
    pub(crate) fn report_time(&self, time: u64) {
        // If the clock was reset meanwhile, it belongs to another process.
        if self.by.current_connection_id() == self.epoch {
            self.by.time().observe_exchange(time, self.sent, self.received);
        }
    }
}

/// How long a request is sent again after lost replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    /// As often as the settings say.
    Retries,
    /// Until its time is over: releases are not given up earlier.
    ToTheEnd,
    /// Like `ToTheEnd`, for exactly-once requests. A refused login ends it, unless a transmission
    /// may still execute.
    Once,
    /// Like `Once`, for several keys. Keys on both sides of a migration are left to the caller.
    /// They can be requested one by one, but not together before all have moved.
    Together,
    /// As often as the settings say, but no transmission executes later than this after the first
    /// one.
    ///
    /// After that, the first transmission's effect may have ended, and another would act a second
    /// time.
    Within(Duration),
}

/// Sends `request` to the node of its keys until it is finally answered or `until` has passed.
#[expect(clippy::manual_async_fn, reason = "that one would have room for its arguments twice")]
pub(in crate::connection) fn send_with_retries<'a>(
    core: &'a Core,
    request: &'a Arc<Request>,
    until: Instant,
    persistence: RetryPolicy,
    progress: &'a Progress,
) -> impl Future<Output = RequestOutcome> + Send + use<'a> {
    async move {
        let Core { topology, settings, clock, life, .. } = core;
        let topology = &**topology;
        let mut unanswered: Option<Instant> = None;
        // A refused login or a wrong target ends a request. Exceptions are releases, and requests
        // of which a transmission may still execute.
        let heeds_refusal = |unanswered: Option<Instant>| persistence != RetryPolicy::ToTheEnd && unanswered.is_none();
        let mut unknowns = 0;
        let mut first = None;
        loop {
            let to = match request.reads {
                true => topology.reader(request.first_key()),
                false => topology.primary(request.first_key()),
            };
            // Held until this transmission is answered. Releases bypass the limit.
            let _admitted = match to.in_flight_limit() {
                Some(limit) if persistence != RetryPolicy::ToTheEnd => match limit.try_acquire() {
                    Ok(permit) => Some(permit),
                    Err(_) => match Box::pin(admitted(limit, clock, until, progress)).await {
                        Ok(permit) => Some(permit),
                        Err(error) => return RequestOutcome::unsent(error, Arc::clone(&to), clock.now(), unanswered),
                    },
                },
                _ => None,
            };
            let sent = clock.now();
            let mut limit = sent + settings.response_timeout;
            if let (RetryPolicy::Within(window), Some(first)) = (persistence, first) {
                limit = limit.min(first + window);
            }
            if !progress.begin() {
                return RequestOutcome::unsent(ServerError::not_sent("it was given up"), Arc::clone(&to), sent, None);
            }
            let Answer { mut result, by, epoch, at_home } = match request.reads {
                true => once_telling(topology, Arc::clone(&to), request, limit, &AtomicBool::new(false)).await,
                false => unless_replaced(topology, request, limit).await,
            };
            let received = clock.now();
            let mut is_lasting = false;
            if matches!(result, Err(ServerError::NotSent { .. }))
                && heeds_refusal(unanswered)
                && let Some(lasting) = by.refusal().borrow().clone()
            {
                (result, is_lasting) = (Err(lasting), true);
            }
            let again = match &result {
                Err(error @ ServerError::NotSent { .. }) => {
                    progress.not_done();
                    progress.waits(Some(match is_lasting {
                        true => Obstacle::Error(error.clone()),
                        false => Obstacle::Node(Arc::clone(&by)),
                    }));
                    !is_lasting
                }
                Err(error @ ServerError::Unauthorized { .. }) => {
                    progress.refused(error);
                    !heeds_refusal(unanswered)
                }
                Err(ServerError::ShuttingDown) => {
                    progress.not_done();
                    false
                }
                Err(ServerError::Refused { code: Code::TryAgain, .. }) if persistence == RetryPolicy::Together => false,
                Err(error @ ServerError::Refused { code, message }) => {
                    progress.refused(error);
                    code.is_passing() && request.is_servers_own(message)
                }
                Err(ServerError::Unknown { .. }) => {
                    progress.unanswered();
                    unanswered = unanswered.max(Some(may_execute_until(limit, settings.response_timeout)));
                    unknowns += 1;
                    let first = *first.get_or_insert(sent);
                    let more = match persistence {
                        RetryPolicy::ToTheEnd | RetryPolicy::Once | RetryPolicy::Together => true,
                        RetryPolicy::Retries => unknowns <= settings.retries,
                        RetryPolicy::Within(window) => unknowns <= settings.retries && received < first + window,
                    };
                    request.is_idempotent() && more
                }
                Ok(_) | Err(ServerError::Decode { .. }) => {
                    by.time().observe_round_trip(sent, received);
                    progress.answered();
                    false
                }
            };
            if again && received < until {
                if let Some(end) = life.error() {
                    // `retransmission_ends` covers an earlier transmission.
                    result = Err(end);
                } else {
                    drop(_admitted);
                    // Boxed, like everything rare: every request would reserve its size.
                    Box::pin(pause(core, request.first_key(), (&by, at_home), heeds_refusal(unanswered), until)).await;
                    if clock.now() < until {
                        continue;
                    }
                    if matches!(result, Err(ServerError::NotSent { .. })) && by.current_connection_id().is_none() {
                        // The cause may have been found meanwhile.
                        result = Err(by.unreached());
                    }
                }
            }
            return RequestOutcome { result, sent, received, retransmission_ends: unanswered, by, epoch };
        }
    }
}

/// Waits until fewer requests than the limit are in flight.
///
/// The wait does not count as transmission time: the time of the transmission starts afterwards.
///
/// # Errors
///
/// [`ServerError::NotSent`] when `until` has passed.
///
/// # Cancel safety
///
/// Dropping the future gives up its position in the queue.
async fn admitted<'a>(
    limit: &'a Semaphore,
    clock: &Clock,
    until: Instant,
    progress: &Progress,
) -> Result<SemaphorePermit<'a>, ServerError> {
    let waited = || ServerError::not_sent("too many requests were under way (see `max_in_flight`)");
    progress.waits(Some(Obstacle::Error(waited())));
    let permit = async {
        tokio::select! {
            biased;
            permit = limit.acquire() => permit.map_err(|_| waited()),
            // Not the client's clock, which wakes every second to detect suspension: very many
            // callers wait here.
            () = tokio::time::sleep(until.since(clock.now())) => Err(waited()),
        }
    };
    // Exempt from the runtime's budget: with thousands of calls in one task, each poll would go
    // through all.
    let permit = tokio::task::unconstrained(permit).await?;
    if clock.now() >= until {
        return Err(waited());
    }
    progress.waits(None);
    Ok(permit)
}

/// Sends one transmission, and rejects the reply of a primary that was replaced meanwhile.
///
/// A primary that hung and continues does not know of its replacement yet, and its grants are void.
/// The wait for a hanging primary is limited to the time in which a live one answers. Then the
/// topology is checked for a replacement.
///
/// An idempotent request goes to the new primary even if the old one only gave the slot away. For
/// other requests the old primary's reply counts then, because it answers with a redirect once it
/// has given the slot away.
pub(crate) async fn unless_replaced(topology: &dyn Topology, request: &Arc<Request>, limit: Instant) -> Answer {
    let (key, home) = (request.first_key(), topology.primary(request.first_key()));
    let last_words = patience(home.time().round_trip());
    let is_replaced = || {
        !is_same(&topology.primary(key), &home)
            && (request.is_idempotent() || !topology.primaries().iter().any(|primary| is_same(primary, &home)))
    };
    let sent_on = AtomicBool::new(false);
    let mut asked = pin!(once_telling(topology, Arc::clone(&home), request, limit, &sent_on));
    let replaced = async {
        tokio::time::sleep(last_words).await;
        let overdue = async {
            let mut changes = topology.changes();
            let mut doubted = false;
            while !is_replaced() {
                if !doubted && !home.answers() {
                    topology.suspect(TopologyHint::Silent(home.id().clone()));
                    doubted = true;
                }
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { std::future::pending::<()>().await },
                    () = tokio::time::sleep(last_words), if !doubted => {}
                }
            }
            tokio::time::sleep(last_words).await;
            if sent_on.load(Ordering::Relaxed) {
                // Another node has received the request: wait for it.
                std::future::pending::<()>().await;
            }
        };
        Box::pin(overdue).await;
    };
    tokio::select! {
        biased;
        answer = &mut asked => match answer.result.is_ok() && answer.at_home && is_replaced() {
            true => Answer { result: Err(replaced_meanwhile()), ..answer },
            false => answer,
        },
        () = replaced => Answer { result: Err(replaced_meanwhile()), by: home, epoch: None, at_home: true },
    }
}

fn replaced_meanwhile() -> ServerError {
    ServerError::unknown("the node that was to answer does not decide for the key any more")
}

/// Returns when, by the local clock, a transmission with this `limit` can certainly not execute any
/// more.
///
/// The server's clock may be slower than the local one by twice the allowed drift (500 ppm each),
/// and its resolution is one microsecond.
///
/// The model (`redgrid-models`) shows what happens without this margin: the transmission is
/// released and forgotten a moment before it executes.
pub(crate) fn may_execute_until(limit: Instant, window: Duration) -> Instant {
    limit + window / 1000 + Duration::from_millis(1)
}

/// Waits for the retry delay and then for a connection, at most until `until`.
///
/// A topology change and the end of the client end the wait at once, and so does a refusal of this
/// client, if it is heeded.
async fn pause(
    core: &Core,
    key: &[u8],
    (asked, at_home): (&Arc<dyn Server>, bool),
    heeds_refusal: bool,
    until: Instant,
) {
    let mut changes = core.topology.changes();
    if at_home && !is_same(&core.topology.primary(key), asked) {
        return;
    }
    let mut epoch = asked.connection_id();
    let is_up = epoch.borrow().is_some();
    let wait = async {
        if is_up || !at_home {
            tokio::time::sleep(jittered(core.settings.retry_delay)).await;
        }
        if !at_home {
            // It was redirected to this node, or read there: the next target is chosen anew.
            return;
        }
        if epoch.wait_for(Option::is_some).await.is_err() {
            // Closed for good: another node replaces it, or none.
            std::future::pending::<()>().await;
        }
    };
    let mut refusal = asked.refusal();
    tokio::select! {
        () = wait => {}
        Ok(()) = changes.changed() => {}
        Ok(_) = refusal.wait_for(Option::is_some), if heeds_refusal => {}
        () = core.life.over() => {}
        () = core.clock.sleep_until(until) => {}
    }
}

/// Returns a random duration, evenly distributed from half of `mean` to one and a half of it.
pub(crate) fn jittered(mean: Duration) -> Duration {
    mean.mul_f64(0.5 + fastrand::f64())
}
