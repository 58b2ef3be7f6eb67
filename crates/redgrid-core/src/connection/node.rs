//! One node on fred: a connection for requests, or several, and one that carries subscriptions and nothing else; where
//! durability is asked for, one more for each level of it, and one for the events of all keys where somebody listens to those.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use fred::prelude::Value;
use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::commit::Commits;
use super::lines::Lines;
use super::link::{Greeting, Link, Named, Part};
use super::request::What;
use super::subscriber::Subscriber;
use super::way::{Entry, Place, Way};
use super::{Arg, ChannelKind, CommitError, Epoch, NodeId, Push, Refused, Reply, Request, Server, ServerClock};
use crate::clock::Clock;
use crate::config::{Address, Config, ConfigError, Durability, Settings};
use crate::error::{Code, ServerError};

/// The largest argument that a server takes (`proto-max-bulk-len`, unless it is set otherwise): with a larger one it closes the
/// connection, and with that all that is under way there.
const LARGEST: usize = 512 << 20;

/// What the nodes of one client have in common.
#[derive(Clone)]
pub(super) struct Nodes {
    pub(super) entry: Entry,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    /// Whether messages go by sharded channels; known when the first node of a cluster has answered.
    pub(super) sharded: Arc<AtomicBool>,
}

impl Nodes {
    /// # Errors
    ///
    /// [`ConfigError`] where a file that it names can not be used.
    pub(super) fn new(config: &Config, clock: &Clock) -> Result<Nodes, ConfigError> {
        let (entry, settings) = (Entry::of(config)?, config.settings.clone());
        Ok(Nodes { entry, settings, clock: clock.clone(), sharded: Arc::default() })
    }

    /// One node, which is connected in the background and believed only while it has the part that is expected of it.
    pub(super) fn open(&self, address: &Address, part: Part) -> Result<Arc<Node>, ServerError> {
        self.open_at(address.into(), part)
    }

    /// The same, wherever it listens.
    pub(super) fn open_at(&self, place: Place, part: Part) -> Result<Arc<Node>, ServerError> {
        Node::open(self, Way { place, entry: self.entry.clone() }, part).map(Arc::new)
    }
}

/// The connection that carries events.
#[derive(Default)]
enum Carrier {
    /// Nobody has listened yet.
    #[default]
    Unopened,
    Open(Arc<Subscriber>),
    Closed,
}

pub(super) struct Node {
    id: NodeId,
    sharded: Arc<AtomicBool>,
    clock: Clock,
    time: Arc<ServerClock>,
    commands: Arc<Lines>,
    subscriber: Subscriber,
    /// What carries events; opened when some are first listened to.
    events: Mutex<Carrier>,
    /// How it is opened.
    way: Way,
    settings: Settings,
    commits: Commits,
    /// Its data is older than a replica's may be.
    behind: AtomicBool,
    watchers: Mutex<Vec<JoinHandle<()>>>,
}

impl Node {
    fn open(nodes: &Nodes, way: Way, part: Part) -> Result<Self, ServerError> {
        let Nodes { settings, clock, sharded, .. } = nodes;
        let name = &settings.client_name;
        let time = Arc::new(ServerClock::default());
        let (lines, greeting) = match part {
            Part::Sentinel => (1, None),
            part => (settings.connections_per_node, Some(part)),
        };
        let watchers = std::cell::RefCell::new(Vec::new());
        let open = |name, greeting, seat| {
            let (link, watching) = Link::open(&way, settings, clock.clone(), name, greeting, seat)?;
            watchers.borrow_mut().push(watching);
            Ok(link)
        };
        let commands = Lines::open(lines, |seat| {
            let data = |part| Greeting::Data { time: Arc::clone(&time), part };
            open(name.clone(), greeting.map_or(Greeting::Life, data), Some(seat))
        })?;
        let identity = if part == Part::Sentinel { Greeting::Life } else { Greeting::Identity };
        let subscriber = open(format!("{name}:subscriber"), identity, None)?;
        let (subscriber, reading) = Subscriber::open(subscriber, commands.epoch());
        let mut watchers = watchers.into_inner();
        watchers.push(reading);
        Ok(Node {
            id: NodeId(way.place.to_string().into()),
            sharded: Arc::clone(sharded),
            clock: clock.clone(),
            time,
            subscriber,
            events: Mutex::default(),
            way: way.clone(),
            settings: settings.clone(),
            commits: Commits::new(Arc::clone(&commands), way, settings, clock.clone()),
            commands,
            behind: AtomicBool::new(false),
            watchers: watchers.into(),
        })
    }

    /// Has it looked at soon whether it still has its part; where not, it is not believed until it has.
    pub(super) fn look_after(&self) {
        self.commands.doubt();
    }

    /// Whether a replica is to be asked: it is connected, has its part, and is not behind.
    pub(super) fn is_fit(&self) -> bool {
        self.commands.is_up() && !self.is_behind()
    }

    /// A replica is behind its primary by more than it may, or is so no more.
    pub(super) fn set_behind(&self, behind: bool) {
        if self.behind.swap(behind, Ordering::AcqRel) != behind {
            let news = if behind { "a replica is behind, and left out" } else { "a replica has caught up" };
            tracing::info!(node = %self.id, news);
        }
    }

    /// Has it looked at whether its server still has what was subscribed there.
    pub(super) fn look_after_subscriptions(self: &Arc<Self>) {
        let node = Arc::clone(self);
        tokio::spawn(async move { node.subscriber.look_after().await });
    }

    /// What carries events.
    fn carrier(&self) -> Result<Arc<Subscriber>, ServerError> {
        let mut events = self.events.lock().unwrap_or_else(|p| p.into_inner());
        match &*events {
            Carrier::Open(events) => return Ok(Arc::clone(events)),
            Carrier::Closed => return Err(ServerError::not_sent("the connections are closed")),
            Carrier::Unopened => {}
        }
        let name = format!("{}:events", self.settings.client_name);
        let (link, watching) =
            Link::open(&self.way, &self.settings, self.clock.clone(), name, Greeting::Identity, None)?;
        let (subscriber, reading) = self.subscriber.for_events(link, self.commands.epoch());
        self.watchers.lock().unwrap_or_else(|p| p.into_inner()).extend([watching, reading]);
        let subscriber = Arc::new(subscriber);
        *events = Carrier::Open(Arc::clone(&subscriber));
        Ok(subscriber)
    }

    /// Has its connections end, and with them the tasks that watch them.
    fn stop(&self) {
        self.commands.close();
        self.subscriber.close();
        let mut events = self.events.lock().unwrap_or_else(|p| p.into_inner());
        if let Carrier::Open(events) = std::mem::replace(&mut *events, Carrier::Closed) {
            events.close();
        }
        self.commits.stop();
    }

    async fn one(&self, request: Request) -> Result<Reply, ServerError> {
        let (command, head) = match &request.what {
            What::Command(name) => (Named::Any(name.clone()), Vec::new()),
            What::Script(body) => (Named::Known("EVALSHA"), vec![Value::from(body.sha().clone())]),
        };
        let args = self.arguments(&request, head)?;
        let link = self.commands.of(request.keys.first().map(|key| &key[..]));
        match (link.send(command, args).await, &request.what) {
            (Err(ServerError::Refused { code: Code::NoScript, .. }), What::Script(body)) => {
                // Not carried out, so sending it once more is safe; its time limit is written anew.
                let args = self.arguments(&request, vec![Value::from_static_str(body.text())])?;
                // Boxed: it is rare, and the future of every call would have room for it.
                Box::pin(link.send(Named::Known("EVAL"), args)).await
            }
            (answer, _) => answer,
        }
    }

    /// Sends requests back to back, with none of others between them. Scripts go with their text: a request for it could not
    /// be adjacent any more.
    async fn together(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        let mut commands = Vec::with_capacity(requests.len());
        for request in &requests {
            let (name, head) = match &request.what {
                What::Command(name) => (Named::Any(name.clone()), Vec::new()),
                What::Script(body) => (Named::Known("EVAL"), vec![Value::from_static_str(body.text())]),
            };
            match self.arguments(request, head) {
                Ok(args) => commands.push((name, args)),
                Err(error) => return requests.iter().map(|_| Err(error.clone())).collect(),
            }
        }
        let key = requests.iter().find_map(|request| request.keys.first());
        self.commands.of(key.map(|key| &key[..])).send_together(commands).await
    }

    fn arguments(&self, request: &Request, mut head: Vec<Value>) -> Result<Vec<Value>, ServerError> {
        head.reserve(1 + request.keys.len() + request.args.len());
        if let What::Script(_) = request.what {
            head.push(Value::from(request.keys.len() as i64));
        }
        let sizes = request.keys.iter().map(Bytes::len).chain(request.args.iter().map(Arg::len));
        if let Some(size) = sizes.max().filter(|size| *size > LARGEST) {
            let message = format!("not sent: an argument has {size} bytes, and servers take {LARGEST} at most");
            return Err(ServerError::Refused { code: Code::TooLarge, message });
        }
        head.extend(request.subcommand.map(Value::from_static_str));
        head.extend(request.keys.iter().cloned().map(Value::from));
        for arg in &request.args {
            head.push(match arg {
                Arg::Bytes(bytes) => Value::from(bytes.clone()),
                Arg::NotAfter => Value::from(self.not_after(request)?),
                Arg::Publish if self.sharded.load(Ordering::Relaxed) => Value::from_static_str("SPUBLISH"),
                Arg::Publish => Value::from_static_str("PUBLISH"),
            });
        }
        Ok(head)
    }

    fn not_after(&self, request: &Request) -> Result<Bytes, ServerError> {
        let now = self.clock.now();
        let limit = request.not_after.ok_or_else(|| ServerError::not_sent("the request has no time limit"))?;
        let micros =
            self.time.at(limit, now).ok_or_else(|| ServerError::not_sent("the server's clock is not known yet"))?;
        Ok(micros.to_string().into())
    }
}

#[async_trait]
impl Server for Node {
    fn id(&self) -> &NodeId {
        &self.id
    }

    async fn call(&self, mut requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        if !self.commands.is_up() {
            return requests.iter().map(|_| Err(self.commands.down())).collect();
        }
        match requests.len() {
            _ if requests.iter().any(|request| request.adjacent) => self.together(requests).await,
            1 => vec![self.one(requests.remove(0)).await],
            // Polled in their order for the first time, and a first poll hands the bytes to fred.
            _ => Box::pin(join_all(requests.into_iter().map(|request| self.one(request)))).await,
        }
    }

    async fn commit(&self, since: Epoch, durability: Durability, tag: &[u8]) -> Result<(), CommitError> {
        self.commits.commit(since, durability, tag).await
    }

    fn epoch(&self) -> watch::Receiver<Option<Epoch>> {
        self.commands.epoch()
    }

    fn answers(&self) -> bool {
        self.commands.answers()
    }

    fn trouble(&self) -> Option<String> {
        Some(self.commands.trouble())
    }

    fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        match kind {
            ChannelKind::Events => {
                let events = self.carrier()?;
                events.connected().await;
                events.subscribe(kind, channels).await
            }
            ChannelKind::Plain | ChannelKind::Sharded => self.subscriber.subscribe(kind, channels).await,
        }
    }

    async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        match kind {
            ChannelKind::Events => {
                if let Ok(events) = self.carrier() {
                    events.unsubscribe(kind, channels).await;
                }
            }
            ChannelKind::Plain | ChannelKind::Sharded => self.subscriber.unsubscribe(kind, channels).await,
        }
    }

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        self.subscriber.pushes()
    }

    async fn close(&self) {
        self.stop();
        let watchers = std::mem::take(&mut *self.watchers.lock().unwrap_or_else(|p| p.into_inner()));
        for watcher in watchers {
            let _ = watcher.await;
        }
        self.commits.close().await;
    }
}

impl Drop for Node {
    /// Whoever forgets it, or is aborted with it in hand, leaves no connection behind.
    fn drop(&mut self) {
        self.stop();
    }
}
