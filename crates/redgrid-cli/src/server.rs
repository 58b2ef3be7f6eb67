//! The server that a command uses. The user must name it; there is no default.

use std::error::Error;
use std::time::Duration;

use clap::Args;
use redgrid::client::Code;
use redgrid::config::{Address, Servers};
use redgrid::{Config, ConnectError, Failure as RequestFailure, Grid, ServerError};
use redgrid_inspect::InspectError;

use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::named::Named;

pub(crate) use crate::output::{print_json, print_line};

/// How long the first connection may take without `--timeout`: 5 s, more than one attempt to
/// connect.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits of the setting `response_timeout`.
const MIN_RESPONSE_TIMEOUT: Duration = Duration::from_millis(10);
const MAX_RESPONSE_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the final release may take: 2 s. Locks that are not released by then end with their
/// leases.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

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
    /// Connects to the server that the user named. `--timeout` limits how long that may take, and
    /// each reply.
    ///
    /// # Errors
    ///
    /// [`Failure`]: no server is named, the settings are invalid, or the server does not answer.
    pub(crate) async fn reach(global: &Global, reach: &Reach) -> Result<Self, Failure> {
        Self::reach_within(global, reach, global.timeout).await
    }

    /// Connects to the server that the user named, with another limit than `--timeout`.
    ///
    /// # Errors
    ///
    /// As [`reach`](Self::reach).
    pub(crate) async fn reach_within(
        global: &Global,
        reach: &Reach,
        timeout: Option<Duration>,
    ) -> Result<Self, Failure> {
        // There is no default server: it would be a different server on every machine, and a lock
        // there would not exclude other machines.
        let named = Named::find(global)?.ok_or_else(|| {
            Failure::usage(
                "no server is named; give --url redis://host:6379, --config FILE or --context NAME, or set REDGRID_URL",
            )
        })?;
        let mut config = named.config().map_err(|error| named.unusable(&error))?;
        if let Some(namespace) = reach.namespace.as_deref().or(named.namespace()) {
            config = config.namespace(namespace).map_err(|error| {
                Failure::usage(format!("cannot use --namespace (or REDGRID_NAMESPACE): {}", one_line(&error)))
            })?;
        }
        if let Some(timeout) = timeout {
            config = config.response_timeout(timeout.clamp(MIN_RESPONSE_TIMEOUT, MAX_RESPONSE_TIMEOUT));
        }
        named.announce(global);
        let address = address(&config);
        let config = config.client_name("redgrid-cli");
        let grid = Grid::connect(config.clone()).await;
        let grid = grid.map_err(|error| unstarted(&named, &address, &error))?;
        grid.wait_ready(timeout.unwrap_or(READY_TIMEOUT)).await.map_err(|error| unreachable(&address, &error))?;
        Ok(Server { grid, config, address })
    }

    /// Returns the failure for a server that became unavailable, or rejected a request.
    pub(crate) fn failed(&self, error: &(dyn Error + 'static)) -> Failure {
        match server_error(error) {
            Some(ServerError::Refused { code: Code::WrongType, .. }) => {
                Failure::usage(format!("another kind of value has this name: {}", one_line(error)))
            }
            _ => unreachable(&self.address, error),
        }
    }

    /// Returns the failure for a listing that ended early. An invalid pattern is bad usage.
    pub(crate) fn failed_listing(&self, error: &InspectError) -> Failure {
        match error {
            InspectError::Failed(RequestFailure::InvalidArgument { .. }) => Failure::usage(one_line(error)),
            error => self.failed(error),
        }
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
        Servers::Single(address) => address.to_string(),
        Servers::Unix(path) => path.display().to_string(),
        Servers::MasterSlave(group) => group.primary.to_string(),
        Servers::Replicated(addresses) | Servers::Cluster(addresses) => all(addresses),
        Servers::Sentinel(sentinel) => {
            format!("{} of the sentinels {}", sentinel.master_name, all(&sentinel.sentinels))
        }
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
    let refusal = match server_error(error) {
        Some(ServerError::Refused { code, .. }) => Some(*code),
        _ => None,
    };
    let text = one_line(error);
    match refusal {
        Some(Code::NoPermission) => Failure::no_permission(format!(
            "the user of the server at {address} lacks a permission (see docs/operating/acl.md): {text}"
        )),
        // A server that rejects requests is available.
        Some(_) => Failure::unavailable(format!("cannot work with the server at {address}: {text}")),
        None => {
            Failure::unavailable(format!("cannot work with the server at {address}; start it, or check --url: {text}"))
        }
    }
}

/// Returns the error of the request among the causes of an error.
pub(crate) fn server_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a ServerError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<ServerError>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

/// Creates a runtime with one thread, because the work mostly waits for a server.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::broken(format!("the runtime could not be started: {error}")))
}
