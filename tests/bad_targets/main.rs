//! Checks the errors of a client with unusable targets. A message names the node and the cause, and
//! shows no value in its debug form. If waiting cannot help, the error is reported at once.

mod errors;
mod fake;
mod rows;
mod targets;

use std::time::{Duration, Instant};

use redgrid_core::config::{Config, ConfigError};
use redgrid_core::{Client, Name, Request};
use redgrid_locks::Lock;
use redgrid_testkit::StartError;

/// How long a client may wait if waiting could help.
const WITHIN: Duration = Duration::from_secs(2);

/// The latest time of the error if waiting cannot help: 10 s. The promise is a second, but 60
/// clients at a time may take longer on a busy machine. A client that waited would take
/// [`PATIENCE`], and a call 15 s.
const EARLY: Duration = Duration::from_secs(10);

/// How long a client would wait if waiting cannot help.
const PATIENCE: Duration = Duration::from_secs(60);

/// Signs of values in their debug form, and terms of the layers below the client.
const DEBUG: [&str; 20] = [
    "Os {",
    "os error",
    "Custom {",
    "Kind(",
    "kind: ",
    "UnixTime(",
    "AlertReceived",
    "InvalidCertificate",
    "InvalidMessage",
    "InvalidContentType",
    "Some(",
    "Err(",
    "NotSent",
    "channel closed",
    "anceled",
    "Failed to route command",
    "Max attempts reached",
    "Too many failed write attempts",
    "Decode Error",
    "frame type",
];

/// An unusable target.
struct Row {
    what: &'static str,
    config: Result<Config, ConfigError>,
    /// The node as the message names it. Empty if the configuration itself is refused.
    node: String,
    /// Words that describe the cause.
    cause: &'static [&'static str],
    /// Whether waiting cannot help.
    is_lasting: bool,
}

/// The error that a client reports, and its time.
struct Report {
    text: String,
    after: Duration,
}

impl Row {
    fn new(
        what: &'static str,
        config: Result<Config, ConfigError>,
        node: impl ToString,
        cause: &'static [&'static str],
    ) -> Self {
        Row { what, config, node: node.to_string(), cause, is_lasting: false }
    }

    fn lasting(self) -> Self {
        Row { is_lasting: true, ..self }
    }

    /// Returns the faults of a report.
    fn judge(&self, seen: &Report) -> Vec<String> {
        let mut faults = Vec::new();
        if !seen.text.contains(&self.node) {
            faults.push(format!("does not name {}", self.node));
        }
        faults.extend(self.cause.iter().filter(|word| !seen.text.contains(**word)).map(|word| format!("no `{word}`")));
        faults.extend(DEBUG.iter().filter(|mark| seen.text.contains(**mark)).map(|mark| format!("has `{mark}`")));
        if self.is_lasting && seen.after > EARLY {
            faults.push(format!("comes after {:.1?}", seen.after));
        }
        faults
    }
}

/// Returns the reports to three callers: one waits for the connection, one for a lock, and one for
/// an answer.
async fn report(row: &Row) -> Vec<(&'static str, Report)> {
    let began = Instant::now();
    let report = |error: Option<&dyn std::error::Error>| {
        let text = error.map_or_else(|| "no error".to_owned(), |error| error.to_string());
        Report { text, after: began.elapsed() }
    };
    let config = match row.config.clone() {
        Ok(config) => config,
        Err(error) => return vec![("the configuration", report(Some(&error)))],
    };
    // If waiting can help, a call waits no longer than the other callers.
    let config = if row.is_lasting { config } else { config.response_timeout(WITHIN / 4) };
    let client = match Client::connect(config).await {
        Ok(client) => client,
        Err(error) => return vec![("connect", report(Some(&error)))],
    };
    let within = if row.is_lasting { PATIENCE } else { WITHIN };
    let ready = async {
        let ready = client.wait_ready(within).await;
        ("wait_ready", report(ready.as_ref().err().map(|error| error as _)))
    };
    let locked = async {
        let locked = Lock::new(&client, "a").acquire().timeout(within).await;
        ("a lock", report(locked.as_ref().err().map(|error| error as _)))
    };
    let called = async {
        let key = client.key(&Name::new("b").expect("a name"));
        let called = client.run::<()>(Request::command("GET").key(key).reads()).await;
        ("a call", report(called.as_ref().err().map(|error| error as _)))
    };
    let (ready, locked, called) = tokio::join!(ready, locked, called);
    let _ = client.shutdown(Duration::from_millis(200)).await;
    vec![ready, locked, called]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_bad_target_is_named_with_its_cause_and_early_where_waiting_cannot_help() {
    let targets = match targets::Targets::start().await {
        Ok(targets) => targets,
        Err(error @ StartError::NoTls { .. }) => return eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    };
    let rows = rows::all(&targets);
    assert!(rows.len() >= 60, "{} rows", rows.len());
    let all = futures_util::future::join_all(rows.iter().map(async |row| (row, report(row).await))).await;
    let (mut faults, mut slowest) = (Vec::new(), Duration::ZERO);
    for (row, reports) in &all {
        for (caller, report) in reports {
            println!("{}: {caller} after {:.1?}: {}", row.what, report.after, report.text);
            if row.is_lasting {
                slowest = slowest.max(report.after);
            }
            let wrong = row.judge(report);
            if !wrong.is_empty() {
                faults.push(format!("{}: {caller}: {}: {}", row.what, wrong.join(", "), report.text));
            }
        }
    }
    println!("{} rows; where waiting cannot help the error came after {slowest:.1?} at the latest", rows.len());
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}
