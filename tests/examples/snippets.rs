//! Runs the Rust blocks of README.md and docs/ against servers of their own. A block runs if it has
//! a function `main`, or a hidden function `example`. `expectations.rs` lists those that do not end
//! with `Ok` on a single server.
//!
//! `build.rs` makes a module of each block. This program starts itself for each of them: the
//! variable `SNIPPET` names the one to run.

mod deployment;
mod expectations;
mod given;
mod process;

use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use std::{env, fs, thread};

use libtest_mimic::{Failed, Trial};
use tokio::runtime::Runtime;

use deployment::Deployment;
use expectations::{Expected, ROWS, Row};
use process::Printed;

/// A block of a page.
pub(crate) struct Snippet {
    pub(crate) page: &'static str,
    /// Counts the Rust blocks of the page from 1, also those that do not run.
    pub(crate) number: usize,
    pub(crate) line: usize,
    pub(crate) run: fn() -> Result<(), String>,
}

include!(concat!(env!("OUT_DIR"), "/snippets.rs"));

/// The variable that names the block to run.
const SNIPPET: &str = "SNIPPET";

/// The time in which a block must end. The longest one takes five seconds on a quiet machine.
const LIMIT: Duration = Duration::from_secs(60);

/// After this time, a block that does not end by itself is ended.
const GOES_ON: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    if let Ok(name) = env::var(SNIPPET) {
        return match run_here(&name) {
            Ok(()) => ExitCode::SUCCESS,
            Err(difference) => {
                eprintln!("{difference}");
                ExitCode::FAILURE
            }
        };
    }
    let args = process::arguments();
    let runtime = Runtime::new().expect("a runtime starts");
    let mut trials = vec![Trial::test("each_row_names_a_block", each_row_names_a_block)];
    for snippet in SNIPPETS {
        let (on, name, row) = (runtime.handle().clone(), snippet.name(), Row::of(snippet));
        let is_skipped = process::lacks_its_server(&name, row.servers, &args);
        let trial = Trial::test(name, move || on.block_on(run(snippet, row)));
        trials.push(trial.with_ignored_flag(is_skipped));
    }
    libtest_mimic::run(&args, trials).exit_code()
}

impl Snippet {
    fn name(&self) -> String {
        format!("{}#{}", self.page, self.number)
    }

    fn find(page: &str, number: usize) -> Option<&'static Snippet> {
        SNIPPETS.iter().find(|snippet| snippet.page == page && snippet.number == number)
    }
}

/// Runs one block in a process of its own. It fails as well if the block prints to standard error.
async fn run(snippet: &Snippet, row: Row) -> Result<(), Failed> {
    let deployment = Deployment::start(row.servers).await?;
    let mut command = process::command(SNIPPET, &snippet.name(), &deployment)?;
    if let Deployment::Single(server) = &deployment {
        // The files that blocks read.
        fs::write(server.folder().join("redgrid.yaml"), format!("url: {}\n", server.url()))?;
        let of_redisson = format!("singleServerConfig:\n  address: \"{}\"\n", server.url());
        fs::write(server.folder().join("redisson.yaml"), of_redisson)?;
        command.current_dir(server.folder());
    }
    let at = format!("line {} of {}", snippet.line, snippet.page);
    let printed = Printed::by(command).await.map_err(|failed| match failed.message() {
        Some(message) => Failed::from(format!("{at}: {message}")),
        None => failed,
    })?;
    if printed.err.is_empty() { Ok(()) } else { Err(printed.failed(&format!("{at}: it prints errors"))) }
}

/// Runs one block in this process, and compares its end with the table.
fn run_here(name: &str) -> Result<(), String> {
    let snippet = SNIPPETS.iter().find(|snippet| snippet.name() == name).ok_or("there is no such block")?;
    let row = Row::of(snippet);
    if let Some(before) = row.after.and_then(|number| Snippet::find(snippet.page, number)) {
        (before.run)()?;
    }
    let (done, ended) = channel();
    thread::spawn(move || done.send((snippet.run)()));
    let limit = if row.expected == Expected::Runs { GOES_ON } else { LIMIT };
    match (row.expected, ended.recv_timeout(limit)) {
        (Expected::Ends, Ok(Ok(()))) | (Expected::Runs, Err(RecvTimeoutError::Timeout)) => Ok(()),
        (Expected::Fails(text), Ok(Err(error))) if error.contains(text) => Ok(()),
        (expected, outcome) => Err(format!("expected: {expected:?}; after at most {limit:?}: {outcome:?}")),
    }
}

fn each_row_names_a_block() -> Result<(), Failed> {
    for (index, row) in ROWS.iter().enumerate() {
        for number in [row.number].into_iter().chain(row.after) {
            if Snippet::find(row.page, number).is_none() {
                return Err(format!("{}#{number} is no block that runs", row.page).into());
            }
        }
        if ROWS[..index].iter().any(|other| other.page == row.page && other.number == row.number) {
            return Err(format!("{}#{} has two rows", row.page, row.number).into());
        }
    }
    Ok(())
}
