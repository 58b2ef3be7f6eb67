//! A double barrier: all parties enter together, and none proceeds before all have left.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::into_future;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Failure, Name, Participant, Request, Script};

use crate::barrier::shut_down_error;
use crate::error::BarrierError;
use crate::handle::{PollOutcome, SyncHandle, object, script};
use crate::keepalive::Keepalive;

static ENTER: Script<3> = Script::new("double-barrier/enter", script!("double_barrier", "double_enter"));
static KEEPALIVE: Script<3> = Script::new("double-barrier/keepalive", script!("double_barrier", "double_keepalive"));
static LEAVE: Script<3> = Script::new("double-barrier/leave", script!("double_barrier", "double_leave"));

/// A section that a number of parties begin together and end together, in whichever processes they
/// run.
///
/// [`enter`](DoubleBarrier::enter) waits until all parties have arrived, and
/// [`leave`](DoubleBarrierGuard::leave) until all have left. A party that dies inside counts as
/// left when its lease ends (30 s unless configured). The next session begins only when all have
/// left, even if enough parties already wait for it.
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
    handle: Result<SyncHandle, InvalidName>,
    parties: u32,
}

impl DoubleBarrier {
    /// Returns the double barrier with this name and this number of parties. No request is sent.
    ///
    /// All users of the barrier must give the same number.
    pub fn new(client: &Client, name: impl AsRef<str>, parties: u32) -> Self {
        DoubleBarrier { handle: SyncHandle::new(client, "double_barrier", name), parties }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, renaming, events. It covers all
    /// keys of the object.
    ///
    /// Its operations ignore the parties. After a deletion, waiters count again after their next
    /// poll, and parties inside after their next keep-alive. After a rename, the same is true of
    /// the old name.
    pub fn object(&self) -> Object {
        object(&self.handle, layouts::double_barrier)
    }

    /// Returns the number of parties that enter together.
    pub fn parties(&self) -> u32 {
        self.parties
    }

    /// Waits until all parties have arrived, and enters. The wait is unlimited unless
    /// [`Enter::timeout`] is set.
    ///
    /// # Errors
    ///
    /// [`BarrierError`]. After an error this party is removed, at the latest when its lease ends.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, this party is removed in the background, at the latest when its
    /// lease ends. If the others have just entered with it, it counts as left.
    pub fn enter(&self) -> Enter {
        Enter { barrier: self.clone(), timeout: None }
    }
}

/// A future that enters a double barrier, created by [`DoubleBarrier::enter`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Enter {
    barrier: DoubleBarrier,
    timeout: Option<Duration>,
}

impl Enter {
    /// Limits the wait; it is unlimited by default.
    ///
    /// If the party enters at the last moment, the call succeeds and does not time out.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<DoubleBarrierGuard, BarrierError> {
        let handle = self.barrier.handle.clone()?;
        if self.barrier.parties == 0 {
            return Err(Failure::invalid_argument(&handle.name, "parties", "at least 1", 0).into());
        }
        // Driven even if the caller does not poll: a party that has entered and does not proceed
        // would keep the others from leaving.
        handle.drive(self.timeout, |timeout| Enter { timeout, ..self.clone() }.enter()).await
    }

    async fn enter(self) -> Result<DoubleBarrierGuard, BarrierError> {
        let DoubleBarrier { handle, parties } = self.barrier;
        let handle = handle?;
        let options = handle.wait_options(self.timeout);
        let participant = handle.client.participant(&handle.key);
        participant.arm(leave_request(&handle, &participant, 0, false));
        let poll_request = || {
            let request = ENTER
                .with(keys(&handle))
                .deadline_arg()
                .arg(participant.id())
                .arg(participant.generation().to_string());
            let request = request.int(parties.into()).int(handle.lease());
            request.publish_arg().arg(handle.channel.clone()).idempotent()
        };
        let entered =
            handle.poll_until(options, poll_request, |reply| parse_enter_reply(&handle, parties, &reply)).await;
        let session = match entered {
            Err(BarrierError::TimedOut { name, waited }) => {
                // A party that entered at the last moment stays inside.
                let leave_reply = handle.run_briefly::<Vec<i64>>(leave_request(&handle, &participant, 0, true)).await;
                match leave_reply.as_deref() {
                    Some([2, session]) => *session,
                    _ => return Err(BarrierError::TimedOut { name, waited }),
                }
            }
            entered => entered?,
        };
        participant.arm(leave_request(&handle, &participant, session, false));
        let (id, generation) = (participant.id(), participant.generation());
        let keepalive = Keepalive::start(&handle, move |handle| {
            let request =
                KEEPALIVE.with(keys(handle)).deadline_arg().arg(id.clone()).arg(generation.to_string()).int(session);
            request.int(handle.lease()).publish_arg().arg(handle.channel.clone()).idempotent()
        });
        Ok(DoubleBarrierGuard { keepalive, participant, handle, session })
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// That of [`DoubleBarrier::enter`].
    Enter => Result<DoubleBarrierGuard, BarrierError>,
    |this| this.run()
);

/// A party inside a double barrier.
///
/// Its lease is renewed while the guard lives. Dropping the guard leaves in the background;
/// [`DoubleBarrierGuard::leave`] also waits for the others.
#[must_use = "dropping the guard leaves the barrier"]
#[derive(Debug)]
pub struct DoubleBarrierGuard {
    keepalive: Keepalive,
    participant: Participant,
    handle: SyncHandle,
    session: i64,
}

impl DoubleBarrierGuard {
    /// Returns the name of the barrier.
    pub fn name(&self) -> &Name {
        &self.handle.name
    }

    /// Returns the number of the session, from 1. It is the same for all parties inside.
    pub fn session(&self) -> u64 {
        self.session.unsigned_abs()
    }

    /// Returns whether this party is known to have been removed, because its lease could not be
    /// renewed in time. The others have proceeded without it then.
    pub fn is_lost(&self) -> bool {
        self.keepalive.is_lost()
    }

    /// Completes when the party is known to be [lost](DoubleBarrierGuard::is_lost).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) {
        self.keepalive.lost().await;
    }

    /// Leaves, and waits until all parties have left. The wait is unlimited unless
    /// [`Leave::timeout`] is set.
    ///
    /// # Errors
    ///
    /// [`BarrierError`]. After an error this party has left, at the latest when its lease ends.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the call: this party leaves.
    pub fn leave(self) -> Leave {
        Leave { guard: self, timeout: None }
    }
}

/// A future that leaves a double barrier, created by [`DoubleBarrierGuard::leave`].
#[must_use = "does nothing until awaited"]
#[derive(Debug)]
pub struct Leave {
    guard: DoubleBarrierGuard,
    timeout: Option<Duration>,
}

impl Leave {
    /// Limits the wait; it is unlimited by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<(), BarrierError> {
        let DoubleBarrierGuard { keepalive, participant, handle, session } = self.guard;
        drop(keepalive);
        let options = handle.wait_options(self.timeout);
        let left = handle.poll_until(
            options,
            || leave_request(&handle, &participant, session, false),
            |reply| {
                // This party has left; the wait is for the others.
                participant.disarm();
                Ok::<_, BarrierError>(if reply == [1] {
                    PollOutcome::Done(())
                } else {
                    PollOutcome::Wait(reply.get(1).copied().unwrap_or(-1))
                })
            },
        );
        left.await
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// That of [`DoubleBarrierGuard::leave`].
    Leave => Result<(), BarrierError>,
    |this| this.run()
);

fn keys(handle: &SyncHandle) -> [Bytes; 3] {
    [handle.key.clone(), handle.companion_key("waiting"), handle.companion_key("inside")]
}

/// Returns the request that leaves the barrier. With `only_outside`, it does nothing if the party
/// is inside.
fn leave_request(handle: &SyncHandle, participant: &Participant, session: i64, only_outside: bool) -> Request {
    let request = LEAVE.with(keys(handle)).arg(participant.id()).arg(participant.generation().to_string()).int(session);
    request.int(handle.lease()).publish_arg().arg(handle.channel.clone()).int(only_outside.into()).idempotent()
}

fn parse_enter_reply(handle: &SyncHandle, ours: u32, reply: &[i64]) -> Result<PollOutcome<i64>, BarrierError> {
    match *reply {
        [1, session] => Ok(PollOutcome::Done(session)),
        [0, lease_left] => Ok(PollOutcome::Wait(lease_left)),
        [-3, theirs] => {
            let theirs = u32::try_from(theirs).unwrap_or_default();
            Err(BarrierError::PartiesDiffer { name: handle.name.clone(), ours, theirs })
        }
        [-2] => Err(shut_down_error(handle).into()),
        _ => Ok(PollOutcome::Late),
    }
}
