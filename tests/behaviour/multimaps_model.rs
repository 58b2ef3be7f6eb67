//! Multimaps of every kind compared with a model: sets and lists, without lifetimes, with
//! redgrid's, and with the server's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use redgrid_core::Client;
use redgrid_keys::{Key, Keys};
use redgrid_multimap::codecs::Json;
use redgrid_multimap::{Expiring, Kind, Lifetime, Lifetimes, Lists, Multimap, Native, Sets};
use redgrid_testkit::wait_until;
use redgrid_tests::model::{End, FAR, HOUR, newest_that_keeps_expired_entries, seeds};
use redgrid_tests::{SOON, client, server};

type Map<Y> = Multimap<u16, u16, Json, Json, Y>;

/// The operation, a key, two values or other numbers, and another number.
type Step = (u8, u16, u16, u16, u8);

/// The first of many keys, which need more than one page.
const CROWD: u16 = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn multimaps_match_their_models() {
    let server = server().await;
    modelled([&client(&server).await, &client(&server).await], 6).await;
}

/// Multimaps match their models although the server does not remove expired entries. On other
/// servers they also stay stored for a moment.
#[tokio::test(flavor = "multi_thread")]
async fn native_multimaps_match_their_models_beside_expired_keys() {
    let name = "native_multimaps_match_their_models_beside_expired_keys";
    let Some(server) = newest_that_keeps_expired_entries(name).await else { return };
    native([&client(&server).await, &client(&server).await], 6, true).await;
}

/// Multimaps that every server supports.
pub(super) async fn modelled(clients: [&Client; 2], some: u64) {
    let of = |name, is_list| Sort { name, is_list, is_native: false, stays: false };
    go_through::<Sets>(clients, some, of("sets", false), plain).await;
    go_through::<Lists>(clients, some, of("lists", true), plain).await;
    go_through::<Expiring<Sets>>(clients, some, of("expiring_sets", false), with_ends).await;
    go_through::<Expiring<Lists>>(clients, some, of("expiring_lists", true), with_ends).await;
}

/// Multimaps whose keys the server expires. It also removes expired entries, unless `stays`.
pub(super) async fn native(clients: [&Client; 2], some: u64, stays: bool) {
    let of = |name, is_list| Sort { name, is_list, is_native: true, stays };
    go_through::<Native<Sets>>(clients, some, of("native_sets", false), with_ends).await;
    go_through::<Native<Lists>>(clients, some, of("native_lists", true), with_ends).await;
}

/// The kind of a multimap.
#[derive(Debug, Clone, Copy)]
struct Sort {
    name: &'static str,
    is_list: bool,
    /// Whether the server expires its keys, and whether expired keys stay stored.
    is_native: bool,
    stays: bool,
}

/// The expected multimap: the values of each key, in order, and the end of its lifetime.
#[derive(Debug, Clone)]
struct Model {
    sort: Sort,
    keys: BTreeMap<u16, (Vec<u16>, End)>,
    whole: End,
    /// Keys that may be stored although they have expired.
    over: BTreeSet<u16>,
}

impl Model {
    /// Adds to the values of a key; returns how many are new.
    fn add(&mut self, key: u16, values: &[u16]) -> u64 {
        if values.is_empty() {
            return 0;
        }
        let (had, _) = self.keys.entry(key).or_insert((Vec::new(), End::Never));
        let before = had.len();
        for value in values {
            if self.sort.is_list || !had.contains(value) {
                had.push(*value);
            }
        }
        (had.len() - before) as u64
    }

    /// Replaces the values of a key, which keeps its lifetime.
    fn replace(&mut self, key: u16, values: &[u16]) {
        if let Some((had, _)) = self.keys.get_mut(&key) {
            had.clear();
        }
        self.add(key, values);
        self.tidy();
    }

    /// Removes a key whose time has passed.
    fn end(&mut self, key: u16) {
        if self.keys.remove(&key).is_some() && self.sort.stays {
            self.over.insert(key);
        }
        self.tidy();
    }

    /// Removes keys without values, and the end of the whole map if it has no keys.
    fn tidy(&mut self) {
        self.keys.retain(|_, (values, _)| !values.is_empty());
        self.over.retain(|key| !self.keys.contains_key(key));
        if self.keys.is_empty() {
            self.whole = End::Never;
        }
    }

    fn values(&self, key: u16) -> Vec<u16> {
        self.keys.get(&key).map(|(values, _)| values.clone()).unwrap_or_default()
    }

    /// Whether these are the values; for lists, in their order.
    fn is(&self, values: Vec<u16>, told: Vec<u16>) -> bool {
        self.in_order(values) == self.in_order(told)
    }

    fn in_order(&self, mut values: Vec<u16>) -> Vec<u16> {
        if !self.sort.is_list {
            values.sort_unstable();
        }
        values
    }

    /// Whether the number of keys is right. Expired keys that are stored may be counted.
    fn counts(&self, told: u64) -> bool {
        (self.keys.len()..=self.keys.len() + self.over.len()).contains(&(told as usize))
    }
}

/// Applies the same operations to a map and to its model. One client changes it, another reads it.
async fn go_through<Y: Kind>(
    clients: [&Client; 2],
    some: u64,
    sort: Sort,
    change: impl AsyncFn(&Map<Y>, &mut Model, Step, &mut Rng) -> bool,
) {
    for seed in seeds(some) {
        let mut random = Rng::with_seed(seed);
        let name = format!("{}:{seed}", sort.name);
        let maps = clients.map(|client| Map::<Y>::new(client, &name));
        let mut model = Model { sort, keys: BTreeMap::new(), whole: End::Never, over: BTreeSet::new() };
        let mut story = Vec::new();
        for _ in 0..100 {
            let step = (random.u8(..32), random.u16(..5), random.u16(..4), random.u16(..4), random.u8(..8));
            story.push(step);
            let who = random.usize(..2);
            let before = model.clone();
            let fits = change(&maps[who], &mut model, step, &mut random).await;
            assert!(fits, "{name}: {step:?} of {before:?} after {story:?}");
            model.tidy();
            let same = look(&maps[1 - who], &model, step).await;
            assert!(same, "{name}: it is not {model:?} after {story:?}");
        }
        let keys = model.keys.len() as u64;
        assert_eq!(maps[0].clear().await.unwrap(), keys, "{name}: {model:?} after {story:?}");
        let left: Vec<Key> = Keys::new(clients[1]).all().matching(format!("*{name}*")).try_collect().await.unwrap();
        let left: Vec<&str> = left.iter().filter_map(Key::as_str).collect();
        assert!(left.is_empty() || sort.stays && left == [name.as_str()], "{name}: {left:?} is left after {story:?}");
    }
}

/// Whether another client sees the expected content. Each call checks only a part, because some
/// reads remove expired entries.
async fn look<Y: Kind>(map: &Map<Y>, model: &Model, (_, key, one, other, n): Step) -> bool {
    let mut found: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for (key, value) in map.entries().try_collect::<Vec<_>>().await.unwrap() {
        found.entry(key).or_default().push(value);
    }
    let all = found.len() == model.keys.len() && found.into_iter().all(|(key, told)| model.is(model.values(key), told));
    let values = model.values(key);
    let keys = || model.keys.keys().copied().collect::<BTreeSet<u16>>();
    all && match n {
        0 => model.counts(map.key_len().await.unwrap()),
        1 => {
            let told = map.is_empty().await.unwrap();
            told == model.keys.is_empty() || (!told && !model.over.is_empty())
        }
        2 => {
            let count = |(values, _): &(Vec<u16>, End)| values.len() as u64;
            map.len().await.unwrap() == model.keys.values().map(count).sum::<u64>()
        }
        3 => {
            map.contains_key(&key).await.unwrap() != values.is_empty()
                && map.values_len(&key).await.unwrap() == values.len() as u64
        }
        4 => {
            let somewhere = model.keys.values().any(|(values, _)| values.contains(&one));
            map.contains_entry(&key, &other).await.unwrap() == values.contains(&other)
                && map.contains_value(&one).await.unwrap() == somewhere
        }
        5 => {
            map.read_all_keys().await.unwrap().into_iter().collect::<BTreeSet<_>>() == keys()
                && map.keys().try_collect::<BTreeSet<_>>().await.unwrap() == keys()
        }
        6 => {
            let mut told: Vec<u16> = map.values().try_collect().await.unwrap();
            let mut all: Vec<u16> = model.keys.values().flat_map(|(values, _)| values.clone()).collect();
            told.sort_unstable();
            all.sort_unstable();
            told == all
        }
        _ => model.is(values, map.get_all(&key).await.unwrap()),
    }
}

/// Operations of multimaps of every kind.
async fn plain<Y: Kind>(map: &Map<Y>, model: &mut Model, (step, key, one, _, n): Step, random: &mut Rng) -> bool {
    let had = model.values(key);
    // Some values occur more than once.
    let many: Vec<u16> = (0..n).map(|_| random.u16(..5)).collect();
    match step {
        0..3 => map.insert(&key, &one).await.unwrap() == (model.add(key, &[one]) > 0),
        3..6 => map.insert_many(&key, &many).await.unwrap() == model.add(key, &many),
        6..9 => {
            let at = had.iter().position(|value| *value == one);
            if let Some(at) = at {
                model.keys.get_mut(&key).unwrap().0.remove(at);
            }
            model.tidy();
            map.remove(&key, &one).await.unwrap() == at.is_some()
        }
        9 | 10 => {
            model.replace(key, &many);
            model.is(had, map.replace_all(&key, &many).await.unwrap())
        }
        11 => {
            model.replace(key, &many);
            map.set_all(&key, &many).await.is_ok()
        }
        12 => {
            model.replace(key, &[]);
            model.is(had, map.remove_all(&key).await.unwrap())
        }
        13 => {
            let named = [key, one, key];
            let gone = named.iter().filter(|key| model.keys.remove(key).is_some()).count();
            model.tidy();
            map.remove_keys(&named).await.unwrap() == gone as u64
        }
        // More values than one removal deletes.
        14 if n < 2 => {
            let many: Vec<u16> = (100..800).collect();
            map.insert_many(&key, &many).await.unwrap() == model.add(key, &many)
        }
        // More keys than one page has. They are inserted, and sometimes removed.
        15 if n < 2 => {
            let crowd: Vec<u16> = (CROWD..CROWD + 120).collect();
            let new: u64 = crowd.iter().map(|key| model.add(*key, &[one])).sum();
            let told = try_join_all(crowd.iter().map(|key| map.insert(key, &one))).await.unwrap();
            told.into_iter().filter(|new| *new).count() as u64 == new
        }
        16 => {
            let gone = model.keys.split_off(&CROWD).len();
            model.tidy();
            map.remove_keys(&(CROWD..CROWD + 120).collect::<Vec<_>>()).await.unwrap() == gone as u64
        }
        17 if n == 0 => {
            let were = std::mem::take(&mut model.keys).len();
            model.tidy();
            map.clear().await.unwrap() == were as u64
        }
        // If expired keys stay stored, a map without valid keys keeps its lifetime, unlike the
        // model.
        18..21 if !model.sort.stays => whole(map, model, (step, one)).await,
        _ => model.is(had, map.get_all(&key).await.unwrap()),
    }
}

/// Operations on the lifetime of the whole map.
async fn whole<Y: Kind>(map: &Map<Y>, model: &mut Model, (step, one): (u8, u16)) -> bool {
    let there = !model.keys.is_empty();
    match step {
        18 => {
            if there {
                model.whole = End::In(4 + 2 * one);
            }
            map.object().expire_in(HOUR * (4 + 2 * u32::from(one))).await.unwrap() == there
        }
        19 => {
            let had = std::mem::replace(&mut model.whole, End::Never) != End::Never;
            map.object().persist().await.unwrap() == had
        }
        _ => match map.object().lifetime().await.unwrap() {
            Lifetime::Absent => !there,
            told => there && model.whole.is(told),
        },
    }
}

/// Operations of every kind of multimap, and operations on the lifetimes of keys.
async fn with_ends<Y: Lifetimes>(map: &Map<Y>, model: &mut Model, step: Step, random: &mut Rng) -> bool {
    let (what, key, one, other, n) = step;
    let there = model.keys.contains_key(&key);
    let say = |model: &mut Model, end: End| _ = model.keys.get_mut(&key).map(|(_, said)| *said = end);
    let fits = match what {
        21..23 => {
            say(model, End::In(3 + 2 * one));
            map.expire_key(&key, HOUR * (3 + 2 * u32::from(one))).await.unwrap() == there
        }
        23 => {
            say(model, End::At(one));
            let at = SystemTime::UNIX_EPOCH + FAR + HOUR * one.into();
            map.expire_key_at(&key, at).await.unwrap() == there
        }
        24 => {
            say(model, End::Never);
            map.persist_key(&key).await.unwrap() == there
        }
        // The lifetime ends at a time in the past.
        25 => {
            model.end(key);
            map.expire_key_at(&key, SystemTime::UNIX_EPOCH + HOUR).await.unwrap() == there
        }
        // The key expires. The next operation may find it before the server has removed it.
        26..28 => {
            model.end(key);
            let told = map.expire_key(&key, Duration::from_millis(1)).await.unwrap() == there;
            wait_until(SOON, async || map.key_lifetime(&key).await.unwrap() == Lifetime::Absent).await;
            if model.sort.is_native && !model.sort.stays {
                wait_until(SOON, async || map.key_len().await.unwrap() == model.keys.len() as u64).await;
            }
            told && (what == 26 || plain(map, model, (random.u8(..14), key, one, other, n), random).await)
        }
        _ => plain(map, model, step, random).await,
    };
    let told = map.key_lifetime(&key).await.unwrap();
    fits && match model.keys.get(&key) {
        Some((_, own)) => (*own).min(model.whole).is(told),
        None => told == Lifetime::Absent,
    }
}
