//! A line of those who wait to be notified: what [`Notify`](crate::Notify) and [`Condition`](crate::Condition) are made of.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use redgrid_core::{IdempotentScript, Participant, Request, Script};

use crate::barrier::gone;
use crate::error::{AskError, WaitError};
use crate::place::{Bound, Place, Seen, once, script};

static WAIT: Script<3> = Script::new("line/wait", script!("line", "line_wait"));
static LEAVE: Script<3> = Script::new("line/leave", script!("line", "line_leave"));
static ONE: IdempotentScript<3> = IdempotentScript::new("line/one", once!("line", "line_one"));
static ALL: IdempotentScript<3> = IdempotentScript::new("line/all", once!("line", "line_all"));

/// Whether a notification is kept that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    Yes,
    No,
}

impl Stores {
    fn arg(self) -> &'static str {
        if self == Stores::Yes { "1" } else { "0" }
    }
}

fn keys(place: &Place) -> [Bytes; 3] {
    [place.key.clone(), place.part("line"), place.part("notified")]
}

/// One who stands in line. Dropped, it leaves in the background, and what it was notified of goes to the next.
#[derive(Debug)]
pub(crate) struct Stand {
    place: Place,
    stores: Stores,
    seat: Participant,
}

impl Stand {
    /// Nobody stands yet: the first look does it.
    pub(crate) fn new(place: &Place, stores: Stores) -> Stand {
        let stand = Stand { seat: place.client.participant(&place.key), place: place.clone(), stores };
        stand.seat.arm(stand.leave(false));
        stand
    }

    fn leave(&self, took: bool) -> Request {
        let request = LEAVE.with(keys(&self.place)).arg(self.seat.id()).arg(self.seat.generation().to_string());
        let request = request.int(took.into()).publish_here().arg(self.place.channel.clone());
        request.arg(self.stores.arg()).idempotent()
    }

    fn look(&self, takes: bool, again: bool) -> Request {
        let request =
            WAIT.with(keys(&self.place)).not_after_here().arg(self.seat.id()).arg(self.seat.generation().to_string());
        let request = request.int(self.place.lease()).int(takes.into()).publish_here().arg(self.place.channel.clone());
        request.arg(self.stores.arg()).int(again.into()).idempotent()
    }

    /// One look: whether it is notified.
    pub(crate) async fn look_once(&self, again: bool) -> Result<bool, WaitError> {
        loop {
            match self.place.ask::<Vec<i64>>(self.look(false, again)).await?.first() {
                Some(1) => return Ok(true),
                Some(0) => return Ok(false),
                Some(-2) => return Err(gone(&self.place)),
                _ => tokio::task::yield_now().await,
            }
        }
    }

    /// Waits until it is notified; where it `takes` that, it goes to nobody else any more once this has completed.
    pub(crate) async fn notified(&self, bound: Bound, takes: bool, stands: bool) -> Result<(), WaitError> {
        let again = AtomicBool::new(stands);
        let look = || self.look(takes, again.load(Ordering::Relaxed));
        let bound = bound.told(self.seat.id());
        let notified = self.place.look(bound, look, |answer| match *answer {
            [1] => Ok(Seen::Done(())),
            [0, left] => {
                again.store(true, Ordering::Relaxed);
                Ok(Seen::Wait(left))
            }
            [-2] => Err(gone(&self.place)),
            _ => Ok(Seen::Late),
        });
        notified.await
    }

    /// It waits no more; what it was notified of meanwhile goes to the next. Without an answer soon, that is said in the background.
    pub(crate) async fn leaves(self) {
        if self.place.ask_briefly::<i64>(self.leave(false)).await.is_some() {
            self.seat.disarm();
        }
    }

    /// What it was notified of is acted on: nobody else gets it.
    pub(crate) fn took(self) {
        self.seat.arm(self.leave(true));
    }

    /// The same where that is known to the server.
    pub(crate) fn done(self) {
        self.seat.disarm();
    }
}

/// Notifies the first in line; whether there was one.
pub(crate) async fn one(place: &Place, stores: Stores) -> Result<bool, AskError> {
    let request = ONE.with(keys(place)).publish_here().arg(place.channel.clone()).arg(stores.arg());
    Ok(place.ask_once::<Vec<i64>>(request).await? == [1])
}

/// Notifies all in line; how many there were.
pub(crate) async fn all(place: &Place) -> Result<u64, AskError> {
    let request = ALL.with(keys(place)).publish_here().arg(place.channel.clone());
    Ok(place.ask_once::<Vec<u64>>(request).await?.first().copied().unwrap_or_default())
}
