//! Permits with leases: they are available again when their process dies.

use redgrid_core::permits::SemaphoreHandle;
use redgrid_core::{Client, Failure};

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
}

redgrid_core::semaphore_methods!(Semaphore);

impl Semaphore {
    /// Returns the semaphore with this name and number of permits: 1 to 2,147,483,647.
    ///
    /// The number is set on first use. If the semaphore already has another number, requests fail
    /// with [`PermitsDiffer`](crate::AcquireError::PermitsDiffer), until [`Semaphore::resize`]
    /// changes it:
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
        Semaphore { handle, permits }
    }

    /// Returns the plain semaphore with this name: Redisson's RSemaphore, without leases.
    ///
    /// The permits of a process that dies are lost. Use it to share permits with Java services.
    pub fn plain(client: &Client, name: impl AsRef<str>) -> PlainSemaphore {
        PlainSemaphore::new(client, name)
    }

    /// Sets the semaphore's number of permits to that of this handle. Returns whether it changed.
    ///
    /// Held permits stay held. If more are held than the new number, none are available until
    /// enough have been returned. Processes that still give another number get
    /// [`PermitsDiffer`](crate::AcquireError::PermitsDiffer) from then on.
    ///
    /// # Errors
    ///
    /// [`Failure`] states whether the number may have been set.
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
    /// [`Failure`] if the request fails.
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
}
