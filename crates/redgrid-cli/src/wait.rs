//! `redgrid wait`: waits until a lock is free, without acquiring it.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use redgrid::Name;
use redgrid::locks::LockChange;
use redgrid_inspect::{Inspector, LockKind};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::cli::Global;
use crate::exit_codes::BUSY;
use crate::failure::{Failure, one_line};
use crate::output::{print_json, print_line};
use crate::server::{Reach, Server};
use crate::text::{holder_text, printable, time_text};

/// The end of `redgrid wait --help`.
pub(crate) const HELP: &str = "\
The lock is polled, so this command does not count as a waiter and does not slow the lock's users. Nothing is acquired:
another process may take the lock at once. A lock that is free for less than --every may be missed. To run a program
under the lock, use `redgrid lock`.

--timeout is how long the lock may take to be free; without it, the command waits as long as it takes.";

/// The shortest poll interval: 10 ms.
const SHORTEST: Duration = Duration::from_millis(10);

/// Options of `redgrid wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitOptions {
    /// The lock
    name: String,
    /// Wait until the lock is free
    #[arg(long, required = true)]
    free: bool,
    /// Poll interval
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "250ms")]
    every: Duration,
    #[command(flatten)]
    reach: Reach,
}

/// The output. The fields are those of its JSON, in their order.
#[derive(Debug, Serialize)]
struct Output<'a> {
    name: &'a str,
    free: bool,
    waited_ms: u64,
}

/// Runs `redgrid wait`.
pub(crate) async fn run(global: &Global, options: &WaitOptions) -> Result<ExitCode, Failure> {
    let name = Name::new(&options.name).map_err(|invalid| Failure::usage(one_line(&invalid)))?;
    let began = Instant::now();
    // An end that no clock reaches is none.
    let ends = global.timeout.and_then(|timeout| began.checked_add(timeout));
    let server = Server::reach_within(global, &options.reach, None).await?;
    let ended = wait(&server, &name, options, ends).await;
    server.leave().await;
    let holder = ended?;
    let waited_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    if global.json {
        print_json(&Output { name: name.as_str(), free: holder.is_none(), waited_ms })?;
    }
    let shown = printable(name.as_str());
    match holder {
        None if global.json || global.quiet => Ok(ExitCode::SUCCESS),
        None => print_line(&format!("{shown}: free")),
        Some(holder) => {
            let waited = time_text(waited_ms);
            Err(Failure::with(BUSY, format!("`{shown}` is held by {holder}, after {waited}; try again later")))
        }
    }
}

/// Polls until the lock is free. Returns its holder if it is still held at `ends`.
async fn wait(
    server: &Server,
    name: &Name,
    options: &WaitOptions,
    ends: Option<Instant>,
) -> Result<Option<String>, Failure> {
    // Another hash would look like a lock with strange holders.
    let view = Inspector::new(server.grid.client()).lock(name.as_str()).await;
    let view = view.map_err(|error| server.failed(&error))?;
    if matches!(view.kind, LockKind::NotALock { .. }) {
        return Err(Failure::usage(format!("`{}` is not a lock; see `redgrid inspect`", printable(name.as_str()))));
    }
    let mut changes = server.grid.lock(name.as_str()).follow().every(options.every.max(SHORTEST));
    let mut holder: Option<String> = None;
    loop {
        // The first poll is not limited, so that `--timeout 0s` asks once.
        let change = match ends.filter(|_| holder.is_some()) {
            Some(ends) => match timeout_at(ends, changes.next()).await {
                Ok(change) => change,
                Err(_) => return Ok(holder),
            },
            None => changes.next().await,
        };
        match change.map_err(|error| server.unanswered(name.as_str(), &error))? {
            LockChange::Held(state) | LockChange::Passed(state) => {
                let first = state.holders.first();
                let text = first.map_or_else(|| "others".into(), |one| holder_text(&one.client, one.number));
                holder = Some(printable(&text).into_owned());
            }
            _ => return Ok(None),
        }
    }
}
