//! Refresh of the slot map: nodes are queried at every interval and after every topology hint.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::super::nowhere::{Hope, said_by};
use super::super::slots::{self, Range};
use super::super::{eager_interval, gap};
use super::{Cluster, NAMED_FOR};
use crate::config::ShardedSubscriptions;
use crate::connection::link::NodeRole;
use crate::connection::node::Node;
use crate::connection::{Request, Server};
use crate::error::{Code, ServerError};

/// How long to wait for the answer of one node before another one is queried as well.
const SLOW: Duration = Duration::from_millis(100);

impl Cluster {
    pub(super) async fn watch(self: Arc<Self>) {
        let settings = self.nodes.settings.clone();
        loop {
            let looked = self.look().await;
            let mut interval = match looked {
                Ok(()) => settings.scan_interval,
                Err((error, hope)) => {
                    self.nowhere.because(format!("no node of the cluster tells which one serves what: {error}"), hope);
                    settings.retry_delay.min(settings.scan_interval)
                }
            };
            if let Some(missed_for) = self.map().misses_a_primary(self.nodes.clock.now()) {
                interval = interval.min(eager_interval(missed_for));
            }
            tokio::select! {
                () = self.doubts.notified() => tokio::time::sleep(gap(&settings)).await,
                () = tokio::time::sleep(interval) => {}
            }
        }
    }

    /// Queries nodes until one map is trusted on its own or confirmed by a second node.
    ///
    /// Each refresh starts with a different node. So a node with an old view does not keep that
    /// view alive, and a node that hangs delays no refresh.
    ///
    /// # Errors
    ///
    /// Why no node has answered, and whether waiting can help.
    async fn look(&self) -> Result<(), (String, Hope)> {
        let mut candidates = self.candidates();
        let turn = self.asks.fetch_add(1, Ordering::Relaxed) % candidates.len().max(1);
        candidates.rotate_left(turn);
        // Answering nodes come first.
        candidates.sort_by_key(|node| !node.answers());
        let mut troubles: Vec<(Arc<Node>, ServerError)> = Vec::new();
        let mut waiting = candidates.into_iter();
        let mut asking = FuturesUnordered::new();
        let mut told = Vec::new();
        loop {
            let believed = self.map().believed(&told, self.nodes.clock.now(), |node| node.answers());
            if let Some(at) = believed {
                self.take_in(&told[at]);
                return Ok(());
            }
            if let Some(node) = waiting.next() {
                asking.push(async move {
                    let asked = tokio::time::timeout(self.nodes.settings.connect_timeout, self.ask(&node)).await;
                    asked
                        .unwrap_or_else(|_| Err(ServerError::unknown("no answer in time")))
                        .map_err(|error| (node, error))
                });
            }
            let next = async {
                // Query the next node as well if this one is slow. A map may also become trusted
                // meanwhile: once a slot's owner counts as silent, no confirmation is needed.
                if waiting.len() > 0 || !told.is_empty() {
                    tokio::time::sleep(SLOW).await
                } else {
                    std::future::pending().await
                }
            };
            tokio::select! {
                biased;
                answer = asking.next() => match answer {
                    Some(Ok(ranges)) => told.push(ranges),
                    Some(Err(trouble)) => troubles.push(trouble),
                    None if waiting.len() == 0 => match &told[..] {
                        [] => {
                            let all = || troubles.iter().map(|(node, error)| (&**node, error));
                            let why = all().map(|(node, error)| said_by(node, error)).next_back();
                            return Err((why.unwrap_or_else(|| "none is set".into()), Hope::of(all())));
                        }
                        // No other node has answered.
                        [ranges] => {
                            self.take_in(ranges);
                            return Ok(());
                        }
                        _ => return Err(("they contradict each other".into(), Hope::Some)),
                    },
                    None => {}
                },
                () = next => {}
            }
        }
    }

    fn candidates(&self) -> Vec<Arc<Node>> {
        let mut map = self.map();
        let has_contact = map.known.values().any(|known| known.node.connection_id().borrow().is_some());
        if !has_contact {
            // Start again with the seeds; a name may have a new address.
            for seed in &self.seeds {
                let _ = self.node(&mut map, seed, NodeRole::Any, self.nodes.clock.now() + NAMED_FOR);
            }
        }
        map.known.values().map(|known| Arc::clone(&known.node)).collect()
    }

    async fn ask(&self, node: &Node) -> Result<Vec<Range>, ServerError> {
        let slots = node.call_one(Request::command("CLUSTER").arg("SLOTS")).await?;
        let ranges = slots::read(slots, node.id().host())?;
        if ranges.is_empty() {
            return Err(ServerError::not_sent(format!("{} knows of no slots", node.id())));
        }
        if !self.map().probed {
            if self.nodes.settings.sharded_subscriptions == ShardedSubscriptions::Auto {
                // Redisson's check and its rule: no error means support.
                let answer = node.call_one(Request::command("PUBSUB").arg("SHARDNUMSUB").arg("0")).await;
                if answer.as_ref().is_err_and(|error| error.code().is_none_or(Code::is_passing)) {
                    answer?;
                } else {
                    self.nodes.sharded.store(answer.is_ok(), Ordering::Relaxed);
                }
            }
            self.map().probed = true;
        }
        Ok(ranges)
    }
}
