//! Streams: entries are added, read, trimmed and waited for.

use std::collections::HashMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use redgrid_core::Failure;
use redgrid_stream::{Entry, EntryId, ObjectError, Start, Stream, StreamError, Trim};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, server, sha};

type Texts = Stream<String, u32>;

const ADD: &str = include_str!("../../crates/redgrid-stream/src/scripts/add.lua");

fn id(ms: u64) -> EntryId {
    EntryId::new(ms, 0)
}

fn ids<K, V>(entries: &[Entry<K, V>]) -> Vec<u64> {
    entries.iter().map(|entry| entry.id.ms).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_added_and_read() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    assert_eq!((stream.len().await.unwrap(), stream.last_id().await.unwrap()), (0, None));
    assert!(stream.info().await.unwrap().is_none() && stream.groups().await.unwrap().is_empty());
    let absent = stream.add("a", &1).no_mk_stream().await.unwrap_err();
    assert!(matches!(absent, StreamError::Object(ObjectError::Absent { .. })), "{absent:?}");
    assert!(stream.is_empty().await.unwrap() && !stream.object().exists().await.unwrap());
    assert_eq!(stream.add("a", &1).id(id(5)).await.unwrap(), id(5));
    let two = stream.add_many([("b", &2), ("c", &3), ("b", &4)]).id(EntryId::new(5, 7)).no_mk_stream().await.unwrap();
    let all = stream.range(..).await.unwrap();
    let text = |text: &str| text.to_owned();
    assert_eq!((all[0].id, &all[0].fields[..]), (id(5), &[(text("a"), 1)][..]));
    assert_eq!((all[1].id, &all[1].fields[..]), (two, &[(text("b"), 2), (text("c"), 3), (text("b"), 4)][..]));
    assert_eq!((all[1].get("b"), all[1].get("c"), all[1].get("x")), (Some(&2), Some(&3), None));
    for behind in [id(5), id(4), EntryId::new(5, 7), EntryId::new(0, 1)] {
        let told = stream.add("a", &1).id(behind).await;
        assert!(matches!(&told, Err(StreamError::IdTooSmall { id, .. }) if *id == behind), "{told:?}");
        let told = stream.add("a", &1).id(behind).exactly_once().await;
        assert!(matches!(&told, Err(StreamError::IdTooSmall { id, .. }) if *id == behind), "{told:?}");
    }
    let auto = stream.add("d", &9).await.unwrap();
    assert!(auto > id(1_600_000_000_000) && stream.last_id().await.unwrap() == Some(auto));
    assert_eq!(stream.remove([auto, id(4), id(5)]).await.unwrap(), 2);
    assert_eq!((stream.last_id().await.unwrap(), stream.len().await.unwrap()), (Some(auto), 1));
    let info = stream.info().await.unwrap().unwrap();
    assert_eq!((info.len, info.last_id, info.groups, info.entries_added), (1, auto, 0, Some(3)));
    assert_eq!((info.max_removed_id, info.first.as_ref().unwrap().id, info.last), (Some(auto), two, info.first));
    assert_eq!(stream.remove([two]).await.unwrap() + stream.remove([]).await.unwrap(), 1);
    assert!(stream.object().exists().await.unwrap(), "without entries it is there");
    assert!(stream.object().delete().await.unwrap() && stream.last_id().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_have_ends_and_limits() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    for ms in 1..=9 {
        stream.add("n", &(ms as u32)).id(id(ms)).await.unwrap();
    }
    let after = |ms| (Bound::Excluded(id(ms)), Bound::Unbounded);
    assert_eq!(ids(&stream.range(id(2)..id(5)).await.unwrap()), [2, 3, 4]);
    assert_eq!(ids(&stream.range(id(2)..=id(5)).await.unwrap()), [2, 3, 4, 5]);
    assert_eq!(ids(&stream.range(after(7)).await.unwrap()), [8, 9]);
    assert_eq!(ids(&stream.range(..).limit(2).await.unwrap()), [1, 2]);
    assert_eq!(ids(&stream.range(id(6)..id(6)).await.unwrap()), [0; 0]);
    assert_eq!(ids(&stream.rev_range(id(2)..=id(5)).await.unwrap()), [5, 4, 3, 2]);
    assert_eq!(ids(&stream.rev_range(..).limit(0).await.unwrap()), [9]);
    assert_eq!(ids(&stream.read(id(7)).await.unwrap()), [8, 9]);
    assert_eq!(ids(&stream.read(EntryId::MIN).limit(3).await.unwrap()), [1, 2, 3]);
    assert!(stream.read(id(9)).await.unwrap().is_empty() && stream.read(EntryId::MAX).await.unwrap().is_empty());
    for page in [1, 2, 3, 9, 100] {
        let all: Vec<_> = stream.entries(..).page(page).take(20).try_collect().await.unwrap();
        assert_eq!(ids(&all), (1..=9).collect::<Vec<_>>(), "by pages of {page}");
        let all: Vec<_> = stream.entries(id(2)..id(9)).page(page).reversed().take(20).try_collect().await.unwrap();
        assert_eq!(ids(&all), (2..9).rev().collect::<Vec<_>>(), "by pages of {page}, reversed");
    }
    assert_eq!(stream.entries(id(3)..id(3)).count().await, 0);
    assert_eq!(tokio::spawn(stream.entries(..).page(2).take(3).count()).await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_entries_are_trimmed() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    for ms in 1..=500 {
        stream.add("n", &1).id(id(ms)).await.unwrap();
    }
    assert_eq!(stream.trim(Trim::max_len(450)).await.unwrap(), 50);
    assert_eq!(stream.trim(Trim::min_id(id(61))).await.unwrap(), 10);
    assert_eq!(stream.range(..).limit(1).await.unwrap()[0].id, id(61));
    // Only whole nodes of 100 entries are trimmed; the first node has 40 left.
    assert_eq!(stream.trim(Trim::max_len(430).approximately()).await.unwrap(), 0);
    assert_eq!(stream.trim(Trim::max_len(10).approximately().limit(200)).await.unwrap(), 140);
    assert_eq!(stream.trim(Trim::min_id(id(400)).approximately()).await.unwrap(), 100);
    stream.add("n", &1).id(id(501)).trim(Trim::max_len(3)).await.unwrap();
    assert_eq!(ids(&stream.range(..).await.unwrap()), [499, 500, 501]);
    stream.add("n", &1).id(id(502)).trim(Trim::min_id(id(502))).exactly_once().await.unwrap();
    assert_eq!(stream.len().await.unwrap(), 1);
    for (bad, words) in [
        (Trim::max_len(1).limit(5), "invalid limit for `s`: expected none for an exact trim"),
        (Trim::max_len(1).approximately().limit(0), "invalid limit for `s`: expected 1 to"),
        (Trim::max_len(u64::MAX), "invalid max_len for `s`: expected at most"),
    ] {
        assert!(stream.trim(bad).await.unwrap_err().to_string().starts_with(words), "{bad:?}");
        assert!(stream.add("n", &1).trim(bad).await.unwrap_err().to_string().starts_with(words), "{bad:?}");
    }
    assert_eq!(stream.len().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_calls_are_reported_and_change_nothing() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let stream: Texts = Stream::new(&client, "s");
    let none: [(&str, &u32); 0] = [];
    let words = stream.add_many(none).await.unwrap_err().to_string();
    assert_eq!(words, "invalid fields for `s`: expected at least one, got none");
    assert!(stream.add("a", &1).id(EntryId::MIN).await.unwrap_err().to_string().contains("expected an id after 0-0"));
    assert!(
        stream.remove((0..10_001).map(id)).await.unwrap_err().to_string().contains("up to 10000 at once, got 10001")
    );
    let invalid: Texts = Stream::new(&client, "");
    assert!(matches!(
        invalid.add("a", &1).await,
        Err(StreamError::Object(ObjectError::Failed(Failure::InvalidName(_))))
    ));
    assert!(matches!(
        invalid.range(id(3)..id(3)).await,
        Err(StreamError::Object(ObjectError::Failed(Failure::InvalidName(_))))
    ));
    assert!(!observer.exists("s").await.unwrap());
    observer.cmd(&["SET", "text", "x"]).await.unwrap();
    let text: Texts = Stream::new(&client, "text");
    for told in [
        text.add("a", &1).await.map(drop),
        text.range(..).await.map(drop),
        text.info().await.map(drop),
        text.group("g").create().from_start().await,
    ] {
        assert!(told.as_ref().unwrap_err().to_string().contains("WRONGTYPE"), "{told:?}");
    }
    // Another program adds an entry that cannot be decoded.
    stream.add("a", &1).id(id(1)).await.unwrap();
    observer.cmd(&["XADD", "s", "2-0", "{", "1"]).await.unwrap();
    stream.add("a", &3).id(id(3)).await.unwrap();
    let told = stream.range(..).await.unwrap_err();
    assert!(matches!(told, StreamError::Undecodable { id, .. } if id == EntryId::new(2, 0)), "{told:?}");
    assert!(told.to_string().contains("at entry 2-0"), "{}", told);
    let (good, bad): (Vec<_>, Vec<_>) =
        stream.entries(..).page(1).collect::<Vec<_>>().await.into_iter().partition(Result::is_ok);
    assert_eq!((good.len(), bad.len()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_any_size_is_added_and_reported() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Stream<u32, u32> = Stream::new(&client, "s");
    for fields in [3_490_u32, 5_000] {
        let waiting = stream.clone();
        let after = stream.last_id().await.unwrap().unwrap_or_default();
        let waiter = tokio::spawn(async move { waiting.read(after).timeout(SOON).await.unwrap() });
        let pairs: Vec<u32> = (0..fields).collect();
        stream.add_many(pairs.iter().map(|n| (n, n))).await.unwrap();
        assert_eq!(waiter.await.unwrap()[0].fields.len(), fields as usize);
    }
    let pairs: Vec<u32> = (0..4_000).collect();
    let told = stream.add_many(pairs.iter().map(|n| (n, n))).exactly_once().await.unwrap_err();
    assert!(told.to_string().contains("up to 3496 for an entry that is added exactly once"), "{}", told);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_with_a_lost_reply_leaves_one_entry() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(500))).await;
    let stream: Texts = Stream::new(&client, "s");
    stream.add("a", &1).await.unwrap();
    stream.add("a", &1).exactly_once().await.unwrap();
    let plain = sha(&[include_str!("../../crates/redgrid-core/src/exactly_once/plain.lua"), ADD].concat());
    proxy.next(1, plain, Action::SwallowReply);
    let told = stream.add("a", &2).await.unwrap_err();
    assert!(matches!(told, StreamError::Object(ObjectError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
    assert_eq!(stream.len().await.unwrap(), 3);
    let once = sha(&[include_str!("../../crates/redgrid-core/src/exactly_once/dedup.lua"), ADD].concat());
    proxy.next(2, once, Action::SwallowReply);
    let id = stream.add("a", &3).exactly_once().await.unwrap();
    assert_eq!(proxy.counts().swallowed, 3);
    let all = stream.range(..).await.unwrap();
    assert_eq!((all.len(), all[3].id, all[3].get("a")), (4, id, Some(&3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_notified_of_additions_and_find_others() {
    let server = server().await;
    let (client, elsewhere, observer) =
        (client(&server).await, client(&server).await, server.observer().await.unwrap());
    let (stream, theirs): (Texts, Texts) = (Stream::new(&client, "s"), Stream::new(&elsewhere, "s"));
    let began = Instant::now();
    assert!(stream.read(EntryId::MIN).timeout(Duration::from_millis(300)).await.unwrap().is_empty());
    assert!(began.elapsed() >= Duration::from_millis(300));
    for n in 1..=2 {
        let waiting = stream.clone();
        let waiter = tokio::spawn(async move { waiting.read(id(n - 1)).timeout(SOON).await.unwrap() });
        let channel = "redgrid_stream__channel:{s}".to_owned();
        let listens = async || observer.pubsub_channels("*").await.unwrap().contains(&channel);
        wait_until(SOON, listens).await;
        let add = theirs.add("n", &1).id(id(n));
        if n == 1 {
            add.await.unwrap()
        } else {
            add.exactly_once().await.unwrap()
        };
        assert_eq!(ids(&waiter.await.unwrap()), [n]);
    }
    // Entries of other programs are published on no channel. The poll finds each within a second,
    // earlier than the check every five seconds.
    let consumed = stream.clone();
    let consumer = tokio::spawn(async move {
        let mut deliveries = consumed.group("g").consumer("c").create_if_missing(Start::Beginning);
        let mut times = Vec::new();
        for n in 1..=5 {
            assert_eq!(deliveries.try_next().await.unwrap().unwrap().id, id(n));
            times.push(Instant::now());
        }
        times
    });
    for n in 3..=5_u64 {
        let read =
            async || stream.groups().await.unwrap().first().is_some_and(|group| group.last_delivered == id(n - 1));
        wait_until(SOON, read).await;
        observer.cmd(&["XADD", "s", &format!("{n}-0"), "\"n\"", "1"]).await.unwrap();
    }
    let times = consumer.await.unwrap();
    assert!(times[4] - times[1] < Duration::from_secs(7), "{:?}", times[4] - times[1]);
}

async fn calls(observer: &redgrid_testkit::Observer) -> HashMap<String, u64> {
    let stats: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    stats.lines().filter_map(calls).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_is_one_request_and_many_waiters_poll_as_one() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let stream: Texts = Stream::new(&client, "s");
    stream.add("n", &1).id(id(1)).await.unwrap();
    // Each client subscribes to a channel at its start.
    wait_until(SOON, async || calls(&observer).await.contains_key("subscribe")).await;
    observer.cmd(&["CONFIG", "RESETSTAT"]).await.unwrap();
    for n in 2..12 {
        stream.add("n", &1).id(id(n)).await.unwrap();
    }
    let asked = calls(&observer).await;
    let count = |command: &str| asked.get(command).copied().unwrap_or_default();
    assert_eq!((count("evalsha"), count("xadd"), count("publish"), count("subscribe")), (10, 10, 10, 0));
    // Many waiters wait for two seconds, and are then notified. Each reads at its start and when it
    // is notified. The poll is one request for all.
    observer.cmd(&["CONFIG", "RESETSTAT"]).await.unwrap();
    let waiters: Vec<_> = (0..50)
        .map(|_| {
            let stream = stream.clone();
            tokio::spawn(async move { stream.read(id(11)).timeout(SOON).await.unwrap().len() })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    stream.add("n", &1).id(id(12)).await.unwrap();
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), 1);
    }
    let asked = calls(&observer).await["xread"];
    // Each waiter may read twice more: after the confirmation of the subscription, and after the
    // poll that finds the entry.
    assert!(asked <= 50 * 6 + 20, "{asked} requests of 50 waiters");
}
