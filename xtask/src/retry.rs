//! The whole run of the tests, and a second try for very few of them.
//!
//! Hundreds of tests share two cores with some thousand servers that start, fail and end. One whose moment passed while the
//! machine stood still says nothing about the code; so a few that failed are run once more, each alone, and are told as such. What
//! is wrong fails again, and more than a few are not tried again.

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

/// So many that failed are tried again at the most.
const FEW: usize = 3;

/// Runs all tests; `settings` gives a command what each run of tests needs.
pub(crate) fn run(settings: impl Fn(&mut Command)) -> Result<ExitCode, Failure> {
    let first = all(&settings)?;
    if first.succeeded {
        return Ok(ExitCode::SUCCESS);
    }
    let failed = Counts::read(&first.out, "").failures;
    let targets = targets(&first.err);
    if failed.is_empty() || targets.is_empty() || failed.len() > FEW {
        return Ok(ExitCode::FAILURE);
    }
    for name in &failed {
        say(&format!("{name} failed; trying it once more, alone"));
        if !passes(name, &targets, &settings)? {
            say(&format!("{name} failed twice"));
            return Ok(ExitCode::FAILURE);
        }
    }
    for name in &failed {
        say(&format!("PASSED ONLY AT THE SECOND TRY: {name}; how it failed is told above"));
    }
    Ok(ExitCode::SUCCESS)
}

fn all(settings: &impl Fn(&mut Command)) -> Result<Run, Failure> {
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--no-fail-fast"]);
    settings(&mut tests);
    told(&mut tests)
}

/// Whether the test passes now, and is in one of the targets at all.
fn passes(name: &str, targets: &[Vec<String>], settings: &impl Fn(&mut Command)) -> Result<bool, Failure> {
    let mut passed = 0;
    for target in targets {
        let mut again = cargo();
        again.arg("test").args(target).args(["--", "--exact", name]);
        settings(&mut again);
        let run = told(&mut again)?;
        if !run.succeeded {
            return Ok(false);
        }
        passed += Counts::read(&run.out, "").passed;
    }
    Ok(passed > 0)
}

/// The targets that cargo lists at the end of a run as failed, each as the arguments that name it.
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

/// Runs a command, shows what it writes, and keeps it.
fn told(command: &mut Command) -> Result<Run, Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|source| not_run(command, source))?;
    let (out, err) = (kept(child.stdout.take(), io::stdout()), kept(child.stderr.take(), io::stderr()));
    let status = child.wait().map_err(|source| not_run(command, source))?;
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    Ok(Run { succeeded: status.success(), out, err })
}

/// Shows a pipe's lines as they come, on a thread of its own, and keeps them.
fn kept(
    pipe: Option<impl Read + Send + 'static>,
    mut shown: impl Write + Send + 'static,
) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut lines = pipe.map(BufReader::new);
        while let Some(lines) = &mut lines {
            let from = kept.len();
            // What came before an error is what there is.
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
    fn failed_targets_are_read_from_what_cargo_says_at_the_end() {
        let err = "     Running tests/behaviour/main.rs (target/debug/deps/behaviour-1)\n\
                   error: test failed, to rerun pass `-p redgrid-core --lib`\nerror: 2 targets failed:\n    \
                   `-p redgrid-core --lib`\n    `-p redgrid-tests --test behaviour`\n";
        let split = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(targets(err), [split("-p redgrid-core --lib"), split("-p redgrid-tests --test behaviour")]);
        let one = "error: 1 target failed:\n    `-p redgrid-tests --test topologies`\n";
        assert_eq!(targets(one), [split("-p redgrid-tests --test topologies")]);
        assert!(targets("error: could not compile `redgrid-core`\n").is_empty());
    }
}
