//! Unions, intersections and differences of sets, compared with those of `BTreeSet`.

use std::collections::BTreeSet;

use redgrid_core::{Client, Request};
use redgrid_set::Set;
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

/// The number of sets.
const SETS: usize = 4;

type Model = BTreeSet<u8>;

/// A combination of several sets.
#[derive(Clone, Copy, Debug)]
enum Of {
    Union,
    Intersection,
    Difference,
}

impl Of {
    const ALL: [Of; 3] = [Of::Union, Of::Intersection, Of::Difference];

    fn made(self, of: &Model, others: &[Model]) -> Model {
        match self {
            Of::Union => others.iter().fold(of.clone(), |made, other| &made | other),
            Of::Intersection => others.iter().fold(of.clone(), |made, other| &made & other),
            Of::Difference => others.iter().fold(of.clone(), |made, other| &made - other),
        }
    }

    /// The command with which Redisson stores the combination.
    fn command(self) -> &'static str {
        match self {
            Of::Union => "SUNIONSTORE",
            Of::Intersection => "SINTERSTORE",
            Of::Difference => "SDIFFSTORE",
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn set_combinations_match_their_models() {
    let server = server().await;
    let counts = server.binary().version().major >= 7;
    modelled([&client(&server).await, &client(&server).await], 12, counts).await;
}

/// Two clients, and a client without redgrid, change and combine sets. `counts`: the server has a
/// command that counts an intersection.
pub(super) async fn modelled(clients: [&Client; 2], some: u64, counts: bool) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let names: Vec<String> = (0..SETS).map(|n| format!("combined:{{{seed}}}:{n}")).collect();
        let mut models: [Model; SETS] = Default::default();
        let mut story = Vec::new();
        for _ in 0..120 {
            let who = random.usize(..2);
            let (at, into) = (random.usize(..SETS), random.usize(..SETS));
            // Sometimes the set itself is among the others, or one set twice.
            let others: Vec<usize> = (0..random.usize(..4)).map(|_| random.usize(..SETS)).collect();
            let of = Of::ALL[random.usize(..3)];
            let some: Vec<u8> = (0..random.usize(1..6)).map(|_| random.u8(..12)).collect();
            let (step, limit) = (random.u8(..18), [None, Some(random.u64(..6))][random.usize(..2)]);
            story.push((step, who, at, others.clone(), of, into, some.clone(), limit));
            let set: Set<u8> = Set::new(clients[who], &names[at]);
            let named: Vec<&String> = others.iter().map(|other| &names[*other]).collect();
            let beside: Vec<Model> = others.iter().map(|other| models[*other].clone()).collect();
            let made = of.made(&models[at], &beside);
            let stranger = clients[1 - who];
            let of_values = |command| {
                let request = Request::command(command).key(names[at].clone());
                some.iter().fold(request, |request, value| request.arg(value.to_string()))
            };
            let combined = match of {
                Of::Union => set.union(&named),
                Of::Intersection => set.intersection(&named),
                Of::Difference => set.difference(&named),
            };
            let fits = match step {
                0..3 => {
                    let new = some.iter().filter(|value| models[at].insert(**value)).count() as u64;
                    set.insert_many(&some).await.unwrap() == new
                }
                3 => {
                    let gone = some.iter().filter(|value| models[at].remove(value)).count() as u64;
                    set.remove_many(&some).await.unwrap() == gone
                }
                4..8 => {
                    let values = combined.values().await.unwrap();
                    values.len() == made.len() && values.into_iter().collect::<Model>() == made
                }
                8..12 => {
                    models[into].clone_from(&made);
                    combined.store(&names[into]).await.unwrap() == made.len() as u64
                }
                12 | 13 => {
                    let common = Of::Intersection.made(&models[at], &beside);
                    let expected = (common.len() as u64).min(limit.unwrap_or(u64::MAX));
                    !counts || set.intersection_len(&named, limit).await.unwrap() == expected
                }
                // Writes like Redisson: values encoded by the codec, and a set that becomes a
                // combination of itself and others.
                14 => {
                    let new = some.iter().filter(|value| models[at].insert(**value)).count() as u64;
                    stranger.run::<u64>(of_values("SADD")).await.unwrap() == new
                }
                15 => {
                    let gone = some.iter().filter(|value| models[at].remove(value)).count() as u64;
                    stranger.run::<u64>(of_values("SREM")).await.unwrap() == gone
                }
                _ => {
                    let request = Request::command(of.command()).key(names[at].clone()).key(names[at].clone());
                    let request = named.iter().fold(request, |request, name| request.key((*name).clone()));
                    models[at].clone_from(&made);
                    stranger.run::<u64>(request).await.unwrap() == made.len() as u64
                }
            };
            assert!(fits, "seed {seed}: {models:?} after {story:?}");
            for (name, model) in names.iter().zip(&models) {
                let set: Set<u8> = Set::new(stranger, name);
                let there: Model = set.read_all().await.unwrap().into_iter().collect();
                // A set without values does not exist.
                let exists = set.object().exists().await.unwrap();
                let same = there == *model && exists != model.is_empty();
                assert!(same, "seed {seed}: {name} is {there:?}, {exists}, of {models:?} after {story:?}");
            }
        }
    }
}
