//! Lists with lost replies, many marks, and full servers.

use std::time::Duration;

use redgrid_core::Failure;
use redgrid_list::codecs::{Long, Text};
use redgrid_list::{List, ObjectError};
use redgrid_testkit::{Action, Proxy};
use redgrid_tests::{client, client_with, server, sha};

/// No element of a long list is mistaken for a mark, although all elements equal possible marks.
/// Some elements are removed from the end to the front, a few at a time. At first the end of the
/// list is nearer, and later the front.
#[tokio::test(flavor = "multi_thread")]
async fn no_element_of_a_long_list_is_taken_for_a_mark() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let list: List<String, Text> = List::new(&client, "list");
    let retain = include_str!("../../crates/redgrid-list/src/scripts/retain_all.lua");
    let marks: Vec<String> = std::iter::successors(Some("mark".to_owned()), |mark| Some(sha(mark))).take(3).collect();
    let mut all: Vec<String> = (0..500).map(|n| marks[n % 3].clone()).collect();
    let stays = all.clone();
    for at in [499, 450, 301, 250, 249, 130, 30, 1, 0] {
        all.insert(at, "goes".to_owned());
    }
    list.push_many(&all).await.unwrap();
    let (mut at, mut went, mut steps) = (String::new(), 0, 0);
    while at != "0" {
        let words = ["EVAL", retain, "1", "list", &at, "mark", "5", "100000", &marks[0], &marks[1], &marks[2]];
        let (gone, left): (u64, u64) = observer.query(&words).await.unwrap();
        (at, went, steps) = (left.to_string(), went + gone, steps + 1);
    }
    assert_eq!((went, steps), (9, 6), "each step reads 100");
    assert_eq!(list.read_all().await.unwrap(), stays);
}

/// A removal needs no memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_out_of_memory_allows_removals() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let list: List<i64> = List::new(&client, "list");
    list.push_many(&[1, 2, 3, 4, 3, 1, 5, 6, 5, 7, 8]).await.unwrap();
    observer.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    assert!(matches!(list.push(&1).await, Err(ObjectError::Failed(Failure::Refused { .. }))));
    assert_eq!((list.remove_at(1).await.unwrap(), list.remove_at(8).await.unwrap()), (2, 7));
    assert_eq!((list.remove_at(1).await.unwrap(), list.pop_first().await.unwrap()), (3, Some(1)));
    // If an element on the way equals the removed one, the script would have to write a mark.
    assert_eq!(list.read_all().await.unwrap(), [4, 3, 1, 5, 6, 5, 8]);
    observer.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    list.push_many(&[4, 4, 4]).await.unwrap();
    observer.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    assert!(matches!(list.remove_at(8).await, Err(ObjectError::Failed(Failure::Refused { .. }))));
    assert_eq!(list.read_all().await.unwrap(), [4, 3, 1, 5, 6, 5, 8, 4, 4, 4]);
    observer.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
}

/// Returns the number of elements that a chunked call stored, and the error of the next chunk.
fn partial(told: Result<u64, ObjectError>) -> (u64, ObjectError) {
    match told {
        Err(ObjectError::Partial { done, source, .. }) => (done, *source),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunked_call_reports_how_many_are_done() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let sure: List<i64, Long> = List::new(&client(&server).await, "list");
    let lossy = async || -> List<i64, Long> {
        let url = server.url_via(proxy.addr());
        List::new(&client_with(&url, |config| config.response_timeout(Duration::from_secs(2)).retries(0)).await, "list")
    };
    // Numbers that no other command of the test contains.
    let all: Vec<i64> = (0..1200).map(|n| 7_000_000_000 + n).collect();
    // The reply to the second chunk is lost: 500 elements are certainly stored, and actually 1,000
    // are.
    let unknown = |told, sure| {
        let (done, source) = partial(told);
        assert!(
            done == sure && matches!(source, ObjectError::Failed(Failure::OutcomeUnknown { .. })),
            "{done} {source:?}"
        );
    };
    let list = lossy().await;
    proxy.next(1, "7000000999", Action::SwallowReply);
    unknown(list.push_many(&all).await, 500);
    assert_eq!(sure.read_all().await.unwrap(), all[..1000]);
    let list = lossy().await;
    proxy.next(1, "7000000999", Action::SwallowReply);
    // Of 1,000 elements, 250 values are removed at a time; of 750 elements, 333.
    unknown(list.remove_all(&all).await, 583);
    assert!(sure.is_empty().await.unwrap());
    // The last elements are inserted first: 200, then 500.
    sure.push_many(&[1, 2]).await.unwrap();
    for at in [0, 1] {
        let list = lossy().await;
        proxy.next(1, "7000000999", Action::SwallowReply);
        let (done, source) = partial(list.insert_many(at, &all).await);
        assert!(
            done == 200 && matches!(source, ObjectError::Failed(Failure::OutcomeUnknown { .. })),
            "{done} {source:?}"
        );
        let has = sure.read_all().await.unwrap();
        assert_eq!((has.len(), &has[at as usize..][..700]), (702, &all[500..]));
        sure.clear().await.unwrap();
        sure.push_many(&[1, 2]).await.unwrap();
    }
    // If the first chunk fails, its error is returned unchanged.
    let list = lossy().await;
    proxy.next(1, "7000000499", Action::SwallowReply);
    assert!(matches!(list.push_many(&all).await, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))));
}
