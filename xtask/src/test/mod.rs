//! All tests: builds them once, and runs their programs side by side.

mod programs;
mod progress;
pub(crate) mod side_by_side;

use std::{ffi::OsString, path::Path, process::ExitCode, thread, time::Instant};

use redgrid_testkit::{NEWEST_VARIABLE, SERVER_VARIABLE};

use crate::{
    alerts::{self, PROMTOOL_VARIABLE},
    browser, cargo, install,
    steps::{self, Failure, say},
    suite::Counts,
    test::{programs::Program, side_by_side::Ended},
};

/// Metrics and spans are built into all tested programs, so that each program is built once. This
/// is sufficient, because a feature only adds code. `cargo xtask release-check features` checks
/// that each crate builds without the features.
pub(crate) const FEATURES: [&str; 2] = ["--features", "redgrid-tests/observability"];

/// The variable that sets the number of concurrent tests of a program, read by Rust's test harness.
const THREADS: &str = "RUST_TEST_THREADS";

/// The reaction to a missing browser, driver or axe-core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Browser {
    /// Skip the tests that need it.
    AsFound,
    /// Install it where that is possible.
    Install,
}

/// Runs all tests. If there are arguments, runs `cargo test --workspace` with them instead.
pub(crate) fn run(
    workspace: &Path,
    browser: Browser,
    args: impl Iterator<Item = OsString>,
) -> Result<ExitCode, Failure> {
    let settings = settings(workspace, browser)?;
    let mut args = args.peekable();
    if args.peek().is_none() {
        return everything(workspace, &settings);
    }
    let mut tests = cargo();
    tests.args(["test", "--workspace"]).args(FEATURES).args(args);
    steps::run_through(tests.envs(settings))
}

/// Returns the environment variables of each test program.
pub(crate) fn settings(workspace: &Path, browser: Browser) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let mut settings = vec![(SERVER_VARIABLE, install::server(workspace)?.path().into())];
    match install::newest(workspace) {
        Ok(newest) => settings.push((NEWEST_VARIABLE, newest.path().into())),
        Err(failure) => say(&format!("{failure}; the tests that also run on a newer server will say SKIPPED")),
    }
    match alerts::promtool(workspace) {
        Ok(promtool) => settings.push((PROMTOOL_VARIABLE, promtool.into())),
        Err(failure) => say(&format!("{failure}; the tests of the alerts will say SKIPPED")),
    }
    settings.extend(browser::settings(browser));
    if std::env::var_os(THREADS).is_none() {
        settings.push((THREADS, at_a_time().to_string().into()));
    }
    Ok(settings)
}

/// Returns the number of concurrent tests. Tests mostly wait for servers, so it exceeds the number
/// of cores.
fn at_a_time() -> usize {
    cores() * 2
}

fn cores() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}

fn everything(workspace: &Path, settings: &[(&'static str, OsString)]) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    say("builds all tests, and runs them; from nothing, this took about half an hour on 2 cores");
    let mut all = programs::build(&FEATURES)?;
    all.push(examples_of_docs());
    let built = began.elapsed().as_secs();
    say(&format!("built in {built} s; running {} programs, several at a time", all.len()));
    let ended = side_by_side::run(workspace, all, settings)?;
    Ok(summary(&ended, began))
}

/// Returns the program that builds and runs the examples of the documentation: rustdoc.
fn examples_of_docs() -> Program {
    let mut command = cargo();
    command.args(["test", "--workspace", "--doc", "--no-fail-fast"]).args(FEATURES);
    Program { name: "documentation".into(), command }
}

/// Prints all failures again, and the counts of all programs. Returns the exit code.
fn summary(ended: &[Ended], began: Instant) -> ExitCode {
    let failed: Vec<_> = ended.iter().filter(|ended| !ended.counts.is_good()).collect();
    for ended in &failed {
        println!("\n==== {}: {}\n{}", ended.name, ended.counts, failures(&ended.output));
    }
    println!("\n==== {} programs in {} s", ended.len(), began.elapsed().as_secs());
    print!("{}", closing(ended));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the last lines: failed tests, skipped tests with their reasons, and the counts.
fn closing(ended: &[Ended]) -> String {
    let mut all = Counts::default();
    let mut lines = Vec::new();
    for Ended { name, counts, .. } in ended {
        all.add(counts);
        if !counts.is_good() {
            lines.push(format!("FAILED: {name}: {counts}"));
            lines.extend(counts.failures.iter().map(|test| format!("  {test}")));
        }
    }
    lines.extend(all.reasons.iter().map(|(reason, count)| format!("skipped {count}: {reason}")));
    lines.push(format!("tests: {} passed, {} failed, {} skipped", all.passed, all.failed, all.skipped));
    lines.join("\n") + "\n"
}

/// Returns the part of the output that describes the failures: the harness's list, or the last
/// lines if there is no list.
fn failures(output: &str) -> String {
    let lines: Vec<_> = output.lines().collect();
    let list = lines.iter().position(|line| *line == "failures:");
    lines[list.unwrap_or(lines.len().saturating_sub(LAST_LINES))..].join("\n")
}

/// The number of last lines that are shown of a program that printed no list of failures.
const LAST_LINES: usize = 60;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_list_of_failures_or_else_the_last_lines_are_shown_again() {
        let output = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nwhy\n\ntest result: FAILED.\n";
        assert_eq!(failures(output), "failures:\n\n---- a stdout ----\nwhy\n\ntest result: FAILED.");
        let endless: String = (0..1_000).map(|n| format!("{n}\n")).collect();
        assert_eq!(failures(&endless).lines().next(), Some("940"));
        assert_eq!(failures("killed\n"), "killed");
    }

    #[test]
    fn the_last_lines_name_what_failed_and_why_tests_were_skipped() {
        let skipped = "SKIPPED c: no newer server\nSKIPPED d: no Java\n";
        let one = Counts::read("test a ... ok\ntest c ... ok\ntest d ... ok\ntest result: ok.", skipped);
        let two = Counts::read("test b ... FAILED\ntest e ... ok\ntest result: FAILED.", "SKIPPED e: no Java\n");
        let hung = Counts { broken_off: Some("not done within 3600s".into()), ..Counts::default() };
        let ended = [("one", one), ("two", two), ("three", hung)];
        let ended = ended.map(|(name, counts)| Ended {
            name: name.into(),
            counts,
            output: String::new(),
            took: Duration::ZERO,
        });
        assert_eq!(
            closing(&ended),
            "FAILED: two: 0 passed, 1 failed, 1 skipped\n  b\n\
             FAILED: three: 0 passed, 0 failed, 0 skipped; not done within 3600s\n\
             skipped 2: no Java\nskipped 1: no newer server\n\
             tests: 1 passed, 1 failed, 3 skipped\n"
        );
    }
}
