//! `redgrid doctor`: reports what the servers' settings mean for locks, and what to change.

use std::process::ExitCode;

use redgrid_inspect::{DoctorReport, Finding, InspectError, Inspector, Level, Requirements};

use crate::cli::Global;
use crate::failure::{Failure, WRONG, one_line};
use crate::server::{Reach, Server, print_json, print_line};

/// Options of `redgrid doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorOptions {
    #[command(flatten)]
    reach: Reach,
}

/// Runs `redgrid doctor`.
pub(crate) async fn run(global: &Global, options: &DoctorOptions) -> Result<ExitCode, Failure> {
    let server = Server::reach(global, &options.reach).await?;
    let report = Inspector::new(server.grid.client()).doctor(&Requirements::of(&server.config)).await;
    let report = report.map_err(|error| match error {
        InspectError::NoAddresses => Failure::usage(one_line(&error)),
        error => server.failed(&error),
    });
    server.leave().await;
    let report = report?;
    if global.json { print_json(&report) } else { print_line(&text(&report)) }?;
    Ok(if report.worst == Level::Fail { ExitCode::from(WRONG) } else { ExitCode::SUCCESS })
}

fn text(report: &DoctorReport) -> String {
    let mut text = format!("{}: {}", report.topology, report.nodes.join(", "));
    for finding in &report.findings {
        text.push('\n');
        text.push_str(&line(finding));
    }
    let count = |level| report.findings.iter().filter(|finding| finding.level == level).count();
    let fine = count(Level::Ok);
    let warned = count(Level::Warn);
    let failed = count(Level::Fail);
    text.push_str(&format!("\n{fine} ok, {warned} to consider, {failed} to correct"));
    text
}

fn line(finding: &Finding) -> String {
    let level = match finding.level {
        Level::Ok => "ok  ",
        Level::Warn => "warn",
        _ => "FAIL",
    };
    let place = finding.node.as_deref().map(|node| format!(" {node}:")).unwrap_or_default();
    format!("{level}  {:<12}{place} {}", finding.check, finding.message)
}

/// Appended to the long help.
pub(crate) const HELP: &str = "\
Each node of the deployment is checked separately, as the user of --url or --config. No data is changed: to check the
permissions, a hash and a string with unique names are written and deleted at once. Settings that this user may not read
(CONFIG, ACL, CLUSTER) are reported as not checked; an administrator sees more.

Exit codes:
  0   no faults; there may be warnings
  1   a setting breaks what locks promise, or keeps them from working
  2   bad usage
  69  no server could be reached";
