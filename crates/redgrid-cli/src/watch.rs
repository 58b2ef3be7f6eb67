//! `redgrid watch`: follows the holders of a lock.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use redgrid::locks::{LockChange, LockState};
use redgrid::{Name, ServerError};
use serde::Serialize;

use crate::cli::Global;
use crate::ending::Ending;
use crate::failure::{Failure, one_line};
use crate::holder::Holder;
use crate::output::{to_line, versioned, write_out};
use crate::server::{Reach, Server};
use crate::text::{holder_text, lease_text, printable};

/// The end of `redgrid watch --help`.
pub(crate) const HELP: &str = "\
Prints a line for each change: a new holder, a release, or the end of a lease. Hand-overs between tasks of one process
count as one holder. A hold that is shorter than --every may be missed.

The lock is polled, without an effect on its users: this command does not count as a waiter. With --subscribe, releases
are seen at once. The processes that contend for the lock then count this command as a waiter, and are slower.";

/// Options of `redgrid watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchOptions {
    /// The lock
    name: String,
    /// End after this long; without it, on a signal
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    long: Option<Duration>,
    /// Poll interval
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "250ms")]
    every: Duration,
    /// Only poll the lock, which does not count as a waiter; this is the default
    #[arg(long, conflicts_with = "subscribe")]
    poll: bool,
    /// Subscribe to releases as well; slows the lock's contenders
    #[arg(long)]
    subscribe: bool,
    #[command(flatten)]
    reach: Reach,
}

/// A change. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Output {
    at: String,
    name: String,
    event: &'static str,
    holders: Vec<Holder>,
    lease_left_ms: Option<u64>,
}

/// Runs `redgrid watch`.
pub(crate) async fn run(global: &Global, options: &WatchOptions) -> Result<ExitCode, Failure> {
    let name = Name::new(&options.name).map_err(|invalid| Failure::usage(one_line(&invalid)))?;
    let ending = Ending::listen()?;
    let server = Server::reach(global, &options.reach).await?;
    let ended = ending.run(options.long, follow(&server, &name, options, global.json)).await;
    server.leave().await;
    ended.map(|()| ExitCode::SUCCESS)
}

/// Prints each change until the output is closed.
async fn follow(server: &Server, name: &Name, options: &WatchOptions, json: bool) -> Result<(), Failure> {
    let mut changes = server.grid.lock(name.as_str()).follow().every(options.every.max(SHORTEST));
    if options.subscribe && !options.poll {
        changes = changes.subscribe();
    }
    let mut first = true;
    loop {
        let change = changes.next().await.map_err(|error: ServerError| server.unanswered(name.as_str(), &error))?;
        let output = Output::new(name, change, first);
        first = false;
        let line = if json { to_line(&versioned(&output))? } else { output.text() };
        if !write_out(&format!("{line}\n"))? {
            return Ok(());
        }
    }
}

/// The shortest poll interval: 10 ms.
const SHORTEST: Duration = Duration::from_millis(10);

impl Output {
    fn new(name: &Name, change: LockChange, first: bool) -> Self {
        let (event, state) = match change {
            LockChange::Held(state) => ("held", Some(state)),
            LockChange::Passed(state) => ("passed", Some(state)),
            LockChange::Free if first => ("free", None),
            LockChange::Free => ("released", None),
            _ => ("ended", None),
        };
        let LockState { holders, remaining, .. } = state.unwrap_or_default();
        Output {
            at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            name: name.as_str().to_owned(),
            event,
            holders: holders.into_iter().map(Holder::from).collect(),
            lease_left_ms: remaining.and_then(|lease_text| u64::try_from(lease_text.as_millis()).ok()),
        }
    }

    fn text(&self) -> String {
        let holders: Vec<_> = self.holders.iter().map(|holder| holder_text(&holder.client, holder.number)).collect();
        let holders = holders.join(" and ");
        let lease_text = lease_text(self.lease_left_ms);
        let says = match self.event {
            "held" => format!("held by {holders}; {lease_text}"),
            "passed" => format!("passed to {holders}; {lease_text}"),
            "ended" => "ended: its lease is over".to_owned(),
            event => event.to_owned(),
        };
        format!("{}  {}: {says}", self.at, printable(&self.name))
    }
}
