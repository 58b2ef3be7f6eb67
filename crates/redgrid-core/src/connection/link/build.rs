//! One client of fred for one connection, with the settings that leave everything to us.

use std::net::SocketAddr;
use std::sync::Arc;

use fred::clients::Client as Fred;
use fred::prelude::{Builder, Error as FredError, Server as FredServer, ServerConfig};
use fred::types::RespVersion;
use fred::types::config::{Config as FredConfig, CredentialProvider, ReconnectPolicy, TcpConfig};

use super::{LONGEST_QUEUE, NEWS};
use crate::config::{Protocol, Settings};
use crate::connection::dial::reach;
use crate::connection::encryption::Encryption;
use crate::connection::login::{Login, NoLogin, Shown, written};
use crate::connection::trouble::Trouble;
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
    pub(super) is_resp2: bool,
}

/// What is missing where RESP2 is spoken.
const MISSING: &str = "sharded subscriptions that a server ends by itself are found out by polling";

impl Blueprint {
    /// Finds the target of the next connection: resolves the host name, and reads certificates again.
    ///
    /// # Errors
    ///
    /// Why there is no address to connect to.
    pub(super) async fn find(&self) -> Result<Target, Trouble> {
        let at = self.address().await?;
        if let Some(encryption) = &self.way.entry.encryption {
            // Files that cannot be read in time are used by a later connection.
            let _ = tokio::time::timeout(self.settings.connect_timeout, encryption.refresh()).await;
        }
        Ok(self.target(at))
    }

    /// Finds the address of the next connection; `None` for a socket of this machine.
    ///
    /// # Errors
    ///
    /// Why there is no address to connect to.
    pub(super) async fn address(&self) -> Result<Option<SocketAddr>, Trouble> {
        match &self.way.place {
            Place::Tcp(address) => {
                let network = &self.way.entry.network;
                reach(network.mapped(address), network, self.settings.connect_timeout).await.map(Some)
            }
            #[cfg(unix)]
            Place::Unix(_) => Ok(None),
        }
    }

    /// The target of all connections so far as it is known before anything is looked up.
    pub(super) fn known(&self) -> Target {
        self.target(self.fixed_address())
    }

    fn target(&self, at: Option<SocketAddr>) -> Target {
        let certificates = self.way.entry.encryption.as_ref().map_or(0, Encryption::generation);
        let is_resp2 = match self.settings.protocol {
            Protocol::Auto => self.way.without_resp3.get().is_some(),
            Protocol::Resp3 => false,
            Protocol::Resp2 => true,
        };
        Target { at, certificates, is_resp2 }
    }

    /// The target to use instead after a connection could not be set up for this reason, if the
    /// server refused RESP3. It is the one of all later connections to the server.
    pub(super) fn instead_of(&self, target: Target, why: &str) -> Option<Target> {
        if target.is_resp2 || self.settings.protocol != Protocol::Auto || !refuses_resp3(why) {
            return None;
        }
        let note = format!("the server speaks RESP2 only ({}): {MISSING}", without_arguments(why));
        if self.way.without_resp3.set(note.clone()).is_ok() {
            tracing::warn!(node = %self.way.place, "{note}");
        }
        Some(self.target(target.at))
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
        build(way, target, login.clone(), settings, *news)
    }

    /// A client for a short connection that tries what the provider says now; `None` without a provider.
    pub(super) fn build_trial(&self, target: Target) -> Option<Result<Fred, FredError>> {
        let login = Login::new(self.way.entry.logins.clone()?);
        Some(build(&self.way, target, Some(login), &self.settings, NEWS))
    }
}

/// Whether the server does not know HELLO, does not allow it, or does not know the protocol that it asks for.
///
/// Every other error stays what it is: a login that is missing or wrong, for example, names HELLO, too.
fn refuses_resp3(why: &str) -> bool {
    let is = |code: &str| why.split(' ').next() == Some(code);
    let names_hello = why.to_ascii_lowercase().contains("hello");
    match () {
        () if is("NOPROTO") => true,
        () if is("NOAUTH") || is("WRONGPASS") => false,
        // Of another command of the set-up, such as SELECT. A user or an argument may be called `hello`.
        () if quoted_command(why).is_some_and(|name| !name.eq_ignore_ascii_case("hello")) => false,
        () => names_hello && (is("ERR") || is("NOPERM")) || UNKNOWN.iter().any(|words| why.starts_with(words)),
    }
}

/// The command that an error names in quotes: before or behind its name is the word `command`.
fn quoted_command(why: &str) -> Option<&str> {
    const QUOTES: [char; 3] = ['\'', '`', '"'];
    let (before, end) = without_arguments(why).rsplit_once(QUOTES)?;
    let (start, name) = before.rsplit_once(QUOTES)?;
    (start.ends_with("command ") || end.starts_with(" command")).then_some(name)
}

/// How proxies refuse commands that they do not know, without their names.
const UNKNOWN: [&str; 3] = ["ERR unknown command", "ERR unsupported command", "invalid request"];

/// A server's error without the arguments of the command, which it repeats where it does not know
/// the command: those of HELLO and AUTH are passwords.
pub(super) fn without_arguments(error: &str) -> &str {
    error.split_once(", with args").map_or(error, |(error, _)| error)
}

fn build(
    way: &Way,
    target: Target,
    login: Option<Arc<Login>>,
    settings: &Settings,
    news: usize,
) -> Result<Fred, FredError> {
    let Way { place, entry, .. } = way;
    let at = target.at.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
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
    let in_hello = !target.is_resp2;
    let written = |text: &str| written(text, in_hello);
    let credential_provider: Option<Arc<dyn CredentialProvider>> = match login {
        Some(login) => Some(Arc::new(Shown { login, in_hello })),
        None if !in_hello && entry.password.is_none() => Some(Arc::new(NoLogin)),
        None => None,
    };
    let mut config = FredConfig {
        server,
        username: entry.username.as_deref().map(written),
        password: entry.password.as_ref().map(|secret| written(secret.reveal())),
        credential_provider,
        database: (entry.database != 0).then_some(entry.database),
        version: if target.is_resp2 { RespVersion::RESP2 } else { RespVersion::RESP3 },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_protocol_is_told_from_other_errors() {
        for why in [
            "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'hunter2' ",
            "ERR unknown command `HELLO`, with args beginning with: `3`, ",
            "ERR unknown command",
            "ERR unsupported command 'hello'",
            "NOPROTO unsupported protocol version",
            "NOPERM this user has no permissions to run the 'hello' command",
            "NOPERM User app has no permissions to run the 'hello' command",
            "ERR unknown command \"HELLO\"",
            "ERR Syntax error in HELLO option 'auth'",
        ] {
            assert!(refuses_resp3(why) && !without_arguments(why).contains("hunter2"), "{why}");
        }
        for why in [
            "NOAUTH HELLO must be called with the client already authenticated",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "LOADING Redis is loading the dataset in memory",
            "ERR max number of clients reached",
            "ERR unknown command 'SELECT', with args beginning with: '3' ",
            "ERR unknown command `SELECT`, with args beginning with: `hello`, ",
            "ERR unsupported command 'select'",
            "NOPERM User hello has no permissions to run the 'select' command",
            "Connection refused",
            "unexpected end of file",
        ] {
            assert!(!refuses_resp3(why), "{why}");
        }
    }
}
