//! The server that a command works on: named by its user, never guessed.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use redgrid::{Config, Grid, ServerError};

use crate::cli::Global;
use crate::failure::{Failure, chain};

/// How long the server may take to answer at first: 5 s, more than one attempt to connect.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// How long giving everything back may take in the end: 2 s. Leases end the rest.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where the names are, on the server.
#[derive(Debug, Args)]
pub(crate) struct Reach {
    /// In front of every name, as in the configuration of the service that uses it
    #[arg(long, env = "REDGRID_NAMESPACE", value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    pub(crate) namespace: String,
}

/// A client, and the words for what may go wrong with it.
pub(crate) struct Server {
    /// The client.
    pub(crate) grid: Grid,
    address: String,
}

impl Server {
    /// A client of the server that the user named, after its first answer.
    ///
    /// # Errors
    ///
    /// [`Failure`]: none is named, the settings can not be used, or it does not answer.
    pub(crate) async fn reach(global: &Global, reach: &Reach) -> Result<Self, Failure> {
        // A default would be another server on every machine, and a lock there excludes nobody.
        let url = global
            .url
            .as_deref()
            .ok_or_else(|| Failure::usage("no server is named; give --url redis://host:6379, or set REDGRID_URL"))?;
        let config = Config::from_url(url);
        let config =
            config.map_err(|error| Failure::usage(format!("cannot use --url (or REDGRID_URL): {}", chain(&error))))?;
        let config = config.namespace(&reach.namespace).map_err(|error| {
            Failure::usage(format!("cannot use --namespace (or REDGRID_NAMESPACE): {}", chain(&error)))
        })?;
        let address = address(url);
        let grid = Grid::connect(config.client_name("redgrid-cli")).await;
        let grid = grid.map_err(|error| unreachable(address, &error))?;
        grid.wait_ready(READY_WITHIN).await.map_err(|error| unreachable(address, &error))?;
        Ok(Server { grid, address: address.to_owned() })
    }

    /// The server went away, or refused.
    pub(crate) fn failed(&self, error: &(dyn std::error::Error + 'static)) -> Failure {
        unreachable(&self.address, error)
    }

    /// A question that was not answered.
    pub(crate) fn unanswered(&self, name: &str, error: &ServerError) -> Failure {
        match error {
            ServerError::Refused { message, .. } if message.contains("WRONGTYPE") => {
                Failure::usage(format!("`{name}` is not a lock: another kind of value has this name"))
            }
            error => self.failed(error),
        }
    }

    /// Gives back what is held, and closes.
    pub(crate) async fn leave(self) {
        // What could not be given back in time is ended by its lease.
        let _ = self.grid.shutdown(FAREWELL).await;
    }
}

/// The host and port of a URL, without user and password.
pub(crate) fn address(url: &str) -> &str {
    let place = url.split_once("//").map_or(url, |(_, place)| place);
    let authority = place.split('/').next().unwrap_or(place);
    authority.rsplit_once('@').map_or(authority, |(_, address)| address)
}

/// The sentence for a server that is not there, or does not do what it is asked.
pub(crate) fn unreachable(address: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::unavailable(format!(
        "cannot work with the server at {address}; start it, or check --url: {}",
        chain(error)
    ))
}

/// One thread: the work is waiting for a server.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::broken(format!("the runtime could not be started: {error}")))
}

/// Writes a line of the answer. A reader who has gone has seen enough, as `head` does.
pub(crate) fn say(line: &str) -> Result<ExitCode, Failure> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::broken(format!("the answer could not be written: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
