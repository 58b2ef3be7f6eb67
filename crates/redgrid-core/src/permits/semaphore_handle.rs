//! The handle of a semaphore. It sets, changes and reads the number of permits.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::{Client, FromReply, Request, Script, ServerError};
use tokio::sync::watch;

use super::acquire::MAX_PERMITS;
use super::exchange::SemaphoreKeys;
use super::permit_set::{PermitId, millis};
use crate::author::ClientExt;
use crate::config::LONGEST_LEASE;
use crate::exactly_once::{IdempotentRequest, IdempotentScript};
use crate::failure::{Failure, Operation};
use crate::lifetime::{LIFETIMES, LIFETIMES_EXPECTED};
use crate::name::InvalidName;
use crate::object::layouts::permit_expirable_semaphore;
use crate::object::{Lifetime, Object};

static SET: IdempotentScript<2> = IdempotentScript::new("permits/set", include_str!("scripts/set.lua"));
static ADD: IdempotentScript<1> = IdempotentScript::new("permits/add", include_str!("scripts/add.lua"));
static DRAIN: IdempotentScript<1> = IdempotentScript::new("permits/drain", include_str!("scripts/drain.lua"));
static COUNT: Script<2> = Script::new("permits/count", include_str!("scripts/count.lua"));
static LEASE: Script<1> = Script::new("permits/lease", include_str!("scripts/lease.lua"));
static EXTEND: IdempotentScript<1> = IdempotentScript::new("permits/extend", include_str!("scripts/extend.lua"));
static RETURN: IdempotentScript<2> = IdempotentScript::new("permits/return", include_str!("scripts/return.lua"));

/// The shortest lease that [`SemaphoreHandle::extend`] sets.
const MIN_UPDATED_LEASE: Duration = Duration::from_millis(1);

/// How many permits of a semaphore are available, and how many are leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The number of available permits. It is negative if the number of permits was lowered below
    /// the number of held ones. `None` if no permits were ever set.
    pub available: Option<i64>,
    /// The number of permits that are held and have a lease.
    pub leased: u64,
}

/// The outcome of returning a permit by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Returned {
    /// The permit was held, and its lease had not ended.
    Released,
    /// The lease of the permit had ended, but the permit still counted as held. This call has
    /// returned it.
    Expired,
    /// No held permit has this id: the permit was returned before, or became available after its
    /// lease had ended.
    Unknown,
}

/// The handle of a semaphore, with its client and its name. Each type of semaphore contains one.
#[derive(Clone)]
pub struct SemaphoreHandle {
    /// The client.
    pub client: Client,
    /// The description of the semaphore. If the name is invalid, the first call reports this.
    pub keys: Result<Arc<SemaphoreKeys>, InvalidName>,
    /// Whether the handle was closed; shared by its clones.
    closed: Arc<watch::Sender<bool>>,
}

impl SemaphoreHandle {
    /// Creates a handle for the semaphore with this name. `leased` says whether its permits have
    /// leases.
    pub fn new(client: &Client, name: impl AsRef<str>, leased: bool) -> Self {
        let keys = SemaphoreKeys::new(client, name, leased).map(Arc::new);
        SemaphoreHandle { client: client.clone(), keys, closed: Arc::new(watch::Sender::new(false)) }
    }

    /// Returns the same handle with a capacity: the number of all permits of the semaphore.
    ///
    /// The number is set on first use. If the semaphore already has another number, requests fail
    /// with [`PermitsDiffer`](super::AcquireError::PermitsDiffer).
    #[must_use]
    pub fn capacity(self, permits: u64) -> Self {
        self.with(|keys| keys.capacity = Some(permits))
    }

    /// Returns the same handle in fair mode. Waiting requests of fair handles are served in the
    /// order in which they reach the server.
    #[must_use]
    pub fn fair(self) -> Self {
        self.with(|keys| keys.fair = true)
    }

    /// Returns the same handle with a label `family` for metrics and spans.
    #[must_use]
    pub fn family(self, family: &'static str) -> Self {
        self.with(|keys| keys.family = family)
    }

    fn with(mut self, change: impl FnOnce(&mut SemaphoreKeys)) -> Self {
        if let Ok(keys) = &mut self.keys {
            change(Arc::make_mut(keys));
        }
        self
    }

    /// Ends all pending requests of the handle and its clones, and rejects later requests.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Returns whether the handle was closed.
    pub fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Completes when the handle is closed.
    pub(super) async fn closed(&self) {
        // The handle keeps the sender alive, so the wait does not fail.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    fn keys(&self) -> Result<&Arc<SemaphoreKeys>, Failure> {
        self.keys.as_ref().map_err(|invalid| invalid.clone().into())
    }

    /// Runs a call that changes the semaphore.
    async fn change<T: FromReply>(&self, keys: &SemaphoreKeys, call: IdempotentRequest) -> Result<Vec<T>, Failure> {
        self.client.run_exactly_once(call).await.map_err(|error| Self::change_error(keys, error))
    }

    fn change_error(keys: &SemaphoreKeys, error: ServerError) -> Failure {
        Failure::of_change(Operation::new("change the semaphore", &keys.name), error.of_object())
    }

    /// Runs a call that only reads.
    async fn read<T: FromReply>(&self, keys: &SemaphoreKeys, call: Request) -> Result<T, Failure> {
        let operation = Operation::new("read the semaphore", &keys.name);
        self.client.run(call.reads()).await.map_err(|error| Failure::of_read(operation, error.of_object()))
    }

    /// Sets the number of permits if no number is set. With `overwrite`, also replaces a number
    /// that was set before.
    ///
    /// Returns whether the number has changed.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the number may have been set.
    pub async fn set(&self, permits: u64, overwrite: bool, lifetime: Option<Duration>) -> Result<bool, Failure> {
        let keys = self.keys()?;
        check_range(keys, "permits", 0..=MAX_PERMITS, permits, "0 to 2147483647")?;
        if let Some(lifetime) = lifetime {
            check_range(keys, "lifetime", LIFETIMES, lifetime, LIFETIMES_EXPECTED)?;
        }
        let call = SET.with([keys.key.clone(), keys.leases.clone()]).publish_arg().arg(keys.channel.clone());
        let call = call.arg(permits.to_string()).arg(if overwrite { "1" } else { "0" });
        let call = call.arg(lifetime.map(|lifetime| millis(lifetime).to_string()).unwrap_or_default());
        let reply: Vec<i64> = self.change(keys, call).await?;
        Ok(reply.first() == Some(&1))
    }

    /// Adds permits to the semaphore. A negative number takes permits away.
    ///
    /// Returns the number of available permits afterwards. If the number of permits is not set and
    /// `if_set` is true, does nothing and returns `None`.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the permits may have been added.
    pub async fn add(&self, permits: i64, if_set: bool) -> Result<Option<i64>, Failure> {
        let keys = self.keys()?;
        let max = i64::try_from(MAX_PERMITS).unwrap_or(i64::MAX);
        check_range(keys, "permits", -max..=max, permits, "-2147483647 to 2147483647")?;
        let call = ADD.with([keys.key.clone()]).publish_arg().arg(keys.channel.clone());
        let call = call.int(permits).arg(if if_set { "1" } else { "0" });
        let reply: Vec<i64> = self.change(keys, call).await?;
        Ok(reply.get(1).copied().filter(|_| reply.first() == Some(&1)))
    }

    /// Gives back permits that no guard holds, by adding them to the available ones as
    /// [`SemaphoreHandle::add`] does. Does nothing for 0 permits, as in Redisson.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the permits may have been added.
    pub async fn release(&self, permits: u32) -> Result<(), Failure> {
        match permits {
            0 => self.keys().map(drop),
            permits => self.add(permits.into(), false).await.map(drop),
        }
    }

    /// Takes all available permits. Returns their number.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the permits may have been taken.
    pub async fn drain(&self) -> Result<u64, Failure> {
        let keys = self.keys()?;
        let call = DRAIN.with([keys.key.clone()]);
        let reply: Vec<u64> = self.change(keys, call).await?;
        Ok(reply.first().copied().unwrap_or(0))
    }

    /// Returns the numbers of available and leased permits.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the request fails.
    pub async fn count(&self) -> Result<Counts, Failure> {
        let keys = self.keys()?;
        let call = COUNT.with([keys.key.clone(), keys.leases.clone()]);
        let (set, available, leased): (bool, i64, u64) = self.read(keys, call).await?;
        Ok(Counts { available: set.then_some(available), leased })
    }

    /// Sets the lease of a permit to `lease` (1 ms to 30 days), counted from now. Returns whether
    /// the permit was held.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the lease may have been set.
    pub async fn extend(&self, id: PermitId, lease: Duration) -> Result<bool, Failure> {
        let keys = self.keys()?;
        check_range(keys, "lease", MIN_UPDATED_LEASE..=LONGEST_LEASE, lease, "1 ms to 30 days")?;
        let call = EXTEND.with([keys.leases.clone()]).int(millis(lease)).arg(Bytes::copy_from_slice(id.as_bytes()));
        let reply: Vec<i64> = self.change(keys, call).await?;
        Ok(reply.first() == Some(&1))
    }

    /// Returns the remaining lease of a permit.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the request fails.
    pub async fn lease(&self, id: PermitId) -> Result<Lifetime, Failure> {
        let keys = self.keys()?;
        let call = LEASE.with([keys.leases.clone()]).arg(Bytes::copy_from_slice(id.as_bytes()));
        self.read(keys, call).await.map(Lifetime::of)
    }

    /// Returns a permit to the semaphore by its id, regardless of its holder.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the permit may have been returned.
    pub async fn give_back(&self, id: PermitId) -> Result<Returned, Failure> {
        let keys = self.keys()?;
        let reply: Vec<i64> = self.change(keys, return_call(keys, id)).await?;
        Ok(match reply.first() {
            Some(1) => Returned::Released,
            Some(0) => Returned::Expired,
            _ => Returned::Unknown,
        })
    }

    /// Returns the [`Object`] of the semaphore, which has the operations of every object.
    pub fn object(&self) -> Object {
        let name = self.keys.as_ref().map(|keys| keys.name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, permit_expirable_semaphore)
    }

    /// Deletes the semaphore, including the leases of all held permits. Returns whether the
    /// semaphore existed.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the semaphore may have been deleted.
    pub async fn delete(&self) -> Result<bool, Failure> {
        let keys = self.keys()?;
        let request = Request::command("DEL").keys([keys.key.clone(), keys.leases.clone()]);
        let deleted: u64 = self.client.run(request).await.map_err(|error| Self::change_error(keys, error))?;
        Ok(deleted > 0)
    }
}

/// Builds the request that returns a permit by its id. A second execution of the request changes
/// nothing.
pub(super) fn return_request(keys: &SemaphoreKeys, id: PermitId) -> Request {
    return_call(keys, id).at_most_once().idempotent()
}

fn return_call(keys: &SemaphoreKeys, id: PermitId) -> IdempotentRequest {
    let call = RETURN.with([keys.key.clone(), keys.leases.clone()]);
    call.arg(Bytes::copy_from_slice(id.as_bytes())).publish_arg().arg(keys.channel.clone())
}

fn check_range<T: PartialOrd + Debug>(
    keys: &SemaphoreKeys,
    option: &'static str,
    range: RangeInclusive<T>,
    value: T,
    expected: &'static str,
) -> Result<(), Failure> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(Failure::invalid_argument(&keys.name, option, expected, format!("{value:?}")))
}
