//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::clients::ClientsOptions;
#[cfg(feature = "console")]
use crate::console::ConsoleOptions;
use crate::context::ContextCommand;
use crate::doctor::DoctorOptions;
use crate::inspect::InspectOptions;
use crate::lock::LockOptions;
use crate::ls::LsOptions;
use crate::queue::QueueCommand;
use crate::reference::{CompletionsOptions, ManOptions};
use crate::top::TopOptions;
use crate::unlock::UnlockOptions;
use crate::wait::WaitOptions;
use crate::watch::WatchOptions;

/// The heading above the options of all commands.
const OF_ALL: &str = "Options of all commands";

/// Distributed locks on Redis and Valkey
// No `Debug`: a URL may contain a password.
#[derive(Parser)]
#[command(name = "redgrid", version, propagate_version = true)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command, before or after its name.
// No `Debug`: a URL may contain a password.
#[derive(Default, Args)]
pub(crate) struct Global {
    /// The servers, such as redis://user:password@host:6379/0. Other users of this machine see it
    /// in the list of processes; --url-file and contexts hide it
    #[arg(long, global = true, value_name = "URL", help_heading = OF_ALL)]
    pub(crate) url: Option<String>,
    /// A file with the URL of the servers; - is stdin
    #[arg(long, global = true, value_name = "FILE", help_heading = OF_ALL)]
    pub(crate) url_file: Option<PathBuf>,
    /// A file that names the servers: YAML, TOML, JSON, or one of Redisson's
    #[arg(long, global = true, value_name = "FILE", help_heading = OF_ALL)]
    pub(crate) config: Option<PathBuf>,
    /// A context: servers with a name, made by `redgrid context set`. Without any of these four,
    /// the variable REDGRID_CONTEXT, REDGRID_URL or REDGRID_CONFIG counts, then the context in use
    #[arg(long, global = true, value_name = "NAME", help_heading = OF_ALL)]
    pub(crate) context: Option<String>,
    /// Print a JSON object on each line
    #[arg(long, global = true, help_heading = OF_ALL)]
    pub(crate) json: bool,
    /// How long the servers may take to be reached, and to send each reply; by default 5s, and as
    /// configured. Of `wait`: how long the lock may take to be free
    #[arg(long, global = true, value_name = "DURATION", help_heading = OF_ALL)]
    #[arg(value_parser = humantime::parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print no notices, only results and errors
    #[arg(short, long, global = true, help_heading = OF_ALL)]
    pub(crate) quiet: bool,
    /// When to use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, help_heading = OF_ALL)]
    pub(crate) color: Color,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also in files and pipes
    Always,
    /// Nowhere
    Never,
}

impl Color {
    /// Applies the choice to stdout and stderr of this process.
    pub(crate) fn apply(self) {
        let choice = match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Measure the locks on a server, alone or side by side with other libraries
    #[command(after_long_help = BENCH_HELP)]
    Bench(BenchOptions),
    /// List the connected clients: host, program, and what they hold
    #[command(after_long_help = crate::clients::HELP)]
    Clients(ClientsOptions),
    /// Write completions for a shell to stdout
    #[command(after_long_help = crate::reference::COMPLETIONS_HELP)]
    Completions(CompletionsOptions),
    /// Show what a configuration file means
    Config {
        /// The subcommand.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Serve the web console: who holds which lock, who waits, and what looks wrong
    #[cfg(feature = "console")]
    #[command(after_long_help = crate::console::HELP)]
    Console(ConsoleOptions),
    /// Name servers, so that commands need no URL
    #[command(after_long_help = crate::context::HELP)]
    Context {
        /// The subcommand.
        #[command(subcommand)]
        command: ContextCommand,
    },
    /// Demonstrate the locks on a workload that can be verified
    Demo {
        /// The demonstration.
        #[command(subcommand)]
        command: DemoCommand,
    },
    /// Report what the servers' settings mean for locks, and what to change
    #[command(after_long_help = crate::doctor::HELP)]
    Doctor(DoctorOptions),
    /// Run a program while a lock is held
    #[command(after_long_help = crate::lock::HELP)]
    Lock(LockOptions),
    /// Show the holders of a lock, and who they are
    #[command(after_long_help = crate::inspect::HELP)]
    Inspect(InspectOptions),
    /// List the locks that are held, or objects of other kinds
    #[command(after_long_help = crate::ls::HELP)]
    Ls(LsOptions),
    /// Write manual pages to a folder
    Man(ManOptions),
    /// Look at reliable queues, and redrive their dead letters
    Queue {
        /// The subcommand.
        #[command(subcommand)]
        command: QueueCommand,
    },
    /// Show the locks that are held and waited for, again and again
    #[command(after_long_help = crate::top::HELP)]
    Top(TopOptions),
    /// Take a lock away from its holder, and record why
    #[command(after_long_help = crate::unlock::HELP)]
    Unlock(UnlockOptions),
    /// Wait until a lock is free, without acquiring it
    #[command(after_long_help = crate::wait::HELP)]
    Wait(WaitOptions),
    /// Follow the holders of a lock
    #[command(after_long_help = crate::watch::HELP)]
    Watch(WatchOptions),
}

/// Subcommands of `redgrid config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read a file as the library does; show the servers and every setting that is not at its
    /// default
    #[command(after_long_help = crate::config::HELP)]
    Check {
        /// YAML, TOML or JSON, or a file of Redisson's
        file: PathBuf,
    },
}

/// Options of `redgrid bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// The server
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) addr: Option<String>,
    /// Read jobs from stdin, one per line
    #[arg(long)]
    pub(crate) serve: bool,
    /// The workload: W1, W2, W3, W4, W4adder, W5, W6fair, W6rw, W6sem, W6latch,
    /// W7queue or W7push
    #[arg(long, value_name = "NAME", default_value = "W1")]
    pub(crate) workload: String,
    /// Concurrent tasks
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) tasks: usize,
    /// End after this many operations of all tasks together
    #[arg(long, value_name = "N")]
    pub(crate) ops: Option<u64>,
    /// End after this many seconds; 2 without --ops
    #[arg(long, value_name = "S")]
    pub(crate) secs: Option<f64>,
    /// Seconds of warm-up; default 0.3
    #[arg(long, value_name = "S")]
    pub(crate) warm: Option<f64>,
    /// Prefix of all keys; default: unique per process
    #[arg(long, value_name = "KEY")]
    pub(crate) prefix: Option<String>,
    /// Locks to hold (W5)
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) n: usize,
    /// Rounds (W6latch); default 20
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,
    /// Threads of the runtime; with 1 everything runs on the main thread
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
}

/// The demonstrations.
#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Sell a stock from several processes under one lock per product, then prove from Redis that
    /// the sale was correct
    #[command(after_long_help = SALE_HELP)]
    FlashSale(SaleOptions),
    /// Write a file of purchase requests for `flash-sale --requests`; the same seed writes the same
    /// bytes
    Requests(SampleOptions),
    /// One process of a flash sale: reads requests from stdin and reports to stdout, a line of JSON
    /// each.
    #[command(hide = true)]
    SaleWorker,
}

/// Options of `redgrid demo flash-sale`.
#[derive(Debug, Args)]
pub(crate) struct SaleOptions {
    /// Units of each product at the beginning
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) stock: u64,
    /// Processes that sell
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=32))]
    pub(crate) processes: u16,
    /// Concurrent tasks in each process
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) tasks: u16,
    /// The lock around reading, checking and writing an order
    #[arg(long, value_enum, default_value_t = LockKind::Redgrid)]
    pub(crate) lock: LockKind,
    /// Purchase requests as CSV (user_id,product_id,quantity); without it, requests for one product
    /// are generated
    #[arg(long, value_name = "FILE")]
    pub(crate) requests: Option<PathBuf>,
    /// Kill one process with SIGKILL when a third is sold, while it holds the lock
    #[arg(long)]
    pub(crate) kill_one: bool,
    /// Seed of the generated requests
    #[arg(long, default_value_t = 1, conflicts_with = "requests")]
    pub(crate) seed: u64,
}

/// Options of `redgrid demo requests`.
#[derive(Debug, Args)]
pub(crate) struct SampleOptions {
    /// Seed of the generator
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Rows to write, after a line of column names
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) rows: u64,
}

/// The lock around an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LockKind {
    /// The library's lock: the release wakes waiters
    Redgrid,
    /// A plain SET NX PX, retried every 5 ms, for comparison
    Setnx,
    /// Nothing: shows the overselling that a lock prevents
    None,
}

impl LockKind {
    /// Returns its name on the command line and in JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            LockKind::Redgrid => "redgrid",
            LockKind::Setnx => "setnx",
            LockKind::None => "none",
        }
    }
}

const SALE_HELP: &str = "\
Without --url and --config (and their variables) a private redis-server or valkey-server is started, and ended with
the command. On a server of yours, all keys begin with `redgrid-demo:<random id>:`, and are deleted at the end.

Each order locks its product, reads the stock and the buyers, checks them, and writes the order, the new stock and
the buyer with plain commands. Then it unlocks. An order that a killed process left incomplete is completed by the next
holder of the lock. Each user may order each product once. Rows of FILE that cannot be read are reported with their
line numbers, and left out. A context that is in use does not count here: name it with --context.";

const BENCH_HELP: &str = "\
Workloads:
  W1  lock and unlock, with a name for each task
  W2  lock and unlock, with one name for all tasks
  W3  sell a stock under one lock: GET, check, SET; set KEY:stock to a number first
  W4  add 1 to one number, in all tasks
  W4adder  add 1 to a LongAdder in all tasks, then sum it
  W5  hold locks that are renewed
  W6fair   as W2, with a fair lock
  W6rw     as W2, with a read-write lock; one in ten acquires writes
  W6sem    all tasks share eight permits without leases
  W6latch  all tasks wait for a latch, 20 times: from its count-down until the last task is awake
  W7queue  push a message to a reliable queue, receive one and acknowledge it, in all tasks
  W7push   push messages to a reliable queue, in all tasks

A context that is in use does not count here: name it with --context.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_options_stand_before_or_after_the_command() {
        for line in [
            "redgrid --json --url redis://h demo flash-sale",
            "redgrid demo flash-sale --json --url redis://h",
            "redgrid demo --json flash-sale --url redis://h",
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert!(cli.global.json && cli.global.url.as_deref() == Some("redis://h"), "{line}");
            assert!(!cli.global.quiet && cli.global.timeout.is_none(), "{line}");
        }
    }
}
