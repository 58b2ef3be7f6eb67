//! Transactions with lost replies, cancelled callers, killed processes, and locks of other clients.

use std::time::Duration;

use futures_util::future::join_all;
use redgrid_bucket::Bucket;
use redgrid_core::{Client, Failure};
use redgrid_locks::Lock;
use redgrid_map::Map;
use redgrid_set::Set;
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::process::Other;
use redgrid_tests::{SOON, client, client_with, server};
use redgrid_transaction::{Transaction, TransactionError};

/// The record of commits with `a` as the first key.
const MEMORY: &str = "redgrid_once:{a}";

/// Sets both buckets to `n` if they have `n - 1`, adds `n` to a map and to a set, and commits.
async fn commit_both(client: &Client, n: u32) -> Result<(), TransactionError> {
    let tx = Transaction::new(client).timeout(SOON);
    for name in ["a", "b"] {
        let bucket = tx.bucket::<u32>(name);
        if bucket.get().await?.unwrap_or(0) + 1 == n {
            bucket.set(&n)?;
        }
    }
    tx.map::<u32, u32>("m").set(&n, &n)?;
    tx.set::<u32>("s").insert(&n).await?;
    tx.commit().await
}

/// The value of both buckets at one moment, which is the number of commits. Panics if half a
/// transaction is visible.
async fn both(client: &Client) -> u32 {
    let look = "return {redis.call('GET', 'a') or '0', redis.call('GET', 'b') or '0', redis.call('HLEN', 'm'), redis.call('SCARD', 's')}";
    let all: Vec<u64> = client.command("EVAL").arg(look).arg("0").query().await.unwrap();
    assert!(all.iter().all(|n| *n == all[0]), "half a transaction: {all:?}");
    u32::try_from(all[0]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_with_lost_replies_is_executed_once_and_reported() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(500))).await;
    commit_both(&client, 1).await.unwrap();
    for n in 2..5 {
        // A second execution would report a conflict with the first one.
        proxy.next(2, MEMORY, Action::SwallowReply);
        commit_both(&client, n).await.unwrap();
        assert_eq!((both(&client).await, proxy.counts().swallowed), (n, u64::from(n - 1) * 2));
    }
    // A conflict, too, is reported by the retransmission, which writes nothing.
    let tx = Transaction::new(&client);
    assert_eq!(tx.bucket::<u32>("a").get_and_set(&9).await.unwrap(), Some(4));
    let direct = redgrid_tests::client(&server).await;
    let other: Bucket<u32> = Bucket::new(&direct, "a");
    other.set(&5).await.unwrap();
    proxy.next(1, MEMORY, Action::SwallowReply);
    let committing = tokio::spawn(tx.commit());
    wait_until(SOON, async || proxy.counts().swallowed == 7).await;
    other.set(&4).await.unwrap();
    assert!(matches!(committing.await.unwrap().unwrap_err(), TransactionError::Conflict { .. }));
    assert_eq!(both(&client).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_commit_is_unknown_and_atomic() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let hasty = |config: redgrid_core::Config| config.response_timeout(Duration::from_secs(2)).retries(0);
    let client = client_with(&server.url_via(proxy.addr()), hasty).await;
    let observing = redgrid_tests::client(&server).await;
    commit_both(&observing, 1).await.unwrap();
    // More replies are lost than there are retransmissions.
    proxy.next(100, MEMORY, Action::SwallowReply);
    let told = commit_both(&client, 2).await.unwrap_err();
    proxy.heal();
    assert!(matches!(told, TransactionError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
    // The first copy was executed. The next commit of this client is executed after the last copy.
    assert_eq!(both(&observing).await, 2);
    wait_until(SOON, async || commit_both(&client, 3).await.is_ok()).await;
    assert_eq!(both(&observing).await, 3);
    // This transaction fails at its first read, so its outcome is not unknown.
    proxy.cut_all();
    proxy.refuse_connections().await.unwrap();
    let told = commit_both(&client, 4).await.unwrap_err();
    assert!(matches!(told, TransactionError::Object(_)), "{told:?}");
    assert_eq!(both(&observing).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_transaction_is_atomic_at_any_time() {
    let server = server().await;
    let client = client(&server).await;
    let mut ended = 0;
    for polls in 0..24 {
        let n = both(&client).await + 1;
        match at_most(polls, commit_both(&client, n)).await {
            Some(done) => {
                done.unwrap();
                ended += 1;
                assert_eq!(both(&client).await, n);
            }
            None => {
                let before = both_in_turn(&client).await;
                assert!(before == n || before + 1 == n, "{before} of {n}");
            }
        }
    }
    assert!(ended > 0, "some were not dropped");
    let n = both(&client).await + 1;
    commit_both(&client, n).await.unwrap();
    assert_eq!(both(&client).await, n);
}

/// The value of both buckets when no commit is in flight. A client runs commits with the same first
/// object one at a time, and `check` is one of them.
async fn both_in_turn(client: &Client) -> u32 {
    let tx = Transaction::new(client);
    tx.bucket::<u32>("a").get().await.unwrap();
    let _ = tx.check().await;
    both(client).await
}

/// How many scripts the server has run. Renewals of the lock are counted, but are rare.
async fn scripts(client: &Client) -> u64 {
    let told: String = client.command("INFO").arg("commandstats").query().await.unwrap();
    let calls = told.split("cmdstat_evalsha:calls=").nth(1).and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_locked_by_another_transaction_are_not_written() {
    let server = server().await;
    let client = client(&server).await;
    let map: Map<String, u32> = Map::new(&client, "m");
    // Redisson's names of its locks: of an object, of a map as a whole, and of a key.
    let set = Set::<String>::new(&client, "s");
    set.insert("a").await.unwrap();
    let of_value = format!("{{s}}:{}:lock", redgrid_transaction::codecs::element_hash(b"\"a\""));
    for name in ["b:transaction_lock", "m:transaction_lock", "s:transaction_lock", &of_value, "key"] {
        let write = async |options: fn(Transaction) -> Transaction| {
            let tx = options(Transaction::new(&client));
            tx.bucket::<u32>("free").set(&1).unwrap();
            match name.as_bytes()[0] {
                b'b' => tx.bucket::<u32>("b").set(&2).unwrap(),
                b's' | b'{' => drop(tx.set::<String>("s").remove("a").await.unwrap()),
                _ => tx.map::<String, u32>("m").set("a", &2).unwrap(),
            }
            tx.commit().await
        };
        let lock = if name == "key" { map.lock("a").unwrap() } else { Lock::new(&client, name) };
        let guard = lock.acquire().await.unwrap();
        // On a slow machine 500 ms may pass before the commit is sent: try again.
        let before = scripts(&client).await;
        let told = loop {
            match write(|tx| tx.timeout(Duration::from_millis(500))).await.unwrap_err() {
                TransactionError::TimedOut { .. } => {}
                told => break told,
            }
        };
        // Only the lock is checked; the commit is not sent repeatedly.
        assert!(scripts(&client).await - before <= 3, "{name}");
        let locked = &name[..1];
        let is_its = |of: &str| of == locked || (locked == "k" && of == "m") || (locked == "{" && of == "s");
        assert!(matches!(&told, TransactionError::Locked { name, .. } if is_its(name.as_str())), "{told:?}");
        assert!(!Bucket::<u32>::new(&client, "free").object().exists().await.unwrap());
        // A lock does not block reads. The lock of one key does not block the other keys.
        let tx = Transaction::new(&client).serializable();
        tx.map::<String, u32>("m").get("a").await.unwrap();
        tx.bucket::<u32>("b").get().await.unwrap();
        tx.commit().await.unwrap();
        if name == "key" {
            let tx = Transaction::new(&client);
            tx.map::<String, u32>("m").set("other", &2).unwrap();
            tx.commit().await.unwrap();
        }
        write(Transaction::ignore_locks).await.unwrap();
        set.insert("a").await.unwrap();
        // The commit waits until the lock is free.
        let asked = scripts(&client).await;
        let (waits, freed) = tokio::join!(write(|tx| tx.timeout(SOON)), async {
            wait_until(SOON, async || scripts(&client).await > asked).await;
            guard.release().await
        });
        freed.unwrap();
        waits.unwrap();
        set.insert("a").await.unwrap();
        assert!(Bucket::<u32>::new(&client, "free").delete().await.unwrap());
    }
}

fn kills() -> usize {
    std::env::var("REDGRID_TRANSACTION_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(6)
}

/// Killed processes neither create nor lose money. Four processes move it between a bucket and the
/// accounts of a map, and log each move in a set.
#[tokio::test(flavor = "multi_thread")]
async fn killed_processes_neither_create_nor_lose_money() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let (map, cash): (Map<u32, i64>, Bucket<i64>) = (Map::new(&client, "accounts"), Bucket::new(&client, "cash"));
    let log: Set<String> = Set::new(&client, "log");
    for account in 0..4 {
        map.set(&account, &100).await.unwrap();
    }
    cash.set(&100).await.unwrap();
    let url = server.url();
    let start = async |how: usize| {
        let isolation = ["committed", "serializable"][how % 2];
        Other::start(env!("CARGO_BIN_EXE_role"), &["transferrer", &url, isolation]).await
    };
    let mut others = join_all((0..4).map(&start)).await;
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..kills() {
        let done = log.len().await.unwrap();
        wait_until(SOON, async || log.len().await.unwrap() > done + 10).await;
        tokio::time::sleep(Duration::from_micros(random.u64(..5_000))).await;
        others.remove(random.usize(..others.len())).kill().await;
        // Both are read at one moment: no write is executed between the two reads.
        let tx = Transaction::new(&client).serializable().retries(1_000).timeout(SOON);
        let sum = tx.run(|tx| async move {
            let of_map: i64 = tx.map::<u32, i64>("accounts").read_all_values().await?.iter().sum();
            Ok::<_, TransactionError>(of_map + tx.bucket::<i64>("cash").get().await?.unwrap_or(0))
        });
        assert_eq!(sum.await.unwrap(), 500, "round {round}");
        others.push(start(round).await);
    }
    join_all(others.into_iter().map(Other::kill)).await;
    // Both are read at one moment, because a commit of a killed process may still be in flight.
    let look = "return {redis.call('SCARD', 'log'), redis.call('GET', 'moves')}";
    let [moved, count]: [u64; 2] = observer.query::<Vec<u64>>(&["EVAL", look, "0"]).await.unwrap().try_into().unwrap();
    assert!(moved > 10 * kills() as u64, "{moved}");
    assert_eq!(count, moved, "each was counted once, and written into the log");
    println!("{} kills, {moved} transactions", kills());
    for key in observer.query::<Vec<String>>(&["KEYS", "*"]).await.unwrap() {
        let left: i64 = observer.query(&["PTTL", &key]).await.unwrap();
        let is_value = ["accounts", "cash", "log", "moves"].contains(&&*key);
        assert!(is_value || (key.starts_with("redgrid_once:{") && left > 0), "{key} lives for {left} ms");
    }
}
