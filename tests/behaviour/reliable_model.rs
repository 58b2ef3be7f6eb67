//! A reliable queue is compared with its model, on one server and on a cluster.
//!
//! Times are either so long that they do not end, or so short that they have ended before the next
//! step. Each step first waits longer than the short times.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid_core::{Client, Config};
use redgrid_reliable_queue::{Delivery, MessageId, MessageState, QueueError, QueueSettings, ReliableQueue};
use redgrid_testkit::Cluster;
use redgrid_tests::model::seeds;
use redgrid_tests::{SOON, client, server};

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_matches_its_model() {
    let server = server().await;
    modelled(&client(&server).await, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_in_a_cluster_matches_its_model() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let seeds = cluster.addrs().into_iter().map(|addr| addr.to_string());
    let client = Client::connect(Config::cluster(seeds).unwrap()).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    modelled(&client, 6).await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Ready,
    Delayed,
    /// In flight. The flag is true if the visibility ends at once.
    Flight(bool),
    Dead,
}

#[derive(Debug, Clone)]
struct One {
    value: u8,
    priority: u8,
    attempts: u32,
    place: Place,
    /// The delivery that may acknowledge the message.
    receipt: Option<usize>,
    /// Whether the message expires as soon as no delivery is in flight.
    ends: bool,
}

#[derive(Default)]
struct Model {
    messages: BTreeMap<MessageId, One>,
    deliveries: usize,
    most_attempts: u32,
    is_paused: bool,
}

impl Model {
    /// The first step of a receive: messages whose visibility has ended become ready or dead.
    fn tidy(&mut self) {
        for one in self.messages.values_mut() {
            if one.place == Place::Flight(true) {
                let is_last = self.most_attempts > 0 && one.attempts >= self.most_attempts;
                one.place = if is_last { Place::Dead } else { Place::Ready };
                one.ends &= !is_last;
            }
        }
        self.finish();
    }

    /// The last step of every change: drops the messages that have expired.
    fn finish(&mut self) {
        let most = self.most_attempts;
        for one in self.messages.values_mut().filter(|one| one.ends && one.place == Place::Flight(true)) {
            if most > 0 && one.attempts >= most {
                (one.place, one.ends) = (Place::Dead, false);
            }
        }
        self.messages.retain(|_, one| !one.ends || one.place == Place::Flight(false));
    }

    /// The next messages to deliver, in order.
    fn first(&self) -> Vec<MessageId> {
        let most = self.most_attempts;
        let is_there = |one: &One| match one.place {
            Place::Ready => !one.ends,
            Place::Flight(true) => !one.ends && (most == 0 || one.attempts < most),
            _ => false,
        };
        let mut ids: Vec<_> = self.messages.iter().filter(|(_, one)| is_there(one)).collect();
        ids.sort_by_key(|(id, one)| (9 - one.priority, **id));
        ids.into_iter().map(|(id, _)| *id).collect()
    }

    fn back(&mut self, id: MessageId, place: Place) {
        let most = self.most_attempts;
        let one = self.messages.get_mut(&id).unwrap();
        let is_last = most > 0 && one.attempts >= most;
        (one.receipt, one.place) = (None, if is_last { Place::Dead } else { place });
        one.ends &= !is_last;
    }

    fn count(&self, place: impl Fn(Place) -> bool) -> u64 {
        self.messages.values().filter(|one| place(one.place)).count() as u64
    }
}

async fn modelled(client: &Client, some: u64) {
    for seed in seeds(some) {
        let mut random = fastrand::Rng::with_seed(seed);
        let queue: ReliableQueue<u8> = ReliableQueue::new(client, format!("model:{seed}"));
        let mut model = Model { most_attempts: random.u32(0..4), ..Model::default() };
        let attempts = (model.most_attempts > 0).then_some(model.most_attempts);
        queue.set_settings(&QueueSettings { max_attempts: attempts, ..QueueSettings::default() }).await.unwrap();
        let (mut held, mut story): (Vec<(usize, Delivery<u8, _>)>, Vec<String>) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            // Waits longer than the short times, by any clock of this machine.
            tokio::time::sleep(SHORT * 4).await;
            let (step, value, flag) = (random.u8(..16), random.u8(..), random.bool());
            story.push(format!("{step} {value} {flag}"));
            let at = (!held.is_empty()).then(|| random.usize(..held.len()));
            apply(&queue, &mut model, &mut held, (step, value, flag, at)).await;
            compare(&queue, &model, &story, seed).await;
        }
        queue.object().delete().await.unwrap();
    }
}

async fn apply(
    queue: &ReliableQueue<u8>,
    model: &mut Model,
    held: &mut Vec<(usize, Delivery<u8, redgrid_reliable_queue::codecs::Json>)>,
    (step, value, flag, at): (u8, u8, bool, Option<usize>),
) {
    match step {
        0..=3 => {
            model.finish();
            let priority = value % 3;
            let (delayed, ends) = (step == 2 && flag, step == 3 && flag);
            let mut push = queue.push(&value).priority(priority);
            if delayed {
                push = push.delay(LONG);
            }
            if ends {
                push = push.lifetime(SHORT);
            }
            let id = push.await.unwrap().id;
            let place = if delayed { Place::Delayed } else { Place::Ready };
            let one = One { value, priority, attempts: 0, place, receipt: None, ends };
            assert!(model.messages.insert(id, one).is_none());
        }
        4..=7 => {
            let most = usize::from(value % 3) + 1;
            let visibility = if flag { SHORT } else { LONG };
            // Short visibilities have ended before this receive, because the test has waited above.
            let given = queue.receive_many(most).visibility(visibility).timeout(Duration::ZERO).await.unwrap();
            model.tidy();
            let most = if model.is_paused { 0 } else { most };
            let expected: Vec<_> = model.first().into_iter().take(most).collect();
            assert_eq!(given.iter().map(Delivery::id).collect::<Vec<_>>(), expected);
            for delivery in given {
                model.deliveries += 1;
                let number = model.deliveries;
                let one = model.messages.get_mut(&delivery.id()).unwrap();
                (one.attempts, one.place, one.receipt) = (one.attempts + 1, Place::Flight(flag), Some(number));
                assert_eq!((delivery.value().unwrap(), delivery.attempt()), (one.value, one.attempts));
                held.push((number, delivery));
            }
        }
        8..=11 => {
            let Some(at) = at else { return };
            model.finish();
            let (number, delivery) = &held[at];
            let id = delivery.id();
            let one = model.messages.get(&id).filter(|one| one.receipt == Some(*number)).cloned();
            let is_dead = one.as_ref().is_some_and(|one| one.place == Place::Dead);
            let is_held = one.as_ref().is_some_and(|one| matches!(one.place, Place::Flight(_)));
            let (told, allowed) = match step {
                8 => (queue.ack(delivery.receipt()).await, one.is_some()),
                9 => (delivery.nack(if flag { Duration::ZERO } else { LONG }).await, one.is_some() && !is_dead),
                10 => (delivery.reject("no").await, one.is_some() && !is_dead),
                _ => (delivery.extend(LONG).await, is_held),
            };
            match (&told, allowed) {
                (Ok(()), true) => {}
                (Err(QueueError::Stale { .. }), false) => return,
                other => panic!("{other:?} of {one:?}"),
            }
            match step {
                8 => drop(model.messages.remove(&id)),
                9 => model.back(id, if flag { Place::Ready } else { Place::Delayed }),
                10 => {
                    let one = model.messages.get_mut(&id).unwrap();
                    (one.place, one.receipt, one.ends) = (Place::Dead, None, false);
                }
                _ => model.messages.get_mut(&id).unwrap().place = Place::Flight(false),
            }
        }
        12 => {
            let moved = queue.dead().redrive().await.unwrap();
            assert_eq!(moved, model.count(|place| place == Place::Dead));
            if moved > 0 {
                model.finish();
            }
            for one in model.messages.values_mut().filter(|one| one.place == Place::Dead) {
                (one.attempts, one.place, one.receipt) = (0, Place::Ready, None);
            }
        }
        // A paused queue is resumed sooner than it is paused, so that most receives get messages.
        13 => {
            if !flag {
                return;
            }
            assert_eq!(queue.pause().await.unwrap(), !std::mem::replace(&mut model.is_paused, true));
        }
        14 => {
            assert_eq!(queue.resume().await.unwrap(), std::mem::replace(&mut model.is_paused, false));
        }
        _ => {
            let id = model.messages.keys().nth(usize::from(value) % model.messages.len().max(1)).copied();
            let Some(id) = id else { return };
            assert!(queue.remove(id).await.unwrap());
            model.finish();
            model.messages.remove(&id);
        }
    }
}

async fn compare(queue: &ReliableQueue<u8>, model: &Model, story: &[String], seed: u64) {
    let at = || format!("seed {seed}, after {story:?}");
    // A short visibility ends before the comparison.
    tokio::time::sleep(SHORT * 4).await;
    let counts = queue.counts().await.unwrap();
    let there = (counts.ready, counts.delayed, counts.in_flight, counts.dead);
    let expected = (
        model.count(|place| matches!(place, Place::Ready | Place::Flight(true))),
        model.count(|place| place == Place::Delayed),
        model.count(|place| place == Place::Flight(false)),
        model.count(|place| place == Place::Dead),
    );
    assert_eq!(there, expected, "{}", at());
    let overdue = model.count(|place| place == Place::Flight(true));
    assert_eq!((counts.overdue, counts.paused_since.is_some()), (overdue, model.is_paused), "{}", at());
    assert_eq!(counts.oldest_ready_age.is_some(), counts.ready > 0, "{}", at());
    let peeked: Vec<_> = queue.peek(100).await.unwrap().iter().map(|one| one.id()).collect();
    assert_eq!(peeked, model.first(), "{}", at());
    for most in [1, 2] {
        let peeked: Vec<_> = queue.peek(most).await.unwrap().iter().map(|one| one.id()).collect();
        assert_eq!(peeked, model.first()[..most.min(model.first().len())], "{}", at());
    }
    if let Some((id, one)) = model.messages.last_key_value() {
        if one.ends && !matches!(one.place, Place::Flight(false)) {
            assert!(queue.get(*id).await.unwrap().is_none(), "{}", at());
            return;
        }
        let found = queue.get(*id).await.unwrap().unwrap();
        let same = match found.state() {
            MessageState::Ready => matches!(one.place, Place::Ready | Place::Flight(true)),
            MessageState::Delayed { .. } => one.place == Place::Delayed,
            MessageState::InFlight { .. } => one.place == Place::Flight(false),
            _ => one.place == Place::Dead,
        };
        assert!(same && found.attempts() == one.attempts, "{found:?} of {one:?}, {}", at());
    }
}
