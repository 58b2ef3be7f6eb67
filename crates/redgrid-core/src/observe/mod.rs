//! Metrics and spans, with fixed names.
//!
//! Metrics are recorded by the crate `metrics` (feature `metrics`), and spans by the crate
//! `tracing` (feature `tracing`). Both features are off by default. Without them nothing is
//! recorded, and the future of an operation is not wrapped. No label contains the name of a lock.
//! Otherwise each name would be a time series of its own, and the number of names is unbounded. The
//! label `family` groups names instead. It is a constant of the program, such as `orders` in
//! `lock.family("orders")`. docs/operating/observability.md is the guide.

mod caller;
pub(crate) mod count;
#[cfg(not(feature = "metrics"))]
mod disabled;
pub(crate) mod objects;
mod operation;
#[cfg(feature = "metrics")]
mod series;
#[cfg(any(feature = "metrics", feature = "tracing"))]
mod span;
mod table;

pub use self::table::METRICS;
pub use self::table::fleet::{self, FLEET_METRICS};
pub(crate) use caller::{CallerSpan, HoldSpan};
pub(crate) use operation::{OpContext, OpSpan, Outcome};

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name of the metric.
    pub name: &'static str,
    /// Whether the metric is a counter, a gauge or a histogram.
    pub form: Form,
    /// The names of the labels that each value has.
    pub labels: &'static [&'static str],
    /// The possible values of the last label, if they are few and known; otherwise empty.
    ///
    /// [`describe`] registers a counter or a gauge for each of them.
    pub values: &'static [&'static str],
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

/// The values of the label `kind`.
pub const KINDS: [&str; 11] = [
    "lock",
    "fair",
    "fenced",
    "spin",
    "quorum",
    "quorum-fenced",
    "read lock",
    "write lock",
    "election",
    "leased_semaphore",
    "semaphore",
];

/// Recommended upper bounds of the buckets of all histograms, in seconds: 0.5 ms to 1 minute.
///
/// A recorder without buckets computes quantiles in each process, and the quantiles of several
/// processes cannot be combined. With the crate `metrics-exporter-prometheus`, set the buckets by
/// `PrometheusBuilder::new().set_buckets(&WAIT_BUCKETS)`.
pub const WAIT_BUCKETS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Describes each metric to the recorder, and registers counters, gauges and
/// `redgrid_stall_seconds` with the value 0.
///
/// Call it once, after the recorder was installed. Without this call, metrics have no description,
/// and a series appears with the first operation of its kind. Prometheus sees no increase if a
/// series appears with the value 1. Series with a label `family` are registered for the family
/// `""`. Series of other families appear with their first use.
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
    redgrid_client::internal::count::register();
    count::register();
}

#[cfg(test)]
mod tests {
    use redgrid_client::internal::count::SERIES;

    use super::{METRICS, WAIT_BUCKETS, objects, table};

    #[test]
    fn the_metrics_of_connections_are_in_the_table() {
        for (name, label, values) in SERIES {
            let metric = METRICS.iter().find(|metric| metric.name == name);
            let metric = metric.unwrap_or_else(|| panic!("{name} is not in the table"));
            let labels: Vec<_> = Some(label).into_iter().filter(|label| !label.is_empty()).collect();
            assert_eq!((metric.labels, metric.values), (&labels[..], values), "{name}");
        }
    }

    #[test]
    #[cfg(feature = "metrics")]
    fn the_reasons_of_a_loss_are_in_the_table() {
        let reasons = crate::lock::LostReason::ALL.map(crate::lock::LostReason::label);
        assert_eq!(table::LOST.values, reasons);
    }

    #[test]
    fn what_objects_count_is_in_the_table() {
        assert_eq!(table::QUEUE_MESSAGES.values, objects::QueueEvent::ALL.map(objects::QueueEvent::label));
        assert_eq!(table::LIMIT_DECISIONS.values, objects::Decision::ALL.map(objects::Decision::label));
        assert_eq!(table::CACHE_REQUESTS.values, objects::CacheResult::ALL.map(objects::CacheResult::label));
        assert_eq!(table::CACHE_EVICTIONS.values, objects::Removal::ALL.map(objects::Removal::label));
        assert_eq!(table::TOPIC_MESSAGES.values, objects::Direction::ALL.map(objects::Direction::label));
        assert_eq!(table::TRANSACTIONS.values, objects::CommitOutcome::ALL.map(objects::CommitOutcome::label));
    }

    #[test]
    fn buckets_rise() {
        assert!(WAIT_BUCKETS.is_sorted());
    }
}
