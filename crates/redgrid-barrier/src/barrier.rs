//! A barrier: nobody goes on before all are there.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Participant, Request, Script};

use crate::error::{BarrierError, WaitError};
use crate::place::{Place, Seen, object, script};
use crate::witness::Witness;

static ARRIVE: Script<2> = Script::new("barrier/arrive", script!("barrier_arrive"));
static LEAVE: Script<2> = Script::new("barrier/leave", script!("barrier_leave"));
static AFFIRM: Script<2> = Script::new("barrier/affirm", script!("barrier_affirm"));

/// How long this process stands for a round that it saw open: 9 minutes. The server remembers it for 10 (`KEPT` of seats.lua); what that
/// one has forgotten as it should is not to be taken for something that a failover lost.
const BELIEVED: Duration = Duration::from_secs(9 * 60);

/// A barrier of so many parties, whichever processes they are in: each waits until all are there. It can be used again at once: who
/// comes after it has opened waits for the next round.
///
/// A party is whoever waits at the moment. One that gives up, is dropped or dies is not counted any more, so a barrier opens only
/// when so many *live* parties wait at the same time.
///
/// ```no_run
/// # async fn demo(client: &redgrid_barrier::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_barrier::Barrier;
///
/// let start = Barrier::new(client, "import:start", 3);
/// let result = start.wait().await?; // three processes are here
/// if result.is_leader() {
///     println!("one of them, the last to come, says so");
/// }
/// # Ok(()) }
/// ```
#[doc(alias = "CyclicBarrier")]
#[derive(Clone, Debug)]
pub struct Barrier {
    place: Result<Place, InvalidName>,
    parties: u32,
    rounds: Arc<Rounds>,
}

/// What this client knows of the rounds of a barrier, whichever of its handles saw them.
#[derive(Debug, Default)]
struct Rounds {
    last: Mutex<Opening>,
    witness: Witness,
}

/// The last opening: its round, and when the server was asked that told of it.
#[derive(Clone, Copy, Debug, Default)]
struct Opening {
    round: u64,
    asked: Instant,
}

impl Opening {
    /// The round, for as long as the server remembers it, too; 0 later.
    fn believed(self, now: Instant) -> u64 {
        if now.since(self.asked) < BELIEVED { self.round } else { 0 }
    }

    /// With another that was told of: an earlier round is another run of the name where the former is not believed any more.
    fn with(self, other: Opening, now: Instant) -> Opening {
        if other.round >= self.believed(now) { other } else { self }
    }
}

impl Rounds {
    fn last(&self) -> MutexGuard<'_, Opening> {
        self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn learn(&self, opening: Opening, now: Instant) {
        let mut last = self.last();
        *last = last.with(opening, now);
    }
}

impl Barrier {
    /// The barrier with this name, which so many parties open. Nothing is asked of the server. All who use it say the same number.
    pub fn new(client: &Client, name: impl AsRef<str>, parties: u32) -> Self {
        let place = Place::new(client, "barrier", name);
        let rounds = place.as_ref().map(|place| client.shared(&place.key, Rounds::default)).unwrap_or_default();
        Barrier { place, parties, rounds }
    }

    /// What every object has: whether it is there, its lifetime, other names, its events; with all that belongs to it.
    ///
    /// Who takes part is not asked: behind a deletion a round begins anew, and those who wait in it are counted again at their next look. Behind a rename the same is true of the old name.
    pub fn object(&self) -> Object {
        object(&self.place, layouts::barrier)
    }

    /// How many parties open it.
    #[doc(alias = "getParties")]
    pub fn parties(&self) -> u32 {
        self.parties
    }

    /// Waits until all are there, as long as it takes or as [`BarrierWait::timeout`] says.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn demo(barrier: redgrid_barrier::Barrier) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_barrier::BarrierError;
    ///
    /// match barrier.wait().timeout(Duration::from_secs(30)).await {
    ///     Ok(result) => println!("round {}", result.generation()),
    ///     Err(BarrierError::TimedOut { .. }) => println!("somebody is missing"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`BarrierError`]; this one is not counted then, at the latest when its lease ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes this party back in the background, at the latest when its lease ends (30 s unless set). It may be
    /// that the others have gone on with it just before.
    #[doc(alias = "await")]
    pub fn wait(&self) -> BarrierWait {
        BarrierWait { barrier: self.clone(), within: None }
    }
}

/// Waits at a barrier when awaited; made by [`Barrier::wait`].
#[must_use = "nobody waits until this is awaited"]
#[derive(Clone, Debug)]
pub struct BarrierWait {
    barrier: Barrier,
    within: Option<Duration>,
}

impl BarrierWait {
    /// Waits at most this long; as long as it takes unless set. Whoever is let through at the last moment is told so, not that the
    /// time is over.
    pub fn timeout(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    async fn run(self) -> Result<BarrierWaitResult, BarrierError> {
        let Barrier { place, parties, rounds } = self.barrier;
        let place = place?;
        if parties == 0 {
            return Err(BarrierError::InvalidArgument { name: place.name });
        }
        let bound = place.bound(self.within);
        let seat = place.client.participant(&place.key);
        seat.arm(leave(&place, &seat));
        // From before each request, as the server remembers a round for so long after telling of it.
        let (clock, asked) = (place.client.clock(), AtomicU64::new(0));
        let asks = || {
            let now = clock.now();
            asked.store(now.as_nanos(), Ordering::Relaxed);
            now
        };
        let look = || {
            let request = ARRIVE.with(keys(&place)).not_after_here().arg(seat.id()).arg(seat.generation().to_string());
            let request = request.int(parties.into()).int(place.lease());
            let seen = rounds.last().believed(asks());
            request.arg(seen.to_string()).publish_here().arg(place.channel.clone()).idempotent()
        };
        let opened = place.look(bound, look, |answer| opened(&place, parties, &answer)).await;
        let opened = match opened {
            Err(BarrierError::TimedOut { name, waited }) => {
                asks();
                let left = place.ask_briefly::<Vec<i64>>(leave(&place, &seat)).await;
                left.and_then(|answer| result(&answer)).ok_or(BarrierError::TimedOut { name, waited })
            }
            ended => ended,
        }?;
        seat.disarm();
        let opening = Opening { round: opened.generation, asked: Instant::from_nanos(asked.load(Ordering::Relaxed)) };
        rounds.learn(opening, clock.now());
        let (keys, channel) = (keys(&place), place.channel.clone());
        rounds.witness.testify(&place, &rounds, move |rounds| {
            let request = AFFIRM.with(keys.clone()).arg(rounds.last().round.to_string());
            request.publish_here().arg(channel.clone()).idempotent()
        });
        Ok(opened)
    }
}

impl IntoFuture for BarrierWait {
    type Output = Result<BarrierWaitResult, BarrierError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// As [`Barrier::wait`].
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The barrier has opened: this one is through, as are all who waited with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarrierWaitResult {
    generation: u64,
    is_leader: bool,
}

impl BarrierWaitResult {
    /// Whether this one was the last to come: true for one of each round.
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// Which opening it was, from 1: the same for all who went through together.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

fn keys(place: &Place) -> [Bytes; 2] {
    [place.key.clone(), place.part("waiting")]
}

fn leave(place: &Place, seat: &Participant) -> Request {
    LEAVE.with(keys(place)).arg(seat.id()).arg(seat.generation().to_string()).idempotent()
}

fn result(answer: &[i64]) -> Option<BarrierWaitResult> {
    match *answer {
        [1, round, leader] => Some(BarrierWaitResult { generation: round.unsigned_abs(), is_leader: leader == 1 }),
        _ => None,
    }
}

fn opened(place: &Place, ours: u32, answer: &[i64]) -> Result<Seen<BarrierWaitResult>, BarrierError> {
    match *answer {
        [0, ..] => Ok(Seen::Wait(-1)),
        [-3, theirs] => {
            let theirs = u32::try_from(theirs).unwrap_or_default();
            Err(BarrierError::PartiesDiffer { name: place.name.clone(), ours, theirs })
        }
        [-2] => Err(gone(place).into()),
        _ => Ok(result(answer).map_or(Seen::Late, Seen::Done)),
    }
}

/// The server says that this turn has left: a shutdown has seen to it.
pub(crate) fn gone(place: &Place) -> WaitError {
    WaitError::Failed(crate::AskError::ShuttingDown { name: place.name.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_stood_for_no_longer_than_the_server_remembers_it() {
        let asked = Instant::from_nanos(1) + Duration::from_secs(3600);
        let opening = Opening { round: 5, asked };
        assert_eq!(opening.believed(asked + Duration::from_secs(8 * 60)), 5);
        assert_eq!(opening.believed(asked + BELIEVED), 0);
        let soon = asked + Duration::from_secs(1);
        assert_eq!(opening.with(Opening { round: 4, asked: soon }, soon).round, 5, "an answer that came late");
        assert_eq!(opening.with(Opening { round: 6, asked: soon }, soon).round, 6);
        let late = asked + 2 * BELIEVED;
        assert_eq!(opening.with(Opening { round: 1, asked: late }, late).round, 1, "it has begun anew");
    }
}
