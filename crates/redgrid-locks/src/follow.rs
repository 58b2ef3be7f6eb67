//! Following a lock from outside: who gets it, and how it ends.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::ServerError;
use redgrid_core::clock::Instant;
use redgrid_core::name::companion;

use crate::inspect::LockState;
use crate::lock::Lock;
use crate::looks::Looks;
use crate::rw::RW_CHANNEL;

/// How often the lock is polled unless set: 250 ms.
const EVERY: Duration = Duration::from_millis(250);

/// A lock that was seen free so shortly before the end of its lease may have expired: lifetimes are whole milliseconds, and
/// the clocks of server and client differ in pace.
const MARGIN: Duration = Duration::from_millis(10);

/// What has happened to a lock between two polls.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockChange {
    /// It is held: at the first poll, or after it had been free.
    Held(LockState),
    /// Others hold it. It was released in between, or taken by force, or its lease had ended.
    Passed(LockState),
    /// It is free. At the first poll, or after a release: one was published, or the lease that was last seen had not ended yet.
    /// A key that was deleted looks the same.
    Free,
    /// It is free, and the lease that was last seen has ended: the holder did not renew or release it, or released it in its
    /// last moments.
    Ended,
}

/// A holder, however often it has entered: its client and number.
type Who = (String, Option<u64>);

/// Follows a lock; made by [`Lock::follow`]. Dropping it leaves nothing behind.
pub struct Follow {
    lock: Lock,
    looks: Looks,
    every: Duration,
    seen: Option<Seen>,
    /// Messages since a holder was last seen.
    messages: u64,
    /// It was seen free once without a message, which may be on its way.
    doubt: bool,
}

/// What the last poll saw.
struct Seen {
    holders: Vec<Who>,
    /// When the lease ends at the earliest, unless it is renewed.
    lease_ends: Instant,
}

impl Lock {
    /// Follows who has the lock, without taking it.
    ///
    /// The lock is polled, which its users do not notice. A hold that is shorter than the time between two polls may be missed.
    /// What one process passes from task to task is one holder to the server.
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
        let (lock, looks) = (self.clone(), Looks::new(None));
        Follow { lock, looks, every: EVERY, seen: None, messages: 0, doubt: false }
    }
}

impl Follow {
    /// Polls this often; every 250 ms unless set.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Subscribes to the lock's releases as well, and so sees them at once.
    ///
    /// The processes that contend for the lock count this subscription as one of a waiter, and give way to it for some
    /// milliseconds at the end of each turn: a busy lock loses much of its rate (measured: 42 %).
    pub fn subscribe(mut self) -> Self {
        let target = self.lock.target().ok();
        let watch = |channel: Bytes, key: &Bytes| self.lock.client().watch(channel, key.clone());
        let looks = Looks::new(target.map(|target| watch(target.channel.clone(), &target.key)));
        // The name may be that of a read-write lock, whose releases are published on another channel.
        self.looks = looks.beside(target.map(|target| watch(companion(RW_CHANNEL, &target.key), &target.key)));
        self
    }

    /// Returns the state of the lock the first time, and then each change. What came and went between two polls is missed.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the server could not be asked for `response_timeout × (retries + 1)`; the next call goes on.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a change that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Result<LockChange, ServerError> {
        loop {
            let clock = self.lock.client().clock();
            self.looks.next(clock, self.every).await;
            let asked = clock.now();
            let state = self.lock.inspect().await?;
            let received = clock.now();
            self.messages += self.looks.taken();
            let holders = state.as_ref().map(who).unwrap_or_default();
            let in_doubt = std::mem::take(&mut self.doubt);
            let was_held = self.seen.as_ref().is_some_and(|seen| !seen.holders.is_empty());
            if self.looks.hears() && state.is_none() && self.messages == 0 && !in_doubt && was_held {
                // The message comes by another connection: one more poll, before it is said that there was none.
                self.doubt = true;
                continue;
            }
            let remaining = state.as_ref().and_then(|state| state.remaining);
            let lease_ends = remaining.map_or(Instant::MAX, |remaining| asked + remaining.saturating_sub(MARGIN));
            let before = self.seen.replace(Seen { holders: holders.clone(), lease_ends });
            let messages = std::mem::take(&mut self.messages);
            match (before, state) {
                // A message may be there before, or after, what it reports is seen.
                (Some(before), _) if before.holders == holders => self.messages = messages,
                (None, Some(state)) => return Ok(LockChange::Held(state)),
                (Some(before), Some(state)) if before.holders.is_empty() => return Ok(LockChange::Held(state)),
                (Some(_), Some(state)) => return Ok(LockChange::Passed(state)),
                (None, None) => return Ok(LockChange::Free),
                (Some(before), None) if messages > 0 || received < before.lease_ends => return Ok(LockChange::Free),
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
        f.debug_struct("Follow").field("lock", &self.lock).finish_non_exhaustive()
    }
}
