//! How many messages a queue has, and what has happened to how many.

use redgrid_core::object::ObjectError;

use crate::queue::ReliableQueue;

impl<T, C> ReliableQueue<T, C> {
    /// How many messages there are, and what has happened to how many.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "size")]
    #[doc(alias = "isEmpty")]
    #[doc(alias = "countDelayedMessages")]
    #[doc(alias = "countUnacknowledgedMessages")]
    pub async fn counts(&self) -> Result<Counts, ObjectError> {
        let said: Vec<u64> = self.object_ref().read(self.desk()?.keys.counts()).await?;
        self.counts_of(&said)
    }

    /// What counts.lua has said.
    pub(crate) fn counts_of(&self, said: &[u64]) -> Result<Counts, ObjectError> {
        let [ready, delayed, in_flight, dead, counted @ ..] = said else {
            return Err(self.unexpected("counts"));
        };
        let &[pushed, first, redelivered, acknowledged, returned, died, expired] = counted else {
            return Err(self.unexpected("counts"));
        };
        let totals =
            Totals { pushed, received: first + redelivered, redelivered, acknowledged, returned, died, expired };
        Ok(Counts { ready: *ready, delayed: *delayed, in_flight: *in_flight, dead: *dead, totals })
    }
}

/// How many messages a queue has, by where they are, and what has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// They wait to be received; those whose lifetime is over among them, until a change or a receive has dropped them.
    pub ready: u64,
    /// They will be ready later.
    pub delayed: u64,
    /// They were given to somebody, and are not settled.
    pub in_flight: u64,
    /// They are given to nobody any more.
    pub dead: u64,
    /// Since the queue was made.
    pub totals: Totals,
}

/// How often what has happened since a queue was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Messages that were pushed.
    pub pushed: u64,
    /// Messages that were given to somebody.
    pub received: u64,
    /// Of these, how many not for the first time.
    pub redelivered: u64,
    /// Messages that were acknowledged.
    pub acknowledged: u64,
    /// Messages that were given back, or not settled in time.
    pub returned: u64,
    /// Messages that died.
    pub died: u64,
    /// Messages whose lifetime was over, those of the dead among them.
    pub expired: u64,
}
