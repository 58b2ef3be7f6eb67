//! A flash sale from beginning to end.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use redgrid::Grid;
use redgrid_testkit::RedisServer;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use uuid::Uuid;

use super::books;
use super::counter::Counter;
use super::crew::Crew;
use super::kill;
use super::order::Shop;
use super::proof::check;
use super::report::{Circumstances, Report, grouped};
use super::requests::crowd;
use super::rows::{self, BadRow, Rows};
use super::shop_lock::{BoxError, LEASE, SHORT_LEASE};
use super::wire::{Job, Tally};
use super::worker::{READY_TIMEOUT, SHUTDOWN_TIMEOUT, connect};
use crate::cli::{Global, LockKind, SaleOptions};
use crate::exit_codes::WRONG;
use crate::failure::{Failure, one_line};
use crate::named::Named;
use crate::output::{notice, print_json, print_line};
use crate::server::{address, unreachable};

/// Number of bad rows printed to stderr; the others are only counted there.
const SHOWN_BAD_ROWS: usize = 20;

/// Time between two progress lines: 100 ms, as fast as a person can read the numbers.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Time between two checks of the server: 1 s, short compared with the timeout after which requests
/// fail and the sale ends.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long deleting the keys may take: 2 s, enough for a reachable server.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the sale, prints its report, and returns the exit code.
pub(crate) async fn run(global: &Global, options: &SaleOptions) -> Result<ExitCode, Failure> {
    if options.kill_one && (options.processes < 2 || options.lock == LockKind::None) {
        return Err(Failure::usage(
            "--kill-one needs a lock that outlives its holder, and --processes 2 or more to go on",
        ));
    }
    let Rows { requests, bad } = match &options.requests {
        Some(path) => rows::read(path)?,
        None => Rows { requests: crowd(options.seed, options.stock), bad: Vec::new() },
    };
    print_bad_rows(global, &bad);
    let server = SaleServer::find(global).await?;
    let products: BTreeSet<String> = requests.iter().map(|request| request.product.clone()).collect();
    let products: Vec<&str> = products.iter().map(String::as_str).collect();
    let namespace = format!("redgrid-demo:{}", Uuid::new_v4().simple());
    let timeout = global.timeout.unwrap_or(READY_TIMEOUT);
    let grid = connect(&server.named, &namespace, timeout).await.map_err(|error| server.unreachable(&*error))?;

    let counter = Counter::new(requests);
    let mut crew = Crew::default();
    let lease = if options.kill_one { SHORT_LEASE } else { LEASE };
    let job = Job { servers: server.named.clone(), namespace, lock: options.lock, tasks: options.tasks, lease };
    let sale = Sale { grid: &grid, server: &server, products: &products, options, counter: &counter };
    let outcome = tokio::select! {
        outcome = sale.sell(&mut crew, &job, global.json || global.quiet) => outcome,
        number = stopped() => Err(Failure::signalled(number)),
    };
    // The workers end first, because their last writes must be deleted too.
    crew.stop().await;
    let report = match outcome {
        Ok(took) => sale.report(took, bad).await,
        Err(failure) => Err(failure),
    };
    let report =
        if server.private.is_some() { report } else { clean_up(&grid, &products, &job.namespace, report).await };
    // This client holds no lock, so a failed shutdown has no effect.
    let _ = grid.shutdown(SHUTDOWN_TIMEOUT).await;

    let report = report?;
    if global.json { print_json(&report) } else { print_line(&report.table()) }?;
    Ok(if report.is_proven() { ExitCode::SUCCESS } else { ExitCode::from(WRONG) })
}

/// Deletes the keys of the sale, or reports that they remain.
async fn clean_up(
    grid: &Grid,
    products: &[&str],
    namespace: &str,
    report: Result<Report, Failure>,
) -> Result<Report, Failure> {
    match (timeout(DELETE_TIMEOUT, books::delete(grid, products)).await, report) {
        (Ok(Ok(())), report) => report,
        (_, Err(failure)) => Err(failure.and(&format!("delete the keys {namespace}:* by hand"))),
        (_, Ok(report)) => {
            eprintln!("redgrid: the keys {namespace}:* could not be deleted, do so by hand");
            Ok(report)
        }
    }
}

/// State shared by the parts of a sale.
struct Sale<'a> {
    grid: &'a Grid,
    server: &'a SaleServer,
    products: &'a [&'a str],
    options: &'a SaleOptions,
    counter: &'a Arc<Counter>,
}

impl Sale<'_> {
    /// Creates the data, starts the workers, and serves all requests. Returns how long serving
    /// took.
    async fn sell(&self, crew: &mut Crew, job: &Job, quiet: bool) -> Result<Duration, Failure> {
        let opened = books::open(self.grid, self.products, self.options.stock).await;
        opened.map_err(|error| self.server.unreachable(&*error))?;
        crew.start(self.options.processes, job).await?;
        let victims = crew.victims();
        let start = Instant::now();
        let show = !quiet && io::stdout().is_terminal();
        tokio::select! {
            () = crew.serve(self.counter) => {}
            () = progress(self.counter, start, show) => {}
            () = kill::one(self.grid, self.counter, self.options, self.products, &victims) => {}
            gone = self.watch() => return Err(gone),
        }
        let took = start.elapsed();
        if show {
            print!("\r\x1b[K");
        }
        Ok(took)
    }

    /// Completes the last order of each product, which a worker that died may have left incomplete.
    async fn settle(&self) -> Result<(), BoxError> {
        let shop = Shop::new(self.grid.clone(), self.options.lock, LEASE);
        for product in self.products {
            let finished = shop.settle(product).await?;
            self.counter.settle(Tally { finished, ..Tally::default() });
        }
        Ok(())
    }

    /// Returns a failure once the server is unreachable. Without this check, each remaining request
    /// would end only after its timeout.
    async fn watch(&self) -> Failure {
        loop {
            sleep(CHECK_INTERVAL).await;
            if let Err(error) = self.grid.command("PING").idempotent().query::<()>().await {
                return self.server.unreachable(&error);
            }
        }
    }

    async fn report(&self, took: Duration, bad: Vec<BadRow>) -> Result<Report, Failure> {
        self.settle().await.map_err(|error| self.server.unreachable(&*error))?;
        let books = books::read_back(self.grid, self.products).await;
        let books = books.map_err(|error| self.server.unreachable(&*error))?;
        let proof = check(self.options.stock, self.counter.requests(), &books);
        let server = self.server.describe(self.grid).await;
        let products = self.products.len();
        let circumstances = Circumstances { options: self.options, server, products, took, bad };
        Ok(Report::new(proof, self.counter.so_far(Clone::clone), circumstances))
    }
}

/// The server of the sale.
struct SaleServer {
    named: Named,
    address: String,
    /// A private server, if the user named none; it ends when this value is dropped.
    private: Option<RedisServer>,
}

impl SaleServer {
    async fn find(global: &Global) -> Result<Self, Failure> {
        if let Some(named) = Named::explicit(global)? {
            named.announce(global);
            let config = named.config().map_err(|error| named.unusable(&error))?;
            return Ok(SaleServer { named, address: address(&config), private: None });
        }
        match RedisServer::start().await {
            Ok(server) => {
                let named = Named::of_url(server.url(), "the private server");
                let address = server.addr().to_string();
                Ok(SaleServer { named, address, private: Some(server) })
            }
            Err(error) => Err(Failure::unavailable(format!(
                "cannot start a private server; install redis-server, or name a server with --url: {}",
                one_line(&error)
            ))),
        }
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Failure {
        unreachable(&self.address, error)
    }

    /// Describes the server: `redis 7.0.15 at 127.0.0.1:6379`.
    async fn describe(&self, grid: &Grid) -> String {
        // If the user lacks the permission, the description is shorter.
        let info: String = grid.command("INFO").arg("server").query().await.unwrap_or_default();
        let field =
            |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let version = match (field("valkey_version"), field("redis_version")) {
            (Some(version), _) => format!("valkey {version}"),
            (None, Some(version)) => format!("redis {version}"),
            (None, None) => "a server".into(),
        };
        let private = if self.private.is_some() { ", private" } else { "" };
        format!("{version} at {}{private}", self.address)
    }
}

fn print_bad_rows(global: &Global, bad: &[BadRow]) {
    for row in bad.iter().take(SHOWN_BAD_ROWS) {
        notice(global, &format!("line {} is left out: {}", row.line, row.why));
    }
    if bad.len() > SHOWN_BAD_ROWS {
        notice(global, &format!("{} more rows are left out", bad.len() - SHOWN_BAD_ROWS));
    }
}

/// Prints the progress repeatedly.
async fn progress(counter: &Counter, start: Instant, show: bool) {
    let mut tick = interval(PROGRESS_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        if show {
            let (orders, answered) = counter.so_far(|tally| (tally.ordered.len() as u64, tally.requests()));
            let rate = orders as f64 / start.elapsed().as_secs_f64().max(0.001);
            let all = grouped(counter.requests().len() as u64);
            let rate = grouped(rate.round() as u64);
            let orders = grouped(orders);
            let answered = grouped(answered);
            print!("\r{orders} orders, {answered} of {all} requests answered, {rate} orders/s\x1b[K");
            // An error of the terminal does not stop the sale.
            let _ = io::stdout().flush();
        }
    }
}

/// Waits for a signal to stop, and returns its number.
async fn stopped() -> u8 {
    let wait = async |kind| match signal(kind) {
        Ok(mut signal) => signal.recv().await.is_some(),
        // If no handler can be installed, the signal ends the process.
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        _ = wait(SignalKind::interrupt()) => 2,
        _ = wait(SignalKind::terminate()) => 15,
    }
}
