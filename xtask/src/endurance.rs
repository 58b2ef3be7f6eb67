//! The cost of lasting faults: runs the measures of `tests/endurance`, with their bounds.

use std::{process::ExitCode, time::Duration};

use redgrid_testkit::SERVER_VARIABLE;
use serde_json::Value;

use crate::{
    cargo, install,
    measured::{cell, line, table},
    steps::{Failure, run, say},
    workspace,
};

/// The timeout of a measure: three times the duration of the longest one.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(300);

const MEASURES: [&str; 6] = ["reshard", "dead-primary", "stopped-replica", "names", "early-start", "idle"];

/// Columns of the table: a heading, and the path of its value in a promise of a JSON line.
const COLUMNS: [(&str, &str); 4] =
    [("promise", "/what"), ("measured", "/was"), ("bound", "/bound"), ("holds", "/holds")];

/// Runs all measures, or the named one. Prints a line of JSON for each, and a table at the end.
/// Fails if a promise was broken.
pub(crate) fn run_all(only: Option<&str>, late: u32, names: u32) -> Result<ExitCode, Failure> {
    let chosen: Vec<_> = MEASURES.into_iter().filter(|measure| only.is_none_or(|only| only == *measure)).collect();
    if chosen.is_empty() {
        say(&format!("there is no such measure; there are {}", MEASURES.join(", ")));
        return Ok(ExitCode::from(2));
    }
    let server = install::server(&workspace()?)?;
    say("building");
    run(cargo().args([
        "build",
        "--release",
        "--package",
        "redgrid-tests",
        "--features",
        "long",
        "--bin",
        "endurance",
    ]))?;
    let headings = ["measure"].into_iter().chain(COLUMNS.map(|(heading, _)| heading)).map(str::to_owned).collect();
    let (mut rows, mut good): (Vec<Vec<String>>, bool) = (vec![headings], true);
    for measure in chosen {
        say(measure);
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
            "endurance",
            "--",
        ]);
        command.args([measure, &late.to_string(), &names.to_string()]).env(SERVER_VARIABLE, server.path());
        match line(&mut command, MEASURE_TIMEOUT + Duration::from_secs(late.into()))? {
            Some((line, ended_well)) => {
                println!("{line}");
                good &= ended_well;
                rows.extend(rows_of(measure, &serde_json::from_str(&line).unwrap_or_default()));
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

/// Returns a row for each promise of a line.
fn rows_of(measure: &str, line: &Value) -> Vec<Vec<String>> {
    let promises = line.pointer("/promises").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let row = |promise: &Value| {
        [measure.to_owned()].into_iter().chain(COLUMNS.iter().map(|(_, path)| cell(promise, path))).collect()
    };
    promises.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_promise_has_a_row() {
        let promise = serde_json::json!({ "what": "errors", "was": 0.0, "bound": "= 0", "holds": true });
        let rows = rows_of("idle", &serde_json::json!({ "promises": [promise.clone(), promise] }));
        let row = ["idle", "errors", "0.0", "= 0", "true"].map(str::to_owned).to_vec();
        assert_eq!(rows, [row.clone(), row]);
    }
}
