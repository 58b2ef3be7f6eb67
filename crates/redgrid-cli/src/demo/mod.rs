//! `redgrid demo`: a workload that uses the locks, and its verification from the server's data.

mod books;
mod counter;
mod crew;
mod keys;
mod kill;
mod ledger;
mod order;
mod proof;
mod report;
mod requests;
mod rows;
mod sale;
mod shop_lock;
mod wire;
mod worker;

use std::io::{self, Write};
use std::process::ExitCode;

use crate::cli::{Global, SaleOptions, SampleOptions};
use crate::failure::Failure;
use crate::server::runtime;

/// Runs `redgrid demo flash-sale`.
pub(crate) fn flash_sale(global: &Global, options: SaleOptions) -> Result<ExitCode, Failure> {
    runtime()?.block_on(sale::run(global, &options))
}

/// Runs `redgrid demo requests`.
pub(crate) fn sample(options: &SampleOptions) -> Result<ExitCode, Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match requests::write_sample(&mut out, options.seed, options.rows).and_then(|()| out.flush()) {
        // The reader has closed the pipe, as `head` does; this is not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::broken(format!("the rows could not be written: {error}"))),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

/// Runs one process of a flash sale.
pub(crate) fn worker() -> Result<ExitCode, Failure> {
    runtime()?.block_on(worker::run())
}
