//! One client of fred for one connection, with the settings that leave everything to us.

use std::net::SocketAddr;
use std::sync::Arc;

use fred::clients::Client as Fred;
use fred::prelude::{Builder, Error as FredError, Server as FredServer, ServerConfig};
use fred::types::RespVersion;
use fred::types::config::{Config as FredConfig, CredentialProvider, ReconnectPolicy, TcpConfig};

use super::LONGEST_QUEUE;
use crate::config::Settings;
use crate::connection::dial::reach;
use crate::connection::encryption::Encryption;
use crate::connection::login::{Login, as_word};
use crate::connection::way::{Place, Way};

/// When fred would connect again by itself: after a minute, and by then its task has been ended. Without
/// a policy it would keep requests that come after the loss, and answer none.
const NEVER_MS: u32 = 60_000;

/// What the clients of fred for one connection are built from.
///
/// fred never connects again by itself, and a client of it has one [`Target`]. Where that is still the
/// right one the client is used again: it has 5 MB of room for messages.
pub(super) struct Blueprint {
    pub(super) way: Way,
    pub(super) login: Option<Arc<Login>>,
    pub(super) settings: Settings,
    /// Messages that may wait to be read.
    pub(super) news: usize,
}

/// What a client of fred cannot change later: another target needs another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) struct Target {
    /// The address to connect to; `None` for a socket of this machine.
    pub(in crate::connection) at: Option<SocketAddr>,
    /// Which certificates are used, by their number.
    certificates: u64,
}

impl Blueprint {
    /// Finds the target of the next connection: resolves the host name, and reads certificates again.
    ///
    /// # Errors
    ///
    /// In words for users.
    pub(super) async fn find(&self) -> Result<Target, String> {
        let limit = self.settings.connect_timeout;
        let at = match &self.way.place {
            Place::Tcp(address) => {
                let network = &self.way.entry.network;
                Some(reach(network.mapped(address), network, limit).await?)
            }
            #[cfg(unix)]
            Place::Unix(_) => None,
        };
        if let Some(encryption) = &self.way.entry.encryption {
            // Files that cannot be read in time are used by a later connection.
            let _ = tokio::time::timeout(limit, encryption.refresh()).await;
        }
        Ok(self.target(at))
    }

    /// The target of all connections so far as it is known before anything is looked up.
    pub(super) fn known(&self) -> Target {
        self.target(self.fixed_address())
    }

    fn target(&self, at: Option<SocketAddr>) -> Target {
        let certificates = self.way.entry.encryption.as_ref().map_or(0, Encryption::generation);
        Target { at, certificates }
    }

    /// Where all connections lead, if nothing has to be found out for that.
    fn fixed_address(&self) -> Option<SocketAddr> {
        let Place::Tcp(address) = &self.way.place else { return None };
        let network = &self.way.entry.network;
        if network.dialer.is_some() || network.socks.is_some() {
            return None;
        }
        let address = network.mapped(address);
        Some(SocketAddr::new(address.host.parse().ok()?, address.port))
    }

    /// A client for this target; one that never connects needs no address.
    pub(super) fn build(&self, target: Target) -> Result<Fred, FredError> {
        let Blueprint { way, login, settings, news } = self;
        build(way, target.at, login.clone(), settings, *news)
    }
}

fn build(
    way: &Way,
    at: Option<SocketAddr>,
    login: Option<Arc<Login>>,
    settings: &Settings,
    news: usize,
) -> Result<Fred, FredError> {
    let Way { place, entry } = way;
    let at = at.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    let server = match (place, &entry.encryption) {
        (Place::Tcp(address), Some(encryption)) => {
            ServerConfig::Centralized { server: encryption.server(entry.network.mapped(address), at) }
        }
        (Place::Tcp(_), None) => ServerConfig::Centralized { server: FredServer::new(at.ip().to_string(), at.port()) },
        #[cfg(unix)]
        (Place::Unix(path), _) => ServerConfig::Unix { path: path.clone() },
    };
    // The provider has a time of its own before the login.
    let setup = if login.is_some() { settings.connect_timeout * 2 } else { settings.connect_timeout };
    let mut config = FredConfig {
        server,
        username: entry.username.as_deref().map(as_word),
        password: entry.password.as_ref().map(|secret| as_word(secret.reveal())),
        credential_provider: login.map(|login| login as Arc<dyn CredentialProvider>),
        database: (entry.database != 0).then_some(entry.database),
        version: RespVersion::RESP3,
        fail_fast: true,
        ..FredConfig::default()
    };
    if let Some(encryption) = &entry.encryption {
        encryption.set_up(&mut config);
    }
    Builder::from_config(config)
        .set_policy(ReconnectPolicy::new_constant(0, NEVER_MS))
        .with_performance_config(|performance| {
            performance.default_command_timeout = settings.timeout;
            performance.broadcast_channel_capacity = news;
        })
        .with_connection_config(|connection| {
            // Sent once: a re-sent script is a second execution that nobody asked for.
            connection.max_command_attempts = 1;
            connection.max_redirections = 0;
            connection.connection_timeout = settings.connect_timeout;
            connection.internal_command_timeout = setup;
            connection.max_command_buffer_len = LONGEST_QUEUE;
            connection.reconnect_on_auth_error = false;
            connection.auto_client_setname = false;
            connection.tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
        })
        .build()
}
