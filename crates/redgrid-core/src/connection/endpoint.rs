//! How a server is reached: its address, credentials and encryption, and all connections to it.

use std::fmt;
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::future::join_all;

use super::encryption::Encryption;
use super::link::{Connection, Handshake};
use super::login::Logins;
use super::pool::PoolMember;
use crate::clock::Clock;
use crate::config::{Address, Config, ConfigError, Network, Secret, Sentinel, Settings};

/// The address of one server, and how to connect to it.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) place: Endpoint,
    pub(super) entry: ConnectOptions,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    /// Why the server does not speak RESP3, in its own message, once a connection has found out.
    ///
    /// Shared by all connections to the server.
    pub(super) without_resp3: Arc<OnceLock<String>>,
}

/// All connections to one server. They are opened as needed, and closed together.
pub(super) struct Connections {
    pub(super) target: Arc<Target>,
    /// `None` once closed.
    open: Mutex<Option<Vec<Arc<Connection>>>>,
}

impl Connections {
    pub(super) fn new(target: Target) -> Arc<Self> {
        Arc::new(Connections { target: Arc::new(target), open: Mutex::new(Some(Vec::new())) })
    }

    /// Opens a connection named `<client name>:<suffix>`. Once they are closed, it is closed, too.
    pub(super) fn open(&self, suffix: &str, greeting: Handshake) -> Arc<Connection> {
        let name = format!("{}:{suffix}", self.target.settings.client_name);
        self.open_to(&self.target, name, greeting, None)
    }

    /// Opens a connection of a pool.
    pub(super) fn open_member(&self, greeting: Handshake, member: PoolMember) -> Arc<Connection> {
        self.open_to(&self.target, self.target.settings.client_name.clone(), greeting, Some(member))
    }

    /// Opens a connection with other settings.
    pub(super) fn open_to(
        &self,
        target: &Arc<Target>,
        name: String,
        greeting: Handshake,
        member: Option<PoolMember>,
    ) -> Arc<Connection> {
        let connection = Connection::open(target, name, greeting, member);
        match &mut *self.open.lock().unwrap_or_else(|p| p.into_inner()) {
            Some(open) => open.push(Arc::clone(&connection)),
            None => connection.close(),
        }
        connection
    }

    /// Signals all connections to close; no further one is opened. Returns those that were open.
    pub(super) fn stop(&self) -> Vec<Arc<Connection>> {
        let open = self.open.lock().unwrap_or_else(|p| p.into_inner()).take().unwrap_or_default();
        open.iter().for_each(|connection| connection.close());
        open
    }

    /// Closes all connections.
    pub(super) async fn close(&self) {
        join_all(self.stop().iter().map(|connection| connection.ended())).await;
    }
}

/// The address of a server.
#[derive(Clone)]
pub(super) enum Endpoint {
    Tcp(Address),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            #[cfg(unix)]
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Credentials and connection settings for the servers of one kind.
#[derive(Clone)]
pub(super) struct ConnectOptions {
    pub(super) username: Option<String>,
    pub(super) password: Option<Secret>,
    /// The credential provider, if username and password change.
    pub(super) logins: Option<Arc<Logins>>,
    pub(super) database: u8,
    pub(super) encryption: Option<Encryption>,
    /// How connections are opened.
    pub(super) network: Arc<Network>,
}

impl ConnectOptions {
    /// Returns the options of the data servers. Certificates are read now.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the file that is missing or invalid.
    pub(super) fn of(config: &Config) -> Result<ConnectOptions, ConfigError> {
        let (access, settings) = (config.access.clone(), &config.settings);
        Ok(ConnectOptions {
            username: access.username,
            password: access.password,
            logins: access.provider.map(|provider| Arc::new(Logins::new(provider, settings))),
            database: access.database,
            encryption: Encryption::of(config)?,
            network: Arc::new(config.network.clone()),
        })
    }

    /// Returns the options of sentinels: separate credentials, the same certificates, and database
    /// 0.
    pub(super) fn at_sentinels(&self, sentinel: &Sentinel, settings: &Settings) -> ConnectOptions {
        let provider = sentinel.provider.clone();
        ConnectOptions {
            username: sentinel.username.clone(),
            password: sentinel.password.clone(),
            logins: provider.map(|provider| Arc::new(Logins::new(provider, settings))),
            database: 0,
            encryption: self.encryption.clone(),
            network: Arc::clone(&self.network),
        }
    }
}
