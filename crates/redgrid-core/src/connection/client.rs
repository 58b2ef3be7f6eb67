//! The client that users hold. It owns the connections, the holds and the background tasks.

mod ask;
mod drive;
mod end;
mod holds;

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::watch;
use uuid::Uuid;

pub use self::drive::NotDriven;
pub use self::end::NotClosed;
use super::core::{Closing, Core, abandoned, follow, follow_notices, is_one_thread, ready, run};
use super::events::{ConnectionEvents, Events};
use super::given_back::{GivenBack, repeat};
use super::health::HealthCheck;
use super::shared::{Kept, Shared};
use super::{ConnectionId, Deployment, Ended, Request, Server, Topology, topology};
use crate::clock::{Clock, Instant};
use crate::config::{Config, ConfigError, Durability, Settings};
use crate::error::ServerError;
use crate::exactly_once::KeyLocks;
use crate::lock::Table;
use crate::name::{Name, Namespace};
use crate::participant::Participants;
use crate::permits::SemaphoreRegistry;
use crate::pubsub::SubscriptionManager;
use crate::unpolled::UnpolledRegistry;

/// A client for Redis or Valkey, with everything that is held and awaited through it.
///
/// It is cheap to clone; clones are the same client. When the last clone and the last guard are
/// dropped, remaining holds are released in the background.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    table: Arc<Table>,
    key_locks: KeyLocks,
    semaphores: Arc<SemaphoreRegistry>,
    shared: Shared,
    kept: Kept,
    closing: Arc<watch::Sender<Closing>>,
    closed: watch::Receiver<bool>,
}

impl Client {
    /// Starts a client, without waiting for a server.
    ///
    /// Calls wait for the connection within their own time; [`Client::wait_ready`] waits for it
    /// explicitly.
    ///
    /// Must be called inside a Tokio runtime: the client's connections and tasks run there. The
    /// client can be used from other runtimes while that runtime is driven. Once that runtime has
    /// ended, every call fails at once with an error that says so.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = redgrid_core::Client::connect("redis://127.0.0.1:6379").await?;
    /// client.wait_ready(std::time::Duration::from_secs(5)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the configuration is invalid, or a certificate file that it names is
    /// unusable.
    pub async fn connect<C>(config: C) -> Result<Client, ConnectError>
    where
        C: TryInto<Config>,
        ConnectError: From<C::Error>,
    {
        let config = config.try_into()?;
        config.check()?;
        let clock = Clock::boot();
        let topology = topology::open(&config, &clock)?;
        Ok(Client::start(topology, config.settings, config.access.database, clock))
    }

    /// Starts a client on servers that a test implements.
    #[cfg(feature = "testing")]
    pub fn over(topology: Arc<dyn Topology>, config: Config, clock: Clock) -> Result<Client, ConnectError> {
        config.check()?;
        Ok(Client::start(topology, config.settings, config.access.database, clock))
    }

    /// Starts a client that uses one server for every name; see [`Client::over`].
    #[cfg(feature = "testing")]
    pub fn over_one(server: Arc<dyn Server>, config: Config, clock: Clock) -> Result<Client, ConnectError> {
        Client::over(Arc::new(topology::Single::new(server)), config, clock)
    }

    fn start(topology: Arc<dyn Topology>, settings: Settings, database: u8, clock: Clock) -> Client {
        let events = Events::new();
        let subscriptions =
            SubscriptionManager::new(Arc::clone(&topology), clock.clone(), settings.clone(), Arc::clone(&events));
        let id = Uuid::new_v4().to_string();
        let (participants, tasks) = (Participants::default(), Mutex::default());
        let one_thread = is_one_thread();
        let given_back = GivenBack::default();
        let (ended, runtime) = (Ended::default(), Handle::current().id());
        let unpolled = UnpolledRegistry::default();
        let core = Core {
            id,
            clock,
            settings,
            database,
            topology,
            subscriptions,
            events,
            participants,
            given_back,
            unpolled,
            one_thread,
            tasks,
            ended,
            runtime,
        };
        let core = Arc::new(core);
        let (table, work) = Table::new(Arc::clone(&core));
        core.tasks().push(tokio::spawn(follow_notices(core.subscriptions.listen(core.notices()), Arc::clone(&table))));
        core.tasks().push(tokio::spawn(Arc::clone(&table).run_renewal()));
        core.tasks().push(tokio::spawn(repeat(Arc::clone(&core))));
        let (watching, to_tasks) = (Arc::clone(&core), table.background());
        core.tasks().push(tokio::spawn(async move { watching.unpolled.watch(to_tasks).await }));
        let semaphores = SemaphoreRegistry::new(&core, table.background());
        core.tasks().push(tokio::spawn(follow(Arc::clone(&core), Arc::clone(&table), Arc::clone(&semaphores))));
        let closing = Arc::new(watch::Sender::new(Closing::No));
        let (done, closed) = watch::channel(false);
        let end = (abandoned(&core, (&table, &semaphores), &closing), done);
        let watched = closing.subscribe();
        tokio::spawn(run(Arc::clone(&core), (Arc::clone(&table), Arc::clone(&semaphores)), work, watched, end));
        let (key_locks, shared, kept) = (KeyLocks::default(), Shared::default(), Kept::default());
        Client(Arc::new(Inner { core, table, key_locks, semaphores, shared, kept, closing, closed }))
    }

    /// Returns the id of this client. Its holder fields are this id and a number.
    pub fn id(&self) -> &str {
        &self.0.core.id
    }

    /// Returns the key of an object: the client's namespace followed by the object's name.
    pub fn key(&self, name: &Name) -> Bytes {
        self.0.core.settings.namespace.key(name)
    }

    /// Returns the namespace: the prefix of the name of every object.
    pub fn namespace(&self) -> &Namespace {
        &self.0.core.settings.namespace
    }

    /// Returns the prefix of the channels that notify clients of holds taken over by force.
    ///
    /// The channel of a client is this prefix, the client's id, and `}`.
    pub fn notice_prefix(&self) -> String {
        self.0.core.notice_prefix()
    }

    /// Returns the lease of holds that are renewed.
    pub fn watchdog_lease(&self) -> Duration {
        self.0.core.settings.watchdog_lease
    }

    /// Returns the default durability of grants.
    pub fn durability(&self) -> Durability {
        self.0.core.settings.durability
    }

    /// Returns how long a queue position of a fair lock is kept for a process that is silent.
    pub fn fair_wait(&self) -> Duration {
        self.0.core.settings.fair_wait
    }

    /// Returns how long a call may be without contact to the server: `response_timeout × (retries + 1)`.
    pub fn patience(&self) -> Duration {
        self.0.core.settings.patience()
    }

    /// Returns the response timeout of one transmission of a request.
    pub fn response_timeout(&self) -> Duration {
        self.0.core.settings.response_timeout
    }

    /// Returns the id of the connection to the current primary of `key`; `None` while there is no
    /// contact.
    ///
    /// The id changes with each loss of contact, restart and failover. State of the server that was
    /// observed under an older id may be outdated.
    pub fn epoch_of(&self, key: &[u8]) -> Option<ConnectionId> {
        self.0.core.topology.primary(key).current_connection_id()
    }

    /// Returns the error of a bounded wait for `key` that timed out without contact to its server.
    ///
    /// The error says why contact was missing for longer than the response timeout. `answered` is
    /// when the server last answered the waiter. Returns `None` if there was contact. A connection
    /// without an overdue reply counts as contact.
    pub fn out_of_contact(&self, key: &[u8], answered: Instant) -> Option<ServerError> {
        let core = self.core();
        let contact = core.contact(key).map_or(answered, |contact| contact.max(answered));
        (core.clock.now().since(contact) > core.settings.response_timeout).then(|| core.no_contact(key))
    }

    /// Returns the interval at which waiters poll.
    pub fn poll_interval(&self) -> Duration {
        self.0.core.settings.poll_interval
    }

    /// Returns the client's clock.
    pub fn clock(&self) -> &Clock {
        &self.0.core.clock
    }

    /// Waits until every node has answered its handshake.
    ///
    /// # Errors
    ///
    /// [`NotReady::Unavailable`] when `within` has passed, with the cause. It is returned at once
    /// where waiting cannot help. That is so if the host name is unknown, or if the target never
    /// answered and does not speak the expected protocol. Examples are HTTP, and TLS where the
    /// other side does not use it.
    ///
    /// [`NotReady::Unauthorized`] as soon as a server refuses the client's password or certificate,
    /// or its own certificate is refused: waiting does not help then. If a [credential
    /// provider](crate::config::CredentialProvider) has the password, the refusal must last for
    /// `timeout`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn wait_ready(&self, within: Duration) -> Result<(), NotReady> {
        let began = self.0.core.clock.now();
        let (why, waited) = match tokio::time::timeout(within, ready(&self.0.core)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => {
                let waited = self.0.core.clock.now().since(began);
                // In whole milliseconds, for the message.
                (why, waited - Duration::from_nanos(u64::from(waited.subsec_nanos() % 1_000_000)))
            }
            Err(_) => (self.missing().await, within),
        };
        Err(match why {
            ServerError::ShuttingDown => NotReady::ShuttingDown,
            source @ ServerError::Unauthorized { .. } => NotReady::Unauthorized { source },
            source => NotReady::Unavailable { waited, source },
        })
    }

    /// Returns why a server is not connected. A server that is connected but hangs is not
    /// considered.
    async fn missing(&self) -> ServerError {
        let mut why = ServerError::not_sent("not connected");
        let down = |server: &Arc<dyn Server>| server.current_connection_id().is_none();
        for server in self.0.core.topology.primaries().into_iter().filter(down) {
            let answer = server.call(vec![Request::command("PING")]).await.pop();
            if let Some(Err(error)) = answer {
                why = error;
            }
        }
        why
    }

    /// Watches a channel for wake-ups, and polls the key that belongs to it.
    pub fn watch(&self, channel: Bytes, key: Bytes) -> crate::pubsub::Watch {
        self.0.core.subscriptions.watch(channel, key)
    }

    /// Watches a channel in the slot of a key, without a key to poll: the waiter polls by itself.
    pub fn watch_unpolled(&self, channel: Bytes, slot_of: &Bytes) -> crate::pubsub::Watch {
        self.0.core.subscriptions.watch_with_notify(channel, slot_of, Arc::default())
    }

    /// Subscribes to `channels` in the slot of a key, without a key to poll.
    ///
    /// Use it for objects whose key need not exist while they are awaited.
    pub fn subscribe_ordered_unpolled(
        &self,
        channels: impl IntoIterator<Item = Bytes>,
        slot_of: &Bytes,
    ) -> crate::pubsub::OrderedSubscription {
        self.0.core.subscriptions.subscribe_ordered(channels, slot_of, false)
    }

    /// Subscribes to `channels` in the slot of `key`, and polls whether the key is gone.
    ///
    /// Messages arrive in the order in which they are published at the server.
    pub fn subscribe_ordered(
        &self,
        channels: impl IntoIterator<Item = Bytes>,
        key: &Bytes,
    ) -> crate::pubsub::OrderedSubscription {
        self.0.core.subscriptions.subscribe_ordered(channels, key, true)
    }

    /// Returns a weak reference to the client, for tasks that should end with it.
    pub fn downgrade(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.0))
    }

    /// Returns the value that all objects of this client with the same key share.
    ///
    /// The first object creates it; it is dropped with the last one that holds it.
    pub fn shared<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T> {
        self.0.shared.get(key, make)
    }

    /// Returns the value of a type for a key, which the client keeps until it ends.
    ///
    /// The first call creates it; it persists while no object holds it. The value must not contain
    /// a [`Client`], which would then never end; a [`WeakClient`] is fine.
    pub fn kept<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T> {
        self.0.kept.get(key, make)
    }

    /// Spawns `work` on the client's own task, where it runs even if the caller is dropped.
    ///
    /// It ends with the client at the latest. A shutdown waits for it, so it should end when
    /// [`Client::closing`] completes.
    pub fn run_in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.table.spawn_background(Box::pin(work));
    }

    /// Returns the slot of a key. One script may use several names only if their slots are equal.
    ///
    /// Without slots, all keys return the same value.
    pub fn slot(&self, key: &[u8]) -> u16 {
        self.0.core.topology.slot(key)
    }

    /// Returns a receiver of the connection events from now on.
    ///
    /// Events are: connected, lost, primary replaced, topology changed, subscriptions interrupted.
    /// Each receiver gets every event, and buffers up to 256 of them.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_core::Client) {
    /// use redgrid_core::ConnectionEvent;
    ///
    /// let mut events = client.events();
    /// while let Some(event) = events.recv().await {
    ///     match event {
    ///         ConnectionEvent::Lost { node, why } => eprintln!("{node} is lost: {why}"),
    ///         ConnectionEvent::PrimaryChanged { from, to } => eprintln!("{to} instead of {from}"),
    ///         other => eprintln!("{other:?}"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn events(&self) -> ConnectionEvents {
        self.0.core.events.receiver()
    }

    /// Checks the health of the client and its servers; each node is pinged when the check is
    /// awaited.
    ///
    /// It completes within `response_timeout` of the settings, or [`HealthCheck::timeout`], whatever the
    /// servers do.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_core::Client) {
    /// let health = client.health().timeout(std::time::Duration::from_millis(500)).await;
    /// if !health.is_ready() {
    ///     health.nodes.iter().for_each(|node| eprintln!("{}: {:?}", node.node, node.trouble));
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub fn health(&self) -> HealthCheck {
        HealthCheck::new(self.clone(), self.0.core.settings.response_timeout)
    }

    /// Returns the topology as the client knows it at the moment. No request is sent.
    pub fn topology(&self) -> Deployment {
        Deployment::of(&*self.0.core.topology)
    }

    /// Returns the sentinels that this client uses, including those that other sentinels have
    /// named.
    ///
    /// They use the credentials and the encryption that are configured for sentinels. The list is
    /// empty in other topologies. It serves requests about the deployment, such as those of
    /// `redgrid doctor`.
    pub fn sentinels(&self) -> Vec<Arc<dyn Server>> {
        self.0.core.topology.sentinels()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    pub(super) fn closing_watch(&self) -> watch::Receiver<Closing> {
        self.0.closing.subscribe()
    }

    pub(crate) fn semaphores(&self) -> &Arc<SemaphoreRegistry> {
        &self.0.semaphores
    }

    /// Returns the locks per name that serialize exactly-once requests.
    pub(crate) fn key_locks(&self) -> &KeyLocks {
        &self.0.key_locks
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.0.table
    }

    /// Returns the number of names, holds, waiting requests and channels of the client, for tests
    /// and diagnosis.
    pub fn stats(&self) -> ClientStats {
        // One channel is the client's own, for notices.
        let channels = self.0.core.subscriptions.channel_count().saturating_sub(1);
        let table = &self.0.table;
        let (names, permits, waiting) = self.0.semaphores.stats();
        ClientStats {
            names: table.names() + names,
            holds: table.holds() + permits,
            waiting: table.waiting() + waiting,
            channels,
        }
    }
}

/// A weak reference to a client; it does not keep the client alive.
#[derive(Clone)]
pub struct WeakClient(Weak<Inner>);

impl WeakClient {
    /// Returns the client, unless it has been dropped.
    pub fn upgrade(&self) -> Option<Client> {
        self.0.upgrade().map(Client)
    }
}

impl fmt::Debug for WeakClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakClient").finish_non_exhaustive()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("id", &self.0.core.id).finish_non_exhaustive()
    }
}

/// The number of names, holds, waiting requests and channels of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientStats {
    /// Names that are held, awaited or being released.
    pub names: usize,
    /// Holds that are valid by the local clock, and permits.
    pub holds: usize,
    /// Requests that wait in this process.
    pub waiting: usize,
    /// Channels that waiters watch.
    pub channels: usize,
}

/// Why a client could not be started.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration is invalid.
    #[error("invalid configuration: {0}")]
    Config(#[from] ConfigError),
    /// The underlying client could not be built.
    #[error("cannot create the client: {0}")]
    Client(#[source] ServerError),
}

impl From<std::convert::Infallible> for ConnectError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// Why a client is not ready.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// Not every server answered in time, or the runtime of the client has ended.
    #[error("not every server answered within {waited:?}: {source}")]
    Unavailable {
        /// How long the call waited.
        waited: Duration,
        /// Why a server is not connected.
        #[source]
        source: ServerError,
    },
    /// A server refuses the password, the user or the certificate of this client, or its own
    /// certificate is refused.
    ///
    /// The client keeps trying, in case this is corrected.
    #[error("a server does not accept this client, or its certificate is rejected: {source}")]
    Unauthorized {
        /// The message of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client was shut down.
    #[error("the client is shut down")]
    ShuttingDown,
}
