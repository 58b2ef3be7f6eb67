//! The client that users hold: it owns the connections, the holds and the tasks behind them.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use uuid::Uuid;

use super::core::{Closing, Core, FAREWELL, follow, hear, ready, run};
use super::events::{EventReceiver, Events};
use super::exchange::{Persistence, Progress};
use super::health::HealthCheck;
use super::shared::{Kept, Shared};
use super::{Command, Deployment, Epoch, FromReply, Request, Server, Topology, topology};
use crate::clock::{Clock, Instant};
use crate::config::{Config, ConfigError, Durability, Settings};
use crate::error::{Code, ServerError};
use crate::hold::{AcquireError, AttachError, DetachedHold, HoldKind, HolderId, Table, Target, Ticket, Wish};
use crate::name::{Name, Namespace};
use crate::observe::{About, Done, Observed, count};
use crate::once::Lanes;
use crate::permits::Pools;
use crate::seat::Seats;
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
    closing: watch::Sender<Closing>,
    closed: watch::Receiver<bool>,
}

impl Client {
    /// Starts a client. It does not wait for a server: calls wait for the connection within their own time, and
    /// [`Client::wait_ready`] waits for it explicitly. Must be called inside a tokio runtime.
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
        let core = Arc::new(Core { id, clock, settings, database, topology, hub, events, seats, tasks });
        let (table, work) = Table::new(Arc::clone(&core));
        core.tasks().push(tokio::spawn(hear(core.hub.listen(core.notices()), Arc::clone(&table))));
        core.tasks().push(tokio::spawn(Arc::clone(&table).run_engine()));
        let pools = Pools::new(&core, table.work());
        core.tasks().push(tokio::spawn(follow(Arc::clone(&core), Arc::clone(&table), Arc::clone(&pools))));
        let (closing, watched) = watch::channel(Closing::No);
        let (done, closed) = watch::channel(false);
        tokio::spawn(run(Arc::clone(&core), (Arc::clone(&table), Arc::clone(&pools)), work, watched, done));
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
    pub fn epoch_of(&self, key: &[u8]) -> Option<Epoch> {
        self.0.core.topology.primary(key).epoch().borrow().clone()
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
    /// [`NotReady`] when `within` is over; it says what stands in the way.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn wait_ready(&self, within: Duration) -> Result<(), NotReady> {
        match tokio::time::timeout(within, ready(&*self.0.core.topology)).await {
            Ok(()) => Ok(()),
            Err(_) => {
                let mut why = ServerError::not_sent("not connected");
                // Those that are down say why at once; one that is up and hangs is not in the way.
                let down = |server: &Arc<dyn Server>| server.epoch().borrow().is_none();
                for server in self.0.core.topology.primaries().into_iter().filter(down) {
                    let answer = server.call(vec![Request::command("PING")]).await.pop();
                    if let Some(Err(error)) = answer {
                        why = error;
                    }
                }
                Err(NotReady { within, source: why })
            }
        }
    }

    /// A command of any kind, key by key and argument by argument.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_core::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// client.command("SET").key("greeting")?.arg("hello").query::<()>().await?;
    /// let text: Option<String> = client.command("GET").key("greeting")?.query().await?;
    /// # Ok(()) }
    /// ```
    pub fn command(&self, name: impl Into<Bytes>) -> Command {
        Command { client: self.clone(), request: Request::command(name) }
    }

    /// Carries out a request, a script call above all, and reads its reply as `T`.
    ///
    /// Without contact it is tried again until `timeout × (retries + 1)` is over; after a lost reply only if the request is
    /// [`idempotent`](Request::idempotent).
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been carried out.
    ///
    /// # Cancel safety
    ///
    /// A request that has left is carried out although nobody waits for its reply.
    pub async fn run<T: FromReply>(&self, request: Request) -> Result<T, ServerError> {
        self.run_until(request, self.clock().now() + self.patience()).await
    }

    /// The same, tried until `until`.
    ///
    /// # Errors
    ///
    /// As [`Client::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Client::run`].
    pub async fn run_until<T: FromReply>(&self, request: Request, until: Instant) -> Result<T, ServerError> {
        self.run_with(request, until, Persistence::Retries).await
    }

    /// The same for a request of several keys whose caller can do with fewer: keys on both sides of a slot's migration are told as
    /// [`Code::TryAgain`](crate::Code::TryAgain) at once, where [`Client::run`] asks again. After a lost reply an idempotent one is sent
    /// again until its time is over; any other is sent once.
    ///
    /// # Errors
    ///
    /// As [`Client::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Client::run`].
    pub async fn run_undivided<T: FromReply>(&self, request: Request) -> Result<T, ServerError> {
        self.run_with(request, self.clock().now() + self.patience(), Persistence::Together).await
    }

    async fn run_with<T: FromReply>(
        &self,
        request: Request,
        until: Instant,
        persistence: Persistence,
    ) -> Result<T, ServerError> {
        let core = &self.0.core;
        if self.0.table.is_closed() {
            return Err(ServerError::not_sent("the client is shut down"));
        }
        if core.clock.now() >= until {
            return Err(ServerError::not_sent("its time was over before it left"));
        }
        let progress = Progress::default();
        let work = core.exchange(request, until, persistence, &progress);
        let answer = tokio::select! {
            biased;
            asked = work => match asked.result {
                // Of the last copy this is true; an earlier one may have been carried out.
                Err(error) if asked.unanswered_until.is_some() && is_of_one_copy(&error, persistence) =>
                {
                    Err(ServerError::unknown(format!("an earlier copy may have been carried out; then {error}")))
                }
                result => result,
            },
            () = core.clock.sleep_until(until) => Err(progress.at_the_end()),
        };
        answer.and_then(FromReply::from_reply)
    }

    /// Has a request sent once in the background, by who can not wait, as in a `Drop`. Nobody is told what becomes of it.
    pub fn run_later(&self, request: Request) {
        self.0.table.run_later(request);
    }

    /// Completes when the client begins to shut down: for those who wait on something else than the client.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn shutting_down(&self) {
        let mut closing = self.0.closing.subscribe();
        // Its sender lives as long as this client.
        let _ = closing.wait_for(|closing| *closing != Closing::No).await;
    }

    /// Whether the client has begun to shut down, and refuses requests.
    pub fn is_shut_down(&self) -> bool {
        self.0.table.is_closed() || *self.0.closing.borrow() != Closing::No
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
        self.0.table.hand_over(Box::pin(work));
    }

    /// Completes when the client is being shut down.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn closing(&self) {
        // It can not have gone: `self` has it.
        let _ = self.0.closing.subscribe().wait_for(|closing| *closing != Closing::No).await;
    }

    /// Asks for a hold: the way of every lock-like object.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] where it is clear at once that it can not be had.
    pub fn enter(&self, kind: &'static dyn HoldKind, target: &Arc<Target>, wish: Wish) -> Result<Ticket, AcquireError> {
        let entered = self.0.table.enter(self, kind, target, wish);
        // Looked at in its place: a ticket is large, and each acquire has one.
        if let Err(error) = &entered {
            count::refused(kind.name(), error.outcome(), Duration::ZERO);
        }
        entered
    }

    /// Whether the holder has what [`Client::enter`] asks for, or the kind beside it: then it does not stand behind others.
    pub fn is_in(&self, kind: &'static dyn HoldKind, target: &Arc<Target>, holder: Option<HolderId>) -> bool {
        holder.is_some_and(|holder| self.0.table.is_in(kind, target, holder))
    }

    /// Takes all of `targets` or none, by one look: none is waited for. They share a kind and a slot
    /// ([`Client::slot`]), and are several only where the kind takes many together. Given up at `until`.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then, of the names together.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, what is granted goes back in the background.
    pub async fn take_all(
        &self,
        kind: &'static dyn HoldKind,
        targets: Vec<Arc<Target>>,
        wish: Wish,
        until: crate::clock::Instant,
    ) -> Result<crate::hold::Many, AcquireError> {
        self.0.table.take_all(self, kind, targets, wish, until).await
    }

    /// The slot of a key: names of one slot may go together in a script. The same for all where there are no slots.
    pub fn slot(&self, key: &[u8]) -> u16 {
        self.0.core.topology.slot(key)
    }

    /// Takes a name by force: its holders are told that they have lost it. `None` where it was free and `only_if_held`.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the name may be taken for a moment and is given back in the background.
    pub async fn seize(
        &self,
        kind: &'static dyn HoldKind,
        target: &Arc<Target>,
        wish: Wish,
        only_if_held: bool,
    ) -> Result<Option<crate::hold::Grant>, AcquireError> {
        let observed = Observed::force(About { kind: kind.name(), name: &target.name }, only_if_held);
        observed.around(self.0.table.seize(self, kind, target, wish, only_if_held)).await
    }

    /// Takes over a hold that another process has detached.
    ///
    /// # Errors
    ///
    /// [`AttachError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the hold may be taken over and is given back in the background.
    pub async fn attach(
        &self,
        kind: &'static dyn HoldKind,
        target: &Arc<Target>,
        detached: DetachedHold,
    ) -> Result<crate::hold::Grant, AttachError> {
        self.0.table.attach(self, kind, target, detached, self.durability()).await
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

    /// Refuses new requests, wakes those who wait, gives back all holds in bulk, and closes the connections.
    ///
    /// # Errors
    ///
    /// [`NotClosed`] when `within` was over before everything was given back; leases end the rest.
    ///
    /// # Cancel safety
    ///
    /// The shutdown goes on when this is dropped.
    pub async fn shutdown(&self, within: Duration) -> Result<(), NotClosed> {
        let by = self.0.core.clock.now() + within;
        self.0.closing.send_if_modified(|closing| {
            let first = *closing == Closing::No;
            if first {
                *closing = Closing::By(by);
            }
            first
        });
        let mut closed = self.0.closed.clone();
        // The task always ends; that it is gone means that all is closed.
        match closed.wait_for(|closed| *closed).await {
            Ok(_) => Ok(()),
            Err(_) => Err(NotClosed { within }),
        }
    }
}

/// Whether an error says nothing about other copies of its request. Where keys are on both sides of a migration the caller asks for
/// fewer of them, whatever became of those.
fn is_of_one_copy(error: &ServerError, persistence: Persistence) -> bool {
    match error {
        ServerError::Refused { code: Code::TryAgain, .. } => persistence != Persistence::Together,
        ServerError::NotSent { .. } | ServerError::Refused { .. } => true,
        ServerError::Unknown { .. } | ServerError::Decode { .. } => false,
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

    /// Completes when the client is being shut down, or has gone.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn closing(&self) {
        let closing = self.0.upgrade().map(|inner| inner.closing.subscribe());
        if let Some(mut closing) = closing {
            // Without a sender the client has gone.
            let _ = closing.wait_for(|closing| *closing != Closing::No).await;
        }
    }
}

impl fmt::Debug for WeakClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakClient").finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let by = self.core.clock.now() + FAREWELL;
        self.closing.send_if_modified(|closing| {
            let first = *closing == Closing::No;
            if first {
                *closing = Closing::By(by);
            }
            first
        });
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

/// No connection in time.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not every server answered within {within:?}")]
pub struct NotReady {
    /// How long was waited.
    pub within: Duration,
    /// What stands in the way.
    #[source]
    pub source: ServerError,
}

/// Not everything was given back in time.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not everything was given back within {within:?}; leases end the rest")]
pub struct NotClosed {
    /// How long was waited.
    pub within: Duration,
}
