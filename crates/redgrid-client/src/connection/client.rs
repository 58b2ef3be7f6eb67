//! The client, as users see it. It owns the connections and the background tasks.

pub(super) mod command;
pub(super) mod core;
pub(super) mod deployment;
pub(super) mod driver;
pub(super) mod events;
pub(super) mod given_back;
pub(super) mod health;
mod introspection;
pub(super) mod lifecycle;
mod ready;
pub(super) mod service;
pub(super) mod shared;
pub(super) mod views;

use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use uuid::Uuid;

use self::introspection::listen;
pub use self::lifecycle::NotClosed;
pub use self::ready::NotReady;
pub(crate) use self::ready::refused;
use super::core::{Core, is_one_thread};
use super::driver::{Driver, follow};
use super::events::{ConnectionEvents, Events};
use super::given_back::{GivenBack, repeat};
use super::health::HealthCheck;
use super::lifecycle::Lifecycle;
use super::service::{ServiceSlot, serve};
use super::shared::{Kept, Shared};
use super::{Deployment, Topology, topology};
use crate::clock::Clock;
use crate::config::{Config, ConfigError, Settings};
use crate::error::ServerError;
use crate::name::{Name, Namespace};
use crate::pubsub::SubscriptionManager;
use crate::sync::Mutex;

/// A client for Redis or Valkey. It owns its connections, its holds and its waiting requests.
///
/// Cloning is cheap. All clones stand for the same client. When the last clone and the last guard
/// are dropped, remaining holds are released in the background.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

/// The parts of a client.
// Not `#[non_exhaustive]`: only redgrid-core uses it.
pub struct Inner {
    /// The state that all objects share.
    pub core: Arc<Core>,
    /// The slot for the service, which manages the locks and permits that the client holds.
    pub service: Arc<ServiceSlot>,
    /// Values that the objects of the client share. A value lives as long as an object references
    /// it.
    pub shared: Shared,
    /// Shared values that live as long as the client.
    pub kept: Kept,
}

impl Client {
    /// Starts a client, without waiting for a server.
    ///
    /// Each later call waits for the connection within its own time limit. [`Client::wait_ready`]
    /// waits for the connection explicitly.
    ///
    /// This method must be called inside a Tokio runtime, because the client's connections and
    /// tasks run in that runtime. Tasks of other runtimes can use the client, too, as long as the
    /// client's runtime is driven. Once the client's runtime has ended, every call fails at once
    /// with an error that says so.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = redgrid_client::Client::connect("redis://127.0.0.1:6379").await?;
    /// client.wait_ready(std::time::Duration::from_secs(5)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the configuration is invalid, or one of its certificate files is
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

    /// Starts a client for a test that implements the servers itself.
    #[cfg(any(test, feature = "testing"))]
    pub fn over(topology: Arc<dyn Topology>, config: Config, clock: Clock) -> Result<Client, ConnectError> {
        config.check()?;
        Ok(Client::start(topology, config.settings, config.access.database, clock))
    }

    /// Starts a client that uses one server for every name; see [`Client::over`].
    #[cfg(feature = "testing")]
    pub fn over_one(server: Arc<dyn super::Server>, config: Config, clock: Clock) -> Result<Client, ConnectError> {
        Client::over(Arc::new(topology::Single::new(server)), config, clock)
    }

    fn start(topology: Arc<dyn Topology>, settings: Settings, database: u8, clock: Clock) -> Client {
        let events = Events::new();
        let subscriptions =
            SubscriptionManager::new(Arc::clone(&topology), clock.clone(), settings.clone(), Arc::clone(&events));
        let (background, work) = mpsc::unbounded_channel();
        let core = Arc::new(Core {
            id: new_id(),
            clock,
            settings,
            database,
            topology,
            subscriptions,
            events,
            participants: Mutex::default(),
            given_back: GivenBack::default(),
            background,
            one_thread: is_one_thread(),
            life: Lifecycle::default(),
            runtime: Handle::current().id(),
        });
        let service = Arc::<ServiceSlot>::default();
        let mut tasks = JoinSet::new();
        let notices = core.subscriptions.subscribe_everywhere(core.notices());
        let began = core.clock.now();
        tasks.spawn(serve(Arc::clone(&service)));
        tasks.spawn(listen(Arc::clone(&core), Arc::clone(&service), notices, began));
        tasks.spawn(repeat(Arc::clone(&core)));
        tasks.spawn(follow(Arc::clone(&core), Arc::clone(&service)));
        let driver = Driver { core: Arc::clone(&core), service: Arc::clone(&service), tasks };
        tokio::spawn(driver.run(work));
        let (shared, kept) = (Shared::default(), Kept::default());
        Client(Arc::new(Inner { core, service, shared, kept }))
    }

    /// Returns the id of this client. The holder field of a grant is this id, a colon, and a
    /// number.
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

    /// Returns a weak reference to the client, for tasks that must not keep the client alive.
    pub fn downgrade(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.0))
    }

    /// Returns the cluster slot of a key. A script can use several keys only if their slots are
    /// equal.
    ///
    /// Outside a cluster, the value is the same for all keys.
    pub fn slot(&self, key: &[u8]) -> u16 {
        self.0.core.topology.slot(key)
    }

    /// Returns a receiver of all connection events from now on.
    ///
    /// The events report connected and lost nodes, replaced primaries, other changes of the
    /// topology, and interrupted subscriptions. Each receiver gets every event. A receiver buffers
    /// up to 256 events.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_client::Client) {
    /// use redgrid_client::ConnectionEvent;
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
    /// The check completes within [`HealthCheck::timeout`], whatever the servers do. If this
    /// timeout is not set, the check uses `response_timeout` of the settings.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_client::Client) {
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
        HealthCheck { client: self.clone(), timeout: self.0.core.settings.response_timeout }
    }

    /// Returns the topology as the client knows it at the moment. No request is sent.
    pub fn topology(&self) -> Deployment {
        Deployment::of(&*self.0.core.topology)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    /// Returns the number of names, holds, waiting requests and channels of the client, for tests
    /// and diagnosis.
    pub fn stats(&self) -> ClientStats {
        // The client's own notice channel is not counted, because no waiter watches it.
        let channels = self.0.core.subscriptions.channel_count().saturating_sub(1);
        let held = self.0.service.get().map(|service| service.stats()).unwrap_or_default();
        ClientStats { channels, ..held }
    }
}

/// Returns the id of a new client: a random UUID of version 8.
///
/// Redisson's ids are UUIDs of version 4. So the holder field of a lock shows which library holds
/// the lock.
fn new_id() -> String {
    Uuid::new_v8(Uuid::new_v4().into_bytes()).to_string()
}

/// Returns the parts of a client.
#[inline]
pub fn inner(client: &Client) -> &Inner {
    &client.0
}

/// A weak reference to a client; it does not keep the client alive.
#[derive(Clone)]
pub struct WeakClient(Weak<Inner>);

impl WeakClient {
    /// Returns the client; `None` if it has been dropped.
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
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: tests compare the whole value with an expected one.
pub struct ClientStats {
    /// Names that are held, awaited or being released.
    pub names: usize,
    /// Holds that are valid by the local clock, and permits.
    pub holds: usize,
    /// Requests for locks and permits that wait in this process.
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
    /// The operating system cannot make the configured connections, for example because it has no
    /// Unix sockets.
    #[error("cannot create the client: {0}")]
    Client(#[source] ServerError),
}

impl From<std::convert::Infallible> for ConnectError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
