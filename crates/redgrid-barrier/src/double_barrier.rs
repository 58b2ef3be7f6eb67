//! A double barrier: all go in together, and nobody goes on before all have left.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Name, Participant, Request, Script};

use crate::barrier::gone;
use crate::error::BarrierError;
use crate::keeper::Keeper;
use crate::place::{Place, Seen, object, script};

static ENTER: Script<3> = Script::new("double-barrier/enter", script!("double_barrier", "double_enter"));
static STAY: Script<3> = Script::new("double-barrier/stay", script!("double_barrier", "double_stay"));
static LEAVE: Script<3> = Script::new("double-barrier/leave", script!("double_barrier", "double_leave"));

/// A section that so many parties begin together and end together, whichever processes they are in.
///
/// [`enter`](DoubleBarrier::enter) waits until all are there; [`leave`](DoubleBarrierGuard::leave) until all have left. Who dies inside
/// has left when its lease ends (30 s unless set). The next session begins when all have left, also if many wait for it already.
///
/// ```no_run
/// # async fn demo(client: &redgrid_barrier::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_barrier::DoubleBarrier;
///
/// let section = DoubleBarrier::new(client, "reindex", 4);
/// let inside = section.enter().await?; // all four begin
/// // … each its part …
/// inside.leave().await?; // all four are done
/// # Ok(()) }
/// ```
#[doc(alias = "DistributedDoubleBarrier")]
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    place: Result<Place, InvalidName>,
    parties: u32,
}

impl DoubleBarrier {
    /// The double barrier with this name and so many parties. Nothing is asked of the server. All who use it say the same number.
    pub fn new(client: &Client, name: impl AsRef<str>, parties: u32) -> Self {
        DoubleBarrier { place: Place::new(client, "double_barrier", name), parties }
    }

    /// What every object has: whether it is there, its lifetime, other names, its events; with all that belongs to it.
    ///
    /// Who takes part is not asked: behind a deletion those who wait are counted again at their next look, and those inside are inside no more. Behind a rename the same is true of the old name.
    pub fn object(&self) -> Object {
        object(&self.place, layouts::double_barrier)
    }

    /// How many parties enter together.
    pub fn parties(&self) -> u32 {
        self.parties
    }

    /// Waits until all are there, as long as it takes or as [`Enter::timeout`] says.
    ///
    /// # Errors
    ///
    /// [`BarrierError`]; this one is not counted then, at the latest when its lease ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes this party back in the background, at the latest when its lease ends. If the others have just entered
    /// with it, it has left for them.
    pub fn enter(&self) -> Enter {
        Enter { barrier: self.clone(), within: None }
    }
}

/// Enters a double barrier when awaited; made by [`DoubleBarrier::enter`].
#[must_use = "nobody enters until this is awaited"]
#[derive(Clone, Debug)]
pub struct Enter {
    barrier: DoubleBarrier,
    within: Option<Duration>,
}

impl Enter {
    /// Waits at most this long; as long as it takes unless set. Whoever is let in at the last moment is inside.
    pub fn timeout(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    async fn run(self) -> Result<DoubleBarrierGuard, BarrierError> {
        let place = self.barrier.place.clone()?;
        if self.barrier.parties == 0 {
            return Err(BarrierError::InvalidArgument { name: place.name });
        }
        // A party that is inside without knowing it would keep the others from leaving.
        place.drive(self.within, |within| Enter { within, ..self.clone() }.enter()).await
    }

    async fn enter(self) -> Result<DoubleBarrierGuard, BarrierError> {
        let DoubleBarrier { place, parties } = self.barrier;
        let place = place?;
        let bound = place.bound(self.within);
        let seat = place.client.participant(&place.key);
        seat.arm(leave(&place, &seat, 0, false));
        let look = || {
            let request = ENTER.with(keys(&place)).not_after_here().arg(seat.id()).arg(seat.generation().to_string());
            let request = request.int(parties.into()).int(place.lease());
            request.publish_here().arg(place.channel.clone()).idempotent()
        };
        let entered = place.look(bound, look, |answer| entered(&place, parties, &answer)).await;
        let session = match entered {
            Err(BarrierError::TimedOut { name, waited }) => {
                // Let in at the last moment, it is inside.
                let left = place.ask_briefly::<Vec<i64>>(leave(&place, &seat, 0, true)).await;
                match left.as_deref() {
                    Some([2, session]) => *session,
                    _ => return Err(BarrierError::TimedOut { name, waited }),
                }
            }
            entered => entered?,
        };
        seat.arm(leave(&place, &seat, session, false));
        let (id, turn) = (seat.id(), seat.generation());
        let keeper = Keeper::begin(&place, move |place| {
            let request = STAY.with(keys(place)).not_after_here().arg(id.clone()).arg(turn.to_string()).int(session);
            request.int(place.lease()).publish_here().arg(place.channel.clone()).idempotent()
        });
        Ok(DoubleBarrierGuard { keeper, seat, place, session })
    }
}

impl IntoFuture for Enter {
    type Output = Result<DoubleBarrierGuard, BarrierError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// As [`DoubleBarrier::enter`].
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Being inside. Its lease is renewed while it lives; dropping it leaves in the background, [`DoubleBarrierGuard::leave`] waits for
/// the others, too.
#[must_use = "dropping the guard leaves"]
#[derive(Debug)]
pub struct DoubleBarrierGuard {
    keeper: Keeper,
    seat: Participant,
    place: Place,
    session: i64,
}

impl DoubleBarrierGuard {
    /// The name of the barrier.
    pub fn name(&self) -> &Name {
        &self.place.name
    }

    /// Which session this is, from 1: the same for all who are inside.
    pub fn session(&self) -> u64 {
        self.session.unsigned_abs()
    }

    /// Whether the others have gone on without this one, because its lease could not be renewed in time, as far as is known.
    pub fn is_lost(&self) -> bool {
        self.keeper.is_lost()
    }

    /// Completes when that is known.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn lost(&self) {
        self.keeper.lost().await;
    }

    /// Leaves, and waits until all have left, as long as it takes or as [`Leave::timeout`] says.
    ///
    /// # Errors
    ///
    /// [`BarrierError`]; this one has left then, at the latest when its lease ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo it: this one leaves.
    pub fn leave(self) -> Leave {
        Leave { guard: self, within: None }
    }
}

/// Leaves a double barrier when awaited; made by [`DoubleBarrierGuard::leave`].
#[must_use = "nobody waits for the others until this is awaited"]
#[derive(Debug)]
pub struct Leave {
    guard: DoubleBarrierGuard,
    within: Option<Duration>,
}

impl Leave {
    /// Waits at most this long; as long as it takes unless set.
    pub fn timeout(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    async fn run(self) -> Result<(), BarrierError> {
        let DoubleBarrierGuard { keeper, seat, place, session } = self.guard;
        drop(keeper);
        let bound = place.bound(self.within);
        let left = place.look(
            bound,
            || leave(&place, &seat, session, false),
            |answer| {
                // It has left; only the others are waited for.
                seat.disarm();
                Ok::<_, BarrierError>(if answer == [1] {
                    Seen::Done(())
                } else {
                    Seen::Wait(answer.get(1).copied().unwrap_or(-1))
                })
            },
        );
        left.await
    }
}

impl IntoFuture for Leave {
    type Output = Result<(), BarrierError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// As [`DoubleBarrierGuard::leave`].
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

fn keys(place: &Place) -> [Bytes; 3] {
    [place.key.clone(), place.part("waiting"), place.part("inside")]
}

/// Leaves; `outside` only where it is not inside.
fn leave(place: &Place, seat: &Participant, session: i64, outside: bool) -> Request {
    let request = LEAVE.with(keys(place)).arg(seat.id()).arg(seat.generation().to_string()).int(session);
    request.int(place.lease()).publish_here().arg(place.channel.clone()).int(outside.into()).idempotent()
}

fn entered(place: &Place, ours: u32, answer: &[i64]) -> Result<Seen<i64>, BarrierError> {
    match *answer {
        [1, session] => Ok(Seen::Done(session)),
        [0, left] => Ok(Seen::Wait(left)),
        [-3, theirs] => {
            let theirs = u32::try_from(theirs).unwrap_or_default();
            Err(BarrierError::PartiesDiffer { name: place.name.clone(), ours, theirs })
        }
        [-2] => Err(gone(place).into()),
        _ => Ok(Seen::Late),
    }
}
