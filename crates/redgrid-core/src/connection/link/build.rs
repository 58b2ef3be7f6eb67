//! One client of fred for one connection, with the settings that leave everything to us.

use std::sync::Arc;

use fred::clients::Client as Fred;
use fred::prelude::{Builder, Error as FredError, Server as FredServer, ServerConfig};
use fred::types::RespVersion;
use fred::types::config::{Config as FredConfig, CredentialProvider, ReconnectPolicy, TcpConfig};

use super::{LONGEST_QUEUE, RECONNECT};
use crate::config::Settings;
use crate::connection::login::{Login, as_word};
use crate::connection::way::{Place, Way};

pub(super) fn build(way: &Way, login: Option<Arc<Login>>, settings: &Settings, news: usize) -> Result<Fred, FredError> {
    let Way { place, entry } = way;
    let server = match (place, &entry.encryption) {
        (Place::Tcp(address), Some(encryption)) => ServerConfig::Centralized { server: encryption.server(address) },
        (Place::Tcp(address), None) => {
            ServerConfig::Centralized { server: FredServer::new(address.host.clone(), address.port) }
        }
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
    let mut policy = ReconnectPolicy::new_exponential(0, RECONNECT.0, RECONNECT.1, 2);
    policy.set_jitter(RECONNECT.0 / 2);
    Builder::from_config(config)
        .set_policy(policy)
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
