//! Setting a number to what a function makes of it.

use crate::atomic::Atomic;
use crate::error::AtomicError;
use crate::numeral::Numeral;

/// How often an update is begun anew when others were quicker: other processes, of which each has one under way at a time.
const ROUNDS: usize = 100;

impl<T: Numeral> Atomic<T> {
    /// Sets it to what `change` makes of it, whatever others do meanwhile; `change` is called anew with each new number. Each that it
    /// is called with the number has been since the update began. Tells what it is then. Its lifetime stays. After an unknown
    /// answer it does not go on.
    ///
    /// Updates of a client's tasks wait for each other in turn, and who has waited begins with what the one before it has left; so only
    /// those of other processes are in their way. Who is not polled, or not answered, keeps the others waiting for some round trips.
    ///
    /// # Errors
    ///
    /// [`AtomicError::Contended`] when others were quicker 100 times. [`AtomicError::Unavailable`], and nothing is changed, when those
    /// before it had no answer for `response_timeout × (retries + 1)`, or when its own rounds took as long as that together.
    /// [`AtomicError::InvalidArgument`] when `change` makes of it what is no such number; else as [`Atomic::set`].
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits for its turn, it changes nothing; what has left is carried out although nobody waits for it.
    #[doc(alias = "updateAndGet")]
    pub async fn update(&self, mut change: impl FnMut(T) -> T) -> Result<T, AtomicError> {
        let (number, line) = (self.number()?, self.line()?);
        let place = line.place(&number.client).await.map_err(|error| number.failed(error))?;
        let clock = number.client.clock();
        let (mut sent, until) = (clock.now(), number.until());
        let mut was: T = match place.left {
            Some(left) => left,
            None => {
                let was = number.get(until).await?;
                place.answered(sent);
                was
            }
        };
        for _ in 0..ROUNDS {
            let new = change(was);
            let (expected, text) = (number.written("number", was)?, number.written("number", new)?);
            sent = clock.now();
            let (set, is) = number.compare_and_set((expected, text), true, until).await?;
            place.answered(sent);
            if set {
                place.leaves(new, sent);
                return Ok(new);
            }
            was = number.read(&is)?;
        }
        place.leaves(was, sent);
        Err(AtomicError::Contended { name: number.name.clone() })
    }
}
