//! Dying nodes and their replacements.

mod barriers;
mod cluster;
mod family;
mod fixed;
mod planned;
mod sentinel;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redgrid_core::Client;
use redgrid_locks::{AcquireError, Lock};
use redgrid_testkit::{RedisServer, wait_until};
use redgrid_tests::SOON;
use tokio::task::JoinHandle;

use self::barriers::*;
use self::cluster::*;
use self::family::*;
use self::fixed::*;
use self::planned::*;
use self::sentinel::*;
use crate::fixture::scenarios;

scenarios![
    sentinel_a_killed_primary_is_followed_and_held_locks_stay_held,
    sentinel_a_stopped_primary_is_left_and_gets_nothing_when_it_wakes,
    sentinel_a_primary_that_stops_together_with_a_sentinel_is_left_as_soon,
    sentinel_the_leader_of_an_election_does_not_lead_clients_back,
    sentinel_the_elected_replica_is_followed_before_it_is_announced,
    sentinel_a_planned_failover_causes_no_error,
    sentinel_no_name_stays_locked_by_a_planned_failover,
    sentinel_a_promoted_replica_is_followed_before_the_sentinels_name_it,
    sentinel_a_failover_without_promotion_delays_writes_briefly,
    sentinel_a_release_that_no_replica_received_is_retried,
    cluster_a_release_that_no_replica_received_is_retried,
    master_slave_a_release_that_no_replica_received_is_retried,
    sentinel_any_one_sentinel_is_enough,
    sentinel_a_waiter_is_woken_by_a_release_on_the_new_primary,
    sentinel_a_long_retry_delay_holds_up_no_failover,
    sentinel_reconfigured_sentinels_are_followed,
    sentinel_calls_wait_for_the_first_sentinel_to_start,
    sentinel_objects_around_a_lock_continue_at_the_new_primary,
    sentinel_barrier_waiters_continue_at_the_new_primary,
    cluster_barrier_waiters_continue_at_the_new_primary,
    sentinel_a_barrier_opening_that_a_failover_lost_is_announced_again,
    sentinel_all_kinds_of_locks_continue_at_the_new_primary,
    cluster_all_kinds_of_locks_continue_at_the_new_primary,
    cluster_a_killed_primary_is_followed_and_the_others_see_no_error,
    cluster_a_waiting_call_finds_the_promoted_replica_without_a_scan,
    cluster_a_call_to_a_hung_primary_finds_the_promoted_replica_without_a_scan,
    cluster_a_node_that_leaves_slots_out_of_its_map_ends_no_connection,
    cluster_a_planned_failover_causes_no_error,
    cluster_a_waiter_is_woken_by_a_release_on_the_new_primary,
    cluster_one_seed_that_lives_is_enough,
    master_slave_a_primary_that_became_a_replica_is_left,
    master_slave_a_client_that_ends_while_its_primary_is_dead_leaves_nothing_behind,
    single_a_client_that_ends_too_late_leaves_nothing_behind,
];

/// A lease that outlives a failover. A failover takes more than a minute with servers that get
/// little CPU time.
const LEASE: Duration = Duration::from_secs(300);

/// How long a failover and the steps after it may take.
const FAILOVER: Duration = Duration::from_secs(240);
const MS: Duration = Duration::from_millis(1);

/// Tasks that acquire and release locks of their own until the load ends, and their failures.
struct Load {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Vec<AcquireError>>>,
}

impl Load {
    fn on(client: &Client, names: impl IntoIterator<Item = String>) -> Load {
        let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let tasks = names.into_iter().map(|name| {
            let (lock, over, done) = (Lock::new(client, name), Arc::clone(&over), Arc::clone(&done));
            tokio::spawn(async move {
                let mut failures = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    match lock.acquire().timeout(SOON).await {
                        Ok(guard) => {
                            done.fetch_add(1, Ordering::Relaxed);
                            // The hold may be lost with its primary. The release reports that, and
                            // it is no failure.
                            let _ = guard.release().await;
                        }
                        Err(failure) => failures.push(failure),
                    }
                }
                failures
            })
        });
        let tasks = tasks.collect();
        Load { over, done, tasks }
    }

    /// Waits until `more` further locks have been acquired.
    async fn until_more(&self, more: u64) {
        let before = self.done.load(Ordering::Relaxed);
        wait_until(SOON, async || self.done.load(Ordering::Relaxed) >= before + more).await;
    }

    async fn end(mut self) -> Vec<AcquireError> {
        self.over.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        for task in std::mem::take(&mut self.tasks) {
            failures.extend(task.await.unwrap());
        }
        failures
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}:{n}")).collect()
}

/// Waits until a client listens for the release of a name at a server.
async fn listening(server: &RedisServer, name: &str) {
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let observer = server.observer().await.unwrap();
    let listens = async || {
        let plain = observer.pubsub_channels("*").await.unwrap();
        let sharded = observer.pubsub_shard_channels("*").await.unwrap_or_default();
        plain.contains(&channel) || sharded.contains(&channel)
    };
    wait_until(SOON, listens).await;
}
