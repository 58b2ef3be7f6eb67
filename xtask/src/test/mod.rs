//! All tests: built once, and run side by side.

mod programs;
pub(crate) mod side_by_side;

use std::{ffi::OsString, path::Path, process::ExitCode, thread, time::Instant};

use redgrid_testkit::{NEWEST_VARIABLE, SERVER_VARIABLE};

use crate::{
    cargo, install,
    steps::{self, Failure, say},
    suite::Counts,
    test::{programs::Program, side_by_side::Ended},
};

/// Metrics and spans are built into everything that is tested, so that nothing is built twice. A
/// feature only adds code: without it, the same code has less to do. `cargo xtask release-check
/// features` checks that each crate builds without it.
pub(crate) const FEATURES: [&str; 2] = ["--features", "redgrid-tests/observability"];

/// The number of concurrent tests of a program, read by Rust's test harness.
const THREADS: &str = "RUST_TEST_THREADS";

/// Runs all tests; with arguments, `cargo test --workspace` with them.
pub(crate) fn run(workspace: &Path, args: impl Iterator<Item = OsString>) -> Result<ExitCode, Failure> {
    let settings = settings(workspace)?;
    let mut args = args.peekable();
    if args.peek().is_none() {
        return everything(workspace, &settings);
    }
    let mut tests = cargo();
    tests.args(["test", "--workspace"]).args(FEATURES).args(args);
    steps::run_through(tests.envs(settings))
}

/// Variables of each test program.
pub(crate) fn settings(workspace: &Path) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let mut settings = vec![(SERVER_VARIABLE, install::server(workspace)?.path().into())];
    match install::newest(workspace) {
        Ok(newest) => settings.push((NEWEST_VARIABLE, newest.path().into())),
        Err(failure) => say(&format!("{failure}; the tests that also run on a newer server will say SKIPPED")),
    }
    if std::env::var_os(THREADS).is_none() {
        settings.push((THREADS, at_a_time().to_string().into()));
    }
    Ok(settings)
}

/// Tests mostly wait for servers, so more run concurrently than there are cores.
fn at_a_time() -> usize {
    cores() * 2
}

fn cores() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}

fn everything(workspace: &Path, settings: &[(&'static str, OsString)]) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    say("building the tests");
    let mut all = programs::build(&FEATURES)?;
    say(&format!("built {} programs in {} s; running them", all.len(), began.elapsed().as_secs()));
    all.push(examples_of_docs());
    let ended = side_by_side::run(workspace, all, settings)?;
    Ok(summary(&ended, began))
}

/// The examples of the documentation are built and run by rustdoc.
fn examples_of_docs() -> Program {
    let mut command = cargo();
    command.args(["test", "--workspace", "--doc", "--no-fail-fast"]).args(FEATURES);
    Program { name: "documentation".into(), command }
}

/// Prints all failures again, and the counts of all programs.
fn summary(ended: &[Ended], began: Instant) -> ExitCode {
    let failed: Vec<_> = ended.iter().filter(|ended| !ended.counts.is_good()).collect();
    for ended in &failed {
        println!("\n==== {}: {}\n{}", ended.name, ended.counts, failures(&ended.output));
    }
    let mut all = Counts::default();
    for ended in ended {
        all.passed += ended.counts.passed;
        all.failed += ended.counts.failed;
        all.skipped += ended.counts.skipped;
    }
    println!("\n==== {} programs: {all}, in {} s", ended.len(), began.elapsed().as_secs());
    for ended in &failed {
        println!("==== FAILED: {}: {}", ended.name, ended.counts);
        for name in &ended.counts.failures {
            println!("====   {name}");
        }
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the part of the output that describes the failures: the harness's list, or else the
/// last lines.
fn failures(output: &str) -> String {
    let lines: Vec<_> = output.lines().collect();
    let list = lines.iter().position(|line| *line == "failures:");
    lines[list.unwrap_or(lines.len().saturating_sub(LAST_LINES))..].join("\n")
}

/// The number of last lines shown of a program that printed no list of failures.
const LAST_LINES: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_failures_or_else_the_last_lines_are_shown_again() {
        let output = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nwhy\n\ntest result: FAILED.\n";
        assert_eq!(failures(output), "failures:\n\n---- a stdout ----\nwhy\n\ntest result: FAILED.");
        let endless: String = (0..1_000).map(|n| format!("{n}\n")).collect();
        assert_eq!(failures(&endless).lines().next(), Some("940"));
        assert_eq!(failures("killed\n"), "killed");
    }
}
