//! Setting a number to what a function makes of it. Updates of one client go one after the other, each from what the last has left.

use std::sync::atomic::{AtomicU64, Ordering};

use redgrid_core::{Client, ServerError};
use tokio::sync::{Mutex, MutexGuard};

use crate::atomic::Atomic;
use crate::error::AtomicError;
use crate::numeral::Numeral;

/// How often an update is begun anew when others were quicker: other processes, of which each has one under way at a time.
const ROUNDS: usize = 100;

/// The updates of a client's handles of a name.
pub(crate) struct Line<T> {
    /// Whose turn it is; and the number as it was when the last one knew it.
    turn: Mutex<Option<T>>,
    /// Rises with each answer that one of them has.
    answers: AtomicU64,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Line { turn: Mutex::new(None), answers: AtomicU64::new(0) }
    }
}

impl<T: Numeral> Line<T> {
    /// Waits for its turn, as long as those before it are answered.
    async fn turn(&self, client: &Client) -> Result<MutexGuard<'_, Option<T>>, ServerError> {
        let mut turn = std::pin::pin!(self.turn.lock());
        loop {
            let answers = self.answers.load(Ordering::Relaxed);
            let until = client.clock().now() + client.patience();
            tokio::select! {
                biased;
                known = &mut turn => return Ok(known),
                () = client.clock().sleep_until(until) => {}
            }
            if self.answers.load(Ordering::Relaxed) == answers {
                return Err(ServerError::NotSent { reason: "those before it were not answered in time".into() });
            }
        }
    }
}

impl<T: Numeral> Atomic<T> {
    /// Sets it to what `change` makes of it, whatever others do meanwhile; `change` is called anew with each new number, and first
    /// with what this client's last update has left, where there was one. Tells what it is then. Its lifetime stays. After an
    /// unknown answer it does not go on.
    ///
    /// Updates of a client's tasks wait for each other in turn, so only those of other processes are in their way.
    ///
    /// # Errors
    ///
    /// [`AtomicError::Contended`] when others were quicker 100 times; else as the rest.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits for its turn, it changes nothing; what has left is carried out although nobody waits for it.
    #[doc(alias = "updateAndGet")]
    pub async fn update(&self, mut change: impl FnMut(T) -> T) -> Result<T, AtomicError> {
        let (number, line) = (self.number()?, self.line()?);
        let mut known = line.turn(&number.client).await.map_err(|error| number.failed(error))?;
        // Whoever is dropped, or has no answer, leaves nothing known.
        let mut was: T = match known.take() {
            Some(was) => was,
            None => number.get().await?,
        };
        for _ in 0..ROUNDS {
            let new = change(was);
            let (expected, text) = (number.written("number", was)?, number.written("number", new)?);
            let (set, is) = number.compare_and_set(expected, text, true).await?;
            line.answers.fetch_add(1, Ordering::Relaxed);
            if set {
                *known = Some(new);
                return Ok(new);
            }
            was = number.read(&is)?;
        }
        *known = Some(was);
        Err(AtomicError::Contended { name: number.name.clone() })
    }
}
