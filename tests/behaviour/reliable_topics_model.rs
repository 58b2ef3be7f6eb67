//! Reliable topics compared with a model. All messages reach each subscriber in order, and are
//! repeated only as documented.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use futures_util::future::join3;
use redgrid_core::{Client, Request};
use redgrid_testkit::{Proxy, wait_until};
use redgrid_tests::model::seeds;
use redgrid_tests::{SOON, client, client_with, server};
use redgrid_topic::codecs::Text;
use redgrid_topic::{Deliveries, Delivery, Gap, MessageId, ReliableTopic, SubscriptionError};

type News = ReliableTopic<String, Text>;

/// How often a subscriber polls. Messages that redgrid did not publish do not wake it.
const LOOK: Duration = Duration::from_millis(20);

/// How many subscribers there are at most.
const MOST: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn published_messages_reach_each_subscriber_in_order() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let publishers = [client(&server).await, client(&server).await];
    for seed in seeds(8) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut room = TopicLog { publishers: &publishers, name: format!("news:{seed}"), log: Vec::new() };
        let mut subs: Vec<Subscriber> = Vec::new();
        let mut story = Vec::new();
        // Subscribers use the proxy, which cuts their connections. To end a process, the test
        // replaces its client.
        let connect = async || client_with(&server.url_via(proxy.addr()), |config| config).await;
        let mut homes = [connect().await, connect().await];
        for step in 0..120 {
            let (what, at, n) = (random.u8(..20), random.usize(..MOST), random.usize(1..6));
            story.push((what, at, n));
            let about = format!("seed {seed}, after {story:?}");
            let home = random.usize(..2);
            match (what, subs.get_mut(at)) {
                (0..5, Some(sub)) => room.publish_beside(sub, n, &mut random, &about).await,
                (0..5, None) => room.publish(n, &mut random).await,
                (5..9, Some(sub)) => {
                    let taken = sub.take(n, sub.sure(room.log.len())).await;
                    sub.check(taken, &room.log, &about);
                }
                (9..13, Some(sub)) => sub.acknowledge(&mut random).await,
                (13, Some(sub)) => drop(sub.any_out(&mut random)),
                (14, None) => {
                    let most = [1, 4, 100][random.usize(..3)];
                    subs.push(Subscriber::new(&room, &homes[home], format!("ear:{step}"), most).await);
                }
                (15 | 16, Some(sub)) if sub.ends.is_some() => {
                    // The process ends, with its deliveries and connections, without unsubscribing.
                    sub.ends = None;
                    homes[home] = connect().await;
                }
                (15 | 16, Some(sub)) => sub.resume(&room, &homes[home]).await,
                (17, Some(_)) => subs.swap_remove(at).leave(&room).await,
                (18, _) => proxy.cut_all(),
                (19, Some(sub)) if sub.is_clean() => {
                    assert!(room.topic(0).remove_subscriber(&sub.id).await.unwrap(), "{about}");
                    sub.is_removed = true;
                }
                _ => {}
            }
            let removed = subs.iter().any(|sub| sub.is_removed);
            let there = room.topic(1).count_subscribers().await.unwrap();
            assert!(removed || there == subs.len() as u64, "{there} of {} {about}", subs.len());
        }
        room.publish(1, &mut random).await;
        let about = format!("seed {seed}, in the end of {story:?}");
        for sub in &mut subs {
            if sub.ends.is_none() {
                sub.resume(&room, &homes[0]).await;
            }
            sub.finish(&room.log, &about).await;
        }
        if !subs.is_empty() {
            // The last acknowledgement may be lost; the next one covers it.
            room.publish(1, &mut random).await;
            for sub in &mut subs {
                sub.finish(&room.log, &about).await;
            }
            wait_until(SOON, async || room.topic(0).is_empty().await.unwrap()).await;
        }
    }
}

/// A topic, and what was published to it.
struct TopicLog<'r> {
    publishers: &'r [Client; 2],
    name: String,
    log: Vec<(MessageId, String)>,
}

impl TopicLog<'_> {
    fn topic(&self, by: usize) -> News {
        ReliableTopic::new(&self.publishers[by], &self.name)
    }

    /// Publishes some messages, from two clients concurrently, and as Redisson does. Returns them
    /// in order.
    async fn published(&self, count: usize, random: &mut fastrand::Rng) -> Vec<(MessageId, String)> {
        let from = self.log.len();
        let all: Vec<(u8, String)> = (from..from + count).map(|n| (random.u8(..3), format!("message {n}"))).collect();
        let by = async |who: u8| {
            let mut done = Vec::new();
            for (_, text) in all.iter().filter(|(by, _)| *by == who) {
                let id = match who {
                    2 => {
                        let add = Request::command("XADD").key(self.name.clone());
                        let add = add.arg("*").arg("m").arg(text.clone());
                        self.publishers[0].run::<String>(add).await.unwrap().parse().unwrap()
                    }
                    who => self.topic(who.into()).publish(text).await.unwrap().id,
                };
                done.push((id, text.clone()));
            }
            done
        };
        let (one, two, three) = join3(by(0), by(1), by(2)).await;
        let mut done = [one, two, three].concat();
        done.sort();
        done
    }

    async fn publish(&mut self, count: usize, random: &mut fastrand::Rng) {
        let more = self.published(count, random).await;
        self.log.extend(more);
    }

    /// Publishes while a subscription receives.
    async fn publish_beside(&mut self, sub: &mut Subscriber, count: usize, random: &mut fastrand::Rng, about: &str) {
        let sure = sub.sure(self.log.len()) + if sub.is_removed { 0 } else { count };
        let (more, taken) = futures_util::join!(self.published(count, random), sub.take(count, sure));
        self.log.extend(more);
        sub.check(taken, &self.log, about);
    }
}

/// The deliveries and gaps of a subscription.
type Taken = Vec<Result<Delivery<String>, Gap>>;

/// A subscriber, and its expected messages by their position in the log.
struct Subscriber {
    id: String,
    most: usize,
    /// `Some` while its process lives.
    ends: Option<Listening>,
    /// All messages before this one are acknowledged.
    behind: usize,
    /// The server has acknowledgements of at least all messages before this one.
    told: usize,
    /// Some messages before this one may be missing, because the subscriber was removed for a
    /// while.
    gap: usize,
    /// It was removed as a subscriber, and has not been notified yet.
    is_removed: bool,
}

/// A subscribed process.
struct Listening {
    deliveries: Deliveries<String, Text>,
    out: BTreeMap<usize, Delivery<String>>,
    /// The messages it received.
    came: BTreeSet<usize>,
    /// The messages it acknowledged after one that it did not.
    acknowledged: BTreeSet<usize>,
    /// The range in which the next new message may be. From `sure` on, no message is missing.
    next: RangeInclusive<usize>,
    sure: usize,
}

impl Subscriber {
    async fn new(room: &TopicLog<'_>, home: &Client, id: String, most: usize) -> Subscriber {
        let end = room.log.len();
        let mut sub = Subscriber { id, most, ends: None, behind: end, told: end, gap: 0, is_removed: false };
        sub.resume(room, home).await;
        sub
    }

    /// Another process resumes the subscription with the state that the server has stored.
    async fn resume(&mut self, room: &TopicLog<'_>, home: &Client) {
        let deliveries = loop {
            let topic = News::new(home, &room.name);
            let subscribing = topic.subscribe().as_subscriber(&self.id).max_unacknowledged(self.most);
            // A request that a cut connection interrupted is repeated.
            if let Ok(deliveries) = subscribing.poll_interval(LOOK).redelivery_delay(Duration::ZERO).await {
                break deliveries;
            }
        };
        let (out, came, acknowledged) = Default::default();
        // A subscriber that is removed and not yet notified may miss all messages so far.
        self.gap = if std::mem::take(&mut self.is_removed) { room.log.len() } else { self.gap };
        let sure = self.behind.max(self.gap);
        let next = self.told..=sure;
        self.behind = self.told;
        self.ends = Some(Listening { deliveries, out, came, acknowledged, next, sure });
    }

    /// Unsubscribes.
    async fn leave(mut self, room: &TopicLog<'_>) {
        let left = match self.ends.take() {
            Some(listening) => listening.deliveries.leave().await.is_ok(),
            None => false,
        };
        if !left {
            room.topic(0).remove_subscriber(&self.id).await.unwrap();
        }
    }

    /// Whether it has handled all messages that it received.
    fn is_clean(&self) -> bool {
        let dealt = |listening: &Listening| listening.out.is_empty() && listening.came.last() < Some(&self.behind);
        !self.is_removed && self.ends.as_ref().is_some_and(dealt)
    }

    /// How many messages of a log with this length certainly arrive.
    fn sure(&self, messages: usize) -> usize {
        let Some(listening) = self.ends.as_ref().filter(|_| !self.is_removed) else { return 0 };
        let comes = |n: &usize| !listening.out.contains_key(n) && !listening.acknowledged.contains(n);
        (listening.sure.max(self.behind)..messages).filter(comes).count()
    }

    /// Receives some of the messages that certainly arrive, or the gap.
    async fn take(&mut self, count: usize, sure: usize) -> Taken {
        let is_removed = self.is_removed;
        let Some(listening) = &mut self.ends else { return Taken::new() };
        let (count, room) = (count.min(sure), self.most - listening.out.len());
        let mut taken = Taken::new();
        while taken.len() < room && (taken.len() < count || is_removed) {
            match tokio::time::timeout(SOON, listening.deliveries.next()).await.expect("an item in time") {
                Some(Ok(delivery)) => taken.push(Ok(delivery)),
                Some(Err(SubscriptionError::Gap(gap))) => {
                    taken.push(Err(gap));
                    return taken;
                }
                Some(Err(SubscriptionError::Unavailable(_))) => {}
                other => panic!("{other:?}"),
            }
        }
        taken
    }

    /// Checks the received messages and gaps against the model.
    fn check(&mut self, taken: Taken, log: &[(MessageId, String)], about: &str) {
        for one in taken {
            let Some(listening) = &mut self.ends else { return };
            let Ok(delivery) = one else {
                assert!(std::mem::take(&mut self.is_removed), "{}: a gap {about}", self.id);
                // Messages dropped meanwhile do not arrive. Messages acknowledged after an
                // unacknowledged one arrive again.
                self.gap = log.len();
                listening.acknowledged.clear();
                listening.next = self.behind.max(listening.came.last().map_or(0, |last| last + 1))..=self.gap;
                listening.sure = self.gap;
                continue;
            };
            let n = log.iter().position(|(id, _)| *id == delivery.id()).expect("a published message");
            let what = format!("{}: {n} of {:?}, {:?} {about}", self.id, listening.next, listening.came);
            assert_eq!(delivery.message().unwrap(), &log[n].1, "{what}");
            assert_eq!(delivery.is_redelivered(), !listening.came.insert(n), "{what}");
            assert!(n >= self.behind && !listening.acknowledged.contains(&n), "{what}");
            if !delivery.is_redelivered() {
                assert!(listening.next.contains(&n), "{what}");
                listening.acknowledged.extend(*listening.next.start()..n);
                listening.next = n + 1..=n + 1;
            }
            assert!(listening.out.insert(n, delivery).is_none(), "{what}");
            self.advance();
        }
    }

    /// Advances `behind` over the acknowledged messages that follow it without a hole.
    fn advance(&mut self) {
        let Some(listening) = &mut self.ends else { return };
        while listening.acknowledged.remove(&self.behind) {
            self.behind += 1;
        }
    }

    fn any_out(&mut self, random: &mut fastrand::Rng) -> Option<(usize, Delivery<String>)> {
        let listening = self.ends.as_mut()?;
        let n = *listening.out.keys().nth(random.usize(..listening.out.len().max(1)))?;
        Some((n, listening.out.remove(&n)?))
    }

    async fn acknowledge(&mut self, random: &mut fastrand::Rng) {
        let Some((n, delivery)) = self.any_out(random) else { return };
        let was_told = delivery.ack().await.is_ok();
        if let Some(listening) = &mut self.ends {
            listening.acknowledged.insert(n);
        }
        let before = self.behind;
        self.advance();
        if was_told && self.behind > before && !self.is_removed {
            self.told = self.behind;
        }
    }

    /// Receives and acknowledges all remaining messages.
    async fn finish(&mut self, log: &[(MessageId, String)], about: &str) {
        let mut random = fastrand::Rng::with_seed(0);
        loop {
            while self.ends.as_ref().is_some_and(|listening| !listening.out.is_empty()) {
                self.acknowledge(&mut random).await;
            }
            let sure = self.sure(log.len());
            if sure == 0 && !self.is_removed {
                return;
            }
            let taken = self.take(1, sure).await;
            self.check(taken, log, about);
        }
    }
}
