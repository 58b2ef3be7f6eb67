//! The number of permits of a semaphore: setting, changing and reading it.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::acquire::MAX_PERMITS;
use super::error::SemaphoreError;
use super::exchange::Source;
use super::permit_set::{PermitId, millis};
use crate::config::LONGEST_LEASE;
use crate::connection::{Client, FromReply, Request};
use crate::error::ServerError;
use crate::exactly_once::IdempotentScript;
use crate::lifetime::{LIFETIMES, LIFETIMES_EXPECTED};
use crate::name::InvalidName;
use crate::object::{Layout, Lifetime, Object};
use crate::script::Script;

static SET: IdempotentScript<2> = IdempotentScript::new("permits/set", include_str!("scripts/set.lua"));
static ADD: IdempotentScript<1> = IdempotentScript::new("permits/add", include_str!("scripts/add.lua"));
static DRAIN: IdempotentScript<1> = IdempotentScript::new("permits/drain", include_str!("scripts/drain.lua"));
static COUNT: Script<2> = Script::new("permits/count", include_str!("scripts/count.lua"));
static LEASE: Script<1> = Script::new("permits/lease", include_str!("scripts/lease.lua"));
static EXTEND: IdempotentScript<1> = IdempotentScript::new("permits/extend", include_str!("scripts/extend.lua"));
static RETURN: IdempotentScript<2> = IdempotentScript::new("permits/return", include_str!("scripts/return.lua"));

/// The shortest lease that an update sets.
const MIN_UPDATED_LEASE: Duration = Duration::from_millis(1);

/// The permits of a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// The number of available permits; negative if held permits were taken away. `None` if no
    /// permits were ever set.
    pub available: Option<i64>,
    /// The number of permits that are held with a lease.
    pub leased: u64,
}

/// What became of a permit that was returned by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// It was held until now.
    Released,
    /// Its lease had ended, and others may have had it.
    Expired,
    /// It is unknown: it was returned before, or its lease ended long ago.
    Unknown,
}

/// A semaphore's client and name, as its handles keep them.
#[derive(Clone)]
pub struct Counter {
    /// The client.
    pub client: Client,
    /// The semaphore; an invalid name is reported by the first call.
    pub source: Result<Arc<Source>, InvalidName>,
}

impl Counter {
    /// Creates a handle for the semaphore with this name, whose permits have leases or not.
    pub fn new(client: &Client, name: impl AsRef<str>, leased: bool) -> Self {
        Counter { client: client.clone(), source: Source::new(client, name, leased).map(Arc::new) }
    }

    /// Returns the same semaphore with this number of permits.
    ///
    /// It is set on first use. If the semaphore has another number by then, requests fail with
    /// [`PermitsDiffer`](super::AcquireError::PermitsDiffer).
    #[must_use]
    pub fn capacity(self, permits: u64) -> Self {
        self.with(|source| source.capacity = Some(permits))
    }

    /// Returns the same semaphore, where waiters are served in the order of their requests.
    #[must_use]
    pub fn fair(self) -> Self {
        self.with(|source| source.fair = true)
    }

    fn with(mut self, change: impl FnOnce(&mut Source)) -> Self {
        if let Ok(source) = &mut self.source {
            change(Arc::make_mut(source));
        }
        self
    }

    fn source(&self) -> Result<&Arc<Source>, SemaphoreError> {
        self.source.as_ref().map_err(|invalid| invalid.clone().into())
    }

    /// Returns the conversion of an error of a request that only reads.
    fn read_error(source: &Source) -> impl FnOnce(ServerError) -> SemaphoreError {
        let name = source.name.clone();
        |source| match source {
            ServerError::Unknown { .. } => SemaphoreError::Unavailable { name, source },
            other => SemaphoreError::of(name, other),
        }
    }

    fn write_error(source: &Source) -> impl FnOnce(ServerError) -> SemaphoreError {
        let name = source.name.clone();
        |error| SemaphoreError::of(name, error)
    }

    /// Sets the number of permits. With `overwrite`, it also replaces an earlier number.
    ///
    /// Returns whether that changed anything.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says whether the number may have been set.
    pub async fn set(&self, permits: u64, overwrite: bool, lifetime: Option<Duration>) -> Result<bool, SemaphoreError> {
        let source = self.source()?;
        check_range(source, "permits", 0..=MAX_PERMITS, permits, "0 to 2147483647")?;
        if let Some(lifetime) = lifetime {
            check_range(source, "lifetime", LIFETIMES, lifetime, LIFETIMES_EXPECTED)?;
        }
        let call = SET.with([source.key.clone(), source.leases.clone()]).publish_here().arg(source.channel.clone());
        let call = call.arg(permits.to_string()).arg(if overwrite { "1" } else { "0" });
        let call = call.arg(lifetime.map(|lifetime| millis(lifetime).to_string()).unwrap_or_default());
        let reply: Vec<i64> = self.client.run_exactly_once(call).await.map_err(Self::write_error(source))?;
        Ok(reply.first() == Some(&1))
    }

    /// Adds permits to the semaphore, or takes some away.
    ///
    /// Returns how many are available then. With `if_set`, returns `None` if no permits were set.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says whether the permits may have been added.
    pub async fn add(&self, permits: i64, if_set: bool) -> Result<Option<i64>, SemaphoreError> {
        let source = self.source()?;
        let max = i64::try_from(MAX_PERMITS).unwrap_or(i64::MAX);
        check_range(source, "permits", -max..=max, permits, "-2147483647 to 2147483647")?;
        let call = ADD.with([source.key.clone()]).publish_here().arg(source.channel.clone());
        let call = call.int(permits).arg(if if_set { "1" } else { "0" });
        let reply: Vec<i64> = self.client.run_exactly_once(call).await.map_err(Self::write_error(source))?;
        Ok(reply.get(1).copied().filter(|_| reply.first() == Some(&1)))
    }

    /// Adds permits that no guard holds, like [`Counter::add`]. Does nothing for 0 permits, as
    /// Redisson.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says whether the permits may have been added.
    pub async fn release(&self, permits: u32) -> Result<(), SemaphoreError> {
        match permits {
            0 => self.source().map(drop),
            permits => self.add(permits.into(), false).await.map(drop),
        }
    }

    /// Takes all available permits. Returns their number.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says whether the permits may have been taken.
    pub async fn drain(&self) -> Result<u64, SemaphoreError> {
        let source = self.source()?;
        let call = DRAIN.with([source.key.clone()]);
        let reply: Vec<u64> = self.client.run_exactly_once(call).await.map_err(Self::write_error(source))?;
        Ok(reply.first().copied().unwrap_or(0))
    }

    /// Returns the numbers of available and leased permits.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] if there was no reply.
    pub async fn count(&self) -> Result<Counts, SemaphoreError> {
        let source = self.source()?;
        let call = COUNT.with([source.key.clone(), source.leases.clone()]).reads();
        let (set, available, leased): (bool, i64, u64) =
            self.client.run(call).await.map_err(Self::read_error(source))?;
        Ok(Counts { available: set.then_some(available), leased })
    }

    /// Sets the lease of a permit from now on: 1 ms to 30 days. Returns whether the permit was
    /// held.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says whether the lease may have been set.
    pub async fn extend(&self, id: PermitId, lease: Duration) -> Result<bool, SemaphoreError> {
        let source = self.source()?;
        check_range(source, "lease", MIN_UPDATED_LEASE..=LONGEST_LEASE, lease, "1 ms to 30 days")?;
        let call = EXTEND.with([source.leases.clone()]).int(millis(lease)).arg(Bytes::copy_from_slice(id.as_bytes()));
        let reply: Vec<i64> = self.client.run_exactly_once(call).await.map_err(Self::write_error(source))?;
        Ok(reply.first() == Some(&1))
    }

    /// Returns the remaining lease of a permit.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] if there was no reply.
    pub async fn lease(&self, id: PermitId) -> Result<Lifetime, SemaphoreError> {
        let source = self.source()?;
        let call = LEASE.with([source.leases.clone()]).arg(Bytes::copy_from_slice(id.as_bytes())).reads();
        self.client.run(call).await.map(Lifetime::of).map_err(Self::read_error(source))
    }

    /// Returns a permit to the semaphore by its id, regardless of its holder.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says whether the permit may have been returned.
    pub async fn give_back(&self, id: PermitId) -> Result<Returned, SemaphoreError> {
        let source = self.source()?;
        let call = RETURN.with([source.key.clone(), source.leases.clone()]);
        let call = call.arg(Bytes::copy_from_slice(id.as_bytes())).publish_here().arg(source.channel.clone());
        let reply: Vec<i64> = self.client.run_exactly_once(call).await.map_err(Self::write_error(source))?;
        Ok(match reply.first() {
            Some(1) => Returned::Released,
            Some(0) => Returned::Expired,
            _ => Returned::Unknown,
        })
    }

    /// Returns the operations that every object has, for the keys of this `layout`.
    pub fn object(&self, layout: Layout) -> Object {
        let name = self.source.as_ref().map(|source| source.name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, layout)
    }

    /// Deletes the semaphore and the leases of all held permits. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says whether the semaphore may have been deleted.
    pub async fn delete(&self) -> Result<bool, SemaphoreError> {
        let source = self.source()?;
        let request = Request::command("DEL").keys([source.key.clone(), source.leases.clone()]);
        let deleted = self.client.run(request).await.and_then(u64::from_reply).map_err(Self::write_error(source))?;
        Ok(deleted > 0)
    }
}

/// Returns the request that returns a permit by its id. A second execution changes nothing.
pub(super) fn return_request(source: &Source, id: PermitId) -> Request {
    let call = RETURN.with([source.key.clone(), source.leases.clone()]);
    let call = call.arg(Bytes::copy_from_slice(id.as_bytes())).publish_here().arg(source.channel.clone());
    call.at_most_once().idempotent()
}

fn check_range<T: PartialOrd + Debug>(
    source: &Source,
    option: &'static str,
    range: RangeInclusive<T>,
    value: T,
    expected: &'static str,
) -> Result<(), SemaphoreError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(SemaphoreError::InvalidArgument { name: source.name.clone(), option, expected, got: format!("{value:?}") })
}
