//! Rounds: sends a sum or a reset to all members, and waits for their answers.
//!
//! Each round has one caller, which polls it until it is complete.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::author::{Backoff, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::into_future;
use redgrid_core::{Client, Failure, Request, ServerError};
use uuid::Uuid;

use super::adder_number::AdderNumber;
use super::error::AdderError;
use super::member::{OwnAnswer, SharedAdder};
use super::scripts::{OPEN, REDGRID_PREFIX, ROUND_STATE, ROUND_TTL_MS, RoundKeys, RoundKind};

/// The default timeout: 10 s.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The allowed timeouts. The keys of a round live for ten minutes.
const TIMEOUTS: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(300);

/// The pauses between the polls of a round.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(50) };

/// How long this client's own answer may be missing after all others have arrived: half a second.
/// After that, this client is assumed to have missed the request.
const OWN_ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a round may receive no answer before another one is opened: 1 s, doubled each time.
///
/// If one member leaves and a new one subscribes, the subscriber count does not show that the first
/// one has left.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// The margin for a server clock that is slower than the local one: 100 ms, for timeouts of
/// minutes.
///
/// After a response timeout and this margin, a transmission is certainly too late.
const CLOCK_MARGIN: Duration = Duration::from_millis(100);

/// A future that sums the counts of all processes.
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Sum<N: AdderNumber>(Call<N>);

/// A future that sets the counts of all processes to 0.
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Reset<N: AdderNumber>(Call<N>);

#[derive(Clone, Debug)]
struct Call<N: AdderNumber> {
    adder: Result<Arc<SharedAdder<N>>, AdderError>,
    timeout: Duration,
}

impl<N: AdderNumber> Sum<N> {
    pub(super) fn new(adder: Result<Arc<SharedAdder<N>>, AdderError>) -> Self {
        Sum(Call { adder, timeout: DEFAULT_TIMEOUT })
    }

    /// Sets how long to wait for answers, 1 ms to 5 minutes; 10 s by default.
    ///
    /// After that the call returns [`AdderError::Partial`] with the sum so far.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = timeout;
        self
    }
}

impl<N: AdderNumber> Reset<N> {
    pub(super) fn new(adder: Result<Arc<SharedAdder<N>>, AdderError>) -> Self {
        Reset(Call { adder, timeout: DEFAULT_TIMEOUT })
    }

    /// Sets how long to wait for answers, 1 ms to 5 minutes; 10 s by default.
    ///
    /// After that the call returns [`AdderError::Partial`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = timeout;
        self
    }
}

into_future!([N: AdderNumber] Sum<N> => Result<N, AdderError>, |this| this.0.run(RoundKind::Sum));

into_future!(
    [N: AdderNumber] Reset<N> => Result<(), AdderError>,
    |this| async move { this.0.run(RoundKind::Reset).await.map(drop) }
);

/// The outcome of a round.
enum RoundOutcome<N> {
    Complete(N),
    /// A member did not receive the request, or answers are lost: another round may succeed.
    Retry(ServerError),
    /// No answer has arrived for a while. A member may have left.
    Stalled,
    Failed(AdderError),
}

impl<N: AdderNumber> Call<N> {
    async fn run(self, kind: RoundKind) -> Result<N, AdderError> {
        let adder = self.adder?;
        let name = &adder.member.name;
        if !TIMEOUTS.contains(&self.timeout) {
            return Err(
                Failure::invalid_argument(name, "bound", "1 ms to 5 minutes", format!("{:?}", self.timeout)).into()
            );
        }
        let clock = adder.client.clock();
        let until = clock.now() + self.timeout;
        let mut last_error = ServerError::NotSent { reason: "this client's own subscription is not active".into() };
        let (mut pauses, mut stall_timeout) = (0, STALL_TIMEOUT);
        loop {
            if adder.client.is_shut_down() {
                return Err(AdderError::of(name, adder.client.ended()));
            }
            // The caller's own client is a member, too, and must receive the request.
            if adder.client.is_subscribed(&adder.member.keys.topic) {
                match adder.round(kind, self.timeout, until, stall_timeout).await {
                    RoundOutcome::Complete(sum) => return Ok(sum),
                    RoundOutcome::Failed(error) => return Err(error),
                    RoundOutcome::Retry(error) => last_error = error,
                    RoundOutcome::Stalled => {
                        last_error = unknown("the requested members did not answer");
                        stall_timeout *= 2;
                        continue;
                    }
                }
            }
            if clock.now() >= until {
                return Err(AdderError::of(name, last_error));
            }
            clock.sleep_until(until.min(clock.now() + PAUSES.after(pauses))).await;
            pauses += 1;
        }
    }
}

/// An open round. Dropping it closes the round for members of redgrid.
struct OpenRound<'a> {
    client: &'a Client,
    keys: RoundKeys,
    /// Whether all members have answered: after that, none writes to the keys.
    is_complete: bool,
}

impl OpenRound<'_> {
    /// Closes the round: members that receive the request later change nothing. It is tried for one
    /// response timeout.
    async fn close(&self) {
        let until = self.client.clock().now() + self.client.response_timeout();
        let request = Request::command("DEL").key(self.keys.round.clone()).idempotent();
        // If this fails, it is tried again when the round is dropped.
        let _ = self.client.run_until::<i64>(request, until).await;
    }
}

impl Drop for OpenRound<'_> {
    fn drop(&mut self) {
        let RoundKeys { round, semaphore, counter, .. } = &self.keys;
        let request = Request::command("DEL").key(round.clone());
        self.client.run_detached(if self.is_complete {
            request.key(semaphore.clone()).key(counter.clone())
        } else {
            // The other keys stay: members of Redisson would create them again, without a lifetime.
            request
        });
    }
}

impl<N: AdderNumber> SharedAdder<N> {
    /// Executes one round with all current subscribers.
    async fn round(
        &self,
        kind: RoundKind,
        timeout: Duration,
        until: Instant,
        stall_timeout: Duration,
    ) -> RoundOutcome<N> {
        let (client, member) = (&self.client, &*self.member);
        let id = format!("{REDGRID_PREFIX}{}", Uuid::new_v4().simple());
        let gaps = *member.gaps.borrow();
        let mut own_answer = member.track_round(&id);
        let mut open = OpenRound { client, keys: member.keys.round(&id), is_complete: false };
        let RoundKeys { round, semaphore, counter, .. } = &open.keys;
        let keys = [semaphore.clone(), round.clone(), counter.clone()];
        let request = OPEN.with(keys.clone()).int(ROUND_TTL_MS).publish_arg().arg(member.keys.topic.clone());
        let request = request.arg(kind.message(&id)).deadline_arg().late_reply_has_time();
        let expected = match client.run_until::<u64>(request, until).await {
            Ok(expected) => expected,
            Err(error @ (ServerError::Refused { .. } | ServerError::Decode { .. })) => {
                return RoundOutcome::Failed(AdderError::of(&member.name, error));
            }
            Err(error) => {
                // If this reset were executed after a later one had succeeded, it would remove the
                // additions since. So the next reset waits until this one is certainly too late.
                if kind == RoundKind::Reset && error.is_unknown() {
                    let too_late = until.min(client.clock().now() + client.response_timeout() + CLOCK_MARGIN);
                    tokio::select! {
                        () = client.clock().sleep_until(too_late) => {}
                        () = client.closing() => {}
                    }
                }
                return RoundOutcome::Retry(error);
            }
        };
        let mut last_state = RoundState { answered: 0, sum: "0".into(), overflows: false };
        let (mut polls, mut others_done_since, mut last_answer) = (0, None, client.clock().now());
        loop {
            let clock = client.clock();
            if clock.now() >= until {
                if kind == RoundKind::Reset {
                    // Members that receive the request late must not reset additions after the
                    // return of the call.
                    open.close().await;
                }
                return self.partial(last_state, expected, timeout);
            }
            wait(client, &mut own_answer, until.min(clock.now() + PAUSES.after(polls))).await;
            if client.is_shut_down() {
                return RoundOutcome::Failed(AdderError::of(&member.name, client.ended()));
            }
            if let Some(error) = own_answer.refusal() {
                return RoundOutcome::Failed(AdderError::of(&member.name, error));
            }
            polls += 1;
            let has_answered = own_answer.is_answered();
            match client.run_until::<Vec<String>>(ROUND_STATE.with(keys.clone()).idempotent(), until).await {
                Ok(reply) => match RoundState::parse(&reply) {
                    Some(state) if state.answered >= expected && has_answered => {
                        open.is_complete = true;
                        return match N::parse(&state.sum).filter(|_| !state.overflows) {
                            Some(sum) => RoundOutcome::Complete(sum),
                            None => RoundOutcome::Failed(AdderError::Overflow { name: member.name.clone() }),
                        };
                    }
                    Some(state) => {
                        if state.answered != last_state.answered {
                            last_answer = clock.now();
                        }
                        last_state = state;
                    }
                    None => return RoundOutcome::Retry(unknown("the round's keys are gone")),
                },
                Err(error @ (ServerError::Refused { .. } | ServerError::Decode { .. })) => {
                    return RoundOutcome::Failed(AdderError::of(&member.name, error));
                }
                // The next poll may succeed.
                Err(_) => {}
            }
            let now = clock.now();
            if last_state.answered < expected && now.since(last_answer) >= stall_timeout && until > now + stall_timeout
            {
                return RoundOutcome::Stalled;
            }
            // A member that has left does not answer.
            if PAUSES.after(polls) == PAUSES.longest
                && let Some(subscribers) = client.subscribers_at_primary(&member.keys.topic, &member.keys.key).await
                && subscribers < expected
            {
                return RoundOutcome::Retry(unknown("a requested member has left"));
            }
            if has_answered {
                continue;
            }
            if *member.gaps.borrow() != gaps || !client.is_subscribed(&member.keys.topic) {
                return RoundOutcome::Retry(unknown("this client's own subscription was interrupted"));
            }
            let since = *others_done_since.get_or_insert(clock.now());
            if last_state.answered < expected {
                others_done_since = None;
            } else if clock.now().since(since) > OWN_ANSWER_TIMEOUT {
                return RoundOutcome::Retry(unknown("this client did not receive its own request"));
            }
        }
    }

    /// Waits until this client listens for rounds.
    pub(super) async fn ready(&self) -> Result<(), AdderError> {
        let client = &self.client;
        let until = client.clock().now() + client.patience();
        let mut gaps = self.member.gaps.subscribe();
        while !client.is_subscribed(&self.member.keys.topic) {
            let error = tokio::select! {
                biased;
                () = client.closing() => client.ended(),
                () = client.clock().sleep_until(until) => unknown("the subscription was not confirmed"),
                // The confirmation of the subscription is reported as a gap, too.
                _ = gaps.changed() => continue,
            };
            return Err(AdderError::of(&self.member.name, error));
        }
        Ok(())
    }

    /// Returns the outcome after a timeout.
    fn partial(&self, state: RoundState, expected: u64, timeout: Duration) -> RoundOutcome<N> {
        let (name, zero) = (self.member.name.clone(), N::parse("0").map(N::amount));
        let so_far = N::parse(&state.sum).map(N::amount).or(zero).filter(|_| !state.overflows);
        RoundOutcome::Failed(match so_far {
            Some(so_far) => AdderError::Partial { name, answered: state.answered, expected, so_far, within: timeout },
            None => AdderError::Overflow { name },
        })
    }
}

/// The state of a round on the server.
struct RoundState {
    answered: u64,
    sum: String,
    /// Whether an answer, or the sum of the answers, is out of range.
    overflows: bool,
}

impl RoundState {
    /// Parses a reply; `None` if a key is gone.
    fn parse(reply: &[String]) -> Option<RoundState> {
        let [answered, round, sum] = reply else { return None };
        let state = RoundState { answered: answered.parse().ok()?, sum: sum.clone(), overflows: round.ends_with('!') };
        (!round.is_empty() && !sum.is_empty()).then_some(state)
    }
}

/// Waits until `at`, or until this client's member has answered or failed, unless it already has. A
/// shutdown of the client ends the wait in any case.
async fn wait<N: AdderNumber>(client: &Client, own_answer: &mut OwnAnswer<'_, N>, at: Instant) {
    let is_decided = own_answer.is_decided();
    tokio::select! {
        () = own_answer.decided(), if !is_decided => {}
        () = client.clock().sleep_until(at) => {}
        () = client.closing() => {}
    }
}

fn unknown(reason: &'static str) -> ServerError {
    ServerError::Unknown { reason: reason.into() }
}
