//! A map with a lifetime for each entry, compared with a model.

use std::collections::BTreeMap;

use redgrid_cache::{Lifetime, MapCache};
use redgrid_tests::model::seeds;

use super::caches::{HOUR, ready};

/// Compares a map with its model through random operations. The test lets an entry expire by
/// changing its score.
#[tokio::test(flavor = "multi_thread")]
async fn a_map_matches_its_model() {
    let (_server, client, observer) = ready().await;
    for seed in seeds(10) {
        let mut random = fastrand::Rng::with_seed(seed);
        let name = format!("m{seed}");
        let map: MapCache<u8, u8> = MapCache::new(&client, &name);
        // For each key the value, and whether the entry has a lifetime and an idle time.
        let mut model: BTreeMap<u8, (u8, bool, bool)> = BTreeMap::new();
        let mut story = Vec::new();
        for _ in 0..60 {
            let (step, key, one, other) = (random.u8(..12), random.u8(..5), random.u8(..3), random.u8(..3));
            let (lives, idles) = (random.bool(), random.bool());
            story.push((step, key, one, other, lives, idles));
            let had = model.get(&key).copied();
            let was = had.map(|(value, ..)| value);
            macro_rules! put {
                ($put:expr) => {{
                    let mut put = $put;
                    if lives {
                        put = put.expires_in(HOUR);
                    }
                    if idles {
                        put = put.idle_for(HOUR);
                    }
                    put.await.unwrap()
                }};
            }
            let new = (one, lives, idles);
            let fits = match step {
                0 => put!(map.insert(&key, &one)) == model.insert(key, new).map(|(value, ..)| value),
                1 => put!(map.set(&key, &one)) == model.insert(key, new).is_none(),
                2 => {
                    model.entry(key).or_insert(new);
                    put!(map.insert_if_absent(&key, &one)) == was
                }
                3 => {
                    if let Some(had) = model.get_mut(&key) {
                        had.0 = one;
                    }
                    map.replace(&key, &one).await.unwrap() == was
                }
                4 => {
                    let fits = was == Some(other);
                    if fits {
                        model.get_mut(&key).unwrap().0 = one;
                    }
                    map.compare_and_set(&key, &other, &one).await.unwrap() == fits
                }
                5 => {
                    model.remove(&key);
                    map.remove(&key).await.unwrap() == was
                }
                6 => {
                    let fits = was == Some(one);
                    if fits {
                        model.remove(&key);
                    }
                    map.compare_and_remove(&key, &one).await.unwrap() == fits
                }
                7 => {
                    if let Some(had) = model.get_mut(&key) {
                        (had.1, had.2) = (lives, idles);
                    }
                    put!(map.expire([&key])) == u64::from(had.is_some())
                }
                // Ends the entry's lifetime or idle time.
                8 | 9 => {
                    let (set, ends) = match step {
                        8 => ("redisson__timeout__set", had.is_some_and(|(_, lives, _)| lives)),
                        _ => ("redisson__idle__set", had.is_some_and(|(_, _, idles)| idles)),
                    };
                    let set = format!("{set}:{{{name}}}");
                    let done: u64 = observer.query(&["ZADD", &set, "XX", "CH", "1", &key.to_string()]).await.unwrap();
                    if ends {
                        model.remove(&key);
                    }
                    // An entry that expired before may still be stored.
                    had.is_none() || (done == 1) == ends
                }
                10 => map.get(&key).await.unwrap() == was,
                _ => {
                    let ends = had.map(|(_, lives, idles)| lives || idles);
                    let told = map.lifetime(&key).await.unwrap();
                    match ends {
                        None => told == Lifetime::Absent,
                        Some(false) => told == Lifetime::Endless,
                        Some(true) => matches!(told, Lifetime::Ends(_)),
                    }
                }
            };
            assert!(fits, "seed {seed}: {story:?}");
        }
        let all: BTreeMap<u8, u8> = model.iter().map(|(key, (value, ..))| (*key, *value)).collect();
        assert_eq!(map.entries().try_collect::<BTreeMap<_, _>>().await.unwrap(), all, "seed {seed}: {story:?}");
        assert_eq!(map.len().await.unwrap(), all.len() as u64, "seed {seed}: {story:?}");
        for (set, there) in [
            ("redisson__timeout__set", model.values().filter(|(_, lives, _)| *lives).count()),
            ("redisson__idle__set", model.values().filter(|(_, _, idles)| *idles).count()),
        ] {
            let stored: usize = observer.query(&["ZCARD", &format!("{set}:{{{name}}}")]).await.unwrap();
            assert_eq!(stored, there, "{set} of seed {seed}: {story:?}");
        }
    }
}
