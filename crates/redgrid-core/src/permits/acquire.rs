//! Builders of requests for permits. Options are set first, and awaiting the builder sends the
//! request.

use std::time::Duration;

use super::error::AcquireError;
use super::local_semaphore::PermitRequest;
use super::pending_permit::PendingPermit;
use super::permit::Permit;
use super::semaphore_handle::SemaphoreHandle;
use crate::author::ClientExt;
use crate::config::{Durability, LONGEST_LEASE, SHORTEST_LEASE};
use crate::failure::Failure;
use crate::into_future;
use crate::label::Label;
use crate::lease::LeaseMode;
use crate::service::ClientParts;

/// Maximum number of permits of one request: the largest number that Redisson's counter can have.
pub(super) const MAX_PERMITS: u64 = i32::MAX as u64;

/// Maximum number of leased permits of one request. The request carries an id for each permit.
const MAX_LEASED: u64 = 1000;

/// The options of a request.
#[derive(Clone)]
pub(super) struct Options {
    handle: SemaphoreHandle,
    permits: u64,
    timeout: Option<Duration>,
    lease: Option<LeaseMode>,
    awaits_init: bool,
    durability: Option<Durability>,
    label: Option<Label>,
}

impl Options {
    /// Requests the permits. Without a timeout, `waits` says whether the request waits for them.
    async fn request(self, waits: bool) -> Result<Option<Permit>, AcquireError> {
        let keys = self.handle.keys.as_ref().map_err(Clone::clone)?;
        let name = || keys.name.clone();
        let invalid = |option, expected, got| Err(Failure::invalid_argument(name(), option, expected, got).into());
        let (max, expected) = match keys.leased {
            true => (MAX_LEASED, "0 to 1000 for permits with leases"),
            false => (MAX_PERMITS, "0 to 2147483647"),
        };
        if self.permits > max {
            return invalid("permits", expected, self.permits.to_string());
        }
        if let Some(capacity) = keys.capacity.filter(|capacity| !(1..=MAX_PERMITS).contains(capacity)) {
            return invalid("number of permits", "1 to 2147483647", capacity.to_string());
        }
        if let Some(capacity) = keys.capacity.filter(|capacity| *capacity < self.permits) {
            return invalid("permits", "no more than the semaphore has", format!("{} of {capacity}", self.permits));
        }
        if let Some(mode) = self.lease {
            let (option, lease) = match mode {
                LeaseMode::Fixed(lease) => ("lease", lease),
                LeaseMode::Renewed(lease) => ("auto_renew", lease),
            };
            if !keys.leased {
                return invalid(option, "none (these permits have no leases)", "one".into());
            }
            if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
                return invalid(option, "100 ms to 30 days", format!("{lease:?}"));
            }
        }
        if let Some(label) = &self.label {
            label.check(&keys.name)?;
        }
        let client = &self.handle.client;
        let request = PermitRequest {
            permits: self.permits,
            lease: keys.leased.then(|| self.lease.unwrap_or(LeaseMode::Renewed(client.watchdog_lease()))),
            awaits_init: self.awaits_init,
            try_only: self.timeout.map_or(!waits, |timeout| timeout.is_zero()),
            // A try-only request has no time limit: it ends with the reply to its exchange.
            wait: self.timeout.filter(|timeout| !timeout.is_zero()),
            durability: self.durability.unwrap_or(client.durability()),
            label: self.label,
        };
        if self.handle.is_closed() {
            return Err(AcquireError::Closed { name: name() });
        }
        if self.permits == 0 {
            let empty = client.semaphores().empty_permit(client, keys);
            return empty.map(Some).ok_or_else(|| AcquireError::of(&name(), client.ended()));
        }
        let outcome = PendingPermit::start(client, keys, request).outcome();
        tokio::select! {
            biased;
            outcome = outcome => outcome,
            () = self.handle.closed() => Err(AcquireError::Closed { name: name() }),
        }
    }

    async fn acquire(self) -> Result<Permit, AcquireError> {
        let name = self.handle.keys.clone()?.name.clone();
        self.request(true).await?.ok_or(AcquireError::TimedOut { name, waited: Duration::ZERO })
    }

    async fn try_acquire(self) -> Result<Option<Permit>, AcquireError> {
        match self.request(false).await {
            Err(AcquireError::TimedOut { .. }) => Ok(None),
            outcome => outcome,
        }
    }
}

/// A request for permits. When awaited, it waits until the permits are granted.
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
pub struct Acquire(Options);

/// A request for permits that waits for them only if a timeout is set. When awaited, it returns
/// `None` if there are too few permits. With a timeout, it returns `None` if there are still too
/// few at the end of the timeout.
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
pub struct TryAcquire(Options);

macro_rules! options {
    ($builder:ident) => {
        impl $builder {
            /// Creates a request for `permits` permits. The request fails when the handle is
            /// closed.
            pub fn new(handle: &SemaphoreHandle, permits: u64) -> Self {
                $builder(Options {
                    handle: handle.clone(),
                    permits,
                    timeout: None,
                    lease: None,
                    awaits_init: false,
                    durability: None,
                    label: None,
                })
            }

            /// Limits the time that the request waits for permits, or for an unreachable server.
            /// Zero makes the request try-only.
            ///
            /// Without this call, an `Acquire` waits without limit, as long as there is contact
            /// with the server, and a `TryAcquire` does not wait.
            pub fn timeout(mut self, timeout: Duration) -> Self {
                self.0.timeout = Some(timeout);
                self
            }

            /// Holds permits for this long at most, without renewal: 100 ms to 30 days.
            ///
            /// Only permits with leases allow this option.
            pub fn lease(mut self, lease: Duration) -> Self {
                self.0.lease = Some(LeaseMode::Fixed(lease));
                self
            }

            /// Renews the leases, and sets their length: 100 ms to 30 days.
            ///
            /// Without this call, leases are renewed, too. They then have the configured length:
            /// 30 s by default. Permits with short leases are available sooner after a crash; long
            /// leases survive longer pauses. Only permits with leases allow this option.
            #[doc(alias = "watchdog")]
            pub fn auto_renew(mut self, lease: Duration) -> Self {
                self.0.lease = Some(LeaseMode::Renewed(lease));
                self
            }

            /// Makes the request wait if the number of permits is not set yet.
            ///
            /// Without this call, the request then fails with
            /// [`NotInitialised`](AcquireError::NotInitialised). The call has no effect if the
            /// handle has a capacity, because the request then sets the number of permits.
            pub fn wait_for_init(mut self) -> Self {
                self.0.awaits_init = true;
                self
            }

            /// Makes the grant valid only once it has this durability. The default is a client
            /// setting.
            ///
            /// If this durability is not confirmed in time, the permits are returned, and the
            /// request fails with [`NotDurable`](AcquireError::NotDurable).
            pub fn durability(mut self, durability: Durability) -> Self {
                self.0.durability = Some(durability);
                self
            }

            /// Gives the permits a label of at most 64 bytes, such as the job that they are for.
            ///
            /// [Reports about the client](redgrid_client::report) show the label. It is not stored
            /// on the server.
            pub fn label(mut self, label: impl Into<String>) -> Self {
                self.0.label = Some(Label::new(label));
                self
            }
        }

        impl std::fmt::Debug for $builder {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let Options { permits, timeout, lease, .. } = &self.0;
                let mut shown = f.debug_struct(stringify!($builder));
                shown.field("permits", permits).field("timeout", timeout).field("lease", lease).finish_non_exhaustive()
            }
        }
    };
}

options!(Acquire);
options!(TryAcquire);

into_future!(Acquire => Result<Permit, AcquireError>, |this| this.0.acquire());

into_future!(TryAcquire => Result<Option<Permit>, AcquireError>, |this| this.0.try_acquire());
