//! Compares texts sorted by bytes with a model.

use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};

use futures_util::TryStreamExt;
use redgrid_core::{Client, Failure, Request};
use redgrid_set::{LexSortedSet, ObjectError};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

/// Words of zero, one and more bytes, including the special characters of the server's ranges.
const WORDS: [&str; 20] = [
    "",
    "\0",
    "a",
    "a\0",
    "aa",
    "ab",
    "b",
    "ba",
    "-",
    "+",
    "[a",
    "(a",
    "Z",
    "ü",
    "üa",
    "€",
    "\u{d7ff}",
    "\u{ffff}",
    "🦀",
    "\u{10ffff}",
];

type Bounds = (Bound<&'static str>, Bound<&'static str>);

#[tokio::test(flavor = "multi_thread")]
async fn ordered_text_matches_its_model() {
    let server = server().await;
    modelled([&client(&server).await, &client(&server).await], 12).await;
}

/// Applies the same operations to two sets and to their models. Two clients use the sets, and
/// another one uses plain sorted sets.
pub(super) async fn modelled(clients: [&Client; 2], some: u64) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let names = ["a", "b"].map(|set| format!("lex:{{{seed}}}:{set}"));
        let mut models: [Model; 2] = Default::default();
        let mut story = Vec::new();
        for _ in 0..120 {
            let (step, one, other) = (random.u8(..34), word(&mut random), word(&mut random));
            let (bounds, which, n) = (bounds(&mut random), random.usize(..2), random.u64(..5));
            story.push((step, which, one, other, bounds, n));
            let client = clients[random.usize(..2)];
            let sets = [which, 1 - which].map(|at| (LexSortedSet::new(client, &names[at]), &names[at]));
            let [mut model, beside] = [which, 1 - which].map(|at| std::mem::take(&mut models[at]));
            let mut beside = beside;
            let fits = match step {
                0..12 => change(&sets[0].0, &mut model, (step, one, other, n as u32)).await,
                12..18 => ask(&sets[0].0, &model, (step, one, other, n as u32)).await,
                18..24 => by_value(&sets[0].0, &mut model, bounds, (step, n)).await,
                24..28 => by_rank(&sets[0].0, &mut model, (step, n, n + u64::from(other.len() as u8 % 4))).await,
                28..32 => combined(&sets[0].0, &model, (sets[1].1, &mut beside), (step, bounds)).await,
                _ => intrude(client, sets[0].1, &mut model, (step, one, other)).await,
            };
            let same = is(&sets[0].0, &model).await && is(&sets[1].0, &beside).await;
            assert!(fits && same, "seed {seed}: {model:?} and {beside:?} after {story:?}");
            models[which] = model;
            models[1 - which] = beside;
        }
    }
}

type Model = BTreeSet<&'static str>;

fn word(random: &mut fastrand::Rng) -> &'static str {
    WORDS[random.usize(..WORDS.len())]
}

fn bounds(random: &mut fastrand::Rng) -> Bounds {
    let mut bound = || match random.u8(..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(word(random)),
        _ => Bound::Excluded(word(random)),
    };
    (bound(), bound())
}

/// Whether the range ends before it begins.
fn backwards(bounds: Bounds) -> bool {
    use Bound::{Excluded, Included};
    matches!(bounds, (Included(from) | Excluded(from), Included(to) | Excluded(to)) if to < from)
}

/// Returns the words in a range. `BTreeSet::range` would panic for some of these ranges.
fn between(model: &Model, bounds: Bounds) -> Vec<&'static str> {
    model.iter().copied().filter(|word| RangeBounds::<str>::contains(&bounds, *word)).collect()
}

async fn is(set: &LexSortedSet, model: &Model) -> bool {
    model.iter().eq(set.read_all().await.unwrap().iter()) && set.len().await.unwrap() == model.len() as u64
}

async fn change(
    set: &LexSortedSet,
    model: &mut Model,
    (step, one, other, n): (u8, &'static str, &'static str, u32),
) -> bool {
    let many = n as usize;
    match step {
        0..3 => set.insert(one).await.unwrap() == model.insert(one),
        3..5 => {
            let new = [one, other, one].into_iter().filter(|word| model.insert(*word)).count();
            set.insert_many([one, other, one]).await.unwrap() == new as u64
        }
        5 => set.remove(one).await.unwrap() == model.remove(one),
        6 => {
            let gone = [one, other, one].into_iter().filter(|word| model.remove(word)).count();
            set.remove_many([one, other, one]).await.unwrap() == gone as u64
        }
        7 => {
            // All current elements except one, and another word.
            let stay: Vec<&str> = model.iter().copied().filter(|word| *word != one).chain([other]).collect();
            let gone = u64::from(one != other && model.remove(one));
            set.retain_many(stay).await.unwrap() == gone
        }
        8 => set.pop_first().await.unwrap().as_deref() == model.pop_first(),
        9 => set.pop_last().await.unwrap().as_deref() == model.pop_last(),
        10 => {
            let gone: Vec<&str> = std::iter::from_fn(|| model.pop_first()).take(many).collect();
            set.pop_first_many(n).await.unwrap() == gone
        }
        _ => {
            let gone: Vec<&str> = std::iter::from_fn(|| model.pop_last()).take(many).collect();
            set.pop_last_many(n).await.unwrap() == gone
        }
    }
}

async fn ask(set: &LexSortedSet, model: &Model, (step, one, other, n): (u8, &str, &str, u32)) -> bool {
    let rank = model.iter().position(|word| *word == one);
    match step {
        12 => set.contains(one).await.unwrap() == rank.is_some(),
        13 => set.contains_each([one, other]).await.unwrap() == [one, other].map(|word| model.contains(word)),
        14 => {
            let behind = rank.map(|rank| (model.len() - 1 - rank) as u64);
            let told = (set.rank(one).await.unwrap(), set.rev_rank(one).await.unwrap());
            told == (rank.map(|rank| rank as u64), behind)
        }
        15 => {
            let told = (set.first().await.unwrap(), set.last().await.unwrap());
            (told.0.as_deref(), told.1.as_deref()) == (model.first().copied(), model.last().copied())
        }
        16 => {
            let some = set.random_many(n).await.unwrap();
            let is_in = some.iter().all(|word| model.contains(&word[..]));
            some.iter().collect::<BTreeSet<_>>().len() == model.len().min(n as usize) && is_in
        }
        _ => {
            let is_in = set.random().await.unwrap().is_some_and(|word| model.contains(&word[..]));
            is_in != model.is_empty() && set.is_empty().await.unwrap() == model.is_empty()
        }
    }
}

/// Operations on a range of values. An inverted range is an error.
async fn by_value(set: &LexSortedSet, model: &mut Model, bounds: Bounds, (step, n): (u8, u64)) -> bool {
    let range = || set.by_value::<str>(bounds);
    let (from, most) = (n as usize % 3, n as usize);
    let mut found = between(model, bounds);
    if backwards(bounds) {
        let told =
            [range().values().await.map(drop), range().remove().await.map(drop), range().count().await.map(drop)];
        return told
            .iter()
            .all(|told| matches!(told, Err(ObjectError::Failed(Failure::InvalidArgument { option: "range", .. }))));
    }
    match step {
        18 => range().values().await.unwrap() == found,
        19 => {
            found.reverse();
            range().rev().values().await.unwrap() == found
        }
        20 => {
            let some: Vec<&str> = found.iter().skip(from).take(most).copied().collect();
            let last = found.iter().rev().skip(from).take(most);
            let last: Vec<(String, f64)> = last.map(|word| (String::from(*word), 0.0)).collect();
            range().limit(from as u64, n).values().await.unwrap() == some
                && range().rev().limit(from as u64, n).entries().await.unwrap() == last
        }
        21 => {
            let limited = range().limit(0, n).count().await;
            let invalid = matches!(limited, Err(ObjectError::Failed(Failure::InvalidArgument { option: "limit", .. })));
            invalid && range().count().await.unwrap() == found.len() as u64
        }
        22 => {
            model.retain(|word| !found.contains(word));
            range().remove().await.unwrap() == found.len() as u64
        }
        _ => set.stream_of::<str>(bounds).try_collect::<Vec<_>>().await.unwrap() == found,
    }
}

async fn by_rank(set: &LexSortedSet, model: &mut Model, (step, from, end): (u8, u64, u64)) -> bool {
    let all: Vec<&str> = model.iter().copied().collect();
    let turned: Vec<&str> = all.iter().rev().copied().collect();
    let some = |all: &[&'static str]| -> Vec<&'static str> {
        all.iter().skip(from as usize).take((end - from) as usize).copied().collect()
    };
    match step {
        24 => set.by_rank(from..end).values().await.unwrap() == some(&all),
        25 => {
            let behind: Vec<&str> = turned.iter().skip(from as usize).copied().collect();
            set.by_rank(from..end).rev().values().await.unwrap() == some(&turned)
                && set.by_rank(from..).rev().values().await.unwrap() == behind
        }
        26 => set.by_rank(from..end).count().await.unwrap() == some(&all).len() as u64,
        _ => {
            let (rev, gone) = match from % 2 {
                0 => (false, some(&all)),
                _ => (true, some(&turned)),
            };
            model.retain(|word| !gone.contains(word));
            let range = set.by_rank(from..end);
            (if rev { range.rev() } else { range }).remove().await.unwrap() == gone.len() as u64
        }
    }
}

/// Combines the set with another one, and stores the result there.
async fn combined(
    set: &LexSortedSet,
    model: &Model,
    (name, beside): (&String, &mut Model),
    (step, bounds): (u8, Bounds),
) -> bool {
    let (made, combination) = match step {
        28 => (model | &*beside, set.union([name])),
        29 => (model & &*beside, set.intersection([name])),
        30 => (model - &*beside, set.difference([name])),
        _ if backwards(bounds) => return set.by_value::<str>(bounds).store(name).await.is_err(),
        _ => {
            *beside = between(model, bounds).into_iter().collect();
            return set.by_value::<str>(bounds).store(name).await.unwrap() == beside.len() as u64;
        }
    };
    let told = made.iter().eq(combination.values().await.unwrap().iter());
    let again = match step {
        28 => set.union([name]),
        29 => set.intersection([name]),
        _ => set.difference([name]),
    };
    // The result is stored only in half of the cases: otherwise both sets would soon be equal.
    if matches!(bounds.0, Bound::Included(_)) {
        *beside = made;
        return told && again.store(name).await.unwrap() == beside.len() as u64;
    }
    told
}

async fn intrude(
    client: &Client,
    name: &str,
    model: &mut Model,
    (step, one, other): (u8, &'static str, &'static str),
) -> bool {
    let on = |command: &'static str| Request::command(command).key(name.to_owned());
    match step {
        32 => {
            let new = [one, other].into_iter().filter(|word| model.insert(*word)).count();
            let add = on("ZADD").int(0).arg(one).int(0).arg(other);
            client.run::<u64>(add).await.unwrap() == new as u64
        }
        _ => client.run::<bool>(on("ZREM").arg(one)).await.unwrap() == model.remove(one),
    }
}
