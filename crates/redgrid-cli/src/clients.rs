//! `redgrid clients`: lists the connected clients, with what they say of themselves.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use redgrid_inspect::{Answer, ClientReport, Inspector};
use serde::Serialize;

use crate::cli::Global;
use crate::failure::Failure;
use crate::server::{Reach, Server, print_json, print_line};
use crate::text::{printable, table};

/// The end of `redgrid clients --help`.
pub(crate) const HELP: &str = "\
Each `Client` of a process is one line. Each is asked for its report, at most 50 a second. A client that does not answer
within --timeout, nor to a second question, is silent: its process is stopped or overloaded, or it does not report
(introspection is off, it may not publish, or its version is too old).

Exit codes:
  0   done
  2   bad usage
  69  no server could be reached, or it refused";

/// Clients that are asked before their lines are printed.
const CHUNK: usize = 50;

/// Options of `redgrid clients`.
#[derive(Debug, Args)]
pub(crate) struct ClientsOptions {
    /// How long a client may take to answer
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "2500ms")]
    timeout: Duration,
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
    let server = Server::reach(global, &options.reach).await?;
    let listed = list(&server, options, global.json).await;
    server.leave().await;
    listed.map(|()| ExitCode::SUCCESS)
}

async fn list(server: &Server, options: &ClientsOptions, json: bool) -> Result<(), Failure> {
    let inspector = Inspector::new(server.grid.client());
    let living = inspector.living_clients().await.map_err(|error| server.failed(&error))?;
    if !living.is_complete {
        eprintln!("redgrid: this is only a part of the clients: a node did not answer, or there are too many");
    }
    let own = server.grid.client().id();
    let ids: Vec<String> = living.ids.into_iter().filter(|id| id != own).collect();
    let mut rows = Vec::new();
    for ids in ids.chunks(CHUNK) {
        let answers = inspector.ask(ids, options.timeout).await.map_err(|error| server.failed(&error))?;
        for client in answers.into_iter().map(Listed::from) {
            if json {
                print_json(&client)?;
            } else {
                rows.push(client.row());
            }
        }
    }
    match (json, rows.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => print_line("no clients are connected").map(drop),
        (false, false) => {
            let heading = ["ID", "STATE", "HOST", "PID", "PROGRAM", "NAME", "VERSION", "HELD", "WAITING"];
            print_line(&table(heading, &rows)).map(drop)
        }
    }
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

impl Listed {
    fn row(self) -> [String; 9] {
        let text = |text: Option<String>| text.map(|text| printable(&text).into_owned()).unwrap_or_default();
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        [
            printable(&self.id).into_owned(),
            self.state.to_owned(),
            text(self.host),
            number(self.pid.map(u64::from)),
            text(self.program),
            text(self.name),
            text(self.version),
            number(self.held),
            number(self.waiting),
        ]
    }
}
