//! Compares a map that two clients cache with a model. The writer reads its own change immediately;
//! the other client reads it after its notification.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use redgrid_core::Client;
use redgrid_local_cached_map::codecs::{Long, Text};
use redgrid_local_cached_map::{LocalCachedMap, Map, Options};
use redgrid_testkit::{Cluster, wait_until};
use redgrid_tests::model::seeds;
use redgrid_tests::{SOON, change_map, client, client_with, server};

type Near = LocalCachedMap<u64, i64, Text, Long>;
type Model = BTreeMap<u64, i64>;

const KEYS: u64 = 10;

/// Longer than the test: each observed change was caused by a message, not by the bound.
const LONG_BOUND: Duration = Duration::from_secs(3600);

/// The options for this seed.
fn options(seed: u64) -> Options {
    let told = Options::default().max_stale(LONG_BOUND);
    match seed % 8 {
        0 => told,
        1 => told.keep_absent(true),
        2 => told.max_entries(3),
        3 => told.max_bytes(1024).keep_absent(true),
        4 => told.time_to_live(Duration::from_millis(20)),
        5 => told.max_idle(Duration::from_millis(20)).keep_absent(true),
        6 => Options::default().max_stale(Duration::from_millis(400)).keep_absent(true),
        _ => Options::default(),
    }
}

/// The handles of one map at one client, which share a cache.
struct Side {
    client: Client,
    name: String,
    options: Options,
    handles: Vec<Near>,
}

impl Side {
    async fn new(client: &Client, name: &str, options: Options) -> Side {
        let mut side = Side { client: client.clone(), name: name.to_owned(), options, handles: Vec::new() };
        side.begin().await;
        side
    }

    fn handle(&self) -> Near {
        LocalCachedMap::<u64, i64, Text>::with_options(&self.client, &self.name, self.options).with_codecs(Text, Long)
    }

    /// Creates the handles, and waits until the cache is active.
    async fn begin(&mut self) {
        let first = self.handle();
        self.handles = vec![first.clone(), self.handle(), first];
        self.in_force().await;
    }

    async fn in_force(&self) {
        let near = &self.handles[0];
        wait_until(SOON, async || {
            near.get(&u64::MAX).await.unwrap();
            near.is_active()
        })
        .await;
    }

    /// Drops all handles, and their cache with them. A new handle begins with an empty cache.
    async fn end(&mut self) {
        self.handles.clear();
        let before = self.handle();
        assert!(before.cached_keys().unwrap().is_empty(), "{}: cached without a handle", self.name);
        self.begin().await;
    }

    fn any(&self, random: &mut fastrand::Rng) -> &Near {
        &self.handles[random.usize(..self.handles.len())]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_cached_by_two_clients_matches_its_model() {
    let server = server().await;
    modelled(&client(&server).await, &client(&server).await, 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_a_map_cached_by_two_clients_matches_its_model() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let url = cluster.url();
    let (one, two) = (client_with(&url, |config| config).await, client_with(&url, |config| config).await);
    modelled(&one, &two, 3).await;
}

async fn modelled(one: &Client, two: &Client, some: u64) {
    let mut hits = 0;
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let name = format!("model:{seed}");
        let mut sides = [Side::new(one, &name, options(seed)).await, Side::new(two, &name, options(seed)).await];
        let (mut model, mut story) = (Model::new(), Vec::new());
        for _ in 0..50 {
            let step = (random.u8(..28), random.u64(..KEYS), random.i64(0..3), random.i64(0..3));
            let who = random.usize(..2);
            story.push((who, step));
            let told = |what: &str| format!("{what}, seed {seed}: {model:?} after {story:?}");
            match step.0 {
                25 => sides[who].end().await,
                // A write that bypasses the cache sends no message, so both caches are cleared.
                26 => {
                    let past = Map::<u64, i64, Text>::new(&sides[who].client, &name).with_codecs(Text, Long);
                    past.set(&step.1, &step.2).await.unwrap();
                    model.insert(step.1, step.2);
                    sides[who].any(&mut random).clear_all_local().await.unwrap();
                }
                27 if step.2 == 0 => {
                    let there = !model.is_empty();
                    model.clear();
                    let object = sides[who].handles[0].object();
                    assert_eq!(object.delete().await.unwrap(), there, "seed {seed} after {story:?}");
                    // A deletion sends no message either. With a short bound, the caches notice it
                    // in time.
                    if sides[who].options.max_stale(LONG_BOUND) == sides[who].options {
                        sides[who].any(&mut random).clear_all_local().await.unwrap();
                    } else {
                        for side in &sides {
                            let gone = agree(side.any(&mut random), &model).await;
                            assert!(gone, "seed {seed}: still cached, after {story:?}");
                        }
                    }
                }
                0..=13 | 24 => {
                    let near = sides[who].any(&mut random);
                    let mut now = model.clone();
                    let fits = change(near, &mut now, step, &mut random).await;
                    assert!(fits, "{}", told("the answer"));
                    model = now;
                }
                _ => {
                    // All earlier changes have reached this client.
                    let fits = look(sides[who].any(&mut random), &model, step).await;
                    assert!(fits, "{}", told("a read"));
                }
            }
            // The writer reads its own change immediately, through either handle.
            let at_once = seen(sides[who].any(&mut random), &model).await;
            assert!(at_once, "the writer, seed {seed}: {model:?} after {story:?}");
            let other = sides[1 - who].any(&mut random);
            assert!(agree(other, &model).await, "the other, seed {seed}: {model:?} after {story:?}");
            for side in &sides {
                let stats = side.handles[0].stats();
                let (entries, bytes) = match seed % 8 {
                    2 => (3, u64::MAX),
                    3 => (u64::MAX, 1024),
                    _ => (KEYS + 1, u64::MAX),
                };
                assert!(stats.entries <= entries && stats.bytes <= bytes, "seed {seed}: {stats:?} after {story:?}");
            }
        }
        hits += sides.iter().map(|side| side.handles[0].stats().hits).sum::<u64>();
        let there = !model.is_empty();
        assert_eq!(sides[0].handles[0].clear().await.unwrap(), there, "seed {seed} after {story:?}");
        assert!(agree(&sides[1].handles[1], &Model::new()).await, "seed {seed} after {story:?}");
    }
    assert!(hits > 200, "{hits}: too few reads from the cache");
}

/// Whether the condition becomes true within the usual time limit.
async fn soon(so: impl AsyncFn() -> bool) -> bool {
    let end = Instant::now() + SOON;
    loop {
        if so().await {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn agree(near: &Near, model: &Model) -> bool {
    soon(async || seen(near, model).await).await
}

/// Whether the map has the content of the model. It is read by single reads, by one read of all
/// keys, and from the cache. The second round may read cached values.
async fn seen(near: &Near, model: &Model) -> bool {
    let keys: Vec<u64> = (0..KEYS).collect();
    let expected: Vec<Option<i64>> = keys.iter().map(|key| model.get(key).copied()).collect();
    for _ in 0..2 {
        let mut found = Vec::new();
        for key in &keys {
            found.push(near.get(key).await.unwrap());
        }
        if found != expected || near.get_many(&keys).await.unwrap() != expected {
            return false;
        }
    }
    let kept: HashMap<u64, i64> = near.cached_entries().unwrap();
    kept.iter().all(|(key, value)| model.get(key) == Some(value))
}

change_map!(change_map, Near, u64, i64);

async fn change(near: &Near, model: &mut Model, step: (u8, u64, i64, i64), random: &mut fastrand::Rng) -> bool {
    let (what, key, one, _) = step;
    match what {
        0..13 => change_map(near, model, step, random, KEYS).await,
        13 => {
            let sum = model.entry(key).or_default();
            *sum -= one;
            near.add(&key, &-one).await.unwrap() == *sum
        }
        _ => {
            let were = !model.is_empty();
            if one == 0 {
                model.clear();
            }
            one != 0 || near.clear().await.unwrap() == were
        }
    }
}

/// Other reads, and operations on the client's own cache.
async fn look(near: &Near, model: &Model, (step, key, one, other): (u8, u64, i64, i64)) -> bool {
    let (has, len) = (model.get(&key).copied(), model.len() as u64);
    let all = |keys: Vec<u64>| keys.len() == model.len() && keys.iter().all(|key| model.contains_key(key));
    let sorted = |mut values: Vec<i64>| {
        values.sort_unstable();
        values
    };
    let values = sorted(model.values().copied().collect());
    match step {
        14 => near.contains_key(&key).await.unwrap() == has.is_some(),
        15 => near.value_size(&key).await.unwrap() == has.map_or(0, |value| value.to_string().len() as u64),
        16 => near.len().await.unwrap() == len && near.is_empty().await.unwrap() == (len == 0),
        17 => near.contains_value(&one).await.unwrap() == model.values().any(|value| *value == one),
        18 => {
            let entries: BTreeMap<u64, i64> = near.entries().try_collect().await.unwrap();
            entries == *model && near.read_all().await.unwrap().into_iter().collect::<Model>() == *model
        }
        19 => all(near.read_all_keys().await.unwrap()) && all(near.keys().try_collect().await.unwrap()),
        20 => {
            sorted(near.read_all_values().await.unwrap()) == values
                && sorted(near.values().try_collect().await.unwrap()) == values
        }
        21 => {
            let some: BTreeSet<u64> = near.random_keys(one as u32 + 1).await.unwrap().into_iter().collect();
            let entries = near.random_entries(other as u32 + 1).await.unwrap();
            some.len() == model.len().min(one as usize + 1)
                && entries.len() == model.len().min(other as usize + 1)
                && some.iter().all(|key| model.contains_key(key))
                && entries.iter().all(|(key, value)| model.get(key) == Some(value))
        }
        22 => {
            near.clear_local();
            let brought = near.pre_load(one as u64 * 3).await.unwrap();
            brought <= len.min(one as u64 * 3)
        }
        _ => {
            near.clear_local();
            near.get(&key).await.unwrap() == has
        }
    }
}
