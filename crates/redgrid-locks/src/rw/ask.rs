//! Asking to read or to write: options, then await.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::lock::{HoldGuard, LockKeys, LockProtocol};
use redgrid_core::name::InvalidName;

use super::RwLock;
use super::guards::{ReadGuard, UpgradableGuard, WriteGuard};
use super::kinds::{READING, WRITING};
use crate::AcquireError;
use crate::acquire::{Options, options};
use crate::driven::driven;
use crate::guard::LockGuard;
use crate::scripts::PLAIN;

/// Asks to read when awaited; made by [`RwLock::read`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Read(Options);

/// Tries to read when awaited; made by [`RwLock::try_read`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct TryRead(Options);

/// Asks to write when awaited; made by [`RwLock::write`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Write(Options);

/// Tries to write when awaited; made by [`RwLock::try_write`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct TryWrite(Options);

/// Asks to read, and perhaps to write later, when awaited; made by [`RwLock::upgradable_read`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct UpgradableRead(Options, Result<Arc<LockKeys>, InvalidName>);

options!(Read);
options!(TryRead);
options!(Write);
options!(TryWrite);
options!(UpgradableRead);

fn options_of(lock: &RwLock, kind: &'static dyn LockProtocol) -> Options {
    Options::new(&lock.client, &lock.target, kind).in_line(lock.line.clone())
}

impl Read {
    pub(super) fn new(lock: &RwLock) -> Self {
        Read(options_of(lock, &READING))
    }
}

impl TryRead {
    pub(super) fn new(lock: &RwLock) -> Self {
        TryRead(options_of(lock, &READING))
    }
}

impl Write {
    pub(super) fn new(lock: &RwLock) -> Self {
        Write(options_of(lock, &WRITING))
    }
}

impl TryWrite {
    pub(super) fn new(lock: &RwLock) -> Self {
        TryWrite(options_of(lock, &WRITING))
    }
}

impl UpgradableRead {
    pub(super) fn new(lock: &RwLock, gate: Result<Arc<LockKeys>, InvalidName>) -> Self {
        UpgradableRead(options_of(lock, &READING), gate)
    }
}

type Asking<T> = Pin<Box<dyn Future<Output = Result<T, AcquireError>> + Send>>;

impl IntoFuture for Read {
    type Output = Result<ReadGuard, AcquireError>;
    type IntoFuture = Asking<ReadGuard>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { Ok(ReadGuard::new(self.0.must().await?)) })
    }
}

impl IntoFuture for TryRead {
    type Output = Result<Option<ReadGuard>, AcquireError>;
    type IntoFuture = Asking<Option<ReadGuard>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.0.may().await?.map(ReadGuard::new)) })
    }
}

impl IntoFuture for Write {
    type Output = Result<WriteGuard, AcquireError>;
    type IntoFuture = Asking<WriteGuard>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { Ok(WriteGuard::new(self.0.must().await?)) })
    }
}

impl IntoFuture for TryWrite {
    type Output = Result<Option<WriteGuard>, AcquireError>;
    type IntoFuture = Asking<Option<WriteGuard>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.0.may().await?.map(WriteGuard::new)) })
    }
}

impl IntoFuture for UpgradableRead {
    type Output = Result<UpgradableGuard, AcquireError>;
    type IntoFuture = Asking<UpgradableGuard>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let UpgradableRead(read, gate) = self;
            let (client, read, gate) = (read.client().clone(), read.in_scope(), gate?);
            let name = read.name()?;
            let acquire = driven(&client, &name, read.wait, |left| {
                let (mut read, gate) = (read.clone(), Arc::clone(&gate));
                read.wait = left;
                both(read, gate)
            });
            let (gate, read) = acquire.await?;
            [&gate, &read].into_iter().for_each(HoldGuard::accept_member);
            Ok(UpgradableGuard::new(client, LockGuard::new(gate), ReadGuard::new(read)))
        })
    }
}

/// Acquires the right to upgrade and then the read. One holder has the right at a time: two would wait for each other.
async fn both(mut read: Options, gate: Arc<LockKeys>) -> Result<(HoldGuard, HoldGuard), AcquireError> {
    let (clock, wait) = (read.client().clock().clone(), read.wait);
    let began = clock.now();
    let mut right = read.clone().of(&gate, &PLAIN);
    // It lasts as long as the read does, however long that is: renewed until it is released.
    (right.at_least, right.lease, right.max_hold) = (Duration::ZERO, None, None);
    let right = right.step().await?;
    read.wait = wait.map(|wait| wait.saturating_sub(clock.now().since(began)));
    Ok((right, read.step().await?))
}
