//! Metrics, read from a recorder of the test.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use redgrid_core::observe::METRICS;
use redgrid_core::{Client, ConnectionEvent};
use redgrid_locks::{AcquireError, Lock};
use redgrid_testkit::wait_until;
use redgrid_tests::{SOON, client, listening, server};
use tokio::runtime::Runtime;

/// The metrics recorded so far: each series as `name{label="value"}`, with its value or the number
/// of its samples.
struct Recorded {
    snapshotter: Snapshotter,
    totals: BTreeMap<String, f64>,
}

impl Recorded {
    /// Adds up all snapshots, because taking a snapshot resets the recorder.
    fn look(&mut self) -> &BTreeMap<String, f64> {
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

    fn of(&mut self, series: &str) -> f64 {
        self.look().get(series).copied().unwrap_or_default()
    }

    async fn until(&mut self, series: &str, value: f64) {
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
fn recorded<F: Future<Output = ()>>(scene: impl FnOnce(Recorded) -> F) {
    let (recorder, recorded) = recorder();
    metrics::with_local_recorder(recorder, || runtime().block_on(scene(recorded)));
}

/// Returns a recorder that is never freed, like one that a program installs, so that no other
/// recorder has its address.
fn recorder() -> (&'static DebuggingRecorder, Recorded) {
    let recorder: &DebuggingRecorder = Box::leak(Box::default());
    (recorder, Recorded { snapshotter: recorder.snapshotter(), totals: BTreeMap::new() })
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn until_subscribed(client: &Client) {
    wait_until(SOON, async || client.health().await.nodes[0].subscribed >= 1).await;
}

#[test]
fn a_contended_acquire_updates_its_metrics() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        let guard = Lock::new(&one, "secret-name").acquire().await.unwrap();
        recorded.until("redgrid_held{kind=\"lock\"}", 1.0).await;
        let timed_out = Lock::new(&two, "secret-name").acquire().timeout(Duration::from_secs(1)).await;
        assert!(matches!(timed_out, Err(AcquireError::TimedOut { .. })));
        assert!(Lock::new(&two, "secret-name").try_acquire().await.unwrap().is_none());
        let waiting = tokio::spawn(Lock::new(&two, "secret-name").acquire().into_future());
        recorded.until("redgrid_waiting{kind=\"lock\"}", 1.0).await;
        // A waiter that leaves is counted, too.
        let left = tokio::spawn(Lock::new(&two, "secret-name").acquire().into_future());
        recorded.until("redgrid_waiting{kind=\"lock\"}", 2.0).await;
        left.abort();
        recorded.until("redgrid_waiting{kind=\"lock\"}", 1.0).await;
        guard.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        guard.release().await.unwrap();
        recorded.until("redgrid_held{kind=\"lock\"}", 0.0).await;
        let wait = |outcome| format!("redgrid_acquire_wait_seconds{{kind=\"lock\",outcome=\"{outcome}\"}}");
        for (outcome, times) in [("acquired", 2.0), ("timed_out", 1.0), ("busy", 1.0), ("cancelled", 1.0)] {
            assert_eq!(recorded.of(&wait(outcome)), times, "{outcome}: {:#?}", recorded.totals);
        }
        for (series, value) in [
            ("redgrid_acquired_total{kind=\"lock\"}", 2.0),
            ("redgrid_released_total{kind=\"lock\"}", 2.0),
            ("redgrid_timed_out_total{kind=\"lock\"}", 1.0),
            ("redgrid_hold_seconds{kind=\"lock\"}", 2.0),
            ("redgrid_waiting{kind=\"lock\"}", 0.0),
            ("redgrid_local_handovers_total{kind=\"lock\"}", 0.0),
            ("redgrid_connections_up", 2.0),
        ] {
            assert_eq!(recorded.of(series), value, "{series}: {:#?}", recorded.totals);
        }
        // No name is a label.
        assert!(!recorded.look().keys().any(|series| series.contains("secret-name")));
    });
}

#[test]
fn tasks_of_one_process_hand_over_and_losses_have_reasons() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        let lock = Lock::new(&one, "a");
        let until = tokio::time::Instant::now() + SOON;
        // On a slow machine the hand-over window may be over before the lock is handed over.
        while recorded.of("redgrid_local_handovers_total{kind=\"lock\"}") == 0.0 {
            assert!(tokio::time::Instant::now() < until, "{:#?}", recorded.totals);
            let guard = lock.acquire().await.unwrap();
            // The acquire is polled first, so it waits when the guard is released.
            let (next, released) = tokio::join!(lock.acquire().into_future(), guard.release());
            released.unwrap();
            next.unwrap().release().await.unwrap();
        }
        listening(&server, &one).await;
        let robbed = lock.acquire().await.unwrap();
        assert!(Lock::new(&two, "a").force_release().await.unwrap());
        recorded.until("redgrid_lost_total{kind=\"lock\",reason=\"forced\"}", 1.0).await;
        assert_eq!(recorded.of("redgrid_forced_total{kind=\"lock\"}"), 1.0);
        assert!(robbed.release().await.is_err());
        let short = lock.acquire().lease(Duration::from_secs(1)).await.unwrap();
        recorded.until("redgrid_lost_total{kind=\"lock\",reason=\"expired\"}", 1.0).await;
        drop(short);
        lock.acquire().lease(Duration::from_secs(1)).await.unwrap().forget();
        recorded.until("redgrid_held{kind=\"lock\"}", 0.0).await;
        // A hold that was left to its lease is not lost.
        assert_eq!(recorded.of("redgrid_lost_total{kind=\"lock\",reason=\"expired\"}"), 1.0);
        let kept = Lock::new(&one, "kept").acquire().await.unwrap();
        one.shutdown(SOON).await.unwrap();
        assert_eq!(recorded.of("redgrid_lost_total{kind=\"lock\",reason=\"shut_down\"}"), 1.0);
        drop(kept);
        assert_eq!(recorded.of("redgrid_held{kind=\"lock\"}"), 0.0);
        recorded.until("redgrid_connections_up", 1.0).await;
    });
}

#[test]
fn connections_and_renewals_are_counted() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        listening(&server, &client).await;
        until_subscribed(&client).await;
        let mut events = client.events();
        recorded.until("redgrid_connections_up", 1.0).await;
        server.restart_empty().await.unwrap();
        while !matches!(events.recv().await, Some(ConnectionEvent::Gap { .. })) {}
        for (series, value) in [
            ("redgrid_gaps_total", 1.0),
            // The first view of the topology.
            ("redgrid_topology_changes_total", 1.0),
            ("redgrid_primary_changes_total", 0.0),
        ] {
            assert_eq!(recorded.of(series), value, "{series}: {:#?}", recorded.totals);
        }
        recorded.until("redgrid_connections_up", 1.0).await;
        // On a busy machine the client may connect twice.
        assert!(recorded.of("redgrid_reconnects_total") >= 1.0);
        let watchdog = Duration::from_millis(900);
        let guard = Lock::new(&client, "a").acquire().auto_renew(watchdog).await.unwrap();
        server.deny(&["evalsha", "eval"]).await.unwrap();
        let failed = "redgrid_renewals_failed_total{kind=\"lock\"}";
        tokio::time::timeout(SOON, async {
            while recorded.of(failed) < 2.0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .expect("a renewal fails, and is tried again");
        server.allow(&["evalsha", "eval"]).await.unwrap();
        drop(guard);
    });
}

/// The counters, and other series for alarms, that exist as soon as a lock was acquired, even if
/// their events have not happened yet.
const COUNTERS: [&str; 15] = [
    "redgrid_acquired_total{kind=\"lock\"}",
    "redgrid_timed_out_total{kind=\"lock\"}",
    "redgrid_lost_total{kind=\"lock\",reason=\"expired\"}",
    "redgrid_lost_total{kind=\"lock\",reason=\"gone\"}",
    "redgrid_lost_total{kind=\"lock\",reason=\"forced\"}",
    "redgrid_lost_total{kind=\"lock\",reason=\"shut_down\"}",
    "redgrid_released_total{kind=\"lock\"}",
    "redgrid_forced_total{kind=\"lock\"}",
    "redgrid_renewals_failed_total{kind=\"lock\"}",
    "redgrid_local_handovers_total{kind=\"lock\"}",
    "redgrid_acquire_wait_seconds{kind=\"lock\",outcome=\"unknown\"}",
    "redgrid_reconnects_total",
    "redgrid_gaps_total",
    "redgrid_primary_changes_total",
    "redgrid_topology_changes_total",
];

#[test]
fn a_counter_is_there_with_0_before_anything_is_counted() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let guard = Lock::new(&client, "a").acquire().await.unwrap();
        let present = recorded.look();
        for series in COUNTERS {
            assert!(present.contains_key(series), "{series} is missing: {present:#?}");
        }
        // The first loss is a step from 0 to 1, which `increase()` sees.
        let lost = "redgrid_lost_total{kind=\"lock\",reason=\"expired\"}";
        assert_eq!(recorded.of(lost), 0.0);
        drop(guard);
        let short = Lock::new(&client, "b").acquire().lease(Duration::from_secs(1)).await.unwrap();
        recorded.until(lost, 1.0).await;
        drop(short);
    });
}

#[test]
fn a_recorder_that_is_installed_late_has_the_counters_too() {
    let runtime = runtime();
    let (server, client) = runtime.block_on(async {
        let server = server().await;
        let client = client(&server).await;
        Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
        (server, client)
    });
    let (recorder, mut recorded) = recorder();
    metrics::with_local_recorder(recorder, || {
        runtime.block_on(async { Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap() });
    });
    let present = recorded.look();
    for series in COUNTERS {
        assert!(present.contains_key(series), "{series} is missing: {present:#?}");
    }
    drop(server);
}

#[test]
fn nodes_are_counted_whether_they_are_up_or_not() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        recorded.until("redgrid_connections_up", 1.0).await;
        assert_eq!(recorded.of("redgrid_nodes"), 1.0);
        server.kill().await.unwrap();
        recorded.until("redgrid_connections_up", 0.0).await;
        assert_eq!(recorded.of("redgrid_nodes"), 1.0, "the alarm compares with this");
        client.shutdown(SOON).await.unwrap();
        drop(client);
        recorded.until("redgrid_nodes", 0.0).await;
    });
}

#[test]
fn the_names_in_the_docs_are_the_names_in_the_code() {
    let docs = include_str!("../../docs/operating/observability.md");
    let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = docs.split(|letter| !is_name(letter) && letter != ':').filter(|word| word.starts_with("redgrid_"));
    // A word with a colon is a channel, such as `redgrid_client:<id>`.
    let words = words.filter(|word| !word.contains(':'));
    // Prometheus derives this series from a histogram.
    let words = words.map(|word| word.strip_suffix("_count").unwrap_or(word));
    let documented: BTreeSet<&str> = words.filter(|word| *word != "redgrid_core" && *word != "redgrid_locks").collect();
    let in_code: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(documented, in_code);
    for metric in METRICS {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let form = format!("{:?}", metric.form).to_lowercase();
        let row = format!("| `{}` | {form} | {} | {} |", metric.name, labels.join(", "), metric.about);
        assert!(docs.contains(&row), "missing in docs/operating/observability.md:\n{row}");
    }
}
