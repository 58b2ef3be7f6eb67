//! A list compared with a model, on one server and on a cluster.

use redgrid_core::{Client, Config};
use redgrid_list::{List, ObjectError, Occurrences};
use redgrid_testkit::Cluster;
use redgrid_tests::model::seeds;
use redgrid_tests::{SOON, client, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_list_matches_its_model() {
    let server = server().await;
    modelled(&client(&server).await, 25).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_in_a_cluster_matches_its_model() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let seeds = cluster.addrs().into_iter().map(|addr| addr.to_string());
    let client = Client::connect(Config::cluster(seeds).unwrap()).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    modelled(&client, 12).await;
}

/// A list is compared with a model through random operations.
async fn modelled(client: &Client, some: u64) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let list: List<u8> = List::new(client, format!("model:{seed}"));
        let mut model: Vec<u8> = Vec::new();
        let mut story = Vec::new();
        for _ in 0..120 {
            let (step, at, one, other) = (random.u8(..26), random.usize(..9), random.u8(..4), random.u8(..4));
            story.push((step, at, one, other));
            let fits = apply(&list, &mut model, (step, at, one, other)).await;
            let same = list.read_all().await.unwrap() == model;
            assert!(fits && same, "seed {seed}: {model:?} after {story:?}");
        }
    }
}

async fn apply(list: &List<u8>, model: &mut Vec<u8>, (step, at, one, other): (u8, usize, u8, u8)) -> bool {
    let (index, has) = (at as u64, model.get(at).copied());
    let len = |model: &Vec<u8>| model.len() as u64;
    match step {
        0 | 1 => {
            model.push(one);
            list.push(&one).await.unwrap() == len(model)
        }
        2 => {
            model.extend([one, other]);
            list.push_many(&[one, other]).await.unwrap() == len(model)
        }
        3 | 4 => {
            if at <= model.len() {
                model.insert(at, one);
            }
            told(list.insert(index, &one).await).is_none_or(|now| now == len(model))
        }
        5 => {
            let fits = at <= model.len();
            if fits {
                model.splice(at..at, [one, other, one]);
            }
            told(list.insert_many(index, &[one, other, one]).await).is_some() == fits
        }
        6 => {
            let pivot = model.iter().position(|value| *value == one);
            pivot.iter().for_each(|pivot| model.insert(*pivot, other));
            list.insert_before(&one, &other).await.unwrap() == pivot.map(|_| len(model))
        }
        7 => {
            let pivot = model.iter().position(|value| *value == one);
            pivot.iter().for_each(|pivot| model.insert(*pivot + 1, other));
            list.insert_after(&one, &other).await.unwrap() == pivot.map(|_| len(model))
        }
        8 => list.get(index).await.unwrap() == has,
        9 => {
            let found = [index, 0, index + 1].map(|at| model.get(at as usize).copied());
            list.get_each([index, 0, index + 1]).await.unwrap() == found
        }
        10 => {
            let (from, to) = (at.min(model.len()), (at + 3).min(model.len()));
            list.range(index..index + 3).await.unwrap() == model[from..to]
        }
        11 => {
            model.get_mut(at).into_iter().for_each(|value| *value = one);
            told(list.set(index, &one).await).is_some() == has.is_some()
        }
        12 => {
            model.get_mut(at).into_iter().for_each(|value| *value = one);
            told(list.replace(index, &one).await) == has
        }
        13 => {
            if has == Some(one) {
                model[at] = other;
            }
            list.compare_and_set(index, &one, &other).await.unwrap() == (has == Some(one))
        }
        14 => {
            model.get_mut(at).into_iter().for_each(|value| *value ^= 1);
            list.update_at(index, |value| *value ^= 1).await.unwrap() == model.get(at).copied()
        }
        15 => {
            has.is_some().then(|| model.remove(at));
            told(list.remove_at(index).await) == has
        }
        16 => {
            has.is_some().then(|| model.remove(at));
            told(list.delete_at(index).await).is_some() == has.is_some()
        }
        17 => list.pop().await.unwrap() == model.pop(),
        18 => {
            let found = model.iter().position(|value| *value == one);
            if let Some(at) = found {
                model.remove(at);
            }
            list.remove(&one).await.unwrap() == found.is_some()
        }
        19 => {
            let found = model.iter().rposition(|value| *value == one);
            if let Some(at) = found {
                model.remove(at);
            }
            list.remove_some(&one, Occurrences::Last(1)).await.unwrap() == u64::from(found.is_some())
        }
        20 => {
            let before = len(model);
            model.retain(|value| *value != one && *value != other);
            list.remove_all(&[one, other]).await.unwrap() == before - len(model)
        }
        21 => {
            let before = len(model);
            let stay = [one, other, (one + 1) % 4];
            model.retain(|value| stay.contains(value));
            list.retain_all(&stay).await.unwrap() == before - len(model)
        }
        22 => {
            let (from, to) = (at.min(model.len()) / 2, (at + 6).min(model.len()));
            let kept = model.get(from..to).unwrap_or_default().to_vec();
            *model = kept;
            list.trim(from as u64..index + 6).await.is_ok()
        }
        23 => {
            let first = model.iter().position(|value| *value == one).map(|at| at as u64);
            let last = model.iter().rposition(|value| *value == one).map(|at| at as u64);
            list.index_of(&one).await.unwrap() == first
                && list.last_index_of(&one).await.unwrap() == last
                && list.contains(&one).await.unwrap() == first.is_some()
                && list.contains_all(&[one, other]).await.unwrap() == (first.is_some() && model.contains(&other))
        }
        24 => {
            let mut last_first: Vec<u8> = list.stream_reversed().page(2).try_collect().await.unwrap();
            last_first.reverse();
            last_first == *model && list.stream().page(3).try_collect::<Vec<u8>>().await.unwrap() == *model
        }
        _ => {
            let ends = (list.first().await.unwrap(), list.last().await.unwrap(), list.len().await.unwrap());
            ends == (model.first().copied(), model.last().copied(), len(model))
        }
    }
}

/// The result; `None` if the list has no such index.
fn told<T>(outcome: Result<T, ObjectError>) -> Option<T> {
    match outcome {
        Ok(done) => Some(done),
        Err(ObjectError::OutOfBounds { .. }) => None,
        Err(other) => panic!("{other:?}"),
    }
}
