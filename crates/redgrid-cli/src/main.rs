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
mod demo;
mod doctor;
mod failure;
mod holder;
mod inspect;
mod lock;
mod ls;
mod server;
mod text;
mod unlock;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, ConfigCommand, DemoCommand};
use crate::failure::Failure;

fn main() -> ExitCode {
    // If the usage is invalid, the process ends here with exit code 2 and clap's message.
    let cli = Cli::parse();
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
    if global.url.is_some() && global.config.is_some() {
        // One option is before the command and the other after it: clap checks each position
        // separately.
        return Err(Failure::usage("--url and --config both name the servers; give one of them"));
    }
    match cli.command {
        Command::Bench(options) => bench::run(global, &options),
        Command::Clients(options) => server::runtime()?.block_on(clients::run(global, &options)),
        Command::Config { command: ConfigCommand::Check { file } } => config::check(global, &file),
        #[cfg(feature = "console")]
        Command::Console(options) => server::runtime()?.block_on(console::run(global, &options)),
        Command::Demo { command } => match command {
            DemoCommand::FlashSale(options) => demo::flash_sale(global, options),
            DemoCommand::Requests(options) => demo::sample(&options),
            DemoCommand::SaleWorker => demo::worker(),
        },
        Command::Doctor(options) => server::runtime()?.block_on(doctor::run(global, &options)),
        Command::Lock(options) => server::runtime()?.block_on(lock::run(global, &options)),
        Command::Inspect(options) => server::runtime()?.block_on(inspect::run(global, &options)),
        Command::Ls(options) => server::runtime()?.block_on(ls::run(global, &options)),
        Command::Unlock(options) => server::runtime()?.block_on(unlock::run(global, &options)),
        Command::Watch(options) => server::runtime()?.block_on(watch::run(global, &options)),
    }
}
