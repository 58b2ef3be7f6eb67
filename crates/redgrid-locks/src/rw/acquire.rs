//! Acquire builders of a read-write lock: options first, then `.await`.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::author::{ClientExt, LockExt, LockProtocol};
use redgrid_core::lock::{HoldGuard, LockKeys};
use redgrid_core::name::InvalidName;

use super::RwLock;
use super::guards::{ReadGuard, WriteGuard};
use super::kinds::{READING, WRITING};
use super::upgrade::UpgradableGuard;
use crate::AcquireError;
use crate::acquire::{AcquireBuilder, AcquireOptions};
use crate::drive::drive;
use crate::fair::FAIR;
use crate::lock::LockGuard;
use crate::options::option_methods;
use crate::scripts::PLAIN;

/// The longest lease of an entry gate: 5 s, or the configured lease if that is shorter.
///
/// If the process that holds the gate dies, the gate stays closed for at most this long.
const ENTRY_GATE_LEASE: Duration = Duration::from_secs(5);

/// Acquires the lock for reading when awaited; made by [`RwLock::read`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Read(AcquireBuilder);

/// Tries to acquire the lock for reading when awaited; made by [`RwLock::try_read`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct TryRead(AcquireBuilder);

/// Acquires the lock for writing when awaited; made by [`RwLock::write`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Write(AcquireBuilder);

/// Tries to acquire the lock for writing when awaited; made by [`RwLock::try_write`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct TryWrite(AcquireBuilder);

/// Acquires the lock for reading, with the right to upgrade, when awaited; made by
/// [`RwLock::upgradable_read`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct UpgradableRead(AcquireBuilder, Result<Arc<LockKeys>, InvalidName>);

option_methods!(Read);
option_methods!(TryRead);
option_methods!(Write);
option_methods!(TryWrite);
option_methods!(UpgradableRead);

fn builder_for(lock: &RwLock, kind: &'static dyn LockProtocol) -> AcquireBuilder {
    AcquireBuilder::new(&lock.client, &lock.target, kind).with_entry_gate(lock.entry_gate.clone())
}

impl Read {
    pub(super) fn new(lock: &RwLock) -> Self {
        Read(builder_for(lock, &READING))
    }
}

impl TryRead {
    pub(super) fn new(lock: &RwLock) -> Self {
        TryRead(builder_for(lock, &READING))
    }
}

impl Write {
    pub(super) fn new(lock: &RwLock) -> Self {
        Write(builder_for(lock, &WRITING))
    }
}

impl TryWrite {
    pub(super) fn new(lock: &RwLock) -> Self {
        TryWrite(builder_for(lock, &WRITING))
    }
}

impl UpgradableRead {
    pub(super) fn new(lock: &RwLock, upgrade_lock: Result<Arc<LockKeys>, InvalidName>) -> Self {
        UpgradableRead(builder_for(lock, &READING), upgrade_lock)
    }
}

type AcquireFuture<T> = Pin<Box<dyn Future<Output = Result<T, AcquireError>> + Send>>;

impl IntoFuture for Read {
    type Output = Result<ReadGuard, AcquireError>;
    type IntoFuture = AcquireFuture<ReadGuard>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { Ok(ReadGuard::new(self.0.acquire().await?)) })
    }
}

impl IntoFuture for TryRead {
    type Output = Result<Option<ReadGuard>, AcquireError>;
    type IntoFuture = AcquireFuture<Option<ReadGuard>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.0.try_acquire().await?.map(ReadGuard::new)) })
    }
}

impl IntoFuture for Write {
    type Output = Result<WriteGuard, AcquireError>;
    type IntoFuture = AcquireFuture<WriteGuard>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { Ok(WriteGuard::new(self.0.acquire().await?)) })
    }
}

impl IntoFuture for TryWrite {
    type Output = Result<Option<WriteGuard>, AcquireError>;
    type IntoFuture = AcquireFuture<Option<WriteGuard>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.0.try_acquire().await?.map(WriteGuard::new)) })
    }
}

impl IntoFuture for UpgradableRead {
    type Output = Result<UpgradableGuard, AcquireError>;
    type IntoFuture = AcquireFuture<UpgradableGuard>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let UpgradableRead(read, upgrade_lock) = self;
            let client = read.client().clone();
            let read = read.in_scope();
            let upgrade_lock = upgrade_lock?;
            let name = read.name()?;
            let acquire = drive(&client, &name, read.wait, |remaining| {
                let (mut read, upgrade_lock) = (read.clone(), Arc::clone(&upgrade_lock));
                read.wait = remaining;
                acquire_upgradable(read, upgrade_lock)
            });
            let (upgrade_lock, read) = acquire.await?;
            [&upgrade_lock, &read].into_iter().for_each(HoldGuard::accept_member);
            Ok(UpgradableGuard::new(client, LockGuard::new(upgrade_lock), ReadGuard::new(read)))
        })
    }
}

/// Acquires the upgrade lock and then the read lock.
///
/// The upgrade lock has one holder at a time: otherwise two upgrading readers would wait for each
/// other.
async fn acquire_upgradable(
    mut read: AcquireBuilder,
    upgrade_lock: Arc<LockKeys>,
) -> Result<(HoldGuard, HoldGuard), AcquireError> {
    let (clock, wait) = (read.client().clock().clone(), read.wait);
    let began = clock.now();
    let mut upgrade = read.clone().for_lock(&upgrade_lock, &PLAIN);
    // The upgrade lock lasts as long as the read: it is renewed until it is released.
    upgrade.at_least = Duration::ZERO;
    upgrade.lease = None;
    upgrade.max_hold = None;
    let upgrade = upgrade.acquire_member().await?;
    read.wait = wait.map(|wait| wait.saturating_sub(clock.now().since(began)));
    Ok((upgrade, read.acquire_member().await?))
}

impl AcquireBuilder {
    /// Requests the lock while holding the entry gate.
    pub(crate) async fn attempt_through_gate(
        &self,
        entry_gate: &Arc<LockKeys>,
        try_only: bool,
    ) -> Result<Option<HoldGuard>, AcquireError> {
        let (request, target) = (self.request(try_only)?, self.target.as_ref().map_err(Clone::clone)?);
        if self.client.is_in(self.kind, target, request.holder) {
            // The holder re-enters without the gate: the requests at the gate wait for this holder.
            return self.attempt_directly(try_only).await;
        }
        let granted = drive(&self.client, &target.name, self.wait, |remaining| {
            let (mut builder, entry_gate) = (self.clone().in_scope(), Arc::clone(entry_gate));
            builder.wait = remaining;
            async move { builder.pass_gate(entry_gate, try_only).await }
        });
        Ok(granted.await?.inspect(HoldGuard::accept_member))
    }

    /// Acquires the entry gate, requests the lock, and releases the gate.
    ///
    /// The grant is reserved: its caller does not have it yet.
    pub(crate) async fn pass_gate(
        mut self,
        entry_gate: Arc<LockKeys>,
        try_only: bool,
    ) -> Result<Option<HoldGuard>, AcquireError> {
        let began = self.client.clock().now();
        let gate_lease = ENTRY_GATE_LEASE.min(self.client.watchdog_lease());
        let options = AcquireOptions { wait: self.wait, renewed_lease: Some(gate_lease), ..AcquireOptions::default() };
        let gate = self.clone().with_options(&options).for_lock(&entry_gate, &FAIR);
        let Some(gate) = gate.attempt_directly(try_only).await? else { return Ok(None) };
        self.wait = self.wait.map(|wait| wait.saturating_sub(self.client.clock().now().since(began)));
        let outcome = self.enter(try_only)?.member().await;
        // The lock is granted or the request given up: the next waiter at the gate may request the
        // lock. The release of the gate is not awaited.
        drop(gate);
        outcome
    }
}
