//! Lists on every topology.

use std::time::Duration;

use redgrid_core::Failure;
use redgrid_core::config::ReadMode;
use redgrid_core::object::Lifetime;
use redgrid_list::codecs::{Long, Text};
use redgrid_list::{List, ObjectError, Occurrences};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::{Fixture, Topology};

const HOUR: Duration = Duration::from_secs(3600);

clauses![
    "lists";
    an_element_is_inserted_changed_and_removed,
    elements_are_streamed_shared_and_sorted,
    reads_may_use_replicas,
    a_list_gets_a_name_in_another_slot_and_keeps_its_lifetime,
];

async fn an_element_is_inserted_changed_and_removed(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there): (List<u64>, List<u64>) = (List::new(&one, &on.name), List::new(&two, &on.name));
    assert_eq!((here.push(&1).await.unwrap(), there.push_many(&[2, 3, 4]).await.unwrap()), (1, 4));
    assert_eq!((there.insert(2, &9).await.unwrap(), here.insert_many(0, &[7, 8]).await.unwrap()), (5, 7));
    assert_eq!(
        (here.insert_before(&3, &5).await.unwrap(), there.insert_after(&3, &6).await.unwrap()),
        (Some(8), Some(9))
    );
    assert_eq!(there.read_all().await.unwrap(), [7, 8, 1, 2, 9, 5, 3, 6, 4]);
    assert_eq!((here.replace(0, &70).await.unwrap(), there.set(1, &80).await.unwrap()), (7, ()));
    assert!(!here.compare_and_set(0, &7, &71).await.unwrap() && there.compare_and_set(0, &70, &71).await.unwrap());
    assert_eq!(here.update_at(1, |n| *n += 1).await.unwrap(), Some(81));
    assert_eq!(there.get_each([1, 0, 99]).await.unwrap(), [Some(81), Some(71), None]);
    assert_eq!((here.remove_at(4).await.unwrap(), there.delete_at(2).await.unwrap()), (9, ()));
    assert!(matches!(here.remove_at(7).await, Err(ObjectError::OutOfBounds { index: 7, len: 7, .. })));
    assert_eq!(
        (there.remove_at(0).await.unwrap(), there.remove_at(5).await.unwrap(), here.pop().await.unwrap()),
        (71, 4, Some(6))
    );
    assert_eq!(here.range(1..3).await.unwrap(), [2, 5]);
    assert!(here.contains(&3).await.unwrap() && here.contains_all(&[3, 5]).await.unwrap());
    assert_eq!((here.index_of(&5).await.unwrap(), here.last_index_of(&6).await.unwrap()), (Some(2), None));
    there.push_many(&[2, 2]).await.unwrap();
    assert!(there.remove(&81).await.unwrap());
    assert_eq!(there.remove_some(&2, Occurrences::Last(1)).await.unwrap(), 1);
    assert_eq!((here.remove_all(&[5, 50]).await.unwrap(), here.retain_all(&[2]).await.unwrap()), (1, 1));
    assert_eq!((here.read_all().await.unwrap(), here.len().await.unwrap()), (vec![2, 2], 2));
    there.trim(1..).await.unwrap();
    assert_eq!((here.first().await.unwrap(), here.last().await.unwrap()), (Some(2), Some(2)));
    assert!(here.clear().await.unwrap() && there.is_empty().await.unwrap());
}

async fn elements_are_streamed_shared_and_sorted(on: Fixture) {
    let client = on.client().await;
    let list: List<i64, Long> = List::new(&client, &on.name);
    let all: Vec<i64> = (0..1200).map(|n| (n * 7) % 1200).collect();
    assert_eq!(list.push_many(&all).await.unwrap(), 1200);
    assert_eq!(list.stream().try_collect::<Vec<i64>>().await.unwrap(), all);
    let mut back: Vec<i64> = list.stream_reversed().page(250).try_collect().await.unwrap();
    back.reverse();
    assert_eq!(back, all);
    let (mut one, mut other) = (list.shared_stream().page(500), list.shared_stream().page(700));
    assert_eq!((one.try_next().await.unwrap(), other.try_next().await.unwrap()), (Some(all[0]), Some(all[500])));
    let rest =
        one.try_collect::<Vec<i64>>().await.unwrap().len() + other.try_collect::<Vec<i64>>().await.unwrap().len();
    assert_eq!(rest, 1198);
    assert!(list.restart_shared().await.unwrap());
    // If the name has a hash tag, the cursor is in the slot of the list, too.
    let tagged: List<i64, Long> = List::new(&client, format!("{{{}}}:tagged", on.name));
    tagged.push_many(&all[..3]).await.unwrap();
    assert_eq!(tagged.shared_stream().page(2).try_collect::<Vec<i64>>().await.unwrap(), all[..3]);
    assert!(tagged.restart_shared().await.unwrap() && tagged.clear().await.unwrap());
    let sorted = format!("{{{}}}:sorted", on.name);
    assert_eq!(list.sort().limit(3, 2).await.unwrap(), [3, 4]);
    assert_eq!(list.sort().descending().limit(0, 3).store(&sorted).await.unwrap(), 3);
    let sorted: List<i64, Long> = List::new(&client, &sorted);
    assert_eq!(sorted.read_all().await.unwrap(), [1199, 1198, 1197]);
    if on.topology() == Topology::Cluster {
        // At least one of these keys is in another slot.
        let mut results = Vec::new();
        for n in 0..8 {
            results.push(list.sort_alpha().limit(0, 1).store(format!("{}:{n}", on.name)).await);
        }
        assert!(results.iter().any(|result| matches!(
            result,
            Err(ObjectError::Failed(Failure::InvalidArgument { option: "destination", .. }))
        )));
    }
    assert!(list.clear().await.unwrap() && sorted.clear().await.unwrap());
}

async fn reads_may_use_replicas(on: Fixture) {
    let (writer, reader) = (on.client().await, on.client_with(|config| config.read_mode(ReadMode::Any)).await);
    let (list, read): (List<String, Text>, List<String, Text>) =
        (List::new(&writer, &on.name), List::new(&reader, &on.name));
    let all = ["a", "b", "c"].map(String::from);
    list.push_many(&all).await.unwrap();
    let (same, last) = (
        async || read.read_all().await.unwrap() == all,
        async || read.get_each([2]).await.unwrap() == [Some("c".to_owned())] && read.contains_all(&all).await.unwrap(),
    );
    wait_until(SOON, async || same().await && last().await).await;
    // Each read may go to another replica, which may lag.
    wait_until(SOON, async || read.index_of(&all[1]).await.unwrap() == Some(1)).await;
    wait_until(SOON, async || read.last().await.unwrap().as_deref() == Some("c")).await;
    wait_until(SOON, async || read.len().await.unwrap() == 3).await;
    assert!(list.clear().await.unwrap());
}

async fn a_list_gets_a_name_in_another_slot_and_keeps_its_lifetime(on: Fixture) {
    let client = on.client().await;
    let all: Vec<u64> = (0..700).collect();
    let names: Vec<String> = (0..8).map(|n| format!("{}:{n}", on.name)).collect();
    let list = |name: &str| -> List<u64> { List::new(&client, name) };
    list(&names[0]).push_many(&all).await.unwrap();
    assert!(list(&names[0]).object().expire_in(HOUR).await.unwrap());
    for pair in names.windows(2) {
        assert!(list(&pair[0]).object().rename(&pair[1]).await.unwrap());
        assert!(list(&pair[0]).is_empty().await.unwrap());
    }
    let last = list(&names[7]);
    assert_eq!(last.read_all().await.unwrap(), all);
    // An insertion and a removal keep the lifetime of the list.
    last.insert(350, &1000).await.unwrap();
    last.remove_at(300).await.unwrap();
    assert!(matches!(last.object().lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    assert!(last.clear().await.unwrap());
}
