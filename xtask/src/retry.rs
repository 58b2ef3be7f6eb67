//! Runs all tests, and retries a few of them.
//!
//! Hundreds of tests share two cores with thousands of servers that start, fail and end. A test
//! that missed its time while the machine stood still says nothing about the code. So a few failed
//! tests are run again, each alone, and reported as such. A race in the code may pass then too, so
//! each such line must be investigated.
//!
//! Not retried: tests that draw faults at random, because they find rare errors; more than a few
//! failed tests; programs that did not complete.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    process::{Command, ExitCode, Stdio},
    thread,
};

use crate::{
    cargo,
    steps::{Failure, not_run, say},
    suite::Counts,
};

/// The maximum number of failed tests to retry.
const MAX_RETRIES: usize = 3;

/// Tests with one of these in their name, or in that of their program, are not retried.
const NOT_RETRIED: [&str; 3] = ["simulated_network", "histories", "model"];

/// Runs all tests. `settings` prepares each command.
pub(crate) fn run(settings: impl Fn(&mut Command)) -> Result<ExitCode, Failure> {
    let first = all(&settings)?;
    if first.succeeded {
        return Ok(ExitCode::SUCCESS);
    }
    let failed = Counts::read(&first.out, "").failures;
    let targets = targets(&first.err);
    if !may_try_again(&first.out, &failed, &targets) {
        return Ok(ExitCode::FAILURE);
    }
    for name in &failed {
        say(&format!("{name} failed; trying it once more, alone"));
        if !passes(name, &targets, &settings)? {
            say(&format!("{name} did not pass at the second try"));
            return Ok(ExitCode::FAILURE);
        }
    }
    for name in &failed {
        say(&format!("PASSED ONLY AT THE SECOND TRY: {name}; how it failed is told above"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether only a few tests failed, and each failed program completed.
fn may_try_again(out: &str, failed: &[String], targets: &[Vec<String>]) -> bool {
    let ended = out.lines().filter(|line| line.starts_with("test result: FAILED")).count();
    let is_not_retried = |text: &String| NOT_RETRIED.iter().any(|part| text.contains(part));
    !failed.is_empty()
        && failed.len() <= MAX_RETRIES
        && ended == targets.len()
        && !failed.iter().chain(targets.iter().flatten()).any(is_not_retried)
}

fn all(settings: &impl Fn(&mut Command)) -> Result<Run, Failure> {
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--no-fail-fast"]);
    settings(&mut tests);
    run_and_show(&mut tests)
}

/// Whether the test passes now, and exists in one of the targets.
fn passes(name: &str, targets: &[Vec<String>], settings: &impl Fn(&mut Command)) -> Result<bool, Failure> {
    let mut passed = 0;
    for target in targets {
        let mut again = cargo();
        // As in the whole run: the package alone would be built with other features.
        let target = target.iter().map(String::as_str).skip_while(|word| *word == "-p").skip(1);
        again.args(["test", "--workspace"]).args(target).args(["--", "--exact", name]);
        settings(&mut again);
        let run = run_and_show(&mut again)?;
        if !run.succeeded {
            return Ok(false);
        }
        passed += Counts::read(&run.out, &run.err).passed;
    }
    Ok(passed > 0)
}

/// Returns the failed targets that cargo lists at the end of a run, each as its arguments.
fn targets(err: &str) -> Vec<Vec<String>> {
    let listed = err.lines().skip_while(|line| !(line.starts_with("error: ") && line.ends_with(" failed:")));
    let named = listed.skip(1).map_while(|line| line.trim().strip_prefix('`')?.strip_suffix('`'));
    named.map(|target| target.split(' ').map(str::to_owned).collect()).collect()
}

struct Run {
    succeeded: bool,
    out: String,
    err: String,
}

/// Runs a command, shows its output, and returns it.
fn run_and_show(command: &mut Command) -> Result<Run, Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| not_run(command, source))?;
    let out = tee(child.stdout.take(), io::stdout());
    let err = tee(child.stderr.take(), io::stderr());
    let status = child.wait().map_err(|source| not_run(command, source))?;
    let out = out.join().unwrap_or_default();
    let err = err.join().unwrap_or_default();
    Ok(Run { succeeded: status.success(), out, err })
}

/// Shows a pipe's lines as they arrive, on a separate thread, and returns them.
fn tee(pipe: Option<impl Read + Send + 'static>, mut shown: impl Write + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut lines = pipe.map(BufReader::new);
        while let Some(lines) = &mut lines {
            let from = kept.len();
            // After an error, the text so far is returned.
            if lines.read_until(b'\n', &mut kept).unwrap_or(0) == 0 {
                break;
            }
            let _ = shown.write_all(&kept[from..]);
        }
        String::from_utf8_lossy(&kept).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_targets_are_parsed_from_cargos_last_lines() {
        let err = "     Running tests/behaviour/main.rs (target/debug/deps/behaviour-1)\n\
                   error: test failed, to rerun pass `-p redgrid-core --lib`\nerror: 2 targets failed:\n    \
                   `-p redgrid-core --lib`\n    `-p redgrid-tests --test behaviour`\n";
        let split = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(targets(err), [split("-p redgrid-core --lib"), split("-p redgrid-tests --test behaviour")]);
        let one = "error: 1 target failed:\n    `-p redgrid-tests --test topologies`\n";
        assert_eq!(targets(one), [split("-p redgrid-tests --test topologies")]);
        assert!(targets("error: could not compile `redgrid-core`\n").is_empty());
    }

    #[test]
    fn only_a_few_that_failed_in_programs_that_came_to_their_end_are_tried_again() {
        let behaviour = || vec!["-p".into(), "redgrid-tests".into(), "--test".into(), "behaviour".into()];
        let lib = || vec!["-p".into(), "redgrid-core".into(), "--lib".into()];
        let ended = "test result: FAILED. 1 passed; 1 failed; 0 ignored\n";
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(may_try_again(ended, &names(&["wakeups::a"]), &[behaviour()]));
        assert!(!may_try_again(ended, &names(&["wakeups::a"]), &[behaviour(), lib()]), "one was killed");
        assert!(!may_try_again(ended, &names(&["a", "b", "c", "d"]), &[behaviour()]));
        assert!(!may_try_again(ended, &names(&["latch_model::a"]), &[behaviour()]));
        assert!(!may_try_again(ended, &[], &[behaviour()]));
    }
}
