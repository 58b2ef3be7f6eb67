//! The living clients, and their reports.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::Collector;
use super::viewers::Need;
use crate::snapshot::{Living, Process};
use crate::text::now_ms;

/// How often the living clients are listed: often enough that a client that was killed is seen
/// within 3 s.
const LIST_INTERVAL: Duration = Duration::from_secs(2);

/// The interval with many clients.
const LONG_LIST_INTERVAL: Duration = Duration::from_secs(10);

/// Shortest time between two lists, while holders are found that are newer than the list.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(500);

/// From this number on, clients are many: the list takes a server some 100 µs.
const MANY: usize = 1_000;

/// How often clients are asked.
const ASK_INTERVAL: Duration = Duration::from_secs(5);

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Clients that are asked in one interval: 50 a second.
const MOST_QUESTIONS: usize = 250;

impl Collector {
    pub(super) async fn read_clients(&self) {
        while self.needed(Need::Clients).await {
            let living = self.inspector.living_clients().await;
            let now = now_ms();
            let mut interval = LIST_INTERVAL;
            match living {
                Ok(living) => {
                    if living.ids.len() > MANY {
                        interval = LONG_LIST_INTERVAL;
                    }
                    let living = Living::of(living.ids, living.is_complete);
                    self.change(|snapshot| {
                        keep_processes(&mut snapshot.processes, &living);
                        snapshot.living.answered(living, now);
                    });
                }
                Err(error) => self.change(|snapshot| snapshot.living.failed(error.to_string(), now)),
            }
            self.update_board();
            tokio::time::sleep(SHORTEST_INTERVAL).await;
            let _ = tokio::time::timeout(interval - SHORTEST_INTERVAL, self.is_list_old.notified()).await;
        }
    }

    pub(super) async fn ask_clients(&self) {
        let mut last = String::new();
        while self.needed(Need::Clients).await {
            let ids = self.snapshot.borrow().living.get().map(Arc::clone);
            let Some(living) = ids.filter(|living| !living.clients.is_empty()) else {
                // The first list comes soon.
                tokio::time::sleep(super::IDLE / 5).await;
                continue;
            };
            let batch = next_batch(&living.clients, &last);
            if let Some((client, _)) = batch.last() {
                client.clone_into(&mut last);
            }
            let ids: Vec<String> = batch.iter().map(|(_, id)| id.clone()).collect();
            let asked_at = now_ms();
            // An error concerns the connection, which the health shows. The clients stay as they
            // were.
            if let Ok(answers) = self.inspector.ask(&ids, ANSWER_TIMEOUT).await {
                let reports: HashMap<String, _> =
                    answers.into_iter().filter_map(|answer| Some((answer.id, answer.report?))).collect();
                let now = now_ms();
                self.change(|snapshot| {
                    let mut processes = (*snapshot.processes).clone();
                    let mut reports = reports;
                    for (client, id) in batch {
                        // A client that has left meanwhile is not silent.
                        let Some(process) = processes.get_mut(&client) else { continue };
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

/// Returns the clients to ask after the last one asked, in a circle, with their ids for questions.
fn next_batch(clients: &BTreeMap<String, String>, last: &str) -> Vec<(String, String)> {
    let after = clients.range::<str, _>((Bound::Excluded(last), Bound::Unbounded));
    let before = clients.range::<str, _>((Bound::Unbounded, Bound::Included(last)));
    let owned = |(client, id): (&String, &String)| (client.clone(), id.clone());
    after.chain(before).take(MOST_QUESTIONS).map(owned).collect()
}

/// Removes the processes that do not live any more, and adds new ones.
fn keep_processes(processes: &mut Arc<BTreeMap<String, Process>>, living: &Living) {
    if !processes.keys().eq(living.clients.keys()) {
        let known = |(client, id): (&String, &String)| {
            let namespace = id.strip_suffix(client.as_str()).unwrap_or_default().to_owned();
            let process = processes.get(client).cloned();
            (client.clone(), process.unwrap_or_else(|| Process { namespace, ..Process::default() }))
        };
        *processes = Arc::new(living.clients.iter().map(known).collect());
    }
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
    fn processes_that_are_gone_are_forgotten() {
        let mut processes = Arc::new(BTreeMap::new());
        keep_processes(&mut processes, &Living::of(ids(0..3, ""), true));
        assert_eq!(processes.len(), 3);
        keep_processes(&mut processes, &Living::of(ids(2..4, "prod:"), true));
        assert_eq!(processes.keys().cloned().collect::<Vec<_>>(), ids(2..4, ""));
        assert_eq!(processes[&format!("{:036}", 3)].namespace, "prod:");
    }
}
