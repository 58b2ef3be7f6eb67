//! Consumers of a group: each entry is delivered at least once.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use redgrid_core::Failure;
use redgrid_stream::{Consumer, Delivery, EntryId, ObjectError, Start, Stream, StreamError};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::process::Other;
use redgrid_tests::{SOON, client, client_with, server, sha};

pub(crate) type Texts = Stream<String, u32>;

pub(crate) fn id(ms: u64) -> EntryId {
    EntryId::new(ms, 0)
}

pub(crate) async fn add(stream: &Texts, entries: impl IntoIterator<Item = u64>) {
    for ms in entries {
        stream.add("n", &(ms as u32)).id(id(ms)).await.unwrap();
    }
}

pub(crate) async fn next(consumer: &mut Consumer<String, u32>) -> Delivery<String, u32> {
    let next = tokio::time::timeout(SOON, consumer.try_next()).await;
    next.expect("in time").unwrap().expect("the stream continues")
}

/// The next deliveries: the id of each entry, and its delivery count.
async fn given(consumer: &mut Consumer<String, u32>, count: usize) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for _ in 0..count {
        let one = next(consumer).await;
        all.push((one.id.ms, one.attempt()));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_reads_its_pending_entries_before_new_ones() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    add(&stream, 1..=5).await;
    let group = stream.group("g");
    group.create().from_start().await.unwrap();
    let mut first = group.consumer("c").page(2);
    let one = next(&mut first).await;
    assert_eq!((one.id, one.attempt(), one.get("n"), &one.entry().fields[..]), (id(1), 1, Some(&1), &one.fields[..]));
    one.ack().await.unwrap();
    one.ack().await.unwrap();
    assert_eq!(given(&mut first, 2).await, [(2, 1), (3, 1)]);
    // The consumer requests a page only when it needs more entries.
    assert_eq!(group.pending().await.unwrap().total, 3);
    drop(first);
    stream.remove([id(3)]).await.unwrap();
    let mut second = group.consumer("c").page(2);
    assert_eq!(given(&mut second, 3).await, [(2, 2), (4, 2), (5, 1)]);
    assert_eq!(group.pending().await.unwrap().total, 3, "a removed entry is not pending");
    // An entry that any client adds wakes the consumer.
    let woken = tokio::spawn(async move { (next(&mut second).await, second) });
    add(&stream, [6]).await;
    let (six, mut second) = woken.await.unwrap();
    assert_eq!(six.into_entry().id, id(6));
    let woken = tokio::spawn(async move { next(&mut second).await.id });
    server.observer().await.unwrap().cmd(&["XADD", "s", "7-0", "\"n\"", "7"]).await.unwrap();
    assert_eq!(woken.await.unwrap(), id(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_entry_is_reported_and_stays_pending() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    add(&stream, [1]).await;
    server.observer().await.unwrap().cmd(&["XADD", "s", "2-0", "{", "7"]).await.unwrap();
    add(&stream, [3]).await;
    let group = stream.group("g");
    let mut consumer = group.consumer("c").create_if_missing(Start::Beginning);
    next(&mut consumer).await.ack().await.unwrap();
    let told = consumer.try_next().await.unwrap_err();
    assert!(matches!(told, StreamError::Undecodable { id: bad, .. } if bad == id(2)), "{told:?}");
    next(&mut consumer).await.ack().await.unwrap();
    assert_eq!(group.pending().await.unwrap().range, Some((id(2), id(2))));
    assert_eq!(group.ack([id(2)]).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_group_is_reported_or_recreated() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    let group = stream.group("g");
    let (mut plain, mut making) = (group.consumer("a"), group.consumer("b").create_if_missing(Start::Beginning));
    assert!(plain.try_next().await.unwrap_err().is_no_group());
    // A consumer that may create the group creates it with the stream; then the others continue.
    let made = tokio::spawn(async move { (next(&mut making).await.id, making) });
    wait_until(SOON, async || group.consumers().await.is_ok()).await;
    add(&stream, [1]).await;
    let (one, mut making) = made.await.unwrap();
    assert_eq!(one, id(1));
    stream.object().delete().await.unwrap();
    assert!(plain.try_next().await.unwrap_err().is_no_group());
    add(&stream, [1]).await;
    assert_eq!(next(&mut making).await.id, id(1), "in a new stream, and a new group");
    add(&stream, [2]).await;
    let two = next(&mut plain).await.id;
    assert_eq!(two, id(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_lost_replies_each_entry_reaches_its_consumer() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(300))).await;
    let elsewhere = redgrid_tests::client(&server).await;
    let (stream, theirs): (Texts, Texts) = (Stream::new(&client, "s"), Stream::new(&elsewhere, "s"));
    add(&theirs, 1..=9).await;
    let group = stream.group("g");
    let mut consumer = group.consumer("c").page(3).create_if_missing(Start::Beginning);
    let hand = [next(&mut consumer).await, next(&mut consumer).await, next(&mut consumer).await];
    assert_eq!(hand.each_ref().map(|one| (one.id.ms, one.attempt())), [(1, 1), (2, 1), (3, 1)]);
    // Entries that the caller still has are not delivered again.
    proxy.next(1, sha(include_str!("../../crates/redgrid-stream/src/scripts/read_group.lua")), Action::SwallowReply);
    let mut told = Vec::from(hand);
    for _ in 0..6 {
        told.push(next(&mut consumer).await);
    }
    assert_eq!(told.iter().map(|one| one.id.ms).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
    assert!(told[3].attempt() >= 2 && told[6].attempt() == 1, "{told:?}");
    assert_eq!(proxy.counts().swallowed, 1);
    // Without contact, the consumer returns an error, and continues after it.
    proxy.refuse_connections().await.unwrap();
    proxy.cut_all();
    let told = tokio::time::timeout(SOON, consumer.try_next()).await.unwrap().unwrap_err();
    assert!(matches!(told, StreamError::Object(ObjectError::Failed(Failure::Unavailable { .. }))), "{told:?}");
    proxy.accept_connections().await.unwrap();
    add(&theirs, [10]).await;
    let ten = async {
        loop {
            match consumer.try_next().await {
                Ok(one) => return one.unwrap().id,
                Err(StreamError::Object(ObjectError::Failed(Failure::Unavailable { .. }))) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(tokio::time::timeout(SOON, ten).await.unwrap(), id(10));
    let pending = theirs.group("g").pending().await.unwrap();
    assert_eq!((pending.total, pending.consumers.len()), (10, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_dead_consumer_are_claimed() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    add(&stream, 1..=7).await;
    let group = stream.group("g");
    group.create().from_start().await.unwrap();
    assert_eq!(group.read("dead").limit(5).await.unwrap().len(), 5);
    // The entries of the dead consumer have not been idle for `SOON` yet.
    let mut patient = group.consumer("patient").claim_idle(SOON).page(1);
    assert_eq!(given(&mut patient, 1).await, [(6, 1)]);
    let mut quick = group.consumer("quick").claim_idle(Duration::from_millis(500)).page(2);
    let mut told = Vec::new();
    let mut second = BTreeSet::new();
    while second.len() < 5 {
        let one = next(&mut quick).await;
        one.ack().await.unwrap();
        told.push((one.id.ms, one.attempt()));
        second.extend((one.id.ms < 6).then_some(one.id.ms));
    }
    // Claimed entries are delivered for the second time. New entries do not wait behind all of
    // them.
    assert!(told.iter().take(4).any(|(id, _)| *id >= 6), "{told:?}");
    assert!(told.iter().filter(|(id, _)| *id < 6).all(|(_, attempt)| *attempt >= 2), "{told:?}");
    assert_eq!(second, (1..=5).collect());
    drop(quick);
    assert!(group.pending().await.unwrap().consumers.iter().all(|(name, _)| name != "dead"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_read_loses_no_entry() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    let group = stream.group("g");
    group.create().from_start().make_stream().await.unwrap();
    let mut all = BTreeSet::new();
    let mut consumer = group.consumer("c").page(3);
    for round in 1..=40_u64 {
        add(&stream, [round]).await;
        // Some rounds drop only the future, some also drop the consumer.
        if let Some(one) = at_most(fastrand::usize(1..4), consumer.try_next()).await {
            let one = one.unwrap().unwrap();
            one.ack().await.unwrap();
            all.insert(one.id.ms);
        }
        if round % 7 == 0 {
            consumer = group.consumer("c").page(3);
        }
    }
    while all.len() < 40 {
        let one = next(&mut consumer).await;
        one.ack().await.unwrap();
        all.insert(one.id.ms);
    }
    assert_eq!((all, group.pending().await.unwrap().total), ((1..=40).collect(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_ends_with_its_client() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    let mut consumer = stream.group("g").consumer("c").create_if_missing(Start::Beginning);
    let ended = tokio::spawn(async move { (consumer.next().await, consumer.next().await, consumer) });
    wait_until(SOON, async || stream.group("g").consumers().await.is_ok()).await;
    client.shutdown(SOON).await.unwrap();
    let (told, end, _) = tokio::time::timeout(SOON, ended).await.unwrap().unwrap();
    assert!(
        matches!(told, Some(Err(StreamError::Object(ObjectError::Failed(Failure::ShuttingDown { .. }))))),
        "{told:?}"
    );
    assert!(end.is_none());
}

/// No entry is lost when consumers are killed at random. `REDGRID_STREAM_ENTRIES` sets another
/// number of entries.
#[tokio::test(flavor = "multi_thread")]
async fn killed_consumers_lose_no_entry() {
    let entries = std::env::var("REDGRID_STREAM_ENTRIES").ok().and_then(|n| n.parse().ok()).unwrap_or(600_u64);
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let stream: Stream<String, u64> = Stream::new(&client, "s");
    let url = server.url();
    // One consumer keeps its name. The others have a new one each time, and their entries are
    // claimed.
    let start = async |place: usize, life: u64| {
        let name = if place == 0 { "kept".to_owned() } else { format!("{place}:{life}") };
        Other::start(env!("CARGO_BIN_EXE_role"), &["stream_consumer", &url, "s", "g", &name, "300"]).await
    };
    let mut others = Vec::new();
    for place in 0..3 {
        others.push(Some(start(place, 0).await));
    }
    let adding = stream.clone();
    let (killed, mut kill) = tokio::sync::watch::channel(0_u64);
    let added = tokio::spawn(async move {
        for n in 0..entries {
            // The second half is added after six kills.
            if n == entries / 2 {
                kill.wait_for(|kills| *kills >= 6).await.unwrap();
            }
            adding.add("n", &n).await.unwrap();
        }
    });
    let (mut kills, mut done) = (0_u64, 0);
    let mut began = tokio::time::Instant::now();
    while done < entries {
        if kills < 6 || fastrand::u8(..20) == 0 {
            let place = fastrand::usize(..3);
            if let Some(other) = others[place].take() {
                other.kill().await;
            }
            kills += 1;
            others[place] = Some(start(place, kills).await);
            killed.send_replace(kills);
            if kills == 6 {
                began = tokio::time::Instant::now();
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        done = observer.query(&["SCARD", "s:done"]).await.unwrap();
        assert!(
            kills < 6 || began.elapsed() < SOON + Duration::from_millis(entries * 10),
            "{done} of {entries} after {kills} kills"
        );
    }
    added.await.unwrap();
    assert!(kills >= 6, "{kills} kills of {entries} entries");
    let given: u64 = observer.query(&["GET", "s:given"]).await.unwrap();
    // A consumer that is killed between its two commands has done its entry and counted nothing.
    let (took, again) = (began.elapsed(), given.saturating_sub(entries));
    println!("{entries} entries, {kills} kills, {took:?}: 0 lost, {again} given again after they were worked on");
    // All entries are acknowledged, so none is delivered again.
    let group = stream.group("g");
    wait_until(SOON, async || group.pending().await.is_ok_and(|pending| pending.total == 0)).await;
}
