//! The proofs of a read and of a write, and how one becomes the other.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::lock::{AcquireRequest, ExtendError, HoldGuard, HoldWatch, LockKeys, LostReason, ReleaseError};
use redgrid_core::{Client, Name, Token, Watch};

use super::kinds::{self, READING, SAYS, WRITING};
use crate::AcquireError;
use crate::guard::{LockGuard, LockLost};

/// A reader that waits to write looks so many times within the poll interval (so, each third of a second) whether it is the
/// only one. Readers of this toolkit tell it when they leave; those of Redisson do not.
const LOOKS: u32 = 3;

/// A read: many have one at a time, and nobody writes meanwhile. Dropping it ends it in the background;
/// [`ReadGuard::release`] waits and tells.
///
/// It has no fencing token: readers change nothing. Owned, `Send` and `Sync`; renewed while it lives unless a fixed lease was
/// set.
#[must_use = "dropping the guard ends the read"]
pub struct ReadGuard(LockGuard);

/// A write: one at a time, and nobody reads meanwhile but its own holder. Dropping it ends it in the background;
/// [`WriteGuard::release`] waits and tells.
#[must_use = "dropping the guard ends the write"]
pub struct WriteGuard(LockGuard);

/// What the guards of a read-write lock do as that of a lock does.
macro_rules! held {
    ($guard:ident) => {
        impl $guard {
            pub(super) fn new(grant: HoldGuard) -> Self {
                $guard(LockGuard::new(grant))
            }

            /// The name of the lock.
            pub fn name(&self) -> &Name {
                self.0.name()
            }

            /// Whether it may be believed at this instant, by our own clock and with a margin. Asks nobody.
            pub fn is_held(&self) -> bool {
                self.0.is_held()
            }

            /// How long it may be believed without a further renewal; zero when it is lost.
            pub fn remaining(&self) -> Duration {
                self.0.remaining()
            }

            /// Completes when it is no longer certain: its lease was not confirmed in time, it is gone from the server, or
            /// it was taken by force.
            ///
            /// # Cancel safety
            ///
            /// Dropping it changes nothing.
            pub async fn lost(&self) -> LostReason {
                self.0.lost().await
            }

            /// A view of the hold for other tasks. It does not keep it.
            pub fn watch(&self) -> HoldWatch {
                self.0.watch()
            }

            /// Runs `work` while it is held, and drops it when it is lost.
            ///
            /// # Errors
            ///
            /// [`LockLost`] when it was lost first; the work is dropped then.
            ///
            /// # Cancel safety
            ///
            /// Dropping it drops the work; the guard still holds.
            pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
                self.0.run(work).await
            }

            /// Sets a fixed lease to end `lease` from now, earlier than before too. A renewed lease is only ever
            /// lengthened.
            ///
            /// # Errors
            ///
            /// [`ExtendError`] says what may be believed then.
            ///
            /// # Cancel safety
            ///
            /// Dropped early, the new lease may or may not be in force; the earlier end of the two is believed.
            pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
                self.0.extend(lease).await
            }

            /// Another guard of the same hold, without asking anybody. It ends with the last of them.
            ///
            /// # Errors
            ///
            /// [`LockLost`] when it is no longer held.
            pub fn reenter(&self) -> Result<$guard, LockLost> {
                self.0.reenter().map($guard)
            }

            /// Ends it and waits for the server's answer; where others of this process share it, without asking.
            ///
            /// # Errors
            ///
            /// [`ReleaseError::Lost`] when it had ended before.
            ///
            /// # Cancel safety
            ///
            /// Dropped early, the release goes on in the background.
            #[doc(alias = "unlock")]
            pub async fn release(self) -> Result<(), ReleaseError> {
                self.0.release().await
            }

            /// Stops the renewal and leaves it to its lease. While other guards of the same hold live
            /// ([`reenter`](Self::reenter)), it is theirs, and the last of them releases it.
            pub fn forget(self) {
                self.0.forget();
            }

            fn loss(&self) -> Option<LockLost> {
                loss(&self.0)
            }
        }

        impl std::fmt::Debug for $guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut debug = f.debug_struct(stringify!($guard));
                debug.field("name", self.name()).field("is_held", &self.is_held()).finish_non_exhaustive()
            }
        }
    };
}

held!(ReadGuard);
held!(WriteGuard);

impl WriteGuard {
    /// The fencing token: higher than that of every earlier writer of this name. Hand it to the store that is written to,
    /// and let it refuse lower ones.
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// Goes on as a reader, without anybody writing in between; readers that wait, those of Redisson too, are woken. The read
    /// has a lease of the same length, counted anew, and keeps what is left of a `hold_at_least`: nobody writes before that. Where the
    /// same holder has other write guards, it goes on to write.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::RwLock) -> Result<(), Box<dyn std::error::Error>> {
    /// let write = lock.write().await?;
    /// // … change it …
    /// let read = write.downgrade().await?;
    /// // … look at what was written, with others …
    /// read.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`DowngradeError::Held`] with this guard where nothing has changed, [`DowngradeError::Lost`] where it is lost.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the write ends, and the read with it.
    pub async fn downgrade(self) -> Result<ReadGuard, DowngradeError> {
        let request = AcquireRequest { at_least: self.0.grant().retained_for(), ..look(self.0.grant()) };
        let read = self.0.grant().convert(&READING, request).await;
        match (read, self.loss()) {
            (Ok(Some(read)), _) => {
                // Kept by the read from here on, and others may read beside it.
                self.0.grant().drop_retention();
                let read = ReadGuard::new(read);
                self.leave().await.map_or(Ok(read), |lost| Err(DowngradeError::Lost(lost)))
            }
            (_, Some(lost)) => Err(DowngradeError::Lost(lost)),
            (Ok(None), None) => {
                let reason = LostReason::Gone;
                Err(DowngradeError::Lost(LockLost { name: self.name().clone(), reason }))
            }
            (Err(source), None) => Err(DowngradeError::Held { guard: Box::new(self), source }),
        }
    }
}

impl ReadGuard {
    /// Goes on to write if nobody else reads, here or elsewhere. Never waits: two readers that waited for each other to leave
    /// would wait for ever. [`RwLock::upgradable_read`](crate::RwLock::upgradable_read) is for who wants to wait.
    ///
    /// After it was tried, later readers of this process ask the server for themselves.
    ///
    /// # Errors
    ///
    /// [`UpgradeError`]: busy or not asked, both with this guard, or lost.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the read ends, and the write with it.
    pub async fn try_upgrade(self) -> Result<WriteGuard, UpgradeError> {
        let write = self.0.grant().convert(&WRITING, look(self.0.grant())).await;
        match (write, self.loss()) {
            (_, Some(lost)) => Err(UpgradeError::Lost(lost)),
            // The read ends in the background. If it were awaited here, an upgrade that is not polled would keep the write.
            (Ok(Some(write)), None) => Ok(WriteGuard::new(write)),
            (Ok(None), None) => Err(UpgradeError::Busy(Box::new(self))),
            (Err(source), None) => Err(UpgradeError::Held { guard: Box::new(self), source }),
        }
    }
}

impl WriteGuard {
    /// Ends what another guard has taken the place of. Where it was lost, others may have been in between.
    async fn leave(self) -> Option<LockLost> {
        left(self.release().await)
    }
}

/// A loss, if a release tells one: what could not be released otherwise ends with its lease.
fn left(released: Result<(), ReleaseError>) -> Option<LockLost> {
    match released {
        Err(ReleaseError::Lost { name, reason }) => Some(LockLost { name, reason }),
        _ => None,
    }
}

fn loss(guard: &LockGuard) -> Option<LockLost> {
    let reason = guard.watch().lost_reason()?;
    Some(LockLost { name: guard.name().clone(), reason })
}

/// One look, with the wishes of what is held.
fn look(grant: &HoldGuard) -> AcquireRequest {
    AcquireRequest { once: true, wait: None, at_least: Duration::ZERO, ..grant.request().clone() }
}

/// A read that may come to write: others read at the same time, but no other of this kind.
///
/// Who may upgrade is found by a lock of this toolkit beside the name: Redisson has nothing like it, and its writers and readers
/// see an ordinary reader.
#[must_use = "dropping the guard ends the read"]
#[derive(Debug)]
pub struct UpgradableGuard {
    client: Client,
    read: ReadGuard,
    gate: LockGuard,
}

impl UpgradableGuard {
    pub(super) fn new(client: Client, gate: LockGuard, read: ReadGuard) -> Self {
        UpgradableGuard { client, read, gate }
    }

    /// Whether it may be believed at this instant, by our own clock and with a margin. Asks nobody.
    pub fn is_held(&self) -> bool {
        self.read.is_held() && self.gate.is_held()
    }

    /// Completes when it is no longer certain.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn lost(&self) -> LostReason {
        tokio::select! {
            reason = self.read.lost() => reason,
            reason = self.gate.lost() => reason,
        }
    }

    /// Goes on to write, waiting until all other readers have left. New readers of this toolkit wait meanwhile; those of
    /// Redisson do not. A reader that died is waited for until its own lease has ended.
    ///
    /// # Errors
    ///
    /// [`UpgradeError`]: not asked, or lost, the right to upgrade included. Never busy.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the read ends, and the write with it; readers that stepped back are told.
    pub async fn upgrade(self) -> Result<WriteGuard, UpgradeError> {
        let UpgradableGuard { client, mut read, gate } = self;
        let mut word = Word::of(&client, &read);
        let mut watch = client.watch(word.target.channel.clone(), word.target.key.clone());
        loop {
            if let Some(lost) = loss(&gate) {
                // Another may wait to write by now: we would wait for each other.
                return Err(UpgradeError::Lost(lost));
            }
            let shared = read.0.grant().is_shared();
            read = match read.try_upgrade().await {
                Err(UpgradeError::Busy(read)) => *read,
                Ok(write) => {
                    word.is_taken_back();
                    return Ok(write);
                }
                Err(error) => return Err(error),
            };
            if word.said.is_none() {
                // Before the next look, so that who leaves after it tells us.
                word.say().await;
            } else {
                word.until_worth_a_look(&mut watch, &read, shared).await;
            }
        }
    }

    /// Goes on as an ordinary reader.
    pub fn downgrade(self) -> ReadGuard {
        self.read
    }

    /// Ends it and waits for the server's answer.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when it had ended before.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the release goes on in the background.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let (read, gate) = tokio::join!(self.read.release(), self.gate.release());
        read.and(gate)
    }
}

/// What is said for a reader that waits to write, so that others step back. Dropped, it is withdrawn.
struct Word {
    client: Client,
    target: Arc<LockKeys>,
    /// Its own, as others of this client may wait to write, too.
    mark: Bytes,
    number: u64,
    said: Option<Instant>,
}

impl Word {
    fn of(client: &Client, read: &ReadGuard) -> Self {
        let grant = read.0.grant();
        let (target, mark) = (Arc::clone(grant.keys()), Bytes::copy_from_slice(grant.field()));
        Word { client: client.clone(), target, mark, number: 0, said: None }
    }

    async fn say(&mut self) {
        // Noted first: dropped while it is under way, it may be said all the same.
        self.said = Some(self.client.clock().now());
        self.number += 1;
        // Who may not say it is not waited for.
        let _ = self.client.run::<u64>(kinds::announce(&self.target, self.mark.clone(), self.number)).await;
    }

    /// A grant has taken it back.
    fn is_taken_back(&mut self) {
        self.said = None;
    }

    /// Until somebody has left, or may have without telling.
    async fn until_worth_a_look(&mut self, watch: &mut Watch, read: &ReadGuard, shared: bool) {
        let clock = self.client.clock().clone();
        let look = clock.now() + self.client.poll_interval() / LOOKS;
        let mut alone = pin!(read.0.grant().unshared());
        loop {
            let say = self.said.map_or(Instant::MIN, |said| said + SAYS);
            tokio::select! {
                // Not put off by many messages.
                biased;
                () = clock.sleep_until(say) => self.say().await,
                _ = watch.wake() => return,
                () = &mut alone, if shared => return,
                () = clock.sleep_until(look) => return self.bury().await,
            }
        }
    }

    /// Takes out who died inside: the lock lives as long as we do, so nothing else would end them.
    async fn bury(&self) {
        let Ok(holders) = self.client.run::<Vec<Bytes>>(kinds::holders(&self.target)).await else { return };
        for request in kinds::bury(&self.target, &holders) {
            let _ = self.client.run::<u64>(request).await;
        }
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        if self.said.is_some() {
            self.client.run_later(kinds::withdraw(&self.target, self.mark.clone(), self.number));
        }
    }
}

/// Why a writer did not become a reader.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DowngradeError {
    /// The write is still held.
    #[error("`{}` could not be downgraded; it is still held for writing", .guard.name())]
    Held {
        /// It.
        guard: Box<WriteGuard>,
        /// What stood in the way.
        source: AcquireError,
    },
    /// The write is lost.
    #[error(transparent)]
    Lost(#[from] LockLost),
}

/// Why a reader did not become a writer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// Others read. The read is still held.
    #[error("`{}` is read by others; it is still held for reading", .0.name())]
    Busy(Box<ReadGuard>),
    /// It could not be asked for. The read is still held.
    #[error("`{}` could not be upgraded; it is still held for reading", .guard.name())]
    Held {
        /// It.
        guard: Box<ReadGuard>,
        /// What stood in the way.
        source: AcquireError,
    },
    /// The read is lost.
    #[error(transparent)]
    Lost(#[from] LockLost),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_move_between_tasks() {
        fn is_free_to_move<T: Send + Sync + 'static>() {}
        is_free_to_move::<ReadGuard>();
        is_free_to_move::<WriteGuard>();
        is_free_to_move::<UpgradableGuard>();
        is_free_to_move::<crate::RwLock>();
    }
}
