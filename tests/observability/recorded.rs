//! A recorder whose values a test reads.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use redgrid_tests::SOON;
use tokio::runtime::Runtime;

/// The metrics recorded so far: each series as `name{label="value"}`, with its value or the number
/// of its samples.
pub(super) struct Recorded {
    snapshotter: Snapshotter,
    pub(super) totals: BTreeMap<String, f64>,
}

impl Recorded {
    /// Adds up all snapshots, because taking a snapshot resets the recorder.
    pub(super) fn look(&mut self) -> &BTreeMap<String, f64> {
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let labels: Vec<_> =
                key.key().labels().map(|label| format!("{}={:?}", label.key(), label.value())).collect();
            let series = match labels.is_empty() {
                true => key.key().name().to_owned(),
                false => format!("{}{{{}}}", key.key().name(), labels.join(",")),
            };
            match value {
                DebugValue::Counter(n) => *self.totals.entry(series).or_default() += n as f64,
                DebugValue::Gauge(level) => *self.totals.entry(series).or_default() += level.into_inner(),
                DebugValue::Histogram(samples) => *self.totals.entry(series).or_default() += samples.len() as f64,
            }
        }
        &self.totals
    }

    pub(super) fn of(&mut self, series: &str) -> f64 {
        self.look().get(series).copied().unwrap_or_default()
    }

    /// Waits until a series has at least this value.
    pub(super) async fn at_least(&mut self, series: &str, value: f64) {
        let in_time = tokio::time::timeout(SOON, async {
            while self.of(series) < value {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let in_time = in_time.await.is_ok();
        assert!(in_time, "{series} did not reach {value}: {:#?}", self.totals);
    }

    pub(super) async fn until(&mut self, series: &str, value: f64) {
        let in_time = tokio::time::timeout(SOON, async {
            while self.of(series) != value {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let in_time = in_time.await.is_ok();
        assert!(in_time, "{series} did not become {value}: {:#?}", self.totals);
    }
}

/// Runs a scene on one thread, so that one recorder receives all of its metrics.
pub(super) fn recorded<F: Future<Output = ()>>(scene: impl FnOnce(Recorded) -> F) {
    let (recorder, recorded) = recorder();
    metrics::with_local_recorder(recorder, || runtime().block_on(scene(recorded)));
}

/// Returns a recorder that is never freed, like one that a program installs, so that no other
/// recorder has its address.
pub(super) fn recorder() -> (&'static DebuggingRecorder, Recorded) {
    let recorder: &DebuggingRecorder = Box::leak(Box::default());
    (recorder, Recorded { snapshotter: recorder.snapshotter(), totals: BTreeMap::new() })
}

pub(super) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
