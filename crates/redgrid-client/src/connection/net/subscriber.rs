//! The connections of a node that are only for subscriptions. They carry messages, probes, and the
//! commands that subscribe and unsubscribe.
//!
//! A subscription is active once the server has confirmed it. Plain and sharded channels share a
//! connection that is always open. The connections for keyspace events and for patterns are opened
//! at the first subscription.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};

use crate::connection::endpoint::Connections;
use crate::connection::link::{Connection, Handshake, wants_login};
use crate::connection::{ChannelKind, ConnectionId, Push, Refused};
use crate::error::{Code, ServerError};
use crate::sync::Mutex;

/// How long to wait for a connection that is opened at the first subscription: 250 ms.
///
/// Connecting to a nearby server takes less time. Other subscriptions at the node wait meanwhile.
/// If the connection is not ready in time, the subscription fails and is retried later.
const CONNECTING: Duration = Duration::from_millis(250);

pub(crate) struct Subscriptions {
    connections: Arc<Connections>,
    /// The id of the connections for requests. A connection for subscriptions is replaced if it
    /// leads to another server process than the connections for requests.
    commands: watch::Receiver<Option<ConnectionId>>,
    pushes: Pushes,
    messages: Arc<Subscriber>,
    events: OnceLock<Arc<Subscriber>>,
    patterns: OnceLock<Arc<Subscriber>>,
}

type Pushes = Arc<Mutex<mpsc::UnboundedSender<Push>>>;

impl Subscriptions {
    pub(crate) fn open(
        connections: &Arc<Connections>,
        commands: watch::Receiver<Option<ConnectionId>>,
        greeting: Handshake,
    ) -> Self {
        let pushes = Arc::new(Mutex::new(mpsc::unbounded_channel().0));
        let link = connections.open("subscriber", greeting);
        let messages = Subscriber::open(link, commands.clone(), &pushes, Push::Gap);
        let connections = Arc::clone(connections);
        let (events, patterns) = Default::default();
        Subscriptions { connections, commands, pushes, messages, events, patterns }
    }

    /// Returns the connection for channels of a kind, and opens it if needed.
    fn subscriber(&self, kind: ChannelKind) -> &Subscriber {
        let (known, name, gap) = match kind {
            ChannelKind::Plain | ChannelKind::Sharded => return &self.messages,
            ChannelKind::Events => (&self.events, "events", Push::EventsGap),
            ChannelKind::Patterns => (&self.patterns, "patterns", Push::PatternsGap),
        };
        known.get_or_init(|| {
            let link = self.connections.open(name, Handshake::Identity);
            Subscriber::open(link, self.commands.clone(), &self.pushes, gap)
        })
    }

    pub(crate) async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        let subscriber = self.subscriber(kind);
        if matches!(kind, ChannelKind::Events | ChannelKind::Patterns) {
            let mut epoch = subscriber.link.epoch();
            let _ = tokio::time::timeout(CONNECTING, epoch.wait_for(Option::is_some)).await;
        }
        subscriber.subscribe(kind, channels).await
    }

    /// Unsubscribes from channels, and reports [`Push::Ended`] after their last message.
    pub(crate) async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        let subscriber = self.subscriber(kind);
        subscriber.end(kind, &channels).await;
        let _ = subscriber.ended.send(channels);
    }

    /// Returns the stream of pushes from now on; the stream of an earlier call ends.
    pub(crate) fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.pushes.lock() = sender;
        receiver
    }
}

struct Subscriber {
    link: Arc<Connection>,
    /// Sends the channels of ended subscriptions to the reading task, which reports them after
    /// their last message.
    ended: mpsc::UnboundedSender<Vec<Bytes>>,
    /// The [number](ConnectionId::connection) of the last connection with a confirmed subscription;
    /// 0 before the first.
    confirmed: AtomicU64,
}

impl Subscriber {
    fn open(
        link: Arc<Connection>,
        commands: watch::Receiver<Option<ConnectionId>>,
        pushes: &Pushes,
        gap: Push,
    ) -> Arc<Self> {
        let (ended, endings) = mpsc::unbounded_channel();
        let subscriber = Arc::new(Subscriber { link, ended, confirmed: AtomicU64::new(0) });
        // The task ends when the connection is closed for good.
        tokio::spawn(Arc::clone(&subscriber).read(Arc::clone(pushes), endings, commands, gap));
        subscriber
    }

    async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        if channels.is_empty() {
            return Ok(Vec::new());
        }
        let Some(connection) = self.connection() else { return Err(self.link.down()) };
        let refused = match self.ask_for(kind, &channels).await {
            Ok(refused) => refused,
            // The connection is kept, because it did not cause the refusal.
            Err(error @ ServerError::Refused { .. }) if !wants_login(&error) => return Err(error),
            Err(error) => {
                self.link.renew();
                return Err(error);
            }
        };
        // The number is stored before the check. So if the connection is lost, either the reading
        // task sees the stored number, or the check sees the loss.
        self.confirmed.store(connection, Ordering::SeqCst);
        if self.connection() != Some(connection) {
            return Err(ServerError::unknown("the connection was replaced"));
        }
        Ok(refused)
    }

    async fn ask_for(&self, kind: ChannelKind, channels: &[Bytes]) -> Result<Refused, ServerError> {
        let (command, parts): (_, Vec<_>) = match kind {
            ChannelKind::Plain | ChannelKind::Events => ("subscribe", vec![channels]),
            ChannelKind::Patterns => ("psubscribe", vec![channels]),
            // Each channel has its own command, so that the server refuses only the channels whose
            // slots have moved.
            ChannelKind::Sharded => ("ssubscribe", channels.chunks(1).collect()),
        };
        let answers = join_all(parts.iter().map(|part| self.link.send_channels(command, part))).await;
        let mut refused = Vec::new();
        for (part, answer) in parts.into_iter().zip(answers) {
            match answer {
                Ok(()) => {}
                Err(error @ ServerError::Refused { .. }) => {
                    let passes = error.code().is_some_and(Code::is_passing) || wants_login(&error);
                    if passes && kind != ChannelKind::Sharded {
                        return Err(error);
                    }
                    // If one channel is denied, the server refuses the whole command. So all
                    // channels of the command are returned as refused.
                    refused.extend(part.iter().map(|channel| (channel.clone(), error.clone())));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    fn connection(&self) -> Option<u64> {
        self.link.epoch().borrow().as_ref().map(|epoch| epoch.connection)
    }

    async fn end(&self, kind: ChannelKind, channels: &[Bytes]) {
        // An UNSUBSCRIBE without channels would end all subscriptions.
        if channels.is_empty() || !self.link.is_up() {
            return;
        }
        let command = match kind {
            ChannelKind::Plain | ChannelKind::Events => "unsubscribe",
            ChannelKind::Patterns => "punsubscribe",
            ChannelKind::Sharded => return self.link.leave_sharded(channels).await,
        };
        // An error is ignored, because no subscription stays behind. If the connection was lost,
        // its subscriptions have ended with it. A late answer means that the command was sent, or
        // is still in the queue of the connection. That queue is never full: one task for each node
        // subscribes and unsubscribes, and waits for the answers to some hundred commands at most.
        // There is one exception: for a user without the permission to unsubscribe, the
        // subscription lasts until the connection ends, and its messages are ignored.
        let _ = self.link.send_channels(command, channels).await;
    }

    /// Forwards messages, and reports a gap when the connection is lost and when it is new.
    async fn read(
        self: Arc<Self>,
        pushes: Pushes,
        mut endings: mpsc::UnboundedReceiver<Vec<Bytes>>,
        mut commands: watch::Receiver<Option<ConnectionId>>,
        gap: Push,
    ) {
        let push = |push| pushes.lock().send(push);
        let mut messages = self.link.messages();
        let mut epoch = self.link.epoch();
        // The first check is made at once, because the connection may already be up.
        epoch.mark_changed();
        let mut reported = 0;
        let mut closing = std::pin::pin!(self.link.closing());
        loop {
            tokio::select! {
                // Messages come first, because the messages of the old connection precede the gap.
                biased;
                Some(message) = messages.recv() => { let _ = push(message); }
                () = &mut closing => return,
                Some(channels) = endings.recv() => {
                    // Messages that arrived before the end of the subscription are forwarded first.
                    while let Ok(message) = messages.try_recv() { let _ = push(message); }
                    let _ = push(Push::Ended { channels });
                }
                changed = epoch.changed() => {
                    if changed.is_err() { return }
                    let connection = epoch.borrow_and_update().as_ref().map_or(0, |epoch| epoch.connection);
                    // The connection is lost or new; in both cases no subscription is active. For
                    // events and patterns, a gap is reported only if a subscription was confirmed
                    // on an earlier connection. Otherwise no message was missed. Also, no gap is
                    // needed as a signal to subscribe, because `subscribe` itself waits for the
                    // connection.
                    if connection != reported {
                        if ![0, connection].contains(&self.confirmed.load(Ordering::SeqCst)) || gap == Push::Gap {
                            let _ = push(gap.clone());
                        }
                        reported = connection;
                    }
                }
                changed = commands.changed() => {
                    if changed.is_err() { return }
                    let (requests, own) = (commands.borrow_and_update().clone(), epoch.borrow().clone());
                    if requests.zip(own).is_some_and(|(requests, own)| is_elsewhere(&own.run_id, &requests.run_id)) {
                        self.link.reconnect("requests go to another server process");
                    }
                }
            }
        }
    }
}

/// Returns whether two connections lead to different processes, as far as their run ids are known.
fn is_elsewhere(one: &str, other: &str) -> bool {
    !one.is_empty() && !other.is_empty() && one != other
}
