//! `redgrid`: the command line tool, a thin layer over the library.
//!
//! Each command parses its options, runs, and ends with a documented exit code (see the crate's
//! README).

mod bench;
mod cli;
mod clients;
mod config;
#[cfg(feature = "console")]
mod console;
mod context;
mod demo;
mod doctor;
mod ending;
mod exit_codes;
mod failure;
mod holder;
mod inspect;
mod lock;
mod ls;
mod named;
mod output;
mod queue;
mod reference;
mod server;
mod text;
mod top;
mod unlock;
mod wait;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::cli::{Cli, Command, ConfigCommand, DemoCommand};
use crate::failure::Failure;

fn main() -> ExitCode {
    // If the usage is invalid, the process ends here with exit code 2 and clap's message.
    let matches = exit_codes::document(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    cli.global.color.apply();
    match run(cli) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("redgrid: {failure}");
            failure.code()
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let global = &cli.global;
    match cli.command {
        Command::Bench(options) => bench::run(global, &options),
        Command::Clients(options) => server::runtime()?.block_on(clients::run(global, &options)),
        Command::Completions(options) => reference::completions(&options),
        Command::Config { command: ConfigCommand::Check { file } } => config::check(global, &file),
        #[cfg(feature = "console")]
        Command::Console(options) => server::runtime()?.block_on(console::run(global, &options)),
        Command::Context { command } => context::run(global, &command),
        Command::Demo { command } => match command {
            DemoCommand::FlashSale(options) => demo::flash_sale(global, options),
            DemoCommand::Requests(options) => demo::sample(&options),
            DemoCommand::SaleWorker => demo::worker(),
        },
        Command::Doctor(options) => server::runtime()?.block_on(doctor::run(global, &options)),
        Command::Lock(options) => server::runtime()?.block_on(lock::run(global, &options)),
        Command::Inspect(options) => server::runtime()?.block_on(inspect::run(global, &options)),
        Command::Ls(options) => server::runtime()?.block_on(ls::run(global, &options)),
        Command::Man(options) => reference::man(global, &options),
        Command::Queue { command } => server::runtime()?.block_on(queue::run(global, &command)),
        Command::Top(options) => server::runtime()?.block_on(top::run(global, &options)),
        Command::Unlock(options) => server::runtime()?.block_on(unlock::run(global, &options)),
        Command::Wait(options) => server::runtime()?.block_on(wait::run(global, &options)),
        Command::Watch(options) => server::runtime()?.block_on(watch::run(global, &options)),
    }
}
