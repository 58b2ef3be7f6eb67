//! The wake-up hub of a client: which channels are wanted, by whom, and at which node each is subscribed.
//!
//! A channel is subscribed at the node that decides for its key, or, where waiters listen there, at a replica of that: its home. What
//! is polled is polled at the primary. When one of them changes, because a primary was replaced, a slot has moved or a replica is no longer fit, the
//! channel moves, and its watchers are told to look.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use super::channel::{
    Channel, Denial, Force, Heard, Hearing, Listener, Poll, Reach, Registration, Signal, Sink, Term, Watch,
};
use super::lane::{Desired, Lane, Post};
use super::poll::{self, UNSUBSCRIBED_POLL};
use super::spread::{Spreading, heard_at};
use crate::clock::{Clock, Instant};
use crate::config::Settings;
use crate::connection::{ChannelKind, Events, NodeId, Server, Topology, is_same};
use crate::error::ServerError;
use crate::wait::feed::{of_pattern, plain, sharded};

/// The wake-up hub of a client.
pub(crate) struct Hub {
    pub(super) topology: Arc<dyn Topology>,
    pub(super) clock: Clock,
    pub(super) settings: Settings,
    pub(super) events: Arc<Events>,
    state: Mutex<State>,
    /// What is heard everywhere; taken before the state.
    spreads: Mutex<HashMap<u64, Spreading>>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) channels: HashMap<Bytes, Channel, foldhash::fast::RandomState>,
    /// What is wanted at each node, and the tasks that see to it.
    pub(super) posts: HashMap<NodeId, Post>,
    /// Channels that were denied, and until when they are left alone.
    pub(super) denied: HashMap<Bytes, Denial>,
    /// Of channels that are being unsubscribed at a node: who still hears what comes before the server has done so.
    pub(super) ending: HashMap<Bytes, Vec<(NodeId, Sink)>>,
    next_id: u64,
    closed: bool,
}

/// Subscriptions at one node.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// Number of channels with watchers.
    pub(crate) wanted: usize,
    /// How many of them the server has confirmed.
    pub(crate) confirmed: usize,
    /// Why one of the others is not.
    pub(crate) trouble: Option<ServerError>,
}

/// The subscription of this process to a channel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Own {
    /// Number of messages that it has received, if the server has confirmed it.
    pub(crate) heard: Option<u64>,
    /// The server may count it among the subscribers although it is not confirmed, or not any more.
    pub(crate) is_pending: bool,
}

impl State {
    /// What is wanted at a node.
    pub(super) fn desired(&mut self, node: &NodeId) -> Option<&mut Desired> {
        self.posts.get_mut(node).map(|post| &mut post.desired)
    }

    /// The post at `home`, begun where there is none. Posts go by address; where another node is there by now, a new one
    /// begins with all that was wanted of the former.
    fn post(&mut self, hub: &Arc<Hub>, home: &Arc<dyn Server>) -> &mut Post {
        let begin = || Post::begin(Arc::clone(hub), Arc::clone(home));
        let post = self.posts.entry(home.id().clone()).or_insert_with(begin);
        if !is_same(&post.lane.server, home) {
            let interrupted = post.desired.interrupted;
            *post = begin();
            post.desired.interrupted = interrupted;
            // Nothing more comes of what was being unsubscribed at the former one.
            self.ending.retain(|_, sinks| {
                sinks.retain(|(at, _)| at != home.id());
                !sinks.is_empty()
            });
            for (name, channel) in &mut self.channels {
                if channel.primary == *home.id() {
                    post.desired.polls.extend(channel.poll.as_ref().map(|poll| (poll.due, name.clone())));
                }
                if channel.home != *home.id() {
                    continue;
                }
                post.desired.interrupted |= channel.force == Force::Confirmed;
                // Nothing was subscribed on the connections of this one.
                (channel.asked, channel.known) = (false, false);
                channel.set(Force::Wanted);
                post.desired.to_join.insert(name.clone());
                if channel.watchers.is_empty() {
                    post.desired.to_leave.insert(name.clone());
                }
            }
        }
        post
    }
}

impl Hub {
    pub(crate) fn new(topology: Arc<dyn Topology>, clock: Clock, settings: Settings, events: Arc<Events>) -> Arc<Hub> {
        Arc::new(Hub { topology, clock, settings, events, state: Mutex::default(), spreads: Mutex::default() })
    }

    pub(crate) fn topology(&self) -> &dyn Topology {
        &*self.topology
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Watches `channel` for as long as the result lives, and polls `key` beneath it.
    pub(crate) fn watch(self: &Arc<Self>, channel: Bytes, key: Bytes) -> Watch {
        self.watch_polling(channel, Poll { key, mark: None, due: Instant::NEVER })
    }

    /// The same for who wants the name: as long as the subscription is not in force, `mark` tells others of it.
    pub(crate) fn watch_contended(self: &Arc<Self>, channel: Bytes, key: Bytes, mark: Bytes) -> Watch {
        self.watch_polling(channel, Poll { key, mark: Some(mark), due: Instant::NEVER })
    }

    /// Watches `channel` in the slot of `key`, polls nothing, and wakes whoever waits for `notify`, who then asks by
    /// [`Watch::take`].
    pub(crate) fn watch_for(self: &Arc<Self>, channel: Bytes, key: &Bytes, notify: Arc<Notify>) -> Watch {
        let signal = Arc::new(Signal::of(notify));
        let id = self.add(&channel, key, Reach::Slot, Sink::Signal(Arc::clone(&signal)), None);
        Watch { registration: Registration { hub: Arc::clone(self), channel, id }, signal }
    }

    /// How many messages were heard on a channel that is in force.
    pub(crate) fn heard(&self, channel: &Bytes) -> Option<u64> {
        self.own(channel).heard
    }

    /// The subscription of this process to a channel.
    pub(crate) fn own(&self, channel: &Bytes) -> Own {
        let state = self.state();
        match state.channels.get(channel).map(|channel| (channel.force, channel.heard)) {
            Some((Force::Confirmed, heard)) => Own { heard: Some(heard), is_pending: false },
            Some((Force::Wanted | Force::Postponed, _)) => Own { heard: None, is_pending: true },
            Some((Force::Denied, _)) => Own::default(),
            None => Own { heard: None, is_pending: state.ending.contains_key(channel) },
        }
    }

    /// How long a key is still there; `None` when it is absent, or can not be looked at: then a try will tell.
    pub(crate) async fn peek(&self, key: &Bytes) -> Option<Duration> {
        poll::peek(self, key).await
    }

    fn watch_polling(self: &Arc<Self>, channel: Bytes, poll: Poll) -> Watch {
        let signal = Arc::new(Signal::default());
        let key = poll.key.clone();
        let id = self.add(&channel, &key, Reach::Slot, Sink::Signal(Arc::clone(&signal)), Some(poll));
        Watch { registration: Registration { hub: Arc::clone(self), channel, id }, signal }
    }

    /// Tells others that somebody waits here who gets no messages, for three looks of the poll.
    pub(crate) async fn mark(&self, mark: &Bytes) {
        poll::mark(self, mark).await;
    }

    /// Receives the messages of `channel` themselves, for as long as the result lives. They are published plainly, from
    /// whatever node.
    pub(crate) fn listen(self: &Arc<Self>, channel: Bytes) -> Listener {
        let (sender, receiver) = mpsc::unbounded_channel();
        let id = self.add(&channel, &channel, Reach::Everywhere, Sink::Stream(sender), None);
        Listener { _registration: Registration { hub: Arc::clone(self), channel, id }, receiver }
    }

    /// Hears `channels`, which are in the slot of `key`, in the order in which they are published; where it `polls`, `key` beneath.
    pub(crate) fn hear(
        self: &Arc<Self>,
        channels: impl IntoIterator<Item = Bytes>,
        key: &Bytes,
        polls: bool,
    ) -> Hearing {
        self.hear_by(Reach::Slot, channels, key, polls)
    }

    /// Hears channels in the slot of `key` at the primary of that, whatever waiters do: who publishes there counts this one.
    pub(crate) fn hear_counted(self: &Arc<Self>, channels: impl IntoIterator<Item = Bytes>, key: &Bytes) -> Hearing {
        self.hear_by(Reach::Counted, channels, key, false)
    }

    fn hear_by(
        self: &Arc<Self>,
        reach: Reach,
        channels: impl IntoIterator<Item = Bytes>,
        key: &Bytes,
        polls: bool,
    ) -> Hearing {
        let (sender, receiver) = mpsc::unbounded_channel();
        let first = Term::default();
        let hear = |(place, channel): (usize, Bytes)| {
            let poll = (polls && place == 0).then(|| Poll { key: key.clone(), mark: None, due: Instant::NEVER });
            let term = if place == 0 { first.clone() } else { Term::default() };
            let sink = Sink::Hearing { place, sender: sender.clone(), polled: polls, term };
            let id = self.add(&channel, key, reach, sink, poll);
            Registration { hub: Arc::clone(self), channel, id }
        };
        let registrations = channels.into_iter().enumerate().map(hear).collect();
        Hearing { registrations, receiver, term: first }
    }

    /// How many channels are wanted at the moment.
    pub(crate) fn channels(&self) -> usize {
        self.state().channels.values().filter(|channel| !channel.watchers.is_empty()).count()
    }

    /// The channels that are wanted at a node, and what became of their subscriptions.
    pub(crate) fn subscriptions(&self, node: &NodeId) -> Subscriptions {
        let state = self.state();
        let mut found = Subscriptions::default();
        let wanted = state.channels.iter().filter(|(_, channel)| channel.home == *node && !channel.watchers.is_empty());
        for (name, channel) in wanted {
            found.wanted += 1;
            found.confirmed += usize::from(channel.force == Force::Confirmed);
            if found.trouble.is_none() && matches!(channel.force, Force::Denied | Force::Postponed) {
                found.trouble = state.denied.get(name).map(|denial| denial.why.clone());
            }
        }
        if found.confirmed < found.wanted && found.trouble.is_none() {
            found.trouble = state.posts.get(node).and_then(|post| post.lane.failure());
        }
        found
    }

    /// A number that no watcher has.
    pub(super) fn next_id(&self) -> u64 {
        let mut state = self.state();
        state.next_id += 1;
        state.next_id
    }

    pub(super) fn spreads(&self) -> MutexGuard<'_, HashMap<u64, Spreading>> {
        self.spreads.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn add(
        self: &Arc<Self>,
        name: &Bytes,
        key: &Bytes,
        reach: Reach,
        sink: Sink,
        poll: Option<Poll>,
    ) -> u64 {
        let now = self.clock.now();
        let mut state = self.state();
        state.next_id += 1;
        let id = state.next_id;
        if !state.channels.contains_key(name) {
            let (home, primary) = self.home(key, reach).unzip();
            if !state.closed {
                home.iter().chain(&primary).for_each(|node| {
                    state.post(self, node);
                });
            }
            // A denial is remembered beyond the last watcher: each try costs the subscriber connection.
            let force = state.denied.get(name).map_or(Force::Wanted, Denial::force);
            let kind = self.kind(reach);
            // A node that has gone meanwhile: whoever wanted it leaves as well.
            let id = |node: Option<Arc<dyn Server>>| node.map_or(NodeId("".into()), |node| node.id().clone());
            let mut channel = Channel::new(key.clone(), id(home), id(primary), reach, kind);
            channel.force = force;
            state.channels.insert(name.clone(), channel);
        }
        let State { channels, posts, ending, denied, .. } = &mut *state;
        let Some(channel) = channels.get_mut(name) else { return id };
        // What was published between the caller's look and this moment is not seen: look once more.
        match (&sink, channel.force) {
            (Sink::Signal(signal), Force::Confirmed) => {
                signal.in_force.store(true, Ordering::Release);
                signal.recheck.store(true, Ordering::Release);
            }
            (Sink::Hearing { sender, term, .. }, Force::Confirmed) => {
                term.set(true);
                let _ = sender.send(Heard::Recheck);
            }
            (Sink::Tap { tap, seat }, Force::Confirmed) => tap.in_force(*seat),
            (sink, Force::Denied) => {
                if let Some(denial) = denied.get(name) {
                    denial.tell(sink);
                }
            }
            _ => {}
        }
        channel.watchers.insert(id, sink);
        match (poll, &mut channel.poll, posts.get_mut(&channel.primary)) {
            (Some(poll), Some(known), _) => known.mark = known.mark.take().or(poll.mark),
            (Some(poll), none, Some(post)) => {
                let due = now + UNSUBSCRIBED_POLL;
                *none = Some(Poll { due, ..poll });
                post.desired.polls.insert((due, name.clone()));
                post.lane.polls.notify_one();
            }
            (None, ..) | (_, None, None) => {}
        }
        let is_new = channel.force == Force::Wanted && channel.watchers.len() == 1;
        let Some(post) = posts.get_mut(&channel.home) else { return id };
        if post.desired.to_leave.remove(name) {
            ending.remove(name);
        }
        if is_new {
            post.desired.to_join.insert(name.clone());
            post.lane.wanted.notify_one();
        }
        id
    }

    pub(super) fn remove(&self, name: &Bytes, id: u64) {
        leave(&mut self.state(), name, id);
    }

    /// Ends a watch whose watcher still hears what comes until the server has unsubscribed the channel, if nobody else watches it.
    pub(super) fn end(&self, name: &Bytes, id: u64) {
        let mut state = self.state();
        let Some((home, sink)) = leave(&mut state, name, id) else { return };
        state.ending.entry(name.clone()).or_default().push((home, sink));
    }

    /// Nobody hears any more what has ended at a node.
    pub(super) fn ended(&self, lane: &Lane, is_it: impl Fn(&Bytes) -> bool) {
        let node = lane.server.id();
        self.state().ending.retain(|name, sinks| {
            sinks.retain(|(home, _)| home != node || !is_it(name));
            !sinks.is_empty()
        });
    }

    /// How the messages of a channel travel.
    fn kind(&self, reach: Reach) -> ChannelKind {
        match reach {
            Reach::Slot | Reach::Counted if self.topology.is_sharded() => ChannelKind::Sharded,
            Reach::Everywhere | Reach::Slot | Reach::Counted => ChannelKind::Plain,
            Reach::Sharded => ChannelKind::Sharded,
            Reach::Patterns => ChannelKind::Patterns,
            Reach::Node => ChannelKind::Events,
        }
    }

    /// Where a channel is to be subscribed, and who decides for its key; `None` where it is to be at a node that has gone. What no poll makes up for, as the notices of force, is heard from the primary itself: a
    /// replica may be deaf for as long as it takes to notice.
    fn home(&self, key: &[u8], reach: Reach) -> Option<(Arc<dyn Server>, Arc<dyn Server>)> {
        if reach == Reach::Node {
            let node = self.topology.primaries().into_iter().find(|node| node.id().0.as_bytes() == key)?;
            return Some((Arc::clone(&node), node));
        }
        let primary = self.topology.primary(key);
        Some((if reach == Reach::Slot { self.topology.listener(key) } else { Arc::clone(&primary) }, primary))
    }

    /// Moves every channel to where its key is, or is listened to, by now.
    pub(crate) fn rehome(self: &Arc<Self>) {
        let now = self.clock.now();
        let mut state = self.state();
        if state.closed {
            return;
        }
        let moves: Vec<_> = state
            .channels
            .iter()
            .filter_map(|(name, channel)| {
                let (home, primary) = self.home(&channel.key, channel.reach)?;
                let kind = self.kind(channel.reach);
                let is_at = |id: &NodeId, node: &Arc<dyn Server>| {
                    state.posts.get(id).is_some_and(|post| is_same(&post.lane.server, node))
                };
                // Also where a replica has another primary: it may have ended what was subscribed for the former one.
                let is_led = is_at(&channel.primary, &primary);
                let stays = is_at(&channel.home, &home) && is_led && channel.kind == kind;
                (!stays).then(|| (name.clone(), home, primary, is_led, kind))
            })
            .collect();
        for (name, home, primary, is_led, kind) in moves {
            let State { channels, posts, denied, .. } = &mut *state;
            let Some(channel) = channels.get_mut(&name) else { continue };
            if let Some((poll, post)) = channel.poll.as_ref().zip(posts.get_mut(&channel.primary)) {
                post.desired.polls.remove(&(poll.due, name.clone()));
            }
            let former = posts.get_mut(&channel.home);
            let mut interrupted = channel.force == Force::Confirmed;
            if let Some(Post { lane, desired, .. }) = former {
                interrupted |= desired.interrupted;
                desired.forget(&name);
                // A slot's channels end with its leaving a primary; the others have to be ended. At a replica of that they end as well,
                // and are counted there: what is missing would have all made anew.
                let ends = channel.kind != ChannelKind::Sharded || is_led || channel.home != channel.primary;
                if channel.may_be_subscribed() && ends {
                    desired.to_end.insert((channel.kind, name.clone()));
                    lane.wanted.notify_one();
                }
            }
            denied.remove(&name);
            if channel.watchers.is_empty() {
                channels.remove(&name);
                continue;
            }
            (channel.home, channel.primary) = (home.id().clone(), primary.id().clone());
            (channel.kind, channel.asked, channel.known) = (kind, false, false);
            channel.set(Force::Wanted);
            let due = channel.poll.as_mut().map(|poll| {
                poll.due = now + UNSUBSCRIBED_POLL;
                poll.due
            });
            let Post { lane, desired, .. } = state.post(self, &primary);
            desired.polls.extend(due.map(|due| (due, name.clone())));
            lane.polls.notify_one();
            let Post { lane, desired, .. } = state.post(self, &home);
            desired.interrupted |= interrupted;
            let is_there_still = desired.to_end.remove(&(kind, name.clone()));
            desired.to_join.insert(name.clone());
            lane.wanted.notify_one();
            if let Some(channel) = state.channels.get_mut(&name).filter(|_| is_there_still) {
                (channel.asked, channel.known) = (true, true);
            }
        }
        let mut nodes = self.topology.primaries();
        nodes.extend(self.topology.shards().into_iter().flat_map(|shard| shard.replicas));
        let State { posts, ending, .. } = &mut *state;
        posts.retain(|_, post| nodes.iter().any(|node| is_same(node, &post.lane.server)));
        ending.retain(|_, sinks| {
            sinks.retain(|(home, _)| posts.contains_key(home));
            !sinks.is_empty()
        });
        drop(state);
        self.spread();
    }

    /// When the home of a key last answered a poll: while names are awaited there, it is asked all the time.
    pub(crate) fn contact(&self, key: &[u8]) -> Instant {
        let home = self.topology.primary(key);
        self.state().posts.get(home.id()).map_or(Instant::PAST, |post| post.lane.contact())
    }

    /// Tells the watchers of a channel to look.
    pub(super) fn recheck(&self, name: &Bytes) {
        if let Some(channel) = self.state().channels.get(name) {
            channel.recheck();
        }
    }

    /// Hands a message to its watchers, unless the channel has moved to another node since.
    pub(super) fn tell(&self, lane: &Lane, name: &Bytes, payload: &Bytes) {
        self.tell_known(lane, &plain(name), name, payload);
        let is_sharded = self.state().channels.get(name).is_some_and(|channel| channel.kind == ChannelKind::Sharded);
        if !is_sharded {
            self.tell_waiters(lane, name, payload);
        }
    }

    fn tell_waiters(&self, lane: &Lane, name: &Bytes, payload: &Bytes) {
        let mut state = self.state();
        let node = lane.server.id();
        if let Some(channel) = state.channels.get_mut(name).filter(|channel| channel.home == *node) {
            channel.tell(name, payload);
        } else if let Some(channel) = state.channels.get_mut(&heard_at(node, name)) {
            channel.tell(name, payload);
        }
        let ending = state.ending.get(name).into_iter().flatten();
        ending.filter(|(home, _)| home == lane.server.id()).for_each(|(_, sink)| sink.tell(name, payload));
    }

    /// The same of one that came by SPUBLISH: waiters have such, too, and a plain channel of that name is another one.
    pub(super) fn tell_sharded(&self, lane: &Lane, name: &Bytes, payload: &Bytes) {
        self.tell_known(lane, &sharded(name), name, payload);
        let is_plain = self.state().channels.get(name).is_some_and(|channel| channel.kind != ChannelKind::Sharded);
        if !is_plain {
            self.tell_waiters(lane, name, payload);
        }
    }

    /// The same of one whose channel is of a pattern.
    pub(super) fn tell_of_pattern(&self, lane: &Lane, pattern: &Bytes, name: &Bytes, payload: &Bytes) {
        self.tell_known(lane, &of_pattern(pattern), name, payload);
    }

    fn tell_known(&self, lane: &Lane, known: &Bytes, name: &Bytes, payload: &Bytes) {
        let mut state = self.state();
        if let Some(channel) = state.channels.get_mut(known).filter(|channel| channel.home == *lane.server.id()) {
            channel.tell(name, payload);
        }
    }

    /// How many here hear a channel.
    pub(super) fn watchers(&self, known: &Bytes) -> usize {
        self.state().channels.get(known).map_or(0, |channel| channel.watchers.len())
    }

    /// Ends all tasks.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.posts.clear();
        state.ending.clear();
        let sinks = state.channels.values().flat_map(|channel| channel.watchers.values());
        sinks.for_each(|sink| {
            if let Sink::Tap { tap, .. } = sink {
                tap.over();
            }
        });
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Takes a watcher from a channel, and has that unsubscribed if it was the last: then it is told which, and where.
fn leave(state: &mut State, name: &Bytes, id: u64) -> Option<(NodeId, Sink)> {
    let State { channels, posts, .. } = state;
    let channel = channels.get_mut(name)?;
    let sink = channel.watchers.remove(&id);
    if let Some(Sink::Tap { tap, seat }) = &sink {
        tap.left(*seat);
    }
    if !channel.watchers.is_empty() {
        return None;
    }
    if let Some((poll, post)) = channel.poll.take().zip(posts.get_mut(&channel.primary)) {
        post.desired.polls.remove(&(poll.due, name.clone()));
    }
    let Some(post) = posts.get_mut(&channel.home) else {
        // The node has gone, and all that was subscribed there.
        channels.remove(name);
        return None;
    };
    post.desired.to_leave.insert(name.clone());
    post.lane.wanted.notify_one();
    channel.may_be_subscribed().then(|| channel.home.clone()).zip(sink)
}
