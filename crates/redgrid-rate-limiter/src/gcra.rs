//! The generic cell rate algorithm: one number on the server, whatever the rate.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::author::counts::limiter_family;
use redgrid_core::clock::Instant;
use redgrid_core::into_future;
use redgrid_core::name::companion;
use redgrid_core::object::{Object, alone};
use redgrid_core::{Client, IdempotentScript, Name, Script, ServerError};

use crate::error::LimitError;
use crate::rate::Quota;
use crate::reply::{LimiterReply, PermitRequest, with_callers};
use crate::take::{acquire, try_acquire};
use crate::waiters::{Limit, LimitQueue, LimitWaiters};

static RESET: Script<1> = Script::new("rate/reset", include_str!("scripts/reset.lua"));
static GCRA: IdempotentScript<1> = IdempotentScript::new("rate/gcra", include_str!("scripts/gcra.lua"));

/// A limit on permits that are replenished one by one, shared by all processes that use the same
/// server.
///
/// After a pause, up to [`burst`](Quota::burst) permits may be taken at once. In any time t there
/// are at most `burst + t × permits / per`.
///
/// The state is one key with a TTL, however high the rate. A [`RateLimiter`](crate::RateLimiter)
/// has an entry for each request in its window. The algorithm is the generic cell rate algorithm of
/// ATM networks (ITU-T I.371): the key holds the time at which all taken permits are replenished.
///
/// It is cheap to clone; clones are the same limiter. The constructor sends nothing to the server:
/// the first call reports an invalid name or quota.
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
pub struct GcraLimiter {
    queue: Result<Arc<LimitQueue<Gcra>>, LimitError>,
    object: Object,
    /// The label in metrics.
    family: &'static str,
}

impl GcraLimiter {
    /// Returns the limiter with this name and quota.
    ///
    /// All processes should use the same quota for a name.
    pub fn new(client: &Client, name: impl AsRef<str>, quota: Quota) -> Self {
        let object = Object::with_layout(client, Name::new(name.as_ref()), alone);
        let queue = Gcra::new(client, name, quota).map(|limit| {
            // Callers with another quota have a queue of their own.
            let id = [&limit.key[..], b" ", format!("{quota:?}").as_bytes()].concat().into();
            LimitWaiters::queue(client, &id, limit)
        });
        GcraLimiter { queue, object, family: "" }
    }

    /// Returns the same limiter with the label `family` in metrics.
    ///
    /// It groups names that belong together, such as one limiter for each user. Give a constant:
    /// each value is a time series of its own. The default is the empty text.
    #[must_use]
    pub fn family(self, family: &'static str) -> Self {
        limiter_family(family);
        GcraLimiter { family, ..self }
    }

    /// Returns the operations that every object has: existence, lifetime, rename, events.
    ///
    /// The key exists while permits are taken and not replenished. Its lifetime ends when all are
    /// replenished. Deleting it replenishes all permits.
    pub fn object(&self) -> Object {
        self.object.clone()
    }

    fn queue(&self) -> Result<&Arc<LimitQueue<Gcra>>, LimitError> {
        self.queue.as_ref().map_err(Clone::clone)
    }

    /// Takes one permit if it is available now. Returns false if it is not, or if other callers of
    /// this client wait.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the permit could not be taken for another reason.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the request is sent, it takes nothing. If it is dropped
    /// later, it may take the permit, which is not given back.
    pub async fn try_acquire(&self) -> Result<bool, LimitError> {
        self.try_acquire_many(1).await
    }

    /// Takes several permits, 1 to 2^32 − 1, if all are available now.
    ///
    /// # Errors
    ///
    /// [`LimitError::TooManyPermits`] for more than the burst; otherwise as
    /// [`GcraLimiter::try_acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`GcraLimiter::try_acquire`].
    pub async fn try_acquire_many(&self, permits: u64) -> Result<bool, LimitError> {
        Ok(try_acquire(self.queue()?, self.family, permits).await?.is_some())
    }

    /// Takes permits when awaited, as soon as they are available.
    ///
    /// Without the options of [`AcquireGcra`] it takes one permit and waits without a bound.
    /// Callers of one client are served in the order of their calls.
    pub fn acquire(&self) -> AcquireGcra {
        AcquireGcra { limiter: self.clone(), permits: 1, timeout: None }
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
    pub async fn available_permits(&self) -> Result<u64, LimitError> {
        let queue = self.queue()?;
        let (client, limit) = (queue.client(), &queue.resource().limit);
        let until = client.clock().now() + client.patience();
        let reply = limit.acquire(client, &[], until).await;
        let reply = reply.map_err(|source| LimitError::of(client, &limit.name, source))?;
        Ok(reply.and_then(|reply| u64::try_from(reply.free).ok()).unwrap_or(0))
    }

    /// Replenishes all permits: a whole burst is available again. Returns whether any were taken.
    ///
    /// Waiting callers of all processes are notified.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the limiter could not be reset.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn reset(&self) -> Result<bool, LimitError> {
        let queue = self.queue()?;
        let (client, limit) = (queue.client(), &queue.resource().limit);
        let request = RESET.with([limit.key.clone()]).publish_arg().arg(limit.channel.clone());
        let reset = client.run(request).await;
        queue.poll_soon();
        reset.map_err(|source| LimitError::of(client, &limit.name, source))
    }
}

/// Takes permits when awaited, as soon as they are available; made by [`GcraLimiter::acquire`].
///
/// # Errors
///
/// [`LimitError`] if the permits were not taken.
///
/// # Cancel safety
///
/// A dropped future leaves the queue. Permits that a sent request has taken for it are used up:
/// nothing is given back.
#[must_use = "does nothing until it is awaited"]
#[derive(Clone, Debug)]
pub struct AcquireGcra {
    limiter: GcraLimiter,
    permits: u64,
    timeout: Option<Duration>,
}

impl AcquireGcra {
    /// Sets the number of permits, taken all at once: 1 to 2^32 − 1. Default: 1.
    pub fn permits(mut self, permits: u64) -> Self {
        self.permits = permits;
        self
    }

    /// Waits at most this long, for permits and for a server that cannot be reached.
    ///
    /// By default, the wait for permits has no bound. Without contact to the server it ends after
    /// `response_timeout × (retries + 1)`. With zero, the call does not wait for permits, as
    /// [`try_acquire`](GcraLimiter::try_acquire). Without contact, it ends after the same time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<(), LimitError> {
        acquire(self.limiter.queue()?, self.limiter.family, self.permits, self.timeout).await.map(drop)
    }
}

into_future!(AcquireGcra => Result<(), LimitError>, |this| this.run());

/// The limit on the server.
#[derive(Debug)]
pub(crate) struct Gcra {
    name: Name,
    key: Bytes,
    channel: Bytes,
    /// The number of permits that are replenished in `per` microseconds. The two numbers have no
    /// common divisor.
    permits: u64,
    per: u64,
    burst: u64,
}

impl Gcra {
    fn new(client: &Client, name: impl AsRef<str>, quota: Quota) -> Result<Gcra, LimitError> {
        let name = Name::new(name)?;
        let (permits, per) = quota.check(&name)?;
        let key = client.key(&name);
        let channel = companion("redgrid_rate__channel", &key);
        Ok(Gcra { name, key, channel, permits, per, burst: quota.burst })
    }
}

impl Limit for Gcra {
    /// The state is one number, without the permits of each caller: nothing can be given back.
    type Entry = ();
    const CHANGES_ARE_PUBLISHED: bool = true;

    fn name(&self) -> &Name {
        &self.name
    }

    fn key(&self) -> &Bytes {
        &self.key
    }

    fn channel(&self) -> &Bytes {
        &self.channel
    }

    async fn acquire(
        &self,
        client: &Client,
        callers: &[PermitRequest],
        until: Instant,
    ) -> Result<Option<LimiterReply>, ServerError> {
        let numbers = [self.permits, self.per, self.burst];
        let request = GCRA.with([self.key.clone()]);
        let request = numbers.into_iter().fold(request, |request, number| request.arg(number.to_string()));
        let reply: Vec<String> = client.run_exactly_once_until(with_callers(request, callers), until).await?;
        LimiterReply::read(&reply, callers.len())
    }

    fn entry(&self, _: &LimiterReply, _: usize) -> Option<()> {
        None
    }

    async fn give_back(&self, _: &Client, (): (), _: u64) {}
}
