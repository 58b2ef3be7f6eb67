//! A request for permits under way, as its caller sees it, and the guard of those that were granted.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

use super::error::{AcquireError, ReleaseError};
use super::exchange::Source;
use super::pool::{Answer, Ask, Failure, Granted, Pool};
use super::queue::{Extension, Seen};
use super::stock::{PermitId, Stock};
use crate::clock::Instant;
use crate::config::{LONGEST_LEASE, SHORTEST_LEASE};
use crate::connection::{Client, Progress};
use crate::error::ServerError;
use crate::lock::{ExtendError, GRACE, InlineTask, LeaseMode, LostReason, deadline};
use crate::name::Name;
use crate::observe::{About, Observed};

/// A request under way. Dropping it leaves the queue; what was granted meanwhile is given back.
pub struct Ticket {
    client: Client,
    pool: Arc<Pool>,
    ask: Ask,
    id: u64,
    entered: Instant,
    until: Instant,
    seen: Arc<Seen>,
    receiver: oneshot::Receiver<Answer>,
    flight: Option<InlineTask>,
    done: bool,
}

impl Client {
    /// Asks for permits: the way of every semaphore.
    pub fn permits(&self, source: &Arc<Source>, ask: Ask) -> Ticket {
        let entered = self.clock().now();
        let until = ask.wait.map_or(Instant::MAX, |wait| entered + wait);
        let seen = Arc::default();
        let (pool, receiver, id, flight) = self.pools().enter(self, source, ask.clone(), until, &seen);
        Ticket { client: self.clone(), pool, ask, id, entered, until, seen, receiver, flight, done: false }
    }
}

impl Ticket {
    /// Waits for the outcome: the permits, or `None` where the request was for one look and there were too few.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it gives up the place in the queue; what the server had granted goes back in the background.
    pub fn outcome(self) -> impl Future<Output = Result<Option<Permit>, AcquireError>> + Send + use<> {
        let source = Arc::clone(&self.pool.source);
        let about = About { kind: source.kind(), name: &source.name };
        let observed = Observed::acquire(about, self.client.clock(), self.entered);
        observed.around(self.come())
    }

    async fn come(mut self) -> Result<Option<Permit>, AcquireError> {
        let patience = match self.ask.wait {
            // Who set a bound waits up to it, without contact too.
            Some(_) => Duration::MAX,
            None => self.client.patience() + self.ask.durability.timeout() + GRACE,
        };
        // One look is not worth waiting for a server as long as a call may.
        let mut looks = self.ask.once && !self.client.core().is_connected(&self.pool.source.key);
        let shortest = self.client.response_timeout() + GRACE;
        let mut contact = self.entered;
        let answer = loop {
            let patience = if looks { patience.min(shortest) } else { patience };
            let wake = self.until.min(contact + patience);
            let clock = self.client.clock().clone();
            tokio::select! {
                biased;
                answer = poll_fn(|cx| self.poll_answer(cx)) => break answer,
                () = clock.wait_until(wake) => {
                    if let Ok(answer) = self.receiver.try_recv() {
                        break Some(answer);
                    }
                    let now = clock.now();
                    contact = contact.max(self.contact());
                    if looks && self.seen.sent_since().is_some() {
                        looks = false;
                        continue;
                    }
                    if now >= self.until || now >= contact + patience {
                        return Err(self.out_of_time(now));
                    }
                }
            }
        };
        self.done = true;
        match self.answered(answer) {
            Some(outcome) => outcome,
            None => Box::pin(self.ask_again()).await,
        }
    }

    /// Enters the queue again: the permits were not taken in time and went to others.
    async fn ask_again(&self) -> Result<Option<Permit>, AcquireError> {
        let now = self.client.clock().now();
        if now >= self.until {
            return Err(self.out_of_time(now));
        }
        let wait = self.ask.wait.map(|_| self.until.since(now));
        let mut again = self.client.permits(&self.pool.source, Ask { wait, ..self.ask.clone() });
        again.entered = self.entered;
        again.come().await
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        if let Some(flight) = &self.flight
            && flight.poll(cx)
        {
            // Not registered with the receiver: an answer from its own exchange would wake the task that just polls it.
            return match self.receiver.try_recv() {
                Ok(answer) => Poll::Ready(Some(answer)),
                Err(oneshot::error::TryRecvError::Empty) => Poll::Pending,
                Err(oneshot::error::TryRecvError::Closed) => Poll::Ready(None),
            };
        }
        Pin::new(&mut self.receiver).poll(cx).map(Result::ok)
    }

    /// The outcome that an answer means; `None` if the permits were not taken in time.
    fn answered(&self, answer: Option<Answer>) -> Option<Result<Option<Permit>, AcquireError>> {
        let name = || self.pool.source.name.clone();
        let now = self.client.clock().now();
        Some(match answer {
            Some(Ok(Granted::Nothing)) => Ok(None),
            Some(Ok(Granted::Offered)) => Ok(Some(self.seen.take()?)),
            // Taken out of the queue when its time was over.
            None if now >= self.until => Err(self.out_of_time(now)),
            None | Some(Err(Failure::ShuttingDown)) => Err(match self.client.ended() {
                ServerError::ShuttingDown => AcquireError::ShuttingDown { name: name() },
                source => AcquireError::Unavailable { name: name(), source },
            }),
            Some(Err(Failure::Unauthorized(source))) => Err(AcquireError::Unauthorized { name: name(), source }),
            Some(Err(Failure::NotInitialised)) => Err(AcquireError::NotInitialised { name: name() }),
            Some(Err(Failure::Unknown(source))) => Err(AcquireError::OutcomeUnknown { name: name(), source }),
            Some(Err(Failure::Refused(source))) => {
                Err(AcquireError::Refused { name: name(), source: source.of_object() })
            }
            Some(Err(Failure::NotDurable(source))) => Err(AcquireError::NotDurable { name: name(), source }),
        })
    }

    fn out_of_time(&self, now: Instant) -> AcquireError {
        let name = self.pool.source.name.clone();
        let (contact, timeout) = (self.contact(), self.client.core().settings.response_timeout);
        // After a loss of contact that is longer than the response timeout, the server counts as
        // unavailable.
        let told = now >= self.until && contact > self.entered && now.since(contact) <= timeout;
        // What a look takes that is under way goes back. Only one that is not answered in time leaves doubts.
        let doubtful = |since| !told || now.since(since) > timeout;
        if self.seen.sent_since().is_some_and(doubtful) {
            let source = ServerError::unknown("the time ran out before an answer came");
            AcquireError::OutcomeUnknown { name, source }
        } else if told {
            AcquireError::TimedOut { name, waited: now.since(self.entered) }
        } else {
            match self.client.core().no_contact(&self.pool.source.key) {
                source @ ServerError::Unauthorized { .. } => AcquireError::Unauthorized { name, source },
                source => AcquireError::Unavailable { name, source },
            }
        }
    }

    fn contact(&self) -> Instant {
        self.pool.contact(&self.pool.state())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.done {
            // What is offered from now on finds that nobody waits; what was offered goes back.
            self.receiver.close();
            drop(self.seen.take());
            self.pool.leave(self.id);
        }
        if let Some(work) = self.flight.take().and_then(|flight| flight.take()) {
            self.pool.pools.hand_over(work);
        }
    }
}

/// Permits that are held: one or many. Dropping it gives them back in the background.
///
/// Permits with a lease are renewed while this lives, unless a fixed lease was asked for; [`Permit::lost`] tells the moment
/// one of them is no longer certain. Those without a lease are held until they are given back: a process that dies keeps
/// them for ever.
#[must_use = "dropping the permit gives it back"]
pub struct Permit {
    client: Client,
    pool: Arc<Pool>,
    stock: Stock,
}

impl Permit {
    /// Counted by the caller.
    pub(super) fn new(client: Client, pool: Arc<Pool>, stock: Stock) -> Self {
        Permit { client, pool, stock }
    }

    /// What it had, left to whoever calls this.
    pub(super) fn disarm(mut self) -> Stock {
        std::mem::take(&mut self.stock)
    }

    /// The semaphore.
    pub fn name(&self) -> &Name {
        &self.pool.source.name
    }

    /// How many permits it holds.
    pub fn num_permits(&self) -> u64 {
        self.stock.n
    }

    /// The ids of its permits, where they have leases.
    pub fn ids(&self) -> impl Iterator<Item = PermitId> + '_ {
        self.stock.leased.iter().map(|leased| leased.id)
    }

    /// Whether all of them may be believed at this instant, by our own clock. Always, where they have no lease.
    pub fn is_held(&self) -> bool {
        self.stock.lost().is_none()
    }

    /// How the first of them ended without us, if one did.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.stock.lost()
    }

    /// How long they may be believed without a further confirmation; `None` where they have no lease.
    pub fn remaining(&self) -> Option<Duration> {
        if self.stock.leased.is_empty() {
            return None;
        }
        let left = self.stock.deadline().since(self.client.clock().now());
        Some(if self.is_held() { left } else { Duration::ZERO })
    }

    /// Completes when one of them is no longer certain. Never, where they have no lease.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn lost(&self) -> LostReason {
        loop {
            let mut told = pin!(self.pool.lost.notified());
            told.as_mut().enable();
            if let Some(reason) = self.stock.lost() {
                return reason;
            }
            tokio::select! {
                () = told => {}
                () = self.client.clock().sleep_until(self.stock.deadline()) => {}
            }
        }
    }

    /// Gives them back and waits for the answer, for `response_timeout` at most. The release goes on in the
    /// background after that, and if this is dropped.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when one of them had ended before. Where no answer comes in time it
    /// is [`ReleaseError::OutcomeUnknown`].
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the release goes on in the background.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        if self.stock.is_empty() {
            return Ok(());
        }
        let (pool, stock) = (Arc::clone(&self.pool), std::mem::take(&mut self.stock));
        let (audience, mut told) = oneshot::channel();
        let flight = pool.give_back(stock, Some(audience)).by_caller(&pool.pools);
        let landing = Landing(flight, &pool);
        let mut outcome = poll_fn(|cx| match &landing.0 {
            Some(flight) if flight.poll(cx) => match told.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => Poll::Pending,
                told => Poll::Ready(told.ok()),
            },
            _ => Pin::new(&mut told).poll(cx).map(Result::ok),
        });
        let unknown = |source| Err(ReleaseError::OutcomeUnknown { name: pool.source.name.clone(), source });
        let clock = self.client.clock();
        tokio::select! {
            biased;
            told = &mut outcome => {
                told.unwrap_or_else(|| unknown(self.client.ended()))
            }
            () = clock.sleep_until(clock.now() + self.client.response_timeout() + GRACE) => {
                unknown(ServerError::unknown("no answer came in time; the release goes on"))
            }
        }
    }

    /// Sets the leases to `lease` from now on: 100 ms to 30 days. Shorter ones than are renewed change nothing: what is
    /// renewed is not shortened, it is released.
    ///
    /// # Errors
    ///
    /// [`ExtendError`] says what may be believed then; permits without a lease have none to extend.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it is not sent if it has not left; else the new lease may or may not be in force, and of the two ends the
    /// earlier one is believed.
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        let name = || self.name().clone();
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
            return Err(ExtendError::InvalidArgument { name: name(), expected: "100 ms to 30 days", got: lease });
        }
        if self.stock.leased.is_empty() {
            let source = ServerError::not_sent("these permits have no lease");
            return Err(ExtendError::NotExtended { name: name(), source });
        }
        if let Some(reason) = self.stock.lost() {
            return Err(ExtendError::Lost { name: name(), reason });
        }
        let now = self.client.clock().now();
        let renewed = self.stock.leased.iter().all(|leased| leased.is_renewed());
        if renewed && deadline(now, lease) < self.stock.deadline() {
            return Ok(());
        }
        // It has its turn among what the pool says: later ones are not overtaken by earlier ones.
        let (audience, told) = oneshot::channel();
        let leased = self.stock.leased.clone();
        let asked = Asked(Arc::default());
        let lease = if renewed { LeaseMode::Renewed(lease) } else { LeaseMode::Fixed(lease) };
        let extension = Extension { leased, lease, audience, progress: Arc::clone(&asked.0) };
        self.pool.extend(extension).by_task(&self.pool.pools);
        let durability = self.stock.leased.iter().map(|leased| leased.durability.timeout()).max().unwrap_or_default();
        tokio::select! {
            biased;
            told = told => told.unwrap_or_else(|_| Err(match self.stock.lost() {
                Some(reason) => ExtendError::Lost { name: name(), reason },
                None => ExtendError::of(name(), self.client.ended()),
            })),
            () = self.client.clock().sleep_until(now + self.client.patience() + durability + GRACE) => {
                let source = match asked.0.abandon() {
                    true => self.client.core().no_contact(&self.pool.source.key),
                    false => ServerError::unknown("no answer came in time"),
                };
                Err(ExtendError::of(name(), source))
            }
        }
    }

    /// Takes `permits` of them out, into a guard of their own; `None` where it has fewer. With all of them this one is left
    /// with none.
    pub fn split(&mut self, permits: u64) -> Option<Permit> {
        let some = (permits <= self.stock.n).then(|| self.stock.split(permits))?;
        Some(Permit::new(self.client.clone(), Arc::clone(&self.pool), some))
    }

    /// Takes those of `other` in.
    ///
    /// # Errors
    ///
    /// `other` itself, where it is of another semaphore, or client.
    pub fn merge(&mut self, mut other: Permit) -> Result<(), Permit> {
        if !Arc::ptr_eq(&self.pool, &other.pool) {
            // A guard without permits does not keep its pool: the semaphore may have another one by now.
            let (ours, theirs) = (&self.pool.source, &other.pool.source);
            let is_same = (&ours.key, ours.leased, ours.fair) == (&theirs.key, theirs.leased, theirs.fair);
            let has_none = self.stock.is_empty() || other.stock.is_empty();
            if !(is_same && has_none && self.client.id() == other.client.id()) {
                return Err(other);
            }
            if self.stock.is_empty() {
                self.pool = Arc::clone(&other.pool);
            }
        }
        self.stock.merge(std::mem::take(&mut other.stock));
        Ok(())
    }

    /// Leaves them as they are: those with a lease come back when it ends, others never.
    pub fn forget(mut self) {
        self.pool.forget(&std::mem::take(&mut self.stock));
    }
}

/// Somebody waits for an extension. Dropped, it is given up if it has not left.
struct Asked(Arc<Progress>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// A release that its caller polls; dropped early, a task goes on with it.
struct Landing<'a>(Option<InlineTask>, &'a Pool);

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take().and_then(|flight| flight.take()) {
            self.1.pools.hand_over(work);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let stock = std::mem::take(&mut self.stock);
        if !stock.is_empty() {
            self.pool.give_back(stock, None).by_task(&self.pool.pools);
        }
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Permit");
        shown.field("name", self.name()).field("permits", &self.stock.n).field("held", &self.is_held());
        shown.finish_non_exhaustive()
    }
}
