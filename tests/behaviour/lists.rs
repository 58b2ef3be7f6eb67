//! Lists.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use redgrid_core::{Code, Failure, ServerError};
use redgrid_list::codecs::{Double, Long, Text};
use redgrid_list::{List, ObjectError, Occurrences};
use redgrid_testkit::{Action, Proxy};
use redgrid_tests::{client, client_with, server, sha};

const LENGTH: u64 = 5;

async fn five<C: redgrid_list::Encode<i64>>(list: &List<i64, C>) {
    assert_eq!(list.push_many(&[10, 20, 30, 20, 10]).await.unwrap(), LENGTH);
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_are_read_and_changed() {
    let server = server().await;
    let client = client(&server).await;
    let list: List<i64> = List::new(&client, "list");
    assert!(list.is_empty().await.unwrap() && !list.clear().await.unwrap());
    assert_eq!(
        (list.first().await.unwrap(), list.last().await.unwrap(), list.pop().await.unwrap()),
        (None, None, None)
    );
    assert_eq!((list.push(&10).await.unwrap(), list.push(&20).await.unwrap()), (1, 2));
    assert!(list.clear().await.unwrap());
    five(&list).await;
    assert_eq!((list.get(1).await.unwrap(), list.get(5).await.unwrap()), (Some(20), None));
    assert_eq!((list.first().await.unwrap(), list.last().await.unwrap()), (Some(10), Some(10)));
    assert_eq!(list.get_each([4, 9, 2, 4]).await.unwrap(), [Some(10), None, Some(30), Some(10)]);
    assert_eq!((list.index_of(&20).await.unwrap(), list.last_index_of(&20).await.unwrap()), (Some(1), Some(3)));
    assert_eq!((list.index_of(&40).await.unwrap(), list.last_index_of(&40).await.unwrap()), (None, None));
    assert!(list.contains(&30).await.unwrap() && !list.contains(&40).await.unwrap());
    assert!(list.contains_all(&[10, 30, 10]).await.unwrap() && list.contains_all(&[]).await.unwrap());
    assert!(!list.contains_all(&[10, 40, 30]).await.unwrap());
    assert_eq!((list.replace(0, &11).await.unwrap(), list.set(4, &12).await.unwrap()), (10, ()));
    assert!(!list.compare_and_set(1, &21, &22).await.unwrap() && list.compare_and_set(1, &20, &21).await.unwrap());
    assert!(!list.compare_and_set(5, &20, &21).await.unwrap());
    assert_eq!(
        (list.update_at(2, |n| *n += 1).await.unwrap(), list.update_at(5, |n| *n += 1).await.unwrap()),
        (Some(31), None)
    );
    assert_eq!(list.read_all().await.unwrap(), [11, 21, 31, 20, 12]);
    assert_eq!(
        (list.insert(0, &1).await.unwrap(), list.insert(6, &2).await.unwrap(), list.insert(3, &3).await.unwrap()),
        (6, 7, 8)
    );
    assert_eq!(list.insert_many(2, &[4, 5, 6]).await.unwrap(), 11);
    assert_eq!(list.read_all().await.unwrap(), [1, 11, 4, 5, 6, 21, 3, 31, 20, 12, 2]);
    assert_eq!(
        (list.insert_before(&5, &7).await.unwrap(), list.insert_after(&5, &8).await.unwrap()),
        (Some(12), Some(13))
    );
    assert_eq!((list.insert_before(&50, &7).await.unwrap(), list.insert_after(&50, &8).await.unwrap()), (None, None));
    assert_eq!(list.range(2..8).await.unwrap(), [4, 7, 5, 8, 6, 21]);
    assert_eq!(
        (list.remove_at(0).await.unwrap(), list.remove_at(2).await.unwrap(), list.remove_at(8).await.unwrap()),
        (1, 7, 20)
    );
    assert_eq!((list.delete_at(9).await.unwrap(), list.pop().await.unwrap()), ((), Some(12)));
    assert_eq!(list.read_all().await.unwrap(), [11, 4, 5, 8, 6, 21, 3, 31]);
    list.trim(1..=4).await.unwrap();
    assert_eq!(list.read_all().await.unwrap(), [4, 5, 8, 6]);
    assert!(list.remove(&8).await.unwrap() && !list.remove(&8).await.unwrap());
    list.clear().await.unwrap();
    list.push_many(&[1, 2, 1, 3, 1, 2, 1]).await.unwrap();
    assert_eq!(list.remove_some(&1, Occurrences::First(1)).await.unwrap(), 1);
    assert_eq!(list.remove_some(&1, Occurrences::Last(2)).await.unwrap(), 2);
    assert_eq!(list.read_all().await.unwrap(), [2, 1, 3, 2]);
    assert_eq!(
        (list.remove_some(&2, Occurrences::All).await.unwrap(), list.remove_some(&9, Occurrences::All).await.unwrap()),
        (2, 0)
    );
    list.push_many(&[1, 4, 3]).await.unwrap();
    assert_eq!((list.remove_all(&[4, 9, 1]).await.unwrap(), list.read_all().await.unwrap()), (3, vec![3, 3]));
    list.push_many(&[5, 3, 6]).await.unwrap();
    assert_eq!((list.retain_all(&[5, 6]).await.unwrap(), list.read_all().await.unwrap()), (3, vec![5, 6]));
    assert_eq!(list.retain_all(&[]).await.unwrap(), 2);
    assert!(!list.object().exists().await.unwrap(), "without elements there is no list");
    assert_eq!((list.retain_all(&[1]).await.unwrap(), list.remove_all(&[1]).await.unwrap()), (0, 0));
}

fn is_out(told: &ObjectError, at: u64, has: u64) -> bool {
    matches!(told, ObjectError::OutOfBounds { index, len, .. } if (*index, *len) == (at, has))
}

/// Returns the argument that the error names.
fn named(told: &ObjectError) -> &str {
    match told {
        ObjectError::Failed(Failure::InvalidArgument { option, .. }) => option,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_out_of_bounds_are_reported_and_change_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let list: List<i64> = List::new(&client, "list");
    for told in [
        list.set(0, &1).await.unwrap_err(),
        list.replace(0, &1).await.unwrap_err(),
        list.remove_at(0).await.unwrap_err(),
        list.delete_at(0).await.unwrap_err(),
    ] {
        assert!(is_out(&told, 0, 0), "{told:?}");
    }
    five(&list).await;
    for at in [LENGTH, LENGTH + 1, i64::MAX as u64] {
        assert!(is_out(&list.set(at, &1).await.unwrap_err(), at, LENGTH));
        assert!(is_out(&list.remove_at(at).await.unwrap_err(), at, LENGTH));
        let told = list.delete_at(at).await.unwrap_err();
        assert!(is_out(&told, at, LENGTH));
        assert_eq!(told.to_string(), format!("`list` has 5 elements, and none at index {at}"));
        assert_eq!((list.get(at).await.unwrap(), list.update_at(at, |n| *n += 1).await.unwrap()), (None, None));
        assert_eq!(list.range(at..).await.unwrap(), [0; 0]);
        assert_eq!(list.stream_from(at).try_collect::<Vec<_>>().await.unwrap(), [0; 0]);
    }
    assert!(is_out(&list.insert(6, &1).await.unwrap_err(), 6, LENGTH));
    assert!(is_out(&list.insert_many(6, &[1, 2]).await.unwrap_err(), 6, LENGTH));
    assert!(is_out(&list.insert_many(6, &[]).await.unwrap_err(), 6, LENGTH));
    assert_eq!((list.insert_many(5, &[]).await.unwrap(), list.push_many(&[]).await.unwrap()), (LENGTH, LENGTH));
    let beyond = i64::MAX as u64 + 1;
    for told in [
        list.get(beyond).await.unwrap_err(),
        list.get_each([0, beyond]).await.unwrap_err(),
        list.set(beyond, &1).await.unwrap_err(),
        list.replace(beyond, &1).await.unwrap_err(),
        list.compare_and_set(beyond, &1, &2).await.unwrap_err(),
        list.update_at(beyond, |_| {}).await.unwrap_err(),
        list.insert(beyond, &1).await.unwrap_err(),
        list.insert_many(beyond, &[]).await.unwrap_err(),
        list.remove_at(beyond).await.unwrap_err(),
        list.delete_at(beyond).await.unwrap_err(),
        list.stream_from(beyond).try_next().await.unwrap_err(),
    ] {
        assert_eq!(named(&told), "index");
        assert!(told.to_string().contains("up to 9223372036854775807, got 9223372036854775808"), "{told}");
    }
    #[expect(clippy::reversed_empty_ranges, reason = "the list rejects such ranges")]
    let told = [
        list.range(3..2).await.map(drop).unwrap_err(),
        list.trim(3..2).await.unwrap_err(),
        list.range(beyond..).await.map(drop).unwrap_err(),
    ];
    assert!(told.iter().all(|told| named(told) == "range"), "{told:?}");
    assert_eq!((list.range(3..3).await.unwrap(), list.range(9..12).await.unwrap()), (vec![], vec![]));
    assert_eq!((list.range(3..99).await.unwrap(), list.range(..=0).await.unwrap()), (vec![20, 10], vec![10]));
    assert_eq!(named(&list.trim(2..2).await.unwrap_err()), "range");
    assert_eq!(named(&list.remove_some(&1, Occurrences::First(0)).await.unwrap_err()), "occurrences");
    assert_eq!(named(&list.remove_some(&1, Occurrences::Last(beyond)).await.unwrap_err()), "occurrences");
    assert_eq!(list.read_all().await.unwrap(), [10, 20, 30, 20, 10]);
    list.trim(7..).await.unwrap();
    assert!(list.is_empty().await.unwrap());
    assert!(matches!(List::<u8>::new(&client, "{}").len().await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
}

/// No element is mistaken for a mark. A script marks elements for removal with a value that no
/// element has.
#[tokio::test(flavor = "multi_thread")]
async fn no_element_is_taken_for_a_mark() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let list: List<String, Text> = List::new(&client, "list");
    let (remove_at, insert, retain) = (
        include_str!("../../crates/redgrid-list/src/scripts/remove_at.lua"),
        include_str!("../../crates/redgrid-list/src/scripts/insert.lua"),
        include_str!("../../crates/redgrid-list/src/scripts/retain_all.lua"),
    );
    // The elements equal all values that the scripts would try as marks, one after another.
    let marks: Vec<String> = std::iter::successors(Some("mark".to_owned()), |mark| Some(sha(mark))).take(3).collect();
    let all: Vec<String> = (0..12).map(|n| marks[n % 3].clone()).collect();
    for at in 0..12 {
        list.push_many(&all).await.unwrap();
        let index = at.to_string();
        let (done, was): (u8, String) =
            observer.query(&["EVAL", remove_at, "1", "list", &index, "mark", "1"]).await.unwrap();
        let mut left = all.clone();
        assert_eq!((done, was), (1, left.remove(at)));
        assert_eq!(list.read_all().await.unwrap(), left, "without {at}");
        list.clear().await.unwrap();
        list.push_many(&all).await.unwrap();
        let done: (u8, u8) = observer
            .query(&["EVAL", insert, "1", "list", &index, "mark", "1000", "0", &marks[0], "new", &marks[2]])
            .await
            .unwrap();
        let mut more = all.clone();
        more.splice(at..at, [marks[0].clone(), "new".to_owned(), marks[2].clone()]);
        assert_eq!(done, (3, 15));
        assert_eq!(list.read_all().await.unwrap(), more, "inserted at {at}");
        // An inserted element is not mistaken for a mark either.
        list.clear().await.unwrap();
        list.push_many(&["a", "b"].map(String::from)).await.unwrap();
        let words = ["EVAL", insert, "1", "list", "1", "mark", "1000", "0", &marks[0], "new", &marks[1]];
        assert_eq!(observer.query::<(u8, u8)>(&words).await.unwrap(), (3, 5));
        assert_eq!(list.read_all().await.unwrap(), ["a", &marks[0], "new", &marks[1], "b"]);
        list.clear().await.unwrap();
        list.push_many(&all).await.unwrap();
        list.push_many(&["goes".to_owned(), marks[1].clone(), "goes".to_owned()]).await.unwrap();
        list.insert(at as u64, &"goes".to_owned()).await.unwrap();
        let stays = marks.iter().map(String::as_str);
        let words: Vec<&str> =
            ["EVAL", retain, "1", "list", "", "mark", "100", "10000"].into_iter().chain(stays).collect();
        assert_eq!(observer.query::<(u8, u8)>(&words).await.unwrap(), (3, 0));
        assert_eq!(list.read_all().await.unwrap(), [&all[..], &marks[1..2]].concat());
        list.clear().await.unwrap();
    }
}

/// A script that is rejected half way reverts its changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_call_changes_nothing() {
    let server = server().await;
    server.set_user("app", &["on", ">secret", "~*", "&*", "+@all", "-linsert", "-lrem"]).await.unwrap();
    let all = client(&server).await;
    let some = client_with(&server.url(), |config| config.credentials(Some("app"), "secret")).await;
    let (list, few): (List<i64>, List<i64>) = (List::new(&all, "list"), List::new(&some, "list"));
    five(&list).await;
    for told in [
        few.insert(1, &1).await.map(drop),
        few.insert_many(3, &[1, 2]).await.map(drop),
        few.delete_at(1).await,
        few.remove_at(3).await.map(drop),
        few.retain_all(&[10]).await.map(drop),
        few.remove_all(&[10]).await.map(drop),
    ] {
        assert!(matches!(told, Err(ObjectError::Failed(Failure::Refused { .. }))), "{told:?}");
        assert_eq!(list.read_all().await.unwrap(), [10, 20, 30, 20, 10]);
    }
    // Operations at the ends need neither permission.
    assert_eq!(
        (few.insert(0, &1).await.unwrap(), few.remove_at(0).await.unwrap(), few.pop().await.unwrap()),
        (6, 1, Some(10))
    );
    assert_eq!((few.pop_first().await.unwrap(), few.len().await.unwrap()), (Some(10), 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_sent_once_and_its_lost_reply_reported() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    // Each call has its own client, because a lost reply replaces the connection. The timeout is
    // longer than a busy machine stalls: otherwise a request could fail before it is sent.
    let lossy = async || -> List<i64> {
        let url = server.url_via(proxy.addr());
        List::new(&client_with(&url, |config| config.response_timeout(Duration::from_secs(2))).await, "list")
    };
    let sure: List<i64> = List::new(&client(&server).await, "list");
    five(&sure).await;
    // The server has cached each script after this, so a call is one request.
    assert_eq!((sure.insert(2, &7).await.unwrap(), sure.remove_at(2).await.unwrap()), (6, 7));
    let unknown = |told: Result<(), ObjectError>| {
        assert!(matches!(told, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}")
    };
    let list = lossy().await;
    proxy.next(1, "RPUSH", Action::SwallowReply);
    unknown(list.push(&40).await.map(drop));
    assert_eq!(sure.read_all().await.unwrap(), [10, 20, 30, 20, 10, 40]);
    let remove_at = sha(include_str!("../../crates/redgrid-list/src/scripts/remove_at.lua"));
    let list = lossy().await;
    proxy.next(1, remove_at, Action::SwallowReply);
    unknown(list.remove_at(1).await.map(drop));
    assert_eq!(sure.read_all().await.unwrap(), [10, 30, 20, 10, 40]);
    let insert = sha(include_str!("../../crates/redgrid-list/src/scripts/insert.lua"));
    let list = lossy().await;
    proxy.next(1, insert, Action::SwallowReply);
    unknown(list.insert(1, &20).await.map(drop));
    assert_eq!(sure.read_all().await.unwrap(), [10, 20, 30, 20, 10, 40]);
    // A read without a reply is sent again.
    let list = lossy().await;
    proxy.next(1, "LINDEX", Action::SwallowReply);
    assert_eq!(list.get(2).await.unwrap(), Some(30));
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_two_clients_are_all_made() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let list: List<u64> = List::new(&clients[0], "scores");
    list.push_many(&[0, 0]).await.unwrap();
    let updates = (0..200).map(|n| {
        let list: List<u64> = List::new(&clients[n % 2], "scores");
        tokio::spawn(async move { list.update_at((n as u64 / 2) % 2, |n| *n += 1).await.unwrap().unwrap() })
    });
    let had = join_all(updates).await.into_iter().map(Result::unwrap).sum::<u64>();
    assert_eq!((had, list.read_all().await.unwrap()), (2 * (1..=100).sum::<u64>(), vec![100, 100]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_element_does_not_affect_others() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    observer.cmd(&["RPUSH", "l", "1", "{\"x\":1}", "3"]).await.unwrap();
    let list: List<u64> = List::new(&client, "l");
    let told = list.get(1).await.unwrap_err();
    let words = told.to_string();
    assert!(["`l`", "index 1", "Json"].iter().all(|part| words.contains(part)), "{words}");
    assert!(matches!(list.read_all().await, Err(ObjectError::Decode { .. })));
    let mut found = list.stream().map(|one| one.ok()).collect::<Vec<_>>().await;
    assert_eq!(found, [Some(1), None, Some(3)]);
    found.reverse();
    assert_eq!(list.stream_reversed().page(2).map(|one| one.ok()).collect::<Vec<_>>().await, found);
    for stream in [list.stream(), list.stream_reversed()] {
        let told = stream.filter_map(async |one| one.err()).collect::<Vec<_>>().await;
        assert!(told.len() == 1 && told[0].to_string().contains("at index 1 "), "{told:?}");
    }
    assert!(matches!(list.remove_at(1).await, Err(ObjectError::Decode { .. })));
    assert_eq!(list.read_all().await.unwrap(), [1, 3], "removed all the same");
    observer.cmd(&["SET", "s", "x"]).await.unwrap();
    let other = List::<u64>::new(&client, "s");
    let wrong = |told: &ObjectError| {
        matches!(
            told,
            ObjectError::Failed(Failure::Refused { source: ServerError::Refused { code: Code::WrongType, .. }, .. })
        )
    };
    for told in [
        other.get(0).await.unwrap_err(),
        other.insert(0, &1).await.unwrap_err(),
        other.remove_at(0).await.unwrap_err(),
        other.retain_all(&[1]).await.unwrap_err(),
        other.stream().try_next().await.unwrap_err(),
    ] {
        assert!(wrong(&told), "{told:?}");
    }
    let mut over = other.stream();
    assert!(over.try_next().await.is_err());
    assert_eq!(over.try_next().await.unwrap(), None, "the end of the stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_read_and_stored_in_another_order() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let numbers: List<i64, Long> = List::new(&client, "numbers");
    five(&numbers).await;
    numbers.push(&-5).await.unwrap();
    assert_eq!(numbers.sort().await.unwrap(), [-5, 10, 10, 20, 20, 30]);
    assert_eq!(numbers.sort().descending().limit(1, 2).await.unwrap(), [20, 20]);
    assert_eq!(numbers.sort_alpha().await.unwrap(), [-5, 10, 10, 20, 20, 30]);
    assert_eq!(numbers.sort().limit(9, 2).await.unwrap(), [0; 0]);
    let told = numbers.sort().limit(u64::MAX, 1).await.unwrap_err();
    assert_eq!(named(&told), "offset");
    assert_eq!(numbers.sort().descending().store("sorted").await.unwrap(), 6);
    let sorted: List<i64, Long> = List::new(&client, "sorted");
    assert_eq!(sorted.read_all().await.unwrap(), [30, 20, 20, 10, 10, -5]);
    // The server compares doubles: elements with the same double are sorted by their bytes.
    let large: List<i64, Long> = List::new(&client, "large");
    let beyond = 1_i64 << 53;
    large.push_many(&[-beyond - 1, -beyond, beyond + 1, beyond, beyond - 1]).await.unwrap();
    let sorted = [-beyond, -beyond - 1, beyond - 1, beyond, beyond + 1];
    assert_eq!(large.sort().await.unwrap(), sorted, "the first two are one double to the server");
    let parts: List<f64, Double> = List::new(&client, "parts");
    parts.push_many(&[1.5, 0.25, -1.0]).await.unwrap();
    assert_eq!(parts.sort().await.unwrap(), [-1.0, 0.25, 1.5]);
    let words: List<String, Text> = List::new(&client, "words");
    words.push_many(&["b", "c", "a"].map(String::from)).await.unwrap();
    assert_eq!(words.sort_alpha().descending().await.unwrap(), ["c", "b", "a"]);
    observer
        .cmd(&["MSET", "weight:a", "3", "weight:b", "1", "weight:c", "2", "text:a", "A", "text:c", "C"])
        .await
        .unwrap();
    assert_eq!(words.sort_by("weight:*").await.unwrap(), ["b", "c", "a"]);
    assert_eq!(words.sort_alpha().by("weight:*").descending().limit(0, 2).await.unwrap(), ["a", "c"]);
    let rows = words.sort_by("weight:*").fetch::<String, _>(Text, ["#", "text:*"]).await.unwrap();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(rows, [[some("b"), None], [some("c"), some("C")], [some("a"), some("A")]]);
    assert_eq!(words.sort_alpha().store_fetched("texts", ["text:*"]).await.unwrap(), 3);
    assert_eq!(List::<String, Text>::new(&client, "texts").read_all().await.unwrap(), ["A", "", "C"]);
    assert_eq!(named(&words.sort_by("weight").await.unwrap_err()), "pattern");
    assert_eq!(named(&words.sort_alpha().fetch::<String, _>(Text, [""; 0]).await.unwrap_err()), "patterns");
    // The server rejects a value that is not a number.
    let mixed: List<i64, Long> = List::new(&client, "words");
    let told = mixed.sort().await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::Refused { .. })), "{told:?}");
    let named = client_with(&server.url(), |config| config.namespace("prod").unwrap()).await;
    let other: List<String, Text> = List::new(&named, "words");
    other.push_many(&["a", "b"].map(String::from)).await.unwrap();
    observer.cmd(&["MSET", "prod:weight:a", "1", "prod:weight:b", "2"]).await.unwrap();
    assert_eq!(other.sort_by("weight:*").await.unwrap(), ["a", "b"], "patterns are behind the namespace");
    assert_eq!(other.sort_alpha().store("sorted").await.unwrap(), 2);
    assert!(observer.exists("prod:sorted").await.unwrap());
}
