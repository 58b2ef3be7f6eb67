//! A registered party of a phaser.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redgrid_core::{Participant, Request};

use crate::keeper::Keeper;
use crate::phaser::{ARRIVE, PhaserError, STAY, keys, waited};
use crate::place::{Place, Seen};

/// A party that all phases wait for. Its lease is renewed while it lives; dropping it deregisters in the background.
///
/// A party whose lease could not be renewed (30 s unless set) is not waited for; when it comes back it takes part again, at the
/// phase that the others have reached by then. One that waits for the end of a phase meanwhile arrives at none but that.
#[must_use = "dropping it deregisters the party"]
#[derive(Debug)]
pub struct Party {
    _keeper: Keeper,
    seat: Participant,
    place: Place,
    known: Arc<Known>,
    run: i64,
}

/// What a party knows: the last phase at which it arrived, and the latest that it saw.
#[derive(Debug)]
pub(crate) struct Known {
    arrived: AtomicI64,
    seen: AtomicI64,
}

/// What a party says of itself: the run of the phaser that it belongs to, the last phase at which it arrived, and the latest that it saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    run: i64,
    arrived: i64,
    seen: i64,
}

impl Word {
    /// Of one that has not heard that it is registered.
    pub(crate) const UNHEARD: Word = Word { run: 0, arrived: -1, seen: 0 };
}

/// What the server says of an arrival.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: i64,
    phase: i64,
    ended: bool,
    left: i64,
}

impl Party {
    pub(crate) fn new(place: &Place, seat: Participant, phase: i64, run: i64) -> Party {
        // Behind every phase it arrives at: it only leaves.
        seat.arm(arrive(place, &seat, Word { run, arrived: phase - 1, seen: phase }, 0, true));
        let known = Arc::new(Known { arrived: AtomicI64::new(phase - 1), seen: AtomicI64::new(phase) });
        let (id, turn, knows) = (seat.id(), seat.generation(), Arc::clone(&known));
        let keeper = Keeper::begin(place, move |place| {
            let request = STAY.with(keys(place)).not_after_here().arg(id.clone()).arg(turn.to_string());
            let request = request.int(knows.arrived.load(Ordering::Acquire)).int(place.lease());
            let request = request.int(knows.seen.load(Ordering::Acquire));
            request.publish_here().arg(place.channel.clone()).int(run).idempotent()
        });
        Party { _keeper: keeper, seat, place: place.clone(), known, run }
    }

    /// Arrives at the present phase and does not wait; says which phase that is.
    ///
    /// # Errors
    ///
    /// [`PhaserError`]; [`AlreadyArrived`](PhaserError::AlreadyArrived) when it is the others that the phase waits for.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not have arrived; the next call is the same arrival then.
    pub async fn arrive(&self) -> Result<u64, PhaserError> {
        let wanted = self.known.arrived.load(Ordering::Acquire) + 1;
        loop {
            let answer = self.place.ask::<Vec<i64>>(self.request(wanted, false)).await?;
            if let Some(arrival) = self.arrived(&answer)? {
                return Ok(arrival.at.unsigned_abs());
            }
        }
    }

    /// Arrives at the present phase and waits for all others, as long as it takes or as [`Advance::timeout`] says. Awaited, it gives
    /// the next phase.
    ///
    /// # Errors
    ///
    /// [`PhaserError`]. When the time is over it has arrived all the same.
    ///
    /// # Cancel safety
    ///
    /// An arrival is not taken back: dropped early, it may have arrived. [`Phaser::wait_advance`](crate::Phaser::wait_advance) goes on
    /// to wait; another call before the phase is over is [`AlreadyArrived`](PhaserError::AlreadyArrived), or the same arrival, where
    /// the first call had got no answer.
    #[doc(alias = "arriveAndAwaitAdvance")]
    pub fn arrive_and_wait(&self) -> Advance<'_> {
        Advance { party: self, within: None }
    }

    /// Arrives at the present phase and registers no more; says which phase that was.
    ///
    /// # Errors
    ///
    /// [`PhaserError`]; its lease ends its registration at the latest.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it deregisters in the background.
    pub async fn arrive_and_deregister(self) -> Result<u64, PhaserError> {
        let wanted = self.known.arrived.load(Ordering::Acquire) + 1;
        loop {
            let answer = self.place.ask::<Vec<i64>>(self.request(wanted, true)).await?;
            if let Some(arrival) = self.arrived(&answer)? {
                self.seat.disarm();
                return Ok(arrival.at.unsigned_abs());
            }
        }
    }

    fn request(&self, wanted: i64, leaves: bool) -> Request {
        let (arrived, seen) = (self.known.arrived.load(Ordering::Acquire), self.known.seen.load(Ordering::Acquire));
        arrive(&self.place, &self.seat, Word { run: self.run, arrived, seen }, wanted, leaves)
    }

    /// What an answer says; `None` where it came too late.
    fn arrived(&self, answer: &[i64]) -> Result<Option<Arrival>, PhaserError> {
        let name = || self.place.name.clone();
        match *answer {
            [1, at, phase, ended, left] => {
                self.known.arrived.fetch_max(at, Ordering::AcqRel);
                self.known.seen.fetch_max(phase, Ordering::AcqRel);
                Ok(Some(Arrival { at, phase, ended: ended == 1, left }))
            }
            [-4, phase] => Err(PhaserError::Terminated { name: name(), phase: phase.unsigned_abs() }),
            [-5, phase] => Err(PhaserError::AlreadyArrived { name: name(), phase: phase.unsigned_abs() }),
            [-2] => Err(PhaserError::Failed(crate::AskError::ShuttingDown { name: name() })),
            _ => Ok(None),
        }
    }
}

/// Arrives and waits when awaited; made by [`Party::arrive_and_wait`].
#[must_use = "nobody arrives until this is awaited"]
#[derive(Clone, Debug)]
pub struct Advance<'a> {
    party: &'a Party,
    within: Option<Duration>,
}

impl Advance<'_> {
    /// Waits at most this long; as long as it takes unless set.
    pub fn timeout(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    async fn run(self) -> Result<u64, PhaserError> {
        let Advance { party, within } = self;
        let bound = party.place.bound(within);
        let wanted = party.known.arrived.load(Ordering::Acquire) + 1;
        let advanced = party.place.look(
            bound,
            || party.request(wanted, false),
            |answer| {
                let Some(arrival) = party.arrived(&answer)? else { return Ok(Seen::Late) };
                waited(&party.place, arrival.at, (arrival.phase, arrival.ended, arrival.left))
            },
        );
        advanced.await
    }
}

impl<'a> IntoFuture for Advance<'a> {
    type Output = Result<u64, PhaserError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    /// # Cancel safety
    ///
    /// As [`Party::arrive_and_wait`].
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

pub(crate) fn arrive(place: &Place, seat: &Participant, word: Word, wanted: i64, leaves: bool) -> Request {
    let request =
        ARRIVE.with(keys(place)).not_after_here().arg(seat.id()).arg(seat.generation().to_string()).int(wanted);
    let request = request.int(place.lease()).int(word.seen).int(leaves.into());
    let request = request.publish_here().arg(place.channel.clone());
    request.int(word.arrived).int(word.run).idempotent()
}
