//! The metrics of a deployment, as Prometheus reads them: `/metrics`.
//!
//! Each scrape counts as a viewer of the overview, so the collector works while Prometheus scrapes.
//! Queues and semaphores are read by the scrape itself, and only those that the operator lists.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use redgrid_core::observe::fleet::{
    CLIENTS, COLLECTOR_SECONDS, DOCTOR_FINDINGS, HOLDERS_GONE, LOCKS_HELD, NODE_UP, QUEUE_DEAD, QUEUE_MESSAGES,
    QUEUE_OLDEST, REPLICA_LAG, SCRAPE_SECONDS, SEMAPHORE_PERMITS, SWEEP_AGE,
};
use redgrid_core::observe::{FLEET_METRICS, Form, Metric};
use redgrid_core::permits::SemaphoreHandle;
use redgrid_core::{Client, NodePart};
use redgrid_inspect::Level;
use redgrid_reliable_queue::ReliableQueue;
use redgrid_reliable_queue::codecs::Raw;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::board::LockRow;
use crate::console::App;
use crate::dead_totals::DeadTotals;
use crate::holder_state::State as HolderState;
use crate::pages::no_such_page;
use crate::snapshot::{Living, Snapshot};
use crate::text::now_ms;

/// Names of queues and semaphores together. Each is read with every scrape.
const MOST_NAMES: usize = 100;

/// How long a scrape waits for the first data of the collector.
const FIRST_DATA: Duration = Duration::from_millis(1_500);

/// How long a scrape reads queues and semaphores. Objects that are not read by then are left out.
const READ_TIMEOUT: Duration = Duration::from_secs(3);

/// Scrapes within this time get the same answer.
const KEPT: Duration = Duration::from_secs(1);

/// The findings of older checks are left out, in milliseconds: 2 h. The checks run once an hour.
const DOCTOR_KEPT_MS: u64 = 2 * 3_600_000;

/// The objects in the metrics, in addition to nodes, clients and locks.
///
/// Names become labels, so only listed names are read, and at most 100.
///
/// ```
/// use redgrid_console::FleetMetrics;
///
/// let metrics = FleetMetrics::new(["mails", "invoices"], ["printers"])?;
/// # Ok::<(), redgrid_console::TooManyNames>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetMetrics {
    queues: BTreeSet<String>,
    semaphores: BTreeSet<String>,
}

/// More names than the 100 that metrics can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{got} queues and semaphores are listed for metrics, the limit is 100")]
#[non_exhaustive]
pub struct TooManyNames {
    /// The number of names.
    pub got: usize,
}

impl FleetMetrics {
    /// Creates metrics with these reliable queues and semaphores. Names are without the namespace
    /// of the console's client.
    ///
    /// # Errors
    ///
    /// [`TooManyNames`] for more than 100 names.
    pub fn new<Q: Into<String>, S: Into<String>>(
        queues: impl IntoIterator<Item = Q>,
        semaphores: impl IntoIterator<Item = S>,
    ) -> Result<Self, TooManyNames> {
        let queues: BTreeSet<String> = queues.into_iter().map(Into::into).collect();
        let semaphores: BTreeSet<String> = semaphores.into_iter().map(Into::into).collect();
        match queues.len() + semaphores.len() {
            0..=MOST_NAMES => Ok(FleetMetrics { queues, semaphores }),
            got => Err(TooManyNames { got }),
        }
    }
}

/// The metrics of a console, and the last answer.
#[derive(Debug)]
pub(crate) struct Scrapes {
    names: FleetMetrics,
    /// When the console started, in milliseconds since 1970.
    started: u64,
    /// The lock also keeps scrapes from running at the same time.
    last: Mutex<Option<(Instant, String)>>,
    dead_totals: DeadTotals,
}

impl Scrapes {
    pub(crate) fn new(names: FleetMetrics) -> Self {
        Scrapes { names, started: now_ms(), last: Mutex::default(), dead_totals: DeadTotals::default() }
    }
}

/// Answers a scrape.
pub(crate) async fn serve(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let Some(scrapes) = &app.scrapes else { return no_such_page(&uri) };
    let mut last = scrapes.last.lock().await;
    let text = match &*last {
        Some((at, text)) if at.elapsed() < KEPT => text.clone(),
        _ => {
            let text = scrape(&app, scrapes).await;
            *last = Some((Instant::now(), text.clone()));
            text
        }
    };
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// Returns whether the collector has its first data.
fn is_known(snapshot: &Snapshot) -> bool {
    let is_searched =
        snapshot.sweep.completed.is_some() || snapshot.sweep.is_too_large || snapshot.sweep.trouble.is_some();
    snapshot.health.is_known() && snapshot.living.is_known() && is_searched
}

async fn scrape(app: &App, scrapes: &Scrapes) -> String {
    let began = Instant::now();
    app.collector.scraped();
    let mut samples = Samples::default();
    let (snapshot, ()) = tokio::join!(app.collector.when(FIRST_DATA, is_known), async {
        let read = read_objects(&app.client, scrapes).await;
        read.into_iter().for_each(|(metric, labels, value)| samples.push(metric, labels, value));
    },);
    add_snapshot(&mut samples, &snapshot, now_ms(), scrapes.started);
    samples.add(&SCRAPE_SECONDS, &[], began.elapsed().as_secs_f64());
    samples.add(&COLLECTOR_SECONDS, &[], app.collector.cost.total().as_secs_f64());
    samples.text()
}

/// A value: the metric, the values of its labels, and the number.
type Sample = (&'static Metric, Vec<String>, f64);

/// Reads the listed objects, each with one or two bounded requests. An object that cannot be read
/// is left out.
async fn read_objects(client: &Client, scrapes: &Scrapes) -> Vec<Sample> {
    let queues = scrapes.names.queues.iter().map(|name| in_time(read_queue(client, &scrapes.dead_totals, name)));
    let semaphores = scrapes.names.semaphores.iter().map(|name| in_time(read_semaphore(client, name)));
    let (queues, semaphores) = tokio::join!(join_all(queues), join_all(semaphores));
    queues.into_iter().chain(semaphores).flatten().collect()
}

async fn in_time(read: impl Future<Output = Vec<Sample>>) -> Vec<Sample> {
    tokio::time::timeout(READ_TIMEOUT, read).await.unwrap_or_default()
}

async fn read_queue(client: &Client, dead_totals: &DeadTotals, name: &str) -> Vec<Sample> {
    let queue = ReliableQueue::<bytes::Bytes, Raw>::new(client, name);
    let Ok(counts) = queue.counts().await else { return Vec::new() };
    let states =
        [("ready", counts.ready), ("delayed", counts.delayed), ("in_flight", counts.in_flight), ("dead", counts.dead)];
    let sample = |(state, count): (&str, u64)| -> Sample {
        (&QUEUE_MESSAGES, vec![name.to_owned(), state.to_owned()], count as f64)
    };
    let age = counts.oldest_ready_age.unwrap_or_default();
    let oldest: Sample = (&QUEUE_OLDEST, vec![name.to_owned()], age.as_secs_f64());
    let died = dead_totals.next(name, counts.totals.pushed, counts.totals.died);
    let dead: Sample = (&QUEUE_DEAD, vec![name.to_owned()], died as f64);
    states.into_iter().map(sample).chain([dead, oldest]).collect()
}

async fn read_semaphore(client: &Client, name: &str) -> Vec<Sample> {
    let Ok(counts) = SemaphoreHandle::new(client, name, true).count().await else { return Vec::new() };
    let available = counts.available.map(|available| ("available", available as f64));
    let states = available.into_iter().chain([("leased", counts.leased as f64)]);
    let sample = |(state, count): (&str, f64)| -> Sample {
        (&SEMAPHORE_PERMITS, vec![name.to_owned(), state.to_owned()], count)
    };
    states.map(sample).collect()
}

/// Adds what the collector knows.
fn add_snapshot(samples: &mut Samples, snapshot: &Snapshot, now: u64, started: u64) {
    for node in snapshot.health.get().iter().flat_map(|health| &health.nodes) {
        let role = if node.part == NodePart::Primary { "primary" } else { "replica" };
        samples.add(&NODE_UP, &[&node.node.to_string(), role], f64::from(u8::from(node.is_well())));
    }
    for (replica, lag) in &snapshot.replica_lags {
        samples.add(&REPLICA_LAG, &[replica], *lag as f64);
    }
    // A list that is old, or has only some of the clients, does not say how many there are, nor
    // which are gone.
    let is_current = |living: &&Arc<Living>| living.is_complete && snapshot.living.trouble.is_none();
    let living = snapshot.living.get().filter(is_current);
    if let Some(living) = living {
        let silent = snapshot.connected().filter(|(_, process)| process.silent_since.is_some()).count();
        samples.add(&CLIENTS, &["alive"], living.clients.len().saturating_sub(silent) as f64);
        // Before the first round of questions, no client can have been silent.
        if snapshot.questions.get().is_some() || living.clients.is_empty() {
            samples.add(&CLIENTS, &["silent"], silent as f64);
        }
    }
    let completed = snapshot.sweep.completed.map(|(_, ended)| ended);
    // A part of the locks is no number of locks.
    let is_cut = snapshot.sweep.is_cut || snapshot.are_locks_cut;
    if completed.is_some() && !is_cut {
        let is_held = |row: &&LockRow| !row.holders.is_empty() || row.until.is_some() || row.is_endless;
        let is_gone = |row: &&LockRow| row.has(HolderState::Gone);
        for kind in LOCKS_HELD.values {
            let held = snapshot.locks.iter().filter(is_held).filter(|row| row.kind == *kind).count();
            samples.add(&LOCKS_HELD, &[kind], held as f64);
        }
        // One list of clients does not show that a holder is gone.
        if living.is_some() && snapshot.living.has_second_look() {
            samples.add(&HOLDERS_GONE, &[], snapshot.locks.iter().filter(is_gone).count() as f64);
        }
    }
    let age = now.saturating_sub(completed.unwrap_or(started));
    samples.add(&SWEEP_AGE, &[], Duration::from_millis(age).as_secs_f64());
    let is_old = |at: u64| now.saturating_sub(at) > DOCTOR_KEPT_MS;
    if let Some(checks) = snapshot.checks.get().filter(|_| !snapshot.checks.read_at().is_some_and(is_old)) {
        for (level, label) in [(Level::Warn, "warn"), (Level::Fail, "fail")] {
            let count = checks.findings.iter().filter(|finding| finding.level == level).count();
            samples.add(&DOCTOR_FINDINGS, &[label], count as f64);
        }
    }
}

/// The values of a scrape, by the name of their metric.
#[derive(Default)]
struct Samples(BTreeMap<&'static str, Vec<(Vec<String>, f64)>>);

impl Samples {
    /// Adds a value; `labels` are the values of the metric's labels.
    fn add(&mut self, metric: &'static Metric, labels: &[&str], value: f64) {
        self.push(metric, labels.iter().map(|label| (*label).to_owned()).collect(), value);
    }

    fn push(&mut self, metric: &'static Metric, labels: Vec<String>, value: f64) {
        self.0.entry(metric.name).or_default().push((labels, value));
    }

    /// Returns the text that Prometheus reads.
    fn text(&self) -> String {
        let mut text = String::new();
        for metric in FLEET_METRICS {
            let Some(samples) = self.0.get(metric.name) else { continue };
            // Writing to a string does not fail.
            let _ = writeln!(text, "# HELP {} {}", metric.name, metric.about);
            let form = if metric.form == Form::Counter { "counter" } else { "gauge" };
            let _ = writeln!(text, "# TYPE {} {form}", metric.name);
            for (values, value) in samples {
                let labels = metric.labels.iter().zip(values);
                let labels: Vec<_> = labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
                let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
                let _ = writeln!(text, "{}{labels} {value}", metric.name);
            }
        }
        text
    }
}

/// Escapes the value of a label as the format requires.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_limited() {
        let names = |count: usize| (0..count).map(|number| number.to_string());
        assert!(FleetMetrics::new(names(60), names(40)).is_ok());
        let error = FleetMetrics::new(names(60), names(41)).unwrap_err();
        assert_eq!(error.to_string(), "101 queues and semaphores are listed for metrics, the limit is 100");
    }

    fn text_of(snapshot: &Snapshot) -> String {
        let mut samples = Samples::default();
        add_snapshot(&mut samples, snapshot, 1_000, 0);
        samples.text()
    }

    /// Records a list without clients.
    fn looked(snapshot: &mut Snapshot, at: u64) {
        let living = Living::of(Vec::new(), true).after(&snapshot.living, at);
        snapshot.living.answered(living, at);
    }

    #[test]
    fn silent_clients_and_absent_holders_are_left_out_until_they_are_known() {
        let ids = || vec!["8c1b1c5e-0000-8000-8000-000000000001".to_owned()];
        let mut snapshot = Snapshot::default();
        snapshot.sweep.completed = Some((1, 2));
        looked(&mut snapshot, 1);
        let living = Living::of(ids(), true).after(&snapshot.living, 1_000);
        snapshot.living.answered(living, 1_000);
        let text = text_of(&snapshot);
        assert!(!text.contains("\"silent\"") && !text.contains(HOLDERS_GONE.name), "{text}");
        snapshot.questions.answered((), 1_200);
        let living = Living::of(ids(), true).after(&snapshot.living, 2_000);
        snapshot.living.answered(living, 2_000);
        let text = text_of(&snapshot);
        assert!(text.contains("{state=\"silent\"} 0\n"), "{text}");
        assert!(text.contains("\nredgrid_fleet_holders_gone 0\n"), "{text}");
    }

    #[test]
    fn clients_are_left_out_unless_the_list_is_complete_and_current() {
        let ids = || vec!["8c1b1c5e-0000-8000-8000-000000000001".to_owned()];
        let alive = "redgrid_fleet_clients{state=\"alive\"} 1\n";
        let mut snapshot = Snapshot::default();
        snapshot.living.answered(Living::of(ids(), true), 1);
        assert!(text_of(&snapshot).contains(alive), "{}", text_of(&snapshot));
        snapshot.living.failed("away".to_owned(), 2);
        assert!(!text_of(&snapshot).contains("redgrid_fleet_clients"), "{}", text_of(&snapshot));
        snapshot.living.answered(Living::of(ids(), false), 3);
        assert!(!text_of(&snapshot).contains("redgrid_fleet_clients"), "{}", text_of(&snapshot));
        snapshot.living.answered(Living::of(ids(), true), 4);
        assert!(text_of(&snapshot).contains(alive), "{}", text_of(&snapshot));
    }

    #[test]
    fn absent_holders_are_left_out_unless_the_list_is_complete_and_current() {
        let mut snapshot = Snapshot::default();
        snapshot.sweep.completed = Some((1, 2));
        looked(&mut snapshot, 1);
        looked(&mut snapshot, 2_000);
        let are_counted = |snapshot: &Snapshot| text_of(snapshot).contains(HOLDERS_GONE.name);
        assert!(are_counted(&snapshot));
        snapshot.living.failed("away".to_owned(), 3_000);
        assert!(!are_counted(&snapshot), "the last list is old");
        let partial = Living::of(Vec::new(), false).after(&snapshot.living, 4_000);
        snapshot.living.answered(partial, 4_000);
        assert!(snapshot.living.has_second_look() && !are_counted(&snapshot), "the list is a part");
        looked(&mut snapshot, 5_000);
        looked(&mut snapshot, 7_000);
        assert!(are_counted(&snapshot));
    }

    #[test]
    fn locks_are_left_out_if_there_are_more_than_the_console_lists() {
        let mut snapshot = Snapshot::default();
        snapshot.sweep.completed = Some((1, 2));
        looked(&mut snapshot, 1);
        looked(&mut snapshot, 2_000);
        let has_locks = |snapshot: &Snapshot| {
            let text = text_of(snapshot);
            [LOCKS_HELD.name, HOLDERS_GONE.name].map(|name| text.contains(name))
        };
        assert_eq!(has_locks(&snapshot), [true, true]);
        snapshot.sweep.is_cut = true;
        assert_eq!(has_locks(&snapshot), [false, false]);
        (snapshot.sweep.is_cut, snapshot.are_locks_cut) = (false, true);
        assert_eq!(has_locks(&snapshot), [false, false]);
    }

    #[test]
    fn hostile_names_stay_one_label() {
        let mut samples = Samples::default();
        samples.add(&QUEUE_OLDEST, &["a\"} 1\nb\\"], 2.5);
        samples.add(&SWEEP_AGE, &[], 3.0);
        let text = samples.text();
        assert!(text.contains("\nredgrid_fleet_queue_oldest_seconds{queue=\"a\\\"} 1\\nb\\\\\"} 2.5\n"), "{text}");
        assert!(text.contains("\nredgrid_fleet_sweep_age_seconds 3\n"), "{text}");
        assert_eq!(text.lines().count(), 6, "{text}");
    }
}
