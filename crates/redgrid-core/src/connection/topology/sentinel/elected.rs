//! The replica that a sentinel has chosen in the failover that it leads, until the sentinels name it as the primary.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::Address;
use crate::connection::Server;
use crate::connection::node::Node;

/// How long the sentinel that leads a failover may take to count it: 10 s. After that the chosen server is followed only while it
/// says that it is a primary, and the sentinels back it. That sentinel asks the server how it goes every second.
const COUNTED_WITHIN: Duration = Duration::from_secs(10);

/// How long the sentinel that leads a failover may leave out an answer: 2 s.
const LEADER_SILENT_FOR: Duration = Duration::from_secs(2);

/// A replica that has been chosen to take the place of a primary.
pub(super) struct Elected {
    pub(super) address: Address,
    /// Connected as soon as it says that it is a primary.
    pub(super) node: Arc<Node>,
    /// The last election before.
    pub(super) after: u64,
    /// The sentinel that leads the failover, and when it last named this one.
    pub(super) leader: Arc<Node>,
    pub(super) chosen_at: Instant,
    pub(super) followed_at: Option<Instant>,
    /// By the last answers it still is the one, or the former primary is still down.
    pub(super) is_backed: bool,
}

impl Elected {
    pub(super) fn new(address: Address, node: Arc<Node>, after: u64, leader: &Arc<Node>) -> Elected {
        let (leader, chosen_at) = (Arc::clone(leader), Instant::now());
        Elected { address, node, after, leader, chosen_at, followed_at: None, is_backed: true }
    }

    /// Whether it is not to be followed any more, before it ever was: the sentinels name `chosen` by now. The others know of no
    /// failover, so none of them counts before the one that leads it has been silent for long.
    pub(super) fn is_given_up(&self, chosen: Option<&Address>, is_leader_heard: bool) -> bool {
        let is_other = match chosen {
            Some(chosen) => *chosen != self.address,
            None => is_leader_heard || self.chosen_at.elapsed() > LEADER_SILENT_FOR,
        };
        self.followed_at.is_none() && is_other
    }

    pub(super) fn is_primary(&self) -> bool {
        self.node.connection_id().borrow().is_some()
    }

    /// Whether it is followed, and goes on to be.
    pub(super) fn is_followed(&self) -> bool {
        self.followed_at.is_some_and(|at| goes_on(at.elapsed(), self.is_primary(), self.is_backed))
    }
}

/// Whether a chosen server is followed on, so long after it was followed first. A failover that is given up changes no count: the
/// server says that it is a primary until it is demoted, while the sentinels and other clients go on with the former one. So its own
/// word is enough for a while only. Within that time a new connection that wavers leads nowhere back.
fn goes_on(followed_for: Duration, is_primary: bool, is_backed: bool) -> bool {
    followed_for < COUNTED_WITHIN || is_primary && is_backed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promotion_that_was_given_up_is_not_followed_for_ever() {
        let (soon, late) = (Duration::ZERO, COUNTED_WITHIN);
        // While it may be under way, nothing leads back.
        assert!(goes_on(soon, true, false) && goes_on(soon, false, false));
        // Later it is to be a primary, and backed by the sentinels.
        assert!(goes_on(late, true, true));
        assert!(!goes_on(late, true, false) && !goes_on(late, false, true));
    }
}
