//! Models of buckets and maps. Random operations run on an object and on its model, on every
//! topology.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_bucket::Bucket;
use redgrid_core::Client;
use redgrid_core::object::Lifetime;
use redgrid_map::Map;
use redgrid_map::codecs::{Codec, Decode, DecodeError, Encode, EncodeError, Json, Raw};
use redgrid_testkit::{RedisServer, ServerBinary};

/// Returns the seeds of a model test: as many as `some`, or as `REDGRID_MODEL_SEEDS` says.
pub fn seeds(some: u64) -> Range<u64> {
    let more = std::env::var("REDGRID_MODEL_SEEDS").ok().and_then(|text| text.parse().ok());
    0..more.unwrap_or(some)
}

/// Starts the newest server without active expiry, so that expired entries stay stored until they
/// are accessed. Prints a message and returns `None` if no newest server is found.
pub async fn newest_that_keeps_expired_entries(test: &str) -> Option<RedisServer> {
    let newest = ServerBinary::newest_or_skip(test)?;
    let server = RedisServer::builder().binary(newest).config("enable-debug-command yes").start().await;
    let server = server.expect("it starts");
    let observer = server.observer().await.expect("it answers");
    observer.cmd(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]).await.expect("it can");
    Some(server)
}

/// The unit of lifetimes in models.
pub const HOUR: Duration = Duration::from_secs(3_600);

/// The base of absolute expiry times, about the year 2096: later than all relative lifetimes.
pub const FAR: Duration = Duration::from_secs(4_000_000_000);

/// The expiry of an entry, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// At a time that has passed.
    Past,
    /// This many hours after the lifetime was set.
    In(u16),
    /// At an absolute time: this many hours after `FAR`.
    At(u16),
    /// Never.
    Never,
}

impl End {
    /// Whether this expiry agrees with a reported lifetime, within half an hour.
    pub fn is(self, told: Lifetime) -> bool {
        let left = match self {
            End::In(hours) => HOUR * hours.into(),
            End::At(hours) => {
                FAR + HOUR * hours.into() - SystemTime::UNIX_EPOCH.elapsed().expect("it is later than that")
            }
            End::Past => return told == Lifetime::Absent,
            End::Never => return told == Lifetime::Endless,
        };
        matches!(told, Lifetime::Ends(told) if told < left + HOUR / 2 && told > left - HOUR / 2)
    }
}

/// Compares buckets with their model, one for each seed.
///
/// # Panics
///
/// If they differ; the message contains the seed and the operations.
pub async fn bucket(client: &Client, name: &str, some: u64) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let bucket: Bucket<u8, Json> = Bucket::new(client, format!("{name}:{seed}"));
        let mut model: Option<u8> = None;
        let mut story = Vec::new();
        for _ in 0..60 {
            let (step, one, other) = (random.u8(..11), random.u8(..4), random.u8(..4));
            story.push((step, one, other));
            let fits = match step {
                0 => bucket.get().await.unwrap() == model,
                1 => {
                    bucket.set(&one).await.unwrap();
                    model = Some(one);
                    true
                }
                2 => bucket.get_and_set(&one).await.unwrap() == model.replace(one),
                3 => {
                    let free = model.is_none();
                    model = model.or(Some(one));
                    bucket.try_set(&one).await.unwrap() == free
                }
                4 => {
                    let there = model.is_some();
                    model = model.map(|_| one);
                    bucket.set_if_exists(&one).await.unwrap() == there
                }
                5 => {
                    let so = model == Some(one);
                    model = if so { Some(other) } else { model };
                    bucket.compare_and_set(&one, &other).await.unwrap() == so
                }
                6 => {
                    let so = model == Some(one);
                    model = if so { None } else { model };
                    bucket.compare_and_delete(&one).await.unwrap() == so
                }
                7 => bucket.get_and_delete().await.unwrap() == model.take(),
                8 => bucket.delete().await.unwrap() == model.take().is_some(),
                9 => {
                    model = model.map(|n| n ^ 1);
                    bucket.update(|n| *n ^= 1).await.unwrap() == model
                }
                _ => bucket.size().await.unwrap() == u64::from(model.is_some()),
            };
            assert!(fits, "seed {seed}: {model:?} after {story:?}");
        }
        assert!(!bucket.delete().await.unwrap() || model.is_some());
    }
}

/// Compares maps with their model, one for each seed.
///
/// # Panics
///
/// If they differ; the message contains the seed and the operations.
pub async fn map(client: &Client, name: &str, some: u64) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let map: Map<u8, u8, Json, OneByte> =
            Map::<u8, u8>::new(client, format!("{name}:{seed}")).with_codecs(Json, OneByte);
        let mut model: BTreeMap<u8, u8> = BTreeMap::new();
        let mut story = Vec::new();
        for _ in 0..80 {
            let step = (random.u8(..18), random.u8(..4), random.u8(..3), random.u8(..3));
            story.push(step);
            let (what, key, one, _) = step;
            let fits = match what {
                0..13 => change_map(&map, &mut model, step, &mut random, 4).await,
                13 => map.get(&key).await.unwrap() == model.get(&key).copied(),
                14 => map.contains_value(&one).await.unwrap() == model.values().any(|value| *value == one),
                15 | 16 => map.entries().try_collect::<BTreeMap<u8, u8>>().await.unwrap() == model,
                _ => map.len().await.unwrap() == model.len() as u64,
            };
            assert!(fits, "seed {seed}: {model:?} after {story:?}");
        }
        assert_eq!(map.clear().await.unwrap(), !model.is_empty(), "seed {seed}");
    }
}

/// Defines a function that applies the same change to a map type and to its model, in one of 13
/// ways. The change is to one key, or to many keys below a number. The function returns whether the
/// results agree.
#[macro_export]
macro_rules! change_map {
    ($name:ident, $map:ty, $key:ident, $value:ident) => {
        async fn $name(
            map: &$map,
            model: &mut std::collections::BTreeMap<$key, $value>,
            (step, key, one, other): (u8, $key, $value, $value),
            random: &mut fastrand::Rng,
            keys: $key,
        ) -> bool {
            let has = model.get(&key).copied();
            match step {
                0 => map.insert(&key, &one).await.unwrap() == model.insert(key, one),
                1 => map.set(&key, &one).await.unwrap() == model.insert(key, one).is_none(),
                2 => {
                    model.entry(key).or_insert(one);
                    map.insert_if_absent(&key, &one).await.unwrap() == has
                }
                3 => {
                    model.entry(key).or_insert(one);
                    map.set_if_absent(&key, &one).await.unwrap() == has.is_none()
                }
                4 => {
                    model.entry(key).and_modify(|value| *value = one);
                    map.replace(&key, &one).await.unwrap() == has
                }
                5 => {
                    model.entry(key).and_modify(|value| *value = one);
                    map.set_if_exists(&key, &one).await.unwrap() == has.is_some()
                }
                6 => {
                    if has == Some(one) {
                        model.insert(key, other);
                    }
                    map.compare_and_set(&key, &one, &other).await.unwrap() == (has == Some(one))
                }
                7 => {
                    if has == Some(one) {
                        model.remove(&key);
                    }
                    map.compare_and_remove(&key, &one).await.unwrap() == (has == Some(one))
                }
                8 => map.remove(&key).await.unwrap() == model.remove(&key),
                9 => {
                    model.entry(key).and_modify(|value| *value ^= 1);
                    map.update(&key, |value| *value ^= 1).await.unwrap() == model.get(&key).copied()
                }
                10 => {
                    // An odd value is removed, and an absent one inserted.
                    let change = |value: Option<$value>| match value {
                        Some(value) if value % 2 != 0 => None,
                        value => Some(value.unwrap_or(one) + 1),
                    };
                    let is = change(has);
                    let _ = if let Some(is) = is { model.insert(key, is) } else { model.remove(&key) };
                    map.alter(&key, change).await.unwrap() == is
                }
                // Writes many entries, some keys twice; the last value of a key counts.
                11 => {
                    let many: Vec<($key, $value)> =
                        (0..random.$value(0..20)).map(|n| (random.$key(..keys), n)).collect();
                    model.extend(many.iter().copied());
                    map.set_many(many.iter().map(|(key, value)| (key, value))).await.is_ok()
                }
                _ => {
                    let many: Vec<$key> = (0..random.usize(..8)).map(|_| random.$key(..keys)).collect();
                    let were = many.iter().filter(|key| model.remove(key).is_some()).count() as u64;
                    map.remove_many(&many).await.unwrap() == were
                }
            }
        }
    };
}

change_map!(change_map, Map<u8, u8, Json, OneByte>, u8, u8);

/// A codec for tests: the value is one unchanged byte.
#[derive(Debug, Clone, Copy, Default)]
struct OneByte;

impl Codec for OneByte {
    fn name(&self) -> std::borrow::Cow<'static, str> {
        "OneByte".into()
    }
}

impl Encode<u8> for OneByte {
    fn encode(&self, value: &u8) -> Result<Bytes, EncodeError> {
        Raw.encode(&[*value][..])
    }
}

impl Decode<u8> for OneByte {
    fn decode(&self, bytes: &Bytes) -> Result<u8, DecodeError> {
        match bytes[..] {
            [value] => Ok(value),
            _ => Err(DecodeError::unexpected(self, bytes, "one byte")),
        }
    }
}
