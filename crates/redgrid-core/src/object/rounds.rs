//! Changing what others may change meanwhile: look, decide, and compare on the server, in rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{ObjectError, Place};
use crate::clock::Instant;
use crate::connection::{Client, FromReply, Reply, Request, jittered};
use crate::error::ServerError;
use crate::name::Name;

/// For how long a turn may stand still before those behind go on without it, at least; else four round trips.
const STANDSTILL: Duration = Duration::from_millis(50);

/// After so many lost rounds there are pauses between them.
const AT_ONCE: u32 = 10;

/// The first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// Whose turn it is to change something: tasks of one client do not overtake each other. It is a courtesy that saves rounds; what is
/// right is decided by the server.
#[derive(Default)]
struct Turns {
    first: Arc<Mutex<()>>,
    /// How many have been over.
    over: AtomicU64,
}

/// One task's turn.
struct Turn {
    turns: Arc<Turns>,
    _first: OwnedMutexGuard<()>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.over.fetch_add(1, Ordering::Relaxed);
    }
}

/// The rounds of one call that changes what others may change meanwhile: all of them together have the client's patience.
pub struct Rounds {
    client: Client,
    name: Name,
    until: Instant,
    /// From then on no round is begun: one that is has half a request's time left, so that its end is seldom the end of the time.
    last: Instant,
    lost: u32,
    /// What is there, as the round that was lost last has told it.
    told: Option<Option<Bytes>>,
    _turn: Option<Turn>,
}

impl Rounds {
    /// Those of a call about `name`, one round after another.
    pub fn of(client: &Client, name: &Name) -> Rounds {
        let (now, patience) = (client.clock().now(), client.patience());
        let (until, last) = (now + patience, now + patience.saturating_sub(client.response_timeout() / 2));
        Rounds { client: client.clone(), name: name.clone(), until, last, lost: 0, told: None, _turn: None }
    }

    /// The same behind other tasks of this client that change what has this key. Where whoever has the turn does not go on, it goes
    /// on without.
    ///
    /// # Errors
    ///
    /// [`ObjectError::ShuttingDown`] when the client is shut down, [`ObjectError::Unavailable`]
    /// when the time is over.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the line.
    pub async fn in_line(client: &Client, name: &Name, key: &Bytes) -> Result<Rounds, ObjectError> {
        let mut rounds = Rounds::of(client, name);
        let turns = client.shared(key, Turns::default);
        let round_trip = client.core().topology.primary(key).time().round_trip();
        let standstill = STANDSTILL.max(4 * round_trip);
        let over = |reason| ObjectError::Unavailable { name: name.clone(), source: ServerError::not_sent(reason) };
        let mut first = std::pin::pin!(Arc::clone(&turns.first).lock_owned());
        loop {
            let seen = turns.over.load(Ordering::Relaxed);
            let now = client.clock().now();
            tokio::select! {
                biased;
                guard = &mut first => {
                    let turn = Turn { turns: Arc::clone(&turns), _first: guard };
                    rounds._turn = Some(turn);
                    return Ok(rounds);
                }
                () = client.closing() => return Err(ObjectError::of(name, client.ended())),
                () = client.clock().sleep_until((now + standstill).min(rounds.last)) => {
                    if client.clock().now() >= rounds.last {
                        return Err(over("other tasks were in front until its time was over"));
                    }
                    if turns.over.load(Ordering::Relaxed) == seen {
                        return Ok(rounds);
                    }
                }
            }
        }
    }

    /// The same of a part of an object, as a map's key, by its bytes: those who change other parts are not in front.
    ///
    /// # Errors
    ///
    /// As [`Rounds::in_line`]; [`ObjectError::InvalidName`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the line.
    pub async fn of_part(place: &Place, part: &[u8]) -> Result<Rounds, ObjectError> {
        let (name, key) = place.named()?;
        // What has a 0 in it is no name: nobody else's.
        let turn: Bytes = [&key[..], b"\0", part].concat().into();
        Rounds::in_line(place.client(), name, &turn).await
    }

    /// What is there: as the round that was lost last has told it, where that is still new, else as the primary says when it is asked, whatever
    /// the read mode: an old value would only be refused.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn stored(
        &mut self,
        ask: impl FnOnce() -> Result<Request, ObjectError>,
    ) -> Result<Option<Bytes>, ObjectError> {
        match self.told.take() {
            Some(told) => Ok(told),
            None => self.read(ask()?).await,
        }
    }

    /// Asks what only reads.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn read<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let answer = self.client.run_until(request.idempotent(), self.until).await;
        answer.map_err(|source| ObjectError::of_read(&self.name, source))
    }

    /// Asks what changes something.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn change<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        let answer = self.client.run_until(request, self.until).await;
        answer.map_err(|source| ObjectError::of(&self.name, source))
    }

    /// Others were quicker in this round; returns when the next is to begin, and whether that is at once: what was told is still new then.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Contended`] when the time is over, [`ObjectError::ShuttingDown`] when the
    /// client is shut down.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn lost(&mut self) -> Result<bool, ObjectError> {
        self.lost += 1;
        let pauses = self.lost.checked_sub(AT_ONCE);
        let pause = pauses.map_or(Duration::ZERO, |pauses| (PAUSES.0 * 2_u32.pow(pauses.min(10))).min(PAUSES.1));
        let until = self.client.clock().now() + jittered(pause);
        if until >= self.last {
            return Err(self.contended());
        }
        tokio::select! {
            biased;
            () = self.client.closing() => Err(ObjectError::of(&self.name, self.client.ended())),
            () = self.client.clock().sleep_until(until) => Ok(pauses.is_none()),
        }
    }

    /// The same, and what is there now, where that was told: [`Rounds::stored`] begins with it.
    ///
    /// # Errors
    ///
    /// As [`Rounds::lost`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn lost_to(&mut self, told: Option<Option<Bytes>>) -> Result<(), ObjectError> {
        self.told = if self.lost().await? { told } else { None };
        Ok(())
    }

    /// What is told when others were quicker to the end.
    pub fn contended(&self) -> ObjectError {
        ObjectError::Contended { name: self.name.clone(), times: self.lost }
    }
}

/// A change of what is there as one of what may be: what is not stays so.
pub fn in_place<V>(mut change: impl FnMut(&mut V)) -> impl FnMut(Option<V>) -> Option<V> {
    move |value| {
        value.map(|mut value| {
            change(&mut value);
            value
        })
    }
}

/// What a script that compares before it changes tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compared {
    /// It was what was expected, and is changed.
    Done,
    /// It was something else, which is told where that was asked for: of that `None` is that nothing is there.
    Other(Option<Bytes>),
}

/// 1 for done; 0, or a list with what is there.
impl FromReply for Compared {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Array(mut found) if found.len() <= 1 => {
                Option::<Bytes>::from_reply(found.pop().unwrap_or(Reply::Nil)).map(Compared::Other)
            }
            other => Ok(if bool::from_reply(other)? { Compared::Done } else { Compared::Other(None) }),
        }
    }
}
