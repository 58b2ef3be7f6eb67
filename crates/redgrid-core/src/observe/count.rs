//! Counters, gauges and histograms. Without the feature `metrics`, the functions of this module do
//! nothing.

#![cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "what is counted of operations is not compiled then"))]

use std::time::Duration;

use super::Metric;
use crate::lock::LostReason;

pub(crate) fn waiting(kind: &'static str) {
    gauge(&super::WAITING, kind, 1.0);
}

/// Records that an acquire has ended after `waited`.
pub(crate) fn waited(kind: &'static str, outcome: &'static str, waited: Duration) {
    gauge(&super::WAITING, kind, -1.0);
    refused(kind, outcome, waited);
    match outcome {
        super::operation::ACQUIRED => add(&super::ACQUIRED, [kind]),
        super::operation::TIMED_OUT => add(&super::TIMED_OUT, [kind]),
        _ => {}
    }
}

/// Records an acquire that was rejected before it counted as waiting.
pub(crate) fn refused(kind: &'static str, outcome: &'static str, waited: Duration) {
    record(&super::ACQUIRE_WAIT, [kind, outcome], waited);
}

/// Records that a name was taken over or released by force.
pub(crate) fn forced(kind: &'static str) {
    add(&super::FORCED, [kind]);
}

pub(crate) fn held(kind: &'static str) {
    gauge(&super::HELD, kind, 1.0);
}

/// Records the end of a hold that lasted for `held`. `how` says whether the hold was released or
/// lost. It is `None` if the guard was forgotten: the lock then stays taken until its lease ends.
pub(crate) fn ended(kind: &'static str, held: Duration, how: Option<Result<(), LostReason>>) {
    gauge(&super::HELD, kind, -1.0);
    record(&super::HOLD, [kind], held);
    match how {
        Some(Ok(())) => add(&super::RELEASED, [kind]),
        Some(Err(reason)) => add(&super::LOST, [kind, reason.label()]),
        None => {}
    }
}

/// Records the end of a hold that was never accepted by a caller.
pub(crate) fn never_held(kind: &'static str) {
    gauge(&super::HELD, kind, -1.0);
}

pub(crate) fn renewal_failed(kind: &'static str) {
    add(&super::RENEWALS_FAILED, [kind]);
}

/// Records that the server removed a queue position of this process although the process lives.
pub(crate) fn position_lost(kind: &'static str) {
    add(&super::POSITIONS_LOST, [kind]);
}

/// Records that a hold was handed over without a request.
pub(crate) fn handed_over(kind: &'static str) {
    add(&super::LOCAL_HANDOVERS, [kind]);
}

#[cfg(not(feature = "metrics"))]
use disabled::{add, gauge, record};
#[cfg(feature = "metrics")]
use enabled::{add, gauge, record};

#[cfg(not(feature = "metrics"))]
mod disabled {
    use super::{Duration, Metric};

    #[inline(always)]
    pub(super) fn add<const N: usize>(_: &'static Metric, _: [&'static str; N]) {}

    #[inline(always)]
    pub(super) fn gauge(_: &'static Metric, _: &'static str, _: f64) {}

    #[inline(always)]
    pub(super) fn record<const N: usize>(_: &'static Metric, _: [&'static str; N], _: Duration) {}
}

#[cfg(feature = "metrics")]
mod enabled {
    use std::collections::HashMap;
    use std::sync::{LazyLock, PoisonError, RwLock};

    use metrics::{Key, Label, Level, Metadata, Recorder, with_recorder};

    use super::super::operation::UNKNOWN;
    use super::super::{Form, METRICS};
    use super::{Duration, LostReason, Metric};

    static METADATA: Metadata<'static> = Metadata::new("redgrid", Level::INFO, Some("redgrid"));

    /// The values of a metric's labels. Unused elements are empty.
    type Values = [&'static str; 2];

    /// A series: the address of its recorder, the metric, and the values of its labels.
    type Series = (usize, &'static str, Values);

    /// The [`Key`] of each series in use, for each recorder. So a key is allocated once for each
    /// series, not for each value. The number of series is bounded by the combinations of kinds,
    /// outcomes and reasons.
    static KEYS: LazyLock<RwLock<HashMap<Series, Key>>> = LazyLock::new(RwLock::default);

    pub(super) fn add<const N: usize>(metric: &'static Metric, labels: [&'static str; N]) {
        with_key(metric, labels, |recorder, key| recorder.register_counter(key, &METADATA).increment(1));
    }

    pub(super) fn gauge(metric: &'static Metric, kind: &'static str, by: f64) {
        with_key(metric, [kind], |recorder, key| recorder.register_gauge(key, &METADATA).increment(by));
    }

    pub(super) fn record<const N: usize>(metric: &'static Metric, labels: [&'static str; N], took: Duration) {
        with_key(metric, labels, |recorder, key| recorder.register_histogram(key, &METADATA).record(took));
    }

    fn with_key<const N: usize>(
        metric: &'static Metric,
        labels: [&'static str; N],
        work: impl FnOnce(&dyn Recorder, &Key),
    ) {
        let mut values: Values = [""; 2];
        values.iter_mut().zip(labels).for_each(|(place, value)| *place = value);
        with_recorder(|recorder| {
            let series = (std::ptr::from_ref(recorder).addr(), metric.name, values);
            let known = KEYS.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(key) = known.get(&series) {
                return work(recorder, key);
            }
            drop(known);
            begin_at_zero(recorder, metric, values[0]);
            let key = key(metric, values);
            work(recorder, &key);
            KEYS.write().unwrap_or_else(PoisonError::into_inner).insert(series, key);
        });
    }

    /// Registers all counters of `kind`, and those without labels, so that each of them begins at
    /// 0. The caller does this before it records the first value of a series. If a counter began at
    /// 1, Prometheus would not notice the increase from 0. Histograms with outcomes are registered
    /// with the outcome `unknown`.
    fn begin_at_zero(recorder: &dyn Recorder, first: &Metric, kind: &'static str) {
        let counter = |metric, values| drop(recorder.register_counter(&key(metric, values), &METADATA));
        let wanted = |metric: &&Metric| metric.labels.is_empty() || metric.labels.first() == first.labels.first();
        for metric in METRICS.iter().filter(wanted) {
            match (metric.form, metric.labels) {
                (Form::Counter, [_, "reason"]) => {
                    LostReason::ALL.iter().for_each(|reason| counter(metric, [kind, reason.label()]));
                }
                (Form::Counter, _) => counter(metric, [kind, ""]),
                (Form::Histogram, [_, "outcome"]) => {
                    drop(recorder.register_histogram(&key(metric, [kind, UNKNOWN]), &METADATA));
                }
                (Form::Histogram | Form::Gauge, _) => {}
            }
        }
    }

    fn key(metric: &Metric, values: Values) -> Key {
        let labels: Vec<Label> =
            metric.labels.iter().zip(values).map(|(name, value)| Label::from_static_parts(name, value)).collect();
        Key::from_parts(metric.name, labels)
    }
}
