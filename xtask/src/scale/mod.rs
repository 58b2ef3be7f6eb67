//! The capacity of one process, one server and a cluster: runs the measures of `benches/scale` with
//! their bounds, and draws conclusions.

mod estimates;

use std::{
    fmt::Write,
    path::Path,
    process::{Command, ExitCode},
    time::Duration,
};

use redgrid_testkit::SERVER_VARIABLE;
use serde_json::Value;

use crate::{
    bench::figure,
    cargo, install,
    measured::{cell, line, put_between, table},
    steps::{Failure, run, say},
    workspace,
};

/// The sizes of the measures. docs/internals/measurements.md is written with the defaults.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only this one: names, held, queue, waiters, bus or console
    #[arg(conflicts_with = "write")]
    measure: Option<String>,
    /// Names used once
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    names: u32,
    /// Locks held
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    held: u32,
    /// Waiting tasks: for one name, and for one name each
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    waiters: u32,
    /// Waiters woken in each cluster
    #[arg(long, value_name = "COUNT", default_value_t = 5_000)]
    wakes: u32,
    /// Keys of a server that a console shows
    #[arg(long, value_name = "COUNT", default_value_t = 2_000_000)]
    keys: u32,
    /// How many seconds locks are held, waiters left alone, and pages of a console open
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u32,
    /// Writes the tables into docs/internals/measurements.md
    #[arg(long)]
    write: bool,
}

impl Options {
    fn measures(&self) -> [(&'static str, u32); 6] {
        let Options { names, held, waiters, wakes, keys, .. } = *self;
        [("names", names), ("held", held), ("queue", waiters), ("waiters", waiters), ("bus", wakes), ("console", keys)]
    }
}

/// The timeout of a measure, in addition to its idle time: three times the duration of the longest
/// one.
const MEASURE_TIMEOUT: Duration = Duration::from_secs(600);

/// The markers around the measurements in docs/internals/measurements.md.
const LINES: (&str, &str) = ("<!-- scale: begin -->", "<!-- scale: end -->");

/// Returns the heading of a measure.
fn heading(measure: &str, count: &str) -> String {
    match measure {
        "names" => format!("{count} names, each used once"),
        "held" => format!("{count} locks held by one process"),
        "queue" => format!("{count} tasks that wait for one name"),
        "waiters" => format!("{count} tasks that wait for a name each"),
        "console" => format!("A console of a server with {count} keys"),
        _ => format!("Wake-ups in a cluster, {count} in each"),
    }
}

/// Runs all measures, or the named one. Fails if a promise was broken.
pub(crate) fn run_all(options: &Options) -> Result<ExitCode, Failure> {
    let wanted = |measure: &str| options.measure.as_ref().is_none_or(|only| only == measure);
    let chosen: Vec<_> = options.measures().into_iter().filter(|(measure, _)| wanted(measure)).collect();
    if chosen.is_empty() {
        let all = options.measures().map(|(measure, _)| measure);
        say(&format!("there is no such measure; there are {}", all.join(", ")));
        return Ok(ExitCode::from(2));
    }
    let workspace = workspace()?;
    let server = install::server(&workspace)?;
    say("building");
    run(cargo().args(["build", "--release", "--package", "redgrid-benches", "--bin", "scale"]))?;
    let mut lines = Vec::new();
    let mut good = true;
    for (measure, count) in chosen {
        say(measure);
        let mut command = Command::new(workspace.join("target/release/scale"));
        command.args([measure, &count.to_string(), &options.seconds.to_string()]).env(SERVER_VARIABLE, server.path());
        match line(&mut command, MEASURE_TIMEOUT + Duration::from_secs(options.seconds.into()))? {
            Some((line, ended_well)) => {
                println!("{line}");
                good &= ended_well;
                lines.push(serde_json::from_str(&line).unwrap_or_default());
            }
            None => {
                say("  it did not come to its end");
                good = false;
            }
        }
    }
    println!("{}", promises(&lines));
    if options.write && good {
        put_between(&page(&workspace), LINES, &text(&lines))?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn page(workspace: &Path) -> std::path::PathBuf {
    workspace.join("docs/internals/measurements.md")
}

/// Formats all promises of all measures for the terminal.
fn promises(lines: &[Value]) -> String {
    let mut rows = vec![["measure", "promise", "measured", "bound", "holds"].map(str::to_owned).to_vec()];
    for line in lines {
        for promise in line.pointer("/promises").and_then(Value::as_array).into_iter().flatten() {
            let cells = ["/what", "/was", "/bound", "/holds"].map(|path| cell(promise, path));
            rows.push([cell(line, "/measure")].into_iter().chain(cells).collect());
        }
    }
    table(&rows)
}

/// Formats the section of the page.
fn text(lines: &[Value]) -> String {
    let mut text = format!("Redis {}; one server, and one process with two workers, on two cores.\n", server(lines));
    for line in lines {
        let count = line.pointer("/count").and_then(Value::as_f64);
        let heading = heading(&cell(line, "/measure"), &grouped(count.unwrap_or_default()));
        let _ = write!(text, "\n#### {heading}\n\n| what | measured | bound |\n|---|---|---|\n");
        for promise in line.pointer("/promises").and_then(Value::as_array).into_iter().flatten() {
            let was = figure(promise.pointer("/was").and_then(Value::as_f64));
            let _ = writeln!(text, "| {} | {was} | {} |", cell(promise, "/what"), cell(promise, "/bound"));
        }
        for (name, number) in line.pointer("/numbers").and_then(Value::as_object).into_iter().flatten() {
            let _ = writeln!(text, "| {name} | {} | |", figure(number.as_f64()));
        }
    }
    let _ = write!(text, "\n{}", estimates::text(lines));
    text
}

fn server(lines: &[Value]) -> String {
    lines.first().map(|line| cell(line, "/server")).unwrap_or_default()
}

/// Formats a whole number as `1,000,000`.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let first = digits.len() % 3;
    let (head, rest) = digits.split_at(first);
    let groups = rest.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let parts: Vec<_> = (!head.is_empty()).then(|| head.to_owned()).into_iter().chain(groups).collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names() -> Value {
        json!({
            "measure": "names", "count": 1_000_000, "server": "7.0.15",
            "promises": [{ "what": "heap afterwards", "was": 12.0, "bound": "<= 1000", "holds": true }],
            "numbers": { "server, µs a pair": 20.0 },
        })
    }

    #[test]
    fn a_measure_is_a_table_of_its_promises_and_numbers() {
        let text = text(&[names()]);
        for line in [
            "#### 1,000,000 names, each used once",
            "| heap afterwards | 12.0 | <= 1000 |",
            "| server, µs a pair | 20.0 | |",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
        assert!(promises(&[names()]).ends_with("names  heap afterwards      12.0  <= 1000   true"));
    }

    #[test]
    fn whole_numbers_are_grouped() {
        for (number, want) in [(0.0, "0"), (999.0, "999"), (1000.0, "1,000"), (100_000.0, "100,000")] {
            assert_eq!(grouped(number), want);
        }
    }
}
