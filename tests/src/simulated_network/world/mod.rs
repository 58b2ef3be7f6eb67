//! One simulated server with the connections of all its clients, and the queue of events.
//!
//! All events happen on tokio's paused clock, in the order of one queue, which one task processes
//! ([`World::run`]). A connection keeps the order of its bytes, as TCP does, unless the plan
//! decides otherwise.

mod state;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Clock;
use redgrid_core::{ConnectionId, Push, Reply, ServerClock, ServerError};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use self::state::{Event, State};
use super::plan::{Plan, Wreck};
use super::scripts::Call;

/// The reply to one request.
pub(super) type Answer = Result<Reply, ServerError>;

/// Observes all events, so that tests can check them.
pub trait Witness: Send + Sync {
    /// A client sent a call.
    fn submitted(&self, _client: usize, _call: &Call, _now: Instant) {}
    /// The server executed a call at its time `micros`.
    fn executed(&self, _client: usize, _call: &Call, _answer: &Result<Reply, ServerError>, _micros: u64) {}
    /// A client received the reply to a call that it had sent at `sent`.
    fn delivered(
        &self,
        _client: usize,
        _call: &Call,
        _answer: &Result<Reply, ServerError>,
        _sent: Instant,
        _now: Instant,
    ) {
    }
    /// The server restarted without data at its time `micros`.
    fn restarted(&self, _micros: u64) {}
}

/// One simulated server and the network around it.
pub struct World {
    state: Mutex<State>,
    changed: Notify,
    witness: Arc<dyn Witness>,
}

/// A request in flight.
pub(super) struct Pending {
    pub(super) connection: u64,
    pub(super) answer: oneshot::Receiver<Answer>,
    pub(super) epoch: watch::Receiver<Option<ConnectionId>>,
}

impl World {
    /// Creates a world with the faults of `plan`. No event happens before [`World::run`] is polled.
    pub fn new(plan: Plan, witness: Arc<dyn Witness>) -> Arc<World> {
        let state = State::new(plan);
        Arc::new(World { state: Mutex::new(state), changed: Notify::new(), witness })
    }

    /// Processes the events; never returns.
    pub async fn run(self: Arc<Self>) {
        loop {
            let next = {
                let mut state = self.state();
                match state.queue.first_key_value() {
                    Some(((at, _), _)) if *at <= Instant::now() => {
                        if let Some(((at, _), event)) = state.queue.pop_first() {
                            state.happen(at, event, &*self.witness);
                        }
                        Some(None)
                    }
                    Some(((at, _), _)) => Some(Some(*at)),
                    None => None,
                }
            };
            match next {
                // Tasks woken by the last event run before the next event.
                Some(None) => tokio::task::yield_now().await,
                Some(Some(at)) => {
                    tokio::select! {
                        biased;
                        () = self.changed.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => self.changed.notified().await,
            }
        }
    }

    /// Stops all faults. Lost connections are restored soon, and delayed requests still arrive.
    pub fn calm(&self) {
        let mut state = self.state();
        state.plan.calm();
        for client in 0..state.links.len() {
            state.later(Duration::from_millis(50), Event::RestoreLine(client));
            state.later(Duration::from_millis(50), Event::RestoreSubscriber(client));
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Returns the server's time in microseconds since 1970.
    pub fn server_time(&self) -> u64 {
        let state = self.state();
        state.server_time().max(state.last)
    }

    /// Returns the keys with the names of their fields.
    pub fn keys(&self) -> Vec<(Bytes, Vec<Bytes>)> {
        let mut state = self.state();
        let now = state.server_time().max(state.last);
        state.store.set_time(now);
        state.store.keys()
    }

    /// Returns the channels with subscribers.
    pub fn channels(&self) -> Vec<Bytes> {
        self.state().store.channels()
    }

    /// Adds a client with its own connections; returns its number.
    pub(super) fn connect(&self, clock: Clock, time: Arc<ServerClock>) -> (usize, mpsc::UnboundedReceiver<Push>) {
        let connected = self.state().connect(clock, time);
        self.changed.notify_one();
        connected
    }

    pub(super) fn epoch(&self, client: usize) -> watch::Receiver<Option<ConnectionId>> {
        self.state().links[client].epoch.subscribe()
    }

    /// Sends a call.
    pub(super) fn submit(&self, client: usize, call: Call) -> Result<Pending, ServerError> {
        let mut state = self.state();
        let epoch = state.links[client].epoch.subscribe();
        let Some(connection) = epoch.borrow().as_ref().map(|epoch| epoch.connection) else {
            return Err(ServerError::NotSent { reason: "no connection".into() });
        };
        let now = Instant::now();
        self.witness.submitted(client, &call, now);
        let (sender, answer) = oneshot::channel();
        state.submit(client, connection, call, sender, now);
        drop(state);
        self.changed.notify_one();
        Ok(Pending { connection, answer, epoch })
    }

    pub(super) fn delivered(&self, client: usize, call: &Call, answer: &Answer, sent: Instant) {
        self.witness.delivered(client, call, answer, sent, Instant::now());
    }

    /// Subscribes or unsubscribes channels.
    pub(super) fn listen(
        &self,
        client: usize,
        channels: Vec<Bytes>,
        on: bool,
    ) -> Result<oneshot::Receiver<Result<(), ServerError>>, ServerError> {
        let mut state = self.state();
        let way = state.plan.way();
        let link = &mut state.links[client];
        let Some(subscriber) = link.subscriber else {
            return Err(ServerError::NotSent { reason: "no connection".into() });
        };
        let at = link.listening.max(Instant::now() + way);
        link.listening = at;
        let (done, confirmed) = oneshot::channel();
        state.at(at, Event::Listen { client, subscriber, channels, on, done });
        drop(state);
        self.changed.notify_one();
        Ok(confirmed)
    }

    /// Closes a subscriber connection on which the server did not answer.
    pub(super) fn give_up_subscriber(&self, client: usize) {
        self.state().lose_subscriber(client);
        self.changed.notify_one();
    }

    /// Closes the connections of a client without loss.
    pub(super) fn close(&self, client: usize) {
        let mut state = self.state();
        let all = Wreck { arrives: Duration::from_secs(60), extra: Duration::ZERO };
        state.lose_line(client, all);
        state.links[client].pushes = None;
        state.links[client].subscriber = None;
        state.store.hang_up(client);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
