//! Groups of a stream: entries are delivered, acknowledged and claimed.

use std::ops::Bound;
use std::time::Duration;

use redgrid_core::Failure;
use redgrid_stream::{Entry, EntryId, Group, ObjectError, References, Removed, Start, Stream, StreamError};
use redgrid_testkit::{Action, Proxy};
use redgrid_tests::{SOON, client, client_with, server};

type Texts = Stream<String, u32>;
type OfTexts = Group<String, u32, redgrid_stream::codecs::Json, redgrid_stream::codecs::Json>;

fn id(ms: u64) -> EntryId {
    EntryId::new(ms, 0)
}

fn ids<K, V>(entries: &[Entry<K, V>]) -> Vec<u64> {
    entries.iter().map(|entry| entry.id.ms).collect()
}

/// The ids of delivered entries, each of which is a result of its own.
fn given<K, V>(entries: &[Result<Entry<K, V>, StreamError>]) -> Vec<u64> {
    entries.iter().map(|entry| entry.as_ref().expect("a decodable entry").id.ms).collect()
}

/// A stream with entries 1 to `last`, and a group that begins with them.
async fn filled(stream: &Texts, last: u64) -> OfTexts {
    for ms in 1..=last {
        stream.add("n", &(ms as u32)).id(id(ms)).await.unwrap();
    }
    let group = stream.group("g");
    group.create().from_start().make_stream().await.unwrap();
    group
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_created_moved_and_removed() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    let group = stream.group("g");
    let told = group.create().from_start().await;
    assert!(matches!(told, Err(StreamError::Object(ObjectError::Absent { .. }))), "{told:?}");
    let no_group = |error: StreamError| matches!(&error, StreamError::NoGroup { group, .. } if group == "g");
    for _ in 0..2 {
        assert!(!group.remove().await.unwrap());
        assert!(no_group(group.set_id(Start::End).await.unwrap_err()));
        assert!(no_group(group.create_consumer("c").await.unwrap_err()));
        assert!(no_group(group.remove_consumer("c").await.unwrap_err()));
        assert!(no_group(group.consumers().await.unwrap_err()));
        assert!(no_group(group.read("c").await.unwrap_err()));
        assert!(no_group(group.read_pending("c", EntryId::MIN, 1).await.unwrap_err()));
        assert!(no_group(group.pending().await.unwrap_err()));
        assert!(no_group(group.pending_entries().await.unwrap_err()));
        assert!(no_group(group.pending_entries().entries().await.unwrap_err()));
        assert!(no_group(group.claim("c", Duration::ZERO, [id(1)]).await.unwrap_err()));
        assert!(no_group(group.auto_claim("c", Duration::ZERO, id(1), 1).await.unwrap_err()));
        assert!(no_group(group.consumer("c").try_next().await.unwrap_err()));
        assert_eq!(group.ack([id(1)]).await.unwrap(), 0);
        // The first round runs without the stream, the second one with it.
        stream.add("n", &1).await.unwrap();
    }
    stream.object().delete().await.unwrap();
    let group = filled(&stream, 5).await;
    let told = group.create().from_start().await.unwrap_err();
    assert!(matches!(&told, StreamError::GroupExists { group, .. } if group == "g"), "{told:?}");
    stream.group("later").create().from(Start::After(id(3))).entries_read(3).await.unwrap();
    stream.group("end").create().from(Start::End).await.unwrap();
    let known = stream.groups().await.unwrap();
    let told = |known: &redgrid_stream::GroupInfo| (known.name.clone(), known.last_delivered.ms, known.lag);
    let mut told: Vec<_> = known.iter().map(told).collect();
    told.sort();
    assert_eq!(told, [("end".to_owned(), 5, Some(0)), ("g".into(), 0, Some(5)), ("later".into(), 3, Some(2))]);
    assert_eq!(given(&stream.group("later").read("c").await.unwrap()), [4, 5]);
    assert!(stream.group("end").read("c").await.unwrap().is_empty());
    assert_eq!(given(&group.read("c").await.unwrap()), [1, 2, 3, 4, 5]);
    group.set_id(Start::After(id(4))).await.unwrap();
    assert_eq!(given(&group.read("c").await.unwrap()), [5]);
    group.set_id(Start::Beginning).await.unwrap();
    assert_eq!(given(&group.read("c").limit(1).await.unwrap()), [1]);
    assert!(group.create_consumer("d").await.unwrap() && !group.create_consumer("d").await.unwrap());
    let mut consumers = group.consumers().await.unwrap();
    consumers.sort_by(|one, other| one.name.cmp(&other.name));
    let told: Vec<_> = consumers.iter().map(|one| (one.name.as_str(), one.pending)).collect();
    assert_eq!(told, [("c", 5), ("d", 0)]);
    assert_eq!((group.remove_consumer("c").await.unwrap(), group.remove_consumer("x").await.unwrap()), (5, 0));
    assert_eq!(group.pending().await.unwrap().total, 0);
    assert!(group.remove().await.unwrap() && !group.remove().await.unwrap());
    assert_eq!(stream.info().await.unwrap().unwrap().groups, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn delivered_entries_are_pending_until_acknowledged_or_claimed() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    let group = filled(&stream, 9).await;
    assert_eq!(given(&group.read("a").limit(4).await.unwrap()), [1, 2, 3, 4]);
    assert_eq!(given(&group.read("b").limit(2).await.unwrap()), [5, 6]);
    assert_eq!(given(&group.read("c").limit(1).no_ack().await.unwrap()), [7]);
    assert_eq!(given(&group.read_pending("a", id(1), 2).await.unwrap()), [2, 3]);
    let pending = group.pending().await.unwrap();
    assert_eq!((pending.total, pending.range), (6, Some((id(1), id(6)))));
    assert_eq!(pending.consumers, [("a".to_owned(), 4), ("b".to_owned(), 2)]);
    let told = group.pending_entries().range(id(2)..id(6)).await.unwrap();
    let told: Vec<_> = told.iter().map(|one| (one.id.ms, one.consumer.as_str(), one.deliveries)).collect();
    assert_eq!(told, [(2, "a", 2), (3, "a", 2), (4, "a", 1), (5, "b", 1)]);
    assert_eq!(group.pending_entries().consumer("b").limit(1).await.unwrap()[0].id, id(5));
    assert!(group.pending_entries().idle(SOON).await.unwrap().is_empty());
    assert!(group.pending_entries().range(id(3)..id(3)).await.unwrap().is_empty());
    assert_eq!(ids(&group.pending_entries().consumer("a").limit(3).entries().await.unwrap()), [1, 2, 3]);
    assert!(group.pending_entries().limit(10_001).entries().await.unwrap_err().to_string().contains("got 10001"));
    assert_eq!(group.ack([id(1), id(7), id(8)]).await.unwrap() + group.ack([]).await.unwrap(), 1);
    // Of a removed entry, only the id is left. No reply contains it, and a claim removes it from
    // the pending entries.
    stream.remove([id(3)]).await.unwrap();
    assert_eq!(given(&group.read_pending("a", EntryId::MIN, 9).await.unwrap()), [2, 4]);
    assert!(group.claim("b", SOON, [id(2)]).await.unwrap().is_empty(), "not idle for so long");
    assert_eq!(given(&group.claim("b", Duration::ZERO, [id(2), id(3), id(8)]).await.unwrap()), [2]);
    assert_eq!(group.fast_claim("b", Duration::ZERO, [id(4), id(9)]).await.unwrap(), [id(4)]);
    assert!(group.fast_claim("b", Duration::ZERO, []).await.unwrap().is_empty());
    assert_eq!(group.pending().await.unwrap().consumers, [("b".to_owned(), 4)]);
    let claimed = group.auto_claim("c", Duration::ZERO, EntryId::MIN, 2).await.unwrap();
    assert_eq!((given(&claimed.entries), claimed.next), (vec![2, 4], Some(id(5))));
    stream.remove([id(5)]).await.unwrap();
    let claimed = group.fast_auto_claim("c", Duration::ZERO, id(5), 9).await.unwrap();
    assert_eq!((claimed.entries, claimed.removed, claimed.next), (vec![id(6)], vec![id(5)], None));
    assert!(group.auto_claim("d", Duration::MAX, EntryId::MIN, 9).await.unwrap().entries.is_empty());
    assert!(group.pending_entries().idle(Duration::MAX).await.unwrap().is_empty());
    let beyond = (Bound::Excluded(EntryId::MAX), Bound::Unbounded);
    assert!(group.pending_entries().range(beyond).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn features_of_newer_servers_are_reported_as_unsupported() {
    let server = server().await;
    let client = client(&server).await;
    let left = async |stream: &Texts, of: &str| {
        let all = ids(&stream.range(..).await.unwrap());
        (all, stream.group(of).pending_entries().await.unwrap().iter().map(|one| one.id.ms).collect::<Vec<_>>())
    };
    // Both groups have 1 and 2 pending, and the second group has not delivered 3 yet. One call
    // removes 1, the other one 2, each together with an id that never existed.
    for (references, acknowledged, removed, theirs) in [
        (References::Keep, Removed::Removed, Removed::Removed, vec![1, 2]),
        (References::Remove, Removed::Removed, Removed::Removed, vec![]),
        (References::OnlyAcknowledged, Removed::Referred, Removed::Referred, vec![1, 2]),
    ] {
        let stream: Texts = Stream::new(&client, format!("s:{references:?}"));
        let group = filled(&stream, 3).await;
        let other = stream.group("other");
        other.create().from_start().await.unwrap();
        group.read("c").await.unwrap();
        other.read("c").limit(2).await.unwrap();
        let by_ack = group.ack_and_remove([id(1), EntryId::new(0, 1)], references).await;
        let by_none = stream.remove_with([id(2), EntryId::new(0, 1)], references).await;
        let (by_ack, by_none) = match (by_ack, by_none) {
            (Ok(by_ack), Ok(by_none)) => (by_ack, by_none),
            (told, other) => {
                for (command, told) in [("XACKDEL", told), ("XDELEX", other)] {
                    let told = told.unwrap_err();
                    assert!(
                        matches!(&told, StreamError::Unsupported { command: of, .. } if *of == command),
                        "{told:?}"
                    );
                    assert!(told.to_string().contains("it needs Redis 8.2 or newer"), "{}", told);
                }
                continue;
            }
        };
        assert_eq!((by_ack, by_none), (vec![acknowledged, Removed::Absent], vec![removed, Removed::Absent]));
        let stays = if removed == Removed::Referred { vec![1, 2, 3] } else { vec![3] };
        let ours = if references == References::Remove { vec![3] } else { vec![2, 3] };
        assert_eq!(left(&stream, "g").await, (stays.clone(), ours), "{references:?}");
        assert_eq!(left(&stream, "other").await, (stays, theirs), "{references:?}");
        // An entry without a remaining reference is removed.
        group.ack([id(3)]).await.unwrap();
        other.read("c").await.unwrap();
        assert_eq!(other.ack_and_remove([id(3)], references).await.unwrap(), [Removed::Removed]);
    }
    let group = Texts::new(&client, "s").group("g");
    assert!(group.ack_and_remove([], References::Keep).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_group_is_reported() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    let group = filled(&stream, 0).await;
    assert!(group.read("c").timeout(Duration::from_millis(50)).await.unwrap().is_empty());
    let waiting = group.clone();
    let waiter = tokio::spawn(async move { waiting.read("c").timeout(SOON).await.unwrap() });
    stream.add("n", &1).id(id(1)).await.unwrap();
    assert_eq!(given(&waiter.await.unwrap()), [1]);
    // A wait ends when its group is removed.
    let waiting = group.clone();
    let waiter = tokio::spawn(async move { waiting.read("c").timeout(2 * SOON).await });
    assert!(group.remove().await.unwrap());
    assert!(waiter.await.unwrap().unwrap_err().is_no_group());
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_lost_reply_are_pending() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let through = async || {
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(500))).await
    };
    // A lost reply replaces the connection, so the following requests use other clients.
    let (one, two, other) = (through().await, through().await, client(&server).await);
    let group = filled(&Stream::new(&other, "s"), 3).await;
    proxy.next(1, "XREADGROUP", Action::SwallowReply);
    let told = Texts::new(&one, "s").group("g").read("c").limit(2).await.unwrap_err();
    assert!(matches!(told, StreamError::Object(ObjectError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
    assert_eq!(given(&group.read("c").await.unwrap()), [3]);
    assert_eq!(given(&group.read_pending("c", EntryId::MIN, 9).await.unwrap()), [1, 2, 3]);
    proxy.next(1, "XACK", Action::SwallowReply);
    let told = Texts::new(&two, "s").group("g").ack([id(1)]).await;
    assert!(matches!(told, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
    assert_eq!(group.pending().await.unwrap().total, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_a_group_begins_with_new_entries() {
    let server = server().await;
    let client = client(&server).await;
    let stream: Texts = Stream::new(&client, "s");
    stream.add("n", &1).id(id(1)).await.unwrap();
    let (new, all) = (stream.group("new"), stream.group("all"));
    new.create().await.unwrap();
    all.create().from_start().await.unwrap();
    stream.add("n", &2).id(id(2)).await.unwrap();
    assert_eq!(given(&new.read("c").await.unwrap()), [2]);
    assert_eq!(given(&all.read("c").await.unwrap()), [1, 2]);
}
