//! How a server is set up before it starts.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::{
    find::{ServerBinary, Version},
    port,
    server::{RedisServer, StartError},
    tls::Authority,
};

/// The user of the testkit's own connections, in every server. Tests that take rights from the default user, or kill
/// "all" connections, do not cut off the testkit.
pub(crate) const TESTKIT_USER: &str = "redgrid-testkit";

/// The options of a [`RedisServer`], see [`RedisServer::builder`].
#[derive(Clone, Default)]
#[must_use = "does nothing until `start` is awaited"]
pub struct ServerBuilder {
    pub(crate) binary: Option<ServerBinary>,
    pub(crate) append_only: bool,
    pub(crate) password: Option<String>,
    pub(crate) role: Role,
    pub(crate) tls: Option<TlsClients>,
    /// Members of a deployment trust each other, and speak TLS among themselves.
    pub(crate) authority: Option<Arc<Authority>>,
    pub(crate) socket: bool,
    users: Vec<(String, String)>,
    lines: Vec<String>,
}

/// Whether clients that come by TLS need a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsClients {
    Any,
    Certified,
}

/// What a server process is there for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Role {
    #[default]
    Data,
    ClusterNode,
    Sentinel,
}

impl Role {
    /// An address for such a process.
    pub(crate) fn free_address(self) -> io::Result<SocketAddr> {
        match self {
            Role::ClusterNode => port::free_cluster_address(),
            Role::Data | Role::Sentinel => port::free_address(),
        }
    }
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Users' rules and configuration lines may hold passwords.
        f.debug_struct("ServerBuilder").field("binary", &self.binary).field("append_only", &self.append_only).finish()
    }
}

impl ServerBuilder {
    /// Uses this program instead of the one [`ServerBinary::find`] finds.
    pub fn binary(mut self, binary: ServerBinary) -> Self {
        self.binary = Some(binary);
        self
    }

    /// Writes an append-only file, so that acknowledged writes survive [`RedisServer::kill`]. Off unless set.
    ///
    /// The file is written before each reply and never synced: it survives the death of the process, not of the
    /// machine, and costs little. Another `appendfsync` may be set by [`config`](Self::config).
    pub fn append_only(mut self, on: bool) -> Self {
        self.append_only = on;
        self
    }

    /// Asks this password of the default user. None unless set.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds a user with the rules of `ACL SETUSER`, for example `("app", "on >secret ~app:* &* +@all")`.
    pub fn user(mut self, name: impl Into<String>, rules: impl Into<String>) -> Self {
        self.users.push((name.into(), rules.into()));
        self
    }

    /// Takes TLS connections too, on a second port, with certificates made for this server; see
    /// [`RedisServer::tls`]. Not every server program can: [`StartError::NoTls`].
    ///
    /// In a deployment all speak TLS with each other, trust the same authority, and tell clients the ports for TLS. In a
    /// cluster that takes Redis 7.0: before, who asks by one kind of connection is told the ports of the other.
    pub fn tls(mut self) -> Self {
        self.tls = Some(TlsClients::Any);
        self
    }

    /// [`tls`](Self::tls), for clients that have a certificate of the same authority only.
    pub fn tls_client_certificates(mut self) -> Self {
        self.tls = Some(TlsClients::Certified);
        self
    }

    /// Listens on a socket of this machine too, in the server's own folder; see [`RedisServer::socket`].
    pub fn socket(mut self) -> Self {
        self.socket = true;
        self
    }

    /// Adds a line to the configuration, for example `maxmemory-policy allkeys-lru`. Later lines win.
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// The same for the members of a deployment.
    pub(crate) fn among_themselves(mut self) -> io::Result<Self> {
        if self.tls.is_some() && self.authority.is_none() {
            self.authority = Some(Arc::new(Authority::new()?));
        }
        Ok(self)
    }

    pub(crate) fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Starts the server; when this returns, it has answered `PING`.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing is left running. A port that somebody else took in the last moment is not an error:
    /// another one is tried.
    ///
    /// # Cancel safety
    ///
    /// A server that was already starting is ended in the background.
    pub async fn start(self) -> Result<RedisServer, StartError> {
        RedisServer::start_with(self).await
    }

    /// The configuration file.
    pub(crate) fn configuration(
        &self,
        addr: SocketAddr,
        data: &Path,
        version: Version,
        testkit_secret: &str,
    ) -> String {
        let mut text = format!(
            "bind {}\nport {}\ndir {}\nuser {TESTKIT_USER} on >{testkit_secret} ~* &* +@all\n",
            addr.ip(),
            addr.port(),
            data.display(),
        );
        // Writing to a `String` cannot fail.
        if self.role != Role::Sentinel {
            let append_only = if self.append_only { "yes" } else { "no" };
            let _ = writeln!(text, "save \"\"\nappendonly {append_only}\nappendfsync no");
            // 7.0 locks DEBUG away unless allowed; before, there was no such line (and it would be refused).
            if version >= SEVEN {
                text.push_str("enable-debug-command local\n");
            }
        }
        if self.role == Role::ClusterNode {
            // Outside the data: a node that lost its data is still a member.
            let members = data.with_file_name("nodes.conf");
            let _ = writeln!(text, "cluster-enabled yes\ncluster-config-file {}", members.display());
            // A node learns its own address from others; one without others has none to tell.
            let _ = writeln!(text, "cluster-announce-ip {}", addr.ip());
        }
        if let Some(password) = &self.password {
            let _ = writeln!(text, "requirepass {password:?}");
        }
        for (name, rules) in &self.users {
            let _ = writeln!(text, "user {name} {rules}");
        }
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// Redis 7.0, and with it every Valkey.
pub(crate) const SEVEN: Version = Version { major: 7, minor: 0, patch: 0 };
