//! A transaction compared with a model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redgrid_core::Client;
use redgrid_map::Map;
use redgrid_map::codecs::Json;
use redgrid_set::Set;
use redgrid_testkit::Observer;
use redgrid_tests::model::seeds;
use redgrid_tests::{SOON, client, server};
use redgrid_transaction::{
    Isolation, Transaction, TransactionBucket, TransactionError, TransactionMap, TransactionSet,
};

const HOUR: Duration = Duration::from_secs(3600);

/// The stored values. For a bucket also whether it has a lifetime.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    map: BTreeMap<u8, u8>,
    set: BTreeSet<u8>,
    bucket: Option<(u8, bool)>,
}

/// The bucket as the transaction sees it.
#[derive(Debug)]
struct Held {
    value: Option<u8>,
    /// The value at the first read.
    seen: Option<Option<u8>>,
    written: Option<Lives>,
}

/// The lifetime that was given with a write.
#[derive(Clone, Copy, Debug)]
enum Lives {
    On,
    For,
    AsBefore,
}

impl Held {
    fn of(there: Option<(u8, bool)>) -> Held {
        Held { value: there.map(|(value, _)| value), seen: None, written: None }
    }

    /// Reads the value, and remembers it unless the transaction has written it itself.
    fn read(&mut self) -> Option<u8> {
        if self.written.is_none() {
            self.seen.get_or_insert(self.value);
        }
        self.value
    }

    fn write(&mut self, value: Option<u8>, lives: Lives) {
        (self.value, self.written) = (value, Some(lives));
    }

    /// Whether a concurrent change to this value conflicts with the transaction.
    fn conflicts(&self, there: Option<(u8, bool)>, isolation: Isolation) -> bool {
        let is_compared = self.written.is_some() || isolation == Isolation::Serializable;
        is_compared && self.seen.is_some_and(|seen| seen != there.map(|(value, _)| value))
    }

    /// The value after a commit, if `there` was stored before it.
    fn committed(&self, there: Option<(u8, bool)>) -> Option<(u8, bool)> {
        let ends = match self.written {
            None => return there,
            Some(Lives::On) => false,
            Some(Lives::For) => true,
            Some(Lives::AsBefore) => there.is_some_and(|(_, ends)| ends),
        };
        self.value.map(|value| (value, ends))
    }
}

/// A bucket, a map and a set match their models within a transaction and after it, whatever other
/// clients do with the bucket meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_matches_its_model() {
    let server = server().await;
    let (client, others) = (client(&server).await, server.observer().await.unwrap());
    for seed in seeds(40) {
        let mut random = fastrand::Rng::with_seed(seed);
        let isolation = [Isolation::ReadCommitted, Isolation::Serializable][random.usize(..2)];
        let names = ["map", "set", "bucket"].map(|what| format!("{what}:{seed}"));
        let mut model = Model::default();
        for _ in 0..6 {
            let tx = Transaction::new(&client).isolation(isolation).timeout(SOON);
            let (map, set, bucket) = (tx.map(&names[0]), tx.set(&names[1]), tx.bucket(&names[2]));
            let (mut inside, mut held) = (model.clone(), Held::of(model.bucket));
            let mut story = Vec::new();
            for _ in 0..random.usize(..16) {
                let step = (random.u8(..28), random.u8(..5), random.u8(..3), random.u8(..3));
                story.push(step);
                let fits = match step.0 {
                    0..13 => of_map(&map, &mut inside.map, step).await,
                    13..18 => of_set(&set, &mut inside.set, step).await,
                    _ => of_bucket(&bucket, &mut held, step).await,
                };
                assert!(fits, "seed {seed}: {inside:?} {held:?} after {story:?}");
            }
            let meanwhile = (random.u8(..3) == 0).then(|| random.bool().then(|| random.u8(..3)));
            if let Some(value) = meanwhile {
                model.bucket = intrude(&others, &names[2], value).await;
            }
            let about = format!("seed {seed}: {isolation:?}, {held:?}, {meanwhile:?} after {story:?}");
            match random.u8(..3) {
                0 => tx.rollback(),
                _ if held.conflicts(model.bucket, isolation) => {
                    let told = tx.commit().await;
                    assert!(matches!(told, Err(TransactionError::Conflict { .. })), "{told:?} {about}");
                }
                _ => {
                    tx.commit().await.unwrap_or_else(|error| panic!("{error:?} {about}"));
                    model = Model { bucket: held.committed(model.bucket), ..inside };
                }
            }
            assert_eq!(there(&client, &others, &names).await, model, "{about}");
        }
    }
}

/// Sets or deletes the bucket, as Redisson does.
async fn intrude(others: &Observer, bucket: &str, value: Option<u8>) -> Option<(u8, bool)> {
    match value {
        Some(value) => others.cmd(&["SET", bucket, &value.to_string()]).await.unwrap(),
        None => others.cmd(&["DEL", bucket]).await.unwrap(),
    };
    value.map(|value| (value, false))
}

/// The values on the server.
async fn there(client: &Client, others: &Observer, [map, set, bucket]: &[String; 3]) -> Model {
    let value: Option<u8> = others.get(bucket).await.unwrap();
    let ends = others.time_to_live(bucket).await.unwrap().is_some();
    Model {
        map: Map::<u8, u8>::new(client, map).read_all().await.unwrap().into_iter().collect(),
        set: Set::<u8>::new(client, set).read_all().await.unwrap().into_iter().collect(),
        bucket: value.map(|value| (value, ends)),
    }
}

async fn of_map(
    inside: &TransactionMap<u8, u8, Json, Json>,
    map: &mut BTreeMap<u8, u8>,
    (step, key, one, other): (u8, u8, u8, u8),
) -> bool {
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
        _ => inside.set_if_exists(&key, &one).await.unwrap() == map.get_mut(&key).map(|value| *value = one).is_some(),
    }
}

async fn of_set(
    members: &TransactionSet<u8, Json>,
    set: &mut BTreeSet<u8>,
    (step, key, one, _): (u8, u8, u8, u8),
) -> bool {
    match step {
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

async fn of_bucket(
    bucket: &TransactionBucket<u8, Json>,
    held: &mut Held,
    (step, _, one, other): (u8, u8, u8, u8),
) -> bool {
    match step {
        18 => bucket.get().await.unwrap() == held.read(),
        19 => bucket.exists().await.unwrap() == held.read().is_some(),
        20 => {
            held.write(Some(one), Lives::On);
            bucket.set(&one).is_ok()
        }
        21 => {
            held.write(Some(one), Lives::For);
            bucket.set_for(&one, HOUR).is_ok()
        }
        22 => {
            held.write(Some(one), Lives::AsBefore);
            bucket.set_and_keep_lifetime(&one).is_ok()
        }
        23 => {
            let was = held.read();
            held.write(Some(one), Lives::On);
            bucket.get_and_set(&one).await.unwrap() == was
        }
        24 => {
            let is_free = held.read().is_none();
            if is_free {
                held.write(Some(one), Lives::On);
            }
            bucket.try_set(&one).await.unwrap() == is_free
        }
        25 => {
            let is_so = held.read() == Some(one);
            if is_so {
                held.write(Some(other), Lives::On);
            }
            bucket.compare_and_set(&one, &other).await.unwrap() == is_so
        }
        26 => {
            let was = held.read();
            held.write(None, Lives::On);
            bucket.delete().await.unwrap() == was.is_some()
        }
        _ => {
            let was = held.read();
            held.write(None, Lives::On);
            bucket.get_and_delete().await.unwrap() == was
        }
    }
}
