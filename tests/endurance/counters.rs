//! Counters of servers: commands and connections.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid_testkit::{Kind, Observer, RedisServer};

/// Calls of each command, by its name.
pub(crate) type Calls = BTreeMap<String, u64>;

/// Counts the calls of servers from its creation.
pub(crate) struct Counter {
    servers: Vec<(Observer, Calls)>,
}

impl Counter {
    pub(crate) async fn begin(servers: &[RedisServer]) -> Self {
        let mut counter = Counter { servers: Vec::new() };
        for server in servers {
            let observer = server.observer().await.expect("the server answers");
            let calls = calls(&observer).await;
            counter.servers.push((observer, calls));
        }
        counter
    }

    /// Returns the calls of each server, including the INFO calls of this counter.
    pub(crate) async fn so_far(&self) -> Vec<Calls> {
        let mut all = Vec::new();
        for (observer, before) in &self.servers {
            let mut calls = calls(observer).await;
            for (name, count) in &mut calls {
                *count -= before.get(name).copied().unwrap_or_default().min(*count);
            }
            calls.retain(|_, count| *count > 0);
            all.push(calls);
        }
        all
    }

    /// Returns how often a command was called, over all servers.
    pub(crate) async fn of(&self, command: &str) -> u64 {
        self.so_far().await.iter().filter_map(|calls| calls.get(command)).sum()
    }
}

async fn calls(observer: &Observer) -> Calls {
    let stats: String = observer.query(&["INFO", "commandstats"]).await.expect("the server answers");
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    stats.lines().filter_map(calls).collect()
}

/// Returns the number of our clients' connections to a server: for requests, and for subscriptions.
pub(crate) async fn connections(server: &RedisServer) -> (usize, usize) {
    let clients = server.clients().await.expect("the server answers");
    let ours = || clients.iter().filter(|client| client.name.starts_with("redgrid"));
    let subscribers = ours().filter(|client| client.kind == Kind::PubSub).count();
    (ours().count() - subscribers, subscribers)
}

/// Returns the number of our clients' connections to all servers.
pub(crate) async fn all_connections(servers: &[RedisServer]) -> usize {
    let mut all = 0;
    for server in servers {
        let (requests, subscribers) = connections(server).await;
        all += requests + subscribers;
    }
    all
}

/// Returns the processor time of this process.
pub(crate) fn cpu_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every Linux has it");
    Duration::from(time)
}
