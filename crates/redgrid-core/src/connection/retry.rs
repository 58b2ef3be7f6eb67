//! Retries, in one place, by error class, within one deadline.
//!
//! What was not sent or was refused for a passing reason is tried again with jittered waits. What may have been carried
//! out is sent again only if it says of itself that twice is the same as once. Each copy has a time limit of its own.

mod progress;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use self::progress::Obstacle;
pub(crate) use self::progress::Progress;
use super::ended::Ended;
use super::link::patience;
use super::route::{Answer, once_telling};
use super::{ConnectionId, Reply, Request, Server, Topology, TopologyHint, is_same};
use crate::clock::{Clock, Instant};
use crate::config::Settings;
use crate::error::{Code, ServerError};

/// What became of one request, all its copies together.
pub(crate) struct RequestOutcome {
    pub(crate) result: Result<Reply, ServerError>,
    /// The instant before the answered (or last) copy left.
    pub(crate) sent: Instant,
    /// When the answer was there.
    pub(crate) received: Instant,
    /// Until when an unanswered copy may still be carried out; `None` if every copy was answered.
    pub(crate) retransmission_ends: Option<Instant>,
    /// Who answered (or did not), and on which connection.
    pub(crate) by: Arc<dyn Server>,
    pub(crate) epoch: Option<ConnectionId>,
}

impl RequestOutcome {
    /// Whether an earlier copy may have been carried out before the answered one.
    pub(crate) fn was_retransmitted(&self) -> bool {
        self.retransmission_ends.is_some()
    }

    /// Whether the server found the copy too late and said, by -1 and a time, what time it is there; that is learned.
    pub(super) fn has_reported_time(&self) -> bool {
        let Ok(Reply::Array(parts)) = &self.result else { return false };
        let [late, time] = &parts[..] else { return false };
        let (Ok(-1), Ok(time)) = (late.clone().into_typed::<i64>(), time.clone().into_typed::<u64>()) else {
            return false;
        };
        self.report_time(time);
        true
    }

    /// A server that finds a copy too late says what time it is there.
    pub(crate) fn report_time(&self, time: u64) {
        // A clock that was reset meanwhile is that of another process.
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
    /// Until its time is over: what is to be given back is not given up earlier.
    ToTheEnd,
    /// The same for what acts once; but a refusal of the login ends it, where no copy may be
    /// carried out.
    Once,
    /// The same for several keys, but those on both sides of a migration are left to the caller: one by one they can be asked
    /// for, and together not before they have all moved.
    Together,
    /// As often as the settings say, but no copy is carried out later than this after the first: later, the first one's
    /// effect may have ended, and a copy would act a second time.
    Within(Duration),
}

/// Sends `request` to where its keys are until it is answered for good or `until` has passed.
#[expect(clippy::manual_async_fn, reason = "that one would have room for its arguments twice")]
pub(super) fn send_with_retries<'a>(
    topology: &'a dyn Topology,
    settings: &'a Settings,
    (clock, ended): (&'a Clock, &'a Ended),
    request: &'a Arc<Request>,
    until: Instant,
    persistence: RetryPolicy,
    progress: &'a Progress,
) -> impl Future<Output = RequestOutcome> + Send + use<'a> {
    async move {
        let mut unanswered: Option<Instant> = None;
        // A refusal of the login, or a wrong target, ends a request; but not one that is to be given
        // back, nor one of which a copy may be carried out.
        let heeds_refusal = |unanswered: Option<Instant>| persistence != RetryPolicy::ToTheEnd && unanswered.is_none();
        let mut unknowns = 0;
        let mut first = None;
        loop {
            let to = match request.reads {
                true => topology.reader(request.first_key()),
                false => topology.primary(request.first_key()),
            };
            // Kept until this copy is answered. What gives back goes before what others ask for.
            let _admitted = match to.in_flight_limit() {
                Some(limit) if persistence != RetryPolicy::ToTheEnd => match limit.try_acquire() {
                    Ok(permit) => Some(permit),
                    Err(_) => match Box::pin(admitted(limit, clock, until, progress)).await {
                        Ok(permit) => Some(permit),
                        Err(error) => {
                            let (result, sent) = (Err(error), clock.now());
                            let by = Arc::clone(&to);
                            return RequestOutcome {
                                result,
                                sent,
                                received: sent,
                                retransmission_ends: unanswered,
                                by,
                                epoch: None,
                            };
                        }
                    },
                },
                _ => None,
            };
            let sent = clock.now();
            let mut limit = sent + settings.timeout;
            if let (RetryPolicy::Within(window), Some(first)) = (persistence, first) {
                limit = limit.min(first + window);
            }
            if !progress.begin() {
                let (result, by) =
                    (Err(ServerError::not_sent("it was given up")), topology.primary(request.first_key()));
                return RequestOutcome { result, sent, received: sent, retransmission_ends: None, by, epoch: None };
            }
            let Answer { result, by, epoch, at_home } = match request.reads {
                true => once_telling(topology, Arc::clone(&to), request, limit, &AtomicBool::new(false)).await,
                false => unless_replaced(topology, request, limit).await,
            };
            let received = clock.now();
            let mut result = result;
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
                    unanswered = unanswered.max(Some(may_execute_until(limit, settings.timeout)));
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
                if let Some(end) = ended.error() {
                    // An earlier copy is told of by its time.
                    result = Err(end);
                } else {
                    drop(_admitted);
                    let pause = pause(topology, request.first_key(), (&by, at_home), settings, clock, until);
                    let refused = async {
                        let mut refusal = by.refusal();
                        if !heeds_refusal(unanswered) || refusal.wait_for(Option::is_some).await.is_err() {
                            std::future::pending::<()>().await;
                        }
                    };
                    let paused = async {
                        tokio::select! {
                            () = pause => {}
                            () = refused => {}
                            () = ended.wait() => {}
                        }
                    };
                    // Boxed, as is all that is rare: every request would have room for it.
                    Box::pin(paused).await;
                    if clock.now() < until {
                        continue;
                    }
                    if matches!(result, Err(ServerError::NotSent { .. })) && by.current_connection_id().is_none() {
                        // What stands in the way may have been found out meanwhile.
                        result = Err(by.unreached());
                    }
                }
            }
            return RequestOutcome { result, sent, received, retransmission_ends: unanswered, by, epoch };
        }
    }
}

/// Waits until fewer requests than the limit are under way. That is not time on the wire: the time of
/// the copy begins afterwards.
///
/// # Errors
///
/// [`ServerError::NotSent`] when `until` has passed.
///
/// # Cancel safety
///
/// Dropping it gives up the place in the queue.
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
            // Not of our clock, which wakes every second to see whether the machine slept: very many wait here.
            () = tokio::time::sleep(until.since(clock.now())) => Err(waited()),
        }
    };
    // Out of the runtime's budget: of thousands of calls in one task, each poll would go through all.
    let permit = tokio::task::unconstrained(permit).await?;
    if clock.now() >= until {
        return Err(waited());
    }
    progress.waits(None);
    Ok(permit)
}

/// Sends one copy, and does not believe what a primary answers that was replaced meanwhile: one that hung and goes on does not
/// know of it yet, and what it grants is nobody's. One that still hangs is not waited for, beyond the time in which one that lives
/// answers, and whether it was replaced is asked.
///
/// What may be sent again is asked of the new one also where the old one merely gave the slot away; the answer to another counts
/// then, as one that has given a slot away says so.
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
                // Another has it, and is waited for.
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

/// When, by our clock, a copy that is not to be carried out after `limit` certainly will not be: the server's clock may
/// run slower than ours by twice the drift that is allowed for (500 ppm each), and it counts to the microsecond.
///
/// The model (`redgrid-models`) shows what happens without it: the copy is given back and forgotten a moment before it
/// is carried out.
pub(crate) fn may_execute_until(limit: Instant, window: Duration) -> Instant {
    limit + window / 1000 + Duration::from_millis(1)
}

/// Waits a little, and then for a connection, but not beyond `until`; a changed topology is worth a try at once.
async fn pause(
    topology: &dyn Topology,
    key: &[u8],
    (asked, at_home): (&Arc<dyn Server>, bool),
    settings: &Settings,
    clock: &Clock,
    until: Instant,
) {
    let mut changes = topology.changes();
    if at_home && !is_same(&topology.primary(key), asked) {
        return;
    }
    let mut epoch = asked.connection_id();
    let is_up = epoch.borrow().is_some();
    let wait = async {
        if is_up || !at_home {
            tokio::time::sleep(jittered(settings.retry_delay)).await;
        }
        if !at_home {
            // It was sent on to that one, or read there: who is asked next is decided anew.
            return;
        }
        if epoch.wait_for(Option::is_some).await.is_err() {
            // Closed for good: another takes its place, or none.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = wait => {}
        Ok(()) = changes.changed() => {}
        () = clock.sleep_until(until) => {}
    }
}

/// `mean`, spread evenly from half to one and a half of it.
pub(crate) fn jittered(mean: Duration) -> Duration {
    mean.mul_f64(0.5 + fastrand::f64())
}
