//! The living clients, and their reports.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::Collector;
use super::viewers::Need;
use crate::snapshot::{Living, Process};
use crate::text::now_ms;

/// How often the living clients are listed: often enough that a client that was killed is seen
/// within 3 s.
const LIST_INTERVAL: Duration = Duration::from_secs(2);

/// The same with many clients.
const LONG_LIST_INTERVAL: Duration = Duration::from_secs(10);

/// From this number on, clients are many: the list takes a server some 100 µs.
const MANY: usize = 1_000;

/// Channels of a node from which on its clients are not listed, since the server looks at all of
/// its channels.
const MOST_CHANNELS: u64 = 50_000;

/// How often clients are asked.
const ASK_INTERVAL: Duration = Duration::from_secs(5);

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Clients that are asked in one interval: 50 a second.
const MOST_QUESTIONS: usize = 250;

impl Collector {
    pub(super) async fn read_clients(&self) {
        while self.needed(Need::Clients).await {
            let crowded = self.crowded_node();
            let living = match crowded {
                Some(node) => Err(format!("{node} has more than {MOST_CHANNELS} channels, so its clients are not listed")),
                None => self.inspector.living_clients().await.map_err(|error| error.to_string()),
            };
            let now = now_ms();
            let mut interval = LIST_INTERVAL;
            match living {
                Ok(living) => {
                    let mut ids = living.ids;
                    ids.sort_unstable();
                    ids.dedup();
                    if ids.len() > MANY {
                        interval = LONG_LIST_INTERVAL;
                    }
                    let living = Living { ids, is_complete: living.is_complete };
                    self.change(|snapshot| {
                        keep_processes(&mut snapshot.processes, &living);
                        snapshot.living.answered(living, now);
                    });
                }
                Err(why) => self.change(|snapshot| snapshot.living.failed(why, now)),
            }
            self.update_board();
            tokio::time::sleep(interval).await;
        }
    }

    fn crowded_node(&self) -> Option<String> {
        let snapshot = self.snapshot.borrow();
        let servers = snapshot.servers.get()?;
        let crowded = servers.iter().find(|server| server.channels.is_some_and(|count| count > MOST_CHANNELS));
        crowded.map(|server| server.node.clone())
    }

    pub(super) async fn ask_clients(&self) {
        let mut last = String::new();
        while self.needed(Need::Clients).await {
            let ids = self.snapshot.borrow().living.get().map(Arc::clone);
            let Some(living) = ids.filter(|living| !living.ids.is_empty()) else {
                // The first list comes soon.
                tokio::time::sleep(super::IDLE / 5).await;
                continue;
            };
            let batch = next_batch(&living.ids, &last);
            batch.last().unwrap_or(&last).clone_into(&mut last);
            let asked_at = now_ms();
            // An error concerns the connection, which the health shows. The clients stay as they were.
            if let Ok(answers) = self.inspector.ask(&batch, ANSWER_TIMEOUT).await {
                let reports: HashMap<String, _> =
                    answers.into_iter().filter_map(|answer| Some((answer.id, answer.report?))).collect();
                let now = now_ms();
                self.change(|snapshot| {
                    let mut processes = (*snapshot.processes).clone();
                    let mut reports = reports;
                    for id in batch {
                        // A client that has left meanwhile is not silent.
                        if !snapshot.living.get().is_some_and(|living| living.has(&id)) {
                            continue;
                        }
                        let process = processes.entry(id.clone()).or_default();
                        process.is_asked = true;
                        match reports.remove(&id) {
                            Some(report) => {
                                process.report = Some((Arc::new(report), now));
                                process.silent_since = None;
                            }
                            None => {
                                process.silent_since.get_or_insert(asked_at);
                            }
                        }
                    }
                    snapshot.processes = Arc::new(processes);
                });
                self.update_board();
            }
            tokio::time::sleep(ASK_INTERVAL).await;
        }
    }
}

/// Returns the clients to ask after the last one asked, in a circle.
fn next_batch(ids: &[String], last: &str) -> Vec<String> {
    let start = ids.partition_point(|id| id.as_str() <= last);
    ids[start..].iter().chain(&ids[..start]).take(MOST_QUESTIONS).cloned().collect()
}

/// Removes the processes that do not live any more, and adds new ones.
fn keep_processes(processes: &mut Arc<BTreeMap<String, Process>>, living: &Living) {
    let is_same = processes.len() == living.ids.len() && living.ids.iter().all(|id| processes.contains_key(id));
    if !is_same {
        let known = |id: &String| (id.clone(), processes.get(id).cloned().unwrap_or_default());
        *processes = Arc::new(living.ids.iter().map(known).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(range: std::ops::Range<usize>) -> Vec<String> {
        range.map(|n| format!("{n:05}")).collect()
    }

    #[test]
    fn many_clients_are_asked_in_turns() {
        let all = ids(0..600);
        let first = next_batch(&all, "");
        assert_eq!((first.len(), first[0].as_str()), (MOST_QUESTIONS, "00000"));
        let second = next_batch(&all, first.last().unwrap());
        assert_eq!(second[0], "00250");
        let third = next_batch(&all, second.last().unwrap());
        assert_eq!((third[0].as_str(), third[100].as_str()), ("00500", "00000"));
        assert_eq!(next_batch(&ids(0..3), "00001"), ["00002", "00000", "00001"]);
        assert!(next_batch(&[], "x").is_empty());
    }

    #[test]
    fn processes_that_are_gone_are_forgotten() {
        let mut processes = Arc::new(BTreeMap::new());
        keep_processes(&mut processes, &Living { ids: ids(0..3), is_complete: true });
        assert_eq!(processes.len(), 3);
        keep_processes(&mut processes, &Living { ids: ids(2..4), is_complete: true });
        assert_eq!(processes.keys().cloned().collect::<Vec<_>>(), ids(2..4));
    }
}
