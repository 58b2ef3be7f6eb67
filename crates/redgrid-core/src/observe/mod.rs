//! Metrics and spans, with fixed names.
//!
//! Metrics are recorded by the crate `metrics` (feature `metrics`), and spans by the crate
//! `tracing` (feature `tracing`). Both features are off by default. Without them nothing is
//! recorded, and the future of an operation is not wrapped. No label contains the name of a lock.
//! Otherwise each name would be a time series of its own, and the number of names is unbounded.
//! docs/operating/observability.md is the guide.

pub(crate) mod count;
mod operation;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod span;

pub(crate) use operation::{OpContext, OpSpan, Outcome};

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name at the recorder.
    pub name: &'static str,
    /// Whether the metric is a counter, a gauge or a histogram.
    pub form: Form,
    /// The names of the labels that each value has.
    pub labels: &'static [&'static str],
    /// A description of what is measured.
    pub about: &'static str,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// A number that only rises.
    Counter,
    /// A number that rises and falls.
    Gauge,
    /// A distribution of durations, in seconds.
    Histogram,
}

macro_rules! metrics {
    ($($constant:ident $form:ident $name:literal [$($label:literal),*] $about:literal;)*) => {
        $(pub(crate) const $constant: Metric =
            Metric { name: $name, form: Form::$form, labels: &[$($label),*], about: $about };)*

        /// All metrics, the most important one first.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    ACQUIRE_WAIT Histogram "redgrid_acquire_wait_seconds" ["kind", "outcome"]
        "from the call of an acquire to its end, however it ended";
    HOLD Histogram "redgrid_hold_seconds" ["kind"]
        "from a grant to the release or the loss";
    ACQUIRED Counter "redgrid_acquired_total" ["kind"]
        "acquires that were granted, re-entries included";
    TIMED_OUT Counter "redgrid_timed_out_total" ["kind"]
        "acquires that timed out while others held the lock";
    LOST Counter "redgrid_lost_total" ["kind", "reason"]
        "holds that ended without being released";
    RELEASED Counter "redgrid_released_total" ["kind"]
        "holds that their owners released";
    FORCED Counter "redgrid_forced_total" ["kind"]
        "names that this process took or freed by force";
    RENEWALS_FAILED Counter "redgrid_renewals_failed_total" ["kind"]
        "renewals of a hold that were not confirmed and are tried again";
    LOCAL_HANDOVERS Counter "redgrid_local_handovers_total" ["kind"]
        "holds that passed from task to task without a request";
    POSITIONS_LOST Counter "redgrid_positions_lost_total" ["kind"]
        "queue positions that the server had removed, and that were requested again";
    HELD Gauge "redgrid_held" ["kind"]
        "holds that are valid by the local clock";
    WAITING Gauge "redgrid_waiting" ["kind"]
        "acquires that are in flight or wait";
    NODES Gauge "redgrid_nodes" []
        "nodes that are used, connected or not";
    CONNECTIONS_UP Gauge "redgrid_connections_up" []
        "nodes whose connection has answered its handshake";
    RECONNECTS Counter "redgrid_reconnects_total" []
        "connections to a node that had been connected before";
    GAPS Counter "redgrid_gaps_total" []
        "ended interruptions of subscriptions";
    PRIMARY_CHANGES Counter "redgrid_primary_changes_total" []
        "primaries that were replaced";
    TOPOLOGY_CHANGES Counter "redgrid_topology_changes_total" []
        "other changes of the topology, the first view included";
}

/// Describes each metric to the recorder. Without this call, metrics have no description.
#[cfg(feature = "metrics")]
pub fn describe() {
    for metric in METRICS {
        match metric.form {
            Form::Counter => ::metrics::describe_counter!(metric.name, metric.about),
            Form::Gauge => ::metrics::describe_gauge!(metric.name, metric.about),
            Form::Histogram => {
                ::metrics::describe_histogram!(metric.name, ::metrics::Unit::Seconds, metric.about);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use redgrid_client::internal::{COUNTERS, GAUGES};

    use super::{Form, METRICS};

    #[test]
    fn the_metrics_of_connections_are_in_the_table() {
        let of = |form| METRICS.iter().filter(move |metric| metric.form == form && metric.labels.is_empty());
        assert!(of(Form::Gauge).map(|metric| metric.name).eq(GAUGES));
        assert!(of(Form::Counter).map(|metric| metric.name).eq(COUNTERS));
    }
}
