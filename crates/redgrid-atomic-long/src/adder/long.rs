//! The adder of whole numbers.

use std::fmt;
use std::time::Duration;

use redgrid_core::Client;

use super::error::AdderError;
use super::member::AdderHandle;
use super::round::{Reset, Sum};

/// A distributed sum of whole numbers: each process counts in its own memory, and a sum adds all
/// counts. It has the wire format of Redisson's `RLongAdder`.
///
/// An addition sends no request and does not wait. A sum requests the count of every client that
/// has such an adder at that moment, including Java services.
///
/// It is cheap to clone; all handles of a client with one name share one count. The count is lost
/// with the last handle, and with the process, unless it is [saved](LongAdder::saving).
///
/// ```no_run
/// # async fn demo(client: &redgrid_atomic_long::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_atomic_long::LongAdder;
///
/// let views = LongAdder::new(client, "views");
/// views.increment();
/// views.add(41);
/// println!("{} views of all processes", views.sum().await?);
/// # Ok(()) }
/// ```
#[doc(alias = "RLongAdder")]
#[doc(alias = "RedissonLongAdder")]
#[derive(Clone)]
pub struct LongAdder(AdderHandle<i64>);

impl LongAdder {
    /// Returns the adder with this name, and starts to listen for sums and resets;
    /// [`LongAdder::ready`] waits until it listens.
    ///
    /// The call itself does not wait for the server: the first call that returns errors reports an
    /// invalid name. If this client has an adder of the other type with that name, each call tries
    /// again to create this one.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        LongAdder(AdderHandle::new(client, name.as_ref()))
    }

    /// Saves the count of this client to a total on the server.
    ///
    /// It saves at this interval (10 ms to 1 day), when the last handle is dropped, and at the
    /// shutdown of the client. Each part is saved exactly once, even if replies are lost. Sums
    /// include the total, also those of Java services.
    ///
    /// A process that is killed loses its count since the last save. The total has no lifetime; a
    /// [reset](LongAdder::reset) sets it to 0. Saving continues until the last handle is dropped,
    /// at the shortest interval that any of them has requested.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_atomic_long::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use redgrid_atomic_long::LongAdder;
    ///
    /// let views = LongAdder::new(client, "views").saving(Duration::from_secs(1))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`AdderError`] if the name or the interval is invalid.
    pub fn saving(self, interval: Duration) -> Result<Self, AdderError> {
        self.0.get()?.save_every(interval)?;
        Ok(self)
    }

    /// Adds `by`, of either sign, to the count of this process.
    ///
    /// If the name is invalid, or this client has a [`DoubleAdder`](crate::DoubleAdder) with that
    /// name, nothing is added. Calls that return errors report that.
    #[inline]
    pub fn add(&self, by: i64) {
        if let Ok(adder) = self.0.get() {
            adder.member.local.add(by);
        }
    }

    /// Adds 1 to the count of this process.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Subtracts 1 from the count of this process.
    #[inline]
    pub fn decrement(&self) {
        self.add(-1);
    }

    /// Sums the counts of all processes: each process that has such an adder answers, including
    /// this one.
    ///
    /// The sum includes everything that was added before the call, and may include additions during
    /// the call. It waits for at most 10 s unless [`Sum::timeout`] is set.
    ///
    /// # Errors
    ///
    /// [`AdderError::Partial`] with the sum so far, if not all members answered in time.
    /// [`AdderError::Overflow`] if the sum or an intermediate sum overflows i64: answers are added
    /// in the order of their arrival.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "sumAsync")]
    pub fn sum(&self) -> Sum<i64> {
        Sum::new(self.0.get().cloned())
    }

    /// Sets the counts of all processes and the saved total to 0.
    ///
    /// Everything that was added before the call is removed; additions during the call may be
    /// removed, too. The call waits for at most 10 s unless [`Reset::timeout`] is set. A process
    /// that is resubscribing at that moment does not receive the request, and keeps its count.
    ///
    /// # Errors
    ///
    /// [`AdderError::Partial`] if not all members answered in time. Members of redgrid that receive
    /// the request later are not reset.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, either no member is reset, or those that have received the
    /// request.
    #[doc(alias = "resetAsync")]
    pub fn reset(&self) -> Reset<i64> {
        Reset::new(self.0.get().cloned())
    }

    /// Waits until this client listens for sums. Until then, sums do not include its count.
    ///
    /// It waits for at most `response_timeout × (retries + 1)`.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`](crate::Failure::Unavailable) if the subscription was not confirmed
    /// by then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn ready(&self) -> Result<(), AdderError> {
        self.0.get()?.ready().await
    }

    /// Ends this handle. The last handle of the client ends its membership.
    ///
    /// When the membership ends, open requests are answered, the count is saved if
    /// [saving](LongAdder::saving) is on, and the subscription ends. The count is gone afterwards.
    /// Dropping the handle does the same in the background. A sum or a reset in flight counts as a
    /// handle: while there is one, this call does not wait for the end.
    ///
    /// # Errors
    ///
    /// [`AdderError::NotSaved`] if the count could not be saved.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the end continues in the background.
    pub async fn destroy(self) -> Result<(), AdderError> {
        self.0.end().await
    }
}

impl fmt::Debug for LongAdder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
