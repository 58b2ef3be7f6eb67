//! How a server is reached: its address, and the credentials and encryption to use there.

use std::fmt;
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::encryption::Encryption;
use super::login::Logins;
use crate::config::{Address, Config, ConfigError, Network, Secret, Sentinel, Settings};

/// The address of one server, and how to connect to it.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) place: Endpoint,
    pub(super) entry: ConnectOptions,
    /// Why the server does not speak RESP3, in its own message, once a connection has found out.
    ///
    /// Shared by all connections to the server.
    pub(super) without_resp3: Arc<OnceLock<String>>,
}

impl Target {
    pub(super) fn new(place: Endpoint, entry: ConnectOptions) -> Self {
        Target { place, entry, without_resp3: Arc::default() }
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

impl From<&Address> for Endpoint {
    fn from(address: &Address) -> Self {
        Endpoint::Tcp(address.clone())
    }
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
