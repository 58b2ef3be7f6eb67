//! Many failovers: runs the measurements of `tests/failovers`, for each kind of deployment and of
//! fault.

use std::{process::ExitCode, time::Duration};

use redgrid_testkit::SERVER_VARIABLE;
use serde_json::Value;

use crate::{
    cargo, install,
    measured::{cell, line, table},
    steps::{Failure, run, say},
    workspace,
};

/// The maximum average duration of a round: ten times the usual one.
const ROUND_TIMEOUT: Duration = Duration::from_secs(60);

/// Time allowed for starting the servers, and for counting at the end.
const SETUP_TIMEOUT: Duration = Duration::from_secs(120);

const RUNS: [(&str, &str); 6] = [
    ("sentinel", "plan"),
    ("sentinel", "kill"),
    ("sentinel", "stop"),
    ("cluster", "plan"),
    ("cluster", "kill"),
    ("cluster", "stop"),
];

/// Columns of the table: a heading, and the path of its value in the JSON line.
const COLUMNS: [(&str, &str); 19] = [
    ("deployment", "/topology"),
    ("fault", "/fault"),
    ("rounds", "/rounds"),
    ("promoted", "/promotion_ms/p50"),
    ("named", "/switched_ms/p50"),
    ("grant p50", "/first_grant_ms/p50"),
    ("p99", "/first_grant_ms/p99"),
    ("max ms", "/first_grant_ms/max"),
    ("still ms", "/still_after_ms/max"),
    ("plain writes", "/writes"),
    ("lost", "/writes_lost"),
    ("held", "/default/contested"),
    ("double", "/default/double_holds"),
    ("writes", "/default/pushes"),
    ("lost", "/default/pushes_lost"),
    ("held all", "/all/contested"),
    ("double", "/all/double_holds"),
    ("counters", "/all/counters_off"),
    ("demoted", "/sent_to_demoted"),
];

/// Runs all measurements. Prints a line of JSON for each, and a table at the end. Fails if a
/// promise was broken.
pub(crate) fn run_all(rounds: u32) -> Result<ExitCode, Failure> {
    let server = install::server(&workspace()?)?;
    say("building");
    let build = ["build", "--release", "--package", "redgrid-tests", "--features", "long", "--bin", "failovers"];
    run(cargo().args(build))?;
    let mut rows = Vec::new();
    let mut good = true;
    for (topology, fault) in RUNS {
        say(&format!("{topology}: {rounds} failovers by {fault}"));
        let mut command = cargo();
        command.args([
            "run",
            "--release",
            "--quiet",
            "--package",
            "redgrid-tests",
            "--features",
            "long",
            "--bin",
            "failovers",
            "--",
        ]);
        command.args([topology, fault, &rounds.to_string()]).env(SERVER_VARIABLE, server.path());
        match line(&mut command, ROUND_TIMEOUT * rounds + SETUP_TIMEOUT)? {
            Some((line, ended_well)) => {
                println!("{line}");
                good &= ended_well;
                rows.push(serde_json::from_str(&line).unwrap_or_default());
            }
            None => {
                say("  it did not come to its end");
                good = false;
            }
        }
    }
    let headings = COLUMNS.map(|(heading, _)| heading.to_owned()).to_vec();
    let cells = |row: &Value| COLUMNS.iter().map(|(_, path)| cell(row, path)).collect();
    let rows = rows.iter().map(cells).collect::<Vec<Vec<String>>>();
    println!("{}", table(&[vec![headings], rows].concat()));
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
