//! Asking for permits: options, then await.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;

use super::counter::Counter;
use super::error::AcquireError;
use super::permit::Permit;
use super::pool::Ask;
use crate::config::{Durability, LONGEST_LEASE, SHORTEST_LEASE};
use crate::lock::LeaseMode;

/// Most permits of one request: what Redisson can count.
pub(super) const MOST: u64 = i32::MAX as u64;

/// Most permits with a lease in one request: each is named.
const MOST_LEASED: u64 = 1000;

/// What is asked for, and how.
#[derive(Clone)]
pub(super) struct Options {
    counter: Counter,
    permits: u64,
    capacity: Option<u64>,
    closed: watch::Receiver<bool>,
    wait: Option<Duration>,
    lease: Option<Duration>,
    watchdog: Option<Duration>,
    awaits_init: bool,
    durability: Option<Durability>,
}

impl Options {
    async fn ask(self, once: bool) -> Result<Option<Permit>, AcquireError> {
        let source = self.counter.source.as_ref().map_err(Clone::clone)?;
        let name = || source.name.clone();
        let refuse = |option, expected, got| Err(AcquireError::InvalidArgument { name: name(), option, expected, got });
        let (most, expected) = match source.leased {
            true => (MOST_LEASED, "0 to 1000, where permits have leases"),
            false => (MOST, "0 to 2147483647"),
        };
        if self.permits > most {
            return refuse("permits", expected, self.permits.to_string());
        }
        if let Some(capacity) = self.capacity.filter(|capacity| !(1..=MOST).contains(capacity)) {
            return refuse("capacity", "1 to 2147483647", capacity.to_string());
        }
        if let Some(capacity) = self.capacity.filter(|capacity| *capacity < self.permits) {
            return refuse("permits", "no more than the capacity", format!("{} of {capacity}", self.permits));
        }
        for (option, lease) in [("lease", self.lease), ("auto_renew", self.watchdog)] {
            match lease {
                Some(_) if !source.leased => {
                    return refuse(option, "none, as these permits have no lease", "one".into());
                }
                Some(lease) if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) => {
                    return refuse(option, "100 ms to 30 days", format!("{lease:?}"));
                }
                _ => {}
            }
        }
        let client = &self.counter.client;
        let renewed = || LeaseMode::Renewed(self.watchdog.unwrap_or(client.watchdog_lease()));
        let ask = Ask {
            permits: self.permits,
            lease: source.leased.then(|| self.lease.map_or_else(renewed, LeaseMode::Fixed)),
            capacity: self.capacity,
            awaits_init: self.awaits_init,
            once,
            wait: self.wait,
            durability: self.durability.unwrap_or(client.durability()),
        };
        let mut closed = self.closed.clone();
        if *closed.borrow() {
            return Err(AcquireError::Closed { name: name() });
        }
        if self.permits == 0 {
            let none = client.pools().none(client, source).ok_or_else(|| AcquireError::ShuttingDown { name: name() });
            return none.map(Some);
        }
        let outcome = client.permits(source, ask).outcome();
        tokio::select! {
            biased;
            outcome = outcome => outcome,
            Ok(_) = closed.wait_for(|closed| *closed) => Err(AcquireError::Closed { name: name() }),
        }
    }

    async fn must(mut self) -> Result<Permit, AcquireError> {
        let (once, name) = (self.wait == Some(Duration::ZERO), self.counter.source.clone()?.name.clone());
        // Looking once takes the time that it takes.
        self.wait = self.wait.filter(|wait| !wait.is_zero());
        self.ask(once).await?.ok_or(AcquireError::TimedOut { name, waited: Duration::ZERO })
    }

    async fn may(mut self) -> Result<Option<Permit>, AcquireError> {
        self.wait = self.wait.filter(|wait| !wait.is_zero());
        let once = self.wait.is_none();
        match self.ask(once).await {
            Err(AcquireError::TimedOut { .. }) => Ok(None),
            outcome => outcome,
        }
    }
}

/// Acquires permits when awaited, waiting for them.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
pub struct Acquire(Options);

/// Tries to acquire permits when awaited; `None` when there are too few.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
pub struct TryAcquire(Options);

macro_rules! options {
    ($builder:ident) => {
        impl $builder {
            /// Asks for so many permits of a semaphore; given up when `closed` says so.
            pub fn new(counter: &Counter, permits: u64, capacity: Option<u64>, closed: watch::Receiver<bool>) -> Self {
                $builder(Options {
                    counter: counter.clone(),
                    permits,
                    capacity,
                    closed,
                    wait: None,
                    lease: None,
                    watchdog: None,
                    awaits_init: false,
                    durability: None,
                })
            }

            /// Waits at most this long for permits, and for a server that can not be reached; zero looks once. Without it, an
            /// acquire waits as long as it takes (but not without any contact to the server), and a try does not wait.
            pub fn timeout(mut self, wait: Duration) -> Self {
                self.0.wait = Some(wait);
                self
            }

            /// Holds permits for this long at most, renewed by nobody: 100 ms to 30 days. Only where permits have leases.
            pub fn lease(mut self, lease: Duration) -> Self {
                self.0.lease = Some(lease);
                self
            }

            /// Renews leases, as by default, but of this length: 100 ms to 30 days, 30 s unless set here or in the configuration.
            /// Short ones come back sooner after a crash; long ones survive longer pauses. Only where permits have leases.
            #[doc(alias = "watchdog")]
            pub fn auto_renew(mut self, lease: Duration) -> Self {
                self.0.lease = None;
                self.0.watchdog = Some(lease);
                self
            }

            /// Where no permits were set yet, waits until some are, instead of ending
            /// [`NotInitialised`](AcquireError::NotInitialised).
            pub fn wait_for_init(mut self) -> Self {
                self.0.awaits_init = true;
                self
            }

            /// Has the grant count only once it is so durable; as the configuration says unless set. One that falls short is
            /// given back and ends [`NotDurable`](AcquireError::NotDurable).
            pub fn durability(mut self, durability: Durability) -> Self {
                self.0.durability = Some(durability);
                self
            }
        }

        impl std::fmt::Debug for $builder {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let Options { permits, wait, lease, .. } = &self.0;
                let mut shown = f.debug_struct(stringify!($builder));
                shown.field("permits", permits).field("timeout", wait).field("lease", lease).finish_non_exhaustive()
            }
        }
    };
}

options!(Acquire);
options!(TryAcquire);

impl IntoFuture for Acquire {
    type Output = Result<Permit, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.must())
    }
}

impl IntoFuture for TryAcquire {
    type Output = Result<Option<Permit>, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.0.may())
    }
}
