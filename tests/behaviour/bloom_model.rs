//! Compares a Bloom filter with its model: it has no false negatives, and its false positives are
//! within the error rate.

use std::collections::HashSet;

use redgrid_bits::codecs::Text;
use redgrid_bits::{BloomFilter, ObjectError};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

type Filter = BloomFilter<u64, Text>;

/// The added elements.
type Model = HashSet<u64>;

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_matches_its_model_for_all_clients() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let observer = server.observer().await.unwrap();
    for seed in seeds(5) {
        let mut random = fastrand::Rng::with_seed(seed);
        let name = format!("model:{seed}");
        let handles = [Filter::new(&clients[0], &name), Filter::new(&clients[1], &name)];
        // The filter is created, filled, deleted, and created again with another size, while
        // clients have the former size cached.
        for life in 0..3 {
            let (share, room) = ([0.1, 0.03, 0.01, 0.001][random.usize(..4)], [1, 40, 400, 1500][random.usize(..4)]);
            let whom = |random: &mut fastrand::Rng| &handles[random.usize(..2)];
            for told in [whom(&mut random).add(&1).await.map(drop), whom(&mut random).contains(&1).await.map(drop)] {
                assert!(matches!(&told, Err(ObjectError::Absent { .. })), "seed {seed}, life {life}: {told:?}");
            }
            assert!(whom(&mut random).try_init(room, share).await.unwrap(), "seed {seed}, life {life}");
            assert!(!whom(&mut random).try_init(5000, 0.2).await.unwrap(), "seed {seed}, life {life}");
            let (mut model, mut story) = (Model::new(), Vec::new());
            while (model.len() as u64) < room {
                let step = (random.u8(..6), random.usize(1..=room as usize / 8 + 1));
                story.push(step);
                let fits = apply(whom(&mut random), &mut model, step, room, &mut random).await;
                let count = whom(&mut random).count().await.unwrap();
                let there = model.len() as u64;
                let same = count.abs_diff(there) as f64 <= 2.0 + 2.0 * (there as f64).sqrt();
                assert!(
                    fits && same,
                    "seed {seed}, life {life} ({room} at {share}): {count} of {there} after {story:?}"
                );
            }
            let members: Vec<u64> = model.iter().copied().collect();
            let found = whom(&mut random).contains_many(&members).await.unwrap();
            assert!(found.iter().all(|found| *found), "seed {seed}, life {life}: {found:?}");
            let others: Vec<u64> = (1 << 41..(1 << 41) + 4000).collect();
            let found = whom(&mut random).contains_many(&others).await.unwrap().into_iter().filter(|found| *found);
            let (found, most) = (found.count(), 4000.0 * share);
            // The rate of a single filter varies, especially that of a small one.
            assert!(room < 40 || (found as f64) < 2.0 * most + 9.0, "seed {seed}, life {life}: {found} of {most}");
            let config = whom(&mut random).config().await.unwrap().unwrap();
            assert_eq!((config.expected_insertions, config.false_probability), (room, share), "seed {seed}");
            assert!(whom(&mut random).object().delete().await.unwrap(), "seed {seed}, life {life}");
            let left: Vec<String> = observer.query(&["KEYS", "*"]).await.unwrap();
            assert!(left.is_empty(), "seed {seed}, life {life}: {left:?}");
        }
    }
}

/// Many filters of each kind are measured. The rate of false positives, plus three standard errors,
/// is at most a tenth above the requested rate. Except for filters of the minimum size, it is at
/// most a tenth below that rate. The elements are the same each time. Tests of the crate measure
/// more sizes without a server.
#[tokio::test(flavor = "multi_thread")]
async fn the_error_rate_is_within_a_tenth_of_the_requested_one() {
    let server = server().await;
    let client = client(&server).await;
    for (elements, share, filters, probes, may_be_less) in
        [(2_000_u64, 0.1, 8, 5_000_u64, false), (1_000, 0.03, 12, 8_000, false), (20, 0.1, 50, 500, true)]
    {
        let mut found = Vec::new();
        for filter in 0..filters {
            let of = |from: u64, count: u64| (filter << 32 | from..filter << 32 | (from + count)).collect::<Vec<u64>>();
            let handle = Filter::new(&client, format!("{elements}:{share}:{filter}"));
            handle.try_init(elements, share).await.unwrap();
            handle.add_many(&of(0, elements)).await.unwrap();
            let told = handle.contains_many(&of(elements, probes)).await.unwrap();
            found.push(told.iter().filter(|found| **found).count() as f64 / probes as f64);
        }
        let count = found.len() as f64;
        let mean = found.iter().sum::<f64>() / count;
        // The rates of filters vary. Their spread is at least that of the number of probes.
        let spread = found.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0) / count;
        let error = spread.max(mean / (count * probes as f64)).sqrt();
        assert!(mean + 3.0 * error <= share * 1.1, "{elements} at {share}: {mean} ± {error} were found");
        assert!(may_be_less || mean >= share * 0.9, "{elements} at {share}: {mean} ± {error} were found");
    }
}

async fn apply(
    filter: &Filter,
    model: &mut Model,
    (step, count): (u8, usize),
    room: u64,
    random: &mut fastrand::Rng,
) -> bool {
    let strangers: Vec<u64> = (0..count).map(|_| random.u64(..1 << 40)).collect();
    let may = room as usize - model.len();
    match step {
        // Adds one element. It is reported as new if and only if it was not found before.
        0 => {
            let one = strangers[0];
            let found = filter.contains(&one).await.unwrap();
            model.insert(one);
            filter.add(&one).await.unwrap() != found && filter.contains(&one).await.unwrap()
        }
        // Adds many elements, half of them twice. Each is reported as new once.
        1 | 2 => {
            let some = &strangers[..count.min(may)];
            let found = filter.contains_many(some).await.unwrap();
            let free = found.iter().filter(|found| !**found).count() as u64;
            let twice: Vec<u64> = some.iter().chain(&some[..some.len() / 2]).copied().collect();
            let new = filter.add_many(&twice).await.unwrap();
            model.extend(some);
            // A few elements are exceptions, because other elements have set all their bits.
            new <= free && free - new <= 1 + free / 10
        }
        // An added element is found, and adding it again does not report it as new.
        3 => {
            let some: Vec<u64> = model.iter().copied().take(count).collect();
            let again = match some.first() {
                Some(one) => filter.add(one).await.unwrap(),
                None => false,
            };
            !again
                && filter.add_many(&some).await.unwrap() == 0
                && filter.contains_many(&some).await.unwrap() == vec![true; some.len()]
        }
        // Members and other elements alternate: the results are in the order of the request.
        4 => {
            let members: Vec<u64> = model.iter().copied().take(count).collect();
            let asked: Vec<u64> = members.iter().zip(&strangers).flat_map(|(one, other)| [*one, *other]).collect();
            let found = filter.contains_many(&asked).await.unwrap();
            let missed = asked.iter().zip(&found).any(|(element, found)| model.contains(element) && !found);
            !missed && found.len() == asked.len()
        }
        _ => filter.add_many(std::iter::empty::<&u64>()).await.unwrap() == 0,
    }
}
