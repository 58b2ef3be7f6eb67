//! A phaser: phase after phase, each begun when all parties have arrived at the end of the one before.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, IdempotentScript, Name, Script};

use crate::error::{AskError, WaitError};
use crate::party::{Party, Word, arrive};
use crate::place::{Place, Seen, object, once, script};

static REGISTER: Script<3> = Script::new("phaser/register", script!("phaser", "phaser_register"));
pub(crate) static ARRIVE: Script<3> = Script::new("phaser/arrive", script!("phaser", "phaser_arrive"));
pub(crate) static STAY: Script<3> = Script::new("phaser/stay", script!("phaser", "phaser_stay"));
static LOOK: Script<3> = Script::new("phaser/look", script!("phaser", "phaser_look"));
static END: IdempotentScript<3> = IdempotentScript::new("phaser/end", once!("phaser", "phaser_end"));

/// The most parties of one `bulk_register`: 1,000, of which a script takes some milliseconds.
const MOST: usize = 1000;

/// Work in phases by parties that come and go, whichever processes they are in: the next phase begins when all that are registered
/// have arrived. As java.util.concurrent's `Phaser`, except that a party is a value of its own, which arrives once in a phase.
///
/// A phaser ends when its last party has deregistered or died, or by [`terminate`](Phaser::terminate). Its name is best that of one
/// run: an ended one is forgotten 10 minutes later, or by [`reset`](Phaser::reset).
///
/// ```no_run
/// # async fn demo(client: &redgrid_barrier::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_barrier::Phaser;
///
/// let phaser = Phaser::new(client, "build:7");
/// let party = phaser.register().await?;
/// for step in ["fetch", "compile", "test"] {
///     println!("{step}"); // this one's part of it
///     party.arrive_and_wait().await?; // all have done theirs
/// }
/// party.arrive_and_deregister().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Phaser {
    place: Result<Place, InvalidName>,
}

/// How far a phaser is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhaserState {
    /// The present phase, from 0; where it has ended, the last one.
    pub phase: u64,
    /// Whether it has ended.
    pub is_terminated: bool,
    /// How many parties there are.
    pub registered: u64,
    /// How many of them have arrived at the present phase.
    pub arrived: u64,
}

impl PhaserState {
    /// How many parties the present phase waits for.
    pub fn unarrived(&self) -> u64 {
        self.registered.saturating_sub(self.arrived)
    }
}

impl Phaser {
    /// The phaser with this name. Nothing is asked of the server.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Phaser { place: Place::new(client, "phaser", name) }
    }

    /// What every object has: whether it is there, its lifetime, other names, its events; with all that belongs to it.
    ///
    /// Who takes part is not asked: behind a deletion the phaser begins anew, and its parties are told so by their next word. Behind a rename the same is true of the old name.
    pub fn object(&self) -> Object {
        object(&self.place, layouts::phaser)
    }

    /// Registers a party, which the present phase waits for from now on.
    ///
    /// # Errors
    ///
    /// [`PhaserError`].
    ///
    /// # Cancel safety
    ///
    /// Dropped early, what was registered is taken back in the background, at the latest when its lease ends, as if it had never been: a
    /// phaser with which nobody else has registered has not begun then, and has not ended. The same goes for an error.
    pub async fn register(&self) -> Result<Party, PhaserError> {
        let place = self.place()?;
        let registered = register(place, 1).await?.pop();
        registered.ok_or_else(|| PhaserError::InvalidArgument { name: place.name.clone(), got: 0 })
    }

    /// Registers 1 to 1,000 parties at once: no phase is over before all of them have arrived.
    ///
    /// # Errors
    ///
    /// [`PhaserError`].
    ///
    /// # Cancel safety
    ///
    /// As [`Phaser::register`].
    pub async fn bulk_register(&self, parties: usize) -> Result<Vec<Party>, PhaserError> {
        register(self.place()?, parties).await
    }

    /// Waits until `phase` is over: at once if it is, as long as it takes or as [`WaitAdvance::timeout`] says. Awaited, it gives the
    /// present phase. Nobody need be registered for it.
    ///
    /// # Errors
    ///
    /// [`PhaserError`]; [`Terminated`](PhaserError::Terminated) when the phaser ended in this phase or before.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind.
    #[doc(alias = "awaitAdvance")]
    pub fn wait_advance(&self, phase: u64) -> WaitAdvance {
        WaitAdvance { phaser: self.clone(), phase, within: None }
    }

    /// The present phase, from 0; where it has ended, the last one.
    ///
    /// # Errors
    ///
    /// [`PhaserError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn phase(&self) -> Result<u64, PhaserError> {
        Ok(self.state().await?.phase)
    }

    /// How far it is: phase, parties, arrivals.
    ///
    /// # Errors
    ///
    /// [`PhaserError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn state(&self) -> Result<PhaserState, PhaserError> {
        let place = self.place()?;
        let answer = place.ask::<Vec<i64>>(look(place)).await?;
        let at = |index: usize| answer.get(index).copied().unwrap_or_default().unsigned_abs();
        Ok(PhaserState { phase: at(0), is_terminated: at(1) == 1, registered: at(2), arrived: at(3) })
    }

    /// Ends it, for all: who waits is told, and nobody registers or arrives any more; true if it had not ended before. Exactly once, although
    /// answers are lost.
    ///
    /// # Errors
    ///
    /// [`PhaserError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not have ended.
    #[doc(alias = "forceTermination")]
    pub async fn terminate(&self) -> Result<bool, PhaserError> {
        self.end(false).await
    }

    /// Forgets a phaser that has ended, so that its name begins anew at phase 0; true if it had ended. Parties that are left of it take no
    /// part in what begins then: to them it has ended. Exactly once, although answers are lost.
    ///
    /// # Errors
    ///
    /// [`PhaserError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not be forgotten.
    pub async fn reset(&self) -> Result<bool, PhaserError> {
        self.end(true).await
    }

    async fn end(&self, forget: bool) -> Result<bool, PhaserError> {
        let place = self.place()?;
        let request = END.with(keys(place)).int(forget.into()).publish_here().arg(place.channel.clone());
        Ok(place.ask_once::<Vec<i64>>(request).await? == [1])
    }

    fn place(&self) -> Result<&Place, PhaserError> {
        self.place.as_ref().map_err(|invalid| AskError::from(invalid.clone()).into())
    }
}

async fn register(place: &Place, parties: usize) -> Result<Vec<Party>, PhaserError> {
    if !(1..=MOST).contains(&parties) {
        return Err(PhaserError::InvalidArgument { name: place.name.clone(), got: parties });
    }
    let seats: Vec<_> = (0..parties).map(|_| place.client.participant(&place.key)).collect();
    for seat in &seats {
        seat.arm(arrive(place, seat, Word::UNHEARD, 0, true));
    }
    loop {
        let request = REGISTER.with(keys(place)).not_after_here().int(place.lease()).publish_here();
        let request = seats.iter().fold(request.arg(place.channel.clone()), |request, seat| {
            request.arg(seat.id()).arg(seat.generation().to_string())
        });
        match *place.ask::<Vec<i64>>(request.idempotent()).await? {
            [1, phase, run] => {
                return Ok(seats.into_iter().map(|seat| Party::new(place, seat, phase, run)).collect());
            }
            [-4, phase] => {
                return Err(PhaserError::Terminated { name: place.name.clone(), phase: phase.unsigned_abs() });
            }
            _ => {}
        }
    }
}

/// Waits for a phase when awaited; made by [`Phaser::wait_advance`].
#[must_use = "nobody waits until this is awaited"]
#[derive(Clone, Debug)]
pub struct WaitAdvance {
    phaser: Phaser,
    phase: u64,
    within: Option<Duration>,
}

impl WaitAdvance {
    /// Waits at most this long; as long as it takes unless set.
    pub fn timeout(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    async fn run(self) -> Result<u64, PhaserError> {
        let place = self.phaser.place()?;
        let phase = i64::try_from(self.phase).unwrap_or(i64::MAX);
        let seen = |answer: Vec<i64>| match *answer {
            [now, ended, _, _, left] => waited(place, phase, (now, ended == 1, left)),
            _ => Ok(Seen::Late),
        };
        place.look(place.bound(self.within).without_key(), || look(place), seen).await
    }
}

impl IntoFuture for WaitAdvance {
    type Output = Result<u64, PhaserError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// As [`Phaser::wait_advance`].
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// What somebody sees who waits for the end of a phase.
pub(crate) fn waited(
    place: &Place,
    phase: i64,
    (now, ended, left): (i64, bool, i64),
) -> Result<Seen<u64>, PhaserError> {
    if now > phase {
        Ok(Seen::Done(now.unsigned_abs()))
    } else if ended {
        Err(PhaserError::Terminated { name: place.name.clone(), phase: now.unsigned_abs() })
    } else {
        Ok(Seen::Wait(left))
    }
}

pub(crate) fn keys(place: &Place) -> [Bytes; 3] {
    [place.key.clone(), place.part("parties"), place.part("arrived")]
}

fn look(place: &Place) -> redgrid_core::Request {
    LOOK.with(keys(place)).publish_here().arg(place.channel.clone()).idempotent()
}

/// Why a phaser did not do what it was asked for.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PhaserError {
    /// The time was over before the phase was.
    #[error("waited {waited:?} for the others at the phaser `{name}`")]
    TimedOut {
        /// The phaser.
        name: Name,
        /// How long.
        waited: Duration,
    },
    /// It has ended: no party is left, or it was terminated. To a party of a run that was [`reset`](Phaser::reset) since, too.
    #[error("the phaser `{name}` ended in phase {phase}")]
    Terminated {
        /// The phaser.
        name: Name,
        /// Its last phase, as far as is known.
        phase: u64,
    },
    /// This party has arrived at the present phase before; others are missing.
    #[error("this party of `{name}` has arrived at phase {phase} already")]
    AlreadyArrived {
        /// The phaser.
        name: Name,
        /// The present phase.
        phase: u64,
    },
    /// So many parties can not be registered at once. Nothing was asked.
    #[error("1 to 1000 parties are registered with `{name}` at once, not {got}")]
    InvalidArgument {
        /// The phaser.
        name: Name,
        /// What was asked for.
        got: usize,
    },
    /// The server could not be asked.
    #[error(transparent)]
    Failed(#[from] AskError),
}

impl From<WaitError> for PhaserError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut { name, waited } => PhaserError::TimedOut { name, waited },
            WaitError::Failed(error) => PhaserError::Failed(error),
        }
    }
}
