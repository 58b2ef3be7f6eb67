//! Options of a server before it starts.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use crate::{
    find::{ServerBinary, Version},
    port::ReservedAddress,
    server::RedisServer,
    start_error::StartError,
    tls::Authority,
};

/// The user name of the testkit's own connections, created in every server. Tests that restrict the
/// default user, or kill all its connections, therefore do not affect the testkit.
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
    /// Signs the certificates of all members of a deployment, which use TLS among themselves.
    pub(crate) authority: Option<Arc<Authority>>,
    pub(crate) socket: bool,
    users: Vec<(String, String)>,
    lines: Vec<String>,
}

/// Whether TLS clients need a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsClients {
    Any,
    Certified,
}

/// The role of a server process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Role {
    #[default]
    Data,
    ClusterNode,
    Sentinel,
}

impl Role {
    /// Returns an address for such a process.
    pub(crate) fn free_address(self) -> io::Result<ReservedAddress> {
        match self {
            Role::ClusterNode => ReservedAddress::for_cluster(),
            Role::Data | Role::Sentinel => ReservedAddress::new(),
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

    /// Writes an append-only file, so that acknowledged writes survive [`RedisServer::kill`]. The
    /// default is off.
    ///
    /// The file is written before each reply and never synced: it survives the death of the
    /// process, not of the machine, and costs little. Another `appendfsync` may be set by
    /// [`config`](Self::config).
    pub fn append_only(mut self, on: bool) -> Self {
        self.append_only = on;
        self
    }

    /// Sets the password of the default user. By default there is none.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds a user with the rules of `ACL SETUSER`, for example
    /// `("app", "on >secret ~app:* &* +@all")`.
    pub fn user(mut self, name: impl Into<String>, rules: impl Into<String>) -> Self {
        self.users.push((name.into(), rules.into()));
        self
    }

    /// Also accepts TLS connections, on a second port, with certificates created for this server;
    /// see [`RedisServer::tls`]. A server program built without TLS fails with
    /// [`StartError::NoTls`].
    ///
    /// In a deployment, all members use TLS among themselves, trust the same authority, and
    /// announce their TLS ports. A cluster needs Redis 7.0 for TLS: earlier servers announce the
    /// port for plain connections to TLS clients, and the reverse.
    pub fn tls(mut self) -> Self {
        self.tls = Some(TlsClients::Any);
        self
    }

    /// Like [`tls`](Self::tls), but requires a client certificate of the same authority.
    pub fn tls_client_certificates(mut self) -> Self {
        self.tls = Some(TlsClients::Certified);
        self
    }

    /// Also listens on a Unix socket in the server's own folder; see [`RedisServer::socket`].
    pub fn socket(mut self) -> Self {
        self.socket = true;
        self
    }

    /// Adds a line to the configuration, for example `maxmemory-policy allkeys-lru`. A later line
    /// overrides an earlier one.
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Prepares the options for a member of a deployment.
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

    /// Starts the server, and returns once it has answered `PING`.
    ///
    /// # Errors
    ///
    /// [`StartError`]; no process is left running. If another process has taken the port meanwhile,
    /// the start is repeated on another port.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a server that was already starting is ended in the background.
    pub async fn start(self) -> Result<RedisServer, StartError> {
        RedisServer::start_with(self).await
    }

    /// Returns the text of the configuration file.
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
            // Redis 7.0 disables DEBUG unless this line allows it; earlier versions reject the
            // line.
            if version >= SEVEN {
                text.push_str("enable-debug-command local\n");
            }
        }
        if self.role == Role::ClusterNode {
            // The file is outside the data folder: a node that lost its data is still a member.
            let members = data.with_file_name("nodes.conf");
            let _ = writeln!(text, "cluster-enabled yes\ncluster-config-file {}", members.display());
            // A node learns its own address from other nodes; without this line, a node alone
            // announces no address.
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

/// Redis 7.0; every Valkey release is later.
pub(crate) const SEVEN: Version = Version { major: 7, minor: 0, patch: 0 };
