//! `redgrid queue redrive`: makes dead letters ready again.

use std::process::ExitCode;

use clap::Args;
use redgrid::reliable_queue::MessageId;
use serde::Serialize;

use super::{checked, queue};
use crate::cli::Global;
use crate::exit_codes::WRONG;
use crate::failure::Failure;
use crate::output::{print_json, print_line};
use crate::server::{Reach, Server};
use crate::text::printable;

/// The end of `redgrid queue redrive --help`.
pub(super) const HELP: &str = "\
The messages keep their old positions, and their attempts are reset to zero. Find the cause of their failures before:
a message that fails again becomes a dead letter again.

If the command is interrupted or fails, some of the messages may be ready. Repeat it: a message that is no dead letter
any more is left alone.";

/// The most ids of one command.
const MAX_IDS: usize = 1_000;

/// Options of `redgrid queue redrive`.
#[derive(Debug, Args)]
pub(crate) struct RedriveOptions {
    /// The queue
    name: String,
    /// A dead letter, as `redgrid queue peek --state dead` shows it; may be given several times
    #[arg(long = "id", value_name = "ID", required_unless_present = "all")]
    ids: Vec<MessageId>,
    /// All messages that are dead letters now
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    #[command(flatten)]
    reach: Reach,
}

/// The output. The fields are those of its JSON, in their order.
#[derive(Debug, Serialize)]
struct Output<'a> {
    name: &'a str,
    /// The number of messages that are ready again.
    redriven: u64,
    /// The given ids that were no dead letters.
    not_dead: Vec<String>,
}

/// Runs `redgrid queue redrive`.
pub(super) async fn run(global: &Global, options: &RedriveOptions) -> Result<ExitCode, Failure> {
    let name = checked(&options.name)?;
    if options.ids.len() > MAX_IDS {
        return Err(Failure::usage(format!("expected at most {MAX_IDS} ids, got {}", options.ids.len())));
    }
    let server = Server::reach(global, &options.reach).await?;
    let redriven = redrive(&server, name.as_str(), options).await;
    server.leave().await;
    let output = redriven?;
    if global.json {
        print_json(&output)?;
    } else if !global.quiet {
        print_line(&output.text())?;
    }
    Ok(if output.redriven > 0 { ExitCode::SUCCESS } else { ExitCode::from(WRONG) })
}

async fn redrive<'a>(server: &Server, name: &'a str, options: &RedriveOptions) -> Result<Output<'a>, Failure> {
    let dead = queue(server, name).dead();
    let mut output = Output { name, redriven: 0, not_dead: Vec::new() };
    if options.all {
        output.redriven = dead.redrive().await.map_err(|error| server.failed(&error))?;
        return Ok(output);
    }
    for id in &options.ids {
        let was_dead = dead.redrive_one(*id).await.map_err(|error| {
            server.failed(&error).and(&format!("{} messages were made ready before", output.redriven))
        })?;
        if was_dead {
            output.redriven += 1;
        } else {
            output.not_dead.push(id.to_string());
        }
    }
    Ok(output)
}

impl Output<'_> {
    fn text(&self) -> String {
        let count = match self.redriven {
            0 => "no message is".to_owned(),
            1 => "1 message is".to_owned(),
            count => format!("{count} messages are"),
        };
        let others = match &self.not_dead[..] {
            [] => String::new(),
            ids => format!("; no dead letters: {}", ids.join(", ")),
        };
        format!("{}: {count} ready again{others}", printable(self.name))
    }
}
