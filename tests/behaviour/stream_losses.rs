//! Streams with late copies, lost replies and reset groups: no entry is lost, and pending entries
//! are delivered once.

use std::time::Duration;

use futures_util::StreamExt;
use redgrid_core::Failure;
use redgrid_stream::{Consumer, Delivery, Entry, EntryId, ObjectError, Start, Stream, StreamError};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, calls_of, client, client_with, server, sha};

use crate::stream_consumers::{Texts, add, id, next};

/// The hash of the script that requests new entries.
fn read_script() -> String {
    sha(include_str!("../../crates/redgrid-stream/src/scripts/read_group.lua"))
}

async fn through(proxy: &Proxy, server: &RedisServer, timeout: u64) -> redgrid_stream::Client {
    client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(timeout))).await
}

/// Polls the consumer until it has requested entries this many times more.
async fn poll_times(consumer: &mut Consumer<String, u32>, observer: &Observer, times: u64) {
    let before = calls_of(observer, "xreadgroup").await;
    tokio::select! {
        told = consumer.try_next() => panic!("{told:?}"),
        () = wait_until(SOON, async || calls_of(observer, "xreadgroup").await >= before + times) => {}
    }
}

/// Polls the consumer until one of its requests is held.
async fn is_held(consumer: &mut Consumer<String, u32>, proxy: &Proxy) {
    tokio::select! {
        told = consumer.try_next() => panic!("{told:?}"),
        () = wait_until(SOON, async || proxy.counts().held == 1) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_retransmission_delivers_nothing() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let (client, elsewhere) = (through(&proxy, &server, 300).await, client(&server).await);
    let theirs: Texts = Stream::new(&elsewhere, "s");
    add(&theirs, [1]).await;
    let mut consumer = Texts::new(&client, "s").group("g").consumer("c").create_if_missing(Start::Beginning);
    let one = next(&mut consumer).await;
    proxy.next(1, read_script(), Action::Hold);
    is_held(&mut consumer, &proxy).await;
    // The consumer has given up the held request and read its pending entries. It now requests new
    // ones.
    poll_times(&mut consumer, &observer, 3).await;
    // The held request passes its deadline, and the consumer stops looking for entries of that
    // request.
    let past = tokio::time::timeout(Duration::from_secs(1), consumer.try_next()).await;
    assert!(past.is_err(), "{past:?}");
    add(&theirs, [2, 3]).await;
    proxy.release_held().await;
    add(&theirs, [4]).await;
    for ms in 2..=4 {
        assert_eq!(next(&mut consumer).await.id, id(ms));
    }
    one.ack().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_cancelled_read_go_to_the_next_of_its_name() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let (client, elsewhere) = (through(&proxy, &server, 3_000).await, client(&server).await);
    let theirs: Texts = Stream::new(&elsewhere, "s");
    let mut first = Texts::new(&client, "s").group("g").consumer("c").create_if_missing(Start::Beginning);
    add(&theirs, [1]).await;
    next(&mut first).await.ack().await.unwrap();
    proxy.next(1, read_script(), Action::Hold);
    is_held(&mut first, &proxy).await;
    drop(first);
    let mut second = theirs.group("g").consumer("c");
    poll_times(&mut second, &observer, 3).await;
    add(&theirs, [2]).await;
    // The held request is executed before its deadline: the server gives entry 2 to the dropped
    // consumer.
    assert_eq!(proxy.release_held().await, 1);
    assert_eq!(next(&mut second).await.id, id(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_lost_reply_after_a_group_reset_are_delivered() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let (client, elsewhere) = (through(&proxy, &server, 300).await, client(&server).await);
    let theirs: Texts = Stream::new(&elsewhere, "s");
    add(&theirs, 1..=3).await;
    let mut consumer = Texts::new(&client, "s").group("g").consumer("c").page(3).create_if_missing(Start::Beginning);
    for ms in 1..=3 {
        let one = next(&mut consumer).await;
        assert_eq!(one.id, id(ms));
        one.ack().await.unwrap();
    }
    theirs.group("g").set_id(Start::Beginning).await.unwrap();
    proxy.next(1, read_script(), Action::SwallowReply);
    add(&theirs, [4]).await;
    for ms in 1..=4 {
        assert_eq!(next(&mut consumer).await.id, id(ms));
    }
    assert_eq!(proxy.counts().swallowed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn claimed_and_new_entries_alternate_despite_a_lost_reply() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let (client, elsewhere) = (through(&proxy, &server, 300).await, client(&server).await);
    let theirs: Texts = Stream::new(&elsewhere, "s");
    add(&theirs, 1..=5).await;
    let group = theirs.group("g");
    group.create().from_start().await.unwrap();
    assert_eq!(group.read("dead").limit(3).await.unwrap().len(), 3);
    let idles = ["XCLAIM", "s", "g", "dead", "0", "1-0", "2-0", "3-0", "IDLE", "3600000"];
    observer.cmd(&idles).await.unwrap();
    let consumer = Texts::new(&client, "s").group("g").consumer("c");
    let mut consumer = consumer.page(1).claim_idle(Duration::from_secs(600));
    let mut hand = vec![next(&mut consumer).await, next(&mut consumer).await];
    assert_eq!(hand[1].attempt(), 1, "a new entry follows the first claimed one");
    // The reply with the second claimed entry is lost, and the entry is delivered all the same.
    // Entries that the caller still has are not delivered again.
    proxy.next(1, "XAUTOCLAIM", Action::SwallowReply);
    hand.push(next(&mut consumer).await);
    assert_eq!(proxy.counts().swallowed, 1);
    hand.push(next(&mut consumer).await);
    // A new entry is delivered in the same way if its reply is lost.
    proxy.next(1, read_script(), Action::SwallowReply);
    add(&theirs, [6]).await;
    hand.extend([next(&mut consumer).await, next(&mut consumer).await]);
    let told: Vec<_> = hand.iter().map(|one| one.id.ms).collect();
    assert_eq!(told, [1, 4, 2, 3, 5, 6]);
    let given: Vec<_> = hand.iter().map(Delivery::attempt).collect();
    assert!(given[0] >= 2 && given[1] == 1 && given[2] >= 3 && given[4] >= 2 && given[5] == 1, "{given:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_set_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let (client, elsewhere) = (through(&proxy, &server, 300).await, client(&server).await);
    let theirs: Texts = Stream::new(&elsewhere, "s");
    add(&theirs, [1]).await;
    theirs.group("g").create().from_start().await.unwrap();
    proxy.next(1, "SETID", Action::SwallowReply);
    let told = Texts::new(&client, "s").group("g").set_id(Start::End).await;
    assert!(matches!(told, Err(StreamError::Object(ObjectError::Failed(Failure::OutcomeUnknown { .. })))), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_a_wrong_counter_hides_no_other() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    add(&stream, 1..=2).await;
    stream.group("g").create().from_start().await.unwrap();
    // Redis 6.2 has no such counter.
    if stream.group("h").create().from_start().entries_read(1_000).await.is_ok() {
        let known = stream.groups().await.unwrap();
        assert_eq!(known.len(), 2);
        assert!(known.iter().all(|group| group.lag.is_none_or(|lag| lag <= 2)), "{known:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_entry_hides_no_other() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let stream: Texts = Stream::new(&client, "s");
    add(&stream, [1]).await;
    observer.cmd(&["XADD", "s", "2-0", "{", "7"]).await.unwrap();
    add(&stream, [3]).await;
    let told = |all: Vec<Result<Entry<String, u32>, StreamError>>| -> Vec<Result<u64, u64>> {
        let one = |one: Result<Entry<String, u32>, StreamError>| match one {
            Ok(entry) => Ok(entry.id.ms),
            Err(StreamError::Undecodable { id, .. }) => Err(id.ms),
            Err(other) => panic!("{other:?}"),
        };
        all.into_iter().map(one).collect()
    };
    let all = [Ok(1), Err(2), Ok(3)];
    for name in ["g", "h"] {
        stream.group(name).create().from_start().await.unwrap();
    }
    assert_eq!(told(stream.group("h").read("c").no_ack().await.unwrap()), all);
    let group = stream.group("g");
    assert_eq!(told(group.read("c").await.unwrap()), all);
    assert_eq!(told(group.read_pending("c", EntryId::MIN, 9).await.unwrap()), all);
    assert_eq!(told(group.claim("d", Duration::ZERO, [id(1), id(2)]).await.unwrap()), all[..2]);
    // The returned id continues after the undecodable entry.
    let claimed = group.auto_claim("c", Duration::ZERO, id(2), 1).await.unwrap();
    assert_eq!((claimed.next, told(claimed.entries)), (Some(id(3)), vec![Err(2)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_entry_does_not_hide_pending_ones() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    add(&stream, 1..=5).await;
    let group = stream.group("g");
    group.create().from_start().await.unwrap();
    group.read("c").await.unwrap();
    stream.remove((1..=4).map(id)).await.unwrap();
    assert_eq!(group.read_pending("c", EntryId::MIN, 2).await.unwrap().len(), 1);
    assert!(group.read_pending("c", id(5), 2).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_with_an_invalid_name_ends() {
    let server = server().await;
    let client = client(&server).await;
    let mut consumer = Texts::new(&client, "").group("g").consumer("c");
    let told = consumer.next().await;
    assert!(matches!(told, Some(Err(StreamError::Object(ObjectError::Failed(Failure::InvalidName(_)))))), "{told:?}");
    assert!(consumer.next().await.is_none());
}

/// Without permission for the poll, only messages and the check every five seconds find entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_wakes_waiters() {
    let server = server().await;
    let (client, elsewhere, observer) =
        (client(&server).await, client(&server).await, server.observer().await.unwrap());
    let (stream, theirs): (Texts, Texts) = (Stream::new(&client, "s"), Stream::new(&elsewhere, "s"));
    stream.group("g").create().from_start().make_stream().await.unwrap();
    observer.cmd(&["ACL", "SETUSER", "default", "-xread"]).await.unwrap();
    let mut took = Duration::ZERO;
    for n in 1..=4 {
        let before = calls_of(&observer, "xreadgroup").await;
        let group = stream.group("g");
        let waiter = tokio::spawn(async move { group.read("c").timeout(SOON).await.unwrap().len() });
        let channel = "redgrid_stream__channel:{s}".to_owned();
        let listens = async || observer.pubsub_channels("*").await.unwrap().contains(&channel);
        wait_until(SOON, async || listens().await && calls_of(&observer, "xreadgroup").await > before).await;
        let began = Stopwatch::start();
        add(&theirs, [n]).await;
        assert_eq!(waiter.await.unwrap(), 1);
        took += began.elapsed();
    }
    assert!(took < Duration::from_secs(8), "{took:?}");
}
