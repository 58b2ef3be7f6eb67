//! Runs each program in `examples/` against servers of its own. Checks that it succeeds, that it
//! prints the lines of `expected.txt`, and that it leaves no key without a lifetime.
//!
//! `build.rs` makes a module of each program. This program starts itself for each of them: the
//! variable `EXAMPLE_PROGRAM` names the one to run.

mod deployment;
mod expected;
mod process;
mod table;

use std::env;
use std::process::ExitCode;

use libtest_mimic::{Failed, Trial};
use tokio::runtime::Runtime;

use deployment::{Deployment, Outcome};
use process::Printed;
use table::{Example, examples};

/// The name of a program, and the function that runs it.
type Program = (&'static str, fn() -> ExitCode);

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// The variable that names the program to run. It does not begin with `REDGRID_`, because names of
/// redgrid's settings do.
const PROGRAM: &str = "EXAMPLE_PROGRAM";

/// The key that marks a server as a voter of a quorum. It has no lifetime (docs/internals/keys.md).
const SERVER_MARK: &str = "redgrid_birth";

fn main() -> ExitCode {
    if let Ok(name) = env::var(PROGRAM) {
        let found = PROGRAMS.iter().find(|(program, _)| *program == name);
        return found.map_or(ExitCode::FAILURE, |(_, run)| run());
    }
    let args = process::arguments();
    let runtime = Runtime::new().expect("a runtime starts");
    let mut trials = vec![
        Trial::test("each_program_is_in_the_table", each_program_is_in_the_table),
        Trial::test("other_lines_are_noticed", expected::other_lines_are_noticed),
    ];
    for example in examples() {
        let on = runtime.handle().clone();
        let is_skipped = process::lacks_its_server(example.name, example.servers, &args);
        let trial = Trial::test(example.name, move || on.block_on(run(&example)));
        trials.push(trial.with_ignored_flag(is_skipped));
    }
    libtest_mimic::run(&args, trials).exit_code()
}

/// Runs one program in a process of its own.
async fn run(example: &Example) -> Result<(), Failed> {
    let deployment = Deployment::start(example.servers).await?;
    let printed = Printed::by(process::command(PROGRAM, example.name, &deployment)?).await?;
    expected::compare(&example.prints, example.order, &printed.out)
        .map_err(|difference| printed.failed(&difference))?;
    let left = keys_without_lifetime(&deployment).await?;
    if left.is_empty() { Ok(()) } else { Err(printed.failed(&format!("keys without a lifetime are left: {left:?}"))) }
}

/// Returns the keys of all servers that would stay for ever.
async fn keys_without_lifetime(deployment: &Deployment) -> Outcome<Vec<String>> {
    let servers = match deployment {
        Deployment::Single(server) => std::slice::from_ref(server),
        Deployment::Quorum(servers) => servers,
        Deployment::Sentinels(sentinels) => std::slice::from_ref(sentinels.current_primary().await?),
        Deployment::Cluster(cluster) => cluster.nodes(),
    };
    let mut left = Vec::new();
    for server in servers {
        let observer = server.observer().await?;
        for key in observer.keys("*").await? {
            // −1: the key has no lifetime. −2: it has expired meanwhile.
            if observer.query::<i64>(&["PTTL", &key]).await? == -1 && key != SERVER_MARK {
                left.push(key);
            }
        }
    }
    Ok(left)
}

fn each_program_is_in_the_table() -> Result<(), Failed> {
    let mut listed: Vec<_> = examples().iter().map(|example| example.name).collect();
    listed.sort_unstable();
    let programs: Vec<_> = PROGRAMS.iter().map(|(name, _)| *name).collect();
    if programs == listed { Ok(()) } else { Err(format!("in examples/: {programs:?}; listed: {listed:?}").into()) }
}
