//! Large lists: page by page, and in chunks.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use redgrid_core::{Client, Failure};
use redgrid_list::codecs::{Long, Text};
use redgrid_list::{List, ObjectError};
use redgrid_testkit::{Observer, RedisServer};
use redgrid_tests::{calls_of, client, server};

async fn of(client: &Client, name: &str, all: &[i64]) -> List<i64, Long> {
    let list: List<i64, Long> = List::new(client, name);
    list.push_many(all).await.unwrap();
    list
}

async fn fixture() -> (RedisServer, Client, Observer) {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    (server, client, observer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_list_is_streamed_page_by_page() {
    let (_server, client, observer) = fixture().await;
    let all: Vec<i64> = (0..5000).collect();
    let list = of(&client, "large", &all).await;
    assert_eq!((list.len().await.unwrap(), calls_of(&observer, "rpush").await), (5000, 10));
    assert_eq!(list.stream().try_collect::<Vec<i64>>().await.unwrap(), all);
    assert_eq!(calls_of(&observer, "lrange").await, 51);
    assert_eq!(list.stream().page(700).try_collect::<Vec<i64>>().await.unwrap(), all);
    assert_eq!(list.stream_from(4990).page(1).try_collect::<Vec<i64>>().await.unwrap(), all[4990..]);
    let mut last_first = list.stream_reversed().page(333).try_collect::<Vec<i64>>().await.unwrap();
    last_first.reverse();
    assert_eq!(last_first, all);
    assert_eq!(list.get_each((0..5000).rev()).await.unwrap().len(), 5000);
    // The stream is `Send`, and a caller that stops early has read only the pages it took.
    let before = calls_of(&observer, "lrange").await;
    assert_eq!(tokio::spawn(list.stream().page(10).take(20).count()).await.unwrap(), 20);
    assert_eq!(calls_of(&observer, "lrange").await, before + 2);
    let none: List<i64, Long> = List::new(&client, "none");
    assert_eq!(none.stream().try_next().await.unwrap(), None);
    assert_eq!(none.stream_reversed().try_next().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_by_index_while_others_change_the_list() {
    let (_server, client, _observer) = fixture().await;
    let list = of(&client, "moving", &(0..30).collect::<Vec<_>>()).await;
    let mut on = list.stream().page(10);
    let mut back = list.stream_reversed().page(10);
    assert_eq!((on.try_next().await.unwrap(), back.try_next().await.unwrap()), (Some(0), Some(29)));
    list.delete_at(0).await.unwrap();
    list.push(&30).await.unwrap();
    let on: Vec<i64> = on.try_collect().await.unwrap();
    assert_eq!(on, (1..10).chain(11..31).collect::<Vec<_>>(), "10 has moved up and is missed; added elements follow");
    let back: Vec<i64> = back.try_collect().await.unwrap();
    let twice = (20..29).rev().chain((11..21).rev()).chain((1..11).rev());
    assert_eq!(back, twice.collect::<Vec<_>>(), "20 has moved up and comes twice; added elements do not follow");
    let list = of(&client, "growing", &(0..20).collect::<Vec<_>>()).await;
    let mut on = list.stream().page(10);
    let mut back = list.stream_reversed().page(10);
    assert_eq!((on.try_next().await.unwrap(), back.try_next().await.unwrap()), (Some(0), Some(19)));
    list.insert(5, &99).await.unwrap();
    assert_eq!(on.try_collect::<Vec<i64>>().await.unwrap(), (1..10).chain(9..20).collect::<Vec<_>>(), "9 comes twice");
    let missed = (10..19).rev().chain((5..9).rev()).chain([99]).chain((0..5).rev());
    assert_eq!(back.try_collect::<Vec<i64>>().await.unwrap(), missed.collect::<Vec<_>>(), "9 is missed");
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_of_a_stream_get_each_page_once() {
    let (server, one, observer) = fixture().await;
    let two = client(&server).await;
    let all: Vec<i64> = (0..2000).collect();
    let list = of(&one, "shared", &all).await;
    let there: List<i64, Long> = List::new(&two, "shared");
    let streams = [list.shared_stream(), there.shared_stream(), list.shared_stream(), there.shared_stream()];
    let tasks =
        streams.map(|stream| tokio::spawn(stream.page(30).take(3000).map(Result::unwrap).collect::<Vec<i64>>()));
    let mut had = Vec::new();
    for task in tasks {
        had.extend(task.await.unwrap());
    }
    assert_eq!((had.len(), had.into_iter().collect::<BTreeSet<_>>()), (2000, all.iter().copied().collect()));
    assert_eq!(list.shared_stream().try_next().await.unwrap(), None, "the end for all");
    let left = observer.time_to_live("__redisson_list_cursor_{shared}").await.unwrap().unwrap();
    assert!((3000..=3600).contains(&left.as_secs()), "{left:?}");
    assert!(there.restart_shared().await.unwrap() && !there.restart_shared().await.unwrap());
    assert_eq!(list.shared_stream().page(1).try_next().await.unwrap(), Some(0));
    assert_eq!(there.shared_stream().page(1).try_next().await.unwrap(), Some(1));
    assert_eq!(there.shared_stream_by("another").page(1).try_next().await.unwrap(), Some(0));
    assert!(list.restart_shared_by("another").await.unwrap());
    // The cursor is Redisson's, whatever the name.
    let tagged = of(&one, "{shared}:tagged", &[1, 2]).await;
    assert_eq!(tagged.shared_stream().page(1).try_next().await.unwrap(), Some(1));
    assert!(observer.exists("__redisson_list_cursor_{{shared}:tagged}").await.unwrap());
    let invalid = list.shared_stream_by("{}").try_next().await.unwrap_err();
    assert!(matches!(invalid, ObjectError::Failed(Failure::InvalidName(_))), "{invalid:?}");
}

/// A key that is not a cursor stays unchanged. A cursor's name may be that of any key.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_cursor_is_neither_moved_nor_removed() {
    let (_server, client, observer) = fixture().await;
    let list = of(&client, "list", &[1, 2, 3]).await;
    for words in [
        &["SET", "stock", "7"][..],
        &["SET", "text", "abc", "EX", "600"],
        &["SET", "huge", "99999999999999999999", "EX", "600"],
        &["RPUSH", "orders", "1"],
    ] {
        observer.cmd(words).await.unwrap();
        let name = words[1];
        let before: Vec<u8> = observer.query(&["DUMP", name]).await.unwrap();
        let taken = list.shared_stream_by(name).try_next().await.unwrap_err();
        let restarted = list.restart_shared_by(name).await.unwrap_err();
        for told in [taken, restarted] {
            assert!(matches!(told, ObjectError::Failed(Failure::Refused { .. })), "{name}: {told:?}");
            let words = told.to_string();
            assert!(name == "orders" || words.contains("a cursor is an index with a lifetime"), "{words}");
        }
        let after: Vec<u8> = observer.query(&["DUMP", name]).await.unwrap();
        assert_eq!(before, after, "{name}");
    }
    assert_eq!(observer.time_to_live("stock").await.unwrap(), None);
    for told in
        [list.shared_stream_by("list").try_next().await.unwrap_err(), list.restart_shared_by("list").await.unwrap_err()]
    {
        assert!(matches!(told, ObjectError::Failed(Failure::InvalidArgument { option: "cursor", .. })), "{told:?}");
    }
    assert_eq!(list.read_all().await.unwrap(), [1, 2, 3]);
    // A cursor of Redisson, and one after the last page.
    observer.cmd(&["SET", "mine", "2", "EX", "600"]).await.unwrap();
    assert_eq!(list.shared_stream_by("mine").page(2).try_collect::<Vec<i64>>().await.unwrap(), [3]);
    assert_eq!(list.shared_stream_by("mine").try_next().await.unwrap(), None);
    assert!(list.restart_shared_by("mine").await.unwrap() && !list.restart_shared_by("mine").await.unwrap());
}

/// An insertion in front costs only the inserted elements, however long the list is.
#[tokio::test(flavor = "multi_thread")]
async fn many_elements_are_inserted_in_front_in_whole_chunks() {
    let (_server, client, observer) = fixture().await;
    let scripts = async || calls_of(&observer, "evalsha").await;
    let all: Vec<i64> = (0..5000).collect();
    let list = of(&client, "list", &[-1, -2, -3]).await;
    list.insert(1, &-9).await.unwrap();
    list.delete_at(1).await.unwrap();
    for at in [0, 1, 3] {
        let before = scripts().await;
        assert_eq!(list.insert_many(at, &all).await.unwrap(), 5003);
        assert_eq!(scripts().await - before, 10, "at {at}");
        let mut model = vec![-1, -2, -3];
        model.splice(at as usize..at as usize, all.clone());
        assert_eq!(list.stream().page(5000).try_collect::<Vec<i64>>().await.unwrap(), model);
        list.clear().await.unwrap();
        list.push_many(&[-1, -2, -3]).await.unwrap();
    }
    let none: List<i64, Long> = List::new(&client, "none");
    assert_eq!(none.insert_many(0, &all).await.unwrap(), 5000);
    assert_eq!(none.read_all().await.unwrap(), all);
    let told = none.insert_many(5001, &all).await.unwrap_err();
    assert!(matches!(told, ObjectError::OutOfBounds { index: 5001, len: 5000, .. }), "{told:?}");
}

/// Calls that would block the server for long are chunked, and complete.
#[tokio::test(flavor = "multi_thread")]
async fn bulk_calls_are_chunked() {
    let (_server, client, observer) = fixture().await;
    let all: Vec<i64> = (0..25_000).collect();
    let list = of(&client, "large", &all).await;
    let scripts = async || calls_of(&observer, "evalsha").await + calls_of(&observer, "eval").await;
    // At index 10,000, 25 elements are inserted at a time. The first request is sent twice, because
    // the server does not know its script.
    let more: Vec<i64> = (0..250).map(|n| -1 - n).collect();
    let before = scripts().await;
    assert_eq!(list.insert_many(10_000, &more).await.unwrap(), 25_250);
    assert_eq!(scripts().await - before, 11);
    let mut model = all.clone();
    model.splice(10_000..10_000, more.clone());
    assert_eq!(list.stream().page(5000).try_collect::<Vec<i64>>().await.unwrap(), model);
    // In a list of 25,250 elements, 9 values are searched at a time.
    let before = scripts().await;
    assert!(list.contains_all(&more[..100]).await.unwrap() && !list.contains_all(&[0, 99_999]).await.unwrap());
    assert_eq!(scripts().await - before, 14);
    let before = scripts().await;
    assert_eq!(list.remove_all(&more[..100]).await.unwrap(), 100);
    assert_eq!(scripts().await - before, 13);
    assert_eq!(list.retain_all(all.iter().filter(|n| *n % 5 == 0)).await.unwrap(), 20_150);
    let fives: Vec<i64> = all.iter().copied().filter(|n| n % 5 == 0).collect();
    assert_eq!(list.read_all().await.unwrap(), fives);
    let wide: List<String, Text> = List::new(&client, "wide");
    let values: Vec<String> = (10..27).map(|n| format!("{n}{}", "x".repeat(1 << 20))).collect();
    assert_eq!(wide.push_many(&values[..9]).await.unwrap(), 9);
    let told = wide.retain_all(&values).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::InvalidArgument { option: "values", .. })), "{told:?}");
    assert_eq!(wide.retain_all(std::iter::repeat_n(&values[3], 17)).await.unwrap(), 8);
    // The limit also holds for small values, because each step compares all of them.
    let many: Vec<i64> = (0..50_001).collect();
    let told = list.retain_all(&many).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::InvalidArgument { option: "values", .. })), "{told:?}");
    assert!(told.to_string().contains("up to 50000 different values, got 50001"), "{told}");
    assert_eq!(list.retain_all(many[1..].iter().chain(&many[1..])).await.unwrap(), 1);
}
