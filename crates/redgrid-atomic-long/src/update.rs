//! Updates of a number by a function.

use crate::atomic::Atomic;
use crate::atomic_number::AtomicNumber;
use crate::error::AtomicError;
use redgrid_core::author::ClientExt;

/// The maximum number of compare-and-set attempts of an update. Only other processes cause retries,
/// each with one update in flight at a time.
const MAX_ATTEMPTS: usize = 100;

impl<T: AtomicNumber> Atomic<T> {
    /// Sets the number to the result of `change`, atomically, and returns the new number. Its
    /// lifetime is kept.
    ///
    /// The update is an optimistic retry: `change` is called again with each new number. Every
    /// number that it receives was the stored number at some time since the update began. After an
    /// unknown outcome it is not retried.
    ///
    /// Updates of tasks of one client run one at a time, in FIFO order. A waiting update starts
    /// with the number that the previous one left, so only updates of other processes cause
    /// retries. A task that is not polled, or receives no reply, delays the others by a few round
    /// trips.
    ///
    /// # Errors
    ///
    /// [`AtomicError::Contended`] after 100 attempts in which others were faster.
    /// [`Failure::Unavailable`](crate::Failure::Unavailable) if earlier updates received no reply
    /// for `response_timeout × (retries + 1)`, or if the attempts took that long in all: nothing
    /// was changed. [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if `change`
    /// returns an invalid number. Otherwise those of [`Atomic::set`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while it waits for its turn, it changes nothing. A request that was
    /// already sent is executed even if the future is dropped.
    #[doc(alias = "updateAndGet")]
    pub async fn update(&self, mut change: impl FnMut(T) -> T) -> Result<T, AtomicError> {
        let (number, update_turns) = (self.number()?, self.update_turns()?);
        let turn = update_turns.wait_for_turn(&number.client).await.map_err(|error| number.error(error))?;
        let clock = number.client.clock();
        let (mut sent, until) = (clock.now(), number.deadline());
        let mut current: T = match turn.last_value {
            Some(last_value) => last_value,
            None => {
                let value = number.get(until).await?;
                turn.record_reply(sent);
                value
            }
        };
        for _ in 0..MAX_ATTEMPTS {
            let new = change(current);
            let (expected, text) = (number.to_text("number", current)?, number.to_text("number", new)?);
            sent = clock.now();
            let (set, actual) = number.compare_and_set((expected, text), true, until).await?;
            turn.record_reply(sent);
            if set {
                turn.record_value(new, sent);
                return Ok(new);
            }
            current = number.parse(&actual)?;
        }
        turn.record_value(current, sent);
        Err(AtomicError::Contended { name: number.name.clone() })
    }
}
