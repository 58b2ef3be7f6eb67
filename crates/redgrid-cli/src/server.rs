//! The server that a command uses. The user must name it; there is no default.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use redgrid::client::ConfigError;
use redgrid::config::{Address, Servers};
use redgrid::{Config, ConnectError, Grid, ServerError};
use serde::{Deserialize, Serialize};

use crate::cli::Global;
use crate::failure::{Failure, one_line};

/// How long the first connection may take: 5 s, more than one attempt to connect.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the final release may take: 2 s. Locks that are not released by then end with their
/// leases.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// How the user named the servers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Named {
    /// By `--url`.
    Url(String),
    /// By `--config`.
    File(PathBuf),
    /// By `REDGRID_URL`, `REDGRID_CONFIG` or variables of single settings.
    Environment,
}

impl Named {
    /// Returns how the user named the servers; `None` if they are not named.
    pub(crate) fn of(global: &Global) -> Option<Self> {
        // An empty variable counts as unset.
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match (&global.url, &global.config) {
            (Some(url), _) => Some(Named::Url(url.clone())),
            (None, Some(file)) => Some(Named::File(file.clone())),
            (None, None) => (set("REDGRID_URL") || set("REDGRID_CONFIG")).then_some(Named::Environment),
        }
    }

    /// Returns the configuration. With a flag, the environment is ignored. Without one, all
    /// variables of the environment apply, as for a service.
    pub(crate) fn config(&self) -> Result<Config, ConfigError> {
        match self {
            Named::Url(url) => Config::from_url(url),
            Named::File(file) => Config::from_file(file),
            Named::Environment => Config::from_env(),
        }
    }

    /// Creates the failure for an invalid configuration.
    pub(crate) fn unusable(&self, error: &ConfigError) -> Failure {
        let place = match self {
            Named::Url(_) => "--url",
            Named::File(_) => "--config",
            Named::Environment => "the environment",
        };
        Failure::usage(format!("cannot use {place}: {}", one_line(error)))
    }
}

/// The location of the names on the server.
#[derive(Debug, Args)]
pub(crate) struct Reach {
    /// Prefix of every name, as in the configuration of the service that uses it; without it, the
    /// one of --url or --config
    #[arg(long, env = "REDGRID_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
}

/// A client, and the error messages about it.
pub(crate) struct Server {
    /// The client.
    pub(crate) grid: Grid,
    /// The configuration of the client.
    pub(crate) config: Config,
    address: String,
}

impl Server {
    /// Connects to the server that the user named.
    ///
    /// # Errors
    ///
    /// [`Failure`]: no server is named, the settings are invalid, or the server does not answer.
    pub(crate) async fn reach(global: &Global, reach: &Reach) -> Result<Self, Failure> {
        // There is no default server: it would be a different server on every machine, and a lock
        // there would not exclude other machines.
        let named = Named::of(global).ok_or_else(|| {
            Failure::usage("no server is named; give --url redis://host:6379 or --config FILE, or set REDGRID_URL")
        })?;
        let mut config = named.config().map_err(|error| named.unusable(&error))?;
        if let Some(namespace) = &reach.namespace {
            config = config.namespace(namespace).map_err(|error| {
                Failure::usage(format!("cannot use --namespace (or REDGRID_NAMESPACE): {}", one_line(&error)))
            })?;
        }
        let address = address(&config);
        let config = config.client_name("redgrid-cli");
        let grid = Grid::connect(config.clone()).await;
        let grid = grid.map_err(|error| unstarted(&named, &address, &error))?;
        grid.wait_ready(READY_TIMEOUT).await.map_err(|error| unreachable(&address, &error))?;
        Ok(Server { grid, config, address })
    }

    /// Returns the failure for a server that became unavailable, or rejected a request.
    pub(crate) fn failed(&self, error: &(dyn std::error::Error + 'static)) -> Failure {
        unreachable(&self.address, error)
    }

    /// Returns the failure for a request that the server did not execute.
    pub(crate) fn unanswered(&self, name: &str, error: &ServerError) -> Failure {
        match error {
            ServerError::Refused { message, .. } if message.contains("WRONGTYPE") => {
                Failure::usage(format!("`{name}` is not a lock: another kind of value has this name"))
            }
            error => self.failed(error),
        }
    }

    /// Releases all locks, and closes the client.
    pub(crate) async fn leave(self) {
        // Locks that could not be released in time end with their leases.
        let _ = self.grid.shutdown(SHUTDOWN_TIMEOUT).await;
    }
}

/// Formats the addresses of the servers, for messages.
pub(crate) fn address(config: &Config) -> String {
    let all = |addresses: &[Address]| addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(", ");
    match config.servers() {
        Servers::Single(single) => single.address.to_string(),
        Servers::Unix(socket) => socket.path.display().to_string(),
        Servers::MasterSlave(group) => group.primary.to_string(),
        Servers::Replicated(group) => all(&group.nodes),
        Servers::Sentinel(sentinel) => {
            format!("{} of the sentinels {}", sentinel.master_name, all(&sentinel.sentinels))
        }
        Servers::Cluster(cluster) => all(&cluster.seeds),
        _ => "the address that was given".into(),
    }
}

/// Returns the failure of a client that could not be started.
fn unstarted(named: &Named, address: &str, error: &ConnectError) -> Failure {
    match error {
        ConnectError::Config(error) => named.unusable(error),
        error => unreachable(address, error),
    }
}

/// Returns the failure for a server that is unavailable, or rejects requests.
pub(crate) fn unreachable(address: &str, error: &(dyn Error + 'static)) -> Failure {
    // A server that rejects requests is available.
    let mut cause = Some(error);
    while let Some(error) = cause.filter(|error| !is_refusal(*error)) {
        cause = error.source();
    }
    let hint = if cause.is_some() { "" } else { "; start it, or check --url" };
    Failure::unavailable(format!("cannot work with the server at {address}{hint}: {}", one_line(error)))
}

fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref::<ServerError>(), Some(ServerError::Refused { .. }))
}

/// Creates a runtime with one thread, because the work mostly waits for a server.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::broken(format!("the runtime could not be started: {error}")))
}

/// Writes a value as a line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<ExitCode, Failure> {
    print_line(&serde_json::to_string(value).map_err(|error| Failure::broken(error.to_string()))?)
}

/// Writes a line of the output. A closed pipe is not an error, as with `head`.
pub(crate) fn print_line(line: &str) -> Result<ExitCode, Failure> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::broken(format!("the output could not be written: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
