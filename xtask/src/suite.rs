//! Runs a test program of the workspace with a time limit, and counts its results.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    cargo,
    steps::{Failure, not_run, shown},
};

/// Interval between checks whether a test program has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The reason that is reported for an ignored test without a reason.
const NO_REASON: &str = "no reason is given";

/// The results of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) skipped: u32,
    /// The reasons why tests were skipped, and the number of tests for each.
    pub(crate) reasons: BTreeMap<String, u32>,
    /// The names of failed tests.
    pub(crate) failures: Vec<String>,
    /// Why the run did not complete; `None` if it completed.
    pub(crate) broken_off: Option<String>,
}

impl Counts {
    /// Parses the output of the test harness: a line for each test, and a result line at the end. A
    /// test that skips itself prints a line to standard error.
    pub(crate) fn read(out: &str, err: &str) -> Self {
        let mut counts = Counts::default();
        let mut ignored = BTreeMap::new();
        for line in out.lines() {
            let Some((name, result)) = line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... ")) else {
                continue;
            };
            match result.split_whitespace().next() {
                Some("ok") => counts.passed += 1,
                Some("FAILED") => {
                    counts.failed += 1;
                    counts.failures.push(name.trim().to_owned());
                }
                Some(word) if word.starts_with("ignored") => {
                    ignored.insert(name.trim(), result.split_once(", ").map_or(NO_REASON, |(_, reason)| reason));
                }
                _ => {}
            }
        }
        for line in err.lines().filter_map(|line| line.strip_prefix("SKIPPED ")) {
            let (name, reason) = line.split_once(": ").unwrap_or((line, NO_REASON));
            // The harness counts a test that skips itself as passed, unless it was also listed as
            // ignored.
            if ignored.insert(name, reason).is_none() {
                counts.passed = counts.passed.saturating_sub(1);
            }
        }
        for reason in ignored.into_values() {
            counts.skipped += 1;
            *counts.reasons.entry(reason.to_owned()).or_default() += 1;
        }
        if !out.lines().any(|line| line.starts_with("test result: ")) {
            counts.broken_off = Some("it ended before its result".into());
        }
        counts
    }

    /// Adds the numbers of another program.
    pub(crate) fn add(&mut self, other: &Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += count;
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.failed == 0 && self.broken_off.is_none()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped);
        if let Some(why) = &self.broken_off {
            text.push_str(&format!("; {why}"));
        }
        f.pad(&text)
    }
}

/// Builds a test program of the package `redgrid-tests`, and returns its path.
pub(crate) fn build(target: &[&str]) -> Result<PathBuf, Failure> {
    let mut build = cargo();
    build.args(["test", "--no-run", "--message-format=json-render-diagnostics", "--package", "redgrid-tests"]);
    build.args(target).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = build.output().map_err(|source| not_run(&build, source))?;
    let failed = || Failure::Failed { command: shown(&build), status: output.status };
    if !output.status.success() {
        return Err(failed());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    // Building it may also build other programs of the package, in any order.
    let mut programs = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"] == true && target.contains(&message["target"]["name"].as_str()?);
        message["executable"].as_str().filter(|_| is_test).map(PathBuf::from)
    });
    programs.next_back().ok_or_else(failed)
}

/// Runs a test program with a time limit, and writes its output to `log`. The program's servers end
/// with it.
pub(crate) fn run(command: &mut Command, within: Duration, log: &Path) -> Result<Counts, Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| not_run(command, source))?;
    let out = reader(child.stdout.take());
    let err = reader(child.stderr.take());
    let status = ended(&mut child, within);
    if status.is_none() {
        // An error is ignored: the program may have just ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
    let out = out.join().unwrap_or_default();
    let err = err.join().unwrap_or_default();
    let files = |source| Failure::Files { path: log.to_owned(), source };
    std::fs::write(log, format!("{out}\n{err}")).map_err(files)?;
    let mut counts = Counts::read(&out, &err);
    match status {
        None => counts.broken_off = Some(format!("not done within {within:?}")),
        // This happens, for example, if an example of the documentation does not compile.
        Some(status) if !status.success() && counts.is_good() => counts.broken_off = Some(status.to_string()),
        Some(_) => {}
    }
    Ok(counts)
}

fn ended(child: &mut Child, within: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < within {
        match child.try_wait() {
            Ok(None) | Err(_) => thread::sleep(CHECK_INTERVAL),
            Ok(Some(status)) => return Some(status),
        }
    }
    None
}

/// Reads a pipe to its end. A separate thread reads each pipe, so that neither of the two fills up.
fn reader(pipe: Option<impl io::Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // If reading fails, the text read so far is returned.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_in_the_output_of_both_harnesses() {
        let out = "running 4 tests\ntest acl::one ... ok\ntest contract::two::cluster ... FAILED\n\
                   test weather::long ... ok <1.2s>\ntest weather::off ... ignored, needs more\n\n\
                   test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let skipped = "SKIPPED weather::long: there is no newer server\nSKIPPED weather::off: needs more\n";
        let counts = Counts::read(out, skipped);
        assert_eq!((counts.passed, counts.failed, counts.skipped), (1, 1, 2));
        let reasons = [("needs more", 1), ("there is no newer server", 1)];
        assert_eq!(counts.reasons, reasons.map(|(reason, count)| (reason.to_owned(), count)).into());
        assert_eq!(
            (counts.failures.as_slice(), counts.broken_off.as_ref()),
            (&["contract::two::cluster".into()][..], None)
        );
        assert!(!counts.is_good() && !Counts::read("test a ... ok\n", "").is_good());
    }
}
