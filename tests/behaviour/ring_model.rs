//! A ring compared with a model, with foreign writes to its keys.

use std::collections::VecDeque;

use futures_util::TryStreamExt;
use redgrid_core::{Client, Request};
use redgrid_queue::{ObjectError, RingBuffer};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_matches_its_model() {
    let server = server().await;
    modelled([&client(&server).await, &client(&server).await], 8).await;
}

/// The capacity, if it is set, and the elements.
#[derive(Debug, Default)]
struct Model {
    room: Option<u64>,
    elements: VecDeque<u8>,
}

impl Model {
    /// Removes the oldest elements over the capacity; returns how many.
    fn trim(&mut self) -> u64 {
        let room = self.room.map_or(usize::MAX, |room| usize::try_from(room).unwrap_or(usize::MAX));
        let gone = self.elements.len().saturating_sub(room);
        self.elements.drain(..gone);
        gone as u64
    }

    /// Pushes elements; `None` if the ring has no capacity.
    fn push(&mut self, new: &[u8]) -> Option<u64> {
        if !new.is_empty() {
            self.room?;
            self.elements.extend(new);
            return Some(self.trim());
        }
        Some(0)
    }
}

/// `None` if the ring has no capacity.
fn told(told: Result<u64, ObjectError>) -> Option<u64> {
    match told {
        Ok(gone) => Some(gone),
        Err(ObjectError::Absent { .. }) => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// Applies the same operations to a ring and to its model. Two clients use the ring, and another
/// one uses plain lists.
pub(super) async fn modelled(clients: [&Client; 2], some: u64) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let name = format!("ring:{seed}");
        let rings = clients.map(|client| RingBuffer::<u8>::new(client, &name));
        let mut model = Model::default();
        let mut story = Vec::new();
        for _ in 0..120 {
            let step = (random.u8(..26), random.u8(..4), random.u8(..8));
            story.push(step);
            let [ring, other] = if random.bool() { [&rings[0], &rings[1]] } else { [&rings[1], &rings[0]] };
            let fits = match step.0 {
                0..20 => apply(ring, &mut model, step).await,
                _ => intrude(clients[0], &name, ring, &mut model, step).await,
            };
            let all = other.read_all().await.unwrap();
            let room = (other.capacity().await.unwrap(), other.remaining_capacity().await.unwrap());
            let left = model.room.map(|room| room.saturating_sub(all.len() as u64));
            assert!(
                fits && model.elements == all && room == (model.room, left),
                "seed {seed}: {model:?} after {story:?}"
            );
        }
    }
}

async fn apply(ring: &RingBuffer<u8>, model: &mut Model, (step, one, other): (u8, u8, u8)) -> bool {
    let capacity = u64::from(other) + 1;
    match step {
        0 | 1 => {
            let new = model.room.is_none();
            model.room = model.room.or(Some(capacity));
            ring.try_set_capacity(capacity).await.unwrap() == new
        }
        2 | 3 => {
            model.room = Some(capacity);
            ring.set_capacity(capacity).await.unwrap() == model.trim()
        }
        4 => {
            // A capacity that is never reached; in some cases the largest allowed one.
            model.room = Some(if one == 0 { 1 << 53 } else { 700 });
            ring.set_capacity(model.room.unwrap()).await.unwrap() == model.trim()
        }
        5..8 => told(ring.push(&one).await) == model.push(&[one]),
        8..10 => {
            let new: Vec<u8> = (0..other).map(|n| n ^ one).collect();
            told(ring.push_many(&new).await) == model.push(&new)
        }
        10 => {
            // More elements than one request can have.
            let new: Vec<u8> = (0..600 + u16::from(other)).map(|n| (n % 5) as u8).collect();
            told(ring.push_many(&new).await) == model.push(&new)
        }
        11 => ring.pop().await.unwrap() == model.elements.pop_front(),
        12 => {
            let most = usize::from(other).min(model.elements.len());
            ring.pop_many(other.into()).await.unwrap() == model.elements.drain(..most).collect::<Vec<_>>()
        }
        13 => ring.peek().await.unwrap() == model.elements.front().copied(),
        14 => ring.contains(&one).await.unwrap() == model.elements.contains(&one),
        15 | 16 => {
            let at = model.elements.iter().position(|has| *has == one);
            ring.remove(&one).await.unwrap() == at.and_then(|at| model.elements.remove(at)).is_some()
        }
        17 => {
            let told = (ring.len().await.unwrap(), ring.is_empty().await.unwrap());
            told == (model.elements.len() as u64, model.elements.is_empty())
        }
        18 => model.elements == ring.stream().try_collect::<Vec<_>>().await.unwrap(),
        // Sometimes the ring is cleared, which keeps its capacity, or deleted.
        _ => match other {
            0..2 => ring.clear().await.unwrap() != std::mem::take(&mut model.elements).is_empty(),
            2 => {
                let was = std::mem::take(model);
                ring.object().delete().await.unwrap() == (was.room.is_some() || !was.elements.is_empty())
            }
            _ => true,
        },
    }
}

/// Applies commands of other programs to the ring's keys.
async fn intrude(
    client: &Client,
    name: &str,
    ring: &RingBuffer<u8>,
    model: &mut Model,
    (step, one, other): (u8, u8, u8),
) -> bool {
    let capacity = format!("redisson_rb:{{{name}}}");
    let on = |command: &'static str| Request::command(command).key(name.to_owned());
    match step {
        // Plain pushes may exceed the capacity until the next push of a ring.
        20 | 21 => {
            model.elements.extend([one, other]);
            let pushed = on("RPUSH").arg(one.to_string()).arg(other.to_string());
            client.run::<u64>(pushed).await.unwrap() == model.elements.len() as u64
        }
        22 => {
            model.elements.push_front(one);
            client.run::<u64>(on("LPUSH").arg(one.to_string())).await.unwrap() == model.elements.len() as u64
        }
        23 => client.run::<Option<u64>>(on("RPOP")).await.unwrap() == model.elements.pop_back().map(u64::from),
        24 => {
            // A capacity that is set by a plain command removes no elements.
            model.room = Some(u64::from(other) + 1);
            let set = Request::command("SET").key(capacity).arg((other + 1).to_string());
            client.run::<String>(set).await.unwrap() == "OK"
        }
        _ => {
            model.room = None;
            client.run::<u64>(Request::command("DEL").key(capacity)).await.unwrap();
            // The ring keeps its elements.
            ring.len().await.unwrap() == model.elements.len() as u64
        }
    }
}
