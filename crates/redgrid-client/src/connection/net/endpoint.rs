//! The address, credentials and encryption of a server, and the registry of all connections to it.

use std::fmt;
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use futures_util::future::join_all;

use crate::clock::Clock;
use crate::config::{Address, Config, ConfigError, Network, Secret, Sentinel, Settings};
use crate::connection::encryption::Encryption;
use crate::connection::link::{Connection, Handshake};
use crate::connection::login::Logins;
use crate::connection::pool::PoolMember;
use crate::sync::Mutex;

/// The address of one server, and how to connect to it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) place: Endpoint,
    pub(crate) entry: ConnectOptions,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    /// The message for a server that speaks only RESP2; it includes the server's error. It is set
    /// when a connection first finds that the server rejects RESP3.
    ///
    /// All connections to the server share this value.
    pub(crate) without_resp3: Arc<OnceLock<String>>,
}

/// All connections to one server. They are opened as needed, and closed together.
pub(crate) struct Connections {
    pub(crate) target: Arc<Target>,
    /// `None` after [`Connections::stop`].
    open: Mutex<Option<Vec<Arc<Connection>>>>,
}

impl Connections {
    pub(crate) fn new(target: Target) -> Arc<Self> {
        Arc::new(Connections { target: Arc::new(target), open: Mutex::new(Some(Vec::new())) })
    }

    /// Opens a connection named `<client name>:<suffix>`. After [`Connections::stop`], the new
    /// connection is closed at once.
    pub(crate) fn open(&self, suffix: &str, greeting: Handshake) -> Arc<Connection> {
        let name = format!("{}:{suffix}", self.target.settings.client_name);
        self.open_to(&self.target, name, greeting, None)
    }

    pub(crate) fn open_member(&self, greeting: Handshake, member: PoolMember) -> Arc<Connection> {
        self.open_to(&self.target, self.target.settings.client_name.clone(), greeting, Some(member))
    }

    /// Opens a connection to `target`, which may have other settings than [`Connections::target`].
    pub(crate) fn open_to(
        &self,
        target: &Arc<Target>,
        name: String,
        greeting: Handshake,
        member: Option<PoolMember>,
    ) -> Arc<Connection> {
        let connection = Connection::open(target, name, greeting, member);
        match &mut *self.open.lock() {
            Some(open) => open.push(Arc::clone(&connection)),
            None => connection.close(),
        }
        connection
    }

    /// Signals all connections to close, and returns them. Connections that are opened later are
    /// closed at once.
    pub(crate) fn stop(&self) -> Vec<Arc<Connection>> {
        let open = self.open.lock().take().unwrap_or_default();
        open.iter().for_each(|connection| connection.close());
        open
    }

    pub(crate) async fn close(&self) {
        join_all(self.stop().iter().map(|connection| connection.ended())).await;
    }
}

/// The address of a server.
#[derive(Clone)]
pub(crate) enum Endpoint {
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

/// Credentials and connection settings, either for the data servers or for the sentinels.
#[derive(Clone)]
pub(crate) struct ConnectOptions {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    /// The credential provider, if there is one. It then replaces `username` and `password`.
    pub(crate) logins: Option<Arc<Logins>>,
    pub(crate) database: u8,
    pub(crate) encryption: Option<Arc<Encryption>>,
    pub(crate) network: Arc<Network>,
}

impl ConnectOptions {
    /// Returns the options for the data servers. This function reads the certificate files.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the file that is missing or invalid.
    pub(crate) fn of(config: &Config) -> Result<ConnectOptions, ConfigError> {
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

    /// Returns the options for sentinels: separate credentials, the same certificates, and database
    /// 0.
    pub(crate) fn at_sentinels(&self, sentinel: &Sentinel, settings: &Settings) -> ConnectOptions {
        let provider = sentinel.provider.clone();
        ConnectOptions {
            username: sentinel.username.clone(),
            password: sentinel.password.clone(),
            logins: provider.map(|provider| Arc::new(Logins::new(provider, settings))),
            database: 0,
            ..self.clone()
        }
    }
}
