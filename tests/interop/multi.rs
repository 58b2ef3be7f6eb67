//! Multi-locks of either side.

use std::time::Duration;

use redgrid_core::Client;
use redgrid_locks::{Lock, LostReason, MultiLock};
use redgrid_tests::SOON;

use crate::fixture::{Fixture, assert_entered_at, at_once, scenarios};

scenarios![
    rust_enters_when_javas_multi_lock_is_released,
    javas_multi_lock_is_kept_out_and_enters_after_rust,
    rust_waits_for_one_java_and_holds_none_meanwhile,
    javas_multi_lock_that_gives_up_blocks_no_caller,
    opposite_orders_on_both_sides_lose_no_update,
    rust_enters_after_the_death_of_javas_multi_lock,
    a_waiting_java_is_woken_by_our_release_of_many,
    a_name_that_java_forces_open_is_reported,
];

fn names(on: &Fixture) -> [String; 2] {
    ["x", "y"].map(|name| format!("{}:{name}", on.name))
}

async fn listening(on: &Fixture, name: &str) {
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let subscribed = async || on.observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", &channel]).await.unwrap().1 > 0;
    redgrid_testkit::wait_until(SOON, subscribed).await;
}

async fn rust_enters_when_javas_multi_lock_is_released(on: Fixture) {
    let (mut java, names) = (on.java(), names(&on));
    let lock = MultiLock::new(&on.client().await, &names);
    java.verb("multi.lock", &names.join(",")).await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    listening(&on, &names[0]).await;
    let guard = at_once(async {
        java.verb("multi.unlock", &names.join(",")).await.unwrap();
        waiter.await.unwrap().unwrap()
    })
    .await;
    assert!(!java.try_lock(&names[0], Duration::ZERO).await);
    assert!(!java.try_lock(&names[1], Duration::ZERO).await);
    guard.release().await.unwrap();
}

async fn javas_multi_lock_is_kept_out_and_enters_after_rust(on: Fixture) {
    let (mut java, names) = (on.java(), names(&on));
    let lock = MultiLock::new(&on.client().await, &names);
    let guard = lock.acquire().await.unwrap();
    assert_eq!(java.try_verb("multi.tryLock", &names.join(","), Duration::from_millis(100)).await, "false");
    java.begin_verb("multi.lock", &names.join(",")).await;
    listening(&on, &names[0]).await;
    at_once(async {
        guard.release().await.unwrap();
        java.entered().await;
    })
    .await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    java.verb("multi.unlock", &names.join(",")).await.unwrap();
    lock.try_acquire().await.unwrap().expect("both are free").release().await.unwrap();
}

async fn rust_waits_for_one_java_and_holds_none_meanwhile(on: Fixture) {
    let (mut java, mut other, names) = (on.java(), on.java(), names(&on));
    java.lock(&names[1]).await;
    let waiter = tokio::spawn(MultiLock::new(&on.client().await, &names).acquire().timeout(SOON).into_future());
    listening(&on, &names[1]).await;
    assert!(other.try_lock(&names[0], Duration::ZERO).await);
    assert!(other.unlock(&names[0]).await);
    let guard = at_once(async {
        assert!(java.unlock(&names[1]).await);
        waiter.await.unwrap().unwrap()
    })
    .await;
    assert!(!java.try_lock(&names[0], Duration::ZERO).await);
    guard.release().await.unwrap();
}

async fn javas_multi_lock_that_gives_up_blocks_no_caller(on: Fixture) {
    let (mut java, names) = (on.java(), names(&on));
    let client = on.client().await;
    let in_the_way = Lock::new(&client, &names[1]).acquire().await.unwrap();
    // Java holds the first lock while it waits for the second, and releases it when its time is
    // over.
    assert_eq!(java.try_verb("multi.tryLock", &names.join(","), Duration::from_millis(300)).await, "false");
    let first = at_once(Lock::new(&client, &names[0]).acquire().timeout(SOON).into_future()).await.unwrap();
    first.release().await.unwrap();
    in_the_way.release().await.unwrap();
    let both = MultiLock::new(&client, &names).try_acquire().await.unwrap().expect("both are free");
    both.release().await.unwrap();
}

async fn opposite_orders_on_both_sides_lose_no_update(on: Fixture) {
    let (mut java, names, client) = (on.java(), names(&on), on.client().await);
    let counter = format!("{}:counter", on.name);
    java.begin_count_under("multi.count", &format!("{},{}", names[1], names[0]), &counter, 15).await;
    let lock = MultiLock::new(&client, &names);
    for _ in 0..15 {
        let guard = lock.acquire().timeout(SOON * 2).await.unwrap();
        let value = read(&client, &counter).await;
        client.command("SET").key(&counter).unwrap().arg((value + 1).to_string()).query::<()>().await.unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(java.done().await.unwrap(), "15");
    assert_eq!(read(&client, &counter).await, 30);
}

async fn read(client: &Client, counter: &str) -> i64 {
    client.command("GET").key(counter).unwrap().query::<Option<i64>>().await.unwrap().unwrap_or(0)
}

async fn rust_enters_after_the_death_of_javas_multi_lock(on: Fixture) {
    let redisson = on.own_redisson(Duration::from_secs(2)).await;
    let names = names(&on);
    redisson.actor().verb("multi.lock", &names.join(",")).await.unwrap();
    let waiter = tokio::spawn(MultiLock::new(&on.client().await, &names).acquire().timeout(SOON).into_future());
    listening(&on, &names[0]).await;
    redisson.kill().await;
    // The clock is read first, so that the time between the two requests is not added to the end.
    let now = on.server_time().await;
    let left = on.observer.time_to_live(&names[1]).await.unwrap().expect("it is held");
    let end = now + u64::try_from(left.as_micros()).unwrap();
    let guard = waiter.await.unwrap().unwrap();
    assert_entered_at(end, guard.tokens().map(|(_, token)| token.get()).max().unwrap());
    guard.release().await.unwrap();
}

async fn a_waiting_java_is_woken_by_our_release_of_many(on: Fixture) {
    let (mut java, names) = (on.java(), names(&on));
    let guard = MultiLock::new(&on.client().await, &names).acquire().await.unwrap();
    java.begin_lock(&names[1]).await;
    java.until_asleep().await;
    at_once(async {
        guard.release().await.unwrap();
        java.entered().await;
    })
    .await;
    assert!(java.unlock(&names[1]).await);
}

async fn a_name_that_java_forces_open_is_reported(on: Fixture) {
    let (mut java, names) = (on.java(), names(&on));
    let client = on.client_with(|config| config.watchdog_lease(Duration::from_secs(3))).await;
    let guard = MultiLock::new(&client, &names).acquire().await.unwrap();
    assert!(java.force_unlock(&names[1]).await);
    let lost = tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    assert_eq!((lost.name.as_str(), lost.reason), (names[1].as_str(), LostReason::Gone));
    assert!(guard.release().await.is_err());
    assert!(java.try_lock(&names[0], Duration::ZERO).await);
    assert!(java.unlock(&names[0]).await);
}
