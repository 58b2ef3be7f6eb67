//! The client that users hold: it owns the connections, the holds and the tasks behind them.

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
use super::core::{Closing, Core, abandoned, follow, hear, is_one_thread, ready, run};
use super::events::{EventReceiver, Events};
use super::given_back::{GivenBack, repeat};
use super::health::HealthCheck;
use super::shared::{Kept, Shared};
use super::{ConnectionId, Deployment, Ended, Request, Server, Topology, topology};
use crate::clock::{Clock, Instant};
use crate::config::{Config, ConfigError, Durability, Settings};
use crate::error::ServerError;
use crate::lock::Table;
use crate::name::{Name, Namespace};
use crate::once::Lanes;
use crate::permits::Pools;
use crate::seat::Seats;
use crate::unpolled::Unattended;
use crate::wait::Hub;

/// A connection to Redis or Valkey, and all that is held and awaited through it. Cheap to clone; clones are the same
/// client. When the last clone and the last guard have gone, what is left to give back is given back in the background.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    table: Arc<Table>,
    lanes: Lanes,
    pools: Arc<Pools>,
    shared: Shared,
    kept: Kept,
    closing: Arc<watch::Sender<Closing>>,
    closed: watch::Receiver<bool>,
}

impl Client {
    /// Starts a client. It does not wait for a server: calls wait for the connection within their own time, and
    /// [`Client::wait_ready`] waits for it explicitly. Must be called inside a Tokio runtime: the
    /// client's connections and tasks run there. The client can be used from other runtimes while
    /// its own is driven. When its own has ended, every call ends at once, with an error that says
    /// so.
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
    /// [`ConnectError`] when the configuration can not work, or a file of certificates that it names can not be used.
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

    /// A client over servers of the test's own making.
    #[cfg(feature = "testing")]
    pub fn over(topology: Arc<dyn Topology>, config: Config, clock: Clock) -> Result<Client, ConnectError> {
        config.check()?;
        Ok(Client::start(topology, config.settings, config.access.database, clock))
    }

    /// The same over one server for every name.
    #[cfg(feature = "testing")]
    pub fn over_one(server: Arc<dyn Server>, config: Config, clock: Clock) -> Result<Client, ConnectError> {
        Client::over(Arc::new(topology::Single::new(server)), config, clock)
    }

    fn start(topology: Arc<dyn Topology>, settings: Settings, database: u8, clock: Clock) -> Client {
        let events = Events::new();
        let hub = Hub::new(Arc::clone(&topology), clock.clone(), settings.clone(), Arc::clone(&events));
        let id = Uuid::new_v4().to_string();
        let (seats, tasks) = (Seats::default(), Mutex::default());
        let one_thread = is_one_thread();
        let given_back = GivenBack::default();
        let (ended, runtime) = (Ended::default(), Handle::current().id());
        let unattended = Unattended::default();
        let core = Core {
            id,
            clock,
            settings,
            database,
            topology,
            hub,
            events,
            seats,
            given_back,
            unattended,
            one_thread,
            tasks,
            ended,
            runtime,
        };
        let core = Arc::new(core);
        let (table, work) = Table::new(Arc::clone(&core));
        core.tasks().push(tokio::spawn(hear(core.hub.listen(core.notices()), Arc::clone(&table))));
        core.tasks().push(tokio::spawn(Arc::clone(&table).run_renewal()));
        core.tasks().push(tokio::spawn(repeat(Arc::clone(&core))));
        let (watching, to_tasks) = (Arc::clone(&core), table.background());
        core.tasks().push(tokio::spawn(async move { watching.unattended.watch(to_tasks).await }));
        let pools = Pools::new(&core, table.background());
        core.tasks().push(tokio::spawn(follow(Arc::clone(&core), Arc::clone(&table), Arc::clone(&pools))));
        let closing = Arc::new(watch::Sender::new(Closing::No));
        let (done, closed) = watch::channel(false);
        let end = (abandoned(&core, (&table, &pools), &closing), done);
        let watched = closing.subscribe();
        tokio::spawn(run(Arc::clone(&core), (Arc::clone(&table), Arc::clone(&pools)), work, watched, end));
        let (lanes, shared, kept) = (Lanes::default(), Shared::default(), Kept::default());
        Client(Arc::new(Inner { core, table, lanes, pools, shared, kept, closing, closed }))
    }

    /// The id of this client, in front of the number in its holder fields.
    pub fn id(&self) -> &str {
        &self.0.core.id
    }

    /// The key of an object: its name behind the client's namespace.
    pub fn key(&self, name: &Name) -> Bytes {
        self.0.core.settings.namespace.key(name)
    }

    /// What is put in front of the name of every object.
    pub fn namespace(&self) -> &Namespace {
        &self.0.core.settings.namespace
    }

    /// The channel on which a client is notified of what it has lost by force, up to its id; `}` follows the id.
    pub fn notice_prefix(&self) -> String {
        self.0.core.notice_prefix()
    }

    /// The lease of holds that are renewed.
    pub fn watchdog_lease(&self) -> Duration {
        self.0.core.settings.watchdog_lease
    }

    /// How durable grants are to be, where they do not ask for something else.
    pub fn durability(&self) -> Durability {
        self.0.core.settings.durability
    }

    /// How long a place in the queue of a fair lock outlives a silent process.
    pub fn fair_wait(&self) -> Duration {
        self.0.core.settings.fair_wait
    }

    /// How long a call may be without contact to the server: `timeout × (retries + 1)`.
    pub fn patience(&self) -> Duration {
        self.0.core.settings.patience()
    }

    /// How long one copy of a request has for its answer.
    pub fn timeout(&self) -> Duration {
        self.0.core.settings.timeout
    }

    /// The connection to the primary that decides for `key` at the moment; none while there is no contact. It is another one after
    /// each loss of contact, restart and failover: what was believed of the server before may not be so any more.
    pub fn epoch_of(&self, key: &[u8]) -> Option<ConnectionId> {
        self.0.core.topology.primary(key).current_connection_id()
    }

    /// The error of a bounded wait for `key` that is over: why there was no contact with its server for
    /// longer than the response timeout. `answered` is when the server last answered the waiter. `None` if
    /// there was contact, which a connection without an overdue answer is, too.
    pub fn out_of_contact(&self, key: &[u8], answered: Instant) -> Option<ServerError> {
        let core = self.core();
        let contact = core.contact(key).map_or(answered, |contact| contact.max(answered));
        (core.clock.now().since(contact) > core.settings.timeout).then(|| core.no_contact(key))
    }

    /// How often those who wait look by themselves.
    pub fn poll_interval(&self) -> Duration {
        self.0.core.settings.poll_interval
    }

    /// The clock that decides in this client.
    pub fn clock(&self) -> &Clock {
        &self.0.core.clock
    }

    /// Waits until every node has answered its handshake.
    ///
    /// # Errors
    ///
    /// [`NotReady::Unavailable`] when `within` is over; it says what stands in the way. It comes at
    /// once where waiting cannot help: the host name is unknown, or the target never answered and
    /// does not speak the expected protocol (TLS where the other side does not, HTTP).
    /// [`NotReady::Unauthorized`] as soon as a server refuses the client's password or certificate,
    /// or its own certificate is refused: waiting does not help then. Where a [credential
    /// provider](crate::config::CredentialProvider) has the password, the refusal has to last for
    /// `timeout`.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
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

    /// What stands in the way of servers that are not connected. One that is up and hangs is not in
    /// the way.
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

    /// Watches a channel, and the key beneath it.
    pub fn watch(&self, channel: Bytes, key: Bytes) -> crate::wait::Watch {
        self.0.core.hub.watch(channel, key)
    }

    /// Watches a channel in the slot of a key, and nothing beneath: who waits looks by itself, too.
    pub fn watch_only(&self, channel: Bytes, slot_of: &Bytes) -> crate::wait::Watch {
        self.0.core.hub.watch_for(channel, slot_of, Arc::default())
    }

    /// The same without a key beneath: for what need not have one while it is awaited.
    pub fn hear_only(&self, channels: impl IntoIterator<Item = Bytes>, slot_of: &Bytes) -> crate::wait::Hearing {
        self.0.core.hub.hear(channels, slot_of, false)
    }

    /// Hears `channels`, which are in the slot of `key`, in the order in which the server publishes to them, and polls whether
    /// the key is gone.
    pub fn hear(&self, channels: impl IntoIterator<Item = Bytes>, key: &Bytes) -> crate::wait::Hearing {
        self.0.core.hub.hear(channels, key, true)
    }

    /// The client without keeping it: for tasks that are to end with it.
    pub fn downgrade(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.0))
    }

    /// What all objects of this client with the same key share: made by the first, gone with the last that has it.
    pub fn shared<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T> {
        self.0.shared.get(key, make)
    }

    /// The same for what is to be remembered although nobody has it for a while: made by the first, gone with the client. It must not
    /// have a [`Client`] in it, which would never end then; a [`WeakClient`] it may.
    pub fn kept<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T> {
        self.0.kept.get(key, make)
    }

    /// Has the client's own task do it: it goes on although the caller leaves, and ends with the client at the latest. A
    /// shutdown waits for it, so it is to end when [`Client::closing`] completes.
    pub fn run_in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.table.spawn_background(Box::pin(work));
    }

    /// The slot of a key: names of one slot may go together in a script. The same for all where there are no slots.
    pub fn slot(&self, key: &[u8]) -> u16 {
        self.0.core.topology.slot(key)
    }

    /// What happens to the connections from now on: connected, lost, a primary replaced, the topology changed, subscriptions
    /// interrupted. Each receiver gets every event; it keeps up to 256 that were not taken yet.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_core::Client) {
    /// use redgrid_core::Event;
    ///
    /// let mut events = client.events();
    /// while let Some(event) = events.recv().await {
    ///     match event {
    ///         Event::Lost { node, why } => eprintln!("{node} is lost: {why}"),
    ///         Event::PrimaryChanged { from, to } => eprintln!("{to} instead of {from}"),
    ///         other => eprintln!("{other:?}"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn events(&self) -> EventReceiver {
        self.0.core.events.receiver()
    }

    /// How the client and its servers are: asks each node for a sign of life when awaited. It answers within `timeout` of
    /// the settings, or [`HealthCheck::within`], whatever the servers do.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_core::Client) {
    /// let health = client.health().within(std::time::Duration::from_millis(500)).await;
    /// if !health.is_ready() {
    ///     health.nodes.iter().for_each(|node| eprintln!("{}: {:?}", node.node, node.trouble));
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub fn health(&self) -> HealthCheck {
        HealthCheck::new(self.clone(), self.0.core.settings.timeout)
    }

    /// Who serves what, as the client knows it at the moment. Asks nobody.
    pub fn topology(&self) -> Deployment {
        Deployment::of(&*self.0.core.topology)
    }

    /// The sentinels that this client asks, those that others have named among them, with the login and the encryption that are
    /// set for them; none in other topologies. For questions about the deployment, as `redgrid doctor` has them.
    pub fn sentinels(&self) -> Vec<Arc<dyn Server>> {
        self.0.core.topology.sentinels()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    pub(super) fn closing_watch(&self) -> watch::Receiver<Closing> {
        self.0.closing.subscribe()
    }

    pub(crate) fn pools(&self) -> &Arc<Pools> {
        &self.0.pools
    }

    /// Whose turn it is to ask about a name what acts once.
    pub(crate) fn lanes(&self) -> &Lanes {
        &self.0.lanes
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.0.table
    }

    /// What the client has in hand at the moment, for tests and diagnosis.
    pub fn in_hand(&self) -> InHand {
        // One channel is the client's own, for notices.
        let channels = self.0.core.hub.channels().saturating_sub(1);
        let table = &self.0.table;
        let (names, permits, waiting) = self.0.pools.in_hand();
        InHand {
            names: table.names() + names,
            holds: table.holds() + permits,
            waiting: table.waiting() + waiting,
            channels,
        }
    }
}

/// A client that somebody else keeps: it ends as if this were not there.
#[derive(Clone)]
pub struct WeakClient(Weak<Inner>);

impl WeakClient {
    /// The client, unless it has gone.
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

/// What a client has in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InHand {
    /// Names that are held, awaited or being given back.
    pub names: usize,
    /// Holds that are believed, and permits.
    pub holds: usize,
    /// Requests that wait in this process.
    pub waiting: usize,
    /// Channels that waiters watch.
    pub channels: usize,
}

/// A client that could not be started.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration can not work.
    #[error("the configuration can not work")]
    Config(#[from] ConfigError),
    /// The client below could not be built.
    #[error("the client could not be built")]
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
    #[error("not every server answered within {waited:?}")]
    Unavailable {
        /// How long was waited.
        waited: Duration,
        /// What stands in the way.
        #[source]
        source: ServerError,
    },
    /// A server does not accept the password, the user or the certificate of this client, or its
    /// own certificate is not accepted. The client goes on trying, in case that is mended.
    #[error("a server refuses this client, or its certificate is refused")]
    Unauthorized {
        /// The words of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client was shut down.
    #[error("the client is shut down")]
    ShuttingDown,
}
