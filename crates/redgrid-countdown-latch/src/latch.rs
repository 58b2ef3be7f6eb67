//! The latch: a cheap handle without resources.

use std::sync::Arc;

use redgrid_core::Client;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};

use crate::batch::CountDownBatcher;
use crate::error::LatchError;
use crate::keys::Keys;
use crate::set::TrySetCount;
use crate::wait::Wait;

/// A latch that is open while its count is 0, shared by all processes that use the same server.
/// Compatible with Redisson's `RCountDownLatch`.
///
/// It is cheap to clone; clones are the same latch. Creating one sends no request: an invalid name
/// is reported by the first call.
///
/// ```no_run
/// # async fn demo(client: &redgrid_countdown_latch::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_countdown_latch::CountDownLatch;
///
/// let ready = CountDownLatch::new(client, "ready");
/// ready.try_set_count(2).await?;
/// assert_eq!(ready.count_down().await?, 1);
/// assert_eq!(ready.count_down().await?, 0);
/// ready.wait().await?; // open: at once
/// # Ok(()) }
/// ```
#[doc(alias = "RCountDownLatch")]
#[doc(alias = "RedissonCountDownLatch")]
#[derive(Clone, Debug)]
pub struct CountDownLatch {
    client: Client,
    keys: Result<Arc<Keys>, InvalidName>,
}

impl CountDownLatch {
    /// Returns the latch with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        CountDownLatch { client: client.clone(), keys: Keys::new(client, name).map(Arc::new) }
    }

    /// Begins a round with this count, 1 to 2^63 - 1. Returns false, and changes nothing, if a
    /// round is in progress.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn demo(latch: redgrid_countdown_latch::CountDownLatch) -> Result<(), Box<dyn std::error::Error>> {
    /// // Ends after an hour in any case, should the workers have died.
    /// let begun = latch.try_set_count(10).expires_in(Duration::from_secs(3600)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LatchError`] states whether the count may be set.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the request is sent, nothing is set; otherwise the count is
    /// set once.
    #[doc(alias = "trySetCount")]
    pub fn try_set_count(&self, count: u64) -> TrySetCount {
        TrySetCount::new(self.clone(), count)
    }

    /// Decrements the count by one, exactly once, and returns the remaining count. An open latch
    /// stays open, and 0 is returned.
    ///
    /// # Errors
    ///
    /// [`LatchError`] states whether the count-down may have been executed. After
    /// [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown) do not call it again: the
    /// request is still being retried.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while it waits for earlier count-downs, or before the request is
    /// sent, the count-down is not executed. The exception is a batch: if other count-downs are
    /// sent with this one, it is executed. After the request is sent, the count-down is executed
    /// once.
    #[doc(alias = "countDown")]
    pub async fn count_down(&self) -> Result<u64, LatchError> {
        self.count_down_by(1).await
    }

    /// Decrements the count by `n`, 1 to 2^63 - 1, in one step. If `n` exceeds the remaining count,
    /// the latch opens.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`CountDownLatch::count_down`].
    pub async fn count_down_by(&self, n: u64) -> Result<u64, LatchError> {
        let keys = self.keys()?;
        let by = keys.checked_count(n)?;
        CountDownBatcher::of(&self.client, keys)
            .count_down(&self.client, by)
            .await
            .map_err(|source| LatchError::of_change(&keys.name, source))
    }

    /// Returns the remaining count; 0 if no round is in progress.
    ///
    /// # Errors
    ///
    /// [`LatchError`] if the server did not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getCount")]
    pub async fn count(&self) -> Result<u64, LatchError> {
        let keys = self.keys()?;
        keys.count(&self.client).await.map_err(|source| LatchError::of_read(&keys.name, source))
    }

    /// Waits until the current round has ended: its count is 0, it was deleted, or its lifetime is
    /// over.
    ///
    /// Returns at once if no round is in progress, so also before the first
    /// [`CountDownLatch::try_set_count`]. The current round is the one found by a poll that is sent
    /// after the call. If a round ends before that poll and another one has begun, the caller waits
    /// for the other one. Without [`Wait::timeout`] the wait is unbounded, but it fails without
    /// contact to the server.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn demo(latch: redgrid_countdown_latch::CountDownLatch) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_countdown_latch::WaitError;
    ///
    /// match latch.wait().timeout(Duration::from_secs(30)).await {
    ///     Ok(()) => println!("all is done"),
    ///     Err(WaitError::TimedOut { .. }) => println!("{} to go", latch.count().await?),
    ///     Err(other) => return Err(other.into()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`WaitError`](crate::WaitError) says why the wait failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping it cancels the wait. The last waiter of a process ends its subscription.
    #[doc(alias = "await")]
    #[doc(alias = "awaitAsync")]
    pub fn wait(&self) -> Wait {
        Wait::new(self.clone())
    }

    /// Ends the round, whatever its count, and completes all waits. Returns false if no round was
    /// in progress.
    ///
    /// # Errors
    ///
    /// [`LatchError`] states whether the round may be deleted.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the request is sent, nothing is deleted; otherwise the round
    /// is deleted once.
    pub async fn delete(&self) -> Result<bool, LatchError> {
        let keys = self.keys()?;
        keys.delete(&self.client).await.map_err(|source| LatchError::of_change(&keys.name, source))
    }

    /// Returns the latch as an object, with the key of its round's number: existence (a round is in
    /// progress), lifetime, rename, events.
    ///
    /// [`delete`](CountDownLatch::delete) notifies the waiters. If the object is deleted or
    /// renamed, they detect it within `poll_interval`, and their waits complete as when the latch
    /// opens. Waiters wait for the name: they do not follow a renamed latch.
    pub fn object(&self) -> Object {
        let name = self.keys.as_ref().map(|keys| keys.name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, layouts::countdown_latch)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn keys(&self) -> Result<&Arc<Keys>, InvalidName> {
        self.keys.as_ref().map_err(Clone::clone)
    }
}

impl Keys {
    /// Converts a count to the integer of Redis and Redisson.
    pub(crate) fn checked_count(&self, got: u64) -> Result<i64, LatchError> {
        let count = i64::try_from(got).ok().filter(|count| *count > 0);
        count.ok_or_else(|| LatchError::InvalidCount { name: self.name.clone(), got })
    }
}
