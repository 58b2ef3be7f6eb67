//! What holds for multimaps, wherever they live.

use std::collections::BTreeSet;

use futures_util::TryStreamExt;
use redgrid_multimap::{ListMultimap, SetMultimap};

use crate::contract::clauses;
use crate::ground::Ground;

clauses![
    "multimaps";
    a_key_has_values_whoever_inserts_them,
    all_keys_are_gone_through_and_removed,
];

async fn a_key_has_values_whoever_inserts_them(on: Ground) {
    let (one, two) = (on.client().await, on.client().await);
    let (sets, lists) = (format!("{}:sets", on.name), format!("{}:lists", on.name));
    let here: SetMultimap<String, u32> = SetMultimap::new(&one, &sets);
    let there: SetMultimap<String, u32> = SetMultimap::new(&two, &sets);
    assert!(here.insert("a", &1).await.unwrap() && !there.insert("a", &1).await.unwrap());
    assert_eq!((there.insert_many("a", &[1, 2]).await.unwrap(), here.values_len("a").await.unwrap()), (1, 2));
    assert!(there.contains_entry("a", &2).await.unwrap() && here.contains_key("a").await.unwrap());
    assert!(here.remove("a", &2).await.unwrap() && there.contains_value(&1).await.unwrap());
    assert_eq!((there.get_all("a").await.unwrap(), here.replace_all("a", &[3]).await.unwrap()), (vec![1], vec![1]));
    assert_eq!((there.remove_all("a").await.unwrap(), here.is_empty().await.unwrap()), (vec![3], true));
    let here: ListMultimap<String, u32> = ListMultimap::new(&one, &lists);
    let there: ListMultimap<String, u32> = ListMultimap::new(&two, &lists);
    assert_eq!((here.insert_many("a", &[1, 2]).await.unwrap(), there.insert("a", &1).await.unwrap()), (2, true));
    assert!(there.contains_entry("a", &2).await.unwrap() && here.remove("a", &1).await.unwrap());
    assert_eq!(
        (there.get_all("a").await.unwrap(), here.read_all_keys().await.unwrap()),
        (vec![2, 1], vec!["a".to_owned()])
    );
    there.set_all("a", &[5]).await.unwrap();
    assert_eq!(here.remove_keys(["a"]).await.unwrap(), 1);
}

async fn all_keys_are_gone_through_and_removed(on: Ground) {
    let client = on.client().await;
    let map: SetMultimap<u32, u32> = SetMultimap::new(&client, &on.name);
    let mut all = BTreeSet::new();
    for key in 0..250 {
        map.insert_many(&key, &[key, 7]).await.unwrap();
        all.extend([(key, key), (key, 7)]);
    }
    assert_eq!((map.len().await.unwrap(), map.key_len().await.unwrap()), (499, 250));
    assert_eq!(map.entries().try_collect::<BTreeSet<_>>().await.unwrap(), all);
    assert_eq!(map.keys().try_collect::<BTreeSet<u32>>().await.unwrap().len(), 250);
    assert_eq!(map.values().try_collect::<Vec<_>>().await.unwrap().len(), 499);
    assert!(map.contains_value(&249).await.unwrap() && !map.contains_value(&250).await.unwrap());
    assert_eq!((map.clear().await.unwrap(), map.is_empty().await.unwrap()), (250, true));
}
