//! Permits with leases: they are available again when their process dies.

use std::sync::Arc;

use redgrid_core::object::{Object, layouts};
use redgrid_core::permits::{Acquire, SemaphoreHandle, TryAcquire};
use redgrid_core::{Client, Failure};
use tokio::sync::watch;

use crate::plain::PlainSemaphore;

/// A counting semaphore of all processes that use the same server. Its permits have leases, which
/// are renewed while their guards live.
///
/// The permits of a process that dies are available again within one lease. All processes give the
/// same number of permits; if they do not, requests fail with
/// [`PermitsDiffer`](crate::AcquireError::PermitsDiffer).
///
/// It is cheap to clone; clones are the same semaphore. Creating one sends no request: an invalid
/// name or number is reported by the first call.
///
/// Two other kinds share the keys of this one:
///
/// - [`PlainSemaphore`], from [`Semaphore::plain`], is Redisson's RSemaphore: a number without
///   leases. Do not use both kinds for one name: while plain permits are held, requests here fail
///   with [`PermitsDiffer`](crate::AcquireError::PermitsDiffer).
/// - The crate `redgrid-permit-expirable-semaphore` has permits that are identified by their ids.
///   Its handles give no number, so the number may change while they are used, and Java services
///   may take plain permits of the same name.
#[doc(alias = "RPermitExpirableSemaphore")]
#[derive(Clone)]
pub struct Semaphore {
    handle: SemaphoreHandle,
    permits: u64,
    closing: Arc<watch::Sender<bool>>,
}

impl Semaphore {
    /// Returns the semaphore with this name and number of permits: 1 to 2,147,483,647.
    ///
    /// The number is set on first use. If the semaphore has another one by then, requests fail with
    /// [`PermitsDiffer`](crate::AcquireError::PermitsDiffer), until [`Semaphore::resize`] changes it:
    ///
    /// ```no_run
    /// # use redgrid_semaphore::Semaphore;
    /// # async fn example(client: &redgrid_semaphore::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mail = Semaphore::new(client, "mail", 5); // it had 3 before
    /// mail.resize().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(client: &Client, name: impl AsRef<str>, permits: u64) -> Self {
        let handle = SemaphoreHandle::new(client, name, true).capacity(permits);
        Semaphore { handle, permits, closing: Arc::new(watch::channel(false).0) }
    }

    /// Returns the plain semaphore with this name: Redisson's RSemaphore, without leases.
    ///
    /// The permits of a process that dies are lost. Use it to share permits with Java services.
    pub fn plain(client: &Client, name: impl AsRef<str>) -> PlainSemaphore {
        PlainSemaphore::new(client, name)
    }

    /// Returns the same semaphore, where waiters are served in the order of their requests.
    ///
    /// The order holds over all processes that use `fair`: small requests elsewhere do not starve a
    /// large one. Each permit that passes on to another waiter then costs a request.
    #[must_use]
    pub fn fair(mut self) -> Self {
        self.handle = self.handle.fair();
        self
    }

    /// Acquires one permit. Waits for it without limit, or as long as [`Acquire::timeout`] says.
    ///
    /// # Errors
    ///
    /// [`AcquireError`](crate::AcquireError) says what is true on the server then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the position in the queue. A permit that the server had granted
    /// is returned in the background.
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Acquires `permits` permits at once, up to 1,000: all of them or none.
    ///
    /// 0 permits are granted without a request, as by Redisson. That guard can take over the
    /// permits of others with [`Permit::merge`](crate::Permit::merge).
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Semaphore::acquire`].
    #[doc(alias = "acquire")]
    pub fn acquire_many(&self, permits: u64) -> Acquire {
        Acquire::new(&self.handle, permits, self.closing.subscribe())
    }

    /// Acquires one permit if one is available.
    ///
    /// Returns `None` if none is, or if other requests of this process wait.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Semaphore::acquire`].
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire(&self) -> TryAcquire {
        self.try_acquire_many(1)
    }

    /// Acquires `permits` permits at once if they are available.
    ///
    /// Returns `None` if there are too few, or if other requests of this process wait.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Semaphore::acquire`].
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire_many(&self, permits: u64) -> TryAcquire {
        TryAcquire::new(&self.handle, permits, self.closing.subscribe())
    }

    /// Makes this handle's number of permits that of the semaphore. Returns whether it was another.
    ///
    /// Held permits stay held. If the number is below theirs, none are available until enough have
    /// been returned. Processes that still give another number get
    /// [`PermitsDiffer`](crate::AcquireError::PermitsDiffer) from then on.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the number may have been set.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    #[doc(alias = "setPermits")]
    pub async fn resize(&self) -> Result<bool, Failure> {
        self.handle.set(self.permits, true, None).await
    }

    /// Returns the number of permits that are available at this instant.
    ///
    /// Before the first use, it is the number that this handle gives.
    ///
    /// # Errors
    ///
    /// [`Failure`] if there was no reply.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "availablePermits")]
    pub async fn available_permits(&self) -> Result<u64, Failure> {
        let counts = self.handle.count().await?;
        let unset = || self.permits.saturating_sub(counts.leased);
        Ok(counts.available.map_or_else(unset, |left| u64::try_from(left).unwrap_or(0)))
    }

    /// Returns the operations that every object has: existence, lifetime, rename, events.
    ///
    /// They include the leases of its permits, and the queue of a fair semaphore. They do not
    /// consider held permits: after a deletion or a rename those are forgotten. Waiters are not
    /// woken, but poll within `poll_interval`.
    pub fn object(&self) -> Object {
        self.handle.object(layouts::permit_expirable_semaphore)
    }

    /// Deletes the semaphore, even while permits are held. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the semaphore may have been deleted.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn delete(&self) -> Result<bool, Failure> {
        self.handle.delete().await
    }

    /// Closes this handle and its clones.
    ///
    /// Their pending requests and all later ones end with [`Closed`](crate::AcquireError::Closed).
    /// Held permits stay held. Other handles and processes are not affected.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Returns whether this handle was closed.
    pub fn is_closed(&self) -> bool {
        *self.closing.borrow()
    }
}

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.handle.keys.as_ref().map(|keys| &keys.name);
        f.debug_struct("Semaphore").field("name", &name).field("permits", &self.permits).finish_non_exhaustive()
    }
}
