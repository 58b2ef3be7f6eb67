//! A recorder for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::sync::Mutex;

/// The values of counters and gauges, by the metric's name and the value of its label.
#[derive(Default)]
pub(crate) struct Recorded(Mutex<BTreeMap<(String, String), Arc<AtomicU64>>>);

impl Recorded {
    pub(crate) fn counter(&self, name: &str, label: &str) -> u64 {
        self.value(name, label).load(Ordering::Relaxed)
    }

    pub(crate) fn gauge(&self, name: &str, label: &str) -> f64 {
        f64::from_bits(self.counter(name, label))
    }

    fn value(&self, name: &str, label: &str) -> Arc<AtomicU64> {
        Arc::clone(self.0.lock().entry((name.to_owned(), label.to_owned())).or_default())
    }

    fn value_of(&self, key: &Key) -> Arc<AtomicU64> {
        self.value(key.name(), key.labels().next().map_or("", |label| label.value()))
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.value_of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.value_of(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
