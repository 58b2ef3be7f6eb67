//! A registered party of a phaser.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redgrid_core::{Participant, Request};

use crate::handle::{PollOutcome, SyncHandle};
use crate::keepalive::Keepalive;
use crate::phaser::{ARRIVE, KEEPALIVE, PhaserError, keys, phase_outcome};

/// A registered party of a [`Phaser`](crate::Phaser): every phase waits for its arrival.
///
/// Its lease is renewed while the value lives. Dropping it deregisters the party in the background.
///
/// The phaser does not wait for a party whose lease (30 s unless configured) could not be renewed.
/// When such a party has contact again, it takes part again, at the phase that the others have
/// reached by then. If it waits for the end of a phase meanwhile, it arrives at no other phase.
#[must_use = "dropping it deregisters the party"]
#[derive(Debug)]
pub struct Party {
    _keepalive: Keepalive,
    participant: Participant,
    handle: SyncHandle,
    progress: Arc<Progress>,
    run: i64,
}

/// The last phase at which the party arrived, and the latest phase that it saw.
#[derive(Debug)]
pub(crate) struct Progress {
    arrived: AtomicI64,
    seen: AtomicI64,
}

/// The state that a party sends: the run of the phaser in which it was registered, the last phase
/// at which it arrived, and the latest phase that it saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartyState {
    run: i64,
    arrived: i64,
    seen: i64,
}

impl PartyState {
    /// The state of a party whose registration is not confirmed.
    pub(crate) const UNCONFIRMED: PartyState = PartyState { run: 0, arrived: -1, seen: 0 };
}

/// The server's reply to an arrival.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    arrived: i64,
    phase: i64,
    ended: bool,
    lease_left: i64,
}

impl Party {
    pub(crate) fn new(handle: &SyncHandle, participant: Participant, phase: i64, run: i64) -> Party {
        // The wanted phase 0 precedes every phase of the party, so the request only deregisters.
        let state = PartyState { run, arrived: phase - 1, seen: phase };
        participant.arm(arrive_request(handle, &participant, state, 0, true));
        let progress = Arc::new(Progress { arrived: AtomicI64::new(phase - 1), seen: AtomicI64::new(phase) });
        let (id, generation, known) = (participant.id(), participant.generation(), Arc::clone(&progress));
        let keepalive = Keepalive::start(handle, move |handle| {
            let request = KEEPALIVE.with(keys(handle)).deadline_arg().arg(id.clone()).arg(generation.to_string());
            let request = request.int(known.arrived.load(Ordering::Acquire)).int(handle.lease());
            let request = request.int(known.seen.load(Ordering::Acquire));
            request.publish_arg().arg(handle.channel.clone()).int(run).idempotent()
        });
        Party { _keepalive: keepalive, participant, handle: handle.clone(), progress, run }
    }

    /// Arrives at the current phase without waiting, and returns the number of that phase.
    ///
    /// # Errors
    ///
    /// [`PhaserError`]; [`AlreadyArrived`](PhaserError::AlreadyArrived) if the phase waits only for
    /// other parties.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the party may or may not have arrived. The next call counts as the
    /// same arrival then.
    pub async fn arrive(&self) -> Result<u64, PhaserError> {
        let wanted = self.progress.arrived.load(Ordering::Acquire) + 1;
        loop {
            let reply = self.handle.run::<Vec<i64>>(self.arrive_request(wanted, false)).await?;
            if let Some(arrival) = self.parse_arrival(&reply)? {
                return Ok(arrival.arrived.unsigned_abs());
            }
        }
    }

    /// Arrives at the current phase and waits for all other parties; resolves to the next phase.
    ///
    /// The wait is unlimited unless [`Advance::timeout`] is set.
    ///
    /// # Errors
    ///
    /// [`PhaserError`]. The arrival stays valid after a timeout.
    ///
    /// # Cancel safety
    ///
    /// An arrival is not undone: if the future is dropped, the party may have arrived.
    /// [`Phaser::wait_advance`](crate::Phaser::wait_advance) continues the wait. Another call
    /// before the end of the phase returns [`AlreadyArrived`](PhaserError::AlreadyArrived). It
    /// counts as the same arrival if the first call received no reply.
    #[doc(alias = "arriveAndAwaitAdvance")]
    pub fn arrive_and_wait(&self) -> Advance<'_> {
        Advance { party: self, timeout: None }
    }

    /// Arrives at the current phase, deregisters the party, and returns the number of that phase.
    ///
    /// # Errors
    ///
    /// [`PhaserError`]. After an error the registration ends with its lease at the latest.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the party is deregistered in the background.
    pub async fn arrive_and_deregister(self) -> Result<u64, PhaserError> {
        let wanted = self.progress.arrived.load(Ordering::Acquire) + 1;
        loop {
            let reply = self.handle.run::<Vec<i64>>(self.arrive_request(wanted, true)).await?;
            if let Some(arrival) = self.parse_arrival(&reply)? {
                self.participant.disarm();
                return Ok(arrival.arrived.unsigned_abs());
            }
        }
    }

    fn arrive_request(&self, wanted: i64, deregister: bool) -> Request {
        let arrived = self.progress.arrived.load(Ordering::Acquire);
        let seen = self.progress.seen.load(Ordering::Acquire);
        let state = PartyState { run: self.run, arrived, seen };
        arrive_request(&self.handle, &self.participant, state, wanted, deregister)
    }

    /// Parses a reply and records the phases in it; `None` if the request was too late.
    fn parse_arrival(&self, reply: &[i64]) -> Result<Option<Arrival>, PhaserError> {
        let name = || self.handle.name.clone();
        match *reply {
            [1, arrived, phase, ended, lease_left] => {
                self.progress.arrived.fetch_max(arrived, Ordering::AcqRel);
                self.progress.seen.fetch_max(phase, Ordering::AcqRel);
                Ok(Some(Arrival { arrived, phase, ended: ended == 1, lease_left }))
            }
            [-4, phase] => Err(PhaserError::Terminated { name: name(), phase: phase.unsigned_abs() }),
            [-5, phase] => Err(PhaserError::AlreadyArrived { name: name(), phase: phase.unsigned_abs() }),
            [-2] => Err(PhaserError::Failed(crate::error::shutting_down(&self.handle.name))),
            _ => Ok(None),
        }
    }
}

/// A future that arrives and waits for the others, created by [`Party::arrive_and_wait`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Advance<'a> {
    party: &'a Party,
    timeout: Option<Duration>,
}

impl Advance<'_> {
    /// Limits the wait; it is unlimited by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<u64, PhaserError> {
        let Advance { party, timeout } = self;
        let options = party.handle.wait_options(timeout);
        let wanted = party.progress.arrived.load(Ordering::Acquire) + 1;
        let advanced = party.handle.poll_until(
            options,
            || party.arrive_request(wanted, false),
            |reply| {
                let Some(arrival) = party.parse_arrival(&reply)? else { return Ok(PollOutcome::Late) };
                phase_outcome(&party.handle, arrival.arrived, (arrival.phase, arrival.ended, arrival.lease_left))
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
    /// That of [`Party::arrive_and_wait`].
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Returns the request that arrives at phase `wanted` or a later one.
pub(crate) fn arrive_request(
    handle: &SyncHandle,
    participant: &Participant,
    state: PartyState,
    wanted: i64,
    deregister: bool,
) -> Request {
    let request = ARRIVE
        .with(keys(handle))
        .deadline_arg()
        .arg(participant.id())
        .arg(participant.generation().to_string())
        .int(wanted);
    let request = request.int(handle.lease()).int(state.seen).int(deregister.into());
    let request = request.publish_arg().arg(handle.channel.clone());
    request.int(state.arrived).int(state.run).idempotent()
}
