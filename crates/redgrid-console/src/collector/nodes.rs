//! Health and information of the nodes, and the checks of their settings.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redgrid_core::Request;
use redgrid_core::author::ClientExt;
use tokio::time::Instant;

use super::Collector;
use super::viewers::Need;
use crate::server_info::{ServerInfo, replica_lags};
use crate::snapshot::{Reading, Snapshot};
use crate::text::now_ms;

/// How often nodes are pinged.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// A node that does not answer for this long counts as away.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// How often `INFO` is read.
const INFO_INTERVAL: Duration = Duration::from_secs(10);

/// How long `INFO` may take, with retries.
const INFO_TIMEOUT: Duration = Duration::from_secs(3);

/// Shortest time between the beginnings of two runs of the checks for pages.
const DOCTOR_INTERVAL: Duration = Duration::from_secs(60);

/// How often the checks run while metrics are scraped, also if they fail: 1 h.
const CHECKS_INTERVAL: Duration = Duration::from_secs(3_600);

impl Collector {
    pub(super) async fn read_health(&self) {
        loop {
            self.needed(Need::Health, |snapshot| snapshot.health = Reading::default()).await;
            let health = self.cost.of(self.client.health().timeout(PING_TIMEOUT).into_future()).await;
            let now = now_ms();
            self.change(|snapshot| {
                if health.is_ready() {
                    snapshot.unreachable_since = None;
                } else {
                    snapshot.unreachable_since.get_or_insert(now);
                }
                let is_changed = snapshot.health.get().is_none_or(|old| **old != health);
                if is_changed || snapshot.health.trouble.is_some() {
                    snapshot.health.answered(health, now);
                }
            });
            tokio::time::sleep(PING_INTERVAL).await;
        }
    }

    pub(super) async fn read_servers(&self) {
        loop {
            let forget = |snapshot: &mut Snapshot| {
                (snapshot.servers, snapshot.keys) = (Reading::default(), None);
                snapshot.replica_lags.clear();
            };
            self.needed(Need::Servers, forget).await;
            let until = self.client.clock().now() + INFO_TIMEOUT;
            let request = Request::command("INFO").idempotent();
            let answers = self.cost.of(self.client.run_on_primaries_until::<String>(request, until)).await;
            let now = now_ms();
            let mut has_failed = false;
            self.change(|snapshot| match answers {
                Err(error) => {
                    has_failed = true;
                    snapshot.replica_lags.clear();
                    snapshot.servers.failed(error.to_string(), now);
                }
                Ok(answers) => {
                    let answers = answers.into_iter().map(|(node, answer)| (node.to_string(), answer));
                    has_failed = take_servers(snapshot, answers, now);
                }
            });
            tokio::time::sleep(if has_failed { PING_INTERVAL } else { INFO_INTERVAL }).await;
        }
    }

    pub(super) async fn run_doctor(&self) {
        let Some(requirements) = &self.requirements else { return std::future::pending().await };
        // The console changes nothing, so permissions that need a write are not checked.
        let for_page = requirements.clone().read_only();
        // No user has requested the checks for metrics, so no server may refuse a part of them.
        let for_metrics = requirements.clone().for_reader();
        let (mut last, mut last_for_metrics) = (None, None);
        loop {
            self.needed(Need::Doctor, |_| {}).await;
            if is_due(last, DOCTOR_INTERVAL) && self.is_doctor_wanted.swap(false, Ordering::Relaxed) {
                last = Some(Instant::now());
                self.change(|snapshot| snapshot.is_doctor_running = true);
                let report = self.cost.of(self.inspector.doctor(&for_page)).await;
                self.change(|snapshot| {
                    snapshot.is_doctor_running = false;
                    snapshot.doctor.ended(report, now_ms());
                });
            }
            if is_due(last_for_metrics, CHECKS_INTERVAL) && self.viewers().is_scraped(Instant::now()) {
                last_for_metrics = Some(Instant::now());
                let report = self.cost.of(self.inspector.doctor(&for_metrics)).await;
                self.change(|snapshot| snapshot.checks.ended(report, now_ms()));
            }
            let _ = tokio::time::timeout(super::IDLE, self.came.notified()).await;
        }
    }
}

/// Returns whether checks that last began at this time may begin again.
fn is_due(last: Option<Instant>, interval: Duration) -> bool {
    last.is_none_or(|last| last.elapsed() >= interval)
}

/// Records the replies to `INFO`. Of a node that does not answer, the last reply stays, but not the
/// lags of its replicas. Returns whether one does not answer.
fn take_servers<E: std::fmt::Display>(
    snapshot: &mut Snapshot,
    answers: impl Iterator<Item = (String, Result<String, E>)>,
    now: u64,
) -> bool {
    let mut trouble = None;
    let mut servers = Vec::new();
    let mut are_all_known = true;
    snapshot.replica_lags.clear();
    for (node, answer) in answers {
        match answer {
            Ok(text) => {
                // Replicas behind one address are one series, that of the largest lag.
                for (replica, lag) in replica_lags(&text) {
                    let largest = snapshot.replica_lags.entry(replica).or_default();
                    *largest = lag.max(*largest);
                }
                servers.push(ServerInfo::read(node, &text));
            }
            Err(error) => {
                trouble = Some(format!("{node}: {error}"));
                let last = snapshot.servers.get().and_then(|servers| servers.iter().find(|server| server.node == node));
                are_all_known &= last.is_some();
                servers.extend(last.cloned());
            }
        }
    }
    servers.sort_by(|one, other| one.node.cmp(&other.node));
    let keys = servers.iter().fold(0_u64, |sum, server| sum.saturating_add(server.keys));
    // A new primary that does not answer at first hides no number that was known.
    snapshot.keys = Some(keys).filter(|_| are_all_known).or(snapshot.keys);
    if !servers.is_empty() {
        snapshot.servers.answered(servers, now);
    }
    let has_failed = trouble.is_some();
    if let Some(why) = trouble {
        snapshot.servers.failed(why, now);
    }
    has_failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_keys_is_known_once_every_primary_has_answered() {
        let info = |keys: u64| Ok::<_, String>(format!("db0:keys={keys},expires=0\r\n"));
        let denied = || Err("NOPERM".to_owned());
        let mut snapshot = Snapshot::default();
        let mut take = |replies: [Result<String, String>; 2]| {
            let replies = ["a", "b"].map(str::to_owned).into_iter().zip(replies);
            (take_servers(&mut snapshot, replies, 1), snapshot.keys)
        };
        assert_eq!(take([info(3), denied()]), (true, None));
        assert_eq!(take([info(3), info(4)]), (false, Some(7)));
        // The node that is away for a moment keeps its number.
        assert_eq!(take([info(5), denied()]), (true, Some(9)));
        let new = [("c".to_owned(), denied())];
        assert_eq!((take_servers(&mut snapshot, new.into_iter(), 1), snapshot.keys), (true, Some(9)));
        assert_eq!(snapshot.servers.get().map(|servers| servers.len()), Some(2));
    }

    #[test]
    fn lags_of_replicas_are_those_that_a_primary_reports_now() {
        let replica = |number: u32, ip: &str, offset: u32| {
            format!("slave{number}:ip={ip},port=6380,state=online,offset={offset},lag=1\r\n")
        };
        let info = |replicas: [String; 2]| Ok(format!("{}master_repl_offset:1000\r\n", replicas.concat()));
        let denied = || Err("NOPERM".to_owned());
        let mut snapshot = Snapshot::default();
        let mut take = |replies: [Result<String, String>; 2]| {
            let replies = ["a", "b"].map(str::to_owned).into_iter().zip(replies);
            take_servers(&mut snapshot, replies, 1);
            snapshot.replica_lags.clone().into_iter().collect::<Vec<_>>()
        };
        // Two replicas have one address.
        let a = || info([replica(0, "10.0.0.2", 900), replica(1, "10.0.0.2", 990)]);
        let b = || info([replica(0, "10.0.0.3", 1000), replica(1, "10.0.0.4", 1000)]);
        let [two, three, four] = ["10.0.0.2:6380", "10.0.0.3:6380", "10.0.0.4:6380"].map(str::to_owned);
        assert_eq!(take([a(), b()]), [(two.clone(), 100), (three, 0), (four, 0)]);
        assert_eq!(take([a(), denied()]), [(two, 100)]);
        assert_eq!(take([denied(), denied()]), []);
    }
}
