//! All kinds of holds, and objects around them, after a failover.

use redgrid_core::Client;
use redgrid_locks::{
    Election, FairLock, Fence, FenceError, FencedLock, Lock, LockGuard, MultiGuard, MultiLock, ReadGuard, RwLock,
};
use redgrid_semaphore::{Permit, Semaphore};
use redgrid_testkit::{Cluster, Observer, Sentinels, wait_until};
use redgrid_tests::{NOTHING, SOON};
use tokio::task::JoinHandle;

use super::{FAILOVER, LEASE};
use crate::fixture::{by_seeds, by_sentinels, connected, replicated};

/// A detached hold, a fence and the leader of an election with an observer survive a failover.
pub(super) async fn sentinel_objects_around_a_lock_continue_at_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let lease = LEASE;
    let one = connected(by_sentinels(&sentinels).watchdog_lease(lease)).await;
    let two = connected(by_sentinels(&sentinels).watchdog_lease(lease)).await;
    let early = Lock::new(&one, "fenced").acquire().await.unwrap();
    let stale = early.token();
    early.release().await.unwrap();
    let late = Lock::new(&two, "fenced").acquire().timeout(SOON).await.unwrap();
    Fence::new(&two, "{fenced}").set("{fenced}:value", "new", late.token()).await.unwrap();
    let leadership = Election::new(&one, "elected").campaign().proclaim("one").await.unwrap();
    let mut changes = Election::new(&two, "elected").observe();
    assert_eq!(changes.next().await.unwrap().map(|leader| leader.term), Some(leadership.term()));
    let detached = Lock::new(&one, "handed on").acquire().await.unwrap().detach().await.unwrap();
    let former = sentinels.current_primary().await.unwrap();
    replicated(former, 2).await;
    let address = former.addr();
    former.kill().await.unwrap();
    sentinels.wait_for_primary_other_than(address).await.unwrap();

    let guard = Lock::new(&two, "handed on").attach(&detached).await.unwrap();
    assert_eq!(guard.token(), detached.token());
    guard.release().await.unwrap();
    let refused = Fence::new(&one, "{fenced}").set("{fenced}:value", "old", stale).await;
    assert!(matches!(refused, Err(FenceError::Stale { .. })), "{refused:?}");
    assert!(leadership.is_leader());
    assert_eq!(
        Election::new(&two, "elected").leader().await.unwrap().map(|leader| leader.id_text()),
        Some("one".into())
    );
    leadership.resign().await.unwrap();
    let change = tokio::time::timeout(SOON, changes.next()).await.expect("a change is seen");
    assert_eq!(change.unwrap(), None);
    late.release().await.unwrap();
}

/// One hold of each kind, owned by one of two clients, with tasks that wait for it. All keys are in
/// one slot.
struct Family {
    fair: LockGuard,
    fenced: LockGuard,
    several: MultiGuard,
    reads: [ReadGuard; 2],
    waiting: Vec<JoinHandle<()>>,
    writer: JoinHandle<()>,
    permit: Permit,
    permits: JoinHandle<()>,
}

impl Family {
    async fn of(clients: &[Client; 2], observer: &Observer) -> Family {
        let [one, two] = clients;
        let fair = FairLock::new(one, "{tag}:fair").acquire().await.unwrap();
        let mut waiting = Vec::new();
        for n in 0..4 {
            let lock = FairLock::new(&clients[n % 2], "{tag}:fair");
            waiting.push(tokio::spawn(async move {
                lock.acquire().timeout(FAILOVER).await.unwrap().release().await.unwrap();
            }));
            let queue = ["LLEN", "redisson_lock_queue:{tag}:fair"];
            wait_until(SOON, async || observer.query::<usize>(&queue).await.unwrap() == n + 1).await;
        }
        let fenced = FencedLock::new(one, "{tag}:fenced").acquire().await.unwrap();
        let several = MultiLock::new(two, ["{tag}:1", "{tag}:2"]).acquire().await.unwrap();
        let reads =
            [RwLock::new(one, "{tag}:rw").read().await.unwrap(), RwLock::new(two, "{tag}:rw").read().await.unwrap()];
        let lock = RwLock::new(one, "{tag}:rw");
        let writer =
            tokio::spawn(async move { lock.write().timeout(FAILOVER).await.unwrap().release().await.unwrap() });
        wait_until(SOON, async || observer.exists("redgrid_rw_wait:{tag}:rw").await.unwrap()).await;
        let permit = Semaphore::new(one, "{tag}:permits", 3).acquire().await.unwrap();
        let theirs = Semaphore::new(two, "{tag}:permits", 3);
        let permits = tokio::spawn(async move {
            theirs.acquire_many(3).timeout(FAILOVER).await.unwrap().release().await.unwrap();
        });
        wait_until(SOON, async || two.stats().waiting > 0 && observer.exists("{tag}:permits").await.unwrap()).await;
        Family { fair, fenced, several, reads, waiting, writer, permit, permits }
    }

    /// Checks that all holds are still valid, that no other task has acquired a lock, and that all
    /// waiters acquire their locks in the end.
    async fn goes_on(self, clients: &[Client; 2]) {
        let [one, two] = clients;
        let held = [&self.fair, &self.fenced].iter().all(|guard| guard.is_held());
        assert!(held && self.several.is_held() && self.reads.iter().all(ReadGuard::is_held) && self.permit.is_held());
        assert!(FairLock::new(two, "{tag}:fair").try_acquire().await.unwrap().is_none());
        assert!(RwLock::new(two, "{tag}:rw").try_write().await.unwrap().is_none());
        assert!(Lock::new(one, "{tag}:2").try_acquire().await.unwrap().is_none());
        let waiting = || self.waiting.iter().chain([&self.writer, &self.permits]);
        assert!(waiting().all(|waiting| !waiting.is_finished()));
        let token = self.fenced.token();
        self.fair.release().await.unwrap();
        self.fenced.release().await.unwrap();
        self.several.release().await.unwrap();
        for read in self.reads {
            read.release().await.unwrap();
        }
        self.permit.release().await.unwrap();
        for waiting in self.waiting.into_iter().chain([self.writer, self.permits]) {
            waiting.await.unwrap();
        }
        let next = FencedLock::new(two, "{tag}:fenced").acquire().timeout(SOON).await.unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
        wait_until(SOON, async || clients.iter().all(|client| client.stats() == NOTHING)).await;
    }
}

pub(super) async fn sentinel_all_kinds_of_locks_continue_at_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let config = by_sentinels(&sentinels).watchdog_lease(LEASE);
    let clients = [connected(config.clone()).await, connected(config).await];
    let former = sentinels.current_primary().await.unwrap();
    let family = Family::of(&clients, &former.observer().await.unwrap()).await;
    replicated(former, 2).await;
    let address = former.addr();
    former.kill().await.unwrap();
    sentinels.wait_for_primary_other_than(address).await.unwrap();
    family.goes_on(&clients).await;
}

pub(super) async fn cluster_all_kinds_of_locks_continue_at_the_new_primary() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let config = by_seeds(&cluster).watchdog_lease(LEASE);
    let clients = [connected(config.clone()).await, connected(config).await];
    let slot = cluster.slot_of("{tag}").await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    let family = Family::of(&clients, &former.observer().await.unwrap()).await;
    replicated(former, 1).await;
    former.kill().await.unwrap();
    let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former.addr());
    wait_until(FAILOVER, moved).await;
    family.goes_on(&clients).await;
}
