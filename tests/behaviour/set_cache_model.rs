//! A set with a lifetime for each value, compared with a model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use redgrid_cache::{Lifetime, SetCache, SetInsert};
use redgrid_core::{Client, Request, Script};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

const HOUR: Duration = Duration::from_secs(3_600);

/// For a value that never expires, Redisson stores this number minus the current time, in
/// milliseconds.
const NEVER: i64 = 92_233_720_368_547_758;

/// The earliest absolute end of a lifetime, about 2096. It is later than all relative ends.
const FAR: Duration = Duration::from_secs(4_000_000_000);

/// Script that lets all values from `CROWD` on expire. Returns how many there are, including those
/// that had expired before.
static OVER: Script<1> = Script::new(
    "test/over",
    "local gone = 0
    for _, one in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
      if tonumber(one) >= tonumber(ARGV[1]) then
        redis.call('ZADD', KEYS[1], 1000 + gone % 3, one)
        gone = gone + 1
      end
    end
    return gone",
);

/// The first of many values. When they have expired, one change does not remove all of them.
const CROWD: u16 = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_set_with_lifetimes_matches_its_model() {
    let server = server().await;
    modelled([&client(&server).await, &client(&server).await], 8).await;
}

/// When a value expires. The variants are in the order of these times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// At a time that has passed.
    Past,
    /// This many hours after the insert.
    In(u32),
    /// This many hours after `FAR`.
    At(u32),
    /// Never, in the form that Redisson stores.
    Redissons,
    Never,
}

impl End {
    /// Returns an end that does not depend on the time of the insert.
    fn fixed(n: u8) -> End {
        match n {
            0 => End::Past,
            1..4 => End::At(n.into()),
            _ => End::Never,
        }
    }

    fn any(n: u8) -> End {
        match n {
            4..8 => End::In(n.into()),
            n => End::fixed(n),
        }
    }

    fn of<R>(self, insert: SetInsert<R>) -> SetInsert<R> {
        match self {
            End::Past => insert.expires_at(SystemTime::UNIX_EPOCH + HOUR),
            End::In(hours) => insert.expires_in(HOUR * hours),
            End::At(hours) => insert.expires_at(SystemTime::UNIX_EPOCH + FAR + HOUR * hours),
            End::Redissons | End::Never => insert,
        }
    }

    fn is(self, told: Lifetime, score: Option<f64>) -> bool {
        match (self, told) {
            (End::In(hours), Lifetime::Ends(left)) => left <= HOUR * hours && left > HOUR * (hours - 1),
            (End::At(hours), Lifetime::Ends(_)) => score == Some((FAR + HOUR * hours).as_millis() as f64),
            (End::Redissons | End::Never, Lifetime::Endless) => true,
            _ => false,
        }
    }
}

type Model = BTreeMap<u16, End>;

/// Inserts a value, or removes it if its end has passed.
fn put(model: &mut Model, value: u16, end: End) {
    match end {
        End::Past => model.remove(&value),
        end => model.insert(value, end),
    };
}

/// Applies the same operations to a set and to its model. Two clients use the set, and a foreign
/// client writes to the sorted set.
pub(super) async fn modelled(clients: [&Client; 2], some: u64) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let name = format!("set_cache:{seed}");
        let sets = clients.map(|client| SetCache::<u16>::new(client, &name));
        let mut model = Model::new();
        let mut story = Vec::new();
        for _ in 0..120 {
            let mut value = || if random.u8(..4) == 0 { CROWD + random.u16(..250) } else { random.u16(..6) };
            let (one, other) = (value(), value());
            let step = (random.u8(..24), one, other, random.u8(..10));
            story.push(step);
            let [set, other] = if random.bool() { [&sets[0], &sets[1]] } else { [&sets[1], &sets[0]] };
            let fits = match step.0 {
                0..20 => apply(set, &mut model, step).await,
                _ => intrude(clients[0], &name, &mut model, step).await,
            };
            let all: BTreeSet<u16> = other.stream().try_collect().await.unwrap();
            let same = all.iter().eq(model.keys()) && other.len().await.unwrap() == model.len() as u64;
            let told = other.lifetime(&step.1).await.unwrap();
            let score = Request::command("ZSCORE").key(name.clone()).arg(step.1.to_string());
            let score: Option<f64> = clients[0].run(score).await.unwrap();
            let ends = match model.get(&step.1) {
                Some(end) => end.is(told, score),
                None => told == Lifetime::Absent,
            };
            assert!(fits && same && ends, "seed {seed}: {told:?} and {all:?} of {model:?} after {story:?}");
        }
    }
}

async fn apply(set: &SetCache<u16>, model: &mut Model, (step, one, other, n): (u8, u16, u16, u8)) -> bool {
    let (had, fixed, any) = (model.get(&one).copied(), End::fixed(n % 5), End::any(n));
    match step {
        0..3 => {
            put(model, one, any);
            any.of(set.insert(&one)).await.unwrap() == had.is_none()
        }
        3 | 4 => {
            if had.is_none() {
                put(model, one, any);
            }
            any.of(set.insert_if_absent(&one)).await.unwrap() == had.is_none()
        }
        5 => {
            if had.is_some() {
                put(model, one, any);
            }
            any.of(set.expire(&one)).await.unwrap() == had.is_some()
        }
        6 | 7 => {
            let longer = had.is_some_and(|had| had < fixed);
            if longer {
                put(model, one, fixed);
            }
            fixed.of(set.prolong(&one)).await.unwrap() == longer
        }
        8 | 9 => {
            let shorter = had.is_some_and(|had| had > fixed);
            if shorter {
                put(model, one, fixed);
            }
            fixed.of(set.shorten(&one)).await.unwrap() == shorter
        }
        10 => {
            let all = [one, other, one, (one + other) % 7];
            let new = all.iter().collect::<BTreeSet<_>>().into_iter().filter(|one| !model.contains_key(one)).count();
            all.into_iter().for_each(|one| put(model, one, any));
            any.of(set.insert_many(&all)).await.unwrap() == new as u64
        }
        11 | 12 => {
            let all = [one, other, one];
            let free = all.iter().all(|one| !model.contains_key(one));
            if free {
                all.into_iter().for_each(|one| put(model, one, any));
            }
            any.of(set.try_insert_all(&all)).await.unwrap() == free
        }
        13 => {
            let expected = [one, other].map(|one| model.contains_key(&one));
            set.contains_many(&[one, other]).await.unwrap() == expected
        }
        14 => set.contains(&one).await.unwrap() == had.is_some(),
        15 => set.remove(&one).await.unwrap() == model.remove(&one).is_some(),
        16 => {
            let gone = [one, other, one].iter().filter(|one| model.remove(one).is_some()).count();
            set.remove_many(&[one, other, one]).await.unwrap() == gone as u64
        }
        17 => {
            // More values than one request can have, and more than one change removes after their
            // end.
            let all: Vec<u16> = (CROWD..CROWD + 150 + 50 * u16::from(n)).collect();
            let new = all.iter().filter(|one| !model.contains_key(one)).count();
            all.iter().for_each(|one| put(model, *one, any));
            any.of(set.insert_many(&all)).await.unwrap() == new as u64
        }
        18 => set.is_empty().await.unwrap() == model.is_empty(),
        // Sometimes all values are cleared. Expired values may still be stored.
        _ if n == 0 => {
            let was = std::mem::take(model);
            let told = set.clear().await.unwrap();
            (told || was.is_empty()) && !set.object().exists().await.unwrap()
        }
        _ => set.object().exists().await.unwrap() || model.is_empty(),
    }
}

/// Applies writes of clients without redgrid.
async fn intrude(client: &Client, name: &str, model: &mut Model, (step, one, _, n): (u8, u16, u16, u8)) -> bool {
    let add = |score: String| Request::command("ZADD").key(name.to_owned()).arg(score).arg(one.to_string());
    match step {
        // The value expires.
        20 | 21 => {
            model.remove(&one);
            client.run::<u64>(add("1000".into())).await.unwrap() <= 1
        }
        22 => {
            model.insert(one, End::Redissons);
            let never = NEVER - 1_700_000_000_000 - i64::from(n);
            client.run::<u64>(add(never.to_string())).await.unwrap() <= 1
        }
        _ => {
            let gone = model.split_off(&CROWD).len() as u64;
            client.run::<u64>(OVER.with([name.to_owned().into()]).int(CROWD.into())).await.unwrap() >= gone
        }
    }
}
