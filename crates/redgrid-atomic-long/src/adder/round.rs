//! Asking all who count, and waiting for their answers.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::clock::Instant;
use redgrid_core::{Client, Request, ServerError};
use uuid::Uuid;

use super::error::AdderError;
use super::figure::Figure;
use super::member::{Counting, Expected};
use super::scripts::{Asked, LIVES, LOOK, OPEN, OURS, RoundKeys};

/// How long answers are waited for unless said otherwise: 10 s.
const WITHIN: Duration = Duration::from_secs(10);

/// How long may be waited: a round's keys live ten minutes.
const WITHINS: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(300);

/// Looks at a round are at first 1 ms apart, and at most 50 ms.
const LOOKS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// All have answered but this process, which is asked as well: that it was not among them is believed after half a second.
const ALONE: Duration = Duration::from_millis(500);

/// No answer for so long, and one more round is begun, for that joiners hide leavers from a count; for the next one twice as long.
const STALLED: Duration = Duration::from_secs(1);

/// A copy of a request is too late a timeout after it was sent, by a clock that may be slower than ours: 100 ms, for timeouts of minutes.
const LATE: Duration = Duration::from_millis(100);

/// Sums what all processes have counted, when awaited.
#[must_use = "nobody is asked until this is awaited"]
#[derive(Clone, Debug)]
pub struct Sum<N: Figure>(Question<N>);

/// Has all processes begin at 0 again, when awaited.
#[must_use = "nobody is asked until this is awaited"]
#[derive(Clone, Debug)]
pub struct Reset<N: Figure>(Question<N>);

#[derive(Clone, Debug)]
struct Question<N: Figure> {
    of: Result<Arc<Counting<N>>, AdderError>,
    within: Duration,
}

impl<N: Figure> Sum<N> {
    pub(super) fn new(of: Result<Arc<Counting<N>>, AdderError>) -> Self {
        Sum(Question { of, within: WITHIN })
    }

    /// How long answers are waited for, 1 ms to 5 minutes; 10 s unless set. Then it ends [`AdderError::Partial`] with what came.
    pub fn timeout(mut self, within: Duration) -> Self {
        self.0.within = within;
        self
    }
}

impl<N: Figure> Reset<N> {
    pub(super) fn new(of: Result<Arc<Counting<N>>, AdderError>) -> Self {
        Reset(Question { of, within: WITHIN })
    }

    /// How long answers are waited for, 1 ms to 5 minutes; 10 s unless set. Then it ends [`AdderError::Partial`].
    pub fn timeout(mut self, within: Duration) -> Self {
        self.0.within = within;
        self
    }
}

impl<N: Figure> IntoFuture for Sum<N> {
    type Output = Result<N, AdderError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.ask(Asked::Sum))
    }
}

impl<N: Figure> IntoFuture for Reset<N> {
    type Output = Result<(), AdderError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.0.ask(Asked::Reset).await.map(drop) })
    }
}

/// How a round has ended.
enum Ended<N> {
    All(N),
    /// Not everybody who is to be asked was, or what was answered is lost: another round may do it.
    Again(ServerError),
    /// The same may be where nobody answers any more.
    Stalled,
    Failed(AdderError),
}

impl<N: Figure> Question<N> {
    async fn ask(self, asked: Asked) -> Result<N, AdderError> {
        let of = self.of?;
        let name = &of.member.name;
        if !WITHINS.contains(&self.within) {
            return Err(AdderError::InvalidArgument {
                name: name.clone(),
                option: "bound",
                expected: "1 ms to 5 minutes",
                got: format!("{:?}", self.within),
            });
        }
        let clock = of.client.clock();
        let until = clock.now() + self.within;
        let mut why = ServerError::NotSent { reason: "this client's own listener is not in force".into() };
        let (mut pause, mut patience) = (LOOKS[0], STALLED);
        loop {
            if of.client.is_shut_down() {
                return Err(AdderError::of(name, of.client.ended()));
            }
            // Who asks counts as well, and is asked like the others.
            if of.client.is_subscribed(&of.member.keys.topic) {
                match of.round(asked, self.within, until, patience).await {
                    Ended::All(sum) => return Ok(sum),
                    Ended::Failed(error) => return Err(error),
                    Ended::Again(error) => why = error,
                    Ended::Stalled => {
                        (why, patience) = (unknown("those who were asked did not answer"), patience * 2);
                        continue;
                    }
                }
            }
            if clock.now() >= until {
                return Err(AdderError::of(name, why));
            }
            clock.sleep_until(until.min(clock.now() + pause)).await;
            pause = (pause * 2).min(LOOKS[1]);
        }
    }
}

/// A round that is open. Dropped, it is over for ours.
struct Open<'a> {
    client: &'a Client,
    keys: RoundKeys,
    /// All who were asked have answered: nobody writes to it any more.
    by_all: bool,
}

impl Open<'_> {
    /// Whoever hears of it from now on leaves all as it is, if the server can be asked within a timeout.
    async fn close(&self) {
        let until = self.client.clock().now() + self.client.response_timeout();
        let request = Request::command("DEL").key(self.keys.round.clone()).idempotent();
        // What could not be closed is tried again when this is dropped.
        let _ = self.client.run_until::<i64>(request, until).await;
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let RoundKeys { round, semaphore, counter, .. } = &self.keys;
        let request = Request::command("DEL").key(round.clone());
        self.client.run_later(match self.by_all {
            true => request.key(semaphore.clone()).key(counter.clone()),
            // Redisson's would write them again, and without a lifetime.
            false => request,
        });
    }
}

impl<N: Figure> Counting<N> {
    /// One round, of those who hear it.
    async fn round(&self, asked: Asked, within: Duration, until: Instant, patience: Duration) -> Ended<N> {
        let (client, member) = (&self.client, &*self.member);
        let id = format!("{OURS}{}", Uuid::new_v4().simple());
        let gaps = member.gaps();
        let mut mine = member.expect(&id);
        let mut open = Open { client, keys: member.keys.round(&id), by_all: false };
        let RoundKeys { round, semaphore, counter, .. } = &open.keys;
        let keys = [semaphore.clone(), round.clone(), counter.clone()];
        let request = OPEN.with(keys.clone()).int(LIVES).publish_here().arg(member.keys.topic.clone());
        let request = request.arg(asked.message(&id)).not_after_here().tells_time();
        let expected = match client.run_until::<u64>(request, until).await {
            Ok(expected) => expected,
            Err(error @ (ServerError::Refused { .. } | ServerError::Decode { .. })) => {
                return Ended::Failed(AdderError::of(&member.name, error));
            }
            Err(error) => {
                // A reset that comes after another one was told as done would take what was added since: not before this one is
                // certainly too late is there another.
                if asked == Asked::Reset && error.is_unknown() {
                    let over = until.min(client.clock().now() + client.response_timeout() + LATE);
                    tokio::select! {
                        () = client.clock().sleep_until(over) => {}
                        () = client.shutting_down() => {}
                    }
                }
                return Ended::Again(error);
            }
        };
        let mut seen = Seen { answered: 0, sum: "0".into(), overflows: false };
        let (mut pause, mut alone_since, mut heard_at) = (LOOKS[0], None, client.clock().now());
        loop {
            let clock = client.clock();
            if clock.now() >= until {
                if asked == Asked::Reset {
                    // What is added once this is told is not to be reset by who hears of it late.
                    open.close().await;
                }
                return self.partial(seen, expected, within);
            }
            wait(client, &mut mine, until.min(clock.now() + pause)).await;
            if client.is_shut_down() {
                return Ended::Failed(AdderError::of(&member.name, client.ended()));
            }
            if let Some(error) = mine.refusal() {
                return Ended::Failed(AdderError::of(&member.name, error));
            }
            pause = (pause * 2).min(LOOKS[1]);
            let is_mine = mine.is_answered();
            match client.run_until::<Vec<String>>(LOOK.with(keys.clone()).idempotent(), until).await {
                Ok(look) => match Seen::read(&look) {
                    Some(look) if look.answered >= expected && is_mine => {
                        open.by_all = true;
                        return match N::read(&look.sum).filter(|_| !look.overflows) {
                            Some(sum) => Ended::All(sum),
                            None => Ended::Failed(AdderError::Overflow { name: member.name.clone() }),
                        };
                    }
                    Some(look) => {
                        if look.answered != seen.answered {
                            heard_at = clock.now();
                        }
                        seen = look;
                    }
                    None => return Ended::Again(unknown("the round's keys have gone")),
                },
                Err(error @ (ServerError::Refused { .. } | ServerError::Decode { .. })) => {
                    return Ended::Failed(AdderError::of(&member.name, error));
                }
                // It may be seen the next time.
                Err(_) => {}
            }
            let now = clock.now();
            if seen.answered < expected && now.since(heard_at) >= patience && until > now + patience {
                return Ended::Stalled;
            }
            // Who has left meanwhile does not answer any more.
            if pause == LOOKS[1]
                && let Some(listeners) = client.subscribers_at_primary(&member.keys.topic, &member.keys.key).await
                && listeners < expected
            {
                return Ended::Again(unknown("one who was asked has left"));
            }
            if is_mine {
                continue;
            }
            if member.gaps() != gaps || !client.is_subscribed(&member.keys.topic) {
                return Ended::Again(unknown("this client's own listener was interrupted"));
            }
            let since = *alone_since.get_or_insert(clock.now());
            match seen.answered >= expected {
                true if clock.now().since(since) > ALONE => {
                    return Ended::Again(unknown("this client was not asked itself"));
                }
                true => {}
                false => alone_since = None,
            }
        }
    }

    /// Waits until this client hears what is asked.
    pub(super) async fn ready(&self) -> Result<(), AdderError> {
        let (client, name) = (&self.client, &self.member.name);
        let (mut pause, until) = (LOOKS[0], client.clock().now() + client.patience());
        while !client.is_subscribed(&self.member.keys.topic) {
            if client.is_shut_down() {
                return Err(AdderError::of(name, client.ended()));
            }
            if client.clock().now() >= until {
                return Err(AdderError::of(name, unknown("the subscription was not confirmed")));
            }
            client.clock().sleep_until(until.min(client.clock().now() + pause)).await;
            pause = (pause * 2).min(LOOKS[1]);
        }
        Ok(())
    }

    /// The time is over.
    fn partial(&self, seen: Seen, expected: u64, within: Duration) -> Ended<N> {
        let (name, zero) = (self.member.name.clone(), N::read("0").map(N::amount));
        let so_far = N::read(&seen.sum).map(N::amount).or(zero).filter(|_| !seen.overflows);
        Ended::Failed(match so_far {
            Some(so_far) => AdderError::Partial { name, answered: seen.answered, expected, so_far, within },
            None => AdderError::Overflow { name },
        })
    }
}

/// What was seen of a round.
struct Seen {
    answered: u64,
    sum: String,
    /// What was answered is more than can be told.
    overflows: bool,
}

impl Seen {
    /// None where a key has gone.
    fn read(look: &[String]) -> Option<Seen> {
        let [answered, round, sum] = look else { return None };
        let seen = Seen { answered: answered.parse().ok()?, sum: sum.clone(), overflows: round.ends_with('!') };
        (!round.is_empty() && !sum.is_empty()).then_some(seen)
    }
}

/// Until this process has answered, or can not, or `at`; once it has, until `at`. Until the client is shut down in any case.
async fn wait<N: Figure>(client: &Client, mine: &mut Expected<'_, N>, at: Instant) {
    let is_told = mine.is_told();
    tokio::select! {
        () = mine.told(), if !is_told => {}
        () = client.clock().sleep_until(at) => {}
        () = client.shutting_down() => {}
    }
}

fn unknown(reason: &'static str) -> ServerError {
    ServerError::Unknown { reason: reason.into() }
}
