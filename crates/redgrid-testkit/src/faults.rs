//! Faults of a running server, and changes by other clients.

use redis::RedisError;

use crate::{builder::TESTKIT_USER, server::RedisServer};

/// A kind of connection, as in `CLIENT LIST TYPE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Without subscriptions.
    Normal,
    /// With at least one subscription, in either protocol.
    PubSub,
}

/// Faults. Each method returns once the server has confirmed the fault.
///
/// # Errors
///
/// All methods fail in the same two cases. Either the server rejected the command, and nothing
/// changed; or the connection was lost, and the outcome is unknown.
impl RedisServer {
    /// Closes the connections of one kind, except the testkit's own, and returns their number.
    pub async fn kill_connections(&self, kind: Kind) -> Result<usize, RedisError> {
        self.kill_connections_where(|client| client.kind == kind).await
    }

    /// Closes the connections with that name (`CLIENT SETNAME`), and returns their number.
    pub async fn kill_connections_named(&self, name: &str) -> Result<usize, RedisError> {
        self.kill_connections_where(|client| client.name == name).await
    }

    /// Closes the connections for which `choose` returns true, and returns their number. The
    /// testkit's own connections are excluded.
    pub async fn kill_connections_where(&self, choose: impl Fn(&ClientInfo) -> bool) -> Result<usize, RedisError> {
        let observer = self.observer().await?;
        let mut killed = 0;
        for client in self.clients().await?.iter().filter(|client| choose(client)) {
            killed += observer.query::<usize>(&["CLIENT", "KILL", "ID", &client.id]).await?;
        }
        Ok(killed)
    }

    /// Returns the connections, except the testkit's own.
    pub async fn clients(&self) -> Result<Vec<ClientInfo>, RedisError> {
        let list: String = self.observer().await?.query(&["CLIENT", "LIST"]).await?;
        Ok(list.lines().map(ClientInfo::from_line).filter(|client| client.user != TESTKIT_USER).collect())
    }

    /// Removes all cached scripts, as a restart or a failover does. `EVALSHA` then fails with
    /// `NOSCRIPT`.
    pub async fn flush_scripts(&self) -> Result<(), RedisError> {
        self.command(&["SCRIPT", "FLUSH", "SYNC"]).await
    }

    /// Removes all keys of all databases.
    pub async fn flush_all(&self) -> Result<(), RedisError> {
        self.command(&["FLUSHALL", "SYNC"]).await
    }

    /// Deletes a key; `false` if it did not exist.
    pub async fn delete_key(&self, key: &str) -> Result<bool, RedisError> {
        self.observer().await?.query(&["DEL", key]).await
    }

    /// Adds rules to a user as `ACL SETUSER` does, for example
    /// `("default", &["-evalsha", "resetchannels"])`. They apply immediately, also to open
    /// connections, until the server is restarted.
    pub async fn set_user(&self, name: &str, rules: &[&str]) -> Result<(), RedisError> {
        self.command(&[&["ACL", "SETUSER", name], rules].concat()).await
    }

    /// Removes commands (`evalsha`) or categories (`@scripting`) from the default user: the server
    /// then answers `NOPERM`.
    pub async fn deny(&self, commands: &[&str]) -> Result<(), RedisError> {
        self.change_default_user('-', commands).await
    }

    /// Restores commands or categories of the default user.
    pub async fn allow(&self, commands: &[&str]) -> Result<(), RedisError> {
        self.change_default_user('+', commands).await
    }

    /// With `true`, makes the server exceed its memory limit and forbids evictions: commands that
    /// need memory fail with `OOM`. With `false`, removes the limit.
    pub async fn out_of_memory(&self, on: bool) -> Result<(), RedisError> {
        self.set_config("maxmemory-policy", "noeviction").await?;
        // One byte is always exceeded; zero means no limit.
        self.set_config("maxmemory", if on { "1" } else { "0" }).await
    }

    /// Sets a parameter by `CONFIG SET`, until the server is restarted.
    pub async fn set_config(&self, parameter: &str, value: &str) -> Result<(), RedisError> {
        self.command(&["CONFIG", "SET", parameter, value]).await
    }

    async fn change_default_user(&self, sign: char, commands: &[&str]) -> Result<(), RedisError> {
        let rules: Vec<String> = commands.iter().map(|command| format!("{sign}{command}")).collect();
        self.set_user("default", &rules.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    async fn command(&self, command: &[&str]) -> Result<(), RedisError> {
        self.observer().await?.cmd(command).await.map(drop)
    }
}

/// A connection in the server's list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientInfo {
    /// The id that the server gave the connection.
    pub id: String,
    /// The client's address as the server sees it.
    pub addr: String,
    /// The name of the connection, or empty.
    pub name: String,
    /// The user that the connection is logged in as.
    pub user: String,
    /// Whether the connection has a subscription.
    pub kind: Kind,
}

impl ClientInfo {
    /// Reads a line of `CLIENT LIST`: words of the form `field=value`.
    pub(crate) fn from_line(line: &str) -> Self {
        let field = |name: &str| {
            let mut words = line.split(' ').filter_map(|word| word.split_once('='));
            words.find(|(field, _)| *field == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        // Flag `P` stands for a subscriber.
        let kind = if field("flags").contains('P') { Kind::PubSub } else { Kind::Normal };
        Self { id: field("id"), addr: field("addr"), name: field("name"), user: field("user"), kind }
    }
}
