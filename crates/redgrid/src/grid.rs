//! [`Grid`]: a client with a method for each kind of object. Each group of kinds has a file in
//! `grid/`.

#[cfg(feature = "barrier")]
mod barriers;
#[cfg(any(feature = "bits", feature = "geo"))]
mod bits;
#[cfg(feature = "cache")]
mod caches;
#[cfg(any(feature = "list", feature = "stream"))]
mod lists;
#[cfg(feature = "locks")]
mod locks;
#[cfg(any(feature = "map", feature = "local-cached-map"))]
mod maps;
#[cfg(feature = "multimap")]
mod multimaps;
#[cfg(any(feature = "atomic-long", feature = "id-generator", feature = "rate-limiter"))]
mod numbers;
#[cfg(any(feature = "semaphore", feature = "permit-expirable-semaphore", feature = "countdown-latch"))]
mod permits;
#[cfg(feature = "queue")]
mod queues;
#[cfg(feature = "reliable-queue")]
mod reliable;
#[cfg(any(feature = "script", feature = "transaction"))]
mod scripts;
#[cfg(feature = "set")]
mod sets;
#[cfg(feature = "sharded")]
mod sharded;
#[cfg(feature = "topic")]
mod topics;
#[cfg(any(feature = "bucket", feature = "keys"))]
mod values;

use std::time::Duration;

use redgrid_core::{Client, Command, Config, ConnectError, IntoArg, NotClosed, NotReady};

/// A client with a method for every kind of object.
///
/// One `Grid` per process is enough: it owns the connections, and the state of everything that is
/// held and awaited. It is cheap to clone; clones share the client. Calls from many tasks share its
/// connections.
///
/// A method such as [`Grid::lock`] returns a handle. It sends no request and cannot fail: an
/// invalid name is reported by the first call of the handle.
///
/// For an object with values there are two methods. [`Grid::map`] encodes values as JSON and needs
/// the feature `json`; [`Grid::map_with`] takes any [codec](crate::codecs). All users of a name
/// must use the same codec.
///
/// ```no_run
/// use std::time::Duration;
/// use redgrid::Grid;
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let grid = Grid::connect("redis://127.0.0.1:6379").await?;
///     let guard = grid.lock("lock:report").acquire().await?;
///     // … the work that only one process may do …
///     guard.release().await?;
///     grid.shutdown(Duration::from_secs(5)).await?; // releases what is still held
///     Ok(())
/// }
/// ```
#[doc(alias = "RedissonClient")]
#[derive(Clone, Debug)]
pub struct Grid {
    client: Client,
}

impl Grid {
    /// Starts a client from a URL or a [`Config`], without waiting for a server.
    ///
    /// Calls wait for the connection within their own timeouts, so a service may start before its
    /// server. [`Grid::wait_ready`] waits explicitly.
    ///
    /// It must be called inside a Tokio runtime, in which its connections and tasks run. After that
    /// runtime has ended, every call fails with an error that states this.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::{Config, Grid};
    ///
    /// let one = Grid::connect("redis://:secret@127.0.0.1:6379/0").await?;
    /// let cluster = Grid::connect(Config::cluster(["10.0.0.1:7000", "10.0.0.2:7000"])?).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if the configuration is invalid, or a certificate file that it names cannot
    /// be used.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no client is started.
    pub async fn connect<C>(config: C) -> Result<Grid, ConnectError>
    where
        C: TryInto<Config>,
        ConnectError: From<C::Error>,
    {
        Ok(Grid { client: Client::connect(config).await? })
    }

    /// Returns the objects of an existing client.
    pub fn new(client: Client) -> Self {
        Grid { client }
    }

    /// Returns the client, for commands, events and health.
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) {
    /// let health = grid.client().health().await; // for a readiness probe
    /// println!("ready: {}, {} holds", health.is_ready(), health.held);
    /// # }
    /// ```
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns an object of any kind by its name: existence, lifetime, deletion, other names. See
    /// [`Object`](redgrid_core::object::Object).
    ///
    /// It includes only the key with that name. The method `object()` of a typed handle, such as a
    /// lock, includes all keys of the object.
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let cart = grid.object("cart:42");
    /// if cart.exists().await? {
    ///     cart.expire_in(Duration::from_secs(3600)).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn object(&self, name: impl AsRef<str>) -> redgrid_core::object::Object {
        redgrid_core::object::Object::new(&self.client, name)
    }

    /// Listens to the events of all objects with names that match `pattern`. See
    /// [`Listen`](redgrid_core::object::events::Listen).
    ///
    /// The servers must publish these events, which requires the setting `notify-keyspace-events`;
    /// [`Listen::enable`](redgrid_core::object::events::Listen::enable) sets it.
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::object::events::{Kind, Notice};
    ///
    /// let mut expired = grid.events_of("cart:*", Kind::Expired).await?;
    /// while let Some(notice) = expired.next().await {
    ///     match notice {
    ///         Notice::Event(event) => println!("{} has expired", event.name),
    ///         other => println!("events may be missing: {other:?}"),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    #[doc(alias = "addListener")]
    pub fn events_of(
        &self,
        pattern: impl Into<String>,
        kinds: impl Into<redgrid_core::object::events::Kinds>,
    ) -> redgrid_core::object::events::Listen {
        redgrid_core::object::events::Listen::to(&self.client, pattern, kinds)
    }

    /// Returns a command of any kind. See [`Client::command`].
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let hits: i64 = grid.command("INCRBY").key("hits")?.arg("2").query().await?;
    /// # Ok(()) }
    /// ```
    pub fn command(&self, name: impl IntoArg) -> Command {
        self.client.command(name)
    }

    /// Waits until every server has replied. See [`Client::wait_ready`].
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// grid.wait_ready(Duration::from_secs(5)).await?; // a wrong password fails at once
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotReady`] with the cause, if `within` passed first. It is returned early if waiting
    /// cannot help: a refused password or certificate, an unknown host name, another protocol.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn wait_ready(&self, within: Duration) -> Result<(), NotReady> {
        self.client.wait_ready(within).await
    }

    /// Releases everything that is held, and closes the connections. See [`Client::shutdown`].
    ///
    /// Call it before the end of `main`. Without it, locks and permits are released in the
    /// background. If the process ends before that, they end with their leases.
    ///
    /// ```no_run
    /// # async fn example(grid: redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// grid.shutdown(Duration::from_secs(5)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotClosed`] if `within` passed before everything was released. The rest ends with its
    /// leases.
    ///
    /// # Cancel safety
    ///
    /// The shutdown continues if the future is dropped.
    pub async fn shutdown(&self, within: Duration) -> Result<(), NotClosed> {
        self.client.shutdown(within).await
    }
}

impl From<Client> for Grid {
    fn from(client: Client) -> Self {
        Grid::new(client)
    }
}
