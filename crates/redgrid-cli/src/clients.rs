//! `redgrid clients`: lists the connected clients, with what they say of themselves.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use redgrid_inspect::{Answer, ClientReport, Inspector};
use serde::Serialize;

use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Cell, Column, Listing, OutputOptions, Row, Tone, notice};
use crate::server::{Reach, Server};
use crate::text::{date_text, printable};

/// The end of `redgrid clients --help`.
pub(crate) const HELP: &str = "\
Each `Client` of a process is one line. Each is asked for its report, at most 50 a second. A client that does not answer
within --answer-timeout, nor to a second question, is silent: its process is stopped or overloaded, or it does not
report (introspection is off, it may not publish, or its version is too old).

Columns: id, state, host, pid, program, name, version, held, waiting; with -o wide also started.";

/// Clients that are asked before their lines are printed.
const CHUNK: usize = 50;

/// Options of `redgrid clients`.
#[derive(Debug, Args)]
pub(crate) struct ClientsOptions {
    /// How long a client may take to answer
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "2500ms")]
    answer_timeout: Duration,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    reach: Reach,
}

/// A client. The fields are those of its JSON line, in its order.
#[derive(Debug, Serialize)]
struct Listed {
    id: String,
    state: &'static str,
    host: Option<String>,
    pid: Option<u32>,
    program: Option<String>,
    name: Option<String>,
    version: Option<String>,
    started_ms: Option<u64>,
    held: Option<u64>,
    waiting: Option<u64>,
}

/// Runs `redgrid clients`.
pub(crate) async fn run(global: &Global, options: &ClientsOptions) -> Result<ExitCode, Failure> {
    let listing = Listing::new(global, &options.output)?;
    let server = Server::reach(global, &options.reach).await?;
    let listed = list(global, &server, options, listing).await;
    server.leave().await;
    if listed? == 0 {
        notice(global, "no clients are connected");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the clients, and returns their number.
async fn list(
    global: &Global,
    server: &Server,
    options: &ClientsOptions,
    mut listing: Listing<Listed>,
) -> Result<u64, Failure> {
    let inspector = Inspector::new(server.grid.client());
    for ids in other_clients(global, server, &inspector).await?.chunks(CHUNK) {
        let answers = inspector.ask(ids, options.answer_timeout).await.map_err(|error| server.failed(&error))?;
        for client in answers.into_iter().map(Listed::from) {
            listing.push(&client)?;
        }
        if listing.is_closed() {
            break;
        }
    }
    listing.finish()
}

/// Returns the ids of the connected clients without this command itself. If they are not all, a
/// notice says so.
pub(crate) async fn other_clients(
    global: &Global,
    server: &Server,
    inspector: &Inspector,
) -> Result<Vec<String>, Failure> {
    let living = inspector.living_clients().await.map_err(|error| server.failed(&error))?;
    if !living.is_complete {
        notice(global, "this is only a part of the clients: a node did not answer, or there are too many");
    }
    let own = server.grid.client().id();
    Ok(living.ids.into_iter().filter(|id| id != own).collect())
}

impl From<Answer> for Listed {
    fn from(answer: Answer) -> Self {
        let state = if answer.report.is_some() { "alive" } else { "silent" };
        let report = answer.report.as_ref();
        // Values that a client does not know are empty.
        let text = |get: fn(&ClientReport) -> &String| report.map(get).filter(|text| !text.is_empty()).cloned();
        Listed {
            id: answer.id,
            state,
            host: text(|report| &report.host),
            pid: report.map(|report| report.pid),
            program: text(|report| &report.program),
            name: text(|report| &report.client_name),
            version: text(|report| &report.version),
            started_ms: report.map(|report| report.started_ms),
            held: report.map(|report| report.holds),
            waiting: report.map(|report| report.waiting),
        }
    }
}

impl Row for Listed {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("id", |row| printable(&row.id).into()),
        Column::new("state", |row| {
            Cell::new(row.state, if row.state == "alive" { Tone::Good } else { Tone::Doubtful })
        }),
        Column::new("host", |row| row.host.as_deref().map(printable).into()),
        Column::new("pid", |row| Cell::number(row.pid.map(u64::from))),
        Column::new("program", |row| row.program.as_deref().map(printable).into()),
        Column::new("name", |row| row.name.as_deref().map(printable).into()),
        Column::new("version", |row| row.version.as_deref().map(printable).into()),
        Column::wide("started", |row| row.started_ms.map(date_text).into()),
        Column::new("held", |row| Cell::number(row.held)),
        Column::new("waiting", |row| Cell::number(row.waiting)),
    ];

    fn name(&self) -> String {
        self.id.clone()
    }
}
