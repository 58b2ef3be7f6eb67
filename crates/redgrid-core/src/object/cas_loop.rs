//! Optimistic updates of objects that other clients may change: read, decide, and compare-and-set.

use std::time::Duration;

use bytes::Bytes;
use redgrid_client::internal::jittered;
use redgrid_client::{Client, FromReply, Reply, Request, ServerError};

use super::update_turns::{UpdateTurn, UpdateTurns};
use super::{ObjectError, ObjectRef};
use crate::author::ClientExt;
use crate::backoff::Backoff;
use crate::clock::Instant;
use crate::name::Name;

/// Number of the first lost attempt that is followed by a pause: 10.
///
/// An attempt is lost if another client changes the object after the attempt has read it. After
/// each of the first nine lost attempts, the next attempt starts at once.
const FIRST_LOSS_WITH_PAUSE: u32 = 10;

/// The pauses after the tenth lost attempt and each later one.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(100) };

/// The attempts of one call that changes an object while other clients may change it, too.
///
/// All attempts together have a time limit: `response_timeout × (retries + 1)`.
pub struct CasLoop {
    client: Client,
    name: Name,
    until: Instant,
    /// No attempt starts after this instant. So every attempt has at least half a response timeout
    /// left, and rarely ends with an unknown outcome.
    last: Instant,
    lost: u32,
    /// The stored value, if it is known: from the reply to the last failed attempt, or from the
    /// task that had the previous turn. `Some(None)` means that no value is stored.
    reported: Option<Option<Bytes>>,
    turn: Option<UpdateTurn>,
}

impl CasLoop {
    /// Creates the loop for a call that changes the object `name`. The call does not wait for other
    /// tasks of this client. For a call that waits, see [`CasLoop::serialized`].
    pub fn new(client: &Client, name: &Name) -> CasLoop {
        let (now, timeout) = (client.clock().now(), client.patience());
        let (until, last) = (now + timeout, now + timeout.saturating_sub(client.response_timeout() / 2));
        CasLoop { client: client.clone(), name: name.clone(), until, last, lost: 0, reported: None, turn: None }
    }

    /// Waits for a turn among the tasks of this client that change `key`, and then creates the
    /// loop. The wait counts towards the time limit of the call.
    ///
    /// A task that makes no progress loses its turn to the next task, and continues without a turn.
    ///
    /// # Errors
    ///
    /// [`Failure::ShuttingDown`](crate::Failure::ShuttingDown) if the client is shut down,
    /// [`Failure::Unavailable`](crate::Failure::Unavailable) if the time limit has passed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the call leaves the queue.
    pub async fn serialized(client: &Client, name: &Name, key: &Bytes) -> Result<CasLoop, ObjectError> {
        let mut cas_loop = CasLoop::new(client, name);
        let limit = cas_loop.last;
        cas_loop.wait_for_turn(key, limit).await?;
        Ok(cas_loop)
    }

    /// Waits for a turn like [`CasLoop::serialized`], but without a time limit. The wait continues
    /// as long as the tasks before this one receive replies. The time limit of the call begins when
    /// its turn begins.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`CasLoop::serialized`].
    pub async fn serialized_patiently(client: &Client, name: &Name, key: &Bytes) -> Result<CasLoop, ObjectError> {
        let mut cas_loop = CasLoop::new(client, name);
        cas_loop.wait_for_turn(key, Instant::MAX).await?;
        let CasLoop { until, last, .. } = CasLoop::new(client, name);
        Ok(CasLoop { until, last, ..cas_loop })
    }

    async fn wait_for_turn(&mut self, key: &Bytes, limit: Instant) -> Result<(), ObjectError> {
        let turns = self.client.shared(key, UpdateTurns::default);
        let turn = turns.wait_for_turn(&self.client, limit).await;
        let turn = turn.map_err(|error| ObjectError::of(&self.name, error))?;
        self.reported = turn.last_value.clone().map(Some);
        self.turn = Some(turn);
        Ok(())
    }

    /// Waits for a turn like [`CasLoop::serialized`], but only behind tasks that change the same
    /// part of an object. `part` identifies the part, such as a key of a map.
    ///
    /// Tasks that change other parts do not delay the call.
    ///
    /// # Errors
    ///
    /// As for [`CasLoop::serialized`]. [`Failure::InvalidName`](crate::Failure::InvalidName) if the
    /// name is invalid.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the call leaves the queue.
    pub async fn serialized_part(object_ref: &ObjectRef, part: &[u8]) -> Result<CasLoop, ObjectError> {
        let (name, key) = object_ref.name_and_key()?;
        // No name contains a 0 byte, so this key differs from the keys of all objects.
        let turn_key: Bytes = [&key[..], b"\0", part].concat().into();
        CasLoop::serialized(object_ref.client(), name, &turn_key).await
    }

    /// Returns the stored value; sends a request only if no recent value is known.
    ///
    /// A recent value is known if the last failed attempt reported it. Before the first attempt, a
    /// recent value is known if another update stored it while this call waited for its turn. In
    /// all other cases `request` is sent. This request goes to the primary, whatever the read mode:
    /// with an outdated value from a replica, the attempt would only fail.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn stored(
        &mut self,
        request: impl FnOnce() -> Result<Request, ObjectError>,
    ) -> Result<Option<Bytes>, ObjectError> {
        match self.reported.take() {
            Some(reported) => Ok(reported),
            None => self.read(request()?).await,
        }
    }

    /// Sends a request that only reads.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn read<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        self.send(request.idempotent()).await.map_err(|source| ObjectError::of_read(&self.name, source))
    }

    /// Sends a request that changes the object.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says whether the request may have been executed.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn change<T: FromReply>(&self, request: Request) -> Result<T, ObjectError> {
        self.send(request).await.map_err(|source| ObjectError::of(&self.name, source))
    }

    async fn send<T: FromReply>(&self, request: Request) -> Result<T, ServerError> {
        let sent = self.client.clock().now();
        let reply = self.client.run_until(request, self.until).await?;
        self.replied(sent);
        Ok(reply)
    }

    /// Records that a request of this call was answered, so that the call keeps its turn. The
    /// request was sent at `sent`.
    ///
    /// [`CasLoop::read`] and [`CasLoop::change`] record their own replies.
    pub fn replied(&self, sent: Instant) {
        if let Some(turn) = &self.turn {
            turn.record_reply(sent);
        }
    }

    /// Records that an attempt failed because another client changed the object first. If a pause
    /// is necessary before the next attempt, waits for its end.
    ///
    /// Returns true if there was no pause. In that case, a value that the failed attempt reported
    /// is still recent.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Contended`] if the call's time does not suffice for another attempt, and
    /// [`Failure::ShuttingDown`](crate::Failure::ShuttingDown) if the client is shut down.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&mut self) -> Result<bool, ObjectError> {
        self.lost += 1;
        let pauses = self.lost.checked_sub(FIRST_LOSS_WITH_PAUSE);
        let pause = pauses.map_or(Duration::ZERO, |pauses| PAUSES.after(pauses));
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

    /// Does the same as [`CasLoop::lost`]. Also keeps `reported`: the stored value, if the failed
    /// attempt reported it.
    ///
    /// If there was no pause, the next call of [`CasLoop::stored`] returns that value and sends no
    /// request.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`CasLoop::lost`].
    pub async fn lost_to(&mut self, reported: Option<Option<Bytes>>) -> Result<(), ObjectError> {
        self.reported = if self.lost().await? { reported } else { None };
        Ok(())
    }

    /// Ends the call after its update, and passes the new value `stored` to the task with the next
    /// turn.
    ///
    /// `sent` is the time at which the request that stored the value was sent.
    pub fn done(self, stored: Bytes, sent: Instant) {
        if let Some(turn) = &self.turn {
            turn.record_value(stored, sent);
        }
    }

    /// Returns the instant at which the time limit of the call ends.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Returns the error for a call that timed out because other clients changed the object first.
    pub fn contended(&self) -> ObjectError {
        ObjectError::Contended { name: self.name.clone(), times: self.lost }
    }
}

/// Converts a change of a value into a change of an optional value: an absent value stays absent.
pub fn in_place<V>(mut change: impl FnMut(&mut V)) -> impl FnMut(Option<V>) -> Option<V> {
    move |value| {
        value.map(|mut value| {
            change(&mut value);
            value
        })
    }
}

/// The reply of a script that changes a value only if it is the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum CasReply {
    /// The stored value was the expected one, and the script changed it.
    Done,
    /// The stored value was not the expected one, and the script changed nothing. This variant
    /// contains the stored value; `None` if no value is stored, or if the reply does not include
    /// the value.
    Other(Option<Bytes>),
}

/// Decodes 1 as [`CasReply::Done`]. Decodes 0, and a list with the stored value, as
/// [`CasReply::Other`].
impl FromReply for CasReply {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Array(mut found) if found.len() <= 1 => {
                Option::<Bytes>::from_reply(found.pop().unwrap_or(Reply::Nil)).map(CasReply::Other)
            }
            other => Ok(if bool::from_reply(other)? { CasReply::Done } else { CasReply::Other(None) }),
        }
    }
}
