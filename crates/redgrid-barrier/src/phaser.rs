//! A phaser: a sequence of phases; each begins when all parties have arrived at the end of the
//! previous one.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::into_future;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Failure, IdempotentScript, Name, Script};

use crate::error::WaitError;
use crate::handle::{PollOutcome, SyncHandle, exactly_once_script, object, script};
use crate::party::{Party, PartyState, arrive_request};

static REGISTER: Script<3> = Script::new("phaser/register", script!("phaser", "phaser_register"));
pub(crate) static ARRIVE: Script<3> = Script::new("phaser/arrive", script!("phaser", "phaser_arrive"));
pub(crate) static KEEPALIVE: Script<3> = Script::new("phaser/keepalive", script!("phaser", "phaser_keepalive"));
static STATE: Script<3> = Script::new("phaser/state", script!("phaser", "phaser_state"));
static END: IdempotentScript<3> = IdempotentScript::new("phaser/end", exactly_once_script!("phaser", "phaser_end"));

/// The maximum number of parties of one `bulk_register`: 1,000, for which the script takes a few
/// milliseconds.
const MAX_BULK_REGISTER: usize = 1000;

/// Work in phases by a changing set of parties, in whichever processes they run: the next phase
/// begins when all registered parties have arrived.
///
/// It is like java.util.concurrent's `Phaser`, except that a party is a value of its own, which
/// arrives once in a phase.
///
/// A phaser ends when its last party has deregistered or died, or by
/// [`terminate`](Phaser::terminate). Use a new name for each run if possible: the state of an ended
/// phaser expires after 10 minutes, or is deleted by [`reset`](Phaser::reset).
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
    handle: Result<SyncHandle, InvalidName>,
}

/// The state of a phaser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhaserState {
    /// The current phase, from 0; the last phase if the phaser has ended.
    pub phase: u64,
    /// Whether the phaser has ended.
    pub is_terminated: bool,
    /// The number of registered parties.
    pub registered: u64,
    /// The number of parties that have arrived at the current phase.
    pub arrived: u64,
}

impl PhaserState {
    /// Returns the number of parties that have not arrived at the current phase.
    pub fn unarrived(&self) -> u64 {
        self.registered.saturating_sub(self.arrived)
    }
}

impl Phaser {
    /// Returns the phaser with this name. No request is sent.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Phaser { handle: SyncHandle::new(client, "phaser", name) }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, renaming, events. It covers all
    /// keys of the object.
    ///
    /// Its operations ignore the parties. After a deletion, the parties register again with their
    /// next request, at the latest phase that they have seen. If a new party registers before that,
    /// a new run begins, and the phaser has ended for the others. After a rename, the same is true
    /// of the old name.
    pub fn object(&self) -> Object {
        object(&self.handle, layouts::phaser)
    }

    /// Registers a party. The current phase waits for it from now on.
    ///
    /// # Errors
    ///
    /// [`PhaserError`].
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future or an error, the registration is undone in the background, at the
    /// latest when its lease ends. A phaser without any other registration has neither begun nor
    /// ended then.
    pub async fn register(&self) -> Result<Party, PhaserError> {
        let handle = self.handle()?;
        let registered = register(handle, 1).await?.pop();
        registered.ok_or_else(|| invalid_parties(handle, 0))
    }

    /// Registers 1 to 1,000 parties in one request: no phase ends before all of them have arrived.
    ///
    /// # Errors
    ///
    /// [`PhaserError`].
    ///
    /// # Cancel safety
    ///
    /// That of [`Phaser::register`].
    pub async fn bulk_register(&self, parties: usize) -> Result<Vec<Party>, PhaserError> {
        register(self.handle()?, parties).await
    }

    /// Waits until `phase` has ended, and resolves to the current phase; at once if it has ended
    /// already.
    ///
    /// The wait is unlimited unless [`WaitAdvance::timeout`] is set. It needs no registered party.
    ///
    /// # Errors
    ///
    /// [`PhaserError`]; [`Terminated`](PhaserError::Terminated) if the phaser ended in this phase
    /// or an earlier one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    #[doc(alias = "awaitAdvance")]
    pub fn wait_advance(&self, phase: u64) -> WaitAdvance {
        WaitAdvance { phaser: self.clone(), phase, timeout: None }
    }

    /// Returns the current phase, from 0; the last phase if the phaser has ended.
    ///
    /// # Errors
    ///
    /// [`PhaserError`] if the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn phase(&self) -> Result<u64, PhaserError> {
        Ok(self.state().await?.phase)
    }

    /// Returns the state of the phaser: phase, parties, arrivals.
    ///
    /// # Errors
    ///
    /// [`PhaserError`] if the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn state(&self) -> Result<PhaserState, PhaserError> {
        let handle = self.handle()?;
        let reply = handle.run::<Vec<i64>>(state_request(handle)).await?;
        let field = |index: usize| reply.get(index).copied().unwrap_or_default().unsigned_abs();
        Ok(PhaserState { phase: field(0), is_terminated: field(1) == 1, registered: field(2), arrived: field(3) })
    }

    /// Ends the phaser for all parties, and returns whether it had not ended before.
    ///
    /// Waiters are notified, and registrations and arrivals fail from then on. The call is executed
    /// exactly once, even if replies are lost.
    ///
    /// # Errors
    ///
    /// [`PhaserError`] if the request failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the phaser may or may not have ended.
    #[doc(alias = "forceTermination")]
    pub async fn terminate(&self) -> Result<bool, PhaserError> {
        self.end(false).await
    }

    /// Deletes a phaser that has ended, so that its name begins anew at phase 0. Returns whether it
    /// had ended.
    ///
    /// Remaining parties take no part in the new run: for them the phaser has ended. The call is
    /// executed exactly once, even if replies are lost.
    ///
    /// # Errors
    ///
    /// [`PhaserError`] if the request failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the phaser may or may not be deleted.
    pub async fn reset(&self) -> Result<bool, PhaserError> {
        self.end(true).await
    }

    async fn end(&self, delete: bool) -> Result<bool, PhaserError> {
        let handle = self.handle()?;
        let request = END.with(keys(handle)).int(delete.into()).publish_arg().arg(handle.channel.clone());
        Ok(handle.run_exactly_once::<Vec<i64>>(request).await? == [1])
    }

    fn handle(&self) -> Result<&SyncHandle, PhaserError> {
        self.handle.as_ref().map_err(|invalid| Failure::from(invalid.clone()).into())
    }
}

fn invalid_parties(handle: &SyncHandle, got: usize) -> PhaserError {
    Failure::invalid_argument(&handle.name, "parties", "1 to 1000", got).into()
}

async fn register(handle: &SyncHandle, parties: usize) -> Result<Vec<Party>, PhaserError> {
    if !(1..=MAX_BULK_REGISTER).contains(&parties) {
        return Err(invalid_parties(handle, parties));
    }
    let participants: Vec<_> = (0..parties).map(|_| handle.client.participant(&handle.key)).collect();
    for participant in &participants {
        participant.arm(arrive_request(handle, participant, PartyState::UNCONFIRMED, 0, true));
    }
    loop {
        let request = REGISTER.with(keys(handle)).deadline_arg().int(handle.lease()).publish_arg();
        let request = participants.iter().fold(request.arg(handle.channel.clone()), |request, participant| {
            request.arg(participant.id()).arg(participant.generation().to_string())
        });
        match *handle.run::<Vec<i64>>(request.idempotent()).await? {
            [1, phase, run] => {
                return Ok(participants
                    .into_iter()
                    .map(|participant| Party::new(handle, participant, phase, run))
                    .collect());
            }
            [-4, phase] => {
                return Err(PhaserError::Terminated { name: handle.name.clone(), phase: phase.unsigned_abs() });
            }
            _ => {}
        }
    }
}

/// A future that waits for the end of a phase, created by [`Phaser::wait_advance`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct WaitAdvance {
    phaser: Phaser,
    phase: u64,
    timeout: Option<Duration>,
}

impl WaitAdvance {
    /// Limits the wait; it is unlimited by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<u64, PhaserError> {
        let handle = self.phaser.handle()?;
        let phase = i64::try_from(self.phase).unwrap_or(i64::MAX);
        let parse = |reply: Vec<i64>| match *reply {
            [current, ended, _, _, lease_left] => phase_outcome(handle, phase, (current, ended == 1, lease_left)),
            _ => Ok(PollOutcome::Late),
        };
        handle.poll_until(handle.wait_options(self.timeout).without_key(), || state_request(handle), parse).await
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// That of [`Phaser::wait_advance`].
    WaitAdvance => Result<u64, PhaserError>,
    |this| this.run()
);

/// Returns whether a wait for the end of `phase` is done, given the state of the phaser.
pub(crate) fn phase_outcome(
    handle: &SyncHandle,
    phase: i64,
    (current, ended, lease_left): (i64, bool, i64),
) -> Result<PollOutcome<u64>, PhaserError> {
    if current > phase {
        Ok(PollOutcome::Done(current.unsigned_abs()))
    } else if ended {
        Err(PhaserError::Terminated { name: handle.name.clone(), phase: current.unsigned_abs() })
    } else {
        Ok(PollOutcome::Wait(lease_left))
    }
}

pub(crate) fn keys(handle: &SyncHandle) -> [Bytes; 3] {
    [handle.key.clone(), handle.companion_key("parties"), handle.companion_key("arrived")]
}

fn state_request(handle: &SyncHandle) -> redgrid_core::Request {
    STATE.with(keys(handle)).publish_arg().arg(handle.channel.clone()).idempotent()
}

/// The error of a phaser operation.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PhaserError {
    /// The timeout passed before the phase ended.
    #[error("not all parties arrived at the phaser `{name}` within {waited:?}")]
    TimedOut {
        /// The phaser.
        name: Name,
        /// How long the wait lasted.
        waited: Duration,
    },
    /// The phaser has ended: no party is left, or it was terminated.
    ///
    /// A party of an earlier run that was [`reset`](Phaser::reset) receives this error, too.
    #[error("the phaser `{name}` ended in phase {phase}")]
    Terminated {
        /// The phaser.
        name: Name,
        /// The last phase, as far as known.
        phase: u64,
    },
    /// This party has already arrived at the current phase; others have not.
    #[error("this party has already arrived at phase {phase} of the phaser `{name}`")]
    AlreadyArrived {
        /// The phaser.
        name: Name,
        /// The current phase.
        phase: u64,
    },
    /// A request failed, or the number of parties is outside of 1 to 1,000:
    /// [`Failure::InvalidArgument`].
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<WaitError> for PhaserError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut { name, waited } => PhaserError::TimedOut { name, waited },
            WaitError::Failed(error) => PhaserError::Failed(error),
        }
    }
}
