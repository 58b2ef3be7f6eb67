//! The living clients, and their reports.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redgrid_core::author::ClientExt;
use redgrid_core::report::ClientReport;
use redgrid_core::{ConnectionId, NodeId};
use redgrid_inspect::AskEvent;
use tokio::time::Instant;

use super::Collector;
use super::viewers::Need;
use crate::snapshot::{Living, Process, Reading, Snapshot};
use crate::text::{millis, now_ms};

/// How often the living clients are listed: often enough that a client that was killed is seen
/// within 3 s.
const LIST_INTERVAL: Duration = Duration::from_secs(1);

/// The longest interval, with many channels.
const LONGEST_INTERVAL: Duration = Duration::from_secs(10);

/// With so many channels, a list takes a node some 100 µs. With more of them it is made more
/// rarely.
const CHANNELS: u64 = 1_000;

/// How often a round of questions begins. A client that stops just after it has answered is asked
/// again within this time, and is silent 3 s later: after its two questions.
const ASK_INTERVAL: Duration = Duration::from_secs(5);

/// The pause before the next round after one that has failed.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long a client has to answer its first question: 2 s. For its second question it has half of
/// that time. A client makes one report a second, so an answer can take a second and a round trip.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Clients that are asked in one round: 50 a second.
const MOST_QUESTIONS: usize = 250;

/// Rounds at the same time. A round with clients that do not answer lasts longer than the interval.
const MOST_ROUNDS: usize = 2;

/// How long the last report of a client that has left is kept, so that its process stays known
/// while it reconnects, or until its locks are free: a minute.
const KEPT_MS: u64 = 60_000;

/// The most last reports of clients that are kept, and the most clients that are remembered to have
/// answered.
const MOST_KEPT: usize = 10_000;

/// The primaries, and the connections to them. Both change when one is replaced or restarted.
type Primaries = Vec<(NodeId, Option<ConnectionId>)>;

impl Collector {
    pub(super) async fn read_clients(&self) {
        let mut primaries: Option<Primaries> = None;
        loop {
            self.needed(Need::Clients, forget).await;
            let began = Instant::now();
            let living = self.cost.of(self.inspector.living_clients()).await;
            let now = now_ms();
            let has_changed = self.have_primaries_changed(&mut primaries).await;
            let mut interval = LIST_INTERVAL;
            self.change_board(|snapshot| match living {
                Ok(living) => {
                    interval = list_interval(living.most_channels);
                    let mut living = Living::of(living.ids, living.is_complete);
                    living.changed_at = changed_at(snapshot, has_changed, now);
                    let living = living.after(&snapshot.living, now);
                    let mut reporters = self.reporters.lock().unwrap_or_else(PoisonError::into_inner);
                    keep_processes(&mut snapshot.processes, &living, now, |client| reporters.contains(client));
                    forget_reporters(&mut reporters, &snapshot.processes, &living, now);
                    snapshot.living.answered(living, now);
                }
                Err(error) => snapshot.living.failed(error.to_string(), now),
            });
            tokio::time::sleep_until(began + interval).await;
        }
    }

    /// Returns whether a primary was replaced or restarted since the last call.
    async fn have_primaries_changed(&self, last: &mut Option<Primaries>) -> bool {
        // Without an answer, the list of clients says why.
        let Ok(primaries) = self.client.primaries().await else { return false };
        let mut now: Primaries = primaries.iter().map(|node| (node.id().clone(), node.epoch())).collect();
        now.sort_by(|one, other| one.0.cmp(&other.0));
        let has_changed = last.as_ref().is_some_and(|last| *last != now);
        *last = Some(now);
        has_changed
    }

    pub(super) async fn ask_clients(&self) {
        let mut last = String::new();
        let mut rounds = FuturesUnordered::new();
        loop {
            if !self.viewers().need(Need::Clients, Instant::now()) {
                rounds.clear();
            }
            self.needed(Need::Clients, |_| {}).await;
            let living = self.snapshot.borrow().living.get().map(Arc::clone);
            let Some(living) = living.filter(|living| !living.clients.is_empty()) else {
                // The first list comes soon.
                tokio::time::sleep(super::IDLE / 5).await;
                continue;
            };
            let began = Instant::now();
            if rounds.len() < MOST_ROUNDS {
                let batch = next_batch(&living.clients, &last);
                if let Some((client, _)) = batch.last() {
                    client.clone_into(&mut last);
                }
                rounds.push(self.ask_round(batch.into_iter().map(|(_, id)| id).collect()));
            }
            let mut next = began + ASK_INTERVAL;
            loop {
                tokio::select! {
                    Some(has_failed) = rounds.next(), if !rounds.is_empty() => {
                        if has_failed {
                            next = next.min(Instant::now() + ASK_AGAIN);
                        }
                    }
                    () = tokio::time::sleep_until(next) => break,
                }
            }
        }
    }

    /// Asks these clients. Returns whether some could not be asked.
    ///
    /// The clients that were not asked keep their state: a failure does not show whether a client
    /// answers.
    async fn ask_round(&self, ids: Vec<String>) -> bool {
        let on_event = |event| match event {
            AskEvent::Report(report) => self.take_report(*report),
            AskEvent::Silent { client, waited, .. } => self.take_silence(&client, waited),
            _ => {}
        };
        let asked = self.inspector.ask_each(&ids, ANSWER_TIME, on_event).await;
        let now = now_ms();
        let has_failed = asked.is_err();
        self.change(|snapshot| match asked {
            Ok(()) => snapshot.questions.answered((), now),
            Err(error) => snapshot.questions.failed(error.to_string(), now),
        });
        has_failed
    }

    /// Records that a client has not answered its questions.
    fn take_silence(&self, client: &str, waited: Duration) {
        let asked_at = now_ms().saturating_sub(millis(waited));
        self.change(|snapshot| mark_silent(Arc::make_mut(&mut snapshot.processes), client, asked_at));
        self.has_report.notify_one();
    }

    /// Records a report as soon as it has come.
    fn take_report(&self, report: ClientReport) {
        let now = now_ms();
        {
            let mut reporters = self.reporters.lock().unwrap_or_else(PoisonError::into_inner);
            if reporters.len() < MOST_KEPT {
                reporters.insert(report.id.clone());
            }
        }
        self.change(|snapshot| {
            // A client that has left meanwhile is not added again.
            if !snapshot.processes.contains_key(&report.id) {
                return;
            }
            if let Some(process) = Arc::make_mut(&mut snapshot.processes).get_mut(&report.id) {
                (process.is_asked, process.has_answered, process.silent_since) = (true, true, None);
                process.report = Some((Arc::new(report), now));
            }
        });
        self.has_report.notify_one();
    }
}

fn forget(snapshot: &mut Snapshot) {
    snapshot.living = Reading::default();
    snapshot.questions = Reading::default();
    snapshot.processes = Arc::default();
    snapshot.contention = Arc::default();
    snapshot.events = Arc::default();
}

/// Returns how often clients are listed, so that it takes a node the same share of its time.
fn list_interval(channels: u64) -> Duration {
    let factor = u32::try_from(channels.div_ceil(CHANNELS)).unwrap_or(u32::MAX);
    LIST_INTERVAL.saturating_mul(factor).clamp(LIST_INTERVAL, LONGEST_INTERVAL)
}

/// Returns when a primary was replaced or restarted, if that is known now.
fn changed_at(snapshot: &Snapshot, has_changed: bool, now: u64) -> Option<u64> {
    let started = snapshot.servers.get().and_then(|servers| {
        let read_at = snapshot.servers.read_at()?;
        let uptime = servers.iter().filter_map(|server| server.uptime_s).min()?;
        Some(read_at.saturating_sub(uptime.saturating_mul(1_000)))
    });
    let before = snapshot.living.get().and_then(|living| living.changed_at);
    has_changed.then_some(now).max(started).max(before)
}

/// Marks a client as silent that was asked at this time, and has not answered since.
fn mark_silent(processes: &mut BTreeMap<String, Process>, client: &str, asked_at: u64) {
    // A client that has left meanwhile is not silent.
    let Some(process) = processes.get_mut(client).filter(|process| process.left_at.is_none()) else { return };
    process.is_asked = true;
    if process.report.as_ref().is_none_or(|(_, at)| *at < asked_at) {
        process.silent_since.get_or_insert(asked_at);
    }
}

/// Forgets the clients that have left for good: those that were absent twice and are no longer kept
/// as a process.
fn forget_reporters(
    reporters: &mut BTreeSet<String>,
    processes: &BTreeMap<String, Process>,
    living: &Living,
    now: u64,
) {
    reporters.retain(|client| processes.contains_key(client) || living.absent_since(client, now).is_none());
}

/// Returns the clients to ask after the last one asked, in a circle, with their ids for questions.
fn next_batch(clients: &BTreeMap<String, String>, last: &str) -> Vec<(String, String)> {
    let after = clients.range::<str, _>((Bound::Excluded(last), Bound::Unbounded));
    let before = clients.range::<str, _>((Bound::Unbounded, Bound::Included(last)));
    let owned = |(client, id): (&String, &String)| (client.clone(), id.clone());
    after.chain(before).take(MOST_QUESTIONS).map(owned).collect()
}

/// Adds new processes. Clients that have left stay for a minute if they have reported.
fn keep_processes(
    processes: &mut Arc<BTreeMap<String, Process>>,
    living: &Living,
    now: u64,
    has_answered: impl Fn(&str) -> bool,
) {
    let is_same = processes.keys().eq(living.clients.keys()) && processes.values().all(|it| it.left_at.is_none());
    if is_same {
        return;
    }
    let known = |(client, id): (&String, &String)| {
        let namespace = id.strip_suffix(client.as_str()).unwrap_or_default().to_owned();
        let new = || Process { namespace, has_answered: has_answered(client), ..Process::default() };
        let process = processes.get(client).map_or_else(new, |known| Process { left_at: None, ..known.clone() });
        (client.clone(), process)
    };
    let left = |(client, process): (&String, &Process)| {
        let left_at = process.left_at.unwrap_or(now);
        let is_kept = process.report.is_some() && !living.has(client) && now.saturating_sub(left_at) < KEPT_MS;
        is_kept.then(|| (client.clone(), Process { left_at: Some(left_at), silent_since: None, ..process.clone() }))
    };
    let left: Vec<_> = processes.iter().filter_map(left).take(MOST_KEPT).collect();
    let all: BTreeMap<_, _> = living.clients.iter().map(known).chain(left).collect();
    *processes = Arc::new(all);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids for questions: the number has the length of a UUID.
    fn ids(range: std::ops::Range<usize>, namespace: &str) -> Vec<String> {
        range.map(|n| format!("{namespace}{n:036}")).collect()
    }

    #[test]
    fn many_clients_are_asked_in_turns() {
        let all = Living::of(ids(0..600, "prod:"), true).clients;
        let first = next_batch(&all, "");
        assert_eq!((first.len(), &first[0].1), (MOST_QUESTIONS, &format!("prod:{:036}", 0)));
        let second = next_batch(&all, &first.last().unwrap().0);
        assert_eq!(second[0].0, format!("{:036}", 250));
        let third = next_batch(&all, &second.last().unwrap().0);
        assert_eq!((&third[0].0, &third[100].0), (&format!("{:036}", 500), &format!("{:036}", 0)));
        let few = Living::of(ids(0..3, ""), true).clients;
        assert_eq!(next_batch(&few, &format!("{:036}", 1)).len(), 3);
        assert!(next_batch(&BTreeMap::new(), "x").is_empty());
    }

    #[test]
    fn a_process_that_has_left_is_kept_for_a_minute() {
        let mut processes = Arc::new(BTreeMap::new());
        let keep = |processes: &mut Arc<_>, ids: Vec<String>, now| {
            keep_processes(processes, &Living::of(ids, true), now, |client| client.ends_with('3'));
        };
        keep(&mut processes, ids(0..3, ""), 0);
        assert_eq!(processes.len(), 3);
        let names = ids(0..4, "");
        Arc::make_mut(&mut processes).get_mut(&names[0]).unwrap().report = Some((Arc::default(), 0));
        keep(&mut processes, ids(2..4, "prod:"), 1_000);
        assert_eq!(processes.keys().collect::<Vec<_>>(), [&names[0], &names[2], &names[3]]);
        assert_eq!((processes[&names[0]].left_at, processes[&names[2]].left_at), (Some(1_000), None));
        assert_eq!((processes[&names[3]].namespace.as_str(), processes[&names[3]].has_answered), ("prod:", true));
        keep(&mut processes, ids(2..4, "prod:"), 1_000 + KEPT_MS - 1);
        assert_eq!(processes.len(), 3);
        keep(&mut processes, ids(2..4, "prod:"), 1_000 + KEPT_MS);
        assert_eq!(processes.len(), 2);
        // It has reconnected.
        Arc::make_mut(&mut processes).get_mut(&names[2]).unwrap().report = Some((Arc::default(), 0));
        keep(&mut processes, ids(3..4, ""), 70_000);
        keep(&mut processes, ids(2..4, ""), 71_000);
        assert_eq!((processes[&names[2]].left_at, processes[&names[2]].report.is_some()), (None, true));
    }

    #[test]
    fn a_client_is_silent_if_it_has_not_answered_since_it_was_asked() {
        let [answered, late, new, left] = ["a", "b", "c", "d"];
        let reported = |at| Process { report: Some((Arc::default(), at)), ..Process::default() };
        let gone = Process { left_at: Some(1), ..reported(10) };
        let all = [(answered, reported(20)), (late, reported(19)), (new, Process::default()), (left, gone)];
        let mut processes: BTreeMap<_, _> = all.into_iter().map(|(id, process)| (id.to_owned(), process)).collect();
        for client in [answered, late, new, left, "unknown"] {
            mark_silent(&mut processes, client, 20);
        }
        let silent = [answered, late, new, left].map(|id| processes[id].silent_since);
        assert_eq!(silent, [None, Some(20), Some(20), None]);
        mark_silent(&mut processes, late, 30);
        assert_eq!(processes[late].silent_since, Some(20));
    }

    #[test]
    fn clients_that_have_answered_are_remembered_until_they_have_left_for_good() {
        let names = ids(0..3, "");
        let [living, kept, left] = [&names[0], &names[1], &names[2]];
        let processes = BTreeMap::from([(kept.clone(), Process::default())]);
        let mut reporters: BTreeSet<String> = names.iter().cloned().collect();
        let mut lists = Reading::default();
        for (at, count) in [(1_000, 3), (2_000, 3), (3_000, 2)] {
            let list = Living::of(vec![living.clone()], true).after(&lists, at);
            forget_reporters(&mut reporters, &processes, &list, at);
            assert_eq!(reporters.len(), count, "{at}");
            lists.answered(list, at);
        }
        assert!(!reporters.contains(left), "{reporters:?}");
    }

    #[test]
    fn many_channels_are_listed_more_rarely() {
        let intervals = [0, 1_000, 1_001, 5_000, 50_000, u64::MAX].map(|channels| list_interval(channels).as_secs());
        assert_eq!(intervals, [1, 1, 2, 5, 10, 10]);
    }

    #[test]
    fn a_server_that_was_just_started_is_a_change() {
        let mut snapshot = Snapshot::default();
        assert_eq!((changed_at(&snapshot, false, 50_000), changed_at(&snapshot, true, 50_000)), (None, Some(50_000)));
        let server = |uptime_s| crate::server_info::ServerInfo { uptime_s: Some(uptime_s), ..Default::default() };
        snapshot.servers.answered(vec![server(100), server(3)], 40_000);
        assert_eq!(changed_at(&snapshot, false, 50_000), Some(37_000));
    }
}
