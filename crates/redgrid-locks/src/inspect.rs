//! Reads the state of a lock without acquiring it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::lock::LockKeys;
use redgrid_core::name::{InvalidName, companion};
use redgrid_core::{Client, Script, ServerError};

use crate::lock::Lock;
use crate::scripts::RETAINED;

static POSITIONS: Script<2> = Script::new("fair/positions", include_str!("scripts/fair_positions.lua"));
pub(crate) static INSPECT: Script<1> = Script::new("lock/inspect", include_str!("scripts/inspect.lua"));

/// Maximum number of holders, and of waiters, that are read of one lock: 1,000. They keep the
/// server busy for about 1 ms.
pub(crate) const MAX_HOLDERS: i64 = 1000;

/// A held lock as the server sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockState {
    /// The holders: one for an ordinary lock.
    ///
    /// At most 1,000 are listed. If there are more, it is a random selection.
    pub holders: Vec<LockHolder>,
    /// Number of holders.
    pub holder_count: u64,
    /// The remaining time of the lease.
    ///
    /// `None` for a key without a lifetime, which neither redgrid nor Redisson creates.
    pub remaining: Option<Duration>,
}

/// A holder, as stored on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// Id of the client, a UUID. If the field does not have Redisson's form, the whole field.
    pub client: String,
    /// The number after the id: that of the grant for redgrid, that of the thread for Redisson.
    pub number: Option<u64>,
    /// How often the holder has entered, as counted on the server: always 1 for redgrid.
    pub entries: u64,
}

impl LockHolder {
    /// Parses a holder field as other tools show it, for
    /// [`force_release_if`](Lock::force_release_if).
    ///
    /// The form is `<client id>:<number>`.
    pub fn from_field(field: impl AsRef<str>) -> Self {
        LockHolder::of(field.as_ref(), 1)
    }

    /// Returns the holder field on the server.
    pub fn field(&self) -> String {
        self.number.map_or_else(|| self.client.clone(), |number| format!("{}:{number}", self.client))
    }

    /// Parses a holder field.
    ///
    /// The field of a lock that is retained for its `hold_at_least` names the holder that released
    /// it.
    pub(crate) fn of(field: &str, entries: u64) -> Self {
        let field = field.strip_suffix(RETAINED).unwrap_or(field);
        let parsed = field.rsplit_once(':').and_then(|(id, number)| Some((id, number.parse().ok()?)));
        let (client, number) = parsed.map_or((field, None), |(id, number)| (id, Some(number)));
        LockHolder { client: client.to_owned(), number, entries }
    }
}

/// A waiter in the queue of a fair lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockWaiter {
    /// Id of the client, a UUID. If the field does not have Redisson's form, the whole field.
    pub client: String,
    /// The number in its future holder field: that of the request for redgrid, that of the thread
    /// for Redisson.
    pub number: Option<u64>,
    /// Whether the waiter is a redgrid client.
    pub ours: bool,
}

/// The queue of a fair lock.
pub(crate) struct FairQueue {
    /// The number of waiters.
    pub(crate) len: u64,
    /// The first waiters, the next one first.
    pub(crate) first: Vec<LockWaiter>,
    /// The index of the position that was searched for.
    pub(crate) index: Option<usize>,
}

/// Returns the first waiters of a fair lock, at most `most`, and searches for a position in its
/// whole queue.
pub(crate) async fn fair_queue(
    client: &Client,
    target: &Arc<LockKeys>,
    most: i64,
    position: Bytes,
) -> Result<FairQueue, ServerError> {
    let keys = [companion("redisson_lock_queue", &target.key), companion("redgrid_fair", &target.key)];
    let parts: Vec<String> = client.run(POSITIONS.with(keys).int(most).arg(position).idempotent()).await?;
    let [len, index, waiters @ ..] = parts.as_slice() else {
        return Err(ServerError::Decode { expected: "the queue of a fair lock", got: format!("{parts:?}") });
    };
    let waiter = |pair: &[String]| {
        let [field, ours] = pair else { return None };
        let LockHolder { client, number, .. } = LockHolder::of(field, 1);
        Some(LockWaiter { client, number, ours: ours == "1" })
    };
    let first = waiters.chunks(2).filter_map(waiter).collect();
    Ok(FairQueue { len: len.parse().unwrap_or_default(), first, index: index.parse().ok() })
}

/// Returns the state of a lock; `None` if it is free.
pub(crate) async fn state(client: &Client, target: &Arc<LockKeys>) -> Result<Option<LockState>, ServerError> {
    let parts: Vec<String> = client.run(INSPECT.with([target.key.clone()]).int(MAX_HOLDERS).idempotent()).await?;
    let mut parts = parts.into_iter();
    let left: i64 = parts.next().and_then(|left| left.parse().ok()).unwrap_or(-2);
    let mut holder_count: u64 = parts.next().and_then(|count| count.parse().ok()).unwrap_or_default();
    let mut holders = Vec::new();
    while let (Some(field), Some(count)) = (parts.next(), parts.next()) {
        // The mode field of a read-write lock is no holder.
        let is_mode = field == "mode" && matches!(count.as_str(), "read" | "write");
        if is_mode {
            holder_count = holder_count.saturating_sub(1);
        } else {
            holders.push(LockHolder::of(&field, count.parse().unwrap_or(1)));
        }
    }
    let remaining = u64::try_from(left).ok().map(Duration::from_millis);
    Ok((holder_count > 0).then_some(LockState { holders, holder_count, remaining }))
}

/// Waits until the lock is free. Returns `false` if `within` passes first.
pub(crate) async fn until_free(
    client: &Client,
    target: &Arc<LockKeys>,
    within: Option<Duration>,
) -> Result<bool, ServerError> {
    let clock = client.clock();
    let until = within.map_or(Instant::MAX, |within| clock.now() + within);
    let wait = async {
        let Some(mut held) = state(client, target).await? else { return Ok(true) };
        let mut watch = client.watch(target.channel.clone(), target.key.clone());
        loop {
            let shortest = Duration::from_millis(1);
            let expires = held.remaining.map_or(Instant::MAX, |left| clock.now() + left.max(shortest));
            tokio::select! {
                _ = watch.wake() => {}
                () = clock.sleep_until(expires) => {}
            }
            match state(client, target).await? {
                None => return Ok(true),
                Some(current) => held = current,
            }
        }
    };
    tokio::select! {
        biased;
        free = wait => free,
        () = clock.sleep_until(until) => Ok(false),
    }
}

impl Lock {
    /// Returns whether the lock has a holder at this instant.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "isLocked")]
    pub async fn is_locked(&self) -> Result<bool, ServerError> {
        Ok(self.inspect().await?.is_some())
    }

    /// Returns the remaining lease of the current holder on the server.
    ///
    /// `None` means that the lock is free or has no lifetime.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "remainTimeToLive")]
    pub async fn remaining_lease(&self) -> Result<Option<Duration>, ServerError> {
        Ok(self.inspect().await?.and_then(|state| state.remaining))
    }

    /// Returns the holders of the lock and the remaining lease; `None` when it is free.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getHoldCount")]
    #[doc(alias = "isHeldByThread")]
    pub async fn inspect(&self) -> Result<Option<LockState>, ServerError> {
        state(&self.client, self.query_target()?).await
    }

    /// Waits until the lock is free, without acquiring it.
    ///
    /// Returns true when the lock was found free, and false when `within` has passed. The lock may
    /// be taken again by the time this returns.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the server could not be reached for `response_timeout × (retries + 1)`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn wait_until_free(&self, within: Option<Duration>) -> Result<bool, ServerError> {
        until_free(&self.client, self.query_target()?, within).await
    }

    pub(crate) fn query_target(&self) -> Result<&Arc<LockKeys>, ServerError> {
        let refused = |invalid: &InvalidName| ServerError::NotSent { reason: invalid.to_string().into() };
        self.target.as_ref().map_err(refused)
    }
}
