//! Compares a delayed queue with its model, while Redisson's clients use the queue too.
//!
//! All delays are multiples of half an hour. To let hours pass, a script subtracts them from the
//! times of all delayed elements in one step. The real clock only orders elements that are due
//! together, which is the order of their pushes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::{Client, Request, Script};
use redgrid_queue::{Delayed, DelayedQueue};
use redgrid_tests::model::seeds;
use redgrid_tests::{SOON, client, server};

/// Half an hour: all delays are multiples of it.
const UNIT: Duration = Duration::from_secs(1_800);

/// Longer than the run of one seed takes.
const ENOUGH: Duration = Duration::from_secs(1_700);

/// Simulates that time passes: subtracts it from the times of all delayed elements.
static PASS: Script<1> = Script::new(
    "test/pass",
    "for _, one in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZINCRBY', KEYS[1], -ARGV[1], one) end
    return redis.call('ZCARD', KEYS[1])",
);

/// Delays an element as Redisson does: an item with its own id, in the sorted set and in the list.
static OFFER: Script<2> = Script::new(
    "test/offer",
    "local time = redis.call('TIME')
    local due = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
    local item = struct.pack('Bc0Lc0', #ARGV[2], ARGV[2], #ARGV[3], ARGV[3])
    redis.call('ZADD', KEYS[1], string.format('%.0f', due), item)
    return redis.call('RPUSH', KEYS[2], item)",
);

/// Moves due elements to the queue, as Redisson does.
static MOVE: Script<3> = Script::new(
    "test/move",
    "local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local due = redis.call('ZRANGEBYSCORE', KEYS[2], 0, now, 'LIMIT', 0, ARGV[1])
    for _, item in ipairs(due) do
      local id, value = struct.unpack('Bc0Lc0', item)
      redis.call('RPUSH', KEYS[1], value)
      redis.call('LREM', KEYS[3], 1, item)
    end
    if #due > 0 then
      redis.call('ZREM', KEYS[2], unpack(due))
    end
    return #due",
);

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_queue_matches_its_model() {
    let server = server().await;
    modelled([&client(&server).await, &client(&server).await], 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fraction_of_a_millisecond_counts_as_a_whole() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: DelayedQueue<u8> = DelayedQueue::new(&client, "later");
    let parts = [0, 1, 999_999, 1_000_000, 1_000_001].map(Duration::from_nanos);
    // The elements are pushed in one step, so that all delays begin at the same time.
    queue.push_many(parts.iter().map(|part| (&1, UNIT + *part))).await.unwrap();
    let key = "redisson_delay_queue_timeout:{later}";
    let due: Vec<(Vec<u8>, f64)> = observer.query(&["ZRANGE", key, "0", "-1", "WITHSCORES"]).await.unwrap();
    let behind: Vec<f64> = due.iter().map(|(_, at)| at - due[0].1).collect();
    assert_eq!(behind, [0.0, 1.0, 1.0, 1.0, 2.0]);
}

/// The elements of the list, and the delayed elements. The latter are ordered by due time, in units
/// since the start, and then by the order of their pushes.
#[derive(Debug, Default)]
struct Model {
    now: u64,
    pushed: u64,
    ready: VecDeque<u8>,
    later: BTreeMap<(u64, u64), u8>,
}

impl Model {
    fn push(&mut self, value: u8, delay: u64) -> (u64, u64) {
        self.pushed += 1;
        let at = (self.now + delay, self.pushed);
        self.later.insert(at, value);
        at
    }

    /// Returns the delayed elements that are due.
    fn due(&self) -> impl Iterator<Item = u8> {
        self.later.range(..=(self.now, u64::MAX)).map(|(_, value)| *value)
    }

    fn pop_due(&mut self) -> Option<u8> {
        let first = self.later.first_entry()?;
        (first.key().0 <= self.now).then(|| first.remove())
    }

    fn peek(&self) -> Option<u8> {
        self.ready.front().copied().or_else(|| self.due().next())
    }

    fn take(&mut self) -> Option<u8> {
        self.ready.pop_front().or_else(|| self.pop_due())
    }

    fn count(&self) -> (u64, u64) {
        let due = self.ready.len() + self.due().count();
        (due as u64, (self.ready.len() + self.later.len()) as u64)
    }
}

/// A client of the queue that does not use this library.
struct Other<'a> {
    client: &'a Client,
    name: String,
}

impl Other<'_> {
    async fn script<const N: usize>(&self, script: &'static Script<N>, keys: [&str; N], args: &[Bytes]) -> u64 {
        let request = script.with(keys.map(|prefix| self.key(prefix)));
        self.client.run(args.iter().cloned().fold(request, Request::arg)).await.unwrap()
    }

    /// Returns the key of the queue, or of one of its companions.
    fn key(&self, prefix: &str) -> Bytes {
        match prefix {
            "" => self.name.clone().into(),
            prefix => format!("{prefix}:{{{}}}", self.name).into(),
        }
    }

    /// Lets units of time pass, and returns the number of delayed elements.
    async fn pass(&self, units: u64) -> u64 {
        let millis = u128::from(units) * UNIT.as_millis();
        self.script(&PASS, [TIMES], &[millis.to_string().into()]).await
    }
}

const TIMES: &str = "redisson_delay_queue_timeout";
const LIST: &str = "redisson_delay_queue";

/// Applies the same operations to a queue and to its model. Two clients use the queue, and a third
/// client works like Redisson.
pub(super) async fn modelled(clients: [&Client; 2], some: u64) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let other = Other { client: clients[0], name: format!("delayed:{seed}") };
        let queues = clients.map(|client| DelayedQueue::<u8>::new(client, &other.name));
        let (mut model, mut tickets) = (Model::default(), Vec::new());
        let mut story = Vec::new();
        for _ in 0..120 {
            let step = (random.u8(..24), random.u64(..4), random.u8(..6));
            story.push(step);
            let [queue, beside] = if random.bool() { [&queues[0], &queues[1]] } else { [&queues[1], &queues[0]] };
            let fits = match step.0 {
                0..16 => apply(queue, &mut model, &mut tickets, step).await,
                _ => intrude(&other, &mut model, step).await,
            };
            let counted = (beside.due().await.unwrap(), beside.len().await.unwrap());
            let same = counted == model.count() && beside.peek().await.unwrap() == model.peek();
            assert!(fits && same, "seed {seed}: {model:?} after {story:?}");
        }
        // Finally all elements arrive in order, whichever client takes them.
        other.pass(20).await;
        model.now += 20;
        while let Some(next) = model.take() {
            let took = tokio::time::timeout(SOON, queues[random.usize(..2)].take()).await;
            assert_eq!(took.expect("a due element").unwrap(), next, "seed {seed}: before {model:?} after {story:?}");
        }
        let left = (queues[0].take_within(Duration::ZERO).await.unwrap(), queues[1].is_empty().await.unwrap());
        assert_eq!(left, (None, true), "seed {seed}: after {story:?}");
    }
}

async fn apply(
    queue: &DelayedQueue<u8>,
    model: &mut Model,
    tickets: &mut Vec<(Delayed, (u64, u64))>,
    (step, n, value): (u8, u64, u8),
) -> bool {
    // Elements of our clients are due at whole hours, those of the other client in between.
    let after = |n: u64| UNIT * (2 * n) as u32;
    match step {
        0..3 => {
            let ticket = queue.push(&value, after(n)).await.unwrap();
            tickets.push((ticket, model.push(value, 2 * n)));
            true
        }
        3..5 => {
            // The element pushed last is due first, so the order of pushes differs from that of due
            // times.
            let new = [(0, n + 1), (1, n), (2, 0), (3, n)].into_iter().take(usize::from(value));
            let new: Vec<(u8, u64)> = new.map(|(more, n)| (value + more, n)).collect();
            let pushed = queue.push_many(new.iter().map(|(value, n)| (value, after(*n)))).await.unwrap();
            let is_each = pushed.len() == new.len();
            tickets
                .extend(pushed.into_iter().zip(&new).map(|(ticket, (value, n))| (ticket, model.push(*value, 2 * n))));
            is_each
        }
        5..7 => {
            let at = (n as usize * 7 + usize::from(value)) % tickets.len().max(1);
            match tickets.get(at) {
                Some((ticket, at)) => queue.cancel(ticket).await.unwrap() == model.later.remove(at).is_some(),
                None => true,
            }
        }
        7..11 => queue.take_within(Duration::ZERO).await.unwrap() == model.take(),
        11 => match model.take() {
            Some(next) => tokio::time::timeout(SOON, queue.take()).await.expect("a due element").unwrap() == next,
            None => queue.take_within(Duration::ZERO).await.unwrap().is_none(),
        },
        12..14 => {
            let most = u64::from(value) * 3;
            let told = queue.read_delayed(most).await.unwrap();
            let expected: Vec<(u64, u8)> = model.later.iter().map(|(at, value)| (at.0, *value)).collect();
            let fits = |(told, expected): (&(u8, Duration), &(u64, u8))| {
                let left = UNIT * u32::try_from(expected.0.saturating_sub(model.now)).unwrap();
                told.0 == expected.1 && told.1 <= left && (left.is_zero() || told.1 > left - ENOUGH)
            };
            told.len() == expected.len().min(most as usize) && told.iter().zip(&expected).all(fits)
        }
        14 => queue.is_empty().await.unwrap() == (model.count().1 == 0),
        // Sometimes the queue is cleared.
        _ if n == 0 => {
            let was = std::mem::take(&mut model.ready).len() + std::mem::take(&mut model.later).len();
            queue.clear().await.unwrap() == (was > 0)
        }
        _ => true,
    }
}

async fn intrude(other: &Other<'_>, model: &mut Model, (step, n, value): (u8, u64, u8)) -> bool {
    let (text, id) = (Bytes::from(value.to_string()), model.pushed.to_be_bytes().to_vec());
    match step {
        16..19 => {
            model.now += 2 * n;
            other.pass(2 * n).await == model.later.len() as u64
        }
        19 | 20 => {
            let delay = 2 * n + 1;
            model.push(value, delay);
            let millis = (u128::from(delay) * UNIT.as_millis()).to_string();
            other.script(&OFFER, [TIMES, LIST], &[millis.into(), id.into(), text]).await;
            true
        }
        21 | 22 => {
            let moved = other.script(&MOVE, ["", TIMES, LIST], &[n.to_string().into()]).await;
            for _ in 0..moved {
                let next = model.pop_due().expect("a due element");
                model.ready.push_back(next);
            }
            moved == n || model.due().next().is_none()
        }
        // Uses the destination queue as an ordinary queue.
        _ => match n {
            0 | 1 => {
                let popped = Request::command("LPOP").key(other.key(""));
                other.client.run::<Option<u64>>(popped).await.unwrap() == model.ready.pop_front().map(u64::from)
            }
            _ => {
                model.ready.push_back(value);
                let pushed = Request::command("RPUSH").key(other.key("")).arg(text);
                other.client.run::<u64>(pushed).await.unwrap() == model.ready.len() as u64
            }
        },
    }
}
