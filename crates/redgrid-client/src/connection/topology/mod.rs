//! Maps keys to servers, with a file for each kind of deployment.

mod cluster;
mod lag;
mod listed;
mod map;
mod master_slave;
mod replicated;
mod role;
mod sentinel;
mod single;
mod slots;
mod unknown_primary;
mod votes;

pub(super) use single::Single;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;

#[cfg(unix)]
use super::endpoint::Endpoint;
use super::link::NodeRole;
use super::node::{Node, Nodes};
use super::slot::slot;
use super::{ConnectError, Server, ShardServers, Topology};
use crate::clock::Clock;
use crate::config::{Config, ReadMode, Servers, Settings, SubscriptionMode};

/// The longest pause between a topology hint and its refresh: 50 ms.
///
/// Hints that arrive in this pause share one refresh. A longer pause would delay calls that a new
/// primary could answer.
const LONGEST_GAP: Duration = Duration::from_millis(50);

/// The initial pause between refreshes while a primary does not answer: 100 ms.
///
/// A call that waits for that primary triggers no refresh, so the call may notice a new primary up
/// to 100 ms late. This delay is acceptable.
const EAGERLY: Duration = Duration::from_millis(100);

/// How long the pauses between refreshes keep their initial length, [`EAGERLY`]: 10 s.
///
/// A failover that is configured to be fast completes within that time. After that, each pause is a
/// quarter longer than the previous one. Longer pauses limit the load on the servers, because all
/// clients of a deployment refresh during a failover.
const AT_FULL_PACE: Duration = Duration::from_secs(10);

/// The longest pause between refreshes while a primary does not answer: 1 s, or `scan_interval` if
/// that is shorter.
const SLOWEST: Duration = Duration::from_secs(1);

/// How long refreshes are frequent after a primary has stopped answering: 60 s.
///
/// By default a cluster detects a failed primary after 15 s and sentinels after 30 s. After 60 s
/// the primary has been replaced, or there is no replacement.
const EAGER_FOR: Duration = Duration::from_secs(60);

/// Returns the pause before the next refresh if a primary has not answered for `missed_for`.
///
/// The pause is randomly shortened by up to a quarter. Otherwise clients that lost the primary at
/// the same moment would also send all their refreshes at the same moments.
fn eager_interval(missed_for: Duration) -> Duration {
    pace(missed_for).mul_f64(1.0 - fastrand::f64() / 4.0)
}

/// Returns the pause between refreshes before it is randomly shortened.
///
/// The pause is [`EAGERLY`] plus a quarter of the time beyond [`AT_FULL_PACE`]. So each pause is
/// about a quarter longer than the previous pause, up to [`SLOWEST`].
fn pace(missed_for: Duration) -> Duration {
    (EAGERLY + missed_for.saturating_sub(AT_FULL_PACE) / 4).min(SLOWEST)
}

fn gap(settings: &Settings) -> Duration {
    settings.retry_delay.min(LONGEST_GAP)
}

fn close(nodes: Vec<Arc<Node>>) {
    if !nodes.is_empty() {
        tokio::spawn(async move {
            join_all(nodes.iter().map(|node| node.close())).await;
        });
    }
}

fn shard(primary: &Arc<Node>, slots: Vec<RangeInclusive<u16>>, replicas: &[Arc<Node>]) -> ShardServers {
    let server = |node: &Arc<Node>| Arc::clone(node) as Arc<dyn Server>;
    ShardServers { primary: server(primary), slots, replicas: replicas.iter().map(server).collect() }
}

/// Returns the server for the next read: one of the candidates of the read mode, in round-robin
/// order.
///
/// With [`ReadMode::Any`], candidates are the primary and the usable replicas ([`Node::is_fit`]).
/// With [`ReadMode::Replica`], the primary is a candidate only if no replica is usable.
fn reader(mode: ReadMode, next: &AtomicUsize, primary: &Arc<Node>, replicas: &[Arc<Node>]) -> Arc<dyn Server> {
    if mode == ReadMode::Primary {
        return Arc::clone(primary) as Arc<dyn Server>;
    }
    let fit: Vec<_> = replicas.iter().filter(|replica| replica.is_fit()).collect();
    let with_primary = usize::from(mode != ReadMode::Replica || fit.is_empty());
    let next = next.fetch_add(1, Ordering::Relaxed) % (fit.len() + with_primary);
    Arc::clone(fit.get(next).copied().unwrap_or(primary)) as Arc<dyn Server>
}

/// Returns the server at which waiters of `key` subscribe.
///
/// All clients with the same list of replicas choose the same replica. Therefore this replica knows
/// the number of all waiters, and all waiters are notified of a release at the same time. If this
/// replica is not usable, the next one is chosen. Without a usable replica, waiters subscribe at
/// the primary.
fn listener(mode: SubscriptionMode, key: &[u8], primary: &Arc<Node>, replicas: &[Arc<Node>]) -> Arc<dyn Server> {
    if mode == SubscriptionMode::Primary {
        return Arc::clone(primary) as Arc<dyn Server>;
    }
    let mut known: Vec<_> = replicas.iter().collect();
    known.sort_by_key(|replica| replica.id());
    let first = usize::from(slot(key)) % known.len().max(1);
    known.rotate_left(first);
    let fit = known.into_iter().find(|replica| replica.is_fit());
    Arc::clone(fit.unwrap_or(primary)) as Arc<dyn Server>
}

/// Starts to discover the configured servers, and returns without waiting for the result.
pub(super) fn open(config: &Config, clock: &Clock) -> Result<Arc<dyn Topology>, ConnectError> {
    let nodes = Nodes::new(config, clock)?;
    Ok(match &config.servers {
        Servers::Single(address) => Arc::new(Single::new(nodes.open(address, NodeRole::Any))),
        #[cfg(unix)]
        Servers::Unix(path) => Arc::new(Single::new(nodes.open_at(Endpoint::Unix(path.clone()), NodeRole::Any))),
        #[cfg(not(unix))]
        Servers::Unix(_) => {
            return Err(ConnectError::Client(crate::ServerError::not_sent("this system has no unix sockets")));
        }
        Servers::MasterSlave(servers) => master_slave::open(servers, nodes),
        Servers::Replicated(listed) => listed::open(listed, nodes),
        Servers::Sentinel(sentinel) => sentinel::open(sentinel, nodes),
        Servers::Cluster(seeds) => cluster::open(seeds, nodes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_missed_primary_is_searched_less_often_with_jitter() {
        let secs = Duration::from_secs_f64;
        assert_eq!((pace(secs(0.0)), pace(secs(10.0))), (EAGERLY, EAGERLY));
        assert_eq!((pace(secs(11.0)), pace(secs(14.0))), (secs(0.35), SLOWEST));
        let intervals: Vec<_> = (0..100).map(|_| eager_interval(secs(1.0))).collect();
        assert!(intervals.iter().all(|interval| (EAGERLY * 3 / 4..=EAGERLY).contains(interval)));
        assert!(intervals.iter().any(|interval| *interval != intervals[0]));
    }
}
