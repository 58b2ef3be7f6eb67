//! Runs test programs side by side.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs,
    path::Path,
    process::Command,
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use crate::{
    install,
    steps::{Failure, say},
    suite::{self, Counts},
    test::{cores, programs::Program},
};

/// A program that has ended.
pub(crate) struct Ended {
    pub(crate) name: String,
    command: Command,
    pub(crate) counts: Counts,
    pub(crate) output: String,
}

/// The longest programs begin first: 440 s to 60 s, each alone on two cores. The others are short.
const LONG: [&str; 9] = [
    "tests behaviour",
    "tests topologies",
    "models one_level",
    "tests interop",
    "redgrid-cli cli",
    "documentation",
    "models two_level",
    "tests simulated_network",
    "tests histories",
];

/// A program that measures the shares of a machine runs alone, at the end.
const ALONE: [&str; 1] = ["tests fairness"];

/// The time limit of one program: 60 minutes, to report a program that hangs.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs all programs, and prints the output of each when it has ended. Only as many run at the
/// same time as there are cores.
pub(crate) fn run(
    workspace: &Path,
    programs: Vec<Program>,
    settings: &[(&'static str, OsString)],
) -> Result<Vec<Ended>, Failure> {
    let logs = workspace.join(install::FETCHED).with_file_name("test-logs");
    fs::create_dir_all(&logs).map_err(|source| Failure::Files { path: logs.clone(), source })?;
    let (alone, mut together): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| ALONE.contains(&program.name.as_str()));
    together.sort_by_key(|program| LONG.iter().position(|long| *long == program.name).unwrap_or(LONG.len()));
    let mut ended = Vec::new();
    for (programs, at_a_time) in [(together, cores()), (alone, 1)] {
        ended.extend(run_at_a_time(at_a_time, programs, settings, &logs)?);
    }
    Ok(ended)
}

fn run_at_a_time(
    at_a_time: usize,
    programs: Vec<Program>,
    settings: &[(&'static str, OsString)],
    logs: &Path,
) -> Result<Vec<Ended>, Failure> {
    let waiting = Mutex::new(VecDeque::from(programs));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let (ended, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            let ended = ended.clone();
            scope.spawn(move || {
                while let Some(program) = next() {
                    // The receiver is gone after an error.
                    if ended.send(run_one(program, settings, logs)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(ended);
        results.into_iter().collect()
    })
}

fn run_one(mut program: Program, settings: &[(&'static str, OsString)], logs: &Path) -> Result<Ended, Failure> {
    let log = logs.join(format!("{}.log", program.name.replace(' ', "-")));
    let began = Instant::now();
    program.command.envs(settings.iter().map(|(name, value)| (name, value)));
    let counts = suite::run(&mut program.command, LIMIT, &log)?;
    let output = fs::read_to_string(&log).map_err(|source| Failure::Files { path: log, source })?;
    println!("\n==== {}\n{}", program.name, output.trim());
    say(&format!("{}: {counts}, in {:.0} s", program.name, began.elapsed().as_secs_f64()));
    Ok(Ended { name: program.name, command: program.command, counts, output })
}

impl Ended {
    /// Runs failed tests once more, each alone.
    pub(crate) fn retry(&mut self) -> Result<(), Failure> {
        for name in std::mem::take(&mut self.counts.failures) {
            say(&format!("{name} failed; running it once more, alone"));
            let mut command = Command::new(self.command.get_program());
            command.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            if let Some(folder) = self.command.get_current_dir() {
                command.current_dir(folder);
            }
            let log =
                tempfile::NamedTempFile::new().map_err(|source| Failure::Files { path: "a log".into(), source })?;
            let counts = suite::run(command.args(["--exact", &name]), LIMIT, log.path())?;
            if counts.is_good() && counts.passed == 1 {
                say(&format!("PASSED ONLY AT THE SECOND TRY: {name}; how it failed is shown above"));
                self.counts.failed -= 1;
                self.counts.passed += 1;
            } else {
                self.counts.failures.push(name);
            }
        }
        Ok(())
    }
}
