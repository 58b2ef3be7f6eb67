//! Primaries monitored by sentinels.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redgrid_core::{Client, Config, Failure};
use redgrid_locks::{AcquireError, Lock};
use redgrid_testkit::{Proxy, Sentinels, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::stopwatch::Stopwatch;

use super::{FAILOVER, LEASE, Load, MS, listening, names};
use crate::fixture::{by_sentinels, connected, is_skipped_before_7, replicated};

pub(super) async fn sentinel_a_killed_primary_is_followed_and_held_locks_stay_held() {
    let sentinels = Sentinels::start().await.unwrap();
    // Sentinels may need a second election after 10 s. With nine retries, a call without a timeout
    // lasts longer.
    let client = connected(by_sentinels(&sentinels).retries(9)).await;
    let held = Lock::new(&client, "held").acquire().auto_renew(LEASE).await.unwrap();
    let load = Load::on(&client, names("load", 8));
    load.until_more(50).await;
    let former = sentinels.current_primary().await.unwrap();
    replicated(former, 2).await;
    let address = former.addr();
    former.kill().await.unwrap();
    sentinels.wait_for_primary_other_than(address).await.unwrap();
    let promoted = Stopwatch::start();
    let fresh = Lock::new(&client, "fresh").acquire().timeout(SOON).await.unwrap();
    promoted.assert_within(Duration::from_secs(5));
    load.until_more(50).await;
    let failures = load.end().await;
    assert!(
        failures.iter().all(|failure| matches!(failure, AcquireError::Failed(Failure::OutcomeUnknown { .. }))),
        "{failures:?}"
    );
    assert!(held.is_held());
    held.extend(LEASE).await.unwrap();
    fresh.release().await.unwrap();
    held.release().await.unwrap();
}

pub(super) async fn sentinel_a_stopped_primary_is_left_and_gets_nothing_when_it_wakes() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels)).await;
    let load = Load::on(&client, names("load", 8));
    load.until_more(50).await;
    let former = sentinels.current_primary().await.unwrap();
    let address = former.addr();
    former.pause().await.unwrap();
    sentinels.wait_for_primary_other_than(address).await.unwrap();
    load.until_more(50).await;
    former.resume().await.unwrap();
    // After it wakes, the server claims to be a primary until a sentinel demotes it.
    let ours = async || Some(former.clients().await.ok()?.iter().filter(|it| it.name.starts_with("redgrid")).count());
    let is_replica = async || {
        let info = async || former.observer().await?.query::<String>(&["INFO", "replication"]).await;
        info().await.is_ok_and(|info| info.contains("role:slave")) && ours().await == Some(0)
    };
    wait_until(SOON, is_replica).await;
    load.until_more(50).await;
    load.end().await;
    assert_eq!(ours().await, Some(0));
}

pub(super) async fn sentinel_a_primary_that_stops_together_with_a_sentinel_is_left_as_soon() {
    let sentinels = Sentinels::start().await.unwrap();
    // A client that waited for the stopped sentinel would wait for this long.
    let patience = 2 * SOON;
    let client = connected(by_sentinels(&sentinels).response_timeout(patience).connect_timeout(patience)).await;
    let former = sentinels.current_primary().await.unwrap();
    sentinels.sentinels()[0].pause().await.unwrap();
    former.pause().await.unwrap();
    let left = async || {
        let sentinel = sentinels.sentinels()[1].observer().await.unwrap();
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels.master_name()];
        sentinel.query::<(String, u16)>(&ask).await.unwrap().1 != former.addr().port()
    };
    wait_until(FAILOVER, left).await;
    Lock::new(&client, "fresh").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
}

pub(super) async fn sentinel_the_leader_of_an_election_does_not_lead_clients_back() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels).scan_interval(50 * MS)).await;
    let former = sentinels.current_primary().await.unwrap();
    // This replica does not replace the primary, and ignores the order to follow another. Until the
    // leader of the election gives up on it, `SENTINEL MASTER` at the leader counts the election
    // but names the former primary.
    let stubborn = sentinels.servers().iter().find(|server| server.addr() != former.addr()).unwrap();
    stubborn.set_config("replica-priority", "0").await.unwrap();
    for sentinel in sentinels.sentinels() {
        let is_known =
            |facts: &HashMap<String, String>| facts.get("slave-priority").is_some_and(|priority| priority == "0");
        let (observer, ask) = (sentinel.observer().await.unwrap(), ["SENTINEL", "REPLICAS", sentinels.master_name()]);
        wait_until(SOON, async || {
            observer.query::<Vec<HashMap<String, String>>>(&ask).await.unwrap().iter().any(is_known)
        })
        .await;
    }
    stubborn.deny(&["slaveof", "replicaof"]).await.unwrap();
    former.kill().await.unwrap();
    let primary = || client.topology().shards.first().map(|shard| shard.primary.0.to_string());
    let led_by_former = Some(former.addr().to_string());
    wait_until(SOON, async || primary().is_some_and(|primary| Some(primary) != led_by_former)).await;
    former.restart_empty().await.unwrap();
    let mut seen = 0;
    loop {
        let mut named = Vec::new();
        for sentinel in sentinels.sentinels() {
            let observer = sentinel.observer().await.unwrap();
            let ask = ["SENTINEL", "MASTER", sentinels.master_name()];
            let facts: HashMap<String, String> = observer.query(&ask).await.unwrap();
            named.push((facts["config-epoch"].clone(), facts["port"].clone()));
        }
        assert!(primary() != led_by_former, "{named:?}");
        // Before the election is counted, all sentinels name the former primary. The client has
        // already moved to the primary that they have chosen.
        if named.windows(2).all(|two| two[0] == two[1]) && named[0].1 != former.addr().port().to_string() {
            break;
        }
        seen += named.windows(2).filter(|two| two[0].0 == two[1].0 && two[0].1 != two[1].1).count();
        Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    }
    assert!(seen > 0, "no sentinel named another primary than the others for the same election");
}

pub(super) async fn sentinel_the_elected_replica_is_followed_before_it_is_announced() {
    let scenario = "sentinel_the_elected_replica_is_followed_before_it_is_announced";
    if is_skipped_before_7(scenario, "a sentinel's periods can not be set") {
        return;
    }
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels)).await;
    let former = sentinels.current_primary().await.unwrap();
    // From here on no sentinel learns the state of its replicas. It chooses a replica by its last
    // state, which may be five such periods old. It has that replica promoted, and does not see the
    // promotion.
    for sentinel in sentinels.sentinels() {
        sentinel.observer().await.unwrap().cmd(&["SENTINEL", "DEBUG", "ping-period", "20000"]).await.unwrap();
    }
    for replica in sentinels.servers().iter().filter(|server| server.addr() != former.addr()) {
        replica.deny(&["info"]).await.unwrap();
    }
    former.kill().await.unwrap();
    Lock::new(&client, "fresh").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    for sentinel in sentinels.sentinels() {
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels.master_name()];
        let named: (String, u16) = sentinel.observer().await.unwrap().query(&ask).await.unwrap();
        assert_eq!(named.1, former.addr().port());
    }
}

pub(super) async fn sentinel_a_planned_failover_causes_no_error() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels)).await;
    let held = Lock::new(&client, "held").acquire().auto_renew(LEASE).await.unwrap();
    let load = Load::on(&client, names("load", 8));
    load.until_more(50).await;
    replicated(sentinels.current_primary().await.unwrap(), 2).await;
    sentinels.fail_over().await.unwrap();
    load.until_more(50).await;
    let failures = load.end().await;
    assert!(failures.is_empty(), "{failures:?}");
    held.release().await.unwrap();
}

pub(super) async fn sentinel_any_one_sentinel_is_enough() {
    let sentinels = Sentinels::start().await.unwrap();
    for last in 0..3 {
        let client = connected(by_sentinels(&sentinels)).await;
        for (n, sentinel) in sentinels.sentinels().iter().enumerate() {
            if n != last {
                sentinel.kill().await.unwrap();
            }
        }
        let lock = Lock::new(&client, "a");
        for _ in 0..10 {
            lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
        }
        let late = connected(by_sentinels(&sentinels)).await;
        Lock::new(&late, "a").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
        for (n, sentinel) in sentinels.sentinels().iter().enumerate() {
            if n != last {
                sentinel.restart_empty().await.unwrap();
            }
        }
        sentinels.wait_until_ok().await.unwrap();
    }
}

pub(super) async fn sentinel_a_waiter_is_woken_by_a_release_on_the_new_primary() {
    let sentinels = Sentinels::start().await.unwrap();
    let config = by_sentinels(&sentinels).watchdog_lease(LEASE).poll_interval(12 * LEASE);
    let (one, two) = (connected(config.clone()).await, connected(config).await);
    let held = Lock::new(&one, "a").acquire().await.unwrap();
    let waiter = tokio::spawn(Lock::new(&two, "a").acquire().timeout(FAILOVER).into_future());
    let former = sentinels.current_primary().await.unwrap();
    listening(former, "a").await;
    replicated(former, 2).await;
    let address = former.addr();
    former.kill().await.unwrap();
    let primary = sentinels.wait_for_primary_other_than(address).await.unwrap();
    listening(primary, "a").await;
    assert!(held.is_held() && !waiter.is_finished());
    held.release().await.unwrap();
    // The next poll is an hour away.
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

pub(super) async fn sentinel_calls_wait_for_the_first_sentinel_to_start() {
    let sentinels = Sentinels::start().await.unwrap();
    for sentinel in sentinels.sentinels() {
        sentinel.kill().await.unwrap();
    }
    let client = Client::connect(by_sentinels(&sentinels)).await.unwrap();
    let not_ready = client.wait_ready(200 * MS).await.unwrap_err();
    let source = std::error::Error::source(&not_ready).unwrap().to_string();
    assert!(source.contains("sentinel") && source.contains("mymaster"), "{source}");
    let waiting = tokio::spawn(Lock::new(&client, "a").acquire().timeout(SOON).into_future());
    sentinels.sentinels()[1].restart_empty().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// A long retry delay does not delay a failover. During the pause between two attempts of a call,
/// the client must query the sentinels and process their messages.
pub(super) async fn sentinel_a_long_retry_delay_holds_up_no_failover() {
    let pause = Duration::from_secs(15);
    let sentinels = Sentinels::start().await.unwrap();
    let client = connected(by_sentinels(&sentinels).retry_delay(pause)).await;
    let (lock, stop) = (Lock::new(&client, "doubting"), Arc::new(AtomicBool::new(false)));
    let doubting = tokio::spawn({
        let stop = stop.clone();
        async move {
            while !stop.load(Ordering::Relaxed) {
                // The result does not matter: the call only keeps the client in a retry pause
                // during the failover.
                let _ = tokio::time::timeout(100 * MS, lock.try_acquire().into_future()).await;
            }
        }
    });
    sentinels.fail_over().await.unwrap();
    let began = Stopwatch::start();
    let guard = Lock::new(&client, "a").acquire().timeout(4 * pause).await.unwrap();
    began.assert_within(pause / 2);
    stop.store(true, Ordering::Relaxed);
    doubting.await.unwrap();
    guard.release().await.unwrap();
}

/// Sentinels with another configuration are followed. The former sentinels, whose addresses do not
/// answer any more, must not count as voters for ever.
pub(super) async fn sentinel_reconfigured_sentinels_are_followed() {
    let (former, next) = tokio::join!(Sentinels::start(), Sentinels::start());
    let (former, next) = (former.unwrap(), next.unwrap());
    let name = Proxy::to(&former.sentinels()[0]).await.unwrap();
    let config = Config::sentinel(former.master_name(), [name.addr().to_string()]).unwrap();
    let client = connected(config.scan_interval(100 * MS)).await;
    // This election is later than any that the new sentinels know of. The client then knows the
    // other sentinels.
    former.fail_over().await.unwrap();
    Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    for sentinel in &former.sentinels()[1..] {
        let ours = async || sentinel.clients().await.unwrap().iter().any(|client| client.name == "redgrid");
        wait_until(SOON, ours).await;
    }
    name.redirect(next.sentinels()[0].addr());
    for server in former.sentinels().iter().chain(former.servers()) {
        server.kill().await.unwrap();
    }
    let guard = Lock::new(&client, "a").acquire().timeout(3 * SOON).await.unwrap();
    let primary = next.current_primary().await.unwrap();
    assert!(primary.observer().await.unwrap().exists("a").await.unwrap());
    guard.release().await.unwrap();
}
