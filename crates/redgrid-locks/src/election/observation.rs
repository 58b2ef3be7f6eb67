//! Follows the leader of an election.

use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::wait_queue::AFTER_CHANGE;
use redgrid_core::{ServerError, Token};

use super::kind::observer_channel;
use super::{Election, Leader};
use crate::change_listener::ChangeListener;

/// Poll interval while the subscription is active: 5 s.
///
/// Messages announce new leaders and resignations. The poll makes up for a lost message.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Poll interval while the subscription is not active: 1 s.
const UNSUBSCRIBED_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Follows the leader; made by [`Election::observe`]. Dropping it ends the subscription.
pub struct Observation {
    election: Election,
    listener: ChangeListener,
    /// The term that was returned last; `Some(None)` for no leader.
    last_term: Option<Option<Token>>,
    /// Time until the next poll, if no message arrives.
    interval: Duration,
}

impl Observation {
    pub(super) fn new(election: Election) -> Self {
        let target = election.target.as_ref().ok();
        let watch = target.map(|target| election.client.watch(observer_channel(target), target.key.clone()));
        Observation {
            election,
            listener: ChangeListener::new(watch),
            last_term: None,
            interval: UNSUBSCRIBED_POLL_INTERVAL,
        }
    }

    /// Returns the current leader at the first call, and then each change; `None` for no leader.
    ///
    /// A leadership that began and ended between two polls is missed.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the server could not be reached for `response_timeout × (retries + 1)`.
    /// The next call continues.
    ///
    /// # Cancel safety
    ///
    /// No change is lost: one that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Result<Option<Leader>, ServerError> {
        loop {
            self.listener.poll_due(self.election.client.clock(), self.interval).await;
            let leader = self.election.leader().await?;
            self.listener.complete_poll();
            let lease_ends = leader.as_ref().map_or(POLL_INTERVAL, |leader| leader.remaining + AFTER_CHANGE);
            let longest = if self.listener.is_subscribed() { POLL_INTERVAL } else { UNSUBSCRIBED_POLL_INTERVAL };
            self.interval = lease_ends.min(longest);
            let term = leader.as_ref().map(|leader| leader.term);
            if self.last_term != Some(term) {
                self.last_term = Some(term);
                return Ok(leader);
            }
        }
    }
}

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation")
            .field("election", &self.election)
            .field("last_term", &self.last_term)
            .finish_non_exhaustive()
    }
}
