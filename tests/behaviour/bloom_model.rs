//! A Bloom filter is what its model is: nothing that was added is ever not found, and of the rest no more than was asked for.

use std::collections::HashSet;

use redgrid_bits::codecs::Text;
use redgrid_bits::{BloomFilter, ObjectError};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

type Filter = BloomFilter<u64, Text>;

/// What was added, what was found of what was not, and how often that was asked.
#[derive(Default)]
struct Model {
    members: HashSet<u64>,
    wrong: u64,
    asked: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_is_what_its_model_is_to_all_clients() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let observer = server.observer().await.unwrap();
    let mut together = (0.0, 0.0);
    for seed in seeds(5) {
        let mut random = fastrand::Rng::with_seed(seed);
        let name = format!("model:{seed}");
        let handles = [Filter::new(&clients[0], &name), Filter::new(&clients[1], &name)];
        // Made, filled, deleted, and made anew of another size, which those who know the former go by.
        for life in 0..3 {
            let (share, room) = ([0.1, 0.03, 0.01, 0.001][random.usize(..4)], [1, 40, 400, 1500][random.usize(..4)]);
            let whom = |random: &mut fastrand::Rng| &handles[random.usize(..2)];
            for told in [whom(&mut random).add(&1).await.map(drop), whom(&mut random).contains(&1).await.map(drop)] {
                assert!(matches!(&told, Err(ObjectError::Absent { .. })), "seed {seed}, life {life}: {told:?}");
            }
            assert!(whom(&mut random).try_init(room, share).await.unwrap(), "seed {seed}, life {life}");
            assert!(!whom(&mut random).try_init(5000, 0.2).await.unwrap(), "seed {seed}, life {life}");
            let (mut model, mut story) = (Model::default(), Vec::new());
            while (model.members.len() as u64) < room {
                let step = (random.u8(..6), random.usize(1..=room as usize / 8 + 1));
                story.push(step);
                let fits = apply(whom(&mut random), &mut model, step, room, &mut random).await;
                let count = whom(&mut random).count().await.unwrap();
                let there = model.members.len() as u64;
                let same = count.abs_diff(there) as f64 <= 2.0 + 2.0 * (there as f64).sqrt();
                assert!(
                    fits && same,
                    "seed {seed}, life {life} ({room} at {share}): {count} of {there} after {story:?}"
                );
            }
            let members: Vec<u64> = model.members.iter().copied().collect();
            let found = whom(&mut random).contains_many(&members).await.unwrap();
            assert!(found.iter().all(|found| *found), "seed {seed}, life {life}: {found:?}");
            let others: Vec<u64> = (1 << 41..(1 << 41) + 4000).collect();
            let found = whom(&mut random).contains_many(&others).await.unwrap().into_iter().filter(|found| *found);
            let (found, most) = (found.count(), 4000.0 * share);
            // Each has its own luck, the smallest most of all; all together have what was asked for.
            if room >= 40 {
                assert!((found as f64) < 2.0 * most + 9.0, "seed {seed}, life {life}: {found} of {most}");
                together = (together.0 + found as f64 + model.wrong as f64, together.1 + most);
                together.1 += model.asked as f64 * share;
            }
            let config = whom(&mut random).config().await.unwrap().unwrap();
            assert_eq!((config.expected_insertions, config.false_probability), (room, share), "seed {seed}");
            assert!(whom(&mut random).object().delete().await.unwrap(), "seed {seed}, life {life}");
            let left: Vec<String> = observer.query(&["KEYS", "*"]).await.unwrap();
            assert!(left.is_empty(), "seed {seed}, life {life}: {left:?}");
        }
    }
    let (found, most) = together;
    assert!(found <= most * 1.1, "{found} were found, and {most} asked for");
}

async fn apply(
    filter: &Filter,
    model: &mut Model,
    (step, count): (u8, usize),
    room: u64,
    random: &mut fastrand::Rng,
) -> bool {
    let strangers: Vec<u64> = (0..count).map(|_| random.u64(..1 << 40)).collect();
    let may = room as usize - model.members.len();
    match step {
        // One: told as new exactly where it was not found.
        0 => {
            let one = strangers[0];
            let (found, known) = (filter.contains(&one).await.unwrap(), model.members.contains(&one));
            model.wrong += u64::from(found && !known);
            model.asked += u64::from(!known);
            model.members.insert(one);
            filter.add(&one).await.unwrap() != found && filter.contains(&one).await.unwrap()
        }
        // Many, the half of them twice: each is new once.
        1 | 2 => {
            let some = &strangers[..count.min(may)];
            let found = filter.contains_many(some).await.unwrap();
            let free = found.iter().filter(|found| !**found).count() as u64;
            let twice: Vec<u64> = some.iter().chain(&some[..some.len() / 2]).copied().collect();
            let new = filter.add_many(&twice).await.unwrap();
            model.members.extend(some);
            // But for the few that have the bits of others among them.
            new <= free && free - new <= 1 + free / 10
        }
        // What is in is found, and is not new.
        3 => {
            let some: Vec<u64> = model.members.iter().copied().take(count).collect();
            let again = match some.first() {
                Some(one) => filter.add(one).await.unwrap(),
                None => false,
            };
            !again
                && filter.add_many(&some).await.unwrap() == 0
                && filter.contains_many(&some).await.unwrap() == vec![true; some.len()]
        }
        // Members and strangers in turn: the answers are in the order of the questions.
        4 => {
            let members: Vec<u64> = model.members.iter().copied().take(count).collect();
            let asked: Vec<u64> = members.iter().zip(&strangers).flat_map(|(one, other)| [*one, *other]).collect();
            let found = filter.contains_many(&asked).await.unwrap();
            let known = |element: &u64| model.members.contains(element);
            let missed = asked.iter().zip(&found).any(|(element, found)| known(element) && !found);
            let wrong = asked.iter().zip(&found).filter(|(element, found)| !known(element) && **found).count();
            (model.wrong, model.asked) = (model.wrong + wrong as u64, model.asked + members.len() as u64);
            !missed && found.len() == asked.len()
        }
        _ => {
            let found = filter.contains_many(&strangers).await.unwrap();
            let wrong = strangers.iter().zip(found).filter(|(one, found)| *found && !model.members.contains(one));
            (model.wrong, model.asked) = (model.wrong + wrong.count() as u64, model.asked + count as u64);
            filter.add_many(std::iter::empty::<&u64>()).await.unwrap() == 0
        }
    }
}
