//! The requirements of the configuration on the servers.

use std::time::Duration;

use redgrid_core::config::Durability;

use super::Requirements;

/// The requirements of the configuration on the servers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) lease: Duration,
    pub(super) ping_interval: Duration,
    pub(super) durability: Durability,
    /// Whether facts that a reader may not read were left out.
    pub(super) is_for_reader: bool,
}

impl Limits {
    pub(super) fn of(requirements: &Requirements) -> Self {
        let settings = requirements.config.explain();
        let value = |name: &str| settings.iter().find(|one| one.name == name).and_then(|one| one.value.clone());
        let time = |name: &str| value(name).and_then(|value| humantime::parse_duration(&value).ok());
        let lease = time("watchdog_lease").unwrap_or(Duration::from_secs(30));
        let ping_interval = time("ping_interval").unwrap_or(Duration::from_secs(30));
        let timeout = time("durability_timeout").unwrap_or(Duration::from_secs(1));
        let at_least = value("durability_at_least").and_then(|value| value.parse().ok()).unwrap_or(1);
        let durability = match value("durability").as_deref() {
            Some("disk") => Durability::Disk { timeout },
            Some("replicas") => Durability::Replicas { at_least, timeout },
            _ => Durability::Primary,
        };
        Limits { lease, ping_interval, durability, is_for_reader: requirements.is_for_reader }
    }
}
