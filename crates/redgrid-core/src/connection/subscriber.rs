//! The connection that carries subscriptions: SUBSCRIBE, UNSUBSCRIBE and PING, nothing else.
//!
//! A subscription is in force when the server has confirmed it.

mod read;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub(super) use self::read::Carries;
use self::read::{Carried, read};
use super::link::{Connection, wants_login};
use super::{ChannelKind, ConnectionId, Push, Refused};
use crate::error::{Code, ServerError};
use crate::pattern::are_apart;

/// How long the connection for events is waited for that is opened when some are first listened to: 250 ms. Longer than it takes nearby;
/// nothing else is subscribed at the node meanwhile, and it is tried again.
const CONNECTING: Duration = Duration::from_millis(250);

pub(super) struct Subscriber {
    link: Arc<Connection>,
    pushes: Arc<Mutex<mpsc::UnboundedSender<Push>>>,
    /// What is subscribed no more, to be told behind its last message.
    ended: mpsc::UnboundedSender<Vec<Bytes>>,
    /// The last connection on which something was subscribed; 0 before there was one.
    confirmed: Arc<AtomicU64>,
    carried: Carried,
}

impl Subscriber {
    /// `commands` is the life of the connection for requests: where that one leads to another process, this one follows.
    pub(super) fn open(
        link: Arc<Connection>,
        commands: watch::Receiver<Option<ConnectionId>>,
    ) -> (Self, JoinHandle<()>) {
        let pushes = Arc::new(Mutex::new(mpsc::unbounded_channel().0));
        Subscriber::over(link, commands, pushes, Carries::Messages)
    }

    /// Another one, whose stream of pushes is the same.
    pub(super) fn beside(
        &self,
        link: Arc<Connection>,
        commands: watch::Receiver<Option<ConnectionId>>,
        carries: Carries,
    ) -> (Self, JoinHandle<()>) {
        Subscriber::over(link, commands, Arc::clone(&self.pushes), carries)
    }

    /// Whether it carries this pattern.
    pub(super) fn carries(&self, pattern: &Bytes) -> bool {
        self.carried().contains(pattern)
    }

    /// Has it carry a pattern, unless one name may be of that and of another that it carries.
    pub(super) fn take_in(&self, pattern: &Bytes) -> bool {
        let mut carried = self.carried();
        carried.iter().all(|other| are_apart(pattern, other)) && carried.insert(pattern.clone())
    }

    /// It carries them no more.
    pub(super) fn let_go(&self, patterns: &[Bytes]) {
        self.carried().retain(|carried| !patterns.contains(carried));
    }

    /// Whether it carries no pattern.
    pub(super) fn is_idle(&self) -> bool {
        self.carried().is_empty()
    }

    fn carried(&self) -> MutexGuard<'_, HashSet<Bytes>> {
        self.carried.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn over(
        link: Arc<Connection>,
        commands: watch::Receiver<Option<ConnectionId>>,
        pushes: Arc<Mutex<mpsc::UnboundedSender<Push>>>,
        carries: Carries,
    ) -> (Self, JoinHandle<()>) {
        let (ended, endings) = mpsc::unbounded_channel();
        let confirmed = Arc::new(AtomicU64::new(0));
        let carried = Carried::default();
        let told = (Arc::clone(&pushes), Arc::clone(&confirmed));
        let reading = tokio::spawn(read(Arc::clone(&link), told, endings, commands, carries));
        (Subscriber { link, pushes, ended, confirmed, carried }, reading)
    }

    /// Subscribes them, and tells which of them the server refused.
    pub(super) async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        if channels.is_empty() {
            return Ok(Vec::new());
        }
        let Some(connection) = self.connection() else { return Err(self.link.down()) };
        let refused = match self.ask_for(kind, &channels).await {
            Ok(refused) => refused,
            // The connection stays: it has no part in a refusal that passes.
            Err(error @ ServerError::Refused { .. }) if !wants_login(&error) => return Err(error),
            Err(error) => {
                self.link.renew();
                return Err(error);
            }
        };
        // First this, then the look: whoever reads sees it when the connection has gone, or it is seen here.
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
            // Each may be refused for itself: its slot is elsewhere.
            ChannelKind::Sharded => ("ssubscribe", channels.chunks(1).collect()),
        };
        let answers = join_all(parts.iter().map(|part| self.link.send_for(command, part))).await;
        let mut refused = Vec::new();
        for (part, answer) in parts.into_iter().zip(answers) {
            match answer {
                Ok(()) => {}
                Err(error @ ServerError::Refused { .. }) => {
                    let passes = error.code().is_some_and(Code::is_passing) || wants_login(&error);
                    if passes && kind != ChannelKind::Sharded {
                        return Err(error);
                    }
                    // One denied channel denies all of its command.
                    refused.extend(part.iter().map(|channel| (channel.clone(), error.clone())));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    /// Waits until it is connected, for a moment.
    pub(super) async fn connected(&self) {
        let mut epoch = self.link.epoch();
        let _ = tokio::time::timeout(CONNECTING, epoch.wait_for(Option::is_some)).await;
    }

    fn connection(&self) -> Option<u64> {
        self.link.epoch().borrow().as_ref().map(|epoch| epoch.connection)
    }

    /// Unsubscribes them, and has it told when nothing of them comes any more.
    pub(super) async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        self.end(kind, &channels).await;
        let _ = self.ended.send(channels);
    }

    async fn end(&self, kind: ChannelKind, channels: &[Bytes]) {
        // An UNSUBSCRIBE without channels would end them all.
        if channels.is_empty() || !self.link.is_up() {
            return;
        }
        let command = match kind {
            ChannelKind::Plain | ChannelKind::Events => "unsubscribe",
            ChannelKind::Patterns => "punsubscribe",
            ChannelKind::Sharded => return self.link.leave_sharded(channels).await,
        };
        // What is refused is not subscribed, or the connection has gone.
        let _ = self.link.send_for(command, channels).await;
    }

    /// The stream of what is pushed from now on; the one that was given out before ends.
    pub(super) fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.pushes.lock().unwrap_or_else(|p| p.into_inner()) = sender;
        receiver
    }

    pub(super) fn close(&self) {
        self.link.close();
    }
}
