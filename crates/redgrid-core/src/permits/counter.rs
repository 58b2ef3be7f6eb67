//! How many permits a semaphore has: to set, to change and to ask, for everybody.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::acquire::MOST;
use super::error::SemaphoreError;
use super::exchange::Source;
use super::stock::{PermitId, millis};
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

/// The shortest that a lease is set to from now on.
const SHORTEST: Duration = Duration::from_millis(1);

/// How many permits a semaphore has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Those that are left; fewer than none where some were taken away that are held. `None` where none were ever set.
    pub available: Option<i64>,
    /// Those that are held with a lease.
    pub leased: u64,
}

/// What became of a permit that was given back by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// It was held until now.
    Released,
    /// Its lease had ended, and others may have had it.
    Expired,
    /// It is not known: given back before, or its lease is long over.
    Unknown,
}

/// A semaphore's client and name, as its handles keep them.
#[derive(Clone)]
pub struct Counter {
    /// The client.
    pub client: Client,
    /// The semaphore; an invalid name is told by the first call.
    pub source: Result<Arc<Source>, InvalidName>,
}

impl Counter {
    /// The semaphore with this name.
    pub fn new(client: &Client, name: impl AsRef<str>, leased: bool) -> Self {
        Counter { client: client.clone(), source: Source::new(client, name, leased).map(Arc::new) }
    }

    /// The same semaphore, whose permits have leases or do not.
    #[must_use]
    pub fn leased(self, leased: bool) -> Self {
        self.with(|source| source.leased = leased)
    }

    /// The same semaphore, where those who wait are served in the order of asking.
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

    /// What became of a question, which changes nothing.
    fn unread(source: &Source) -> impl FnOnce(ServerError) -> SemaphoreError {
        let name = source.name.clone();
        |source| match source {
            ServerError::Unknown { .. } => SemaphoreError::Unavailable { name, source },
            other => SemaphoreError::of(name, other),
        }
    }

    fn failed(source: &Source) -> impl FnOnce(ServerError) -> SemaphoreError {
        let name = source.name.clone();
        |error| SemaphoreError::of(name, error)
    }

    /// Sets how many permits there are; `anew` also where some were set before. Tells whether that changed anything.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    pub async fn set(&self, permits: u64, anew: bool, lifetime: Option<Duration>) -> Result<bool, SemaphoreError> {
        let source = self.source()?;
        within(source, "permits", 0..=MOST, permits, "0 to 2147483647")?;
        if let Some(lifetime) = lifetime {
            within(source, "lifetime", LIFETIMES, lifetime, LIFETIMES_EXPECTED)?;
        }
        let call = SET.with([source.key.clone(), source.leases.clone()]).publish_here().arg(source.channel.clone());
        let call = call.arg(permits.to_string()).arg(if anew { "1" } else { "0" });
        let call = call.arg(lifetime.map(|lifetime| millis(lifetime).to_string()).unwrap_or_default());
        let answer: Vec<i64> = self.client.run_exactly_once(call).await.map_err(Self::failed(source))?;
        Ok(answer.first() == Some(&1))
    }

    /// Adds permits for everybody, or takes some away. Tells how many are left; `None` where none were set, and that was
    /// asked for.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    pub async fn add(&self, permits: i64, if_set: bool) -> Result<Option<i64>, SemaphoreError> {
        let source = self.source()?;
        let most = i64::try_from(MOST).unwrap_or(i64::MAX);
        within(source, "permits", -most..=most, permits, "-2147483647 to 2147483647")?;
        let call = ADD.with([source.key.clone()]).publish_here().arg(source.channel.clone());
        let call = call.int(permits).arg(if if_set { "1" } else { "0" });
        let answer: Vec<i64> = self.client.run_exactly_once(call).await.map_err(Self::failed(source))?;
        Ok(answer.get(1).copied().filter(|_| answer.first() == Some(&1)))
    }

    /// Gives permits back that no guard has, as [`Counter::add`]; 0 permits are nothing to do, as with Redisson.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    pub async fn release(&self, permits: u32) -> Result<(), SemaphoreError> {
        match permits {
            0 => self.source().map(drop),
            permits => self.add(permits.into(), false).await.map(drop),
        }
    }

    /// Takes all permits that are left.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    pub async fn drain(&self) -> Result<u64, SemaphoreError> {
        let source = self.source()?;
        let call = DRAIN.with([source.key.clone()]);
        let answer: Vec<u64> = self.client.run_exactly_once(call).await.map_err(Self::failed(source))?;
        Ok(answer.first().copied().unwrap_or(0))
    }

    /// How many permits there are.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] when it could not be asked.
    pub async fn count(&self) -> Result<Counts, SemaphoreError> {
        let source = self.source()?;
        let call = COUNT.with([source.key.clone(), source.leases.clone()]).reads();
        let (set, available, leased): (bool, i64, u64) = self.client.run(call).await.map_err(Self::unread(source))?;
        Ok(Counts { available: set.then_some(available), leased })
    }

    /// Sets the lease of a permit from now on, 1 ms to 30 days. Tells whether it was held.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    pub async fn extend(&self, id: PermitId, lease: Duration) -> Result<bool, SemaphoreError> {
        let source = self.source()?;
        within(source, "lease", SHORTEST..=LONGEST_LEASE, lease, "1 ms to 30 days")?;
        let call = EXTEND.with([source.leases.clone()]).int(millis(lease)).arg(Bytes::copy_from_slice(id.as_bytes()));
        let answer: Vec<i64> = self.client.run_exactly_once(call).await.map_err(Self::failed(source))?;
        Ok(answer.first() == Some(&1))
    }

    /// How long a permit is still leased.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] when it could not be asked.
    pub async fn lease(&self, id: PermitId) -> Result<Lifetime, SemaphoreError> {
        let source = self.source()?;
        let call = LEASE.with([source.leases.clone()]).arg(Bytes::copy_from_slice(id.as_bytes())).reads();
        self.client.run(call).await.map(Lifetime::of).map_err(Self::unread(source))
    }

    /// Gives a permit back by its id, whoever has it.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    pub async fn give_back(&self, id: PermitId) -> Result<Returned, SemaphoreError> {
        let source = self.source()?;
        let call = RETURN.with([source.key.clone(), source.leases.clone()]);
        let call = call.arg(Bytes::copy_from_slice(id.as_bytes())).publish_here().arg(source.channel.clone());
        let answer: Vec<i64> = self.client.run_exactly_once(call).await.map_err(Self::failed(source))?;
        Ok(match answer.first() {
            Some(1) => Returned::Released,
            Some(0) => Returned::Expired,
            _ => Returned::Unknown,
        })
    }

    /// What every object has, of one with these keys.
    pub fn object(&self, layout: Layout) -> Object {
        let name = self.source.as_ref().map(|source| source.name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, layout)
    }

    /// Deletes the semaphore, and with it the leases of those who hold permits. Tells whether there was one.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    pub async fn delete(&self) -> Result<bool, SemaphoreError> {
        let source = self.source()?;
        let request = Request::command("DEL").keys([source.key.clone(), source.leases.clone()]);
        let deleted = self.client.run(request).await.and_then(u64::from_reply).map_err(Self::failed(source))?;
        Ok(deleted > 0)
    }
}

/// Gives a permit back by its id. Carried out once more it changes nothing.
pub(super) fn return_of(source: &Source, id: PermitId) -> Request {
    let call = RETURN.with([source.key.clone(), source.leases.clone()]);
    let call = call.arg(Bytes::copy_from_slice(id.as_bytes())).publish_here().arg(source.channel.clone());
    call.at_most_once().idempotent()
}

fn within<T: PartialOrd + Debug>(
    source: &Source,
    option: &'static str,
    range: RangeInclusive<T>,
    given: T,
    expected: &'static str,
) -> Result<(), SemaphoreError> {
    if range.contains(&given) {
        return Ok(());
    }
    Err(SemaphoreError::InvalidArgument { name: source.name.clone(), option, expected, got: format!("{given:?}") })
}
