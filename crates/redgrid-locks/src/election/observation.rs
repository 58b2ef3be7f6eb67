//! Following who leads.

use std::time::Duration;

use redgrid_core::{ServerError, Token};

use super::kind::observed;
use super::{Election, Leader};
use crate::looks::Looks;

/// How often an observer looks although nothing was told: 5 s. Messages tell of leaders that come and resign; this finds what
/// a lost message would have told.
const LOOK: Duration = Duration::from_secs(5);

/// The same while it gets no messages: 1 s.
const LOOK_UNSUBSCRIBED: Duration = Duration::from_secs(1);

/// Added to what a lease has left, so that it is over when it is looked at.
const AFTER: Duration = Duration::from_millis(2);

/// Follows who leads; made by [`Election::observe`]. Dropping it ends the subscription.
pub struct Observation {
    election: Election,
    looks: Looks,
    /// What was told last.
    told: Option<Option<Token>>,
    /// When the next look is due though nothing is told.
    within: Duration,
}

impl Observation {
    pub(super) fn new(election: Election) -> Self {
        let target = election.target.as_ref().ok();
        let watch = target.map(|target| election.client.watch(observed(target), target.key.clone()));
        Observation { election, looks: Looks::new(watch), told: None, within: LOOK_UNSUBSCRIBED }
    }

    /// The present leader the first time, and then each time another is seen to lead, or nobody. What came and went between two
    /// looks is not told.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked for `response_timeout × (retries + 1)`; the next call goes on.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a change that was not told is told by the next call.
    pub async fn next(&mut self) -> Result<Option<Leader>, ServerError> {
        loop {
            self.looks.next(self.election.client.clock(), self.within).await;
            let leader = self.election.leader().await?;
            self.looks.taken();
            let left = leader.as_ref().map_or(LOOK, |leader| leader.remaining + AFTER);
            self.within = left.min(if self.looks.hears() { LOOK } else { LOOK_UNSUBSCRIBED });
            let term = leader.as_ref().map(|leader| leader.term);
            if self.told != Some(term) {
                self.told = Some(term);
                return Ok(leader);
            }
        }
    }
}

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation")
            .field("election", &self.election)
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}
