//! How a server is reached: where it listens, and what it is shown there.

use std::fmt;
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::encryption::Encryption;
use super::login::Logins;
use crate::config::{Address, Config, ConfigError, Network, Secret, Sentinel, Settings};

/// The way to one server.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) place: Endpoint,
    pub(super) entry: ConnectOptions,
    /// Why it does not speak RESP3, in its words, once a connection has found out. All connections to it share this.
    pub(super) without_resp3: Arc<OnceLock<String>>,
}

impl Target {
    pub(super) fn new(place: Endpoint, entry: ConnectOptions) -> Self {
        Target { place, entry, without_resp3: Arc::default() }
    }
}

/// Where a server listens.
#[derive(Clone)]
pub(super) enum Endpoint {
    Tcp(Address),
    /// A socket of this machine.
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

/// What the servers of one kind are shown.
#[derive(Clone)]
pub(super) struct ConnectOptions {
    pub(super) username: Option<String>,
    pub(super) password: Option<Secret>,
    /// Who has the two above, where they change.
    pub(super) logins: Option<Arc<Logins>>,
    pub(super) database: u8,
    pub(super) encryption: Option<Encryption>,
    /// How connections are opened.
    pub(super) network: Arc<Network>,
}

impl ConnectOptions {
    /// That of the servers with the data. Certificates are read now.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the file that is missing or bad.
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

    /// That of sentinels: a login of their own, the same certificates, and no databases.
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
