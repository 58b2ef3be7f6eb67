//! Compares a HyperLogLog with a model: counts are within its standard error, and results for
//! single elements are exact.

use std::collections::HashSet;

use redgrid_bits::HyperLogLog;
use redgrid_core::{Client, Request};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

/// The number of registers: 2^14.
const REGISTERS: usize = 1 << 14;

#[tokio::test(flavor = "multi_thread")]
async fn distinct_counts_match_their_model() {
    let server = server().await;
    modelled([&client(&server).await, &client(&server).await], 12).await;
}

/// The added elements and their registers. A register contains the maximum number of zeros before
/// the first one bit of a hash.
#[derive(Clone)]
struct Model {
    elements: HashSet<u32>,
    registers: Vec<u8>,
}

impl Model {
    fn new() -> Self {
        Model { elements: HashSet::new(), registers: vec![0; REGISTERS] }
    }

    /// Returns whether the estimate may change.
    fn add(&mut self, element: u32) -> bool {
        self.elements.insert(element);
        let hash = hash(element.to_string().as_bytes());
        let register = &mut self.registers[hash as usize % REGISTERS];
        let zeros = (hash >> 14 | 1 << 50).trailing_zeros() as u8 + 1;
        std::mem::replace(register, zeros.max(*register)) < zeros
    }

    fn merge(&mut self, other: &Model) {
        self.elements.extend(&other.elements);
        let both = self.registers.iter_mut().zip(&other.registers);
        both.for_each(|(register, other)| *register = *other.max(register));
    }

    /// Whether the count is within three standard errors of 0.81 % each. Small counts may differ by
    /// two, because elements may share a register.
    fn is(&self, count: u64) -> bool {
        let there = self.elements.len() as u64;
        count.abs_diff(there) <= (there * 243).div_ceil(10_000).max(2)
    }
}

/// The hash function that the server uses, MurmurHash64A.
fn hash(bytes: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = 0xadc8_3b19 ^ (bytes.len() as u64).wrapping_mul(M);
    let chunks = bytes.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        let mut part = u64::from_le_bytes(chunk.try_into().unwrap()).wrapping_mul(M);
        part = (part ^ part >> 47).wrapping_mul(M);
        hash = (hash ^ part).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte));
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(M);
    hash ^ hash >> 47
}

/// Applies the same operations to three counters and to their models. Two clients use redgrid, and
/// a third one uses the server's commands.
pub(super) async fn modelled(clients: [&Client; 2], some: u64) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let names = ["a", "b", "c", "never"].map(|log| format!("log:{{{seed}}}:{log}"));
        let mut models: [Model; 4] = std::array::from_fn(|_| Model::new());
        let mut story = Vec::new();
        for _ in 0..60 {
            let step = (random.u8(..16), random.usize(..3), random.u32(..40_000), random.u32(..3_000));
            let others: Vec<usize> = (0..random.usize(..4)).map(|_| random.usize(..4)).collect();
            story.push((step, others.clone()));
            let (step, which, from, many) = step;
            let log: HyperLogLog<u32> = HyperLogLog::new(clients[random.usize(..2)], &names[which]);
            let named = || others.iter().map(|at| &names[*at]);
            let mut together = models[which].clone();
            others.iter().for_each(|at| together.merge(&models[*at]));
            let model = &mut models[which];
            let fits = match step {
                // Adds one of 50 elements, so that some are added repeatedly.
                0..4 => log.add(&(from % 50)).await.unwrap() == model.add(from % 50),
                4..6 => {
                    let all: Vec<u32> = (0..many % 6).map(|n| from + n / 2).collect();
                    let changed = all.iter().fold(false, |changed, element| model.add(*element) | changed);
                    log.add_many(&all).await.unwrap() == changed
                }
                6 => {
                    // More elements than one request has; the last request contains only known
                    // elements.
                    let known: Vec<u32> = model.elements.iter().copied().take(500).collect();
                    let all: Vec<u32> = (from..from + many).chain(known).collect();
                    let changed = all.iter().fold(false, |changed, element| model.add(*element) | changed);
                    log.add_many(&all).await.unwrap() == changed
                }
                7 => {
                    let all: Vec<u32> = model.elements.iter().copied().take(1_200).collect();
                    !log.add_many(&all).await.unwrap()
                }
                8..11 => {
                    let told = log.count_with(named()).await.unwrap();
                    together.is(told) && told == log.count_with(named().rev()).await.unwrap()
                }
                11..13 => {
                    let before = log.count_with(named()).await.unwrap();
                    log.merge_with(named()).await.unwrap();
                    *model = together;
                    log.count().await.unwrap() == before
                }
                13 => {
                    let there = log.object().exists().await.unwrap();
                    // A merge creates the target even if all other counters are missing.
                    there || model.elements.is_empty()
                }
                14 => {
                    let add = Request::command("PFADD").key(names[which].clone()).arg(from.to_string());
                    clients[0].run::<bool>(add).await.unwrap() == model.add(from)
                }
                // In some cases the counter is deleted.
                _ => {
                    if many < 1_000 {
                        log.object().delete().await.unwrap();
                        *model = Model::new();
                    }
                    true
                }
            };
            let count = log.count().await.unwrap();
            let there = models[which].elements.len();
            assert!(fits && models[which].is(count), "seed {seed}: {count} of {there} after {story:?}");
        }
    }
}
