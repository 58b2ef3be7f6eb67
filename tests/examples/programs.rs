//! Runs each program in `examples/` against servers of its own. Checks that it succeeds, that it
//! prints the lines of `expected.txt`, and that it leaves no key without a lifetime.
//!
//! `build.rs` makes a module of each program. This program starts itself for each of them: the
//! variable `EXAMPLE_PROGRAM` names the one to run.

mod deployment;
mod expected;
mod table;

use std::env;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use redgrid_testkit::ServerBinary;
use tokio::process::Command;
use tokio::runtime::Runtime;

use deployment::Deployment;
use table::{Example, Servers, examples};

/// The name of a program, and the function that runs it.
type Program = (&'static str, fn() -> ExitCode);

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// Names the program to run. Names of redgrid's settings begin with `REDGRID_`.
const PROGRAM: &str = "EXAMPLE_PROGRAM";

/// Ends a program that hangs. The longest one takes ten seconds on a quiet machine, and more than a
/// minute on a busy one.
const LIMIT: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    if let Ok(name) = env::var(PROGRAM) {
        let found = PROGRAMS.iter().find(|(program, _)| *program == name);
        return found.map_or(ExitCode::FAILURE, |(_, run)| run());
    }
    let mut args = Arguments::from_args();
    let threads = env::var("RUST_TEST_THREADS").ok().and_then(|threads| threads.parse().ok());
    args.test_threads = args.test_threads.or(threads);
    let runtime = Runtime::new().expect("a runtime starts");
    let mut trials = vec![
        Trial::test("each_program_is_in_the_table", each_program_is_in_the_table),
        Trial::test("other_lines_are_noticed", expected::other_lines_are_noticed),
    ];
    for example in examples() {
        let (name, on) = (example.name, runtime.handle().clone());
        let is_skipped =
            example.servers == Servers::Newest && !args.list && ServerBinary::newest_or_skip(name).is_none();
        let trial = Trial::test(name, move || on.block_on(run(&example)));
        trials.push(trial.with_ignored_flag(is_skipped));
    }
    libtest_mimic::run(&args, trials).exit_code()
}

/// Runs one program in a process of its own.
async fn run(example: &Example) -> Result<(), Failed> {
    let deployment = Deployment::start(example.servers).await?;
    let mut command = Command::new(env::current_exe()?);
    // Settings of the caller do not reach the program.
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REDGRID_")) {
        command.env_remove(name);
    }
    command.env(PROGRAM, example.name).envs(deployment.variables());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let ended = tokio::time::timeout(LIMIT, command.output()).await;
    let output = ended.map_err(|_| format!("it has not ended after {LIMIT:?}"))??;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let described =
        |what: &str| Failed::from(format!("{what}\n--- it printed:\n{out}--- and to standard error:\n{err}"));
    if !output.status.success() {
        return Err(described(&output.status.to_string()));
    }
    expected::compare(&example.prints, example.order, &out).map_err(|difference| described(&difference))?;
    let left = deployment.keys_without_lifetime().await?;
    if left.is_empty() { Ok(()) } else { Err(described(&format!("keys without a lifetime are left: {left:?}"))) }
}

fn each_program_is_in_the_table() -> Result<(), Failed> {
    let mut listed: Vec<_> = examples().iter().map(|example| example.name).collect();
    listed.sort_unstable();
    let programs: Vec<_> = PROGRAMS.iter().map(|(name, _)| *name).collect();
    if programs == listed { Ok(()) } else { Err(format!("in examples/: {programs:?}; listed: {listed:?}").into()) }
}
