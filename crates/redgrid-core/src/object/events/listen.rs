//! How events are asked for.

use std::future::IntoFuture;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use super::super::{Object, ObjectError};
use super::setting::{From, Needed};
use super::stream::{Filter, Heard};
use super::{Events, Kinds, ListenError};
use crate::connection::Client;
use crate::error::ServerError;
use crate::pubsub::{MessageBuffer, SubscribeError};

/// How many notifications are kept for a slow reader, unless set: 1,024. Some hundred kilobytes.
const KEPT: usize = 1024;

/// How many may be.
const MOST_KEPT: RangeInclusive<usize> = 1..=1_048_576;

/// Listens to what happens when awaited; made by [`Object::events`] and [`Listen::to`]. What happens from then on is told.
#[must_use = "nothing is listened to until this is awaited"]
#[derive(Clone, Debug)]
pub struct Listen {
    what: Result<What, ObjectError>,
    client: Option<Client>,
    kinds: Kinds,
    enable: bool,
    unchecked: bool,
    kept: usize,
}

#[derive(Clone, Debug)]
enum What {
    Key { name: String, key: Bytes },
    Pattern(String),
}

impl Object {
    /// What happens to it from now on, of these kinds. Only notifications of its own key are sent; in a cluster by the node that has it,
    /// which is followed.
    ///
    /// ```no_run
    /// # async fn demo(greeting: redgrid_core::object::Object) -> Result<(), Box<dyn std::error::Error>> {
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
        let what = self.inner().map(|inner| What::Key { name: inner.name.to_string(), key: inner.keys[0].clone() });
        let client = self.inner().ok().map(|inner| inner.client.clone());
        Listen::of(what, client, kinds)
    }
}

impl Listen {
    /// What happens to all whose names are of a pattern, as `stock:*`: `?` is one character, `*` any number, `[a-z]` one of some. Of each
    /// kind all events of every primary are sent, and sorted out here; those outside the client's namespace too.
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
        Listen::of(Ok(What::Pattern(pattern.into())), Some(client.clone()), kinds)
    }

    fn of(what: Result<What, ObjectError>, client: Option<Client>, kinds: impl Into<Kinds>) -> Listen {
        Listen { what, client, kinds: kinds.into(), enable: false, unchecked: false, kept: KEPT }
    }

    /// Where a server does not tell what is asked for, has it do so: its setting `notify-keyspace-events` gets the letters that it
    /// lacks, and loses none. It costs the server something for each change, whoever listens, and is gone with a restart unless it
    /// is in its file; here it is set again then. Two clients that enable different letters at the same moment may take away each other's:
    /// where several do, all are to ask for the same, or the servers' files. The user needs `+config|get` and `+config|set`.
    pub fn enable(mut self) -> Self {
        self.enable = true;
        self
    }

    /// Does not ask servers whether they tell what is asked for: where CONFIG is not to be had. If they do not, nothing comes, and nobody
    /// says so.
    pub fn unchecked(mut self) -> Self {
        self.unchecked = true;
        self
    }

    /// Keeps so many notifications for a slow reader, 1 to 1,048,576; 1,024 unless set. More cost memory, with fewer a burst is a
    /// [`Gap`](super::Gap) sooner.
    pub fn keeping(mut self, notifications: usize) -> Self {
        self.kept = notifications;
        self
    }

    async fn begin(self) -> Result<Events, ListenError> {
        let invalid = |option, expected, got| Err(ListenError::InvalidArgument { option, expected, got });
        let what = self.what?;
        let Some(client) = self.client else { return Err(unavailable("there is no client")) };
        if self.kinds.is_empty() {
            return invalid("kinds", "one at least", "none".into());
        }
        if let Some(name) = self.kinds.misnamed() {
            return invalid("kinds", "names of events, as `hset`", format!("{name:?}"));
        }
        if !MOST_KEPT.contains(&self.kept) {
            return invalid("keeping", "1 to 1048576 notifications", self.kept.to_string());
        }
        if client.is_shut_down() {
            return Err(match client.ended() {
                ServerError::ShuttingDown => ListenError::ShuttingDown,
                source => ListenError::Unavailable { source },
            });
        }
        let (hub, database) = (&client.core().subscriptions, client.core().database);
        let until = client.clock().now() + client.patience();
        let (from, space) = match &what {
            What::Key { key, .. } => (From::Key(key.clone()), 'K'),
            What::Pattern(pattern) if pattern.is_empty() => {
                return invalid("pattern", "one that is not empty", "\"\"".into());
            }
            What::Pattern(_) => (From::All, 'E'),
        };
        let needed = Needed { from, letters: self.kinds.letters(space), enable: self.enable };
        let needed = (!self.unchecked).then_some(needed);
        if let Some(needed) = &needed {
            needed.clone().ensure(Arc::clone(hub), until).await?;
        }
        let tap = Arc::new(MessageBuffer::new(self.kept));
        let (heard, filter) = match what {
            What::Key { name, key } => {
                let channel = [format!("__keyspace@{database}__:").as_bytes(), &key].concat();
                let heard = Heard::One { _place: hub.subscribe_buffered(&tap, channel.into(), &key) };
                (heard, Filter::of_one(name, self.kinds))
            }
            What::Pattern(pattern) => {
                let prefix = format!("__keyevent@{database}__:");
                let named = self.kinds.names().into_iter().map(|name| Bytes::from(format!("{prefix}{name}")));
                let mut channels: Vec<Bytes> = named.collect();
                let others = channels.split_off(1);
                // Each channel that is denied costs a connection, and as a rule all are or none: one is tried before the others.
                let first = hub.subscribe_buffered_on_primaries(&tap, channels);
                client.wait_active(&tap, until).await.map_err(deaf)?;
                let places = [first]
                    .into_iter()
                    .chain((!others.is_empty()).then(|| hub.subscribe_buffered_on_primaries(&tap, others)));
                let namespace = hub.settings().namespace.as_str();
                let before = if namespace.is_empty() { String::new() } else { format!("{namespace}:") };
                (Heard::All { _places: places.collect() }, Filter::of_pattern(pattern, prefix, before, self.kinds))
            }
        };
        client.wait_active(&tap, until).await.map_err(deaf)?;
        // By now it may be another server than the one that was asked.
        if let Some(needed) = &needed {
            needed.clone().ensure(Arc::clone(hub), until).await?;
        }
        tap.start();
        Ok(Events::new(Arc::clone(hub), tap, heard, filter, needed))
    }
}

fn deaf(why: SubscribeError) -> ListenError {
    match why {
        SubscribeError::Denied(_) => ListenError::Denied,
        other => ListenError::Unavailable { source: other.into_error() },
    }
}

fn unavailable(why: &'static str) -> ListenError {
    ListenError::Unavailable { source: ServerError::not_sent(why) }
}

/// # Errors
///
/// [`ListenError`] says what stands in the way.
///
/// # Cancel safety
///
/// Dropped early, nothing is listened to; a server that was told to tell events goes on to.
impl IntoFuture for Listen {
    type Output = Result<Events, ListenError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}
