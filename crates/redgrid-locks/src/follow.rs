//! Following a lock from outside: who gets it, and how it ends.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::ServerError;
use redgrid_core::name::companion;

use crate::inspect::LockState;
use crate::lock::Lock;
use crate::looks::Looks;
use crate::rw::RW_CHANNEL;

/// How often the lock is looked at unless set: 250 ms. A release is told by a message; that somebody has taken a free lock is
/// told by none.
const EVERY: Duration = Duration::from_millis(250);

/// What has happened to a lock between two looks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockChange {
    /// Somebody has it: at the first look, or where it had been free.
    Held(LockState),
    /// Somebody else has it. It was released in between, or taken by force, or its lease had ended.
    Passed(LockState),
    /// Nobody has it. At the first look, or after a release that was told.
    Free,
    /// Nobody has it, and no release was told: its lease has ended, its key was deleted, or it was released by a kind of lock
    /// that tells only those who are next (a fair one) or nobody (a spin lock).
    Ended,
}

/// A holder, however often it has entered: its client and number.
type Who = (String, Option<u64>);

/// Follows a lock; made by [`Lock::follow`]. Dropping it ends the subscription.
pub struct Follow {
    lock: Lock,
    looks: Looks,
    every: Duration,
    told: Option<Vec<Who>>,
    /// Messages since a holder was last seen.
    messages: u64,
    /// It was seen free once without a message, which may be on its way.
    doubt: bool,
}

impl Lock {
    /// Follows who has the lock, without taking it.
    ///
    /// What one process passes from task to task is one holder to the server. Who follows counts as somebody who waits: while
    /// it does, processes that take turns give way to it for some milliseconds.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_locks::LockChange;
    ///
    /// let mut changes = lock.follow();
    /// loop {
    ///     match changes.next().await? {
    ///         LockChange::Held(state) | LockChange::Passed(state) => println!("held by {:?}", state.holders),
    ///         _ => println!("free"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn follow(&self) -> Follow {
        let target = self.target().ok();
        let watch = |channel: Bytes, key: &Bytes| self.client().watch(channel, key.clone());
        let looks = Looks::new(target.map(|target| watch(target.channel.clone(), &target.key)));
        // The name may be that of a read-write lock: its releases are told elsewhere.
        let looks = looks.beside(target.map(|target| watch(companion(RW_CHANNEL, &target.key), &target.key)));
        Follow { lock: self.clone(), looks, every: EVERY, told: None, messages: 0, doubt: false }
    }
}

impl Follow {
    /// Looks this often though nothing is told; every 250 ms unless set.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// How it is the first time, and then each time that it has changed. What came and went between two looks is not told.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked for `timeout × (retries + 1)`; the next call goes on.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a change that was not told is told by the next call.
    pub async fn next(&mut self) -> Result<LockChange, ServerError> {
        loop {
            self.looks.next(self.lock.client().clock(), self.every).await;
            let state = self.lock.inspect().await?;
            self.messages += self.looks.taken();
            let holders = state.as_ref().map(who).unwrap_or_default();
            let in_doubt = std::mem::take(&mut self.doubt);
            if state.is_none() && self.messages == 0 && !in_doubt && self.told.iter().any(|told| !told.is_empty()) {
                // The message comes by another connection: one more look, before it is said that there was none.
                self.doubt = true;
                continue;
            }
            let before = self.told.replace(holders.clone());
            let messages = std::mem::take(&mut self.messages);
            match (before, state) {
                // A message may be there before, or after, what it tells is seen.
                (Some(before), _) if before == holders => self.messages = messages,
                (None, Some(state)) => return Ok(LockChange::Held(state)),
                (Some(before), Some(state)) if before.is_empty() => return Ok(LockChange::Held(state)),
                (Some(_), Some(state)) => return Ok(LockChange::Passed(state)),
                (None, None) => return Ok(LockChange::Free),
                (Some(_), None) if messages > 0 => return Ok(LockChange::Free),
                (Some(_), None) => return Ok(LockChange::Ended),
            }
        }
    }
}

/// Who has it, in an order that does not depend on the server's.
fn who(state: &LockState) -> Vec<Who> {
    let mut holders: Vec<Who> = state.holders.iter().map(|held| (held.client.clone(), held.number)).collect();
    holders.sort();
    holders
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").field("lock", &self.lock).field("told", &self.told).finish_non_exhaustive()
    }
}
