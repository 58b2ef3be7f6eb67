//! Every object as a method of one value: here what is of all of them, in the files beside it each kind.

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

/// One client, and every kind of object on it. Cheap to clone.
#[doc(alias = "RedissonClient")]
#[derive(Clone, Debug)]
pub struct Grid {
    client: Client,
}

impl Grid {
    /// Starts a client from a URL or a [`Config`]. It does not wait for the server: calls do, within their own time.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the configuration can not work.
    pub async fn connect<C>(config: C) -> Result<Grid, ConnectError>
    where
        C: TryInto<Config>,
        ConnectError: From<C::Error>,
    {
        Ok(Grid { client: Client::connect(config).await? })
    }

    /// The objects on a client that is there already.
    pub fn new(client: Client) -> Self {
        Grid { client }
    }

    /// The client beneath.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What any object has, under its name: whether it is there, its lifetime, other names. See [`Object`](redgrid_core::object::Object).
    pub fn object(&self, name: impl AsRef<str>) -> redgrid_core::object::Object {
        redgrid_core::object::Object::new(&self.client, name)
    }

    /// What happens to all whose names are of a pattern. See [`Listen`](redgrid_core::object::events::Listen).
    #[doc(alias = "addListener")]
    pub fn events_of(
        &self,
        pattern: impl Into<String>,
        kinds: impl Into<redgrid_core::object::events::Kinds>,
    ) -> redgrid_core::object::events::Listen {
        redgrid_core::object::events::Listen::to(&self.client, pattern, kinds)
    }

    /// A command of any kind. See [`Client::command`].
    pub fn command(&self, name: impl IntoArg) -> Command {
        self.client.command(name)
    }

    /// Waits until the server has answered. See [`Client::wait_ready`].
    ///
    /// # Errors
    ///
    /// [`NotReady`] when `within` is over; it says what stands in the way.
    pub async fn wait_ready(&self, within: Duration) -> Result<(), NotReady> {
        self.client.wait_ready(within).await
    }

    /// Gives back everything that is held, at once, and closes. See [`Client::shutdown`].
    ///
    /// # Errors
    ///
    /// [`NotClosed`] when `within` was over before everything was given back; leases end the rest.
    pub async fn shutdown(&self, within: Duration) -> Result<(), NotClosed> {
        self.client.shutdown(within).await
    }
}

impl From<Client> for Grid {
    fn from(client: Client) -> Self {
        Grid::new(client)
    }
}
