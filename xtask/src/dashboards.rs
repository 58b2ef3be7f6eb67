//! Writes the dashboards for Grafana.

use std::process::ExitCode;

use crate::{
    cargo,
    steps::{self, Failure, say},
    test::FEATURES,
};

/// The variable that makes the test write the files instead of comparing them.
const WRITE_VARIABLE: &str = "WRITE_DASHBOARDS";

/// The test that compares the files with the table of metrics.
const TEST: &str = "contrib::the_dashboards_are_those_of_the_table";

/// Writes `contrib/grafana/*.json` from the table of metrics.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    let mut write = cargo();
    write.args(["test", "--package", "redgrid-tests"]).args(FEATURES);
    write.args(["--test", "metrics", "--", "--exact", TEST]).env(WRITE_VARIABLE, "1");
    steps::run(&mut write)?;
    say("the dashboards are in contrib/grafana");
    Ok(ExitCode::SUCCESS)
}
