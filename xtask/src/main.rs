//! The project's own commands. They find or install a real server themselves, and print what they
//! do.

mod alerts;
mod bench;
mod book;
mod browser;
mod dashboards;
mod endurance;
mod failovers;
mod install;
mod matrix;
mod measured;
mod mutants;
#[cfg(test)]
mod pages;
mod release;
mod scale;
mod steps;
mod suite;
mod test;
mod wheel;

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use clap::{Parser, Subcommand};
use redgrid_testkit::SERVER_VARIABLE;

use crate::steps::{Failure, say};

/// The project's own commands. They need only Rust: a Redis server is found, or installed.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Runs the flash sale; further arguments go to `redgrid demo flash-sale`
    Demo {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Runs all tests, several programs at a time; with arguments, runs `cargo test --workspace`
    /// with them
    Test {
        /// Installs Chromium, its driver and axe-core for the tests with a browser, if they are
        /// missing: by apt-get and npm. Must be the first argument
        #[arg(long)]
        browser: bool,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Records histories of operations with faults (default 500) and checks them; limited in time
    Histories {
        #[arg(default_value_t = 500)]
        count: u32,
    },
    /// Replaces primaries in every way (default 50 times each), with sentinels and in a cluster,
    /// and checks every promise; limited in time
    Failovers {
        #[arg(default_value_t = 50)]
        rounds: u32,
    },
    /// Acquires a fair lock in four processes (default 100,000 times), then in two processes beside
    /// two of Redisson's (a tenth as often). Checks the order of entry by the server's own record,
    /// and then the shares of processes that contend for a plain lock, on a machine that does
    /// nothing else; limited in time
    Fairness {
        #[arg(default_value_t = 100_000)]
        count: u32,
    },
    /// Measures the cost of lasting faults, and checks it against bounds: moving slots, a dead
    /// primary, a stopped replica, 100,000 names, servers that start late, idle clients; limited in
    /// time
    Endurance {
        /// Only this one: reshard, dead-primary, stopped-replica, names, early-start or idle
        measure: Option<String>,
        /// How many seconds the clients of `early-start` wait for their servers
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        late: u32,
        /// Number of names in `names`
        #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
        names: u32,
    },
    /// Runs the tests that depend on the server on all supported servers; limited in time
    Matrix {
        /// Only servers with this in their names, for example `valkey` or `6.2`
        #[arg(long, value_name = "TEXT")]
        server: Option<String>,
        /// Only suites with this in their names: `topologies` or `behaviour`
        #[arg(long, value_name = "TEXT")]
        suite: Option<String>,
        /// Only tests with this in their names, instead of those of the suite
        #[arg(long, value_name = "TEXT")]
        test: Option<String>,
    },
    /// Measures the capacity of one process, one server and a cluster, and checks it against
    /// bounds: a million names used once, 100,000 held locks, 100,000 waiters, the cluster bus;
    /// limited in time
    Scale(scale::Options),
    /// Measures redgrid's driver beside others, in rotation, and reports ratios; with `--peers`, to
    /// Redisson and to limit models
    Bench(bench::Options),
    /// Checks what must hold before crates are published: manifests, packages, features, the oldest
    /// compiler. The features take 10 minutes on 2 cores, the oldest compiler 5
    ReleaseCheck {
        /// Only these parts; all of them if none is named
        parts: Vec<release::Part>,
    },
    /// Plants the faults of tests/mutants, one at a time, and runs the test that must fail with it.
    /// About 2 minutes for each fault
    Mutants {
        /// Only these; all of them if none is named
        names: Vec<String>,
        /// Number of them to choose at random
        #[arg(long, value_name = "COUNT")]
        sample: Option<usize>,
    },
    /// Builds the pages of docs/ as a book with search in target/book, and checks its links
    Book {
        /// Only finds or downloads mdBook, and prints its path
        #[arg(long)]
        program: bool,
    },
    /// Checks the rules for Prometheus and their test cases with promtool, from Debian's package
    /// prometheus
    Alerts,
    /// Writes the dashboards for Grafana from the table of metrics
    Dashboards,
    /// Writes pictures of all pages of the web console for the documentation, light and dark
    Screenshots,
    /// Finds or installs a server, and prints its path
    Server,
}

/// The beginning of the demo. Its times are those of a first run on a machine with 2 cores.
const DEMO: &str = "the flash sale: finds or installs a server, builds the command `redgrid`, and sells 10,000 items \
                    from 3 processes under one lock. On 2 cores the first run took 5 and a half minutes, 4 of them to \
                    build. A later run builds nothing";

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Demo { .. } => demo(),
        Task::Test { browser, .. } => {
            let browser = if browser { test::Browser::Install } else { test::Browser::AsFound };
            let args = passed_on().skip_while(|arg| arg == "--browser");
            workspace().and_then(|workspace| test::run(&workspace, browser, args))
        }
        Task::Histories { count } => histories(count),
        Task::Fairness { count } => fairness(count),
        Task::Failovers { rounds } => failovers::run_all(rounds),
        Task::Endurance { measure, late, names } => endurance::run_all(measure.as_deref(), late, names),
        Task::Matrix { server, suite, test } => {
            workspace().and_then(|workspace| matrix::run(&workspace, &matrix::Only { server, suite, test }))
        }
        Task::Scale(options) => scale::run_all(&options),
        Task::Bench(options) => bench::run_all(&options),
        Task::ReleaseCheck { parts } => workspace().and_then(|workspace| release::check(&workspace, &parts)),
        Task::Mutants { names, sample } => {
            workspace().and_then(|workspace| mutants::run_all(&workspace, &names, sample))
        }
        Task::Book { program } => workspace().and_then(|workspace| book::run(&workspace, program)),
        Task::Alerts => workspace().and_then(|workspace| alerts::run(&workspace)),
        Task::Dashboards => dashboards::run(),
        Task::Screenshots => workspace().and_then(|workspace| browser::screenshots(&workspace)),
        Task::Server => server(),
    };
    outcome.unwrap_or_else(|failure| {
        say(&failure.to_string());
        ExitCode::FAILURE
    })
}

fn demo() -> Result<ExitCode, Failure> {
    say(DEMO);
    let server = install::server(&workspace()?)?;
    let began = Instant::now();
    steps::run(cargo().args(["build", "--release", "--package", "redgrid-cli"]))?;
    say(&format!("built in {} s; the sale begins", began.elapsed().as_secs()));
    let mut demo = cargo();
    demo.args(["run", "--release", "--quiet", "--package", "redgrid-cli", "--", "demo", "flash-sale"]);
    steps::run_through(demo.args(without_dashes(passed_on())).env(SERVER_VARIABLE, server.path()))
}

fn histories(count: u32) -> Result<ExitCode, Failure> {
    let server = install::server(&workspace()?)?;
    let mut tests = cargo();
    tests.args(["test", "--release", "--package", "redgrid-tests", "--test", "histories", "--", "--nocapture"]);
    tests.env(SERVER_VARIABLE, server.path()).env("REDGRID_HISTORIES", count.to_string());
    say(&format!("building, then recording and checking {count} histories"));
    steps::run_through(&mut tests)
}

fn fairness(count: u32) -> Result<ExitCode, Failure> {
    let server = install::server(&workspace()?)?;
    say("building");
    steps::run(cargo().args(["build", "--release", "--package", "redgrid-tests", "--bins"]))?;
    let mut ours = cargo();
    ours.args(["run", "--release", "--quiet", "--package", "redgrid-tests", "--bin", "role", "--", "fair_order"]);
    ours.arg(count.to_string()).env(SERVER_VARIABLE, server.path());
    say(&format!("{count} acquisitions by 4 processes"));
    steps::run(&mut ours)?;
    let mut mixed = cargo();
    mixed.args(["test", "--release", "--package", "redgrid-tests", "--test", "interop", "--"]);
    mixed.args(["both_take_turns_in_order", "--nocapture"]).env(SERVER_VARIABLE, server.path());
    // Each process has eight threads or tasks, which share the acquisitions.
    mixed.env("REDGRID_FAIRNESS", (count / 10).div_ceil(8).to_string());
    say("beside two processes of Redisson");
    steps::run(&mut mixed)?;
    let mut shares = cargo();
    shares.args(["test", "--release", "--package", "redgrid-tests", "--features", "long", "--test", "fairness"]);
    shares.env(SERVER_VARIABLE, server.path());
    say("the shares and turns of up to 16 processes");
    steps::run_through(&mut shares)
}

fn server() -> Result<ExitCode, Failure> {
    let server = install::server(&workspace()?)?;
    println!("{}", server.path().display());
    Ok(ExitCode::SUCCESS)
}

/// Returns the unchanged arguments after the task: clap would keep a first `--`, which belongs to
/// `cargo test`.
fn passed_on() -> impl Iterator<Item = OsString> {
    env::args_os().skip(2)
}

/// Removes one leading `--`: `cargo xtask demo -- --json` is equivalent to
/// `cargo xtask demo --json`.
fn without_dashes(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut args = args.peekable();
    args.next_if(|first| first == "--");
    args
}

/// Returns the cargo that runs this program, so that the toolchain stays the same.
fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns the root of the workspace: the folder above this package.
fn workspace() -> Result<PathBuf, Failure> {
    let package = env::var_os("CARGO_MANIFEST_DIR").ok_or(Failure::NotByCargo)?;
    Path::new(&package).parent().map(Path::to_owned).ok_or(Failure::NotByCargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leading_pair_of_dashes_is_taken_away() {
        for (given, want) in
            [("-- --json", "--json"), ("--json", "--json"), ("-- -- x", "-- x"), ("--stock 5 --", "--stock 5 --")]
        {
            let kept: Vec<_> = without_dashes(given.split(' ').map(OsString::from)).collect();
            assert_eq!(kept, want.split(' ').collect::<Vec<_>>(), "{given}");
        }
        assert_eq!(without_dashes(std::iter::empty()).count(), 0);
    }
}
