//! Streams on every topology.

use futures_util::TryStreamExt;
use redgrid_stream::{EntryId, Start, Stream, Trim};
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::Fixture;

clauses![
    "streams";
    entries_of_all_clients_are_added_read_and_removed,
    a_group_delivers_and_claims_entries,
    a_consumer_is_woken_and_acknowledges,
];

fn id(ms: u64) -> EntryId {
    EntryId::new(ms, 0)
}

async fn entries_of_all_clients_are_added_read_and_removed(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let here: Stream<String, u64> = Stream::new(&one, &on.name);
    let there: Stream<String, u64> = Stream::new(&two, &on.name);
    assert_eq!(here.add("n", &1).id(id(1)).await.unwrap(), id(1));
    there.add("n", &2).id(id(2)).exactly_once().await.unwrap();
    let many: Vec<u64> = (0..4_000).collect();
    here.add_many(many.iter().map(|n| ("n", n))).id(id(3)).await.unwrap();
    assert_eq!((there.len().await.unwrap(), there.last_id().await.unwrap()), (3, Some(id(3))));
    assert_eq!(there.range(..id(3)).await.unwrap()[1].fields, [("n".to_owned(), 2)]);
    assert_eq!(here.rev_range(..).limit(1).await.unwrap()[0].fields.len(), 4_000);
    assert_eq!(here.read(id(2)).await.unwrap().len(), 1);
    assert_eq!(there.entries(..).page(1).try_collect::<Vec<_>>().await.unwrap().len(), 3);
    assert_eq!((here.remove([id(1)]).await.unwrap(), there.trim(Trim::max_len(1)).await.unwrap()), (1, 1));
    assert_eq!(here.info().await.unwrap().unwrap().len, 1);
    assert!(here.object().delete().await.unwrap());
}

async fn a_group_delivers_and_claims_entries(on: Fixture) {
    let client = on.client().await;
    let stream: Stream<String, u64> = Stream::new(&client, &on.name);
    let group = stream.group("g");
    assert!(group.read("a").await.unwrap_err().is_no_group());
    group.create().from_start().make_stream().await.unwrap();
    for ms in 1..=3 {
        stream.add("n", &ms).id(id(ms)).await.unwrap();
    }
    assert!(group.create_consumer("b").await.unwrap());
    assert_eq!(group.read("a").limit(2).await.unwrap().len(), 2);
    assert_eq!(group.read_pending("a", id(1), 9).await.unwrap().len(), 1);
    assert_eq!(group.pending().await.unwrap().consumers, [("a".to_owned(), 2)]);
    assert_eq!(group.pending_entries().entries().await.unwrap().len(), 2);
    assert_eq!(group.claim("b", std::time::Duration::ZERO, [id(1)]).await.unwrap()[0].as_ref().unwrap().id, id(1));
    assert_eq!(group.auto_claim("b", std::time::Duration::ZERO, id(2), 9).await.unwrap().entries.len(), 1);
    assert_eq!((group.ack([id(1)]).await.unwrap(), group.remove_consumer("b").await.unwrap()), (1, 1));
    group.set_id(Start::Beginning).await.unwrap();
    assert_eq!((group.consumers().await.unwrap().len(), stream.groups().await.unwrap().len()), (1, 1));
    assert!(group.remove().await.unwrap());
}

async fn a_consumer_is_woken_and_acknowledges(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let here: Stream<String, u64> = Stream::new(&one, &on.name);
    let there: Stream<String, u64> = Stream::new(&two, &on.name);
    let group = here.group("g");
    let mut deliveries = group.consumer("c").create_if_missing(Start::Beginning).claim_idle(SOON);
    let worked = tokio::spawn(async move {
        for n in 1..=3 {
            let one = deliveries.try_next().await.unwrap().unwrap();
            assert_eq!((one.get("n"), one.attempt()), (Some(&n), 1));
            one.ack().await.unwrap();
        }
    });
    for n in 1..=3 {
        there.add("n", &n).await.unwrap();
    }
    tokio::time::timeout(SOON, worked).await.unwrap().unwrap();
    assert_eq!(group.pending().await.unwrap().total, 0);
    assert_eq!(there.read(EntryId::MIN).timeout(SOON).await.unwrap().len(), 3);
}
