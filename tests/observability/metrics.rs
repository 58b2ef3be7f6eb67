//! Metrics, read from a recorder of the test.

mod contrib;
mod dashboards;
mod leases;
mod objects;
mod panels;
mod recorded;
mod requests;

use std::collections::BTreeSet;
use std::time::Duration;

use redgrid_core::observe::{FLEET_METRICS, Form, KINDS, METRICS, Metric, describe};
use redgrid_core::{Client, ConnectionEvent};
use redgrid_local_cached_map::{LocalCachedMap, Options};
use redgrid_locks::{AcquireError, Election, FairLock, Lock, RwLock};
use redgrid_semaphore::Semaphore;
use redgrid_testkit::wait_until;
use redgrid_tests::{SOON, client, listening, server};

use recorded::{recorded, recorder, runtime};

async fn until_subscribed(client: &Client) {
    wait_until(SOON, async || client.health().await.nodes[0].subscribed >= 1).await;
}

/// Returns a cache with room for two entries, as soon as it serves them.
async fn small_cache(client: &Client, family: &'static str) -> LocalCachedMap<String, u64> {
    let options = Options::default().max_entries(2).family(family);
    let cache = LocalCachedMap::with_options(client, "prices", options);
    wait_until(SOON, async || {
        cache.get("nothing").await.unwrap();
        cache.is_active()
    })
    .await;
    cache
}

#[test]
fn a_contended_acquire_updates_its_metrics() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        let guard = Lock::new(&one, "secret-name").acquire().await.unwrap();
        recorded.until("redgrid_held{kind=\"lock\",family=\"\"}", 1.0).await;
        let timed_out = Lock::new(&two, "secret-name").acquire().timeout(Duration::from_secs(1)).await;
        assert!(matches!(timed_out, Err(AcquireError::TimedOut { .. })));
        assert!(Lock::new(&two, "secret-name").try_acquire().await.unwrap().is_none());
        let waiting = tokio::spawn(Lock::new(&two, "secret-name").acquire().into_future());
        recorded.until("redgrid_waiting{kind=\"lock\",family=\"\"}", 1.0).await;
        // A waiter that leaves is counted, too.
        let left = tokio::spawn(Lock::new(&two, "secret-name").acquire().into_future());
        recorded.until("redgrid_waiting{kind=\"lock\",family=\"\"}", 2.0).await;
        left.abort();
        recorded.until("redgrid_waiting{kind=\"lock\",family=\"\"}", 1.0).await;
        guard.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        guard.release().await.unwrap();
        recorded.until("redgrid_held{kind=\"lock\",family=\"\"}", 0.0).await;
        let wait = |outcome| format!("redgrid_acquire_wait_seconds{{kind=\"lock\",family=\"\",outcome=\"{outcome}\"}}");
        for (outcome, times) in [("acquired", 2.0), ("timed_out", 1.0), ("busy", 1.0), ("cancelled", 1.0)] {
            assert_eq!(recorded.of(&wait(outcome)), times, "{outcome}: {:#?}", recorded.totals);
        }
        for (series, value) in [
            ("redgrid_acquired_total{kind=\"lock\",family=\"\"}", 2.0),
            ("redgrid_released_total{kind=\"lock\",family=\"\"}", 2.0),
            ("redgrid_timed_out_total{kind=\"lock\",family=\"\"}", 1.0),
            ("redgrid_hold_seconds{kind=\"lock\",family=\"\"}", 2.0),
            ("redgrid_waiting{kind=\"lock\",family=\"\"}", 0.0),
            ("redgrid_local_handovers_total{kind=\"lock\",family=\"\"}", 0.0),
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
        while recorded.of("redgrid_local_handovers_total{kind=\"lock\",family=\"\"}") == 0.0 {
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
        recorded.until("redgrid_lost_total{kind=\"lock\",family=\"\",reason=\"forced\"}", 1.0).await;
        assert_eq!(recorded.of("redgrid_forced_total{kind=\"lock\",family=\"\"}"), 1.0);
        assert!(robbed.release().await.is_err());
        let short = lock.acquire().lease(Duration::from_secs(1)).await.unwrap();
        recorded.until("redgrid_lost_total{kind=\"lock\",family=\"\",reason=\"expired\"}", 1.0).await;
        drop(short);
        lock.acquire().lease(Duration::from_secs(1)).await.unwrap().forget();
        recorded.until("redgrid_held{kind=\"lock\",family=\"\"}", 0.0).await;
        // A hold that was left to its lease is not lost.
        assert_eq!(recorded.of("redgrid_lost_total{kind=\"lock\",family=\"\",reason=\"expired\"}"), 1.0);
        let kept = Lock::new(&one, "kept").acquire().await.unwrap();
        one.shutdown(SOON).await.unwrap();
        assert_eq!(recorded.of("redgrid_lost_total{kind=\"lock\",family=\"\",reason=\"shut_down\"}"), 1.0);
        drop(kept);
        assert_eq!(recorded.of("redgrid_held{kind=\"lock\",family=\"\"}"), 0.0);
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
        let failed = "redgrid_renewals_failed_total{kind=\"lock\",family=\"\"}";
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
const COUNTERS: [&str; 17] = [
    "redgrid_acquired_total{kind=\"lock\",family=\"\"}",
    "redgrid_timed_out_total{kind=\"lock\",family=\"\"}",
    "redgrid_lost_total{kind=\"lock\",family=\"\",reason=\"expired\"}",
    "redgrid_lost_total{kind=\"lock\",family=\"\",reason=\"gone\"}",
    "redgrid_lost_total{kind=\"lock\",family=\"\",reason=\"forced\"}",
    "redgrid_lost_total{kind=\"lock\",family=\"\",reason=\"shut_down\"}",
    "redgrid_released_total{kind=\"lock\",family=\"\"}",
    "redgrid_forced_total{kind=\"lock\",family=\"\"}",
    "redgrid_renewals_failed_total{kind=\"lock\",family=\"\"}",
    "redgrid_renewals_overdue_total{kind=\"lock\",family=\"\"}",
    "redgrid_local_handovers_total{kind=\"lock\",family=\"\"}",
    "redgrid_acquire_wait_seconds{kind=\"lock\",family=\"\",outcome=\"unknown\"}",
    "redgrid_stall_seconds",
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
        let lost = "redgrid_lost_total{kind=\"lock\",family=\"\",reason=\"expired\"}";
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
fn names_of_one_family_share_their_series() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let order = |id: u32| Lock::new(&client, format!("order:{id}")).family("orders");
        let guards = [order(1).acquire().await.unwrap(), order(2).acquire().await.unwrap()];
        let held = "redgrid_held{kind=\"lock\",family=\"orders\"}";
        assert_eq!(recorded.of(held), 2.0);
        assert_eq!(recorded.of("redgrid_acquired_total{kind=\"lock\",family=\"orders\"}"), 2.0);
        let lost = "redgrid_lost_total{kind=\"lock\",family=\"orders\",reason=\"forced\"}";
        assert_eq!(recorded.look().get(lost), Some(&0.0), "it is there before the first loss");
        assert!(order(1).force_release().await.unwrap());
        recorded.until(lost, 1.0).await;
        assert_eq!(recorded.of("redgrid_forced_total{kind=\"lock\",family=\"orders\"}"), 1.0);
        drop(guards);
        recorded.until(held, 0.0).await;
        let other = FairLock::new(&client, "fair").family("orders").acquire().await.unwrap();
        let rw = RwLock::new(&client, "rw").family("orders");
        let (read, permit) = (rw.read().await.unwrap(), Semaphore::new(&client, "s", 1).family("orders"));
        let permit = permit.acquire().await.unwrap();
        for kind in ["fair", "read lock", "leased_semaphore"] {
            let series = format!("redgrid_acquired_total{{kind=\"{kind}\",family=\"orders\"}}");
            assert_eq!(recorded.of(&series), 1.0, "{series}: {:#?}", recorded.totals);
        }
        drop((other, read, permit));
        // The empty family has none of this.
        assert_eq!(recorded.of("redgrid_acquired_total{kind=\"lock\",family=\"\"}"), 0.0);
    });
}

/// Returns all series of a counter or gauge that exist from the beginning.
fn first_series(metric: &Metric) -> Vec<String> {
    let mut all = vec![String::new()];
    for label in metric.labels {
        let values: Vec<&str> = match *label {
            "kind" => KINDS.to_vec(),
            "family" => vec![""],
            _ => metric.values.to_vec(),
        };
        let with = |labels: &String, value: &str| format!("{labels},{label}={value:?}");
        all =
            all.iter().flat_map(|labels| values.iter().map(|value| with(labels, value)).collect::<Vec<_>>()).collect();
    }
    let named = |labels: String| match labels.strip_prefix(',') {
        Some(labels) => format!("{}{{{labels}}}", metric.name),
        None => metric.name.to_owned(),
    };
    all.into_iter().map(named).collect()
}

#[test]
fn describe_registers_every_bounded_series_with_0() {
    let (recorder, mut recorded) = recorder();
    metrics::with_local_recorder(recorder, describe);
    let present = recorded.look();
    let bounded = METRICS.iter().filter(|metric| metric.form != Form::Histogram || metric.labels.is_empty());
    let expected: Vec<String> = bounded.flat_map(first_series).collect();
    assert!(expected.len() > 150, "{}", expected.len());
    for series in expected {
        assert_eq!(present.get(&series), Some(&0.0), "{series}: {present:#?}");
    }
    let version: Vec<_> = present.iter().filter(|(_, value)| **value != 0.0).collect();
    assert!(matches!(&version[..], [(series, _)] if series.starts_with("redgrid_build_info{version=")), "{version:?}");
}

#[test]
fn no_name_becomes_a_label() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let before = {
            Lock::new(&client, "first").acquire().await.unwrap().release().await.unwrap();
            recorded.look().len()
        };
        for number in 0..1000 {
            Lock::new(&client, format!("lock:{number}")).acquire().await.unwrap().release().await.unwrap();
        }
        let present = recorded.look();
        assert_eq!(present.len(), before, "{present:#?}");
        assert!(!present.keys().any(|series| series.contains("lock:")), "{present:#?}");
    });
}

#[test]
fn a_late_timer_and_a_late_renewal_are_recorded() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let client = client(&server).await;
        let _guard = Lock::new(&client, "a").acquire().auto_renew(Duration::from_secs(3)).await.unwrap();
        recorded.at_least("redgrid_renewal_lag_seconds{kind=\"lock\",family=\"\"}", 1.0).await;
        let before = recorded.of("redgrid_stall_seconds");
        // Everything runs on this thread, so this stops the client, too.
        std::thread::sleep(Duration::from_millis(1500));
        recorded.at_least("redgrid_stall_seconds", before + 1.0).await;
    });
}

#[test]
fn elections_count_leaders() {
    recorded(|mut recorded| async move {
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        let election = |client: &Client| Election::new(client, "scheduler").family("jobs");
        let leadership = election(&one).campaign().await.unwrap();
        let (leader, changes) = ("redgrid_leader{family=\"jobs\"}", "redgrid_leader_changes_total{family=\"jobs\"}");
        assert_eq!((recorded.of(leader), recorded.of(changes)), (1.0, 1.0), "{:#?}", recorded.totals);
        leadership.resign().await.unwrap();
        recorded.until(leader, 0.0).await;
        let next = election(&two).campaign().await.unwrap();
        assert_eq!((recorded.of(leader), recorded.of(changes)), (1.0, 2.0), "{:#?}", recorded.totals);
        drop(next);
    });
}

/// Returns the names of metrics in a text. A name with a colon behind it is that of a channel, or a
/// Rust path. One with a star stands for several.
fn names_in(text: &str) -> BTreeSet<&str> {
    let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices("redgrid_") {
        let rest = &text[at..];
        let end = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if text[..at].ends_with(is_of_name) || after.starts_with([':', '*']) {
            continue;
        }
        // Prometheus derives these series from a histogram.
        let suffix = ["_count", "_bucket", "_sum"].into_iter().find_map(|suffix| name.strip_suffix(suffix));
        names.insert(suffix.unwrap_or(name));
    }
    names
}

#[test]
fn the_names_in_the_docs_are_the_names_in_the_code() {
    let docs = include_str!("../../docs/operating/observability.md");
    let in_code: BTreeSet<&str> = METRICS.iter().chain(FLEET_METRICS).map(|metric| metric.name).collect();
    assert_eq!(names_in(docs), in_code);
    for metric in METRICS.iter().chain(FLEET_METRICS) {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let form = format!("{:?}", metric.form).to_lowercase();
        let row = format!("| `{}` | {form} | {} | {} |", metric.name, labels.join(", "), metric.about);
        assert!(docs.contains(&row), "missing in docs/operating/observability.md:\n{row}");
        let values = docs[docs.find("### Labels").unwrap()..].to_owned();
        for value in metric.values {
            assert!(values.contains(&format!("`{value}`")), "{value} of {} is not explained", metric.name);
        }
    }
    for kind in KINDS {
        assert!(docs.contains(&format!("`{kind}`")), "{kind} is not explained");
    }
}
