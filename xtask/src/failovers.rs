//! Failovers by the dozen: what `tests/failovers` measures, on each kind of deployment and for each kind of fault.

use std::{
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use redgrid_testkit::SERVER_VARIABLE;
use serde_json::Value;

use crate::{
    cargo, install,
    steps::{Failure, not_run, run, say},
    workspace,
};

/// The longest a round may take on average: ten times what it takes.
const A_ROUND: Duration = Duration::from_secs(60);

/// For starting the servers, and counting in the end.
const AROUND: Duration = Duration::from_secs(120);

const RUNS: [(&str, &str); 4] = [("sentinel", "kill"), ("sentinel", "stop"), ("cluster", "kill"), ("cluster", "stop")];

/// Columns of the table: a heading, and where its value is in the line of JSON.
const COLUMNS: [(&str, &str); 16] = [
    ("deployment", "/topology"),
    ("fault", "/fault"),
    ("rounds", "/rounds"),
    ("promoted", "/promotion_ms/p50"),
    ("named", "/switched_ms/p50"),
    ("grant p50", "/first_grant_ms/p50"),
    ("p99", "/first_grant_ms/p99"),
    ("max ms", "/first_grant_ms/max"),
    ("held", "/default/contested"),
    ("double", "/default/double_holds"),
    ("writes", "/default/pushes"),
    ("lost", "/default/pushes_lost"),
    ("held all", "/all/contested"),
    ("double", "/all/double_holds"),
    ("counters", "/all/counters_off"),
    ("demoted", "/sent_to_demoted"),
];

/// Runs all four, a line of JSON each, and a table at the end; fails where a promise was broken.
pub(crate) fn play(rounds: u32) -> Result<ExitCode, Failure> {
    let server = install::server(&workspace()?)?;
    say("building");
    let build = ["build", "--release", "--package", "redgrid-tests", "--bin", "failovers"];
    run(cargo().args(build))?;
    let (mut rows, mut good) = (Vec::new(), true);
    for (topology, fault) in RUNS {
        say(&format!("{topology}: {rounds} failovers by {fault}"));
        let mut command = cargo();
        command.args(["run", "--release", "--quiet", "--package", "redgrid-tests", "--bin", "failovers", "--"]);
        command.args([topology, fault, &rounds.to_string()]).env(SERVER_VARIABLE, server.path());
        match line(&mut command, A_ROUND * rounds + AROUND)? {
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
    println!("{}", table(&rows));
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The last line that a program writes, and whether it ended well; `None` without one in time.
fn line(command: &mut Command, within: Duration) -> Result<Option<(String, bool)>, Failure> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|source| not_run(command, source))?;
    let began = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if began.elapsed() > within {
            // `cargo run` hands its process on to the program; the servers end with it.
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(100));
    }
    let output = child.wait_with_output().map_err(|source| not_run(command, source))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().last().map(|line| (line.to_owned(), output.status.success())))
}

fn table(rows: &[Value]) -> String {
    let cell = |row: &Value, path: &str| match row.pointer(path) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "-".to_owned(),
    };
    let mut lines = vec![COLUMNS.iter().map(|(heading, _)| format!("{heading:>10}")).collect::<String>()];
    lines.extend(
        rows.iter().map(|row| COLUMNS.iter().map(|(_, path)| format!("{:>10}", cell(row, path))).collect::<String>()),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_heading() {
        let row = serde_json::json!({ "topology": "cluster", "first_grant_ms": { "p99": 12.5 } });
        let table = table(&[row]);
        let widths: Vec<usize> = table.lines().map(str::len).collect();
        assert!(widths.len() == 2 && widths[0] == widths[1], "{table}");
        assert!(table.contains("12.5") && table.contains("   cluster"), "{table}");
    }
}
