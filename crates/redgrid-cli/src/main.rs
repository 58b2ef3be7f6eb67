//! `redgrid`: the command line of redgrid, a thin reader of the library's API.
//!
//! Each command parses, understands, runs, and ends with a documented exit code; see the crate's README.

mod bench;
mod cli;
mod demo;
mod failure;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, DemoCommand};
use crate::failure::Failure;

fn main() -> ExitCode {
    // Bad usage ends here, with exit code 2 and clap's own words.
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
    match cli.command {
        Command::Bench(options) => bench::run(&cli.global, &options),
        Command::Demo { command } => match command {
            DemoCommand::FlashSale(options) => demo::flash_sale(&cli.global, options),
            DemoCommand::Requests(options) => demo::sample(&options),
            DemoCommand::SaleWorker => demo::worker(),
        },
    }
}
