//! Metrics of connections and requests. Without the feature `metrics`, the functions of this module
//! do nothing.
//!
//! The descriptions of all metrics are in one table, `redgrid_core::observe::METRICS`.

#![cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "what is counted of nodes is not compiled then"))]

mod clock;
#[cfg(all(test, feature = "metrics"))]
pub(crate) mod recorded;

use std::time::Duration;

#[cfg(feature = "metrics")]
use self::enabled::emit;
use crate::connection::{ConnectionEvent, NodeId};
use crate::error::ServerError;
pub(crate) use clock::clock_offset;

const NODES: &str = "redgrid_nodes";
const CONNECTIONS_UP: &str = "redgrid_connections_up";
const RECONNECTS: &str = "redgrid_reconnects_total";
const GAPS: &str = "redgrid_gaps_total";
const PRIMARY_CHANGES: &str = "redgrid_primary_changes_total";
const TOPOLOGY_CHANGES: &str = "redgrid_topology_changes_total";
const REQUESTS: &str = "redgrid_requests_total";
const RETRIES: &str = "redgrid_retries_total";
const BYTES: &str = "redgrid_bytes_total";
const ROUND_TRIP: &str = "redgrid_round_trip_seconds";
const CLOCK_OFFSET: &str = "redgrid_clock_offset_seconds";
const SUBSCRIPTIONS: &str = "redgrid_subscriptions";
const BUILD_INFO: &str = "redgrid_build_info";

const ANSWERED: &str = "answered";
const REFUSED: &str = "refused";
const UNAUTHORIZED: &str = "unauthorized";
const NOT_SENT: &str = "not_sent";
const UNKNOWN: &str = "unknown";
const SHUTTING_DOWN: &str = "shutting_down";
const TOO_LATE: &str = "too_late";
const SENT: &str = "sent";
const RECEIVED: &str = "received";
const WANTED: &str = "wanted";
const CONFIRMED: &str = "confirmed";

/// A metric of this crate: its name, its label (empty for none), and the label's values if they are
/// known.
pub type Series = (&'static str, &'static str, &'static [&'static str]);

/// The metrics of this crate.
pub const SERIES: [Series; 13] = [
    (NODES, "", &[]),
    (CONNECTIONS_UP, "", &[]),
    (RECONNECTS, "", &[]),
    (GAPS, "", &[]),
    (PRIMARY_CHANGES, "", &[]),
    (TOPOLOGY_CHANGES, "", &[]),
    (REQUESTS, "outcome", &[ANSWERED, REFUSED, UNAUTHORIZED, NOT_SENT, UNKNOWN, SHUTTING_DOWN]),
    (RETRIES, "reason", &[REFUSED, UNAUTHORIZED, NOT_SENT, UNKNOWN, TOO_LATE]),
    (BYTES, "direction", &[SENT, RECEIVED]),
    (ROUND_TRIP, "node", &[]),
    (CLOCK_OFFSET, "node", &[]),
    (SUBSCRIPTIONS, "state", &[WANTED, CONFIRMED]),
    (BUILD_INFO, "version", &[]),
];

/// A change of a metric.
enum Change {
    /// Adds to a counter.
    Add(u64),
    /// Adds to a gauge.
    By(f64),
    /// Sets a gauge.
    To(f64),
    /// Records a time in a histogram.
    Took(Duration),
}

use Change::{Add, By, To, Took};

#[cfg(not(feature = "metrics"))]
#[inline(always)]
fn emit(_: &'static str, _: (&'static str, &str), _: Change) {}

/// Registers each series with the value 0, if it has no label or the values of its label are known.
pub fn register() {
    #[cfg(feature = "metrics")]
    enabled::register();
}

/// Records that a connection to a node has completed its handshake. `again` is true if the client
/// has been connected to this node before.
pub(crate) fn connected(again: bool) {
    emit(CONNECTIONS_UP, ("", ""), By(1.0));
    if again {
        emit(RECONNECTS, ("", ""), Add(1));
    }
}

pub(crate) fn disconnected() {
    emit(CONNECTIONS_UP, ("", ""), By(-1.0));
}

/// Records that the client uses one more node, even if the node is unreachable.
pub(crate) fn node_added(node: &NodeId) {
    emit(NODES, ("", ""), By(1.0));
    clock::node_added(&node.0);
    emit(BUILD_INFO, ("version", env!("CARGO_PKG_VERSION")), To(1.0));
}

/// Records that the client no longer uses a node.
pub(crate) fn node_removed(node: &NodeId) {
    emit(NODES, ("", ""), By(-1.0));
    clock::node_removed(&node.0);
}

/// Records that a gap has ended: subscriptions are active again after an interruption, or active at
/// the node to which they have moved.
pub(crate) fn gap() {
    emit(GAPS, ("", ""), Add(1));
}

pub(crate) fn topology_changed(event: &ConnectionEvent) {
    match event {
        ConnectionEvent::PrimaryChanged { .. } => emit(PRIMARY_CHANGES, ("", ""), Add(1)),
        _ => emit(TOPOLOGY_CHANGES, ("", ""), Add(1)),
    }
}

/// Records that a node has answered a transmission after `took`.
pub(crate) fn answered(node: &NodeId, took: Duration) {
    emit(ROUND_TRIP, ("node", &node.0), Took(took));
}

/// Records the end of a request.
pub(crate) fn request_ended<T>(result: &Result<T, ServerError>) {
    emit(REQUESTS, ("outcome", outcome(result)), Add(1));
}

/// Records that a request is sent again for this [reason](retry_reason).
pub(crate) fn retried(reason: &'static str) {
    emit(RETRIES, ("reason", reason), Add(1));
}

/// Records that a connection has written this many bytes.
pub(crate) fn sent(bytes: usize) {
    emit(BYTES, ("direction", SENT), Add(bytes as u64));
}

/// Records that a connection has read this many bytes.
pub(crate) fn received(bytes: usize) {
    emit(BYTES, ("direction", RECEIVED), Add(bytes as u64));
}

/// Returns the reason of a retry after a transmission with this result.
pub(crate) fn retry_reason<T>(result: &Result<T, ServerError>) -> &'static str {
    match outcome(result) {
        // An answered transmission is retried only if its reply says that it was too late.
        ANSWERED | SHUTTING_DOWN => TOO_LATE,
        reason => reason,
    }
}

fn outcome<T>(result: &Result<T, ServerError>) -> &'static str {
    match result {
        Ok(_) | Err(ServerError::Decode { .. }) => ANSWERED,
        Err(ServerError::Refused { .. }) => REFUSED,
        Err(ServerError::Unauthorized { .. }) => UNAUTHORIZED,
        Err(ServerError::NotSent { .. }) => NOT_SENT,
        Err(ServerError::Unknown { .. }) => UNKNOWN,
        Err(ServerError::ShuttingDown) => SHUTTING_DOWN,
    }
}

/// Counts one channel in the gauge of subscriptions until this value is dropped.
#[derive(Default)]
pub(crate) struct SubscriptionGauge {
    is_wanted: bool,
    is_confirmed: bool,
}

impl SubscriptionGauge {
    /// Records whether the channel has watchers, and whether the server has confirmed it. A channel
    /// without watchers is counted neither as wanted nor as confirmed.
    pub(crate) fn set(&mut self, is_wanted: bool, is_confirmed: bool) {
        let change = |from: bool, to: bool, state| match (from, to) {
            (false, true) => emit(SUBSCRIPTIONS, ("state", state), By(1.0)),
            (true, false) => emit(SUBSCRIPTIONS, ("state", state), By(-1.0)),
            _ => {}
        };
        let is_confirmed = is_wanted && is_confirmed;
        change(self.is_wanted, is_wanted, WANTED);
        change(self.is_confirmed, is_confirmed, CONFIRMED);
        (self.is_wanted, self.is_confirmed) = (is_wanted, is_confirmed);
    }
}

impl Drop for SubscriptionGauge {
    fn drop(&mut self) {
        self.set(false, false);
    }
}

#[cfg(feature = "metrics")]
mod enabled {
    use std::collections::HashMap;
    use std::sync::{LazyLock, PoisonError, RwLock};

    use metrics::{Key, Label, Level, Metadata, Recorder, with_recorder};

    use super::{Change, SERIES, Series};

    static METADATA: Metadata<'static> = Metadata::new("redgrid", Level::INFO, Some("redgrid"));

    /// The keys of the series in use: by recorder and name, then by the value of the label. A key
    /// is allocated once for each value of a label, such as a node, an outcome or a reason.
    type Keys = HashMap<(usize, &'static str), HashMap<Box<str>, Key, State>, State>;
    type State = foldhash::fast::RandomState;

    static KEYS: LazyLock<RwLock<Keys>> = LazyLock::new(RwLock::default);

    pub(super) fn register() {
        with_recorder(|recorder| {
            SERIES.iter().for_each(|series| begin_at_zero(recorder, series));
            apply(recorder, &key(super::BUILD_INFO, ("version", env!("CARGO_PKG_VERSION"))), Change::To(1.0));
        });
    }

    pub(super) fn emit(name: &'static str, label: (&'static str, &str), change: Change) {
        with_recorder(|recorder| {
            let series = (std::ptr::from_ref(recorder).addr(), name);
            let known = KEYS.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(key) = known.get(&series).and_then(|keys| keys.get(label.1)) {
                return apply(recorder, key, change);
            }
            drop(known);
            // Each counter begins at 0. If it first appeared with the value 1, Prometheus would not
            // count the increase from 0.
            SERIES.iter().for_each(|series| begin_at_zero(recorder, series));
            let key = key(name, label);
            apply(recorder, &key, change);
            let mut keys = KEYS.write().unwrap_or_else(PoisonError::into_inner);
            keys.entry(series).or_default().insert(label.1.into(), key);
        });
    }

    fn apply(recorder: &dyn Recorder, key: &Key, change: Change) {
        match change {
            Change::Add(count) => recorder.register_counter(key, &METADATA).increment(count),
            Change::By(by) => recorder.register_gauge(key, &METADATA).increment(by),
            Change::To(to) => recorder.register_gauge(key, &METADATA).set(to),
            Change::Took(took) => recorder.register_histogram(key, &METADATA).record(took),
        }
    }

    /// Registers a counter or gauge with each known value of its label.
    fn begin_at_zero(recorder: &dyn Recorder, series: &Series) {
        let (name, label, values) = *series;
        let values = if label.is_empty() { &[""] } else { values };
        for value in values {
            let key = key(name, (label, value));
            match name.ends_with("_total") {
                true => drop(recorder.register_counter(&key, &METADATA)),
                false => drop(recorder.register_gauge(&key, &METADATA)),
            }
        }
    }

    fn key(name: &'static str, (label, value): (&'static str, &str)) -> Key {
        match label {
            "" => Key::from_static_name(name),
            _ => Key::from_parts(name, vec![Label::new(label, value.to_owned())]),
        }
    }
}
