//! Which server a name belongs to, one file per topology.

mod cluster;
mod lag;
mod listed;
mod map;
mod master_slave;
mod nowhere;
mod replicated;
mod sentinel;
mod single;
mod slots;
mod votes;

pub(super) use single::Single;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[cfg(unix)]
use super::endpoint::Endpoint;
use super::link::NodeRole;
use super::node::{Node, Nodes};
use super::slot::slot;
use super::{ConnectError, Server, Topology};
use crate::clock::Clock;
use crate::config::{Config, ReadMode, Servers, Settings, SubscriptionMode};
use crate::error::ServerError;

/// The longest pause between a doubt and the look it leads to: 50 ms. Many doubts at once lead to one look; a longer one would
/// hold up calls that a new primary would answer, whatever pause they make themselves.
const LONGEST_GAP: Duration = Duration::from_millis(50);

/// How often is looked who takes the place of a primary that does not answer: every 100 ms at first. Calls that wait for that one do
/// not doubt again meanwhile, and they can wait that long.
const EAGERLY: Duration = Duration::from_millis(100);

/// For how long it is looked for at that pace: 10 s. Who is to be replaced sooner was set so, and is; later each pause is a quarter
/// longer than the one before, as all clients of a deployment look at once.
const AT_FULL_PACE: Duration = Duration::from_secs(10);

/// The longest of those pauses, where `scan_interval` is longer: 1 s.
const SLOWEST: Duration = Duration::from_secs(1);

/// For how long it is looked for eagerly: 60 s. With the 15 or 30 s that a cluster or sentinels are given by default to miss a
/// primary, another one has taken its place by then, or there is none.
const EAGER_FOR: Duration = Duration::from_secs(60);

/// The pause before the next look for who takes the place of a primary that has been missed for so long: up to a quarter shorter
/// than its pace, so that those who have missed it together do not look together for ever.
fn eager_interval(missed_for: Duration) -> Duration {
    pace(missed_for).mul_f64(1.0 - fastrand::f64() / 4.0)
}

/// Pauses that grow by a quarter each are 100 ms and a quarter of the time that they have taken together.
fn pace(missed_for: Duration) -> Duration {
    (EAGERLY + missed_for.saturating_sub(AT_FULL_PACE) / 4).min(SLOWEST)
}

/// The pause between a doubt and the look it leads to.
fn gap(settings: &Settings) -> Duration {
    settings.retry_delay.min(LONGEST_GAP)
}

/// Who reads are asked of: the primary and those replicas that are fit, in touch with it and not behind, in turn, as far as the mode says; the primary where
/// nobody else is fit.
fn reader<'a>(
    mode: ReadMode,
    turn: &AtomicUsize,
    primary: &Arc<Node>,
    replicas: impl Iterator<Item = &'a Arc<Node>>,
) -> Arc<dyn Server> {
    if mode == ReadMode::Primary {
        return Arc::clone(primary) as Arc<dyn Server>;
    }
    let fit: Vec<_> = replicas.filter(|replica| replica.is_fit()).collect();
    let with_primary = usize::from(mode != ReadMode::Replica || fit.is_empty());
    let turn = turn.fetch_add(1, Ordering::Relaxed) % (fit.len() + with_primary);
    Arc::clone(fit.get(turn).copied().unwrap_or(primary)) as Arc<dyn Server>
}

/// Where waiters of `key` listen: the same replica for all who know the same ones, so that they are counted there and hear of a
/// release at the same time; the next one where it is not fit, and the primary where none is.
fn listener<'a>(
    mode: SubscriptionMode,
    key: &[u8],
    primary: &Arc<Node>,
    replicas: impl Iterator<Item = &'a Arc<Node>>,
) -> Arc<dyn Server> {
    if mode == SubscriptionMode::Primary {
        return Arc::clone(primary) as Arc<dyn Server>;
    }
    let mut known: Vec<_> = replicas.collect();
    known.sort_by_key(|replica| replica.id());
    let first = usize::from(slot(key)) % known.len().max(1);
    known.rotate_left(first);
    let fit = known.into_iter().find(|replica| replica.is_fit());
    Arc::clone(fit.unwrap_or(primary)) as Arc<dyn Server>
}

/// Begins to look for the servers of a configuration; nothing is waited for.
pub(super) fn open(config: &Config, clock: &Clock) -> Result<Arc<dyn Topology>, ConnectError> {
    let nodes = Nodes::new(config, clock)?;
    open_on(config, nodes).map_err(ConnectError::Client)
}

fn open_on(config: &Config, nodes: Nodes) -> Result<Arc<dyn Topology>, ServerError> {
    Ok(match &config.servers {
        Servers::Single(single) => {
            Arc::new(Single::new(nodes.open(&single.address, NodeRole::Any)? as Arc<dyn Server>))
        }
        #[cfg(unix)]
        Servers::Unix(socket) => {
            Arc::new(Single::new(nodes.open_at(Endpoint::Unix(socket.path.clone()), NodeRole::Any)? as Arc<dyn Server>))
        }
        #[cfg(not(unix))]
        Servers::Unix(_) => return Err(ServerError::not_sent("this system has no unix sockets")),
        Servers::MasterSlave(servers) => master_slave::open(servers, nodes)?,
        Servers::Replicated(servers) => listed::open(servers, nodes)?,
        Servers::Sentinel(sentinel) => sentinel::open(sentinel, nodes)?,
        Servers::Cluster(cluster) => cluster::open(cluster, nodes)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_missed_for_long_is_looked_for_less_often_and_not_by_all_at_once() {
        let secs = Duration::from_secs_f64;
        assert_eq!((pace(secs(0.0)), pace(secs(10.0))), (EAGERLY, EAGERLY));
        assert_eq!((pace(secs(11.0)), pace(secs(14.0))), (secs(0.35), SLOWEST));
        let intervals: Vec<_> = (0..100).map(|_| eager_interval(secs(1.0))).collect();
        assert!(intervals.iter().all(|interval| (EAGERLY * 3 / 4..=EAGERLY).contains(interval)));
        assert!(intervals.iter().any(|interval| *interval != intervals[0]));
    }
}
