//! `redgrid queue`: reliable queues.

mod list;
mod peek;
mod redrive;

use std::process::ExitCode;

use clap::Subcommand;
use redgrid::Name;
use redgrid::codecs::Raw;
use redgrid::reliable_queue::ReliableQueue;

use self::list::{CountsOptions, LsOptions};
use self::peek::PeekOptions;
use self::redrive::RedriveOptions;
use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::server::Server;

/// Subcommands of `redgrid queue`.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List the queues of all nodes, with their numbers of messages
    #[command(after_long_help = list::HELP)]
    Ls(LsOptions),
    /// Show the numbers of messages in some queues
    #[command(after_long_help = list::HELP)]
    Counts(CountsOptions),
    /// Show the first messages of a queue, without receiving them
    #[command(after_long_help = peek::HELP)]
    Peek(PeekOptions),
    /// Make dead letters ready again
    #[command(after_long_help = redrive::HELP)]
    Redrive(RedriveOptions),
}

/// Runs `redgrid queue`.
pub(crate) async fn run(global: &Global, command: &QueueCommand) -> Result<ExitCode, Failure> {
    match command {
        QueueCommand::Ls(options) => list::ls(global, options).await,
        QueueCommand::Counts(options) => list::counts(global, options).await,
        QueueCommand::Peek(options) => peek::run(global, options).await,
        QueueCommand::Redrive(options) => redrive::run(global, options).await,
    }
}

/// A queue with values as bytes, whatever codec their program uses.
type RawQueue = ReliableQueue<Vec<u8>, Raw>;

fn queue(server: &Server, name: &str) -> RawQueue {
    ReliableQueue::<Vec<u8>>::new(server.grid.client(), name).with_codec(Raw)
}

fn checked(name: &str) -> Result<Name, Failure> {
    Name::new(name).map_err(|invalid| Failure::usage(one_line(&invalid)))
}
