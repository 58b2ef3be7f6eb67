//! Values under names and in maps, and what they are to be: the same operations on both, in any order, wherever the servers are.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use redgrid_bucket::Bucket;
use redgrid_core::Client;
use redgrid_map::Map;
use redgrid_map::codecs::{Codec, Decode, DecodeError, Encode, EncodeError, Json, Raw};

/// The seeds that a model is gone through with: so many, or as many as `REDGRID_MODEL_SEEDS` says.
pub fn seeds(some: u64) -> Range<u64> {
    let more = std::env::var("REDGRID_MODEL_SEEDS").ok().and_then(|text| text.parse().ok());
    0..more.unwrap_or(some)
}

/// Buckets, one for each seed. Fails where one is not what it is to be.
///
/// # Panics
///
/// With the seed and what was done.
pub async fn bucket(client: &Client, name: &str, seeds: Range<u64>) {
    for seed in seeds {
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

/// Maps, one for each seed. Fails where one is not what it is to be.
///
/// # Panics
///
/// With the seed and what was done.
pub async fn map(client: &Client, name: &str, seeds: Range<u64>) {
    for seed in seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let map: Map<u8, u8, Json, OneByte> =
            Map::<u8, u8>::new(client, format!("{name}:{seed}")).with_codecs(Json, OneByte);
        let mut model: BTreeMap<u8, u8> = BTreeMap::new();
        let mut story = Vec::new();
        for _ in 0..80 {
            let (step, key, one, other) = (random.u8(..15), random.u8(..4), random.u8(..3), random.u8(..3));
            story.push((step, key, one, other));
            let has = model.get(&key).copied();
            let fits = match step {
                0 => map.get(&key).await.unwrap() == has,
                1 => map.insert(&key, &one).await.unwrap() == model.insert(key, one),
                2 => map.set(&key, &one).await.unwrap() == model.insert(key, one).is_none(),
                3 => {
                    model.entry(key).or_insert(one);
                    map.insert_if_absent(&key, &one).await.unwrap() == has
                }
                4 => {
                    model.entry(key).or_insert(one);
                    map.set_if_absent(&key, &one).await.unwrap() == has.is_none()
                }
                5 => {
                    model.entry(key).and_modify(|value| *value = one);
                    map.replace(&key, &one).await.unwrap() == has
                }
                6 => {
                    model.entry(key).and_modify(|value| *value = one);
                    map.set_if_exists(&key, &one).await.unwrap() == has.is_some()
                }
                7 => {
                    if has == Some(one) {
                        model.insert(key, other);
                    }
                    map.compare_and_set(&key, &one, &other).await.unwrap() == (has == Some(one))
                }
                8 => {
                    if has == Some(one) {
                        model.remove(&key);
                    }
                    map.compare_and_remove(&key, &one).await.unwrap() == (has == Some(one))
                }
                9 => map.remove(&key).await.unwrap() == model.remove(&key),
                10 => {
                    let there = u64::from(model.remove(&key).is_some());
                    map.remove_many([&key]).await.unwrap() == there
                }
                11 => {
                    model.entry(key).and_modify(|value| *value ^= 1);
                    map.update(&key, |value| *value ^= 1).await.unwrap() == model.get(&key).copied()
                }
                12 => map.contains_value(&one).await.unwrap() == model.values().any(|value| *value == one),
                13 => map.entries().try_collect::<BTreeMap<u8, u8>>().await.unwrap() == model,
                _ => map.len().await.unwrap() == model.len() as u64,
            };
            assert!(fits, "seed {seed}: {model:?} after {story:?}");
        }
        assert_eq!(map.clear().await.unwrap(), !model.is_empty(), "seed {seed}");
    }
}

/// One byte as it is: a codec of the test's own.
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
