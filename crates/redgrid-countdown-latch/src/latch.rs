//! The latch as a value: cheap to clone, holding nothing.

use std::sync::Arc;

use redgrid_core::Client;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};

use crate::batch::CountDownBatcher;
use crate::error::LatchError;
use crate::keys::Keys;
use crate::set::TrySetCount;
use crate::wait::Wait;

/// A latch that is open while its count is 0, over all processes that reach the same server. Redisson's `RCountDownLatch` on
/// the wire.
///
/// Cheap to clone; clones are the same latch. Making one asks nobody: an invalid name is told by the first call.
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
    /// The latch with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        CountDownLatch { client: client.clone(), keys: Keys::new(client, name).map(Arc::new) }
    }

    /// Begins a round of `count`, 1 to 2^63 - 1: false where one is set already, which is left as it is.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn demo(latch: redgrid_countdown_latch::CountDownLatch) -> Result<(), Box<dyn std::error::Error>> {
    /// // Gone in an hour in any case, should those who count down have died.
    /// let begun = latch.try_set_count(10).expires_in(Duration::from_secs(3600)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LatchError`] says whether it may be set.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it was sent, it sets nothing; dropped later, it sets it once.
    #[doc(alias = "trySetCount")]
    pub fn try_set_count(&self, count: u64) -> TrySetCount {
        TrySetCount::new(self.clone(), count)
    }

    /// Takes one from the count, exactly once, and tells what is left. On an open latch it does nothing, and 0 is left.
    ///
    /// # Errors
    ///
    /// [`LatchError`] says whether it may have counted. After
    /// [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown) do not count again: it is sent
    /// on.
    ///
    /// # Cancel safety
    ///
    /// Dropped while count-downs before it are under way, it does not count; nor later, before it was sent, unless others are sent with it.
    /// Dropped later than that, it counts once.
    #[doc(alias = "countDown")]
    pub async fn count_down(&self) -> Result<u64, LatchError> {
        self.count_down_by(1).await
    }

    /// The same by `n`, 1 to 2^63 - 1, in one step. More than is left opens the latch.
    ///
    /// # Errors
    ///
    /// As [`CountDownLatch::count_down`].
    ///
    /// # Cancel safety
    ///
    /// As [`CountDownLatch::count_down`].
    pub async fn count_down_by(&self, n: u64) -> Result<u64, LatchError> {
        let keys = self.keys()?;
        let by = keys.counted(n)?;
        CountDownBatcher::of(&self.client, keys)
            .count_down(&self.client, by)
            .await
            .map_err(|source| LatchError::of_change(&keys.name, source))
    }

    /// What is left; 0 where nothing is set.
    ///
    /// # Errors
    ///
    /// [`LatchError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getCount")]
    pub async fn count(&self) -> Result<u64, LatchError> {
        let keys = self.keys()?;
        keys.count(&self.client).await.map_err(|source| LatchError::of_read(&keys.name, source))
    }

    /// Waits until the round that is under way has ended: at a count of 0, deleted, or at the end of its lifetime. At once
    /// where none is, and so before the first [`CountDownLatch::try_set_count`]. Which one is under way is found by a look that is sent
    /// after the call, behind one that is under way: where a round ends before that look, and is followed by another, it waits for that other.
    /// As long as it takes, unless [`Wait::timeout`] says otherwise, but not without contact to the server.
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
    /// [`WaitError`](crate::WaitError) says why it did not come to that.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind. The last of a process to leave ends its subscription.
    #[doc(alias = "await")]
    #[doc(alias = "awaitAsync")]
    pub fn wait(&self) -> Wait {
        Wait::new(self.clone())
    }

    /// Ends the round whatever is left of it, and lets all go who wait: false where none was under way.
    ///
    /// # Errors
    ///
    /// [`LatchError`] says whether it may be deleted.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it was sent, it deletes nothing; dropped later, it deletes once.
    pub async fn delete(&self) -> Result<bool, LatchError> {
        let keys = self.keys()?;
        keys.delete(&self.client).await.map_err(|source| LatchError::of_change(&keys.name, source))
    }

    /// What every object has: whether it is there (a round is under way), its lifetime, other names, its events; with the number of
    /// its round.
    ///
    /// [`delete`](CountDownLatch::delete) tells those who wait; behind that of the object they find out within `poll_interval`, and go
    /// on as when it opens. Behind a rename they do, too: they wait for the name, not for the round.
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
    /// A count as Redis and Redisson have it.
    pub(crate) fn counted(&self, got: u64) -> Result<i64, LatchError> {
        let count = i64::try_from(got).ok().filter(|count| *count > 0);
        count.ok_or_else(|| LatchError::InvalidCount { name: self.name.clone(), got })
    }
}
