//! The semaphore as a value: cheap to clone, holding nothing until permits are acquired.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::Client;
use redgrid_core::object::{Object, layouts};
use redgrid_core::permits::{Acquire, Counter, SemaphoreError, TryAcquire};
use tokio::sync::watch;

/// A counting semaphore over all processes that reach the same server. Redisson's `RSemaphore` on the wire.
///
/// Cheap to clone; clones are the same semaphore. Making one asks nobody: an invalid name is told by the first call.
///
/// Which one: with [`Semaphore::capacity`], unless Java services with RSemaphore decide how many permits there are. Where
/// permits are passed on by their ids, or updated from elsewhere, see the crate `redgrid-permit-expirable-semaphore`.
#[doc(alias = "RSemaphore")]
#[doc(alias = "RedissonSemaphore")]
#[derive(Clone)]
pub struct Semaphore {
    counter: Counter,
    capacity: Option<u64>,
    closing: Arc<watch::Sender<bool>>,
}

impl Semaphore {
    /// The semaphore with this name, as somebody else has set it up: a plain number of permits, without leases.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let (closing, _) = watch::channel(false);
        Semaphore { counter: Counter::new(client, name, false), capacity: None, closing: Arc::new(closing) }
    }

    /// The same semaphore with so many permits, 1 to 2,147,483,647. They are set on the first use if the semaphore has none
    /// yet. Permits have leases, which are renewed while their guards live, so a process that dies gives them back within
    /// one lease.
    ///
    /// A semaphore that exists keeps its number: `capacity(5)` does not change one that was made with `capacity(1)`, and
    /// gives no error, because processes of an old and a new version may run side by side. [`Semaphore::set_permits`] changes
    /// the number:
    ///
    /// ```no_run
    /// # use redgrid_semaphore::Semaphore;
    /// # async fn example(client: &redgrid_semaphore::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mail = Semaphore::new(client, "mail").capacity(5);
    /// mail.set_permits(5).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn capacity(mut self, permits: u64) -> Self {
        self.capacity = Some(permits);
        self.counter = self.counter.leased(true);
        self
    }

    /// The same semaphore, whose permits have no lease: a process that dies keeps its permits for ever. For semaphores that
    /// are to look to Java services as their own do.
    #[must_use]
    pub fn without_leases(mut self) -> Self {
        self.counter = self.counter.leased(false);
        self
    }

    /// The same semaphore, where those who wait are served in the order of asking over all processes that say so: a large
    /// request is not starved by small ones elsewhere. Each permit that passes on then costs a request.
    #[must_use]
    pub fn fair(mut self) -> Self {
        self.counter = self.counter.fair();
        self
    }

    /// Acquires one permit, waiting for it as long as it takes or as [`Acquire::timeout`] says.
    ///
    /// # Errors
    ///
    /// [`AcquireError`](crate::AcquireError) says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. What the server had granted goes back in the background.
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Acquires `permits` at once: all of them or none. 0 permits are granted without a request, as by Redisson: the guard takes others
    /// in by [`Permit::merge`](crate::Permit::merge).
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Semaphore::acquire`].
    #[doc(alias = "acquire")]
    pub fn acquire_many(&self, permits: u64) -> Acquire {
        Acquire::new(&self.counter, permits, self.capacity, self.closing.subscribe())
    }

    /// Acquires one permit if there is one: `None` when there is none, or others of this process wait.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Semaphore::acquire`].
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire(&self) -> TryAcquire {
        self.try_acquire_many(1)
    }

    /// The same for `permits` at once.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Semaphore::acquire`].
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire_many(&self, permits: u64) -> TryAcquire {
        TryAcquire::new(&self.counter, permits, self.capacity, self.closing.subscribe())
    }

    /// Sets how many permits there are, where none were set yet; tells whether that was so. With a lifetime:
    /// [`SetPermits::expires_in`].
    #[doc(alias = "trySetPermits")]
    pub fn try_set_permits(&self, permits: u64) -> SetPermits {
        SetPermits { counter: self.counter.clone(), permits, anew: false, lifetime: None }
    }

    /// Sets how many permits there are. Those that are held with a lease stay held: with fewer than them, none are left
    /// until enough have come back. What is held without a lease is not known, and counts as given back.
    pub fn set_permits(&self, permits: u64) -> SetPermits {
        SetPermits { counter: self.counter.clone(), permits, anew: true, lifetime: None }
    }

    /// Adds permits for everybody, or takes some away where negative: then fewer than none may be left, until enough were
    /// given back. Its lifetime stays. Tells how many are left.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "addPermits")]
    pub async fn add_permits(&self, permits: i64) -> Result<i64, SemaphoreError> {
        Ok(self.counter.add(permits, false).await?.unwrap_or(0))
    }

    /// Gives permits back that no guard has: forgotten ones, or those that another process was given. Nothing checks that
    /// they were taken; 0 permits are nothing to do. Permits of guards go back by [`Permit::release`](crate::Permit::release).
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn release(&self, permits: u32) -> Result<(), SemaphoreError> {
        self.counter.release(permits).await
    }

    /// The same, where the semaphore was set up: `false` where it was not.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::release`].
    ///
    /// # Cancel safety
    ///
    /// As [`Semaphore::release`].
    #[doc(alias = "releaseIfExists")]
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool, SemaphoreError> {
        Ok(self.counter.add(permits.into(), true).await?.is_some())
    }

    /// Takes all permits that are left, for good; tells how many.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "drainPermits")]
    pub async fn drain(&self) -> Result<u64, SemaphoreError> {
        self.counter.drain().await
    }

    /// How many permits are left at this instant; where none were set, as many as the capacity says, or none.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "availablePermits")]
    pub async fn available_permits(&self) -> Result<u64, SemaphoreError> {
        let counts = self.counter.count().await?;
        let unset = || self.capacity.unwrap_or(0).saturating_sub(counts.leased);
        Ok(counts.available.map_or_else(unset, |left| u64::try_from(left).unwrap_or(0)))
    }

    /// What every object has: whether it is there, its lifetime, other names, its events; with the leases of its permits and the
    /// queue of a fair one.
    ///
    /// Nobody is asked who holds permits: behind a deletion or a rename those that are out are forgotten. Who waits looks again within
    /// `poll_interval`; nobody is woken.
    pub fn object(&self) -> Object {
        self.counter.object(layouts::permit_expirable_semaphore)
    }

    /// Deletes the semaphore, whoever holds permits of it; tells whether there was one.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn delete(&self) -> Result<bool, SemaphoreError> {
        self.counter.delete().await
    }

    /// Closes this handle and its clones: who waits through them ends [`Closed`](crate::AcquireError::Closed), and so does who
    /// asks from now on. Permits that are held stay held; other handles and processes notice nothing.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Whether this handle was closed.
    pub fn is_closed(&self) -> bool {
        *self.closing.borrow()
    }
}

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.counter.source.as_ref().map(|source| &source.name);
        f.debug_struct("Semaphore").field("name", &name).field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// Sets permits when awaited; made by [`Semaphore::try_set_permits`] and [`Semaphore::set_permits`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
pub struct SetPermits {
    counter: Counter,
    permits: u64,
    anew: bool,
    lifetime: Option<Duration>,
}

impl SetPermits {
    /// Has the semaphore deleted by itself after this time. Unlimited unless set.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }
}

impl IntoFuture for SetPermits {
    type Output = Result<bool, SemaphoreError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.counter.set(self.permits, self.anew, self.lifetime).await })
    }
}
