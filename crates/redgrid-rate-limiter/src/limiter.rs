//! The limiter with a sliding log.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::author::counts::limiter_family;
use redgrid_core::into_future;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Failure, LIFETIMES, LIFETIMES_EXPECTED, ServerError};

use crate::acquire::{Acquire, Taken};
use crate::error::LimitError;
use crate::keys::Keys;
use crate::log::{Log, SetLifetime, SetMode};
use crate::rate::{MAX_PERMITS, MAX_PERMITS_EXPECTED, Rate};
use crate::take::try_acquire;
use crate::waiters::{Limit, LimitQueue, LimitWaiters};

/// A number of permits in any period of a given length, for all clients together or for each client
/// by itself.
///
/// The limiter is a sliding log: no period of that length ever has more permits. Keys and values
/// are those of Redisson's `RRateLimiter`.
///
/// It is cheap to clone; clones are the same limiter. The constructor sends nothing to the server:
/// the first call reports an invalid name. The rate has to be set once; until then every call
/// returns [`RateNotSet`](LimitError::RateNotSet).
///
/// ```no_run
/// # async fn demo(client: &redgrid_rate_limiter::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redgrid_rate_limiter::{Rate, RateLimiter};
///
/// let mails = RateLimiter::new(client, "mails");
/// mails.try_set_rate(Rate::overall(100, Duration::from_secs(1))).await?;
///
/// mails.acquire().await?; // waits for a permit
/// if mails.try_acquire().await?.is_none() {
///     println!("not now");
/// }
/// # Ok(()) }
/// ```
#[doc(alias = "RRateLimiter")]
#[doc(alias = "RedissonRateLimiter")]
#[derive(Clone, Debug)]
pub struct RateLimiter {
    queue: Result<Arc<LimitQueue<Log>>, InvalidName>,
    /// The label in metrics.
    pub(crate) family: &'static str,
}

impl RateLimiter {
    /// Returns the limiter with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let queue = Keys::new(client, name).map(|keys| {
            let id = keys.config().clone();
            LimitWaiters::queue(client, &id, Log { keys })
        });
        RateLimiter { queue, family: "" }
    }

    /// Returns the same limiter with the label `family` in metrics.
    ///
    /// It groups names that belong together, such as one limiter for each user. Give a constant:
    /// each value is a time series of its own. The default is the empty text.
    #[must_use]
    pub fn family(self, family: &'static str) -> Self {
        limiter_family(family);
        RateLimiter { family, ..self }
    }

    pub(crate) fn queue(&self) -> Result<&Arc<LimitQueue<Log>>, LimitError> {
        self.queue.as_ref().map_err(|invalid| invalid.clone().into())
    }

    /// Sets the rate if none is set. Returns whether it did.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a rate that is out of
    /// range; otherwise another [`LimitError`] if the rate was not set.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the request is sent, it sets nothing. If it is dropped
    /// later, it sets the rate once.
    #[doc(alias = "trySetRate")]
    pub async fn try_set_rate(&self, rate: Rate) -> Result<bool, LimitError> {
        self.set(rate, SetMode::IfUnset, false).await
    }

    /// Sets the rate when awaited, even if one is set already.
    ///
    /// Taken permits no longer count, unless [`keeping_state`](SetRate::keeping_state) is used.
    /// With a rate for each client, this applies only to the permits of this client: those of other
    /// clients still count. Waiting callers are notified.
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
        SetRate { limiter: self.clone(), rate, mode: SetMode::Always, keeps_state: false }
    }

    /// Returns the rate.
    ///
    /// # Errors
    ///
    /// [`LimitError::RateNotSet`] if none is set; otherwise another [`LimitError`] if the rate
    /// could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getConfig")]
    pub async fn rate(&self) -> Result<Rate, LimitError> {
        self.run(async |client, log| log.rate(client).await).await
    }

    /// Takes one permit if it is available now. Returns `None` if it is not, or if other callers of
    /// this client wait.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the permit could not be taken for another reason.
    ///
    /// # Cancel safety
    ///
    /// A dropped future takes nothing. A permit that was taken for it already is given back in the
    /// background. If the reply is lost, it counts until it expires.
    #[doc(alias = "tryAcquire")]
    pub async fn try_acquire(&self) -> Result<Option<Taken>, LimitError> {
        self.try_acquire_many(1).await
    }

    /// Takes several permits, 1 to 2^32 − 1, if all are available now.
    ///
    /// # Errors
    ///
    /// [`LimitError::TooManyPermits`] for more than the rate; otherwise as
    /// [`RateLimiter::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`RateLimiter::try_acquire`].
    #[doc(alias = "tryAcquire")]
    pub async fn try_acquire_many(&self, permits: u64) -> Result<Option<Taken>, LimitError> {
        let queue = self.queue()?;
        Ok(try_acquire(queue, self.family, permits).await?.map(|granted| Taken::new(queue, permits, granted)))
    }

    /// Takes permits when awaited, as soon as they are available.
    ///
    /// Without the options of [`Acquire`] it takes one permit and waits without a bound. Callers of
    /// one client are served in the order of their calls.
    pub fn acquire(&self) -> Acquire {
        Acquire::new(self.clone())
    }

    /// Gives back the oldest permits that still count, of any client, as in Redisson. Returns how
    /// many became free.
    ///
    /// To give back the permits of one call, use [`Taken::release`]. Expired permits that are still
    /// in the log count as given back, so that a late call does not give back permits of others. A
    /// call with 0 permits does nothing, as in Redisson.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the permits were not given back. More than 1,000 entries need several
    /// requests: if a later one fails, the error is
    /// [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown), and its source says how many
    /// permits were given back before.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed once, even if the future is dropped.
    pub async fn release(&self, permits: u64) -> Result<u64, LimitError> {
        let queue = self.queue()?;
        if permits == 0 {
            return Ok(0);
        }
        if permits > MAX_PERMITS {
            let name = queue.resource().limit.name();
            return Err(LimitError::argument(name, "permits", MAX_PERMITS_EXPECTED, permits));
        }
        let (mut left, mut released) = (permits, 0);
        while left > 0 {
            let reply = self.run(async |client, log| log.release_oldest(client, left).await).await;
            let (given, expired) = reply.map_err(|error| after_releases(released, error))?;
            if given + expired == 0 {
                break;
            }
            released += given;
            left = left.saturating_sub(given + expired);
        }
        queue.poll_soon();
        Ok(released)
    }

    /// Returns how many permits are available now.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the limiter could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "availablePermits")]
    pub async fn available_permits(&self) -> Result<u64, LimitError> {
        let state = self.run(async |client, log| log.state(client).await).await?;
        Ok(u64::try_from(state.free).unwrap_or(0))
    }

    /// Returns the operations that every object has: existence (a rate is set), lifetime, rename,
    /// events.
    ///
    /// The object includes the permits that were taken of a rate for all clients. With a rate for
    /// each client, the logs stay until their permits expire.
    ///
    /// [`delete`](RateLimiter::delete) and [`expire`](RateLimiter::expire) notify waiting callers.
    /// The object's methods of these names and a rename do not: callers return
    /// [`RateNotSet`](LimitError::RateNotSet) after their next poll.
    pub fn object(&self) -> Object {
        match &self.queue {
            Ok(queue) => {
                let name = queue.resource().limit.name().clone();
                Object::with_layout(queue.client(), Ok(name), layouts::rate_limiter)
            }
            Err(invalid) => Object::unusable(invalid.clone()),
        }
    }

    /// Deletes the limiter: its rate and the permits that were taken. Returns whether a rate was
    /// set.
    ///
    /// Waiting callers return [`RateNotSet`](LimitError::RateNotSet). With a rate for each client,
    /// the logs of other clients stay until their permits expire, and count if such a rate is set
    /// again before.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the limiter was not deleted.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed once, even if the future is dropped.
    pub async fn delete(&self) -> Result<bool, LimitError> {
        self.set_lifetime(SetLifetime::Delete).await
    }

    /// Deletes the limiter after this time, 1 ms to 3,650 days. Returns whether a rate is set.
    ///
    /// Each use of a limiter with a [`keep_alive`](Rate::keep_alive) replaces this lifetime.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the lifetime was not set.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed once, even if the future is dropped.
    pub async fn expire(&self, lifetime: Duration) -> Result<bool, LimitError> {
        let queue = self.queue()?;
        if !LIFETIMES.contains(&lifetime) {
            let (name, got) = (queue.resource().limit.name(), format!("{lifetime:?}"));
            return Err(LimitError::argument(name, "lifetime", LIFETIMES_EXPECTED, got));
        }
        self.set_lifetime(SetLifetime::ExpireIn(lifetime)).await
    }

    /// Removes the limiter's lifetime. Returns whether it had one.
    ///
    /// If the rate has a [`keep_alive`](Rate::keep_alive), the next use of the limiter sets a
    /// lifetime again. To prevent that, [set a rate](RateLimiter::set_rate) without it.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the lifetime was not removed.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed once, even if the future is dropped.
    #[doc(alias = "clearExpire")]
    pub async fn persist(&self) -> Result<bool, LimitError> {
        self.set_lifetime(SetLifetime::Persist).await
    }

    async fn set_lifetime(&self, change: SetLifetime) -> Result<bool, LimitError> {
        self.run(async |client, log| log.set_lifetime(client, change).await.map(Some)).await
    }

    async fn set(&self, rate: Rate, mode: SetMode, keeps_state: bool) -> Result<bool, LimitError> {
        let queue = self.queue()?;
        rate.check(queue.resource().limit.name())?;
        let set = self.run(async |client, log| log.set(client, &rate, mode, keeps_state).await.map(Some)).await;
        queue.poll_soon();
        set
    }

    /// Runs a request; its reply is `None` if no rate is set.
    async fn run<T>(
        &self,
        request: impl AsyncFnOnce(&Client, &Log) -> Result<Option<T>, ServerError>,
    ) -> Result<T, LimitError> {
        let queue = self.queue()?;
        let (client, log) = (queue.client(), &queue.resource().limit);
        let reply = request(client, log).await;
        let reply = reply.map_err(|source| LimitError::of(client, log.name(), source))?;
        reply.ok_or_else(|| LimitError::RateNotSet { name: log.name().clone() })
    }
}

/// Returns the error of a request that failed after this many permits were released.
fn after_releases(released: u64, error: LimitError) -> LimitError {
    match error {
        LimitError::Failed(Failure::Unavailable { operation, source } | Failure::Refused { operation, source })
            if released > 0 =>
        {
            let reason = format!("{released} permits were returned; then: {source}").into();
            LimitError::Failed(Failure::OutcomeUnknown { operation, source: ServerError::Unknown { reason } })
        }
        error => error,
    }
}

/// Sets a rate when awaited, and returns whether it did; made by [`RateLimiter::set_rate`].
///
/// # Errors
///
/// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a rate that is out of range;
/// otherwise another [`LimitError`] if the rate was not set.
///
/// # Cancel safety
///
/// If the future is dropped before the request is sent, it sets nothing. If it is dropped later, it
/// sets the rate once.
#[must_use = "does nothing until it is awaited"]
#[derive(Clone, Debug)]
pub struct SetRate {
    limiter: RateLimiter,
    rate: Rate,
    mode: SetMode,
    keeps_state: bool,
}

impl SetRate {
    /// Keeps counting taken permits, as far as the new period reaches back.
    ///
    /// They stop counting if the [kind](crate::RateKind) of the rate changes. With a rate for each
    /// client, the permits of all clients still count.
    #[doc(alias = "keepState")]
    pub fn keeping_state(mut self) -> Self {
        self.keeps_state = true;
        self
    }

    /// Sets the rate only if one is set.
    #[doc(alias = "updateRate")]
    pub fn if_set(mut self) -> Self {
        self.mode = SetMode::IfSet;
        self
    }
}

into_future!(
    SetRate => Result<bool, LimitError>,
    |this| async move { this.limiter.set(this.rate, this.mode, this.keeps_state).await }
);
