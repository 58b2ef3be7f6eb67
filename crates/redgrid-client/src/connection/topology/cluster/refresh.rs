//! Refreshes the slot map: queries nodes at every `scan_interval` and after topology hints.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::super::map::{Known, Served};
use super::super::slots::{self, Range};
use super::super::unknown_primary::{kind_of, text_of};
use super::super::{close, eager_interval, gap};
use super::{Cluster, NAMED_FOR};
use crate::clock::Instant;
use crate::config::{Address, ShardedSubscriptions};
use crate::connection::link::NodeRole;
use crate::connection::node::Node;
use crate::connection::trouble::Trouble;
use crate::connection::{Request, Server};
use crate::error::{Code, ServerError};

/// How long to wait for the answer of one node before another node is queried as well: 100 ms.
const SLOW: Duration = Duration::from_millis(100);

impl Cluster {
    pub(super) async fn watch(self: Arc<Self>) {
        let settings = self.nodes.settings.clone();
        loop {
            let refreshed = self.refresh().await;
            let mut interval = match refreshed {
                Ok(()) => settings.scan_interval,
                Err(Trouble { message, kind }) => {
                    let message = format!("no node of the cluster reports the slot map: {message}");
                    self.unknown_primary.because(Trouble { message, kind });
                    settings.retry_delay.min(settings.scan_interval)
                }
            };
            if let Some(missed_for) = self.map.lock().misses_a_primary(self.nodes.clock.now()) {
                interval = interval.min(eager_interval(missed_for));
            }
            tokio::select! {
                () = self.doubts.notified() => tokio::time::sleep(gap(&settings)).await,
                () = tokio::time::sleep(interval) => {}
            }
        }
    }

    /// Queries nodes until a slot map is trusted on its own, or is confirmed by a second node.
    ///
    /// Each refresh starts with a different node, so an outdated map of one node is not used for
    /// long. If a node is slow to answer, the next one is queried as well.
    ///
    /// # Errors
    ///
    /// The error says why no map can be trusted, and whether waiting can help.
    async fn refresh(&self) -> Result<(), Trouble> {
        let mut candidates = self.candidates();
        let first = self.refreshes.fetch_add(1, Ordering::Relaxed) % candidates.len().max(1);
        candidates.rotate_left(first);
        // Answering nodes come first.
        candidates.sort_by_key(|node| !node.answers());
        let mut errors: Vec<(Arc<Node>, ServerError)> = Vec::new();
        let mut waiting = candidates.into_iter();
        let mut queries = FuturesUnordered::new();
        let mut maps = Vec::new();
        loop {
            let trusted = self.map.lock().trusted(&maps, self.nodes.clock.now(), |node| node.answers());
            if let Some(at) = trusted {
                self.apply(&maps[at]);
                return Ok(());
            }
            if let Some(node) = waiting.next() {
                queries.push(async move {
                    let reply = tokio::time::timeout(self.nodes.settings.connect_timeout, self.query(&node)).await;
                    reply
                        .unwrap_or_else(|_| Err(ServerError::unknown("no answer in time")))
                        .map_err(|error| (node, error))
                });
            }
            let next = async {
                // Query the next node as well if the previous one is slow. Check the received maps
                // again, too: if a map takes slots from a node that now counts as silent, the map
                // needs no confirmation.
                if waiting.len() > 0 || !maps.is_empty() {
                    tokio::time::sleep(SLOW).await
                } else {
                    std::future::pending().await
                }
            };
            tokio::select! {
                biased;
                answer = queries.next() => match answer {
                    Some(Ok(ranges)) => maps.push(ranges),
                    Some(Err(error)) => errors.push(error),
                    None if waiting.len() == 0 => match &maps[..] {
                        [] => {
                            let all = || errors.iter().map(|(node, error)| (&**node, error));
                            let why = all().map(|(node, error)| text_of(node, error)).next_back();
                            let message = why.unwrap_or_else(|| "none is set".into());
                            return Err(Trouble { message, kind: kind_of(all()) });
                        }
                        // No other node has returned a map, so no map can confirm this one. This
                        // map is used without confirmation.
                        [ranges] => {
                            self.apply(ranges);
                            return Ok(());
                        }
                        _ => return Err(Trouble::passing("the nodes contradict each other")),
                    },
                    None => {}
                },
                () = next => {}
            }
        }
    }

    fn candidates(&self) -> Vec<Arc<Node>> {
        let mut map = self.map.lock();
        let has_contact = map.known.values().any(|known| known.node.connection_id().borrow().is_some());
        if !has_contact {
            // Start again with the seeds, because a host name may have a new address.
            for seed in &self.seeds {
                let _ = self.node(&mut map, seed, NodeRole::Any, self.nodes.clock.now() + NAMED_FOR);
            }
        }
        map.known.values().map(|known| Arc::clone(&known.node)).collect()
    }

    async fn query(&self, node: &Node) -> Result<Vec<Range>, ServerError> {
        let slots = node.call_one(Request::command("CLUSTER").arg("SLOTS")).await?;
        let ranges = slots::read(slots, node.id().host())?;
        if ranges.is_empty() {
            return Err(ServerError::not_sent(format!("{} reports no slots", node.id())));
        }
        if !self.map.lock().probed {
            if self.nodes.settings.sharded_subscriptions == ShardedSubscriptions::Auto {
                // Redisson makes the same check: a reply without an error means that the servers
                // support sharded channels.
                let answer = node.call_one(Request::command("PUBSUB").arg("SHARDNUMSUB").arg("0")).await;
                if answer.as_ref().is_err_and(|error| error.code().is_none_or(Code::is_passing)) {
                    answer?;
                } else {
                    self.nodes.sharded.store(answer.is_ok(), Ordering::Relaxed);
                }
            }
            self.map.lock().probed = true;
        }
        Ok(ranges)
    }

    pub(super) fn apply(&self, ranges: &[Range]) {
        let now = self.nodes.clock.now();
        let mut map = self.map.lock();
        // Old and new replicas are compared by pointer below. The clone keeps the old ones in
        // memory, so that no new node can have the pointer of an old one.
        let (moved, read) = (map.moved.len(), map.replicas.clone());
        let mut served: Vec<Served> = Vec::with_capacity(ranges.len());
        let mut replicas: HashMap<Address, Vec<Arc<Node>>> = HashMap::new();
        let mut named: HashSet<Address> = HashSet::new();
        for range in ranges {
            let (address, kept_until) = (range.primary.clone(), Instant::MAX);
            let Some(node) = self.node(&mut map, &address, NodeRole::Any, Instant::MIN) else { return };
            served.push(Served { first: range.first, last: range.last, address, node, kept_until });
            named.insert(range.primary.clone());
            if !self.nodes.settings.uses_replicas() || replicas.contains_key(&range.primary) {
                continue;
            }
            let mut copies = Vec::new();
            for replica in &range.replicas {
                copies.extend(self.node(&mut map, replica, NodeRole::ClusterReplica, Instant::MIN));
                named.insert(replica.clone());
            }
            replicas.insert(range.primary.clone(), copies);
        }
        served.sort_by_key(|served| served.first);
        for kept in map.left_out(&served, now) {
            if !map.is_known(&kept.address, &kept.node) {
                continue;
            }
            if !replicas.contains_key(&kept.address) {
                // The replicas of `kept.node` stay open as well: one of them may be about to be
                // promoted.
                let stays = |(address, known): (&Address, &Known)| {
                    let of = map.replicas.get(&kept.address);
                    let is_its = of.is_some_and(|of| of.iter().any(|node| Arc::ptr_eq(node, &known.node)));
                    (is_its && !named.contains(address)).then(|| (address.clone(), Arc::clone(&known.node)))
                };
                let (addresses, copies): (Vec<_>, Vec<_>) = map.known.iter().filter_map(stays).unzip();
                named.extend(addresses);
                replicas.insert(kept.address.clone(), copies);
            }
            named.insert(kept.address.clone());
            served.push(kept);
        }
        served.sort_by_key(|served| served.first);
        map.remember_left(ranges, now);
        map.moved.retain(|_, (_, until)| *until > now);
        let all_read = |copies: &HashMap<Address, Vec<Arc<Node>>>| {
            copies.values().flatten().map(Arc::as_ptr).collect::<HashSet<_>>()
        };
        let changed = map.served != served || map.moved.len() != moved || all_read(&read) != all_read(&replicas);
        map.served = served;
        map.replicas = replicas;
        let mut removed = Vec::new();
        map.known.retain(|address, known| {
            if known.until == Instant::MAX {
                // This node is a seed, and `ranges` is the first map. From now on, a seed stays
                // open only if a map names the seed's address.
                known.until = now;
            }
            let stays = named.contains(address) || known.until > now;
            if !stays {
                removed.push(Arc::clone(&known.node));
            }
            stays
        });
        if now.since(map.replicas_checked) >= self.nodes.settings.scan_interval {
            // The roles of replicas are checked at most once per `scan_interval`, however often the
            // map is refreshed.
            map.replicas_checked = now;
            map.replicas.values().flatten().for_each(|replica| replica.schedule_check());
        }
        drop(map);
        close(removed);
        if changed {
            tracing::debug!(nodes = named.len(), "slots");
            self.changes.send_modify(|count| *count += 1);
        }
    }
}
