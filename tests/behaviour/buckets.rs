//! Buckets: values under a name.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::join_all;
use redgrid_bucket::codecs::{Long, Raw, Text};
use redgrid_bucket::{Bucket, Buckets, ObjectError};
use redgrid_core::fence::{Fence, FenceError, Write};
use redgrid_core::object::Lifetime;
use redgrid_core::{Code, Failure, ServerError, Token};
use redgrid_testkit::{Action, Proxy};
use redgrid_tests::{SOON, client, client_with, server};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn values_are_set_read_and_deleted() {
    let server = server().await;
    let client = client(&server).await;
    let bucket: Bucket<Vec<u8>> = Bucket::new(&client, "numbers");
    assert_eq!((bucket.get().await.unwrap(), bucket.size().await.unwrap()), (None, 0));
    bucket.set(&vec![1, 2]).await.unwrap();
    assert_eq!((bucket.get().await.unwrap(), bucket.size().await.unwrap()), (Some(vec![1, 2]), 5));
    assert_eq!(bucket.get_and_set(&vec![3]).await.unwrap(), Some(vec![1, 2]));
    assert!(!bucket.try_set(&vec![4]).await.unwrap() && bucket.set_if_exists(&vec![5]).await.unwrap());
    assert!(!bucket.compare_and_set(&vec![4], &vec![6]).await.unwrap());
    assert!(bucket.compare_and_set(&vec![5], &vec![6]).await.unwrap());
    assert_eq!(bucket.get_and_delete().await.unwrap(), Some(vec![6]));
    assert_eq!(bucket.get_and_delete().await.unwrap(), None);
    assert!(!bucket.set_if_exists(&vec![7]).await.unwrap() && bucket.try_set(&vec![7]).await.unwrap());
    assert!(!bucket.compare_and_delete(&vec![8]).await.unwrap() && bucket.compare_and_delete(&vec![7]).await.unwrap());
    assert!(!bucket.compare_and_delete(&vec![7]).await.unwrap() && !bucket.delete().await.unwrap());
    assert_eq!(bucket.get_and_set(&vec![9]).await.unwrap(), None);
    assert!(bucket.delete().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn lifetimes_are_as_requested() {
    let server = server().await;
    let client = client(&server).await;
    let bucket: Bucket<i64, Long> = Bucket::new(&client, "n");
    let endless = async || bucket.object().lifetime().await.unwrap() == Lifetime::Endless;
    bucket.set(&1).expires_in(HOUR).await.unwrap();
    assert!(matches!(bucket.object().lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    bucket.set(&2).keep_lifetime().await.unwrap();
    assert!(!endless().await);
    bucket.set(&3).await.unwrap();
    assert!(endless().await);
    bucket.set(&4).expires_at(SystemTime::now() + HOUR).await.unwrap();
    assert!(!endless().await);
    assert!(bucket.compare_and_set(&4, &5).keep_lifetime().await.unwrap() && !endless().await);
    assert!(bucket.compare_and_set(&5, &6).await.unwrap() && endless().await);
    assert!(bucket.compare_and_set(&6, &7).expires_in(HOUR).await.unwrap() && !endless().await);
    assert_eq!(bucket.get_and_persist().await.unwrap(), Some(7));
    assert!(endless().await);
    assert_eq!(bucket.get_and_expire(HOUR).await.unwrap(), Some(7));
    assert!(!endless().await);
    assert_eq!(bucket.get_and_set(&8).keep_lifetime().await.unwrap(), Some(7));
    assert!(!endless().await);
    assert_eq!(bucket.get_and_set(&9).await.unwrap(), Some(8));
    assert!(endless().await);
    assert!(bucket.set_if_exists(&10).expires_in(HOUR).await.unwrap() && !endless().await);
    assert!(bucket.delete().await.unwrap() && bucket.try_set(&11).expires_in(HOUR).await.unwrap() && !endless().await);
    // An expiry time in the past removes the value immediately.
    bucket.set(&12).expires_at(SystemTime::now() - HOUR).await.unwrap();
    assert_eq!(bucket.get().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_calls_are_reported_without_a_request() {
    let server = server().await;
    let client = client(&server).await;
    let bucket: Bucket<String> = Bucket::new(&client, "text");
    let text = "hello".to_owned();
    for lifetime in [Duration::ZERO, Duration::from_micros(10), HOUR * 24 * 3651, Duration::MAX] {
        let told = bucket.set(&text).expires_in(lifetime).await.unwrap_err();
        assert!(matches!(told, ObjectError::Failed(Failure::InvalidArgument { option: "lifetime", .. })), "{told:?}");
        let told = bucket.get_and_expire(lifetime).await.unwrap_err();
        assert!(told.to_string().contains("1 ms to 3650 days"), "{told}");
        let told = bucket.set(&text).expires_in(lifetime).fenced(Token::new(1)).await.unwrap_err();
        assert!(matches!(told, ObjectError::Failed(Failure::InvalidArgument { .. })), "{told:?}");
    }
    let told = bucket.set(&text).expires_at(SystemTime::UNIX_EPOCH - HOUR).await.unwrap_err();
    assert!(told.to_string().ends_with("got 3600s before the beginning of 1970"), "{told}");
    let bad: Bucket<String> = Bucket::new(&client, "a{b");
    assert!(matches!(bad.get().await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
    assert!(matches!(bad.set(&text).await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
    assert!(matches!(bad.object().delete().await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
    assert!(!server.observer().await.unwrap().exists("text").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_value_is_reported_with_a_guess_and_stays() {
    let server = server().await;
    let client = client(&server).await;
    let text: Bucket<String, Text> = Bucket::new(&client, "name");
    text.set(&"{\"a\":1}".to_owned()).await.unwrap();
    let number: Bucket<i64, Long> = Bucket::new(&client, "name");
    let told = number.get().await.unwrap_err();
    let words = told.to_string();
    for part in ["`name`", "Long", "look like Json"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(number.update(|n| *n += 1).await.is_err());
    assert_eq!(text.get().await.unwrap().as_deref(), Some("{\"a\":1}"));
    let list = server.observer().await.unwrap();
    list.cmd(&["RPUSH", "list", "a"]).await.unwrap();
    let told = Bucket::<String>::new(&client, "list").get().await.unwrap_err();
    assert!(
        matches!(
            &told,
            ObjectError::Failed(Failure::Refused { source: ServerError::Refused { code: Code::WrongType, .. }, .. })
        ),
        "{told:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_two_clients_are_all_made_and_the_lifetime_stays() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let first: Bucket<u64> = Bucket::new(&clients[0], "visits");
    assert_eq!(first.update(|n| *n += 1).await.unwrap(), None);
    first.set(&0).expires_in(HOUR).await.unwrap();
    let updates = (0..300).map(|n| {
        let bucket: Bucket<u64> = Bucket::new(&clients[n % 2], "visits");
        tokio::spawn(async move { bucket.update(|n| *n += 1).await.unwrap().unwrap() })
    });
    let mut had: Vec<u64> = join_all(updates).await.into_iter().map(Result::unwrap).collect();
    had.sort_unstable();
    assert_eq!(had, (1..=300).collect::<Vec<_>>());
    assert!(matches!(first.object().lifetime().await.unwrap(), Lifetime::Ends(_)));
    assert_eq!(first.alter(|n| n.filter(|n| *n < 300)).await.unwrap(), None);
    assert_eq!(first.get().await.unwrap(), None);
    assert_eq!(first.alter(|n| Some(n.unwrap_or(7))).await.unwrap(), Some(7));
    assert_eq!(first.alter(|n| n).await.unwrap(), Some(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_token_writes_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let now = u64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()).unwrap();
    let (old, new) = (Token::new(now), Token::new(now + 1));
    let bucket: Bucket<u64> = Bucket::new(&client, "ledger");
    bucket.set(&1).fenced(old).await.unwrap();
    bucket.set(&2).expires_in(HOUR).fenced(new).await.unwrap();
    assert!(matches!(bucket.object().lifetime().await.unwrap(), Lifetime::Ends(_)));
    let told = bucket.set(&3).fenced(old).await.unwrap_err();
    let stale = |told: &ObjectError| {
        matches!(told, ObjectError::Fenced { source: FenceError::Stale { token, highest, .. }, .. }
            if (*token, *highest) == (old, new))
    };
    assert!(stale(&told), "{told:?}");
    let told = bucket.delete_fenced(old).await.unwrap_err();
    assert!(stale(&told), "{told:?}");
    assert_eq!(bucket.get().await.unwrap(), Some(2));
    bucket.set(&4).keep_lifetime().fenced(new).await.unwrap();
    assert!(matches!(bucket.object().lifetime().await.unwrap(), Lifetime::Ends(_)));
    assert!(bucket.delete_fenced(new).await.unwrap() && !bucket.delete_fenced(new).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn fenced_writes_expire_and_fail_as_plain_ones() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let settings = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(500)).retries(1);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    let observer = server.observer().await.unwrap();
    let now = u64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()).unwrap();
    let token = Token::new(now);
    let bucket: Bucket<u64> = Bucket::new(&client, "ledger");
    // The expiry time is exact to the millisecond, whatever the clock of this machine shows.
    let end = SystemTime::UNIX_EPOCH + Duration::from_millis(now / 1000 + 3_600_123);
    bucket.set(&1).expires_at(end).fenced(token).await.unwrap();
    let ends: i64 = observer.query(&["PEXPIRETIME", "ledger"]).await.unwrap();
    assert_eq!(ends, i64::try_from(now / 1000 + 3_600_123).unwrap());
    bucket.set(&2).expires_at(SystemTime::now() - HOUR).fenced(token).await.unwrap();
    assert_eq!(bucket.get().await.unwrap(), None, "a value with a past end is removed at once");
    let told = bucket.set(&3).expires_at(SystemTime::UNIX_EPOCH - HOUR).fenced(token).await.unwrap_err();
    assert!(matches!(&told, ObjectError::Failed(Failure::InvalidArgument { option: "lifetime", .. })), "{told:?}");
    // Counted tokens, and a fence for several keys.
    let fence = Fence::new(&client, "{ledger}:counted").without_lifetime();
    bucket.set(&4).fenced_by(&fence, Token::new(7)).await.unwrap();
    let told = bucket.set(&5).fenced_by(&fence, Token::new(6)).await.unwrap_err();
    assert!(matches!(told, ObjectError::Fenced { source: FenceError::Stale { .. }, .. }), "{told:?}");
    let told = bucket.set(&5).fenced_by(&Fence::new(&client, "other"), token).await.unwrap_err();
    assert!(matches!(told, ObjectError::Fenced { source: FenceError::OtherSlot { .. }, .. }), "{told:?}");
    for fields in [0, 3001] {
        let fields = vec![(Bytes::from("a"), Bytes::from("b")); fields];
        let told = fence.write("{ledger}:m", Write::HashSet { fields }, token).await.unwrap_err();
        assert!(matches!(told, FenceError::Failed(Failure::InvalidArgument { option: "fields", .. })), "{told:?}");
    }
    let fields = (0..3000).map(|n| (n.to_string().into(), "b".into())).collect();
    assert_eq!(fence.write("{ledger}:m", Write::HashSet { fields }, token).await.unwrap(), 3000);
    // Missing servers and other errors are reported as for any other change.
    observer.cmd(&["DEL", "redgrid_fence:{ledger}"]).await.unwrap();
    observer.cmd(&["RPUSH", "redgrid_fence:{ledger}", "no token"]).await.unwrap();
    let told = bucket.set(&6).fenced(token).await.unwrap_err();
    assert!(
        matches!(&told, ObjectError::Failed(Failure::Refused { source, .. }) if source.code() == Some(Code::WrongType)),
        "{told:?}"
    );
    proxy.refuse_connections().await.unwrap();
    proxy.cut_all();
    let told = bucket.set(&7).fenced(token).await.unwrap_err();
    assert!(
        matches!(&told, ObjectError::Failed(Failure::Unavailable { .. } | Failure::OutcomeUnknown { .. })),
        "{told:?}"
    );
    let told = bucket.set(&7).fenced(token).await.unwrap_err();
    assert!(matches!(&told, ObjectError::Failed(Failure::Unavailable { .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_with_a_lost_reply_is_unknown_and_executed_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(500))).await;
    let observer = server.observer().await.unwrap();
    let bucket: Bucket<u64> = Bucket::new(&client, "lost");
    proxy.next(1, "lost", Action::SwallowReply);
    let told = bucket.set(&1).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
    assert_eq!(observer.get::<String>("lost").await.unwrap().as_deref(), Some("1"));
    // A read without a reply is sent again.
    proxy.next(1, "lost", Action::SwallowReply);
    assert_eq!(bucket.get().await.unwrap(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_buckets_at_once() {
    let server = server().await;
    let client = client(&server).await;
    let buckets: Buckets<u64> = Buckets::new(&client);
    let names: Vec<String> = (0..1200).map(|n| format!("bucket:{n}")).collect();
    let values: BTreeMap<String, u64> = names.iter().cloned().zip(0..).collect();
    assert!(buckets.get_each(&names).await.unwrap().is_empty());
    // The call is in a task, so its future must be `Send`.
    let (writer, written) = (buckets.clone(), values.clone());
    tokio::spawn(async move { writer.set_each(&written).await }).await.unwrap().unwrap();
    assert_eq!(buckets.get_each(&names).await.unwrap(), values);
    assert!(!buckets.try_set_all([("new", &1), ("bucket:5", &2)]).await.unwrap());
    assert!(buckets.try_set_all([("new", &1), ("newer", &2)]).await.unwrap());
    buckets.set_all([("new", &3), ("newer", &4), ("new", &5)]).await.unwrap();
    let both = BTreeMap::from([("new".to_owned(), 5), ("newer".to_owned(), 4)]);
    assert_eq!(buckets.get_each(["new", "newer", "newest", "new"]).await.unwrap(), both);
    assert_eq!(buckets.delete_each(names.iter().map(String::as_str).chain(["nobody"])).await.unwrap(), 1200);
    assert_eq!(buckets.delete_each(["new", "newer"]).await.unwrap(), 2);
    buckets.set_each(Vec::<(String, &u64)>::new()).await.unwrap();
    buckets.set_all(Vec::<(String, &u64)>::new()).await.unwrap();
    assert!(matches!(buckets.get_each(["a", "{}"]).await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
    server.observer().await.unwrap().cmd(&["SET", "odd", "x"]).await.unwrap();
    let told = buckets.get_each(["odd"]).await.unwrap_err();
    assert!(matches!(&told, ObjectError::Decode { name, .. } if name.as_str() == "odd"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_matches_its_model() {
    let server = server().await;
    redgrid_tests::model::bucket(&client(&server).await, "model", 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_stored_as_they_are() {
    let server = server().await;
    let client = client(&server).await;
    let bucket: Bucket<Bytes, Raw> = Bucket::new(&client, "bytes");
    let all: Bytes = (0..=255).collect::<Vec<u8>>().into();
    bucket.set(&all).await.unwrap();
    assert_eq!(bucket.get().await.unwrap().as_ref(), Some(&all));
    let large: Bytes = vec![7; 8 << 20].into();
    tokio::time::timeout(SOON, async { bucket.set(&large).await }).await.unwrap().unwrap();
    assert_eq!(bucket.get_and_delete().await.unwrap(), Some(large));
}
