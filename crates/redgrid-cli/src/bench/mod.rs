//! `redgrid bench`: this library's driver in a benchmark of several libraries.
//!
//! The driver runs one job from the command line, or many from stdin (`serve`). Each workload has
//! its own file.
//! `crew` runs the tasks, `latency` records their times, `outcome` prints the result.

mod adder;
mod allocations;
mod contended;
mod crew;
mod flash_sale;
mod held;
mod job;
mod latch;
mod latency;
mod number;
mod outcome;
mod permits;
mod queue;
mod reading;
mod serve;
mod start;
mod uncontended;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use redgrid::{Grid, LockGuard};
use tokio::runtime::{Builder, Runtime};

use self::job::{Job, Workload};
use self::outcome::Outcome;
use self::start::Start;
use crate::cli::{BenchOptions, Global};
use crate::exit_codes::WRONG;
use crate::failure::{Failure, one_line};
use crate::named::Named;

/// An error for display.
type BoxError = Box<dyn Error + Send + Sync>;

/// How long the first connection may take: 5 s, more than one attempt to connect.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the final release may take: 2 s, enough for the 10,000 locks of W5. Locks that are not
/// released by then end with their leases.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs `redgrid bench`.
pub(crate) fn run(global: &Global, options: &BenchOptions) -> Result<ExitCode, Failure> {
    let job = Job::from_options(options).map_err(|error| Failure::usage(error.to_string()))?;
    runtime(options.threads)?.block_on(async {
        let (grid, addr) = connect(global, options).await?;
        let mut driver = Driver { grid, held: Vec::new() };
        let ended =
            if options.serve { serve::run(&mut driver).await } else { once(&mut driver, &job, global.json).await };
        driver.release_held();
        // Locks that could not be released in time end with their leases.
        let _ = driver.grid.shutdown(SHUTDOWN_TIMEOUT).await;
        ended.map_err(|error| Failure::broken(format!("the benchmark on {addr} was aborted: {}", one_line(&*error))))
    })
}

/// A client of the benchmark's server, and the locks that W5 holds until the next job.
struct Driver {
    grid: Grid,
    held: Vec<LockGuard>,
}

impl Driver {
    /// Prepares a job, waits for the start, and runs it.
    async fn run(&mut self, job: &Job, start: &mut dyn Start) -> Result<Outcome, BoxError> {
        self.release_held();
        match job.workload {
            Workload::W1 => uncontended::run(&self.grid, job, start).await,
            Workload::W2 => contended::run(job, start, |name| self.grid.lock(name).acquire()).await,
            Workload::W6Fair => contended::run(job, start, |name| self.grid.fair_lock(name).acquire()).await,
            Workload::W6Rw => reading::run(&self.grid, job, start).await,
            Workload::W6Sem => permits::run(&self.grid, job, start).await,
            Workload::W6Latch => latch::run(&self.grid, job, start).await,
            Workload::W3 => flash_sale::run(&self.grid, job, start).await,
            Workload::W4 => number::run(&self.grid, job, start).await,
            Workload::W4Adder => adder::run(&self.grid, job, start).await,
            Workload::W7Queue | Workload::W7Push => queue::run(&self.grid, job, start).await,
            Workload::W5 => held::run(&self.grid, job, start, &mut self.held).await,
        }
    }

    /// Releases the locks of W5.
    fn release_held(&mut self) {
        self.held.clear();
    }
}

/// Runs one job from the command line.
async fn once(driver: &mut Driver, job: &Job, json: bool) -> Result<ExitCode, BoxError> {
    let outcome = driver.run(job, &mut start::AtOnce).await?;
    start::print_line(&if json { outcome.json(job)? } else { outcome.sentence(job) })?;
    Ok(if outcome.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(WRONG) })
}

/// Connects, and returns the client and the server's address for messages.
async fn connect(global: &Global, options: &BenchOptions) -> Result<(Grid, String), Failure> {
    let named = match (&options.addr, Named::explicit(global)?) {
        (Some(addr), _) => Named::of_url(format!("redis://{addr}"), "--addr"),
        (None, Some(named)) => named,
        (None, None) => return Err(Failure::usage("name the server: --addr HOST:PORT, --url URL or --config FILE")),
    };
    let mut config = named.config().map_err(|error| Failure::usage(one_line(&error)))?.client_name("redgrid-bench");
    named.announce(global);
    if let Some(namespace) = named.namespace() {
        config = config.namespace(namespace).map_err(|error| Failure::usage(one_line(&error)))?;
    }
    let shown = options.addr.clone().unwrap_or_else(|| "the server of --url".into());
    let unavailable = |error: &(dyn Error + 'static)| {
        Failure::unavailable(format!("cannot work with {shown}; start it, or check --addr: {}", one_line(error)))
    };
    let grid = Grid::connect(config).await.map_err(|error| unavailable(&error))?;
    grid.wait_ready(global.timeout.unwrap_or(READY_TIMEOUT)).await.map_err(|error| unavailable(&error))?;
    Ok((grid, shown))
}

/// Returns a runtime with several worker threads, as services have; with `threads` 1, one that uses
/// only this thread.
fn runtime(threads: u16) -> Result<Runtime, Failure> {
    let mut builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    if threads > 1 {
        builder.worker_threads(threads.into());
    }
    let built = builder.enable_all().build();
    built.map_err(|error| Failure::broken(format!("the runtime could not be started: {error}")))
}
