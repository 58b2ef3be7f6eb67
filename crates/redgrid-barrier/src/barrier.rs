//! A barrier: each party waits until all parties have arrived.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::into_future;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Failure, Participant, Request, Script};

use crate::error::{BarrierError, WaitError};
use crate::handle::{PollOutcome, SyncHandle, object, script};
use crate::reannounce::Reannouncer;

static ARRIVE: Script<2> = Script::new("barrier/arrive", script!("barrier_arrive"));
static LEAVE: Script<2> = Script::new("barrier/leave", script!("barrier_leave"));
static REANNOUNCE: Script<2> = Script::new("barrier/reannounce", script!("barrier_reannounce"));

/// How long this process announces an opened round: 9 minutes.
///
/// The server stores a round for 10 minutes (`RETENTION` in participants.lua). A round that the
/// server has expired as intended must not be mistaken for one that a failover lost.
const ROUND_MEMORY: Duration = Duration::from_secs(9 * 60);

/// A barrier for a number of parties, in whichever processes they run: each party waits until all
/// have arrived.
///
/// It is reusable at once: a party that arrives after the opening waits for the next round.
///
/// A party is a current waiter. One that times out, is dropped or dies no longer counts, so the
/// barrier opens only when enough *live* parties wait at the same time.
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
    handle: Result<SyncHandle, InvalidName>,
    parties: u32,
    rounds: Arc<Rounds>,
}

/// The state of a barrier's rounds that all handles of this client share.
#[derive(Debug, Default)]
struct Rounds {
    last: Mutex<OpenedRound>,
    reannouncer: Reannouncer,
}

/// The last opened round, and when the request was sent whose reply reported that round.
#[derive(Clone, Copy, Debug, Default)]
struct OpenedRound {
    round: u64,
    requested: Instant,
}

impl OpenedRound {
    /// Returns the round while the server certainly stores it; 0 after that.
    fn round_at(self, now: Instant) -> u64 {
        if now.since(self.requested) < ROUND_MEMORY { self.round } else { 0 }
    }

    /// Returns the round that is current after another one was reported.
    ///
    /// A lower number replaces this round only if this one is too old: then the name has expired on
    /// the server, and its rounds have begun anew.
    fn updated(self, reported: OpenedRound, now: Instant) -> OpenedRound {
        if reported.round >= self.round_at(now) { reported } else { self }
    }
}

impl Rounds {
    fn last(&self) -> MutexGuard<'_, OpenedRound> {
        self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn record(&self, opened: OpenedRound, now: Instant) {
        let mut last = self.last();
        *last = last.updated(opened, now);
    }
}

impl Barrier {
    /// Returns the barrier with this name, which opens when this number of parties wait. No request
    /// is sent.
    ///
    /// All users of the barrier must give the same number.
    pub fn new(client: &Client, name: impl AsRef<str>, parties: u32) -> Self {
        let handle = SyncHandle::new(client, "barrier", name);
        let rounds = handle.as_ref().map(|handle| client.shared(&handle.key, Rounds::default)).unwrap_or_default();
        Barrier { handle, parties, rounds }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, renaming, events. It covers all
    /// keys of the object.
    ///
    /// Its operations ignore waiters. After a deletion, a new round begins, and the waiters count
    /// again after their next poll. After a rename, the same is true of the old name.
    pub fn object(&self) -> Object {
        object(&self.handle, layouts::barrier)
    }

    /// Returns the number of parties that open the barrier.
    #[doc(alias = "getParties")]
    pub fn parties(&self) -> u32 {
        self.parties
    }

    /// Waits until all parties have arrived. The wait is unlimited unless [`BarrierWait::timeout`]
    /// is set.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn demo(barrier: redgrid_barrier::Barrier) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_barrier::BarrierError;
    ///
    /// match barrier.wait().timeout(Duration::from_secs(30)).await {
    ///     Ok(result) => println!("round {}", result.generation()),
    ///     Err(BarrierError::TimedOut { .. }) => println!("a party is missing"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`BarrierError`]. After an error this party is removed, at the latest when its lease ends.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, this party is removed in the background, at the latest when its
    /// lease ends (30 s unless configured). The barrier may have opened with this party just
    /// before.
    #[doc(alias = "await")]
    pub fn wait(&self) -> BarrierWait {
        BarrierWait { barrier: self.clone(), timeout: None }
    }
}

/// A future that waits at a barrier, created by [`Barrier::wait`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct BarrierWait {
    barrier: Barrier,
    timeout: Option<Duration>,
}

impl BarrierWait {
    /// Limits the wait; it is unlimited by default.
    ///
    /// If the barrier opens with this party at the last moment, the wait succeeds and does not time
    /// out.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<BarrierWaitResult, BarrierError> {
        let Barrier { handle, parties, rounds } = self.barrier;
        let handle = handle?;
        if parties == 0 {
            return Err(Failure::invalid_argument(&handle.name, "parties", "at least 1", 0).into());
        }
        let options = handle.wait_options(self.timeout);
        let participant = handle.client.participant(&handle.key);
        participant.arm(leave_request(&handle, &participant));
        // When the last request was sent. The server stored the round in the reply at that time or
        // later.
        let (clock, requested) = (handle.client.clock(), AtomicU64::new(0));
        let mark_requested = || {
            let now = clock.now();
            requested.store(now.as_nanos(), Ordering::Relaxed);
            now
        };
        let poll_request = || {
            let request = ARRIVE
                .with(keys(&handle))
                .deadline_arg()
                .arg(participant.id())
                .arg(participant.generation().to_string());
            let request = request.int(parties.into()).int(handle.lease());
            let seen = rounds.last().round_at(mark_requested());
            request.arg(seen.to_string()).publish_arg().arg(handle.channel.clone()).idempotent()
        };
        let result =
            handle.poll_until(options, poll_request, |reply| parse_arrive_reply(&handle, parties, &reply)).await;
        let result = match result {
            Err(BarrierError::TimedOut { name, waited }) => {
                mark_requested();
                let leave_reply = handle.run_briefly::<Vec<i64>>(leave_request(&handle, &participant)).await;
                leave_reply.and_then(|reply| parse_opened(&reply)).ok_or(BarrierError::TimedOut { name, waited })
            }
            other => other,
        }?;
        participant.disarm();
        let opened =
            OpenedRound { round: result.generation, requested: Instant::from_nanos(requested.load(Ordering::Relaxed)) };
        rounds.record(opened, clock.now());
        let (keys, channel) = (keys(&handle), handle.channel.clone());
        rounds.reannouncer.start(&handle, &rounds, move |rounds| {
            let request = REANNOUNCE.with(keys.clone()).arg(rounds.last().round.to_string());
            request.publish_arg().arg(channel.clone()).idempotent()
        });
        Ok(result)
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// That of [`Barrier::wait`].
    BarrierWait => Result<BarrierWaitResult, BarrierError>,
    |this| this.run()
);

/// The result of a wait at a barrier that has opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarrierWaitResult {
    generation: u64,
    is_leader: bool,
}

impl BarrierWaitResult {
    /// Returns whether this party arrived last. This is true for one party of each round.
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// Returns the number of the round, from 1. It is the same for all parties of the round.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

fn keys(handle: &SyncHandle) -> [Bytes; 2] {
    [handle.key.clone(), handle.companion_key("waiting")]
}

fn leave_request(handle: &SyncHandle, participant: &Participant) -> Request {
    LEAVE.with(keys(handle)).arg(participant.id()).arg(participant.generation().to_string()).idempotent()
}

fn parse_opened(reply: &[i64]) -> Option<BarrierWaitResult> {
    match *reply {
        [1, round, leader] => Some(BarrierWaitResult { generation: round.unsigned_abs(), is_leader: leader == 1 }),
        _ => None,
    }
}

fn parse_arrive_reply(
    handle: &SyncHandle,
    ours: u32,
    reply: &[i64],
) -> Result<PollOutcome<BarrierWaitResult>, BarrierError> {
    match *reply {
        [0, ..] => Ok(PollOutcome::Wait(-1)),
        [-3, theirs] => {
            let theirs = u32::try_from(theirs).unwrap_or_default();
            Err(BarrierError::PartiesDiffer { name: handle.name.clone(), ours, theirs })
        }
        [-2] => Err(shut_down_error(handle).into()),
        _ => Ok(parse_opened(reply).map_or(PollOutcome::Late, PollOutcome::Done)),
    }
}

/// Returns the error for the reply that this participant has left: a shutdown has sent the leave
/// request.
pub(crate) fn shut_down_error(handle: &SyncHandle) -> WaitError {
    WaitError::Failed(crate::error::shutting_down(&handle.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_expires_before_the_server_forgets_it() {
        let requested = Instant::from_nanos(1) + Duration::from_secs(3600);
        let opened = OpenedRound { round: 5, requested };
        assert_eq!(opened.round_at(requested + Duration::from_secs(8 * 60)), 5);
        assert_eq!(opened.round_at(requested + ROUND_MEMORY), 0);
        let soon = requested + Duration::from_secs(1);
        assert_eq!(
            opened.updated(OpenedRound { round: 4, requested: soon }, soon).round,
            5,
            "a reply that arrived late"
        );
        assert_eq!(opened.updated(OpenedRound { round: 6, requested: soon }, soon).round, 6);
        let late = requested + 2 * ROUND_MEMORY;
        assert_eq!(opened.updated(OpenedRound { round: 1, requested: late }, late).round, 1, "the name has begun anew");
    }
}
