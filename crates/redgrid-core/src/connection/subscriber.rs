//! The connection that carries subscriptions: SUBSCRIBE, UNSUBSCRIBE and PING, nothing else.
//!
//! A subscription is active once the server has confirmed it.

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
use crate::pattern::are_disjoint;

/// How long to wait for the connection for events, which is opened at the first subscription: 250
/// ms.
///
/// That is more than it takes nearby. Other subscriptions at the node wait meanwhile, and a failed
/// one is retried.
const CONNECTING: Duration = Duration::from_millis(250);

pub(super) struct Subscriber {
    link: Arc<Connection>,
    pushes: Arc<Mutex<mpsc::UnboundedSender<Push>>>,
    /// Ended subscriptions, to be reported after their last message.
    ended: mpsc::UnboundedSender<Vec<Bytes>>,
    /// Number of the last connection with a confirmed subscription; 0 before the first.
    confirmed: Arc<AtomicU64>,
    carried: Carried,
}

impl Subscriber {
    /// Opens the subscriber. `commands` is the id of the connections for requests: if those lead to
    /// another process, this one follows.
    pub(super) fn open(
        link: Arc<Connection>,
        commands: watch::Receiver<Option<ConnectionId>>,
    ) -> (Self, JoinHandle<()>) {
        let pushes = Arc::new(Mutex::new(mpsc::unbounded_channel().0));
        Subscriber::over(link, commands, pushes, Carries::Messages)
    }

    /// Opens another subscriber with the same stream of pushes.
    pub(super) fn beside(
        &self,
        link: Arc<Connection>,
        commands: watch::Receiver<Option<ConnectionId>>,
        carries: Carries,
    ) -> (Self, JoinHandle<()>) {
        Subscriber::over(link, commands, Arc::clone(&self.pushes), carries)
    }

    /// Returns whether the connection carries this pattern.
    pub(super) fn carries(&self, pattern: &Bytes) -> bool {
        self.carried().contains(pattern)
    }

    /// Adds a pattern, unless a channel could match both it and a pattern that the connection
    /// carries.
    ///
    /// Returns whether the pattern was added.
    pub(super) fn take_in(&self, pattern: &Bytes) -> bool {
        let mut carried = self.carried();
        carried.iter().all(|other| are_disjoint(pattern, other)) && carried.insert(pattern.clone())
    }

    /// Removes patterns.
    pub(super) fn let_go(&self, patterns: &[Bytes]) {
        self.carried().retain(|carried| !patterns.contains(carried));
    }

    /// Returns whether the connection carries no pattern.
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

    /// Subscribes channels, and returns those that the server refused.
    pub(super) async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        if channels.is_empty() {
            return Ok(Vec::new());
        }
        let Some(connection) = self.connection() else { return Err(self.link.down()) };
        let refused = match self.ask_for(kind, &channels).await {
            Ok(refused) => refused,
            // A passing refusal is not the connection's fault: keep it.
            Err(error @ ServerError::Refused { .. }) if !wants_login(&error) => return Err(error),
            Err(error) => {
                self.link.renew();
                return Err(error);
            }
        };
        // Store first, then check: either the reading task sees the store after the connection was
        // lost, or the check here sees the loss.
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
            // Each channel may be refused individually, because its slot has moved.
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
                    // One denied channel denies all of its command.
                    refused.extend(part.iter().map(|channel| (channel.clone(), error.clone())));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    /// Waits until it is connected, for at most [`CONNECTING`].
    pub(super) async fn connected(&self) {
        let mut epoch = self.link.epoch();
        let _ = tokio::time::timeout(CONNECTING, epoch.wait_for(Option::is_some)).await;
    }

    fn connection(&self) -> Option<u64> {
        self.link.epoch().borrow().as_ref().map(|epoch| epoch.connection)
    }

    /// Unsubscribes channels, and reports it once none of their messages can follow.
    pub(super) async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        self.end(kind, &channels).await;
        let _ = self.ended.send(channels);
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
        // On a refusal the channels are not subscribed, or the connection is lost.
        let _ = self.link.send_channels(command, channels).await;
    }

    /// Returns the stream of pushes from now on; the stream of an earlier call ends.
    pub(super) fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.pushes.lock().unwrap_or_else(|p| p.into_inner()) = sender;
        receiver
    }

    pub(super) fn close(&self) {
        self.link.close();
    }
}
