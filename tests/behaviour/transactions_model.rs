//! A transaction is what its model is.

use std::collections::{BTreeMap, BTreeSet};

use redgrid_map::Map;
use redgrid_set::Set;
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};
use redgrid_transaction::{Isolation, Transaction};

/// A map and a set within a transaction, and behind it, are what their models are.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_what_its_model_is() {
    let server = server().await;
    let client = client(&server).await;
    for seed in seeds(40) {
        let mut random = fastrand::Rng::with_seed(seed);
        let isolation = [Isolation::ReadCommitted, Isolation::Serializable][random.usize(..2)];
        let (map_name, set_name) = (format!("map:{seed}"), format!("set:{seed}"));
        let (mut map, mut set) = (BTreeMap::new(), BTreeSet::new());
        for _ in 0..6 {
            let (kept_map, kept_set) = (map.clone(), set.clone());
            let tx = Transaction::new(&client).isolation(isolation);
            let mut story = Vec::new();
            for _ in 0..random.usize(..14) {
                let step = (random.u8(..18), random.u8(..5), random.u8(..3), random.u8(..3));
                story.push(step);
                let fits = apply(&tx, (&map_name, &set_name), (&mut map, &mut set), step).await;
                assert!(fits, "seed {seed}: {map:?} {set:?} after {story:?}");
            }
            match random.bool() {
                true => tx.commit().await.unwrap(),
                false => {
                    (map, set) = (kept_map, kept_set);
                    tx.rollback();
                }
            }
            let real: Map<u8, u8> = Map::new(&client, &map_name);
            let there: BTreeMap<u8, u8> = real.read_all().await.unwrap().into_iter().collect();
            let members: BTreeSet<u8> =
                Set::<u8>::new(&client, &set_name).read_all().await.unwrap().into_iter().collect();
            assert_eq!((&there, &members), (&map, &set), "seed {seed} after {story:?}");
        }
    }
}

type Models<'m> = (&'m mut BTreeMap<u8, u8>, &'m mut BTreeSet<u8>);

async fn apply(
    tx: &Transaction,
    (map_name, set_name): (&str, &str),
    (map, set): Models<'_>,
    (step, key, one, other): (u8, u8, u8, u8),
) -> bool {
    let (inside, members) = (tx.map::<u8, u8>(map_name), tx.set::<u8>(set_name));
    let has = map.get(&key).copied();
    match step {
        0 => inside.get(&key).await.unwrap() == has,
        1 => inside.insert(&key, &one).await.unwrap() == map.insert(key, one),
        2 => {
            map.insert(key, one);
            inside.set(&key, &one).is_ok()
        }
        3 => inside.remove(&key).await.unwrap() == map.remove(&key),
        4 => {
            map.entry(key).or_insert(one);
            inside.insert_if_absent(&key, &one).await.unwrap() == has
        }
        5 => {
            map.entry(key).and_modify(|value| *value = one);
            inside.replace(&key, &one).await.unwrap() == has
        }
        6 => {
            if has == Some(one) {
                map.insert(key, other);
            }
            inside.compare_and_set(&key, &one, &other).await.unwrap() == (has == Some(one))
        }
        7 => {
            if has == Some(one) {
                map.remove(&key);
            }
            inside.compare_and_remove(&key, &one).await.unwrap() == (has == Some(one))
        }
        8 => inside.len().await.unwrap() == map.len() as u64,
        9 => inside.read_all().await.unwrap().into_iter().collect::<BTreeMap<_, _>>() == *map,
        10 => {
            let were = BTreeSet::from([key, one]).into_iter().filter(|key| map.remove(key).is_some()).count() as u64;
            inside.remove_many(&[key, one]).await.unwrap() == were
        }
        11 => {
            map.clear();
            inside.clear().is_ok()
        }
        12 => inside.set_if_exists(&key, &one).await.unwrap() == map.get_mut(&key).map(|value| *value = one).is_some(),
        13 => members.insert(&key).await.unwrap() == set.insert(key),
        14 => members.remove(&key).await.unwrap() == set.remove(&key),
        15 => {
            let more = [key, one].into_iter().filter(|value| set.insert(*value)).count() as u64;
            members.insert_many(&[key, one]).await.unwrap() == more
        }
        16 => {
            let fits = members.len().await.unwrap() == set.len() as u64;
            fits && members.contains(&key).await.unwrap() == set.contains(&key)
        }
        _ => {
            if one == 0 {
                set.clear();
                members.clear().unwrap();
            }
            members.read_all().await.unwrap().into_iter().collect::<BTreeSet<_>>() == *set
        }
    }
}
