//! Transactions: reads and writes in one atomic step.

use std::time::Duration;

use redgrid_bucket::Bucket;
use redgrid_core::Failure;
use redgrid_map::Map;
use redgrid_set::Set;
use redgrid_testkit::{Observer, RedisServer};
use redgrid_tests::{SOON, client, client_with, server};
use redgrid_transaction::{Isolation, MAX_BYTES, MAX_ELEMENTS, ObjectError, Transaction, TransactionError};

const BOTH: [Isolation; 2] = [Isolation::ReadCommitted, Isolation::Serializable];

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_visible_after_the_commit_and_not_before() {
    let server = server().await;
    let client = client(&server).await;
    let (bucket, map): (Bucket<u32>, Map<String, u32>) = (Bucket::new(&client, "b"), Map::new(&client, "m"));
    let set: Set<u32> = Set::new(&client, "s");
    let tx = Transaction::new(&client);
    tx.bucket::<u32>("b").set(&1).unwrap();
    tx.map::<String, u32>("m").set("a", &2).unwrap();
    assert!(tx.set::<u32>("s").insert(&3).await.unwrap() && !tx.set::<u32>("s").insert(&3).await.unwrap());
    assert_eq!(tx.bucket::<u32>("b").get().await.unwrap(), Some(1));
    assert_eq!(tx.map::<String, u32>("m").read_all_keys().await.unwrap(), ["a"]);
    assert_eq!((bucket.get().await.unwrap(), map.len().await.unwrap(), set.len().await.unwrap()), (None, 0, 0));
    let other = tx.map::<String, u32>("m");
    tx.commit().await.unwrap();
    assert_eq!(bucket.get().await.unwrap(), Some(1));
    assert_eq!((map.get("a").await.unwrap(), set.read_all().await.unwrap()), (Some(2), vec![3]));
    // A transaction that has ended does nothing more.
    assert!(matches!(other.set("a", &9).unwrap_err(), TransactionError::Over));
    let tx = Transaction::new(&client);
    let again = tx.clone();
    tx.bucket::<u32>("b").delete().await.unwrap();
    tx.rollback();
    assert!(matches!(again.commit().await.unwrap_err(), TransactionError::Over));
    // A dropped transaction writes nothing. A commit without operations sends no request.
    Transaction::new(&client).map::<String, u32>("m").clear().unwrap();
    Transaction::new(&client).commit().await.unwrap();
    assert_eq!((bucket.get().await.unwrap(), map.get("a").await.unwrap()), (Some(1), Some(2)));
    only_values_stay(&server, &["b", "m", "s"]).await;
}

/// Checks that the server has only these keys, and records that expire.
async fn only_values_stay(server: &RedisServer, names: &[&str]) {
    let observer = server.observer().await.unwrap();
    for key in observer.query::<Vec<String>>(&["KEYS", "*"]).await.unwrap() {
        let left: i64 = observer.query(&["PTTL", &key]).await.unwrap();
        assert!(names.contains(&&*key) || (key.starts_with("redgrid_once:") && left > 0), "{key} lives for {left} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_has_the_requested_lifetime() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let left = async |observer: &Observer| observer.query::<i64>(&["PTTL", "b"]).await.unwrap();
    let hour = Duration::from_secs(3600);
    let tx = Transaction::new(&client);
    let bucket = tx.bucket::<u32>("b");
    assert!(bucket.try_set(&1).await.unwrap() && !bucket.try_set(&2).await.unwrap());
    assert!(!bucket.compare_and_set(&2, &3).await.unwrap() && bucket.compare_and_set(&1, &3).await.unwrap());
    assert_eq!(bucket.get_and_set(&4).await.unwrap(), Some(3));
    bucket.set_for(&5, hour).unwrap();
    tx.commit().await.unwrap();
    assert!((3_500_000..=3_600_000).contains(&left(&observer).await));
    let tx = Transaction::new(&client);
    tx.bucket::<u32>("b").set_and_keep_lifetime(&6).unwrap();
    tx.commit().await.unwrap();
    assert!(left(&observer).await > 0);
    let tx = Transaction::new(&client);
    assert_eq!(tx.bucket::<u32>("b").get_and_delete().await.unwrap(), Some(6));
    assert!(!tx.bucket::<u32>("b").exists().await.unwrap());
    tx.bucket::<u32>("b").set(&7).unwrap();
    tx.commit().await.unwrap();
    assert_eq!((left(&observer).await, observer.query::<u32>(&["GET", "b"]).await.unwrap()), (-1, 7));
    let told = Transaction::new(&client).bucket::<u32>("b").set_for(&1, Duration::ZERO).unwrap_err();
    let TransactionError::Failed(failure) = &told else { panic!("{told:?}") };
    assert!(matches!(failure, Failure::InvalidArgument { option: "lifetime", .. }), "{failure:?}");
}

/// Each isolation level allows only its documented anomalies.
#[tokio::test(flavor = "multi_thread")]
async fn isolation_levels_allow_only_documented_anomalies() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    for isolation in BOTH {
        let begun = async |name: &str| {
            let map: Map<String, i64> = Map::new(&two, name);
            map.set_many([("a", &1), ("b", &1)].map(|(key, value)| (key, value))).await.unwrap();
            (map, Transaction::new(&one).isolation(isolation))
        };
        let strict = isolation == Isolation::Serializable;
        let name = |what: &str| format!("{what}:{isolation:?}");
        let conflicts = |told: Result<(), TransactionError>, of: &str| match told {
            Ok(()) => false,
            Err(TransactionError::Conflict { name }) if name.as_str() == of => true,
            Err(error) => panic!("{error:?}"),
        };

        // Dirty read: an uncommitted write is not visible, and a rolled-back write never is.
        let of = name("dirty");
        let (_, tx) = begun(&of).await;
        let other = Transaction::new(&two).isolation(isolation);
        other.map::<String, i64>(&of).set("a", &7).unwrap();
        assert_eq!(tx.map::<String, i64>(&of).get("a").await.unwrap(), Some(1));
        other.rollback();
        assert!(!conflicts(tx.commit().await, &of));

        // Lost update of an existing element, a missing one, a removed one, and one that was set to
        // its former value.
        for (key, set_to, lost) in
            [("a", Some(5), true), ("x", Some(5), true), ("a", None, true), ("a", Some(1), false)]
        {
            let of = name(&format!("lost:{key}:{set_to:?}"));
            let (map, tx) = begun(&of).await;
            let seen = tx.map::<String, i64>(&of).get(key).await.unwrap().unwrap_or(0);
            match set_to {
                Some(value) => drop(map.set(key, &value).await.unwrap()),
                None => drop(map.remove(key).await.unwrap()),
            }
            tx.map::<String, i64>(&of).set(key, &(seen + 1)).unwrap();
            assert_eq!(conflicts(tx.commit().await, &of), lost, "{of}");
            let now = map.get(key).await.unwrap();
            assert_eq!(now, if lost { set_to } else { Some(2) }, "{of}");
        }

        // A write without a read is no conflict.
        let of = name("blind");
        let (map, tx) = begun(&of).await;
        tx.map::<String, i64>(&of).set("a", &3).unwrap();
        map.set("a", &2).await.unwrap();
        assert!(!conflicts(tx.commit().await, &of));
        assert_eq!(map.get("a").await.unwrap(), Some(3));

        // A repeated read has the same result.
        let of = name("repeated");
        let (map, tx) = begun(&of).await;
        let inside = tx.map::<String, i64>(&of);
        assert_eq!(inside.get("a").await.unwrap(), Some(1));
        map.set("a", &2).await.unwrap();
        assert_eq!(inside.get("a").await.unwrap(), Some(1));
        assert!(conflicts(tx.check().await, &of), "whatever the isolation, a check finds it");
        assert_eq!(conflicts(tx.commit().await, &of), strict);

        // Read skew: one value is read before a change of both, the other one after it.
        let of = name("skew");
        let (map, tx) = begun(&of).await;
        let inside = tx.map::<String, i64>(&of);
        inside.get("a").await.unwrap();
        map.set_many([("a", &0), ("b", &2)]).await.unwrap();
        assert_eq!(inside.get("b").await.unwrap(), Some(2));
        tx.bucket::<i64>(format!("{of}:sum")).set(&3).unwrap();
        assert_eq!(conflicts(tx.commit().await, &of), strict);

        // Write skew: each transaction removes one element, because the other one still exists.
        let of = name("doctors");
        let (map, tx) = begun(&of).await;
        let other = Transaction::new(&two).isolation(isolation);
        for (tx, key) in [(&tx, "a"), (&other, "b")] {
            let inside = tx.map::<String, i64>(&of);
            assert_eq!(inside.get_many(["a", "b"]).await.unwrap(), [Some(1), Some(1)]);
            inside.remove(key).await.unwrap();
        }
        assert!(!conflicts(tx.commit().await, &of));
        assert_eq!(conflicts(other.commit().await, &of), strict);
        assert_eq!(map.len().await.unwrap(), u64::from(strict));

        // Phantoms: after a count and after a full read, of maps and sets.
        let of = name("phantom");
        let (map, tx) = begun(&of).await;
        assert_eq!(tx.map::<String, i64>(&of).len().await.unwrap(), 2);
        map.set("c", &1).await.unwrap();
        tx.bucket::<i64>(format!("{of}:count")).set(&2).unwrap();
        assert_eq!(conflicts(tx.commit().await, &of), strict);
        let of = name("phantoms");
        let set: Set<u32> = Set::new(&two, &of);
        set.insert_many(&[1, 2]).await.unwrap();
        let tx = Transaction::new(&one).isolation(isolation);
        assert_eq!(tx.set::<u32>(&of).read_all().await.unwrap().len(), 2);
        // The number of elements stays, but one is replaced.
        assert!(set.remove(&1).await.unwrap() && set.insert(&3).await.unwrap());
        tx.bucket::<i64>(format!("{of}:count")).set(&2).unwrap();
        assert_eq!(conflicts(tx.commit().await, &of), strict);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_retried_a_limited_number_of_times() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let other: Bucket<u32> = Bucket::new(&two, "n");
    let mut times = 0;
    // The first two attempts have a conflict.
    let done = Transaction::new(&one).run(|tx| {
        times += 1;
        let (other, time) = (other.clone(), times);
        async move {
            let n = tx.bucket::<u32>("n").get().await?.unwrap_or(0);
            if time < 3 {
                other.set(&(n + 10)).await?;
            }
            tx.bucket::<u32>("n").set(&(n + 1))?;
            Ok::<_, TransactionError>(n + 1)
        }
    });
    assert_eq!((done.await.unwrap(), times, other.get().await.unwrap()), (21, 3, Some(21)));
    // Each attempt has a conflict.
    let mut times = 0;
    let told = Transaction::new(&one).retries(2).run(|tx| {
        times += 1;
        let other = other.clone();
        async move {
            let n = tx.bucket::<u32>("n").get().await?.unwrap_or(0);
            other.set(&(n + 10)).await?;
            tx.bucket::<u32>("n").set(&0)?;
            Ok::<_, TransactionError>(())
        }
    });
    assert!(matches!(told.await.unwrap_err(), TransactionError::Conflict { name } if name.as_str() == "n"));
    assert_eq!((times, other.get().await.unwrap()), (3, Some(51)));
    // A failure caused by an inconsistent read is retried if the transaction is serializable. Any
    // other failure is not.
    for (isolation, expected) in [(Isolation::ReadCommitted, 1), (Isolation::Serializable, 2)] {
        let mut times = 0;
        let map: Map<String, u32> = Map::new(&two, "halves");
        map.set_many([("a", &5), ("b", &5)]).await.unwrap();
        let told = Transaction::new(&one).isolation(isolation).run(|tx| {
            times += 1;
            let (map, time) = (map.clone(), times);
            async move {
                let inside = tx.map::<String, u32>("halves");
                let a = inside.get("a").await?.unwrap_or(0);
                if time == 1 {
                    map.set_many([("a", &0), ("b", &10)]).await?;
                }
                let b = inside.get("b").await?.unwrap_or(0);
                if a + b == 10 { Ok(()) } else { Err(TransactionError::Over) }
            }
        });
        assert_eq!((told.await.is_ok(), times), (expected == 2, expected));
    }
}

/// `run` neither commits nor rolls back a transaction that its function has ended. A conflict that
/// the function returns is retried.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_ended_within_run_is_not_committed_again() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let other: Bucket<u32> = Bucket::new(&two, "n");
    let committed = Transaction::new(&one).run(|tx| async move {
        tx.bucket::<u32>("n").set(&1)?;
        tx.commit().await?;
        Ok::<_, TransactionError>("committed")
    });
    assert_eq!((committed.await.unwrap(), other.get().await.unwrap()), ("committed", Some(1)));
    let left = Transaction::new(&one).run(|tx| async move {
        tx.bucket::<u32>("n").set(&2)?;
        tx.rollback();
        Ok::<_, TransactionError>("left")
    });
    assert_eq!((left.await.unwrap(), other.get().await.unwrap()), ("left", Some(1)));
    // A conflict found within the function counts like one at its end, even if the former value has
    // been restored.
    for (isolation, commits, back) in
        BOTH.into_iter().flat_map(|isolation| [(isolation, false, true), (isolation, true, false)])
    {
        other.set(&5).await.unwrap();
        let mut times = 0;
        let done = Transaction::new(&one).isolation(isolation).run(|tx| {
            times += 1;
            let (other, time) = (other.clone(), times);
            async move {
                let n = tx.bucket::<u32>("n").get_and_set(&9).await?.unwrap_or(0);
                if time == 1 {
                    other.set(&7).await?;
                }
                let told = if commits { tx.commit().await } else { tx.check().await };
                if back && time == 1 {
                    other.set(&5).await?;
                }
                told.map(|()| n)
            }
        });
        assert_eq!((done.await.unwrap(), times), (if back { 5 } else { 7 }, 2), "{isolation:?}");
        assert_eq!(other.get().await.unwrap(), Some(9));
    }
    // The setting limits such retries, too.
    let mut times = 0;
    let told = Transaction::new(&one).retries(1).run(|tx| {
        times += 1;
        let other = other.clone();
        async move {
            let n = tx.bucket::<u32>("n").get().await?.unwrap_or(0);
            other.set(&(n + 1)).await?;
            tx.check().await
        }
    });
    assert!(matches!(told.await.unwrap_err(), TransactionError::Conflict { .. }));
    assert_eq!(times, 2);
}

/// A transaction writes to the longest object name. The names of its locks are longer than an
/// object name may be.
#[tokio::test(flavor = "multi_thread")]
async fn the_longest_name_is_written() {
    let server = server().await;
    let client = client(&server).await;
    let name = "n".repeat(1024);
    let tx = Transaction::new(&client);
    tx.map::<u32, u32>(&name).set(&1, &2).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(Map::<u32, u32>::new(&client, &name).get(&1).await.unwrap(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_outside_of_transactions_are_reported() {
    let server = server().await;
    let client = client(&server).await;
    let bucket: Bucket<String> = Bucket::new(&client, "text");
    bucket.set(&"here".into()).await.unwrap();
    // A key of another type is found when it is read, when it is written, and within the
    // transaction.
    let tx = Transaction::new(&client);
    assert!(matches!(tx.map::<u32, u32>("text").len().await.unwrap_err(), TransactionError::Object(_)));
    let tx = Transaction::new(&client);
    tx.bucket::<u32>("before").set(&1).unwrap();
    tx.map::<u32, u32>("text").set(&1, &1).unwrap();
    let told = tx.commit().await.unwrap_err();
    assert!(matches!(&told, TransactionError::WrongType { name, .. } if name.as_str() == "text"), "{told:?}");
    assert_eq!(told.to_string(), "`text` is not a hash, but a string");
    let tx = Transaction::new(&client);
    tx.set::<u32>("both").insert(&1).await.unwrap();
    assert!(matches!(tx.bucket::<u32>("both").set(&1).unwrap_err(), TransactionError::WrongType { .. }));
    // The transaction is too large. The time for 10,000 elements depends on the machine.
    let patient = || Transaction::new(&client).timeout(SOON);
    let tx = patient();
    let map = tx.map::<usize, u32>("large");
    for n in 0..MAX_ELEMENTS {
        map.set(&n, &1).unwrap();
    }
    assert!(matches!(map.set(&MAX_ELEMENTS, &1).unwrap_err(), TransactionError::TooLarge { what: "elements", .. }));
    tx.commit().await.unwrap();
    let large: Map<usize, u32> = Map::new(&client, "large");
    assert_eq!(large.len().await.unwrap(), MAX_ELEMENTS as u64);
    large.set(&MAX_ELEMENTS, &1).await.unwrap();
    let tx = patient();
    let told = tx.map::<usize, u32>("large").read_all().await.unwrap_err();
    assert!(matches!(told, TransactionError::TooLarge { .. }), "{told:?}");
    // Clearing does not count the elements; replacing them does.
    let map = tx.map::<usize, u32>("large");
    map.clear().unwrap();
    map.set(&1, &2).unwrap();
    let told = tx.commit().await.unwrap_err();
    assert!(matches!(told, TransactionError::TooLarge { .. }), "{told:?}");
    let tx = patient();
    tx.map::<usize, u32>("large").clear().unwrap();
    tx.commit().await.unwrap();
    assert!(large.is_empty().await.unwrap());
    let told = patient().bucket::<String>("b").set(&"x".repeat(MAX_BYTES)).unwrap_err();
    assert!(matches!(told, TransactionError::TooLarge { what: "bytes", .. }), "{told:?}");
    // First the timeout has passed. Then a name is invalid.
    let tx = Transaction::new(&client).timeout(Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!(matches!(tx.bucket::<u32>("b").set(&1).unwrap_err(), TransactionError::TimedOut { .. }));
    assert!(matches!(tx.commit().await.unwrap_err(), TransactionError::TimedOut { .. }));
    let told = Transaction::new(&client).bucket::<u32>("a{b").set(&1).unwrap_err();
    assert!(matches!(told, TransactionError::Object(ObjectError::Failed(Failure::InvalidName(_)))), "{told:?}");
    let told = Transaction::new(&client).bucket::<u32>("text").get().await.unwrap_err();
    assert!(matches!(told, TransactionError::Object(ObjectError::Decode { .. })), "{told:?}");
    only_values_stay(&server, &["text"]).await;
}

/// A user with permission for only one of two writes writes neither. Before 7.0 a script cannot
/// query its user's permissions.
#[tokio::test(flavor = "multi_thread")]
async fn without_permission_for_all_writes_nothing_is_written() {
    let server = RedisServer::builder().user("few", "on >secret ~* &* +@all -sadd").start().await.unwrap();
    if server.binary().version().major < 7 {
        return eprintln!("SKIPPED: the server is older than 7.0");
    }
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url_for("few", "secret"), |config| config).await;
    let tx = Transaction::new(&client);
    tx.bucket::<u32>("a").set(&1).unwrap();
    tx.map::<u32, u32>("m").set(&1, &1).unwrap();
    tx.set::<u32>("s").insert(&1).await.unwrap();
    let told = tx.commit().await.unwrap_err();
    assert!(matches!(told, TransactionError::Failed(Failure::Refused { .. })), "{told:?}");
    assert!(observer.query::<Vec<String>>(&["KEYS", "*"]).await.unwrap().is_empty());
    let tx = Transaction::new(&client);
    tx.bucket::<u32>("a").set(&1).unwrap();
    tx.commit().await.unwrap();
}
