//! Passes the values of metrics to the recorder. A series is a metric with one combination of
//! values of its labels. Each series is registered at the recorder before its first value.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};
use std::time::Duration;

use metrics::{Key, Label, Level, Metadata, Recorder, with_recorder};

use super::operation::UNKNOWN;
use super::table::METRICS;
use super::{Form, KINDS, Metric};

static METADATA: Metadata<'static> = Metadata::new("redgrid", Level::INFO, Some("redgrid"));

/// Maximum number of labels of a metric.
const MAX_LABELS: usize = 3;

/// The values of a metric's labels. If a metric has fewer labels, the remaining values are empty.
type Values = [&'static str; MAX_LABELS];

/// A series: the address of its recorder, the metric, and the values of its labels.
type Series = (usize, &'static str, Values);

/// The keys of the series in use at each recorder. A key is allocated once for each series, not for
/// each recorded value. A metric has one series for each combination of its labels' values, such as
/// kinds, families, outcomes and reasons.
static KEYS: LazyLock<RwLock<HashMap<Series, Key, foldhash::fast::RandomState>>> = LazyLock::new(RwLock::default);

pub(super) fn add<const N: usize>(metric: &'static Metric, labels: [&'static str; N]) {
    add_many(metric, labels, 1);
}

pub(super) fn add_many<const N: usize>(metric: &'static Metric, labels: [&'static str; N], count: u64) {
    with_key(metric, labels, |recorder, key| recorder.register_counter(key, &METADATA).increment(count));
}

pub(super) fn gauge<const N: usize>(metric: &'static Metric, labels: [&'static str; N], by: f64) {
    with_key(metric, labels, |recorder, key| recorder.register_gauge(key, &METADATA).increment(by));
}

pub(super) fn record<const N: usize>(metric: &'static Metric, labels: [&'static str; N], took: Duration) {
    with_key(metric, labels, |recorder, key| recorder.register_histogram(key, &METADATA).record(took));
}

/// Registers a metric with the first label `family`, for this family. The first event of the metric
/// is then an increase from 0.
pub(super) fn begin(metric: &'static Metric, family: &'static str) {
    let values: Values = [family, "", ""];
    with_recorder(|recorder| {
        let series = (std::ptr::from_ref(recorder).addr(), metric.name, values);
        if KEYS.read().unwrap_or_else(PoisonError::into_inner).contains_key(&series) {
            return;
        }
        begin_at_zero(recorder, metric, &[], family);
        // If the metric has further labels, nothing is ever recorded with this key. It only shows
        // that the metric is registered for the family.
        KEYS.write().unwrap_or_else(PoisonError::into_inner).insert(series, key(metric, values));
    });
}

/// Registers all counters and gauges whose labels have known values, with the family `""`, and the
/// histograms without labels.
pub(super) fn register() {
    with_recorder(|recorder| {
        METRICS.iter().for_each(|metric| begin_at_zero(recorder, metric, &KINDS, ""));
    });
}

fn with_key<const N: usize>(
    metric: &'static Metric,
    labels: [&'static str; N],
    work: impl FnOnce(&dyn Recorder, &Key),
) {
    let mut values: Values = [""; MAX_LABELS];
    values.iter_mut().zip(labels).for_each(|(place, value)| *place = value);
    with_recorder(|recorder| {
        let series = (std::ptr::from_ref(recorder).addr(), metric.name, values);
        let known = KEYS.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = known.get(&series) {
            return work(recorder, key);
        }
        drop(known);
        begin_with(recorder, metric, values);
        let key = key(metric, values);
        work(recorder, &key);
        KEYS.write().unwrap_or_else(PoisonError::into_inner).insert(series, key);
    });
}

/// Registers a new series and related ones, before the recorder gets the first value of the series.
/// Otherwise the first value of a counter would be 1, which Prometheus does not count as an
/// increase.
///
/// For a lock, the related series are all series of its kind and family. For any other object, they
/// are the series of the same metric and family.
fn begin_with(recorder: &dyn Recorder, first: &Metric, values: Values) {
    match first.labels {
        ["kind", ..] => {
            let of_locks = METRICS.iter().filter(|metric| metric.labels.first() == Some(&"kind"));
            of_locks.for_each(|metric| begin_at_zero(recorder, metric, &values[..1], values[1]));
            let wait = key(&super::table::ACQUIRE_WAIT, [values[0], values[1], UNKNOWN]);
            drop(recorder.register_histogram(&wait, &METADATA));
            let of_process = METRICS.iter().filter(|metric| is_alone(metric) && metric.form == Form::Histogram);
            of_process.for_each(|metric| begin_at_zero(recorder, metric, &[], ""));
        }
        ["family", ..] => begin_at_zero(recorder, first, &[], values[0]),
        _ => begin_at_zero(recorder, first, &[], ""),
    }
}

/// Returns whether a metric has only one series in each process, because it has no labels.
fn is_alone(metric: &Metric) -> bool {
    metric.labels.is_empty()
}

/// Registers a counter or gauge with each combination of its labels' known values. A histogram is
/// registered only if it has no labels: otherwise it has too many series.
fn begin_at_zero(recorder: &dyn Recorder, metric: &Metric, kinds: &[&'static str], family: &'static str) {
    if metric.form == Form::Histogram && !is_alone(metric) {
        return;
    }
    let mut all: Vec<Values> = vec![[""; MAX_LABELS]];
    for (at, label) in metric.labels.iter().enumerate() {
        let family = [family];
        let known: &[&'static str] = match *label {
            "kind" => kinds,
            "family" => &family,
            _ => metric.values,
        };
        let with = |values: &Values, value| {
            let mut values = *values;
            values[at] = value;
            values
        };
        all = all.iter().flat_map(|values| known.iter().map(move |value| with(values, *value))).collect();
    }
    for values in all {
        let key = key(metric, values);
        match metric.form {
            Form::Counter => drop(recorder.register_counter(&key, &METADATA)),
            Form::Gauge => drop(recorder.register_gauge(&key, &METADATA)),
            Form::Histogram => drop(recorder.register_histogram(&key, &METADATA)),
        }
    }
}

fn key(metric: &Metric, values: Values) -> Key {
    let labels: Vec<Label> =
        metric.labels.iter().zip(values).map(|(name, value)| Label::from_static_parts(name, value)).collect();
    Key::from_parts(metric.name, labels)
}
