//! The state of a world, and the effects of its events.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Clock;
use redgrid_core::{ConnectionId, Push, ServerClock, ServerError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::super::plan::{Fate, Plan, Wreck};
use super::super::scripts::{self, Call, refused};
use super::super::store::Store;
use super::{Answer, Witness};

/// The server's time when a world begins: a day in 2023, in microseconds.
const BEGINNING: u64 = 1_700_000_000_000_000;

pub(super) struct State {
    pub(super) store: Store,
    pub(super) plan: Plan,
    pub(super) queue: BTreeMap<(Instant, u64), Event>,
    events: u64,
    pub(super) links: Vec<Link>,
    began: Instant,
    /// How much faster the server's clock runs than tokio's, in millionths.
    drift: i64,
    /// The server's time at its last execution. Each script is executed at a later time than the
    /// one before.
    pub(super) last: u64,
    lives: u64,
    down: bool,
}

/// The two connections of one client.
pub(super) struct Link {
    clock: Clock,
    time: Arc<ServerClock>,
    pub(super) epoch: watch::Sender<Option<ConnectionId>>,
    connection: u64,
    /// For each lost connection, until when its bytes still arrive, and their additional delay.
    wrecks: HashMap<u64, (Instant, Duration)>,
    /// Until when earlier bytes occupy the direction to the server, and the direction back.
    there: Instant,
    back: Instant,
    pub(super) pushes: Option<mpsc::UnboundedSender<Push>>,
    pub(super) subscriber: Option<u64>,
    subscribers: u64,
    pub(super) listening: Instant,
}

pub(super) enum Event {
    Execute {
        client: usize,
        /// The connection that carries the request; `None` once a loss of the connection does not
        /// affect it.
        connection: Option<u64>,
        call: Call,
        refusal: Option<&'static str>,
        answer: Option<(oneshot::Sender<Answer>, Duration)>,
    },
    Answer(oneshot::Sender<Answer>, Answer),
    Listen {
        client: usize,
        subscriber: u64,
        channels: Vec<Bytes>,
        on: bool,
        done: oneshot::Sender<Result<(), ServerError>>,
    },
    Confirm(oneshot::Sender<Result<(), ServerError>>, Result<(), ServerError>),
    Push {
        client: usize,
        subscriber: u64,
        push: Push,
    },
    /// The number of the client, and the number of its connection.
    LoseLine(usize, u64),
    RestoreLine(usize),
    LoseSubscriber(usize, u64),
    RestoreSubscriber(usize),
    Restart,
    Restarted,
}

impl State {
    /// Creates the initial state, with the first restart scheduled.
    pub(super) fn new(mut plan: Plan) -> State {
        let drift = plan.random().i64(-450..=450);
        let mut state = State {
            store: Store::default(),
            queue: BTreeMap::new(),
            events: 0,
            links: Vec::new(),
            began: Instant::now(),
            drift,
            last: BEGINNING,
            lives: 1,
            down: false,
            plan,
        };
        let restart = state.plan.next_restart();
        state.later(restart, Event::Restart);
        state
    }

    /// Adds a client, and returns its number. The client's connections are established soon.
    pub(super) fn connect(&mut self, clock: Clock, time: Arc<ServerClock>) -> (usize, mpsc::UnboundedReceiver<Push>) {
        let (pushes, receiver) = mpsc::unbounded_channel();
        let (client, now) = (self.links.len(), Instant::now());
        self.links.push(Link {
            clock,
            time,
            epoch: watch::Sender::new(None),
            connection: 0,
            wrecks: HashMap::new(),
            there: now,
            back: now,
            pushes: Some(pushes),
            subscriber: None,
            subscribers: 0,
            listening: now,
        });
        for event in [Event::RestoreLine(client), Event::RestoreSubscriber(client)] {
            let wait = self.plan.way();
            self.later(wait, event);
        }
        (client, receiver)
    }

    pub(super) fn at(&mut self, at: Instant, event: Event) {
        self.events += 1;
        self.queue.insert((at, self.events), event);
    }

    pub(super) fn later(&mut self, wait: Duration, event: Event) {
        self.at(Instant::now() + wait, event);
    }

    pub(super) fn server_time(&self) -> u64 {
        let passed = i64::try_from(self.began.elapsed().as_micros()).unwrap_or(i64::MAX);
        BEGINNING.saturating_add_signed(passed + passed / 1000 * self.drift / 1000)
    }

    pub(super) fn submit(
        &mut self,
        client: usize,
        connection: u64,
        call: Call,
        sender: oneshot::Sender<Answer>,
        now: Instant,
    ) {
        let execute = |state: &mut State, at, connection, call, refusal, answer| {
            state.at(at, Event::Execute { client, connection, call, refusal, answer });
        };
        let fate = self.plan.fate();
        if let (Fate::Late { .. } | Fate::Twice { .. }, Some(soon)) = (fate, self.plan.notices_soon()) {
            // The connection is lost while the request is still in flight, so that the client
            // retransmits it on another connection.
            self.later(soon, Event::LoseLine(client, connection));
        }
        // A later request on the same connection arrives later at the server.
        let in_order = |state: &mut State, there| {
            let link = &mut state.links[client];
            link.there = link.there.max(now + there);
            link.there
        };
        match fate {
            Fate::Plain { there, back } => {
                let at = in_order(self, there);
                execute(self, at, Some(connection), call, None, Some((sender, back)));
            }
            Fate::Refused { there, back, message } => {
                let at = in_order(self, there);
                execute(self, at, Some(connection), call, Some(message), Some((sender, back)));
            }
            Fate::RequestLost => {}
            Fate::ReplyLost { there } => {
                let at = in_order(self, there);
                execute(self, at, Some(connection), call, None, None);
            }
            Fate::Late { by } => execute(self, now + by, None, call, None, None),
            Fate::Twice { there, again } => {
                let at = in_order(self, there);
                execute(self, at, Some(connection), call.clone(), None, None);
                execute(self, now + again, None, call, None, None);
            }
        }
    }

    pub(super) fn happen(&mut self, at: Instant, event: Event, witness: &dyn Witness) {
        match event {
            Event::Execute { client, connection, call, refusal, answer } => {
                let link = &self.links[client];
                if self.down {
                    return;
                }
                if let Some(lost) = connection
                    && link.epoch.borrow().as_ref().is_none_or(|epoch| epoch.connection != lost)
                {
                    match link.wrecks.get(&lost) {
                        Some((until, extra)) if at <= *until => {
                            let (at, connection, answer) = (at + *extra, None, None);
                            self.at(at, Event::Execute { client, connection, call, refusal, answer });
                        }
                        _ => {}
                    }
                    return;
                }
                let result = match refusal {
                    Some(message) => Err(refused(message)),
                    None => self.execute(&call),
                };
                witness.executed(client, &call, &result, self.last);
                self.send_messages();
                if let Some((sender, back)) = answer {
                    let link = &mut self.links[client];
                    link.back = link.back.max(Instant::now() + back);
                    let at = link.back;
                    self.at(at, Event::Answer(sender, result));
                }
            }
            // The receiver may have been dropped.
            Event::Answer(sender, answer) => drop(sender.send(answer)),
            Event::Confirm(sender, answer) => drop(sender.send(answer)),
            Event::Listen { client, subscriber, channels, on, done } => {
                if self.links[client].subscriber != Some(subscriber) {
                    return;
                }
                let again = channels.iter().any(|channel| self.store.is_subscribed(client, channel));
                let denied = on && self.plan.denies_subscription(again);
                for channel in channels {
                    match on {
                        true if denied => {}
                        true => self.store.subscribe(client, channel),
                        false => self.store.unsubscribe(client, &channel),
                    }
                }
                let result = if denied { Err(refused("NOPERM one of the channels is denied")) } else { Ok(()) };
                let wait = self.plan.way();
                self.later(wait, Event::Confirm(done, result));
            }
            Event::Push { client, subscriber, push } => {
                if self.links[client].subscriber == Some(subscriber) {
                    self.links[client].push(push);
                }
            }
            Event::LoseLine(client, connection) => {
                let present = self.links[client].epoch.borrow().as_ref().map(|epoch| epoch.connection);
                if self.plan.is_calm() || present != Some(connection) {
                    return;
                }
                let wreck = self.plan.wreck();
                self.lose_line(client, wreck);
                let outage = self.plan.outage();
                self.later(outage, Event::RestoreLine(client));
            }
            Event::RestoreLine(client) => self.restore_line(client),
            Event::LoseSubscriber(client, subscriber) => {
                if !self.plan.is_calm() && self.links[client].subscriber == Some(subscriber) {
                    self.lose_subscriber(client);
                }
            }
            Event::RestoreSubscriber(client) => self.restore_subscriber(client),
            Event::Restart => {
                if self.plan.is_calm() {
                    return;
                }
                self.down = true;
                self.tick();
                self.store.restart();
                witness.restarted(self.last);
                // Bytes that the old process had received are lost.
                let nothing = Wreck { arrives: Duration::ZERO, extra: Duration::ZERO };
                for client in 0..self.links.len() {
                    self.lose_line(client, nothing);
                    self.links[client].wrecks.clear();
                    self.lose_subscriber(client);
                }
                let outage = self.plan.outage();
                self.later(outage, Event::Restarted);
                let next = self.plan.next_restart();
                self.later(next, Event::Restart);
            }
            Event::Restarted => {
                self.down = false;
                self.lives += 1;
                for client in 0..self.links.len() {
                    let wait = self.plan.outage();
                    self.later(wait, Event::RestoreLine(client));
                    let wait = self.plan.outage();
                    self.later(wait, Event::RestoreSubscriber(client));
                }
            }
        }
    }

    /// Advances the server's clock, so that no two scripts run at the same time.
    fn tick(&mut self) {
        self.last = self.server_time().max(self.last + self.plan.random().u64(1..20));
        self.store.set_time(self.last);
    }

    fn execute(&mut self, call: &Call) -> Answer {
        self.tick();
        scripts::run(&mut self.store, call)
    }

    fn send_messages(&mut self) {
        for message in self.store.take_published() {
            for client in message.to {
                if self.plan.loses_message() {
                    continue;
                }
                let way = self.plan.way();
                let link = &mut self.links[client];
                let Some(subscriber) = link.subscriber else { continue };
                let at = link.listening.max(Instant::now() + way);
                link.listening = at;
                let push = Push::Message { channel: message.channel.clone(), payload: message.payload.clone() };
                self.at(at, Event::Push { client, subscriber, push });
            }
        }
    }

    pub(super) fn lose_line(&mut self, client: usize, wreck: Wreck) {
        let link = &mut self.links[client];
        if link.epoch.send_replace(None).is_some() {
            link.wrecks.insert(link.connection, (Instant::now() + wreck.arrives, wreck.extra));
        }
    }

    fn restore_line(&mut self, client: usize) {
        if self.down || self.links[client].epoch.borrow().is_some() || self.links[client].pushes.is_none() {
            return;
        }
        let run_id = format!("life-{}", self.lives).into();
        // The client reads the server's time in the handshake, slightly earlier.
        let time = self.server_time() - self.plan.random().u64(..3000);
        let link = &mut self.links[client];
        link.connection += 1;
        (link.there, link.back) = (Instant::now(), Instant::now());
        link.time.reset();
        link.time.observe(time, link.clock.now());
        link.epoch.send_replace(Some(ConnectionId { run_id, connection: link.connection }));
        let (next, connection) = (self.plan.next_loss(), link.connection);
        self.later(next, Event::LoseLine(client, connection));
    }

    pub(super) fn lose_subscriber(&mut self, client: usize) {
        self.store.hang_up(client);
        if self.links[client].subscriber.take().is_some() {
            self.links[client].push(Push::Gap);
        }
        if !self.down {
            let outage = self.plan.outage();
            self.later(outage, Event::RestoreSubscriber(client));
        }
    }

    fn restore_subscriber(&mut self, client: usize) {
        let link = &mut self.links[client];
        if self.down || link.subscriber.is_some() || link.pushes.is_none() {
            return;
        }
        link.subscribers += 1;
        link.subscriber = Some(link.subscribers);
        link.listening = Instant::now();
        link.push(Push::Gap);
        let (next, subscriber) = (self.plan.next_gap(), link.subscribers);
        self.later(next, Event::LoseSubscriber(client, subscriber));
    }
}

impl Link {
    fn push(&self, push: Push) {
        if let Some(pushes) = &self.pushes {
            let _ = pushes.send(push);
        }
    }
}
