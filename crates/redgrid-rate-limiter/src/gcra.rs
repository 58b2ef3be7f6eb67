//! The generic cell rate algorithm: one number on the server, whatever the rate.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::name::companion;
use redgrid_core::object::{Object, alone};
use redgrid_core::{Client, IdempotentScript, Name, Script, ServerError};

use crate::acquire::checked;
use crate::error::LimitError;
use crate::log::asking;
use crate::queue::{Limit, Queue, Wait};
use crate::rate::Quota;
use crate::told::{Told, Wish};

static RESET: Script<1> = Script::new("rate/reset", include_str!("scripts/reset.lua"));
static GCRA: IdempotentScript<1> = IdempotentScript::new("rate/gcra", include_str!("scripts/gcra.lua"));

/// Permits that are replenished evenly, over all processes that reach the same server, of which so many may be taken at once after a
/// time of rest. In any time t there are no more than `burst + t × permits / per`.
///
/// One key with a lifetime, however high the rate, where a [`RateLimiter`](crate::RateLimiter) has an entry for each request in its
/// window. The generic cell rate algorithm of ATM networks (ITU-T I.371): the key holds the time at which all that was taken is
/// replenished.
///
/// Cheap to clone; clones are the same limiter. Making one asks nobody: what is invalid is told by the first call.
///
/// ```no_run
/// # async fn demo(client: &redgrid_rate_limiter::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_rate_limiter::{GcraLimiter, Quota};
///
/// let calls = GcraLimiter::new(client, "calls", Quota::per_second(100).burst(20));
/// calls.acquire().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "RGcra")]
#[derive(Clone, Debug)]
pub struct GcraLimiter(Result<Arc<Queue<Cells>>, LimitError>, Object);

impl GcraLimiter {
    /// The limiter with this name, and what it allows.
    pub fn new(client: &Client, name: impl AsRef<str>, quota: Quota) -> Self {
        let object = Object::with_layout(client, Name::new(name.as_ref()), alone);
        let queue = Cells::new(client, name, quota).map(|cells| {
            // Those with other quotas ask by themselves.
            let of = [&cells.key[..], b" ", format!("{quota:?}").as_bytes()].concat().into();
            client.shared(&of, || Queue::new(client, cells))
        });
        GcraLimiter(queue, object)
    }

    /// What every object has: whether it is there (something was taken and is not replenished), its lifetime, which is the time until it
    /// is full, other names, its events. A deletion fills it.
    pub fn object(&self) -> Object {
        self.1.clone()
    }

    fn queue(&self) -> Result<&Arc<Queue<Cells>>, LimitError> {
        self.0.as_ref().map_err(Clone::clone)
    }

    /// Takes one permit if it can be had now. False where it can not, and where others of this process wait.
    ///
    /// # Errors
    ///
    /// [`LimitError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it has left, it takes none; dropped later, it may have taken it: nothing goes back.
    pub async fn try_acquire(&self) -> Result<bool, LimitError> {
        self.try_acquire_many(1).await
    }

    /// The same for several, all or none: 1 to 2^32 − 1.
    ///
    /// # Errors
    ///
    /// [`LimitError::TooManyPermits`] for more than the burst; else as [`GcraLimiter::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`GcraLimiter::try_acquire`].
    pub async fn try_acquire_many(&self, permits: u64) -> Result<bool, LimitError> {
        let queue = self.queue()?;
        let permits = checked(&queue.limit, permits)?;
        Ok(queue.take(permits, Wait::No).await?.is_some())
    }

    /// Takes permits, when awaited, as soon as they can be had: one, and for as long as it takes, unless [`AcquireCells`]'s options
    /// say otherwise. Tasks of one process come in the order in which they asked.
    pub fn acquire(&self) -> AcquireCells {
        AcquireCells { limiter: self.clone(), permits: 1, wait: None }
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
    pub async fn available_permits(&self) -> Result<u64, LimitError> {
        let queue = self.queue()?;
        let until = queue.client.clock().now() + queue.client.patience();
        let told = queue.limit.ask(&queue.client, &[], until).await;
        let told = told.map_err(|source| queue.limit.failed(&queue.client, source))?;
        Ok(told.and_then(|told| u64::try_from(told.free).ok()).unwrap_or(0))
    }

    /// Forgets what was taken: a whole burst can be had again. Tells whether there was anything. Who waits is asked for anew.
    ///
    /// # Errors
    ///
    /// [`LimitError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn reset(&self) -> Result<bool, LimitError> {
        let queue = self.queue()?;
        let request = RESET.with([queue.limit.key.clone()]).publish_arg().arg(queue.limit.channel.clone());
        let reset = queue.client.run(request).await;
        queue.nudge();
        reset.map_err(|source| queue.limit.failed(&queue.client, source))
    }
}

/// Takes permits when awaited, as soon as they can be had; made by [`GcraLimiter::acquire`].
///
/// # Errors
///
/// [`LimitError`] says what is true then.
///
/// # Cancel safety
///
/// Dropped, it gives up its place. What was taken by a request that had left then is used up: nothing goes back.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct AcquireCells {
    limiter: GcraLimiter,
    permits: u64,
    wait: Option<Duration>,
}

impl AcquireCells {
    /// How many, all at once: 1 to 2^32 − 1, 1 unless set.
    pub fn permits(mut self, permits: u64) -> Self {
        self.permits = permits;
        self
    }

    /// Waits at most this long, for the limit and for a server that can not be reached; as long as it takes unless set, but not
    /// without contact to the server for longer than `response_timeout × (retries + 1)`. Zero looks once, as
    /// [`try_acquire`](GcraLimiter::try_acquire) does: which takes as long as that where no server can be reached.
    pub fn timeout(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    async fn run(self) -> Result<(), LimitError> {
        let queue = self.limiter.queue()?;
        let permits = checked(&queue.limit, self.permits)?;
        let looks_once = self.wait.is_some_and(|wait| wait.is_zero());
        let granted = queue.take(permits, if looks_once { Wait::No } else { Wait::For(self.wait) }).await?;
        let name = || queue.limit.name.clone();
        granted.map(drop).ok_or_else(|| LimitError::TimedOut { name: name(), waited: Duration::ZERO })
    }
}

impl IntoFuture for AcquireCells {
    type Output = Result<(), LimitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The limit on the server.
#[derive(Debug)]
pub(crate) struct Cells {
    name: Name,
    key: Bytes,
    channel: Bytes,
    /// So many, in so many microseconds, without common divisor; and at once.
    permits: u64,
    per: u64,
    burst: u64,
}

impl Cells {
    fn new(client: &Client, name: impl AsRef<str>, quota: Quota) -> Result<Cells, LimitError> {
        let name = Name::new(name)?;
        let (permits, per) = quota.check(&name)?;
        let key = client.key(&name);
        let channel = companion("redgrid_rate__channel", &key);
        Ok(Cells { name, key, channel, permits, per, burst: quota.burst })
    }

    fn failed(&self, client: &Client, source: ServerError) -> LimitError {
        LimitError::of(client, &self.name, source)
    }
}

impl Limit for Cells {
    /// It can not be told what was whose.
    type Entry = ();
    const IS_TOLD: bool = true;

    fn name(&self) -> &Name {
        &self.name
    }

    fn place(&self) -> (&Bytes, &Bytes) {
        (&self.key, &self.channel)
    }

    async fn ask(&self, client: &Client, wishes: &[Wish], until: Instant) -> Result<Option<Told>, ServerError> {
        let numbers = [self.permits, self.per, self.burst];
        let request = GCRA.with([self.key.clone()]);
        let request = numbers.into_iter().fold(request, |request, number| request.arg(number.to_string()));
        Told::read(&client.run_exactly_once_until::<Vec<String>>(asking(request, wishes), until).await?)
    }

    fn entry(&self, _: &Told, _: usize) -> Option<()> {
        None
    }

    async fn give_back(&self, _: &Client, (): (), _: u64) {}
}
