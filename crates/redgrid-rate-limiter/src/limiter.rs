//! A rate that all processes keep together, as a value.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Failure, LIFETIMES, LIFETIMES_EXPECTED, ServerError};

use crate::acquire::{Acquire, Taken, checked};
use crate::error::LimitError;
use crate::keys::Keys;
use crate::log::{Ends, Log, Mode};
use crate::queue::{Queue, Wait};
use crate::rate::Rate;

/// So many permits in any time of a length, over all processes that reach the same server, or for each client by itself. A sliding
/// log: no window of that length ever has more. Redisson's `RRateLimiter` on the wire.
///
/// Cheap to clone; clones are the same limiter. Making one asks nobody: an invalid name is told by the first call. A rate is to be
/// set once, by whoever comes first; until then every call ends [`RateNotSet`](LimitError::RateNotSet).
///
/// ```no_run
/// # async fn demo(client: &redgrid_rate_limiter::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redgrid_rate_limiter::{Rate, RateLimiter};
///
/// let mails = RateLimiter::new(client, "mails");
/// mails.try_set_rate(Rate::overall(100, Duration::from_secs(1))).await?;
///
/// mails.acquire().await?; // waits for its turn
/// if mails.try_acquire().await?.is_none() {
///     println!("not now");
/// }
/// # Ok(()) }
/// ```
#[doc(alias = "RRateLimiter")]
#[doc(alias = "RedissonRateLimiter")]
#[derive(Clone, Debug)]
pub struct RateLimiter(Result<Arc<Queue<Log>>, InvalidName>);

impl RateLimiter {
    /// The limiter with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        RateLimiter(Keys::new(client, name).map(|keys| {
            let key = keys.config().clone();
            client.shared(&key, || Queue::new(client, Log { keys: Arc::new(keys) }))
        }))
    }

    pub(crate) fn queue(&self) -> Result<&Arc<Queue<Log>>, LimitError> {
        self.0.as_ref().map_err(|invalid| invalid.clone().into())
    }

    /// Sets the rate where none is set; tells whether it did.
    ///
    /// # Errors
    ///
    /// [`LimitError`] says what is true then. A rate that can not be is
    /// [`Failure::InvalidArgument`].
    ///
    /// # Cancel safety
    ///
    /// Dropped before it was sent, it sets nothing; dropped later, it sets it once.
    #[doc(alias = "trySetRate")]
    pub async fn try_set_rate(&self, rate: Rate) -> Result<bool, LimitError> {
        set(self.queue()?, &rate, Mode::Try, false).await
    }

    /// Sets the rate, when awaited, whatever was set. What was taken counts no more, unless
    /// [`keeping_state`](SetRate::keeping_state) says otherwise; of a rate for each client, that is what this client took: the logs of
    /// others are not known to it, and count on. Who waits is asked for anew at once.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use redgrid_rate_limiter::{Rate, RateLimiter};
    /// # async fn demo(mails: RateLimiter) -> Result<(), Box<dyn std::error::Error>> {
    /// mails.set_rate(Rate::overall(50, Duration::from_secs(1))).keeping_state().await?;
    /// # Ok(()) }
    /// ```
    #[doc(alias = "setRate")]
    #[doc(alias = "updateRate")]
    pub fn set_rate(&self, rate: Rate) -> SetRate {
        SetRate { limiter: self.clone(), rate, mode: Mode::Set, keeps: false }
    }

    /// The rate that is set.
    ///
    /// # Errors
    ///
    /// [`LimitError::RateNotSet`] where none is; else as the rest.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getConfig")]
    pub async fn rate(&self) -> Result<Rate, LimitError> {
        self.on_the_log(async |client, log| log.rate(client).await).await
    }

    /// Takes one permit if it can be had now. `None` where it can not, and where others of this process wait.
    ///
    /// # Errors
    ///
    /// [`LimitError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it takes none: one that was taken already goes back in the background, or counts until its time is over where no answer
    /// comes.
    #[doc(alias = "tryAcquire")]
    pub async fn try_acquire(&self) -> Result<Option<Taken>, LimitError> {
        self.try_acquire_many(1).await
    }

    /// The same for several, all or none: 1 to 2^32 − 1.
    ///
    /// # Errors
    ///
    /// [`LimitError::TooManyPermits`] for more than the rate; else as [`RateLimiter::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`RateLimiter::try_acquire`].
    #[doc(alias = "tryAcquire")]
    pub async fn try_acquire_many(&self, permits: u64) -> Result<Option<Taken>, LimitError> {
        let queue = self.queue()?;
        let permits = checked(&queue.limit, permits)?;
        Ok(queue.take(permits, Wait::No).await?.map(|granted| Taken::new(queue, permits, granted)))
    }

    /// Takes permits, when awaited, as soon as they can be had: one, and for as long as it takes, unless [`Acquire`]'s options say
    /// otherwise. Tasks of one process come in the order in which they asked.
    pub fn acquire(&self) -> Acquire {
        Acquire::new(self.clone())
    }

    /// Gives permits back that still count, the oldest first, whoever took them: as Redisson does. Tells how many are free again by
    /// it. A caller that knows what it took gives that back instead: [`Taken::release`]. 0 permits are nothing to do, as with Redisson.
    ///
    /// Permits that are over are free by themselves. Where the log still has some, they count as what is given back, so that who is
    /// late does not give back in the name of others.
    ///
    /// # Errors
    ///
    /// [`LimitError`] says what is true then. More than 1,000 entries go back in several requests: where a later one fails, it is
    /// [`Failure::OutcomeUnknown`], and its source says how many went back before.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out, once, although nobody waits for it.
    pub async fn release(&self, permits: u64) -> Result<u64, LimitError> {
        let queue = self.queue()?;
        if permits == 0 {
            return Ok(0);
        }
        let (mut left, mut all) = (checked(&queue.limit, permits)?, 0);
        while left > 0 {
            let told = self.on_the_log(async |client, log| log.release(client, left).await).await;
            let (given, over) = told.map_err(|error| after(all, error))?;
            if given + over == 0 {
                break;
            }
            all += given;
            left = left.saturating_sub(given + over);
        }
        queue.nudge();
        Ok(all)
    }

    /// How many permits can be had now.
    ///
    /// # Errors
    ///
    /// [`LimitError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "availablePermits")]
    pub async fn available_permits(&self) -> Result<u64, LimitError> {
        let told = self.on_the_log(async |client, log| log.look(client).await).await?;
        Ok(u64::try_from(told.free).unwrap_or(0))
    }

    /// What every object has: whether it is there (a rate is set), its lifetime, other names, its events; with what was taken of the
    /// rate that all clients share. Of a rate for each client, the logs stay behind until their time is over.
    ///
    /// [`delete`](RateLimiter::delete) and [`expire`](RateLimiter::expire) tell those who wait; behind the same of the object, and
    /// behind a rename, they are told [`RateNotSet`](LimitError::RateNotSet) when it is their turn to ask again.
    pub fn object(&self) -> Object {
        match &self.0 {
            Ok(queue) => Object::with_layout(&queue.client, Ok(queue.limit.keys.name.clone()), layouts::rate_limiter),
            Err(invalid) => Object::unusable(invalid.clone()),
        }
    }

    /// Deletes the limiter, its rate and what was taken; tells whether a rate was set. Who waits is told
    /// [`RateNotSet`](LimitError::RateNotSet). Of a rate for each client, the logs of other clients stay until their time is over, and
    /// count where such a rate is set again before.
    ///
    /// # Errors
    ///
    /// [`LimitError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out, once, although nobody waits for it.
    pub async fn delete(&self) -> Result<bool, LimitError> {
        self.end(Ends::Now).await
    }

    /// Has the limiter go after this time, 1 ms to 3,650 days; tells whether a rate is set. One with a
    /// [`keep_alive`](Rate::keep_alive) lives on where it is used meanwhile.
    ///
    /// # Errors
    ///
    /// [`LimitError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out, once, although nobody waits for it.
    pub async fn expire(&self, lifetime: Duration) -> Result<bool, LimitError> {
        let queue = self.queue()?;
        if !LIFETIMES.contains(&lifetime) {
            let (name, got) = (&queue.limit.keys.name, format!("{lifetime:?}"));
            return Err(LimitError::argument(name, "lifetime", LIFETIMES_EXPECTED, got));
        }
        self.end(Ends::In(lifetime)).await
    }

    /// Has the limiter live for ever; tells whether it had a lifetime. One with a [`keep_alive`](Rate::keep_alive) has it again from
    /// its next use on: a rate [without](RateLimiter::set_rate) ends that.
    ///
    /// # Errors
    ///
    /// [`LimitError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out, once, although nobody waits for it.
    #[doc(alias = "clearExpire")]
    pub async fn persist(&self) -> Result<bool, LimitError> {
        self.end(Ends::Never).await
    }

    async fn end(&self, ends: Ends) -> Result<bool, LimitError> {
        self.on_the_log(async |client, log| log.end(client, ends).await.map(Some)).await
    }

    /// What a script answers; none means that no rate is set.
    async fn on_the_log<T>(
        &self,
        work: impl AsyncFnOnce(&Client, &Log) -> Result<Option<T>, ServerError>,
    ) -> Result<T, LimitError> {
        let queue = self.queue()?;
        let told = work(&queue.client, &queue.limit).await;
        let told = told.map_err(|source| queue.limit.failed(&queue.client, source))?;
        told.ok_or_else(|| queue.limit.not_set())
    }
}

/// What is wrong where so many permits went back before.
fn after(all: u64, error: LimitError) -> LimitError {
    match error {
        LimitError::Failed(Failure::Unavailable { operation, source } | Failure::Refused { operation, source })
            if all > 0 =>
        {
            let source = ServerError::Unknown {
                reason: format!("{all} permits were returned before the error: {source}").into(),
            };
            LimitError::Failed(Failure::OutcomeUnknown { operation, source })
        }
        error => error,
    }
}

async fn set(queue: &Arc<Queue<Log>>, rate: &Rate, mode: Mode, keeps: bool) -> Result<bool, LimitError> {
    rate.check(&queue.limit.keys.name)?;
    let set = queue.limit.set(&queue.client, rate, mode, keeps).await;
    queue.nudge();
    set.map_err(|source| queue.limit.failed(&queue.client, source))
}

/// Sets a rate when awaited, and tells whether it did; made by [`RateLimiter::set_rate`].
///
/// # Errors
///
/// [`LimitError`] says what is true then. A rate that can not be is [`Failure::InvalidArgument`].
///
/// # Cancel safety
///
/// Dropped before it was sent, it sets nothing; dropped later, it sets it once.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct SetRate {
    limiter: RateLimiter,
    rate: Rate,
    mode: Mode,
    keeps: bool,
}

impl SetRate {
    /// What was taken still counts, as far as the new time reaches back; not where the kind of the rate changes. Of a rate for each
    /// client, every client's own log does.
    #[doc(alias = "keepState")]
    pub fn keeping_state(mut self) -> Self {
        self.keeps = true;
        self
    }

    /// Only where one is set.
    #[doc(alias = "updateRate")]
    pub fn if_set(mut self) -> Self {
        self.mode = Mode::Update;
        self
    }
}

impl IntoFuture for SetRate {
    type Output = Result<bool, LimitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { set(self.limiter.queue()?, &self.rate, self.mode, self.keeps).await })
    }
}
