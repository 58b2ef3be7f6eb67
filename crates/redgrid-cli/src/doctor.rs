//! `redgrid doctor`: reports what the servers' settings mean for locks, and what to change.

mod hints;

use std::process::ExitCode;

use clap::ValueEnum;
use redgrid::Config;
use redgrid_inspect::{DoctorReport, Finding, InspectError, Inspector, Level, Requirements};
use serde::Serialize;

use crate::cli::Global;
use crate::exit_codes::WRONG;
use crate::failure::{Failure, one_line};
use crate::output::{Cell, Column, Format, Listing, OutputOptions, Row, Tone, paint, print_document, print_styled};
use crate::server::{Reach, Server};
use crate::text::printable;

/// The end of `redgrid doctor --help`.
pub(crate) const HELP: &str = "\
Each node of the deployment is checked separately, as the user of --url or --config. The servers are compared with the
settings there: a lease, or durability=replicas with its number of replicas. No data is changed: to check the
permissions, a hash and a string with unique names are written and deleted at once; --read-only leaves that out.
Settings that this user may not read (CONFIG, ACL, CLUSTER) are reported as not checked; an administrator sees more. A
server records each such refusal in its ACL log. --for-reader asks for nothing that a reader may not read.

With -o table or wide the output is a table. Columns: level, check, node, message; with -o wide also fix. -o name prints
the checks with warnings and faults, each once.";

/// Options of `redgrid doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorOptions {
    /// Show how to correct each warning and fault
    #[arg(long)]
    fix_hints: bool,
    /// From which level on the exit code is 1
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t)]
    fail_on: FailOn,
    /// Write nothing: leave out the check of the permissions inside scripts
    #[arg(long)]
    read_only: bool,
    /// Check only what a user with the published permissions of a reader may read: versions,
    /// replicas, clocks, and servers that are not reached
    #[arg(long)]
    for_reader: bool,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    reach: Reach,
}

/// The level from which on the exit code is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum FailOn {
    /// Warnings and faults
    Warn,
    /// Faults
    #[default]
    Fail,
}

/// The report. The fields are those of its JSON, in their order.
#[derive(Debug, Serialize)]
struct Output {
    topology: &'static str,
    nodes: Vec<String>,
    worst: Level,
    findings: Vec<Listed>,
}

/// A finding. The fields are those of its JSON, in their order.
#[derive(Debug, Serialize)]
struct Listed {
    level: Level,
    check: &'static str,
    node: Option<String>,
    message: String,
    /// How to correct it; with `--fix-hints` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// Runs `redgrid doctor`.
pub(crate) async fn run(global: &Global, options: &DoctorOptions) -> Result<ExitCode, Failure> {
    let format = options.output.format(global)?;
    let listing = Listing::new(global, &options.output)?;
    let server = Server::reach(global, &options.reach).await?;
    let report = Inspector::new(server.grid.client()).doctor(&options.requirements(&server.config)).await;
    let report = report.map_err(|error| match error {
        InspectError::NoAddresses => Failure::usage(one_line(&error)),
        error => server.failed(&error),
    });
    server.leave().await;
    let has_fixes = options.fix_hints || format == Some(Format::Wide);
    let output = Output::new(report?, has_fixes);
    let is_bad = match options.fail_on {
        FailOn::Warn => output.worst >= Level::Warn,
        FailOn::Fail => output.worst >= Level::Fail,
    };
    match format {
        None => drop(print_styled(&output.text())?),
        Some(format @ (Format::Json | Format::Jsonl | Format::Yaml)) => drop(print_document(format, &output)?),
        Some(format) => list(listing, output, format)?,
    }
    Ok(if is_bad { ExitCode::from(WRONG) } else { ExitCode::SUCCESS })
}

impl DoctorOptions {
    /// Returns the requirements that the servers are compared with.
    fn requirements(&self, config: &Config) -> Requirements {
        let requirements = Requirements::of(config);
        match self {
            DoctorOptions { for_reader: true, .. } => requirements.for_reader(),
            DoctorOptions { read_only: true, .. } => requirements.read_only(),
            _ => requirements,
        }
    }
}

fn list(mut listing: Listing<Listed>, output: Output, format: Format) -> Result<(), Failure> {
    let mut named = Vec::new();
    for finding in output.findings {
        let is_listed = format != Format::Name || (finding.level > Level::Ok && !named.contains(&finding.check));
        if is_listed {
            named.push(finding.check);
            listing.push(&finding)?;
        }
    }
    listing.finish().map(drop)
}

impl Output {
    fn new(report: DoctorReport, has_fixes: bool) -> Self {
        let listed = |finding: Finding| {
            let fix = if has_fixes { hints::hint(&finding) } else { None };
            Listed { level: finding.level, check: finding.check, node: finding.node, message: finding.message, fix }
        };
        Output {
            topology: report.topology,
            nodes: report.nodes,
            worst: report.worst,
            findings: report.findings.into_iter().map(listed).collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}: {}", self.topology, printable(&self.nodes.join(", ")));
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

impl Listed {
    fn level_text(&self) -> &'static str {
        match self.level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            _ => "FAIL",
        }
    }

    fn tone(&self) -> Tone {
        match self.level {
            Level::Ok => Tone::Good,
            Level::Warn => Tone::Doubtful,
            _ => Tone::Bad,
        }
    }

    fn text(&self) -> String {
        let level = paint(&format!("{:<4}", self.level_text()), self.tone());
        let place = self.node.as_deref().map(|node| format!(" {}:", printable(node))).unwrap_or_default();
        let fix = self.fix.as_deref().map(|fix| format!("\n      fix: {}", printable(fix))).unwrap_or_default();
        format!("{level}  {:<12}{place} {}{fix}", self.check, printable(&self.message))
    }
}

impl Row for Listed {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("level", |row| Cell::new(row.level_text(), row.tone())),
        Column::new("check", |row| row.check.into()),
        Column::new("node", |row| row.node.as_deref().map(printable).into()),
        Column::new("message", |row| printable(&row.message).into()),
        Column::wide("fix", |row| row.fix.as_deref().map(printable).into()),
    ];

    fn name(&self) -> String {
        self.check.to_owned()
    }
}
