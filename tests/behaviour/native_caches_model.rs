//! A map with entries that the server expires, compared with a model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use redgrid_cache::NativeMapCache;
use redgrid_core::Client;
use redgrid_map::Map;
use redgrid_testkit::wait_until;
use redgrid_tests::model::{End, FAR, HOUR, newest_that_keeps_expired_entries, seeds};
use redgrid_tests::{SOON, client};

/// The first of many keys, which are more than one removal deletes.
const CROWD: u16 = 1_000;

/// A native map matches its model although the server does not remove expired entries. On other
/// servers they also stay stored for a moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_native_map_matches_its_model_beside_expired_entries() {
    let name = "a_native_map_matches_its_model_beside_expired_entries";
    let Some(server) = newest_that_keeps_expired_entries(name).await else { return };
    modelled([&client(&server).await, &client(&server).await], 8).await;
}

/// The lifetime given with a put.
#[derive(Debug, Clone, Copy)]
enum Given {
    /// No lifetime is given. A change of an existing value keeps its lifetime; a value that may be
    /// new never expires.
    Nothing,
    AsBefore,
    End(End),
}

impl Given {
    fn any(n: u8) -> Given {
        match n {
            0..3 => Given::Nothing,
            3 => Given::AsBefore,
            4 => Given::End(End::Never),
            5 => Given::End(End::Past),
            6..9 => Given::End(End::In(n.into())),
            _ => Given::End(End::At(n.into())),
        }
    }
}

/// Runs a change with the given lifetime.
macro_rules! put {
    ($put:expr, $said:expr) => {
        match $said {
            Given::Nothing => $put,
            Given::AsBefore => $put.keep_lifetime(),
            Given::End(End::Never) => $put.no_expiry(),
            Given::End(End::In(hours)) => $put.expires_in(HOUR * hours.into()),
            Given::End(End::At(hours)) => $put.expires_at(SystemTime::UNIX_EPOCH + FAR + HOUR * hours.into()),
            Given::End(End::Past) => $put.expires_at(SystemTime::UNIX_EPOCH + HOUR),
        }
        .await
        .unwrap()
    };
}

type Native = NativeMapCache<u16, i64>;

/// The values with their ends, and the keys that may be stored although they have expired.
#[derive(Debug, Clone, Default)]
struct Model {
    entries: BTreeMap<u16, (i64, End)>,
    over: BTreeSet<u16>,
}

impl Model {
    fn value(&self, key: u16) -> Option<i64> {
        self.entries.get(&key).map(|(value, _)| *value)
    }

    /// Sets a value, or removes it if its end has passed. `as_before`: without a given lifetime,
    /// the previous one stays.
    fn put(&mut self, key: u16, value: i64, said: Given, as_before: bool) {
        let before = self.entries.get(&key).map_or(End::Never, |(_, end)| *end);
        let end = match said {
            Given::End(end) => end,
            Given::Nothing if !as_before => End::Never,
            Given::Nothing | Given::AsBefore => before,
        };
        match end {
            End::Past => self.entries.remove(&key),
            end => self.entries.insert(key, (value, end)),
        };
    }

    fn remove(&mut self, key: u16) -> Option<i64> {
        self.entries.remove(&key).map(|(value, _)| value)
    }

    fn counts(&self, told: u64) -> bool {
        let over = self.over.iter().filter(|key| !self.entries.contains_key(key)).count();
        (self.entries.len()..=self.entries.len() + over).contains(&(told as usize))
    }
}

/// Applies the same operations to a map and to its model. Two clients use the map, and another one
/// uses a plain map.
pub(super) async fn modelled(clients: [&Client; 2], some: u64) {
    for seed in seeds(some) {
        let mut random = Rng::with_seed(seed);
        let name = format!("native:{seed}");
        let maps = clients.map(|client| Native::new(client, &name));
        let past = Map::<u16, i64>::new(clients[1], &name);
        let (mut model, mut story) = (Model::default(), Vec::new());
        for _ in 0..100 {
            let mut key = || if random.u8(..5) == 0 { CROWD + random.u16(..3) } else { random.u16(..5) };
            let (key, other) = (key(), key());
            let step = (random.u8(..30), key, other, random.i64(0..3), random.u8(..12));
            story.push(step);
            let who = random.usize(..2);
            let before = model.clone();
            let fits = match step.0 {
                0..14 => put(&maps[who], &mut model, step).await,
                14..24 => change(&maps[who], &mut model, step).await,
                24 => {
                    model.entries.insert(key, (step.3, End::Never));
                    past.set(&key, &step.3).await.unwrap() != before.entries.contains_key(&key)
                }
                _ => read(&maps[who], &model, step).await,
            };
            assert!(fits, "seed {seed}: {step:?} of {before:?} after {story:?}");
            let all: BTreeMap<u16, i64> = maps[1 - who].entries().try_collect().await.unwrap();
            let same = all.iter().eq(model.entries.iter().map(|(key, (value, _))| (key, value)).collect::<Vec<_>>());
            assert!(same, "seed {seed}: it has {all:?}, not {model:?}, after {story:?}");
            for key in [key, other] {
                let told = maps[1 - who].lifetime(&key).await.unwrap();
                let end = model.entries.get(&key).map_or(End::Past, |(_, end)| *end);
                assert!(end.is(told), "seed {seed}: {key} has {told:?} of {model:?} after {story:?}");
            }
        }
        maps[0].clear().await.unwrap();
        assert!(maps[1].is_empty().await.unwrap() && !maps[0].object().exists().await.unwrap(), "seed {seed}");
    }
}

/// Operations that set values.
async fn put(map: &Native, model: &mut Model, (step, key, other, one, n): (u8, u16, u16, i64, u8)) -> bool {
    let (was, said) = (model.value(key), Given::any(n));
    match step {
        0..3 => {
            model.put(key, one, said, false);
            put!(map.set(&key, &one), said) == was.is_none()
        }
        3 | 4 => {
            model.put(key, one, said, false);
            put!(map.insert(&key, &one), said) == was
        }
        5 | 6 => {
            if was.is_none() {
                model.put(key, one, said, false);
            }
            match step {
                5 => put!(map.set_if_absent(&key, &one), said) == was.is_none(),
                _ => put!(map.insert_if_absent(&key, &one), said) == was,
            }
        }
        7 | 8 => {
            if was.is_some() {
                model.put(key, one, said, true);
            }
            match step {
                7 => put!(map.set_if_exists(&key, &one), said) == was.is_some(),
                _ => put!(map.replace(&key, &one), said) == was,
            }
        }
        9 | 10 => {
            // In half of the cases, the expected value is the current one.
            let expected = if step == 9 { was.unwrap_or(one) } else { one };
            let fits = was == Some(expected);
            if fits {
                model.put(key, one + 1, said, true);
            }
            put!(map.compare_and_set(&key, &expected, &(one + 1)), said) == fits
        }
        11 | 12 => {
            // If a key occurs twice, the last value counts.
            let many = [(key, one), (other, one + 1), (key, one + 2)];
            many.iter().for_each(|(key, value)| model.put(*key, *value, said, false));
            put!(map.set_many(many.iter().map(|(key, value)| (key, value))), said);
            true
        }
        _ => {
            let many: BTreeMap<u16, i64> = (CROWD..CROWD + 600).map(|key| (key, one)).collect();
            many.iter().for_each(|(key, value)| model.put(*key, *value, said, false));
            put!(map.set_many(&many), said);
            true
        }
    }
}

/// Operations that remove values or change their lifetimes.
async fn change(map: &Native, model: &mut Model, (step, key, other, one, n): (u8, u16, u16, i64, u8)) -> bool {
    let was = model.value(key);
    match step {
        14 => map.remove(&key).await.unwrap() == model.remove(key),
        15 => {
            let named = [key, other, key];
            let gone = named.iter().filter(|key| model.remove(**key).is_some()).count();
            map.remove_many(&named).await.unwrap() == gone as u64
        }
        16 => {
            let fits = was == Some(one);
            if fits {
                model.remove(key);
            }
            map.compare_and_remove(&key, &one).await.unwrap() == fits
        }
        17 => {
            model.entries.entry(key).and_modify(|(value, _)| *value += 7);
            map.update(&key, |value| *value += 7).await.unwrap() == model.value(key)
        }
        18..21 => {
            let end = match Given::any(n) {
                Given::End(end) => end,
                _ => End::Never,
            };
            let (only, mut done) = (step == 20, 0);
            for key in BTreeSet::from([key, other]) {
                if model.entries.get(&key).is_some_and(|(_, had)| !only || *had == End::Never) {
                    done += 1;
                    let value = model.value(key).unwrap();
                    model.put(key, value, Given::End(end), true);
                }
            }
            let named = [key, other, key];
            let expire = map.expire(&named);
            let expire = if only { expire.only_if_no_expiry() } else { expire };
            let told = match end {
                End::Never => expire.await,
                End::In(hours) => expire.expires_in(HOUR * hours.into()).await,
                End::At(hours) => expire.expires_at(SystemTime::UNIX_EPOCH + FAR + HOUR * hours.into()).await,
                End::Past => expire.expires_at(SystemTime::UNIX_EPOCH + HOUR).await,
            };
            told.unwrap() == done
        }
        // Both keys expire.
        21 | 22 => {
            let done = [key, other].iter().filter(|key| model.remove(**key).is_some()).count();
            model.over.extend([key, other]);
            let named = if key == other { vec![key] } else { vec![key, other] };
            let told = map.expire(&named).expires_in(Duration::from_millis(1)).await.unwrap();
            wait_until(SOON, async || map.get_many(&named).await.unwrap().iter().all(Option::is_none)).await;
            told == done as u64
        }
        _ => {
            let crowd = model.entries.split_off(&CROWD).len();
            map.remove_many(&(CROWD..CROWD + 600).collect::<Vec<_>>()).await.unwrap() == crowd as u64
        }
    }
}

async fn read(map: &Native, model: &Model, (step, key, other, one, _): (u8, u16, u16, i64, u8)) -> bool {
    let was = model.value(key);
    match step {
        25 => map.get(&key).await.unwrap() == was && map.peek(&other).await.unwrap() == model.value(other),
        26 => {
            let named: Vec<u16> = (0..5).chain(CROWD - 1..CROWD + 601).collect();
            let expected: Vec<Option<i64>> = named.iter().map(|key| model.value(*key)).collect();
            map.get_many(&named).await.unwrap() == expected && map.contains_key(&key).await.unwrap() == was.is_some()
        }
        27 => model.counts(map.len().await.unwrap()),
        28 => {
            let told = map.is_empty().await.unwrap();
            told == model.entries.is_empty() || (!told && !model.over.is_empty())
        }
        _ => {
            let has = |(value, _): &(i64, End)| *value == one;
            let mut values: Vec<i64> = map.values().try_collect().await.unwrap();
            let mut all: Vec<i64> = model.entries.values().map(|(value, _)| *value).collect();
            values.sort_unstable();
            all.sort_unstable();
            let keys: BTreeSet<u16> = map.keys().try_collect().await.unwrap();
            values == all
                && keys.iter().eq(model.entries.keys())
                && map.contains_value(&one).await.unwrap() == model.entries.values().any(has)
        }
    }
}
