//! The wake-up hub of one node: which channels are wanted, by whom, and which of them are in force.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::channel::{Channel, Force, Listener, Poll, Registration, Signal, Sink, Watch};
use super::poll::{self, Look};
use crate::clock::{Clock, Instant};
use crate::config::Settings;
use crate::connection::{Push, Server};
use crate::error::{Code, ServerError};

/// Channels subscribed by one command.
const CHUNK: usize = 256;

/// How often names are looked at while their channel is not in force: every 100 ms.
const UNSUBSCRIBED_POLL: Duration = Duration::from_millis(100);

/// How long a denied channel is left alone before it is tried again: a minute. Permissions change by hand.
const QUARANTINE: Duration = Duration::from_secs(60);

/// Denied channels that are remembered; beyond that each new watcher of one tries again.
const MOST_DENIED: usize = 10_000;

/// The wake-up hub of one node.
pub(crate) struct Hub {
    pub(super) server: Arc<dyn Server>,
    pub(super) clock: Clock,
    pub(super) settings: Settings,
    state: Mutex<State>,
    /// The set of wanted channels has changed.
    wanted: Notify,
    /// There is something to poll for.
    pub(super) polls: Notify,
    /// The subscriber connection is new.
    renewed: Notify,
    /// When the node last answered a poll, in nanoseconds.
    contact: AtomicU64,
}

#[derive(Default)]
struct State {
    channels: HashMap<Bytes, Channel>,
    /// Channels to subscribe, in chunks.
    to_join: BTreeSet<Bytes>,
    /// Channels to subscribe one by one, because they were part of a chunk that was denied.
    to_try: BTreeSet<Bytes>,
    /// Channels that nobody watches any more.
    to_leave: BTreeSet<Bytes>,
    polls: BTreeSet<(Instant, Bytes)>,
    /// Channels that were denied, and when.
    denied: HashMap<Bytes, Instant>,
    next_id: u64,
    /// Counts the gaps: what was subscribed before one is not in force after it.
    gaps: u64,
}

impl Hub {
    /// Starts the tasks of a hub; they end when the handles are aborted.
    pub(crate) fn start(server: Arc<dyn Server>, clock: Clock, settings: Settings) -> (Arc<Hub>, [JoinHandle<()>; 3]) {
        let hub = Arc::new(Hub {
            server,
            clock,
            settings,
            state: Mutex::default(),
            wanted: Notify::new(),
            polls: Notify::new(),
            renewed: Notify::new(),
            contact: AtomicU64::new(0),
        });
        let tasks = [
            tokio::spawn(Arc::clone(&hub).dispatch()),
            tokio::spawn(Arc::clone(&hub).maintain()),
            tokio::spawn(poll::run(Arc::clone(&hub))),
        ];
        (hub, tasks)
    }

    /// Watches `channel` for as long as the result lives, and polls `key` beneath it.
    pub(crate) fn watch(self: &Arc<Self>, channel: Bytes, key: Bytes) -> Watch {
        self.watch_polling(channel, Poll { key, mark: None, due: Instant::NEVER })
    }

    /// The same for who wants the name: as long as the subscription is not in force, `mark` tells others of it.
    pub(crate) fn watch_contended(self: &Arc<Self>, channel: Bytes, key: Bytes, mark: Bytes) -> Watch {
        self.watch_polling(channel, Poll { key, mark: Some(mark), due: Instant::NEVER })
    }

    /// How many messages were heard on a channel that is in force.
    pub(crate) fn heard(&self, channel: &Bytes) -> Option<u64> {
        let state = self.state();
        state.channels.get(channel).filter(|channel| channel.force == Force::Confirmed).map(|channel| channel.heard)
    }

    /// How long a key is still there; `None` when it is absent, or can not be looked at: then a try will tell.
    pub(crate) async fn peek(&self, key: &Bytes) -> Option<Duration> {
        poll::peek(self, key).await
    }

    fn watch_polling(self: &Arc<Self>, channel: Bytes, poll: Poll) -> Watch {
        let signal = Arc::new(Signal::default());
        let id = self.add(&channel, Sink::Signal(Arc::clone(&signal)), Some(poll));
        Watch { registration: Registration { hub: Arc::clone(self), channel, id }, signal }
    }

    /// Receives the messages of `channel` themselves, for as long as the result lives.
    pub(crate) fn listen(self: &Arc<Self>, channel: Bytes) -> Listener {
        let (sender, receiver) = mpsc::unbounded_channel();
        let id = self.add(&channel, Sink::Stream(sender), None);
        Listener { _registration: Registration { hub: Arc::clone(self), channel, id }, receiver }
    }

    /// How many channels are wanted at the moment.
    pub(crate) fn channels(&self) -> usize {
        self.state().channels.values().filter(|channel| !channel.watchers.is_empty()).count()
    }

    fn add(&self, name: &Bytes, sink: Sink, poll: Option<Poll>) -> u64 {
        let now = self.clock.now();
        let mut state = self.state();
        state.next_id += 1;
        let id = state.next_id;
        // A denial is remembered beyond the last watcher: each try costs the subscriber connection.
        let force = state.denied.get(name).map_or(Force::Wanted, |since| Force::Denied(*since));
        let fresh = || Channel { watchers: HashMap::new(), force, poll: None, heard: 0 };
        let channel = state.channels.entry(name.clone()).or_insert_with(fresh);
        if let (Sink::Signal(signal), Force::Confirmed) = (&sink, channel.force) {
            signal.in_force.store(true, Ordering::Release);
            // What was published between the caller's look and this moment is not seen: look once more.
            signal.recheck.store(true, Ordering::Release);
        }
        channel.watchers.insert(id, sink);
        let is_new = channel.force == Force::Wanted && channel.watchers.len() == 1;
        match (poll, &mut channel.poll) {
            (Some(poll), Some(known)) => known.mark = known.mark.take().or(poll.mark),
            (Some(poll), none) => {
                let due = now + UNSUBSCRIBED_POLL;
                *none = Some(Poll { due, ..poll });
                state.polls.insert((due, name.clone()));
            }
            (None, _) => {}
        }
        state.to_leave.remove(name);
        if is_new {
            state.to_join.insert(name.clone());
        }
        drop(state);
        if is_new {
            self.wanted.notify_one();
        }
        self.polls.notify_one();
        id
    }

    pub(super) fn remove(&self, name: &Bytes, id: u64) {
        let mut state = self.state();
        let Some(channel) = state.channels.get_mut(name) else { return };
        channel.watchers.remove(&id);
        if channel.watchers.is_empty() {
            if let Some(poll) = channel.poll.take() {
                state.polls.remove(&(poll.due, name.clone()));
            }
            state.to_leave.insert(name.clone());
            drop(state);
            self.wanted.notify_one();
        }
    }

    /// Hands messages to their watchers.
    async fn dispatch(self: Arc<Self>) {
        let mut pushes = self.server.pushes();
        while let Some(push) = pushes.recv().await {
            match push {
                Push::Message { channel, payload } => {
                    if let Some(channel) = self.state().channels.get_mut(&channel) {
                        channel.tell(&payload);
                    }
                }
                Push::Gap => {
                    self.nothing_in_force();
                    self.renewed.notify_one();
                    self.wanted.notify_one();
                    self.polls.notify_one();
                }
            }
        }
    }

    fn nothing_in_force(&self) {
        let now = self.clock.now();
        let mut state = self.state();
        state.gaps += 1;
        let State { channels, to_join, polls, .. } = &mut *state;
        for (name, channel) in channels {
            if channel.force != Force::Confirmed {
                continue;
            }
            channel.set(Force::Wanted);
            to_join.insert(name.clone());
            // Nobody will tell meanwhile: look soon, and often.
            if let Some(poll) = &mut channel.poll {
                polls.remove(&(poll.due, name.clone()));
                poll.due = (now + UNSUBSCRIBED_POLL).min(poll.due);
                polls.insert((poll.due, name.clone()));
            }
        }
    }

    /// Keeps what is subscribed equal to what is wanted.
    async fn maintain(self: Arc<Self>) {
        loop {
            let (leaving, joining, suspect) = self.differences();
            if leaving.is_empty() && joining.is_empty() {
                let pardon = self.pardon();
                tokio::select! {
                    () = self.wanted.notified() => {}
                    () = self.clock.sleep_until(pardon) => {}
                }
                continue;
            }
            if !leaving.is_empty() {
                self.server.unsubscribe(leaving).await;
            }
            if !joining.is_empty() {
                let gaps = self.state().gaps;
                match self.server.subscribe(joining.clone()).await {
                    Ok(()) => self.in_force(&joining, gaps),
                    Err(error) => self.subscription_failed(&joining, suspect, &error).await,
                }
            }
        }
    }

    /// Has channels tried again that were denied long ago; returns when the next is due.
    fn pardon(&self) -> Instant {
        let now = self.clock.now();
        let mut state = self.state();
        let State { channels, denied, to_try, .. } = &mut *state;
        let mut next = Instant::NEVER;
        denied.retain(|name, since| {
            let until = *since + QUARANTINE;
            if until > now {
                next = next.min(until);
                return true;
            }
            if let Some(channel) = channels.get_mut(name) {
                channel.set(Force::Wanted);
                to_try.insert(name.clone());
            }
            false
        });
        if to_try.is_empty() { next } else { now }
    }

    /// The next channels to unsubscribe, the next to subscribe by one command, and whether that is one that was part of a
    /// denied chunk.
    fn differences(&self) -> (Vec<Bytes>, Vec<Bytes>, bool) {
        let mut state = self.state();
        let State { channels, to_join, to_try, to_leave, .. } = &mut *state;
        let mut leaving = Vec::new();
        while leaving.len() < CHUNK {
            let Some(name) = to_leave.pop_first() else { break };
            to_join.remove(&name);
            to_try.remove(&name);
            if channels.remove(&name).is_some_and(|channel| channel.force == Force::Confirmed) {
                leaving.push(name);
            }
        }
        let mut joining = Vec::new();
        while joining.len() < CHUNK {
            let Some(name) = to_join.pop_first() else { break };
            if channels.contains_key(&name) {
                joining.push(name);
            }
        }
        let suspect = joining.is_empty();
        if suspect {
            joining.extend(to_try.pop_first().filter(|name| channels.contains_key(name)));
        }
        (leaving, joining, suspect)
    }

    fn in_force(&self, chunk: &[Bytes], gaps: u64) {
        let mut state = self.state();
        if state.gaps != gaps {
            // Confirmed by a connection that has gone since.
            state.to_join.extend(chunk.iter().cloned());
            return;
        }
        // More than a second's budget at once would be a storm; the poll reaches the rest.
        let mut direct = self.settings.poll_budget;
        for name in chunk {
            let State { channels, polls, .. } = &mut *state;
            // Left by its last watcher meanwhile: `to_leave` has it.
            let Some(channel) = channels.get_mut(name) else { continue };
            channel.set(Force::Confirmed);
            // The first subscription is followed by a look of the waiter's own; a renewed one is a gap.
            if direct > 0 {
                direct -= 1;
                channel.recheck();
            } else if let Some(poll) = &mut channel.poll {
                polls.remove(&(poll.due, name.clone()));
                poll.due = Instant::PAST;
                polls.insert((Instant::PAST, name.clone()));
            }
        }
    }

    async fn subscription_failed(&self, chunk: &[Bytes], suspect: bool, error: &ServerError) {
        let denied = matches!(error.code(), Some(Code::NoPermission));
        let now = self.clock.now();
        {
            let mut state = self.state();
            let State { channels, denied: quarantine, to_join, to_try, .. } = &mut *state;
            for name in chunk {
                let Some(channel) = channels.get_mut(name) else { continue };
                match (denied, chunk.len()) {
                    (true, 1) => {
                        channel.set(Force::Denied(now));
                        if quarantine.len() < MOST_DENIED {
                            quarantine.insert(name.clone(), now);
                        }
                    }
                    (true, _) => {
                        to_try.insert(name.clone());
                    }
                    // It stays alone: in a chunk it could have the others denied again.
                    (false, _) if suspect => {
                        to_try.insert(name.clone());
                    }
                    (false, _) => {
                        to_join.insert(name.clone());
                    }
                }
            }
        }
        tracing::debug!(%error, channels = chunk.len(), "subscription failed");
        // The connection is made anew, or there is none: its gap is the signal to go on. The time bound is for a node
        // that refuses without losing its connection.
        let _ = tokio::time::timeout(self.settings.retry_delay, self.renewed.notified()).await;
    }

    /// When the node last answered a poll: while names are awaited, it is asked all the time.
    pub(crate) fn contact(&self) -> Instant {
        Instant::from_nanos(self.contact.load(Ordering::Acquire))
    }

    /// The node has answered just now.
    pub(super) fn answered(&self) {
        self.contact.store(self.clock.now().as_nanos(), Ordering::Release);
    }

    /// Takes the names that are due for a look, at most `most`, and sets when they are due again.
    pub(super) fn due(&self, most: usize) -> Vec<Look> {
        let now = self.clock.now();
        let mut state = self.state();
        let State { channels, polls, .. } = &mut *state;
        let mut looks = Vec::new();
        while looks.len() < most {
            let Some((due, name)) = polls.first().cloned() else { break };
            if due > now {
                break;
            }
            polls.pop_first();
            let Some(channel) = channels.get_mut(&name) else { continue };
            let in_force = channel.force == Force::Confirmed;
            let every = if in_force { self.settings.poll_interval } else { UNSUBSCRIBED_POLL };
            let Some(poll) = &mut channel.poll else { continue };
            poll.due = now + every;
            let mark = poll.mark.clone().filter(|_| !in_force);
            looks.push(Look { channel: name.clone(), key: poll.key.clone(), mark });
            polls.insert((poll.due, name));
        }
        looks
    }

    /// When the next name is due for a look.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.state().polls.first().map(|(due, _)| *due)
    }

    /// Tells the watchers of a channel to look.
    pub(super) fn recheck(&self, name: &Bytes) {
        if let Some(channel) = self.state().channels.get(name) {
            channel.recheck();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
