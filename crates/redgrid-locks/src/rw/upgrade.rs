//! A read that may become a write, and its announcement.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::lock::{LockKeys, LostReason, ReleaseError};
use redgrid_core::{Client, Watch};

use super::guards::{ReadGuard, WriteGuard, loss};
use super::kinds::{self, ANNOUNCEMENT_INTERVAL};
use crate::AcquireError;
use crate::lock::LockGuard;
use crate::with::LockLost;

/// Number of polls of an upgrading reader within the poll interval: 3, one each third of a second.
///
/// It polls whether it is the only reader. Redgrid readers notify it when they leave; those of
/// Redisson do not.
const POLLS_PER_INTERVAL: u32 = 3;

/// A read with the right to upgrade. There may be other readers, but no other upgradable one.
///
/// The right to upgrade is a second redgrid lock. Redisson has no such read: its writers and
/// readers see an ordinary reader.
#[must_use = "dropping the guard releases the read lock"]
#[derive(Debug)]
pub struct UpgradableGuard {
    client: Client,
    read: ReadGuard,
    upgrade_lock: LockGuard,
}

impl UpgradableGuard {
    pub(super) fn new(client: Client, upgrade_lock: LockGuard, read: ReadGuard) -> Self {
        UpgradableGuard { client, read, upgrade_lock }
    }

    /// Returns whether the hold is valid at this instant, by the local clock and with a margin.
    ///
    /// It sends no request.
    pub fn is_held(&self) -> bool {
        self.read.is_held() && self.upgrade_lock.is_held()
    }

    /// Completes when the read or the right to upgrade is no longer certain.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LostReason {
        tokio::select! {
            reason = self.read.lost() => reason,
            reason = self.upgrade_lock.lost() => reason,
        }
    }

    /// Converts the read into a write, and waits until all other readers have left.
    ///
    /// New redgrid readers wait meanwhile; those of Redisson do not. A crashed reader is waited for
    /// until its own lease has ended.
    ///
    /// # Errors
    ///
    /// [`UpgradeError::Held`]; [`UpgradeError::Lost`], also for the loss of the right to upgrade.
    /// Never [`UpgradeError::Busy`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the read and the write are released. Readers that waited
    /// behind the upgrade are notified.
    pub async fn upgrade(self) -> Result<WriteGuard, UpgradeError> {
        let UpgradableGuard { client, mut read, upgrade_lock } = self;
        let mut announcement = Announcement::new(&client, &read);
        let mut watch = client.watch(announcement.target.channel.clone(), announcement.target.key.clone());
        loop {
            if let Some(lost) = loss(&upgrade_lock) {
                // Another reader may be upgrading by now, and the two readers would wait for each
                // other.
                return Err(UpgradeError::Lost(lost));
            }
            let shared = read.0.grant().is_shared();
            read = match read.try_upgrade().await {
                Err(UpgradeError::Busy(read)) => *read,
                Ok(write) => {
                    announcement.set_withdrawn();
                    return Ok(write);
                }
                Err(error) => return Err(error),
            };
            if announcement.sent.is_none() {
                // The announcement precedes the next attempt: readers that leave after it notify
                // this reader.
                announcement.send().await;
            } else {
                announcement.wait_for_change(&mut watch, &read, shared).await;
            }
        }
    }

    /// Gives up the right to upgrade, and returns an ordinary read.
    pub fn downgrade(self) -> ReadGuard {
        self.read
    }

    /// Releases the read and the right to upgrade, and waits for the replies of the server.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when one of them had ended before.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the release goes on in the background.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let (read, upgrade_lock) = tokio::join!(self.read.release(), self.upgrade_lock.release());
        read.and(upgrade_lock)
    }
}

/// The announcement of an upgrading reader, behind which new readers wait. Dropping it withdraws
/// it.
struct Announcement {
    client: Client,
    target: Arc<LockKeys>,
    /// The holder field of the reader. Other tasks of this client have announcements of their own.
    waiter: Bytes,
    number: u64,
    /// When it was last sent.
    sent: Option<Instant>,
}

impl Announcement {
    fn new(client: &Client, read: &ReadGuard) -> Self {
        let grant = read.0.grant();
        let (target, waiter) = (Arc::clone(grant.keys()), grant.field());
        Announcement { client: client.clone(), target, waiter, number: 0, sent: None }
    }

    async fn send(&mut self) {
        // Recorded first: if the future is dropped, the request may still be executed.
        self.sent = Some(self.client.clock().now());
        self.number += 1;
        // If the server refuses the announcement, new readers do not wait behind this one.
        let request = kinds::announce_request(&self.target, self.waiter.clone(), self.number);
        let _ = self.client.run::<u64>(request).await;
    }

    /// Records that the grant of the write has removed the announcement.
    fn set_withdrawn(&mut self) {
        self.sent = None;
    }

    /// Waits until a reader has left, or may have left without a message. Repeats the announcement.
    async fn wait_for_change(&mut self, watch: &mut Watch, read: &ReadGuard, shared: bool) {
        let clock = self.client.clock().clone();
        let poll = clock.now() + self.client.poll_interval() / POLLS_PER_INTERVAL;
        let mut unshared = pin!(read.0.grant().unshared());
        loop {
            let next_send = self.sent.map_or(Instant::MIN, |sent| sent + ANNOUNCEMENT_INTERVAL);
            tokio::select! {
                // Many messages must not delay the announcement.
                biased;
                () = clock.sleep_until(next_send) => self.send().await,
                _ = watch.wake() => return,
                () = &mut unshared, if shared => return,
                () = clock.sleep_until(poll) => return self.evict_expired().await,
            }
        }
    }

    /// Evicts readers with expired leases.
    ///
    /// They would not expire with the key of the lock, because this reader keeps that key alive.
    async fn evict_expired(&self) {
        let Ok(holders) = self.client.run::<Vec<Bytes>>(kinds::holders_request(&self.target)).await else { return };
        for request in kinds::evict_expired_requests(&self.target, &holders) {
            let _ = self.client.run::<u64>(request).await;
        }
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if self.sent.is_some() {
            self.client.run_detached(kinds::withdraw_request(&self.target, self.waiter.clone(), self.number));
        }
    }
}

/// Reason why an upgrade failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// There are other readers. The read is still held.
    #[error("cannot upgrade `{}`: others are reading; the read is still held", .0.name())]
    Busy(Box<ReadGuard>),
    /// The request failed. The read is still held.
    #[error("cannot upgrade, the read is still held: {source}")]
    Held {
        /// The guard of the read.
        guard: Box<ReadGuard>,
        /// The cause.
        source: AcquireError,
    },
    /// The read is lost.
    #[error(transparent)]
    Lost(#[from] LockLost),
}
