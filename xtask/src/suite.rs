//! A test program of the workspace, run under a time limit and counted.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    cargo,
    steps::{Failure, not_run, shown},
};

/// How often it is looked whether a test program has ended: often enough for a person.
const LOOK: Duration = Duration::from_millis(100);

/// What became of the tests of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) skipped: u32,
    /// The names of those that failed.
    pub(crate) failures: Vec<String>,
    /// Why there is no end of it, where there is none.
    pub(crate) broken_off: Option<String>,
}

impl Counts {
    /// Reads what the harness wrote: a line a test, and a result line at the end. What is skipped at run time says so on
    /// standard error.
    pub(crate) fn read(out: &str, err: &str) -> Self {
        let mut counts = Counts::default();
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
                Some(result) if result.starts_with("ignored") => counts.skipped += 1,
                _ => {}
            }
        }
        // Those end as passed.
        let skipped = u32::try_from(err.lines().filter(|line| line.starts_with("SKIPPED ")).count()).unwrap_or(0);
        counts.passed = counts.passed.saturating_sub(skipped);
        counts.skipped += skipped;
        if !out.lines().any(|line| line.starts_with("test result: ")) {
            counts.broken_off = Some("it ended before its result".into());
        }
        counts
    }

    pub(crate) fn is_good(&self) -> bool {
        self.failed == 0 && self.broken_off.is_none()
    }
}

/// Builds a test program of the package `redgrid-tests`, and tells where it is.
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
    // Other programs of the package are built with it, before or after.
    let mut programs = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"] == true && target.contains(&message["target"]["name"].as_str()?);
        message["executable"].as_str().filter(|_| is_test).map(PathBuf::from)
    });
    programs.next_back().ok_or_else(failed)
}

/// Runs a test program for at most so long; its servers end with it. What it wrote is kept in `log`.
pub(crate) fn run(command: &mut Command, within: Duration, log: &Path) -> Result<Counts, Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| not_run(command, source))?;
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let in_time = ended(&mut child, within);
    if !in_time {
        // One that has just ended by itself is as well.
        let _ = child.kill();
        let _ = child.wait();
    }
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    let files = |source| Failure::Files { path: log.to_owned(), source };
    std::fs::write(log, format!("{out}\n{err}")).map_err(files)?;
    let mut counts = Counts::read(&out, &err);
    if !in_time {
        counts.broken_off = Some(format!("not done within {within:?}"));
    }
    Ok(counts)
}

fn ended(child: &mut Child, within: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < within {
        match child.try_wait() {
            Ok(None) => thread::sleep(LOOK),
            Ok(Some(_)) | Err(_) => return true,
        }
    }
    false
}

/// Reads a pipe to its end, on a thread of its own so that neither of the two fills up.
fn reader(pipe: Option<impl io::Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before an error is what there is.
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
        let counts = Counts::read(out, "SKIPPED weather::long: there is no newer server\n");
        assert_eq!((counts.passed, counts.failed, counts.skipped), (1, 1, 2));
        assert_eq!(
            (counts.failures.as_slice(), counts.broken_off.as_ref()),
            (&["contract::two::cluster".into()][..], None)
        );
        assert!(!counts.is_good() && !Counts::read("test a ... ok\n", "").is_good());
    }
}
