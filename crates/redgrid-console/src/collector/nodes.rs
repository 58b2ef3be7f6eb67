//! Health and information of the nodes, and the checks of their settings.

use std::sync::atomic::Ordering;
use std::time::Duration;

use redgrid_core::Request;
use redgrid_core::author::ClientExt;

use super::Collector;
use super::viewers::Need;
use crate::snapshot::ServerInfo;
use crate::text::now_ms;

/// How often nodes are pinged.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// A node that does not answer for this long counts as away.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// How often `INFO` is read.
const INFO_INTERVAL: Duration = Duration::from_secs(10);

/// How long `INFO` may take, with retries.
const INFO_TIMEOUT: Duration = Duration::from_secs(3);

/// Shortest time between two runs of the checks.
const DOCTOR_INTERVAL_MS: u64 = 60_000;

impl Collector {
    pub(super) async fn read_health(&self) {
        while self.needed(Need::Health).await {
            let health = self.client.health().timeout(PING_TIMEOUT).await;
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
        while self.needed(Need::Servers).await {
            let until = self.client.clock().now() + INFO_TIMEOUT;
            let request = Request::command("INFO").idempotent();
            let answers = self.client.run_on_primaries_until::<String>(request, until).await;
            let now = now_ms();
            self.change(|snapshot| match answers {
                Err(error) => snapshot.servers.failed(error.to_string(), now),
                Ok(answers) => {
                    let mut trouble = None;
                    let mut read = Vec::new();
                    for (node, answer) in answers {
                        match answer {
                            Ok(text) => read.push(ServerInfo::read(node.to_string(), &text)),
                            Err(error) => trouble = Some(format!("{node}: {error}")),
                        }
                    }
                    read.sort_by(|one, other| one.node.cmp(&other.node));
                    if !read.is_empty() {
                        snapshot.servers.answered(read, now);
                    }
                    if let Some(why) = trouble {
                        snapshot.servers.failed(why, now);
                    }
                }
            });
            tokio::time::sleep(INFO_INTERVAL).await;
        }
    }

    pub(super) async fn run_doctor(&self) {
        let Some(requirements) = &self.requirements else { return };
        while self.needed(Need::Doctor).await {
            let is_wanted = self.is_doctor_wanted.swap(false, Ordering::Relaxed);
            let last = self.snapshot.borrow().doctor.read_at();
            if is_wanted && last.is_none_or(|last| now_ms() >= last.saturating_add(DOCTOR_INTERVAL_MS)) {
                self.change(|snapshot| snapshot.is_doctor_running = true);
                let report = self.inspector.doctor(requirements).await;
                let now = now_ms();
                self.change(|snapshot| {
                    snapshot.is_doctor_running = false;
                    match report {
                        Ok(report) => snapshot.doctor.answered(report, now),
                        Err(error) => snapshot.doctor.failed(error.to_string(), now),
                    }
                });
            }
            let _ = tokio::time::timeout(super::IDLE, self.came.notified()).await;
        }
    }
}
