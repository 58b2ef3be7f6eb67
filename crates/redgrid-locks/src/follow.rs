//! Follows a lock from outside: its holders, and how each hold ends.

use std::time::Duration;

use redgrid_core::ServerError;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::name::companion;

use crate::change_listener::ChangeListener;
use crate::inspect::LockState;
use crate::lock::Lock;
use crate::rw::RW_CHANNEL;

/// Default poll interval: 250 ms.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Margin before the end of a lease: 10 ms. A lock that is found free within this margin may have
/// expired.
///
/// Lifetimes are whole milliseconds, and the clocks of server and client run at different speeds.
const MARGIN: Duration = Duration::from_millis(10);

/// A change of a lock between two polls.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockChange {
    /// The lock is held: at the first poll, or after it had been free.
    Held(LockState),
    /// The lock has other holders. In between it was released or taken by force, or its lease
    /// ended.
    Passed(LockState),
    /// The lock is free: at the first poll, or after a release.
    ///
    /// A release was published, or the last known lease had not ended yet. A deleted key looks the
    /// same.
    Free,
    /// The lock is free, and the last known lease has ended.
    ///
    /// The holder did not renew or release the lock, or released it in the last moments of the
    /// lease.
    Ended,
}

/// Client and number of a holder, without the number of its entries.
type HolderKey = (String, Option<u64>);

/// Follows a lock; made by [`Lock::follow`]. Dropping it leaves nothing behind.
pub struct Follow {
    lock: Lock,
    listener: ChangeListener,
    interval: Duration,
    last_poll: Option<LastPoll>,
    /// Number of messages since the last change was returned.
    messages: u64,
    /// Whether the last poll found the lock free without a message, which may still be in flight.
    message_awaited: bool,
}

/// The result of the last poll.
struct LastPoll {
    holders: Vec<HolderKey>,
    /// Earliest end of the lease, unless it is renewed.
    lease_ends: Instant,
}

impl Lock {
    /// Follows the holders of the lock, without acquiring it.
    ///
    /// The lock is polled, which does not affect its users. A hold that is shorter than the poll
    /// interval may be missed. For the server, all tasks to which one process hands the lock over
    /// are one holder.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_locks::LockChange;
    ///
    /// let mut changes = lock.follow();
    /// loop {
    ///     match changes.next().await? {
    ///         LockChange::Held(state) | LockChange::Passed(state) => {
    ///             println!("held by {:?}", state.holders);
    ///         }
    ///         _ => println!("free"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn follow(&self) -> Follow {
        Follow {
            lock: self.clone(),
            listener: ChangeListener::new([]),
            interval: POLL_INTERVAL,
            last_poll: None,
            messages: 0,
            message_awaited: false,
        }
    }
}

impl Follow {
    /// Sets the poll interval; 250 ms unless set.
    pub fn every(mut self, every: Duration) -> Self {
        self.interval = every;
        self
    }

    /// Subscribes to the lock's releases as well, so that changes are noticed at once.
    ///
    /// The processes that contend for the lock count this subscription as that of a waiter. They
    /// yield to it for some milliseconds at the end of each hand-over window. This costs a busy
    /// lock much of its throughput (measured: 42 %).
    pub fn subscribe(mut self) -> Self {
        if let Ok(target) = self.lock.target() {
            // The name may be that of a read-write lock, which publishes its releases on another
            // channel.
            let channels = [target.channel.clone(), companion(RW_CHANNEL, &target.key)];
            let watch = |channel| self.lock.client().watch(channel, target.key.clone());
            self.listener = ChangeListener::new(channels.map(watch));
        }
        self
    }

    /// Returns the state of the lock at the first call, and then each change.
    ///
    /// A hold that began and ended between two polls is missed.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the server could not be reached for `response_timeout × (retries + 1)`.
    /// The next call continues.
    ///
    /// # Cancel safety
    ///
    /// No change is lost: one that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Result<LockChange, ServerError> {
        loop {
            let clock = self.lock.client().clock();
            self.listener.poll_due(clock, self.interval).await;
            let sent = clock.now();
            let state = self.lock.inspect().await?;
            let received = clock.now();
            self.messages += self.listener.complete_poll();
            let holders = state.as_ref().map(holder_keys).unwrap_or_default();
            let was_message_awaited = std::mem::take(&mut self.message_awaited);
            let was_held = self.last_poll.as_ref().is_some_and(|last| !last.holders.is_empty());
            if self.listener.is_subscribed()
                && state.is_none()
                && self.messages == 0
                && !was_message_awaited
                && was_held
            {
                // The message arrives on another connection: poll once more before assuming that
                // there was none.
                self.message_awaited = true;
                continue;
            }
            let remaining = state.as_ref().and_then(|state| state.remaining);
            let lease_ends = remaining.map_or(Instant::MAX, |remaining| sent + remaining.saturating_sub(MARGIN));
            let before = self.last_poll.replace(LastPoll { holders: holders.clone(), lease_ends });
            let messages = std::mem::take(&mut self.messages);
            match (before, state) {
                // A message may arrive before or after the poll that finds its change: it stays
                // counted until a change is returned.
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

/// Returns the holders, sorted: the server's order may change.
fn holder_keys(state: &LockState) -> Vec<HolderKey> {
    let mut holders: Vec<HolderKey> = state.holders.iter().map(|held| (held.client.clone(), held.number)).collect();
    holders.sort();
    holders
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").field("lock", &self.lock).finish_non_exhaustive()
    }
}
