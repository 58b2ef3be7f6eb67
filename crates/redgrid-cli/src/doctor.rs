//! `redgrid doctor`: reports what the servers' settings mean for locks, and what to change.

mod clocks;
mod facts;
mod finding;
mod permissions;
mod sentinels;
mod settings;
mod topology;

use std::process::ExitCode;

use serde::Serialize;

use crate::cli::Global;
use crate::failure::{Failure, WRONG};
use crate::server::{Reach, Server, print_line};
use facts::{Facts, Requirements};
use finding::{Finding, Level};

/// Options of `redgrid doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorOptions {
    #[command(flatten)]
    reach: Reach,
}

/// The output. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Output {
    topology: &'static str,
    nodes: Vec<String>,
    worst: Level,
    findings: Vec<Finding>,
}

/// Runs `redgrid doctor`.
pub(crate) async fn run(global: &Global, options: &DoctorOptions) -> Result<ExitCode, Failure> {
    let server = Server::reach(global, &options.reach).await?;
    let facts = Facts::gather(&server).await;
    let requirements = Requirements::of(&server.config);
    server.leave().await;
    let facts = facts?;
    let mut findings = topology::check(&facts, &requirements);
    findings.extend(sentinels::check(&facts));
    findings.extend(clocks::check(&facts, &requirements));
    findings.extend(facts.nodes.iter().flat_map(|node| settings::check(node, &requirements)));
    findings.extend(facts.nodes.iter().flat_map(|node| permissions::check(node, &facts, &requirements)));
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
    let nodes = facts.nodes.iter().map(|node| node.address.to_string()).collect();
    let report = Output { topology: facts.topology, nodes, worst, findings };
    print_line(&if global.json {
        serde_json::to_string(&report).map_err(|error| Failure::broken(error.to_string()))?
    } else {
        report.text()
    })?;
    Ok(if worst == Level::Fail { ExitCode::from(WRONG) } else { ExitCode::SUCCESS })
}

impl Output {
    fn text(&self) -> String {
        let mut text = format!("{}: {}", self.topology, self.nodes.join(", "));
        for finding in &self.findings {
            text.push('\n');
            text.push_str(&finding.text());
        }
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        let fine = count(Level::Ok);
        let warned = count(Level::Warn);
        let failed = count(Level::Fail);
        text.push_str(&format!("\n{fine} ok, {warned} to consider, {failed} to correct"));
        text
    }
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
