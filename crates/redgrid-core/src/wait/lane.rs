//! What is subscribed at one node, kept equal to what is wanted there.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::channel::{Channel, Denial, Force};
use super::feed::namesakes;
use super::hub::{Hub, State};
use super::poll::{self, Look, UNSUBSCRIBED_POLL};
use super::spread::on_wire;
use crate::clock::Instant;
use crate::connection::{ChannelKind, NodeId, Push, Refused, Server, TopologyHint, jittered};
use crate::error::{Code, ServerError};
use crate::slack::give_back;

/// Channels subscribed by one command.
const CHUNK: usize = 256;

/// How long a denied channel is left alone before it is tried again: a minute. Permissions change by hand.
const QUARANTINE: Duration = Duration::from_secs(60);

/// The same for a sharded channel: it may have been denied because its slot is on its way.
const SHARDED_QUARANTINE: Duration = Duration::from_secs(1);

/// The longest pause between subscriptions that fail one after another: 5 s. Each may cost a connection.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Denied channels that are remembered; beyond that each new watcher of one tries again.
const MOST_DENIED: usize = 10_000;

/// Whether a refusal may concern one channel of several: an access rule about channels. Any other
/// refusal concerns the command, and all of its channels.
fn is_about_a_channel(why: &ServerError) -> bool {
    matches!(why, ServerError::Refused { code: Code::NoPermission, message } if message.contains("channel"))
}

/// One node as the hub sees it.
pub(super) struct Lane {
    pub(super) server: Arc<dyn Server>,
    /// The set of wanted channels has changed.
    pub(super) wanted: Notify,
    /// There is something to poll for.
    pub(super) polls: Notify,
    /// The subscriber connection is new.
    renewed: Notify,
    /// When the node last answered a poll, in nanoseconds.
    contact: AtomicU64,
    failures: Mutex<Failures>,
}

/// Subscriptions that failed one after another.
#[derive(Default)]
struct Failures {
    /// How many failed on a connection that was up.
    count: u32,
    last: Option<ServerError>,
    /// Nothing is subscribed before this instant.
    paused_until: Option<Instant>,
}

impl Failures {
    /// Records one more. The first is usually a connection that was lost; from the second on each may
    /// cost a connection of its own, and the pause between them doubles.
    fn add(&mut self, error: &ServerError, now: Instant, delay: Duration) {
        self.last = Some(error.clone());
        if matches!(error, ServerError::NotSent { .. }) {
            return;
        }
        self.count = self.count.saturating_add(1);
        self.paused_until = self.count.checked_sub(2).map(|doubled| {
            let pause = delay.saturating_mul(1 << doubled.min(16)).min(LONGEST_PAUSE);
            now + jittered(pause)
        });
    }
}

impl Lane {
    /// Why the last subscription failed, if none has succeeded since.
    pub(super) fn failure(&self) -> Option<ServerError> {
        self.failures().last.clone()
    }

    /// The end of a pause that lasts at `now`.
    fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.failures().paused_until.filter(|until| *until > now)
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// When the node last answered a poll.
    pub(super) fn contact(&self) -> Instant {
        Instant::from_nanos(self.contact.load(Ordering::Acquire))
    }

    /// The node has answered just now.
    pub(super) fn answered(&self, now: Instant) {
        self.contact.store(now.as_nanos(), Ordering::Release);
    }
}

/// What is wanted at one node, as far as it is not in force yet.
#[derive(Default)]
pub(super) struct Desired {
    /// Channels to subscribe, in chunks.
    pub(super) to_join: BTreeSet<Bytes>,
    /// Channels to subscribe one by one, because they were part of a chunk that was denied.
    to_try: BTreeSet<Bytes>,
    /// Channels that nobody watches any more.
    pub(super) to_leave: BTreeSet<Bytes>,
    /// Channels that have moved elsewhere and are still subscribed here.
    pub(super) to_end: BTreeSet<(ChannelKind, Bytes)>,
    pub(super) polls: BTreeSet<(Instant, Bytes)>,
    /// Counts the gaps: what was subscribed before one is not in force after it.
    gaps: u64,
    /// Something was in force and is so no more; told when all is again.
    pub(super) interrupted: bool,
}

impl Desired {
    /// The channel is wanted here no more.
    pub(super) fn forget(&mut self, name: &Bytes) {
        self.to_join.remove(name);
        self.to_try.remove(name);
        self.to_leave.remove(name);
    }
}

/// Has the names looked at at another time.
fn poll_at(
    posts: &mut HashMap<NodeId, Post>,
    channel: &mut Channel,
    name: &Bytes,
    at: impl FnOnce(Instant) -> Instant,
) {
    let Some((poll, post)) = channel.poll.as_mut().zip(posts.get_mut(&channel.primary)) else { return };
    post.desired.polls.remove(&(poll.due, name.clone()));
    poll.due = at(poll.due);
    post.desired.polls.insert((poll.due, name.clone()));
    post.lane.polls.notify_one();
}

/// The channel is to be subscribed anew.
fn not_in_force(
    posts: &mut HashMap<NodeId, Post>,
    node: &NodeId,
    (name, channel): (&Bytes, &mut Channel),
    now: Instant,
) {
    // It may have been subscribed, and heard, and not be known so.
    channel.interrupt();
    if channel.force != Force::Confirmed {
        return;
    }
    channel.set(Force::Wanted);
    if let Some(Post { desired, .. }) = posts.get_mut(node) {
        desired.interrupted = true;
        desired.to_join.insert(name.clone());
    }
    // Nobody will tell meanwhile: look soon, and often.
    poll_at(posts, channel, name, |due| due.min(now + UNSUBSCRIBED_POLL));
}

/// A lane with what is wanted there, and the tasks that see to it. Dropped, they end.
pub(super) struct Post {
    pub(super) lane: Arc<Lane>,
    pub(super) desired: Desired,
    tasks: [AbortHandle; 3],
}

impl Post {
    pub(super) fn begin(hub: Arc<Hub>, server: Arc<dyn Server>) -> Post {
        let lane = Arc::new(Lane {
            server,
            wanted: Notify::new(),
            polls: Notify::new(),
            renewed: Notify::new(),
            contact: AtomicU64::new(0),
            failures: Mutex::default(),
        });
        let tasks = [
            tokio::spawn(dispatch(Arc::clone(&hub), Arc::clone(&lane))),
            tokio::spawn(maintain(Arc::clone(&hub), Arc::clone(&lane))),
            tokio::spawn(poll::run(hub, Arc::clone(&lane))),
        ];
        Post { lane, desired: Desired::default(), tasks: tasks.map(|task| task.abort_handle()) }
    }

    /// Whether it is still that of `lane`, and not of another node that has appeared at the same address.
    fn is_of(&self, lane: &Lane) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.lane), lane)
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Hands messages to their watchers.
async fn dispatch(hub: Arc<Hub>, lane: Arc<Lane>) {
    let mut pushes = lane.server.pushes();
    while let Some(push) = pushes.recv().await {
        match push {
            Push::Message { channel, payload } => hub.tell(&lane, &channel, &payload),
            Push::ShardedMessage { channel, payload } => hub.tell_sharded(&lane, &channel, &payload),
            Push::PatternMessage { pattern, channel, payload } => {
                hub.tell_of_pattern(&lane, &pattern, &channel, &payload);
            }
            Push::Ended { channels } => hub.ended(&lane, |name| channels.contains(name)),
            Push::Lost { channel } => {
                hub.ended(&lane, |name| *name == channel);
                hub.lost(&lane, &channel);
                lane.wanted.notify_one();
            }
            Push::Gap | Push::EventsGap | Push::PatternsGap => {
                let of = match push {
                    Push::EventsGap => Some(ChannelKind::Events),
                    Push::PatternsGap => Some(ChannelKind::Patterns),
                    _ => None,
                };
                if of.is_none() {
                    hub.ended(&lane, |_| true);
                }
                hub.nothing_in_force(&lane, of);
                lane.renewed.notify_one();
                lane.wanted.notify_one();
            }
        }
    }
}

const KINDS: [ChannelKind; 4] = [ChannelKind::Plain, ChannelKind::Sharded, ChannelKind::Events, ChannelKind::Patterns];

/// What is to be changed next.
#[derive(Default)]
struct Differences {
    leaving: [Vec<Bytes>; KINDS.len()],
    joining: Vec<Bytes>,
    kind: Option<ChannelKind>,
    /// It was part of a denied chunk.
    suspect: bool,
}

/// Keeps what is subscribed equal to what is wanted.
async fn maintain(hub: Arc<Hub>, lane: Arc<Lane>) {
    loop {
        let Differences { leaving, joining, kind, suspect } = hub.differences(&lane);
        if joining.is_empty() && leaving.iter().all(Vec::is_empty) {
            let due = hub.pardon().min(lane.paused_until(hub.clock.now()).unwrap_or(Instant::NEVER));
            tokio::select! {
                () = lane.wanted.notified() => {}
                () = hub.clock.sleep_until(due) => {}
            }
            continue;
        }
        for (kind, leaving) in KINDS.into_iter().zip(leaving) {
            if !leaving.is_empty() {
                lane.server.unsubscribe(kind, leaving.iter().map(on_wire).collect()).await;
            }
        }
        if let Some(kind) = kind {
            let gaps = hub.gaps(&lane);
            match lane.server.subscribe(kind, joining.iter().map(on_wire).collect()).await {
                Ok(refused) => {
                    *lane.failures() = Failures::default();
                    match refused.is_empty() {
                        true => hub.in_force(&lane, kind, &joining, gaps),
                        false => hub.refused(&lane, kind, (joining, gaps), refused),
                    }
                }
                Err(error) => hub.subscription_failed(&lane, kind, &joining, suspect, &error).await,
            }
        }
    }
}

impl Hub {
    fn gaps(&self, lane: &Lane) -> u64 {
        self.state().desired(lane.server.id()).map_or(0, |desired| desired.gaps)
    }

    /// All channels are to be subscribed anew, or only those of a kind.
    fn nothing_in_force(&self, lane: &Lane, of: Option<ChannelKind>) {
        let now = self.clock.now();
        let node = lane.server.id();
        let mut state = self.state();
        let State { channels, posts, .. } = &mut *state;
        let Some(Post { desired, .. }) = posts.get_mut(node).filter(|post| post.is_of(lane)) else { return };
        desired.gaps += 1;
        let is_meant = |channel: &Channel| of.is_none_or(|kind| channel.kind == kind);
        let is_here = |channel: &Channel| channel.home == *node && is_meant(channel);
        for (name, channel) in channels.iter_mut().filter(|(_, channel)| is_here(channel)) {
            not_in_force(posts, node, (name, channel), now);
        }
    }

    /// A sharded channel is to be subscribed anew, perhaps elsewhere.
    fn lost(&self, lane: &Lane, on_wire: &Bytes) {
        let now = self.clock.now();
        let node = lane.server.id();
        {
            let mut state = self.state();
            let State { channels, posts, .. } = &mut *state;
            let Some(Post { desired, .. }) = posts.get_mut(node).filter(|post| post.is_of(lane)) else { return };
            desired.gaps += 1;
            for name in namesakes(on_wire) {
                let channel = channels.get_mut(&name).filter(|channel| channel.is_at(node, ChannelKind::Sharded));
                if let Some(channel) = channel {
                    not_in_force(posts, node, (&name, channel), now);
                }
            }
        }
        self.topology.suspect(TopologyHint::Node(node.clone()));
    }

    /// Has channels tried again that were denied long ago; returns when the next is due.
    fn pardon(&self) -> Instant {
        let now = self.clock.now();
        let mut state = self.state();
        let State { channels, denied, posts, .. } = &mut *state;
        let mut next = Instant::NEVER;
        denied.retain(|name, denial| {
            if denial.until > now {
                next = next.min(denial.until);
                return true;
            }
            if let Some(channel) = channels.get_mut(name)
                && let Some(post) = posts.get_mut(&channel.home)
            {
                channel.set(Force::Wanted);
                post.desired.to_try.insert(name.clone());
                post.lane.wanted.notify_one();
            }
            false
        });
        next
    }

    fn differences(&self, lane: &Lane) -> Differences {
        let mut state = self.state();
        let State { channels, posts, ending, .. } = &mut *state;
        let post = posts.get_mut(lane.server.id()).filter(|post| post.is_of(lane));
        let Some(Post { desired, .. }) = post else { return Differences::default() };
        let Desired { to_join, to_try, to_leave, to_end, .. } = desired;
        let mut differences = Differences::default();
        let leaving = &mut differences.leaving;
        let place = |kind| KINDS.iter().position(|known| *known == kind).unwrap_or_default();
        while leaving.iter().map(Vec::len).sum::<usize>() < CHUNK {
            let Some(name) = to_leave.pop_first() else { break };
            to_join.remove(&name);
            to_try.remove(&name);
            let Some(channel) = channels.remove(&name) else { continue };
            give_back(channels);
            if channel.may_be_subscribed() {
                leaving[place(channel.kind)].push(name);
            }
        }
        for (kind, name) in std::mem::take(to_end) {
            leaving[place(kind)].push(name);
        }
        // The server knows it by its name alone: while there is another one of that name it stays subscribed.
        for (kind, leaving) in KINDS.into_iter().zip(&mut *leaving) {
            leaving.retain(|name| {
                let (mut stays, mut is_heard) = (false, false);
                for other in namesakes(&on_wire(name)).iter().filter(|other| *other != name) {
                    let other = channels.get_mut(other).filter(|other| other.is_at(lane.server.id(), kind));
                    let Some(other) = other else { continue };
                    // Who is the last to go has it unsubscribed, whatever became of what was asked in his name.
                    (other.asked, other.known, stays) = (true, true, true);
                    is_heard |= !other.watchers.is_empty();
                }
                // Where nobody hears it, the end of the other one is told to those who do until then.
                if is_heard {
                    ending.remove(name);
                }
                !stays
            });
        }
        if lane.paused_until(self.clock.now()).is_some() {
            return differences;
        }
        // One kind at a time; a command carries one. Those of events, which are first by their names, are last: a connection of
        // theirs that can not be had holds up no others.
        let mut others = Vec::new();
        while differences.joining.len() < CHUNK {
            let Some(name) = to_join.pop_last() else { break };
            let Some(channel) = channels.get_mut(&name).filter(|channel| channel.home == *lane.server.id()) else {
                continue;
            };
            if *differences.kind.get_or_insert(channel.kind) == channel.kind {
                channel.asked = true;
                differences.joining.push(name);
            } else {
                others.push(name);
            }
        }
        to_join.extend(others);
        if differences.joining.is_empty() {
            differences.suspect = true;
            if let Some(name) = to_try.pop_last()
                && let Some(channel) = channels.get_mut(&name)
            {
                channel.asked = true;
                differences.kind = Some(channel.kind);
                differences.joining.push(name);
            }
        }
        differences
    }

    fn in_force(&self, lane: &Lane, kind: ChannelKind, chunk: &[Bytes], gaps: u64) {
        let node = lane.server.id();
        let mut state = self.state();
        let State { channels, posts, .. } = &mut *state;
        if !posts.get(node).is_some_and(|post| post.is_of(lane)) {
            return;
        }
        // More than a second's budget at once would be a storm; the poll reaches the rest.
        let mut direct = self.settings.poll_budget;
        for name in chunk {
            let Some(Post { desired, .. }) = posts.get_mut(node) else { return };
            // Left by its last watcher meanwhile: `to_leave` has it.
            let Some(channel) = channels.get_mut(name).filter(|channel| channel.is_at(node, kind)) else {
                // Moved meanwhile, and not to be heard twice.
                if kind != ChannelKind::Sharded && channels.contains_key(name) {
                    desired.to_end.insert((kind, name.clone()));
                }
                continue;
            };
            channel.known = true;
            if desired.gaps != gaps {
                // Confirmed by a connection that has gone since, or by the one that was told of late.
                desired.to_join.insert(name.clone());
                continue;
            }
            channel.set(Force::Confirmed);
            // The first subscription is followed by a look of the waiter's own; a renewed one is a gap.
            if channel.has_no_poll() {
                // Nothing else tells those who listen, and they ask by themselves.
                channel.recheck();
            } else if direct > 0 {
                direct -= 1;
                channel.recheck();
            } else {
                poll_at(posts, channel, name, |_| Instant::PAST);
            }
        }
        let Some(Post { desired, .. }) = posts.get_mut(node) else { return };
        if desired.to_join.is_empty() && std::mem::take(&mut desired.interrupted) {
            drop(state);
            self.events.gap(node);
        }
    }

    /// Some of `chunk` were refused, the others are in force.
    fn refused(&self, lane: &Lane, kind: ChannelKind, (mut chunk, gaps): (Vec<Bytes>, u64), refused: Refused) {
        let why = |name: &Bytes| refused.iter().find(|(of, _)| on_wire(name) == *of).map(|(_, why)| why.clone());
        let refused: Refused = chunk.iter().filter_map(|name| why(name).map(|why| (name.clone(), why))).collect();
        let is_refused = |name: &Bytes| refused.iter().any(|(of, _)| of == name);
        let (names, node) = (chunk.len(), lane.server.id());
        chunk.retain(|name| !is_refused(name));
        self.in_force(lane, kind, &chunk, gaps);
        let quarantine = if kind == ChannelKind::Sharded { SHARDED_QUARANTINE } else { QUARANTINE };
        let until = self.clock.now() + quarantine;
        {
            let mut state = self.state();
            let State { channels, denied, posts, .. } = &mut *state;
            let Some(Post { desired, .. }) = posts.get_mut(node).filter(|post| post.is_of(lane)) else { return };
            for (name, why) in &refused {
                let Some(channel) = channels.get_mut(name).filter(|channel| channel.is_at(node, kind)) else {
                    continue;
                };
                if kind != ChannelKind::Sharded && names > 1 && is_about_a_channel(why) {
                    // The error may be about any of them.
                    desired.to_try.insert(name.clone());
                    continue;
                }
                let denial = Denial { until, why: why.clone() };
                channel.refuse(&denial);
                if denied.len() < MOST_DENIED {
                    denied.insert(name.clone(), denial);
                }
            }
        }
        if kind == ChannelKind::Sharded {
            // Perhaps because their slot is elsewhere.
            self.topology.suspect(TopologyHint::Node(node.clone()));
        }
        let why = refused.first().map(|(_, error)| error.to_string());
        tracing::debug!(%node, why, channels = refused.len(), "subscription refused");
    }

    async fn subscription_failed(
        &self,
        lane: &Lane,
        kind: ChannelKind,
        chunk: &[Bytes],
        suspect: bool,
        error: &ServerError,
    ) {
        let node = lane.server.id();
        {
            let mut state = self.state();
            let State { channels, posts, .. } = &mut *state;
            let Some(Post { desired, .. }) = posts.get_mut(node).filter(|post| post.is_of(lane)) else { return };
            for name in chunk {
                let Some(channel) = channels.get_mut(name).filter(|channel| channel.is_at(node, kind)) else {
                    continue;
                };
                channel.known = true;
                // One that is tried alone stays so: in a chunk it could have the others denied again.
                let again = if suspect { &mut desired.to_try } else { &mut desired.to_join };
                again.insert(name.clone());
            }
        }
        tracing::debug!(%node, %error, channels = chunk.len(), "subscription failed");
        lane.failures().add(error, self.clock.now(), self.settings.retry_delay);
        // A new connection tells its gap. The bound is for a node that keeps its connection.
        let _ = tokio::time::timeout(self.settings.retry_delay, lane.renewed.notified()).await;
    }

    /// Takes the names that are due for a look, at most `most`, and sets when they are due again.
    pub(super) fn due(&self, lane: &Lane, most: usize) -> Vec<Look> {
        let now = self.clock.now();
        let mut state = self.state();
        let State { channels, posts, .. } = &mut *state;
        let Some(Post { desired: Desired { polls, .. }, .. }) = posts.get_mut(lane.server.id()) else {
            return Vec::new();
        };
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
            let Channel { poll: Some(poll), .. } = channel else { continue };
            poll.due = now + every;
            let mark = poll.mark.clone().filter(|_| !in_force);
            looks.push(Look { channel: name.clone(), key: poll.key.clone(), mark });
            polls.insert((poll.due, name));
        }
        looks
    }

    /// When the next name is due for a look.
    pub(super) fn next_due(&self, lane: &Lane) -> Option<Instant> {
        self.state().posts.get(lane.server.id())?.desired.polls.first().map(|(due, _)| *due)
    }
}
