//! A stream and a group compared with a model.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use futures_util::TryStreamExt;
use redgrid_stream::{Entry, EntryId, Start, Stream, StreamError, Trim};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

/// The entries by id, the last id, the position of the group, and the pending entries with their
/// consumers and delivery counts.
#[derive(Debug, Default)]
struct Model {
    entries: BTreeMap<u64, u8>,
    last: u64,
    given: u64,
    pending: BTreeMap<u64, (u8, u64)>,
}

impl Model {
    /// At most `count` ids after this one.
    fn behind(&self, after: u64, count: usize) -> Vec<u64> {
        self.entries.range((Bound::Excluded(after), Bound::Unbounded)).map(|(id, _)| *id).take(count).collect()
    }

    /// Removes the entries with smaller ids.
    fn trim(&mut self, first: u64) -> u64 {
        let before = self.entries.len();
        self.entries = self.entries.split_off(&first);
        (before - self.entries.len()) as u64
    }
}

fn id(ms: u64) -> EntryId {
    EntryId::new(ms, 0)
}

fn ids<V>(entries: &[Entry<u8, V>]) -> Vec<u64> {
    entries.iter().map(|entry| entry.id.ms).collect()
}

fn given<V>(entries: &[Result<Entry<u8, V>, StreamError>]) -> Vec<u64> {
    entries.iter().map(|entry| entry.as_ref().expect("a decodable entry").id.ms).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_and_its_group_match_their_model() {
    let server = server().await;
    let client = client(&server).await;
    for seed in seeds(6) {
        let mut random = fastrand::Rng::with_seed(seed);
        let stream: Stream<u8, u8> = Stream::new(&client, format!("model:{seed}"));
        stream.group("g").create().from_start().make_stream().await.unwrap();
        let mut model = Model::default();
        let mut story = Vec::new();
        for _ in 0..100 {
            let step = (random.u8(..16), random.u64(1..6), random.u8(..3));
            story.push(step);
            let fits = apply(&stream, &mut model, step).await;
            let all: Vec<Entry<u8, u8>> = stream.entries(..).page(3).try_collect().await.unwrap();
            let all: BTreeMap<u64, u8> = all.iter().map(|entry| (entry.id.ms, entry.fields[0].1)).collect();
            let told = stream.group("g").pending_entries().limit(1_000).await.unwrap();
            let place = |name: &str| name.parse::<u8>().unwrap();
            let pending: BTreeMap<u64, (u8, u64)> =
                told.iter().map(|one| (one.id.ms, (place(&one.consumer), one.deliveries))).collect();
            let same = all == model.entries && pending == model.pending;
            assert!(fits && same, "seed {seed}: {model:?}, there {all:?} and {pending:?}, after {story:?}");
        }
    }
}

async fn apply(stream: &Stream<u8, u8>, model: &mut Model, (step, n, who): (u8, u64, u8)) -> bool {
    let (group, consumer, count) = (stream.group("g"), who.to_string(), n as usize);
    match step {
        0..=3 => {
            model.last += n;
            model.entries.insert(model.last, who);
            let add = stream.add(&0, &who).id(id(model.last));
            let add = if who == 0 { add.exactly_once() } else { add };
            add.await.unwrap() == id(model.last)
        }
        4 => {
            let told = stream.add(&0, &who).id(id(model.last)).await;
            model.last == 0 || matches!(told, Err(StreamError::IdTooSmall { .. }))
        }
        5 => {
            let some: Vec<u64> = [n, model.last.saturating_sub(n)].into_iter().filter(|ms| *ms > 0).collect();
            let there = some.iter().filter(|ms| model.entries.remove(ms).is_some()).count();
            stream.remove(some.into_iter().map(id)).await.unwrap() == there as u64
        }
        6 => {
            let keep = count + 8;
            let first = model.entries.keys().rev().nth(keep - 1).copied().unwrap_or_default();
            stream.trim(Trim::max_len(keep as u64)).await.unwrap() == model.trim(first)
        }
        7 => {
            let first = model.last.saturating_sub(30);
            stream.trim(Trim::min_id(id(first))).await.unwrap() == model.trim(first)
        }
        8 => {
            let (from, to) = (model.last.saturating_sub(3 * n), model.last.saturating_sub(n));
            let there: Vec<u64> = model.entries.range(from..=to).map(|(id, _)| *id).collect();
            let reversed: Vec<u64> = there.iter().rev().take(count).copied().collect();
            ids(&stream.range(id(from)..=id(to)).await.unwrap()) == there
                && ids(&stream.rev_range(id(from)..=id(to)).limit(n as u32).await.unwrap()) == reversed
        }
        9 => {
            let after = model.last.saturating_sub(2 * n);
            ids(&stream.read(id(after)).limit(n as u32).await.unwrap()) == model.behind(after, count)
        }
        10 | 11 => {
            let new = model.behind(model.given, count);
            model.given = new.last().copied().unwrap_or(model.given);
            model.pending.extend(new.iter().map(|ms| (*ms, (who, 1))));
            given(&group.read(&consumer).limit(n as u32).await.unwrap()) == new
        }
        12 => {
            let some: Vec<u64> = model.pending.keys().copied().take(count).collect();
            model.pending.retain(|ms, _| !some.contains(ms));
            let told = group.ack(some.iter().map(|ms| id(*ms)).chain([id(u64::MAX)])).await.unwrap();
            told == some.len() as u64
        }
        13 => {
            let of = |(_, (whose, _)): &(&u64, &(u8, u64))| *whose == who;
            let own: Vec<u64> = model.pending.iter().filter(of).map(|(ms, _)| *ms).collect();
            // Pages that contain only removed entries are skipped.
            let is_there = |page: &&[u64]| page.iter().any(|ms| model.entries.contains_key(ms));
            let own = own.chunks(count).find(is_there).unwrap_or_default().to_vec();
            for ms in &own {
                model.pending.get_mut(ms).unwrap().1 += u64::from(model.entries.contains_key(ms));
            }
            let there: Vec<u64> = own.into_iter().filter(|ms| model.entries.contains_key(ms)).collect();
            given(&group.read_pending(&consumer, EntryId::MIN, n as u32).await.unwrap()) == there
        }
        14 => {
            // A claim removes pending entries that are no longer in the stream.
            let some: Vec<u64> = model.pending.keys().copied().take(count).collect();
            model.pending.retain(|ms, _| !some.contains(ms) || model.entries.contains_key(ms));
            let there: Vec<u64> = some.into_iter().filter(|ms| model.entries.contains_key(ms)).collect();
            let asked: Vec<EntryId> = there.iter().map(|ms| id(*ms)).collect();
            for ms in &there {
                let (_, times) = model.pending[ms];
                model.pending.insert(*ms, (who, times + u64::from(n % 2 == 0)));
            }
            // The server chooses which removed entries it drops, and the model follows its reply.
            // Existing entries are then claimed by id.
            let gone = group.fast_auto_claim("9", Duration::from_secs(3600), EntryId::MIN, 100).await.unwrap();
            let removed: Vec<u64> = gone.removed.iter().map(|id| id.ms).collect();
            model.pending.retain(|ms, _| !removed.contains(ms));
            match n % 2 {
                0 => given(&group.claim(&consumer, Duration::ZERO, asked).await.unwrap()) == there,
                _ => group.fast_claim(&consumer, Duration::ZERO, asked.clone()).await.unwrap() == asked,
            }
        }
        _ => {
            model.given = model.last.saturating_sub(n);
            // Entries that will be delivered again are acknowledged first: otherwise servers differ
            // in the delivery count and in the former consumer.
            model.pending.retain(|ms, _| *ms <= model.given);
            let all = group.pending_entries().range((Bound::Excluded(id(model.given)), Bound::Unbounded)).limit(1_000);
            let all: Vec<EntryId> = all.await.unwrap().iter().map(|one| one.id).collect();
            group.ack(all).await.unwrap();
            group.set_id(Start::After(id(model.given))).await.is_ok()
        }
    }
}
