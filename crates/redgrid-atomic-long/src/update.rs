//! Updates of a number by a function.

use bytes::Bytes;
use redgrid_core::Request;
use redgrid_core::author::ClientExt;
use redgrid_core::object::CasLoop;

use crate::atomic::Atomic;
use crate::atomic_number::AtomicNumber;
use crate::error::AtomicError;

impl<T: AtomicNumber> Atomic<T> {
    /// Sets the number to the result of `change`, atomically, and returns the new number. Its
    /// lifetime is kept.
    ///
    /// The update is an optimistic retry: `change` is called again with each new number. Every
    /// number that it receives was the stored number at some time since the update began. After an
    /// unknown outcome the update is not retried.
    ///
    /// Updates of tasks of one client run one at a time, in FIFO order. A waiting update starts
    /// with the number that the previous one left, so only updates of other processes cause
    /// retries. A task that is not polled, or receives no reply, delays the others by a few round
    /// trips.
    ///
    /// # Errors
    ///
    /// [`AtomicError::Contended`] if other clients changed the number before each attempt, for
    /// `response_timeout × (retries + 1)`. [`Failure::Unavailable`](crate::Failure::Unavailable) if
    /// earlier updates received no reply for that long, or the server could not be reached: nothing
    /// was changed. [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if `change`
    /// returns an invalid number. Otherwise those of [`Atomic::set`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while it waits for its turn, it changes nothing. A request that was
    /// already sent is executed even if the future is dropped.
    #[doc(alias = "updateAndGet")]
    pub async fn update(&self, mut change: impl FnMut(T) -> T) -> Result<T, AtomicError> {
        let number = self.number()?;
        let failed = |error| AtomicError::of_cas_loop(&number.name, error);
        let mut cas_loop =
            CasLoop::serialized_patiently(&number.client, &number.name, &number.key).await.map_err(failed)?;
        loop {
            let stored =
                cas_loop.stored(|| Ok(Request::command("GET").key(number.key.clone()))).await.map_err(failed)?;
            let current: T = stored.map_or(Ok(T::ZERO), |stored| number.parse(&String::from_utf8_lossy(&stored)))?;
            let new = change(current);
            let (expected, text) = (number.to_text("number", current)?, number.to_text("number", new)?);
            let sent = number.client.clock().now();
            let (set, actual) = number.compare_and_set((expected, text.clone()), true, cas_loop.until()).await?;
            cas_loop.replied(sent);
            if set {
                cas_loop.done(text.into(), sent);
                return Ok(new);
            }
            cas_loop.lost_to(Some(Some(Bytes::from(actual)))).await.map_err(failed)?;
        }
    }
}
