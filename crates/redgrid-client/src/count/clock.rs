//! The offsets of the clocks of nodes.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{CLOCK_OFFSET, Change, emit};

/// The longest exchange from which a clock is measured: 1 s. The error of the measurement is at
/// most half the duration of the exchange.
const LONGEST_EXCHANGE: Duration = Duration::from_secs(1);

/// The number of clients in this process that use each node; nodes that no client uses have no
/// entry. An offset is recorded while this map is locked, so no offset is recorded after the last
/// client has left the node.
static USERS: LazyLock<Mutex<HashMap<Box<str>, usize>>> = LazyLock::new(Mutex::default);

/// Records that one more client uses a node.
pub(super) fn node_added(node: &str) {
    if cfg!(feature = "metrics") {
        *USERS.lock().unwrap_or_else(PoisonError::into_inner).entry(node.into()).or_default() += 1;
    }
}

/// Records that a client no longer uses a node. When the last client has left, the node's clock is
/// no longer measured, and the recorded offset is set to 0. Otherwise the metrics would show the
/// last measured offset for ever.
pub(super) fn node_removed(node: &str) {
    if !cfg!(feature = "metrics") {
        return;
    }
    let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(count) = users.get_mut(node) else { return };
    *count -= 1;
    if *count == 0 {
        users.remove(node);
        emit(CLOCK_OFFSET, ("node", node), Change::To(0.0));
    }
}

/// Records how far the clock of a node is ahead of this machine. The node has just reported its
/// time, in microseconds since 1970, in an exchange that took `round_trip`.
///
/// A slow exchange says too little about the clock, and is not recorded. An exchange with a node
/// that no client uses is not recorded either: the first client may not have been added yet, or the
/// last client may have left already.
pub(crate) fn clock_offset(node: &dyn Display, server_micros: u64, round_trip: Duration) {
    if cfg!(feature = "metrics")
        && round_trip <= LONGEST_EXCHANGE
        && let Ok(here) = SystemTime::now().duration_since(UNIX_EPOCH)
    {
        let (node, here) = (node.to_string(), here.saturating_sub(round_trip / 2));
        let users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        if users.contains_key(&*node) {
            let offset = server_micros as f64 / 1e6 - here.as_secs_f64();
            emit(CLOCK_OFFSET, ("node", &node), Change::To(offset));
        }
    }
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use super::super::recorded::Recorded;
    use super::*;

    /// Returns the time of a server whose clock is 50 s ahead, in microseconds since 1970.
    fn ahead() -> u64 {
        let ahead = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(50);
        u64::try_from(ahead.as_micros()).unwrap()
    }

    #[test]
    fn slow_exchanges_measure_no_clock_and_removed_nodes_have_none() {
        let recorded = Recorded::default();
        let offset = || recorded.gauge(CLOCK_OFFSET, "a:1");
        metrics::with_local_recorder(&recorded, || {
            node_added("a:1");
            clock_offset(&"a:1", ahead(), Duration::from_millis(1_001));
            assert_eq!(offset(), 0.0);
            clock_offset(&"a:1", ahead(), Duration::from_millis(10));
            assert!((40.0..60.0).contains(&offset()), "{}", offset());
            node_removed("a:1");
            assert_eq!(offset(), 0.0);
            // This reply answers a request that was sent before the node was removed.
            clock_offset(&"a:1", ahead(), Duration::from_millis(10));
            assert_eq!(offset(), 0.0);
        });
    }

    #[test]
    fn a_node_has_an_offset_until_its_last_client_leaves() {
        let recorded = Recorded::default();
        let offset = || recorded.gauge(CLOCK_OFFSET, "b:1");
        metrics::with_local_recorder(&recorded, || {
            node_added("b:1");
            node_added("b:1");
            clock_offset(&"b:1", ahead(), Duration::from_millis(10));
            node_removed("b:1");
            assert!((40.0..60.0).contains(&offset()), "{}", offset());
            node_removed("b:1");
            assert_eq!(offset(), 0.0);
        });
    }
}
