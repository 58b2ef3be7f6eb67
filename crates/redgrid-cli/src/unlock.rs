//! `redgrid unlock`: releases a lock by force.

use std::process::ExitCode;

use clap::Args;
use redgrid::client::{Code, Request};
use redgrid::locks::AcquireError;
use redgrid::locks::{ForcedRelease, LockHolder};
use redgrid::{Name, ServerError};
use serde::Serialize;

use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::holder::Holder;
use crate::server::{Reach, Server, print_line};
use crate::text::holder_text;

/// No lock was released: it was free, or its holder is not the expected one.
const NOT_FREED: u8 = 1;

/// The end of `redgrid unlock --help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0   the lock was taken away
  1   it was not: it was free, or with --if-holder, another holder has it
  2   bad usage, or NAME is no lock
  69  no server could be reached, or it refused";

/// Options of `redgrid unlock`.
#[derive(Debug, Args)]
pub(crate) struct UnlockOptions {
    /// The lock
    name: String,
    /// Confirms it, although the holder may be working
    #[arg(long)]
    force: bool,
    /// Only if this is the holder: client and number from `redgrid inspect`, as CLIENT:NUMBER
    #[arg(long, value_name = "HOLDER")]
    if_holder: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

/// The output. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Output<'a> {
    name: &'a str,
    freed: bool,
    /// With `--if-holder`, the actual holders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    holders: Vec<Holder>,
}

/// Runs `redgrid unlock`.
pub(crate) async fn run(global: &Global, options: &UnlockOptions) -> Result<ExitCode, Failure> {
    let name = Name::new(&options.name).map_err(|invalid| Failure::usage(one_line(&invalid)))?;
    if !options.force {
        return Err(Failure::usage(format!(
            "`{name}` may have a holder that is working; see `redgrid inspect`, and pass --force to take it away"
        )));
    }
    let server = Server::reach(global, &options.reach).await?;
    let failed = |error: AcquireError| match &error {
        AcquireError::Failed(redgrid::Failure::Refused { source, .. }) => server.unanswered(name.as_str(), source),
        error => server.failed(error),
    };
    let expected = options.if_holder.as_deref().map(LockHolder::from_field);
    if expected.is_none() {
        refuse_other_hashes(&server, &name).await?;
    }
    let freed = free(&server, &name, expected.as_ref()).await.map_err(failed)?;
    let mut output = Output { name: name.as_str(), freed, holders: Vec::new() };
    if !freed && expected.is_some() {
        let state = server.grid.lock(name.as_str()).inspect().await;
        let state = state.map_err(|error| server.unanswered(name.as_str(), &error))?.unwrap_or_default();
        output.holders = state.holders.into_iter().map(Holder::from).collect();
    }
    server.leave().await;
    print_line(&if global.json {
        serde_json::to_string(&output).map_err(|error| Failure::broken(error.to_string()))?
    } else {
        output.text()
    })?;
    Ok(if freed { ExitCode::SUCCESS } else { ExitCode::from(NOT_FREED) })
}

/// Fails if the hash has other fields than holders, because a forced release deletes all fields. If
/// the user lacks the permission to read the hash, the check is skipped.
async fn refuse_other_hashes(server: &Server, name: &Name) -> Result<(), Failure> {
    let Ok(Some(state)) = server.grid.lock(name.as_str()).inspect().await else { return Ok(()) };
    let is_other = |holder: &&LockHolder| holder.number.is_none() && !holder.client.ends_with(":write");
    match state.holders.iter().find(is_other) {
        None => Ok(()),
        Some(other) => {
            let field: String = other.client.chars().take(64).collect();
            Err(Failure::usage(format!(
                "`{name}` is not a lock: its field `{field}` is no holder; nothing was changed"
            )))
        }
    }
}

/// Releases the lock, of the expected holder or of any holder. The release matches the kind of the
/// lock, so that waiters are woken.
async fn free(server: &Server, name: &Name, expected: Option<&LockHolder>) -> Result<bool, AcquireError> {
    let client = server.grid.client();
    let grid = &server.grid;
    let failed = |error| AcquireError::of_request(name.clone(), error);
    let mode = Request::command("HGET").key(client.key(name)).arg("mode").idempotent();
    let mode: Option<String> = client.run(mode).await.map_err(failed)?;
    if matches!(mode.as_deref(), Some("read" | "write")) {
        let lock = grid.rw_lock(name.as_str());
        return match expected {
            Some(holder) => lock.force_release_if(holder).await.map(ForcedRelease::is_done),
            None => lock.force_release().await,
        };
    }
    let fair = grid.fair_lock(name.as_str());
    // A user who lacks the permission to read the queue cannot have clients that wait in it.
    let is_queued = unless_denied(fair.waiting().await).map_err(failed)?.is_some_and(|queue| !queue.is_empty());
    match (is_queued, expected) {
        (true, Some(holder)) => fair.force_release_if(holder).await.map(ForcedRelease::is_done),
        (true, None) => fair.force_release().await,
        (false, Some(holder)) => grid.lock(name.as_str()).force_release_if(holder).await.map(ForcedRelease::is_done),
        (false, None) => grid.lock(name.as_str()).force_release().await,
    }
}

/// Returns the answer; `None` without permission.
fn unless_denied<T>(answer: Result<T, ServerError>) -> Result<Option<T>, ServerError> {
    match answer {
        Err(error) if error.code() == Some(Code::NoPermission) => Ok(None),
        answer => answer.map(Some),
    }
}

impl Output<'_> {
    fn text(&self) -> String {
        let holders: Vec<_> = self.holders.iter().map(|holder| holder_text(&holder.client, holder.number)).collect();
        match (self.freed, holders.is_empty()) {
            (true, _) => format!("{}: freed", self.name),
            (false, true) => format!("{}: was free", self.name),
            (false, false) => format!("{}: not freed, held by {}", self.name, holders.join(" and ")),
        }
    }
}
