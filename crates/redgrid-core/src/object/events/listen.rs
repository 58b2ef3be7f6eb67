//! The request for a stream of events.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use redgrid_client::internal::{MessageBuffer, SubscribeError};
use redgrid_client::{Client, ServerError};

use super::super::{Object, ObjectError};
use super::notify_config::NotifyConfig;
use super::stream::{Check, Filter, Names};
use super::{Events, Kinds, ListenError};
use crate::author::ClientExt;
use crate::failure::{Failure, Operation};
use crate::into_future;
use crate::service::ClientParts;

/// Default number of notifications that are stored for a slow reader: 1,024. They need a few
/// hundred kilobytes of memory.
const DEFAULT_KEPT: usize = 1024;

/// The allowed numbers of notifications that are stored for a slow reader.
const KEPT_RANGE: RangeInclusive<usize> = 1..=1_048_576;

/// The name of the operation in error messages.
const LISTEN: &str = "listen to events";

/// A request for a stream of events, sent when awaited. Created by [`Object::events`] and
/// [`Listen::to`].
///
/// The stream contains the events that are published after the request has completed.
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Listen {
    target: Result<Target, ObjectError>,
    client: Option<Client>,
    kinds: Kinds,
    enable: bool,
    unchecked: bool,
    kept: usize,
}

#[derive(Clone, Debug)]
enum Target {
    Key { name: String, key: Bytes },
    Pattern(String),
}

impl Object {
    /// Listens to the events of this object that have one of these kinds.
    ///
    /// The server sends only the notifications of the key with the object's name. In a cluster, the
    /// node that currently serves the key sends them, even after the key has moved.
    ///
    /// ```no_run
    /// # use redgrid_core::object::Object;
    /// # async fn demo(greeting: Object) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_core::object::events::{Kind, Notice};
    ///
    /// let mut events = greeting.events(Kind::Expired).await?;
    /// if let Some(Notice::Event(_)) = events.next().await {
    ///     println!("its time was over");
    /// }
    /// # Ok(()) }
    /// ```
    #[doc(alias = "addListener")]
    #[doc(alias = "ObjectListener")]
    pub fn events(&self, kinds: impl Into<Kinds>) -> Listen {
        let target = self.inner().map(|inner| Target::Key { name: inner.name.to_string(), key: inner.keys[0].clone() });
        let client = self.inner().ok().map(|inner| inner.client.clone());
        Listen::of(target, client, kinds)
    }
}

impl Listen {
    /// Listens to events of all objects whose names match a pattern, such as `stock:*`.
    ///
    /// In the pattern, `?` matches one character, `*` any number of characters, and `[a-z]` one of
    /// a range. Every primary sends the client all events of the selected kinds, even for names
    /// outside the client's namespace, and the client filters them.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_core::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_core::object::events::{Kind, Listen};
    ///
    /// let mut sessions = Listen::to(client, "session:*", Kind::Expired).await?;
    /// # sessions.next().await;
    /// # Ok(()) }
    /// ```
    pub fn to(client: &Client, pattern: impl Into<String>, kinds: impl Into<Kinds>) -> Listen {
        Listen::of(Ok(Target::Pattern(pattern.into())), Some(client.clone()), kinds)
    }

    fn of(target: Result<Target, ObjectError>, client: Option<Client>, kinds: impl Into<Kinds>) -> Listen {
        Listen { target, client, kinds: kinds.into(), enable: false, unchecked: false, kept: DEFAULT_KEPT }
    }

    /// Changes the setting of each server that does not publish the selected events.
    ///
    /// Adds the missing letters to the setting `notify-keyspace-events`, and removes none.
    /// Publishing costs the server some work for each change by any client. A server loses the
    /// added letters when it restarts, unless its configuration file contains them. The stream adds
    /// lost letters again.
    ///
    /// If two clients enable different letters at the same moment, they may remove each other's
    /// letters. If several clients listen, they should all select the same events, or the servers'
    /// configuration files should contain the setting. The user needs the permissions `+config|get`
    /// and `+config|set`.
    pub fn enable(mut self) -> Self {
        self.enable = true;
        self
    }

    /// Skips the check of the servers' settings, for users without permission for CONFIG.
    ///
    /// If a server does not publish the events, the stream contains no events of that server, and
    /// no error.
    pub fn unchecked(mut self) -> Self {
        self.unchecked = true;
        self
    }

    /// Sets how many notifications are stored for a slow reader: 1 to 1,048,576, and 1,024 by
    /// default.
    ///
    /// A larger number costs memory. With a smaller number, even a short burst of events can cause
    /// a [`Gap`](super::Gap).
    pub fn buffer(mut self, notifications: usize) -> Self {
        self.kept = notifications;
        self
    }

    async fn start(self) -> Result<Events, ListenError> {
        let invalid = |option, expected: &'static str, got: String| {
            let operation = Operation::without_object(LISTEN);
            Err(Failure::InvalidArgument { operation, option, expected: expected.into(), got }.into())
        };
        let target = self.target?;
        let Some(client) = self.client else { return Err(unavailable(ServerError::not_sent("there is no client"))) };
        if self.kinds.is_empty() {
            return invalid("kinds", "at least one", "none".into());
        }
        if let Some(name) = self.kinds.invalid_name() {
            return invalid("kinds", "names of events, such as `hset`", format!("{name:?}"));
        }
        if !KEPT_RANGE.contains(&self.kept) {
            return invalid("buffer", "1 to 1048576 notifications", self.kept.to_string());
        }
        if client.is_shut_down() {
            return Err(match client.ended() {
                ServerError::ShuttingDown => {
                    Failure::ShuttingDown { operation: Operation::without_object(LISTEN) }.into()
                }
                source => unavailable(source),
            });
        }
        let (subscriptions, database) = (&client.core().subscriptions, client.core().database);
        let until = client.clock().now() + client.patience();
        let (key, space) = match &target {
            Target::Key { key, .. } => (Some(key.clone()), 'K'),
            Target::Pattern(pattern) if pattern.is_empty() => {
                return invalid("pattern", "a pattern that is not empty", "\"\"".into());
            }
            Target::Pattern(_) => (None, 'E'),
        };
        let notify_config = NotifyConfig { key, letters: self.kinds.letters(space), enable: self.enable };
        let notify_config = (!self.unchecked).then_some(notify_config);
        if let Some(notify_config) = &notify_config {
            notify_config.clone().ensure(Arc::clone(subscriptions), until).await?;
        }
        let buffer = Arc::new(MessageBuffer::new(self.kept));
        let (mut of_key, mut of_events) = (None, Vec::new());
        let names = match target {
            Target::Key { name, key } => {
                let channel = [format!("__keyspace@{database}__:").as_bytes(), &key].concat();
                of_key = Some(subscriptions.subscribe_buffered(&buffer, channel.into(), &key));
                Names::One(name)
            }
            Target::Pattern(pattern) => {
                let prefix = format!("__keyevent@{database}__:");
                let event_channels = self.kinds.names().into_iter().map(|name| Bytes::from(format!("{prefix}{name}")));
                let mut channels: Vec<Bytes> = event_channels.collect();
                let others = channels.split_off(1);
                // Usually the server denies either all channels or none. If several channels are
                // denied in one request, the client retries each of them alone. To avoid these
                // retries, the client first subscribes to one channel, and stops if that one is
                // denied.
                of_events.push(subscriptions.subscribe_buffered_on_primaries(&buffer, channels));
                client.core().wait_active(&buffer, until).await.map_err(subscribe_error)?;
                if !others.is_empty() {
                    of_events.push(subscriptions.subscribe_buffered_on_primaries(&buffer, others));
                }
                let namespace = subscriptions.settings.namespace.as_str();
                let name_prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}:") };
                Names::Matching { pattern, prefix, name_prefix }
            }
        };
        client.core().wait_active(&buffer, until).await.map_err(subscribe_error)?;
        // Since the first check, the server may have been replaced by one that was not checked. So
        // the check is repeated.
        if let Some(notify_config) = &notify_config {
            notify_config.clone().ensure(Arc::clone(subscriptions), until).await?;
        }
        buffer.start();
        Ok(Events {
            subscriptions: Arc::clone(subscriptions),
            buffer,
            _of_key: of_key,
            _of_events: of_events,
            filter: Filter { kinds: self.kinds, names },
            notify_config,
            check: Check::default(),
        })
    }
}

fn subscribe_error(why: SubscribeError) -> ListenError {
    match why {
        SubscribeError::Denied(_) => ListenError::Denied,
        other => unavailable(other.into_error()),
    }
}

/// Returns the error for a server that was not reached.
pub(super) fn unavailable(source: ServerError) -> ListenError {
    Failure::Unavailable { operation: Operation::without_object(LISTEN), source }.into()
}

into_future!(
    /// # Errors
    ///
    /// [`ListenError`] says why there is no stream.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, there is no stream. A changed server setting stays changed.
    Listen => Result<Events, ListenError>, |this| this.start()
);
