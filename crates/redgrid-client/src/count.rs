//! Counters and gauges of connections. Without the feature `metrics`, the functions of this module
//! do nothing.
//!
//! The descriptions of all metrics are in one table, `redgrid_core::observe::METRICS`.

#[cfg(not(feature = "metrics"))]
use self::disabled::{add, gauge};
#[cfg(feature = "metrics")]
use self::enabled::{add, gauge};
use crate::connection::ConnectionEvent;

const NODES: &str = "redgrid_nodes";
const CONNECTIONS_UP: &str = "redgrid_connections_up";
const RECONNECTS: &str = "redgrid_reconnects_total";
const GAPS: &str = "redgrid_gaps_total";
const PRIMARY_CHANGES: &str = "redgrid_primary_changes_total";
const TOPOLOGY_CHANGES: &str = "redgrid_topology_changes_total";

/// The gauges of this crate.
pub const GAUGES: [&str; 2] = [NODES, CONNECTIONS_UP];

/// The counters of this crate.
pub const COUNTERS: [&str; 4] = [RECONNECTS, GAPS, PRIMARY_CHANGES, TOPOLOGY_CHANGES];

/// Records that a connection to a node has completed its handshake. `again`: whether the client has
/// been connected to this node before.
pub(crate) fn connected(again: bool) {
    gauge(CONNECTIONS_UP, 1.0);
    if again {
        add(RECONNECTS);
    }
}

pub(crate) fn disconnected() {
    gauge(CONNECTIONS_UP, -1.0);
}

/// Records that the client uses one more node, even if the node is unreachable.
pub(crate) fn node_added() {
    gauge(NODES, 1.0);
}

pub(crate) fn node_removed() {
    gauge(NODES, -1.0);
}

/// Records that a gap has ended: subscriptions are active again after an interruption, or active at
/// the node to which they have moved.
pub(crate) fn gap() {
    add(GAPS);
}

pub(crate) fn topology_changed(event: &ConnectionEvent) {
    match event {
        ConnectionEvent::PrimaryChanged { .. } => add(PRIMARY_CHANGES),
        _ => add(TOPOLOGY_CHANGES),
    }
}

#[cfg(not(feature = "metrics"))]
mod disabled {
    #[inline(always)]
    pub(super) fn add(_: &'static str) {}

    #[inline(always)]
    pub(super) fn gauge(_: &'static str, _: f64) {}
}

#[cfg(feature = "metrics")]
mod enabled {
    use metrics::{Key, Level, Metadata, Recorder, with_recorder};

    static METADATA: Metadata<'static> = Metadata::new("redgrid", Level::INFO, Some("redgrid"));

    pub(super) fn add(counter: &'static str) {
        record(|recorder| recorder.register_counter(&Key::from_static_name(counter), &METADATA).increment(1));
    }

    pub(super) fn gauge(gauge: &'static str, by: f64) {
        record(|recorder| recorder.register_gauge(&Key::from_static_name(gauge), &METADATA).increment(by));
    }

    /// Registers all counters, and then records a value. If a counter first appeared with the value
    /// 1, Prometheus would not count the increase from 0.
    fn record(value: impl FnOnce(&dyn Recorder)) {
        with_recorder(|recorder| {
            for counter in super::COUNTERS {
                drop(recorder.register_counter(&Key::from_static_name(counter), &METADATA));
            }
            value(recorder);
        });
    }
}
