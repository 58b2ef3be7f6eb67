//! The topology of one primary that may be replaced, and its replicas. The modules `sentinel`,
//! `master_slave` and `listed` determine the primary.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::lag::{self, Copies};
use super::unknown_primary::UnknownPrimary;
use super::{EAGER_FOR, close, eager_interval, gap, listener, reader, shard};
use crate::config::Address;
use crate::connection::link::NodeRole;
use crate::connection::node::{Node, Nodes};
use crate::connection::trouble::Trouble;
use crate::connection::{DeploymentKind, Server, ShardServers, Topology, TopologyHint};
use crate::sync::Mutex;

/// The longest suspension of requests while another server is promoted: 1.5 s.
///
/// A sentinel promotes a replica within 0.1 s after choosing it, and a new connection takes about
/// as long. A failover that takes longer than the suspension may have been given up.
const HELD_BACK: Duration = Duration::from_millis(1500);

pub(super) struct Replicated {
    kind: DeploymentKind,
    nodes: Nodes,
    unknown_primary: Arc<UnknownPrimary>,
    members: RwLock<Members>,
    /// Notified when the primary may have been replaced.
    pub(super) doubts: Notify,
    changes: watch::Sender<u64>,
    next_reader: AtomicUsize,
    tasks: Mutex<JoinSet<()>>,
    closed: AtomicBool,
}

#[derive(Default)]
struct Members {
    primary: Option<Arc<Node>>,
    replicas: Vec<Arc<Node>>,
    sentinels: Vec<Arc<Node>>,
    /// Why no node currently reports the primary.
    trouble: Option<String>,
    missed_since: Option<Instant>,
    replicas_checked: Option<Instant>,
}

impl Replicated {
    /// Creates the topology without a known primary; errors give `why` as the reason.
    pub(super) fn new(kind: DeploymentKind, nodes: Nodes, why: &'static str) -> Arc<Self> {
        Arc::new(Replicated {
            kind,
            nodes,
            unknown_primary: Arc::new(UnknownPrimary::new(why)),
            members: RwLock::default(),
            doubts: Notify::new(),
            changes: watch::Sender::new(0),
            next_reader: AtomicUsize::new(0),
            tasks: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Starts to exclude lagging replicas, if the client reads from replicas or subscribes at them.
    pub(super) fn compare_replicas(self: &Arc<Self>) {
        if self.nodes.settings.uses_replicas() {
            let (replicated, changes) = (Arc::clone(self), self.changes.clone());
            let copies = move || replicated.copies();
            self.watched_by(lag::watch(self.nodes.clone(), copies, changes));
        }
    }

    fn copies(&self) -> Vec<Copies> {
        let members = self.members();
        let copies = |primary: &Arc<Node>| Copies { primary: Arc::clone(primary), replicas: members.replicas.clone() };
        members.primary.iter().map(copies).collect()
    }

    /// Spawns a task that is aborted when the topology is closed.
    pub(super) fn watched_by(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().spawn(task);
    }

    pub(super) fn set_sentinels(&self, sentinels: Vec<Arc<Node>>) {
        let mut members = self.change_members();
        // The flag `closed` is checked while the members are locked. `close` sets the flag before
        // it locks the members, so no sentinel is stored after `close`.
        members.sentinels = if self.closed.load(Ordering::Acquire) { Vec::new() } else { sentinels };
    }

    /// Sets why no node reports the primary, and whether waiting can help. If a primary is already
    /// known, it stays in use.
    pub(super) fn unknown_because(&self, trouble: Trouble) {
        self.change_members().trouble = Some(trouble.message.clone());
        self.unknown_primary.because(trouble);
    }

    pub(super) fn clear_trouble(&self) {
        self.change_members().trouble = None;
    }

    pub(super) fn primary_address(&self) -> Option<Address> {
        self.members().primary.as_ref().and_then(|primary| primary.address().cloned())
    }

    /// Opens a node that is a primary or is about to become one.
    pub(super) fn open(&self, address: &Address) -> Arc<Node> {
        self.nodes.open(address, NodeRole::Primary)
    }

    /// Returns for how long the primary has been silent, measured from the first call of this
    /// method that found it silent. Returns `None` if the primary answers or is unknown.
    pub(super) fn missed_for(&self) -> Option<Duration> {
        let mut members = self.change_members();
        let is_missed = members.primary.as_ref().is_some_and(|node| !node.answers());
        members.missed_since = is_missed.then(|| members.missed_since.unwrap_or_else(Instant::now));
        members.missed_since.map(|since| since.elapsed())
    }

    /// Waits until the primary must be determined again: after an interval, or after a hint.
    ///
    /// The interval is short while the primary is unknown or does not answer.
    pub(super) async fn next_refresh(&self, is_unknown: bool) {
        let settings = &self.nodes.settings;
        let interval = match self.missed_for() {
            _ if is_unknown || self.primary_address().is_none() => settings.retry_delay,
            Some(missed_for) if missed_for < EAGER_FOR => eager_interval(missed_for),
            _ => settings.scan_interval,
        };
        tokio::select! {
            () = self.doubts.notified() => tokio::time::sleep(gap(settings)).await,
            () = tokio::time::sleep(interval.min(settings.scan_interval)) => {}
        }
    }

    /// Suspends requests to the primary for a moment, at most [`HELD_BACK`].
    ///
    /// Writes that the primary acknowledges now would be lost once the promoted server replaces it.
    /// During the suspension, callers wait as if no primary were known.
    pub(super) fn hold_back(&self) {
        let Some(node) = self.members().primary.clone() else { return };
        if node.hold_back(true) {
            return;
        }
        let changes = self.changes.clone();
        tokio::spawn(async move {
            tokio::time::sleep(HELD_BACK).await;
            go_on(&node, &changes);
        });
    }

    /// Resumes requests to the primary, because it is not being replaced.
    pub(super) fn go_on(&self) {
        if let Some(node) = &self.members().primary {
            go_on(node, &self.changes);
        }
    }

    /// Sets the primary. Closes the connections to the former primary, so that it receives no
    /// further writes.
    ///
    /// `opened` is the node of the new primary, if it is open already.
    pub(super) fn set_primary(&self, address: Address, opened: Option<Arc<Node>>) {
        let mut members = self.change_members();
        // The flag `closed` is checked while the members are locked. `close` sets the flag before
        // it locks the members, so `close` also closes a node that is opened here.
        if members.primary.as_ref().is_some_and(|known| known.is_at(&address)) || self.closed.load(Ordering::Acquire) {
            return;
        }
        let node = opened.unwrap_or_else(|| self.open(&address));
        tracing::info!(%address, "primary");
        // If the new primary was a replica, the node that was opened for the replica is closed: two
        // nodes at one address would be confused with each other.
        let (promoted, replicas): (Vec<_>, Vec<_>) =
            std::mem::take(&mut members.replicas).into_iter().partition(|replica| replica.is_at(&address));
        (members.replicas, members.missed_since) = (replicas, None);
        let former = members.primary.replace(node);
        drop(members);
        close(former.into_iter().chain(promoted).collect());
        self.changes.send_modify(|count| *count += 1);
    }

    /// Sets the replicas.
    ///
    /// Replicas in `doubted` were reported as down by a sentinel, or failed to answer. These
    /// replicas stay in use while they are connected, because the next query may have another
    /// result. If the client uses replicas neither for reads nor for subscriptions, this method
    /// does nothing.
    pub(super) fn set_replicas(&self, addresses: &[Address], doubted: &[Address]) {
        let mut members = self.change_members();
        if !self.nodes.settings.uses_replicas() || self.closed.load(Ordering::Acquire) {
            return;
        }
        let stays = |known: &Arc<Node>| {
            let is_in = |addresses: &[Address]| addresses.iter().any(|address| known.is_at(address));
            is_in(addresses) || is_in(doubted) && known.connection_id().borrow().is_some()
        };
        let (stay, leave): (Vec<_>, Vec<_>) = std::mem::take(&mut members.replicas).into_iter().partition(stays);
        members.replicas = stay;
        let mut changed = !leave.is_empty();
        // A server with outdated information may report the new primary as a replica. That address
        // is skipped here, because two nodes at one address would be confused with each other.
        for address in addresses {
            if !members.replicas.iter().chain(&members.primary).any(|known| known.is_at(address)) {
                members.replicas.push(self.nodes.open(address, NodeRole::Replica));
                changed = true;
            }
        }
        drop(members);
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
        close(leave);
    }

    /// Schedules a check of each replica. Replicas that have lost their primary or are still
    /// loading their data are then excluded from reads.
    pub(super) fn check_replicas(&self) {
        self.members().replicas.iter().for_each(|replica| replica.schedule_check());
    }

    /// Calls [`Replicated::check_replicas`], but at most once per `scan_interval`.
    pub(super) fn check_replicas_at_intervals(&self) {
        let mut members = self.change_members();
        if members.replicas_checked.is_none_or(|at| at.elapsed() >= self.nodes.settings.scan_interval) {
            members.replicas_checked = Some(Instant::now());
            drop(members);
            self.check_replicas();
        }
    }

    fn members(&self) -> RwLockReadGuard<'_, Members> {
        self.members.read().unwrap_or_else(|p| p.into_inner())
    }

    fn change_members(&self) -> RwLockWriteGuard<'_, Members> {
        self.members.write().unwrap_or_else(|p| p.into_inner())
    }

    fn choose(&self, choose: impl Fn(&Arc<Node>, &[Arc<Node>]) -> Arc<dyn Server>) -> Arc<dyn Server> {
        let members = self.members();
        match &members.primary {
            Some(primary) => choose(primary, &members.replicas),
            None => Arc::clone(&self.unknown_primary) as Arc<dyn Server>,
        }
    }
}

/// Ends the suspension that [`Replicated::hold_back`] began. Waiting callers retry at once.
fn go_on(node: &Node, changes: &watch::Sender<u64>) {
    if node.hold_back(false) {
        changes.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl Topology for Replicated {
    fn primary(&self, _key: &[u8]) -> Arc<dyn Server> {
        self.choose(|primary, _| Arc::clone(primary) as Arc<dyn Server>)
    }

    fn primaries(&self) -> Vec<Arc<dyn Server>> {
        vec![self.primary(b"")]
    }

    fn kind(&self) -> DeploymentKind {
        self.kind
    }

    fn shards(&self) -> Vec<ShardServers> {
        let members = self.members();
        members.primary.iter().map(|primary| shard(primary, Vec::new(), &members.replicas)).collect()
    }

    fn sentinels(&self) -> Vec<Arc<dyn Server>> {
        self.members().sentinels.iter().map(|sentinel| Arc::clone(sentinel) as Arc<dyn Server>).collect()
    }

    fn reader(&self, _key: &[u8]) -> Arc<dyn Server> {
        self.choose(|primary, replicas| reader(self.nodes.settings.read_mode, &self.next_reader, primary, replicas))
    }

    fn listener(&self, key: &[u8]) -> Arc<dyn Server> {
        self.choose(|primary, replicas| listener(self.nodes.settings.subscription_mode, key, primary, replicas))
    }

    fn suspect(&self, doubt: TopologyHint) {
        // If the configuration names the primary, only the primary itself is queried for its role.
        // A silent primary would not reply, so a hint that a server is silent is ignored.
        if matches!((self.kind, doubt), (DeploymentKind::MasterSlave, TopologyHint::Silent(_))) {
            return;
        }
        self.doubts.notify_one();
    }

    fn trouble(&self) -> Option<String> {
        self.members().trouble.clone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.tasks.lock().abort_all();
        let members = std::mem::take(&mut *self.change_members());
        join_all(members.primary.iter().chain(&members.replicas).map(|node| node.close())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::config::{Config, ReadMode};

    fn addresses(ports: &[u16]) -> Vec<Address> {
        ports.iter().map(|port| Address::new("127.0.0.1", *port)).collect()
    }

    /// Returns a topology with addresses at which nothing listens.
    fn replicated() -> Arc<Replicated> {
        let config = Config::sentinel("primary", ["127.0.0.1:1"]).unwrap().read_mode(ReadMode::Replica);
        let nodes = Nodes::new(&config, &Clock::runtime()).unwrap();
        Replicated::new(DeploymentKind::Sentinel, nodes, "no sentinel was queried yet")
    }

    fn replicas(of: &Replicated) -> Vec<Address> {
        of.members().replicas.iter().filter_map(|replica| replica.address().cloned()).collect()
    }

    #[tokio::test]
    async fn a_promoted_node_is_no_replica_although_it_is_listed_as_one() {
        let replicated = replicated();
        replicated.set_primary(addresses(&[1])[0].clone(), None);
        replicated.set_replicas(&addresses(&[2, 3]), &[]);
        replicated.set_primary(addresses(&[2])[0].clone(), None);
        replicated.set_replicas(&addresses(&[2, 3]), &[]);
        assert_eq!(replicas(&replicated), addresses(&[3]));
        replicated.close().await;
    }

    #[tokio::test]
    async fn a_node_reported_down_and_not_connected_is_no_replica() {
        let replicated = replicated();
        replicated.set_replicas(&addresses(&[2, 3]), &[]);
        replicated.set_replicas(&addresses(&[2]), &addresses(&[3, 4]));
        assert_eq!(replicas(&replicated), addresses(&[2]));
        replicated.close().await;
    }
}
