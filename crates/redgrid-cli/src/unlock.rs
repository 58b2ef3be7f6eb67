//! `redgrid unlock`: takes a lock away from whoever holds it.

use std::process::ExitCode;

use clap::Args;
use redgrid::{AcquireError, Name};
use serde::Serialize;

use crate::cli::Global;
use crate::failure::{Failure, chain};
use crate::server::{Reach, Server, say};

/// There was nothing to take away.
const WAS_FREE: u8 = 1;

/// Options of `redgrid unlock`.
#[derive(Debug, Args)]
pub(crate) struct UnlockOptions {
    /// The lock
    name: String,
    /// Yes, although its holder may be at work
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reach: Reach,
}

/// What became of it. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Told<'a> {
    name: &'a str,
    freed: bool,
}

/// Runs `redgrid unlock`.
pub(crate) async fn run(global: &Global, options: &UnlockOptions) -> Result<ExitCode, Failure> {
    let name = Name::new(&options.name).map_err(|invalid| Failure::usage(chain(&invalid)))?;
    if !options.force {
        return Err(Failure::usage(format!(
            "`{name}` may be held by somebody who is at work; see `redgrid inspect`, and say --force to take it away"
        )));
    }
    let server = Server::reach(global, &options.reach).await?;
    let freed = server.grid.lock(&options.name).force_release().await;
    let freed = freed.map_err(|error| match &error {
        AcquireError::Refused { source, .. } => server.unanswered(name.as_str(), source),
        error => server.failed(error),
    })?;
    server.leave().await;
    let told = Told { name: name.as_str(), freed };
    say(&if global.json {
        serde_json::to_string(&told).map_err(|error| Failure::broken(error.to_string()))?
    } else {
        format!("{name}: {}", if freed { "freed" } else { "was free" })
    })?;
    Ok(if freed { ExitCode::SUCCESS } else { ExitCode::from(WAS_FREE) })
}
