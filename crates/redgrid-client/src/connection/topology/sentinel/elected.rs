//! The replica that the leading sentinel of a failover has chosen, until the sentinels name it as
//! the primary.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::Address;
use crate::connection::Server;
use crate::connection::node::Node;

/// How long the leading sentinel can take to report the number of the election of a failover: 10 s.
///
/// After that, the chosen server is followed only while it reports the role of a primary and
/// [`Elected::is_backed`] is set. 10 s is ample: the sentinel queries the chosen server every
/// second, and reports the new number once the server reports the role of a primary.
const COUNTED_WITHIN: Duration = Duration::from_secs(10);

/// How long the leading sentinel can leave queries unanswered before its choice is given up: 2 s.
const LEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// A replica that was chosen to replace a primary.
pub(super) struct Elected {
    pub(super) address: Address,
    /// The node of the replica. The node counts as connected only while its server reports the role
    /// of a primary. So before the promotion, the node is not connected.
    pub(super) node: Arc<Node>,
    /// The number of the latest election before this failover.
    pub(super) after: u64,
    /// The sentinel that leads the failover.
    pub(super) leader: Arc<Node>,
    /// When the leading sentinel last named this replica as the chosen one.
    pub(super) chosen_at: Instant,
    pub(super) followed_at: Option<Instant>,
    /// Whether the last answers still justify following this replica: it is still the chosen one,
    /// or the sentinels report the former primary as down.
    pub(super) is_backed: bool,
}

impl Elected {
    /// Returns whether this replica must be given up before the client has used it as the primary.
    ///
    /// The replica is given up if another replica is now chosen. If no replica is chosen now, this
    /// one is given up once the leading sentinel has answered, or has been silent for
    /// [`LEADER_TIMEOUT`]. The answers of other sentinels do not matter, because they do not report
    /// the failover.
    pub(super) fn is_given_up(&self, chosen: Option<&Address>, has_leader_answered: bool) -> bool {
        let is_other = match chosen {
            Some(chosen) => *chosen != self.address,
            None => has_leader_answered || self.chosen_at.elapsed() > LEADER_TIMEOUT,
        };
        self.followed_at.is_none() && is_other
    }

    pub(super) fn is_primary(&self) -> bool {
        self.node.connection_id().borrow().is_some()
    }

    /// Returns whether the client has begun to follow the replica as the primary, and continues to
    /// do so.
    pub(super) fn is_followed(&self) -> bool {
        self.followed_at.is_some_and(|at| goes_on(at.elapsed(), self.is_primary(), self.is_backed))
    }
}

/// Returns whether to keep following a chosen server that has been followed for `followed_for`.
///
/// A failover that is given up does not change the election number. The server that was chosen in
/// this failover reports the role of a primary until the sentinels demote the server. Meanwhile the
/// sentinels and other clients return to the former primary. So after [`COUNTED_WITHIN`], the
/// server's own report is not sufficient. Before that, not even a lost connection causes a return
/// to the former primary.
fn goes_on(followed_for: Duration, is_primary: bool, is_backed: bool) -> bool {
    followed_for < COUNTED_WITHIN || is_primary && is_backed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promotion_that_was_given_up_is_not_followed_for_ever() {
        let (soon, late) = (Duration::ZERO, COUNTED_WITHIN);
        // While the failover may be in progress, the client does not return to the former primary.
        assert!(goes_on(soon, true, false) && goes_on(soon, false, false));
        // Later the server must be a primary and be backed by the sentinels.
        assert!(goes_on(late, true, true));
        assert!(!goes_on(late, true, false) && !goes_on(late, false, true));
    }
}
