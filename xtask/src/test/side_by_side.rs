//! Runs test programs side by side.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs, iter,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    install,
    steps::{Failure, say},
    suite::{self, Counts},
    test::{cores, programs::Program, progress::Progress},
};

/// A program that has ended.
pub(crate) struct Ended {
    pub(crate) name: String,
    pub(crate) counts: Counts,
    pub(crate) output: String,
    pub(crate) took: Duration,
}

/// A message from a thread that runs programs one after another.
enum Report {
    Began(String),
    Ended(Result<Ended, Failure>),
}

/// The longest programs, which are started first: they take 440 s to 60 s, each alone on two cores.
/// The other programs are short.
const LONG: [&str; 8] = [
    "tests behaviour",
    "tests topologies",
    "tests interop",
    "redgrid-cli cli",
    "redgrid-cli browser",
    "documentation",
    "tests simulated_network",
    "tests histories",
];

/// The package of programs that only compute. They run at the lowest priority, together with the
/// other programs, which often wait.
const COMPUTING: &str = "models ";

/// The time limit of one program: 60 minutes, so that a program that hangs is reported.
const LIMIT: Duration = Duration::from_secs(3600);

/// If no program ends for this time, the names of the running ones are printed.
const SILENCE: Duration = Duration::from_secs(60);

/// Runs all programs, and prints the output of each when it has ended. The number of concurrent
/// programs is the number of cores, and one more for programs that only compute.
pub(crate) fn run(
    workspace: &Path,
    programs: Vec<Program>,
    settings: &[(&'static str, OsString)],
) -> Result<Vec<Ended>, Failure> {
    let logs = logs(workspace)?;
    let began = Instant::now();
    let mut progress = Progress::of(programs.len());
    let (computing, mut others): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| program.name.starts_with(COMPUTING));
    others.sort_by_key(|program| LONG.iter().position(|long| *long == program.name).unwrap_or(LONG.len()));
    let computing = Mutex::new(computing.into_iter().map(Program::at_the_lowest_priority).collect());
    let others = Mutex::new(VecDeque::from(others));
    let (report, reports) = mpsc::channel();
    thread::scope(|scope| {
        let lanes = iter::repeat_n(&others, cores()).chain([&computing]);
        for waiting in lanes {
            let (report, logs) = (report.clone(), &logs);
            scope.spawn(move || {
                while let Some(program) = next(waiting) {
                    // After an error, the receiver has been dropped.
                    let has_begun = report.send(Report::Began(program.name.clone())).is_ok();
                    if !has_begun || report.send(Report::Ended(run_one(program, settings, logs))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(report);
        let reports = reports; // dropped if an error returns early
        let mut all = Vec::new();
        loop {
            match reports.recv_timeout(SILENCE) {
                Ok(Report::Began(name)) => progress.began(name),
                Ok(Report::Ended(ended)) => {
                    let ended = ended?;
                    println!("\n==== {}\n{}", ended.name, ended.output.trim());
                    say(&progress.ended(&ended.name, &ended.counts, ended.took));
                    all.push(ended);
                }
                Err(RecvTimeoutError::Timeout) => say(&progress.waiting(began.elapsed())),
                Err(RecvTimeoutError::Disconnected) => return Ok(all),
            }
        }
    })
}

fn next(waiting: &Mutex<VecDeque<Program>>) -> Option<Program> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// Returns the folder of the programs' outputs.
pub(crate) fn logs(workspace: &Path) -> Result<PathBuf, Failure> {
    let logs = workspace.join(install::FETCHED).with_file_name("test-logs");
    fs::create_dir_all(&logs).map_err(|source| Failure::Files { path: logs.clone(), source })?;
    Ok(logs)
}

fn run_one(mut program: Program, settings: &[(&'static str, OsString)], logs: &Path) -> Result<Ended, Failure> {
    let log = logs.join(format!("{}.log", program.name.replace(' ', "-")));
    let began = Instant::now();
    program.command.envs(settings.iter().map(|(name, value)| (name, value)));
    let counts = suite::run(&mut program.command, LIMIT, &log)?;
    let output = fs::read_to_string(&log).map_err(|source| Failure::Files { path: log, source })?;
    Ok(Ended { name: program.name, counts, output, took: began.elapsed() })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn all_programs_run_and_those_that_hang_up_do_not_end_the_others() {
        let program = |name: &str, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Program { name: name.into(), command }
        };
        let good = "echo test $NAME ... ok; echo test result: ok.; echo SKIPPED b: no $NAME >&2";
        let programs = [("models one", good), ("tests two", "exit 3"), ("tests behaviour", good), ("three", good)];
        let programs = programs.map(|(name, script)| program(name, script)).into();
        let folder = tempfile::tempdir().unwrap();
        let mut ended = run(folder.path(), programs, &[("NAME", "a".into())]).unwrap();
        ended.sort_by(|one, other| one.name.cmp(&other.name));
        let lines: Vec<_> = ended.iter().map(|one| format!("{}: {}", one.name, one.counts)).collect();
        let good = "0 passed, 0 failed, 1 skipped";
        assert_eq!(
            lines,
            [
                format!("models one: {good}"),
                format!("tests behaviour: {good}"),
                "tests two: 0 passed, 0 failed, 0 skipped; it ended before its result".to_owned(),
                format!("three: {good}"),
            ]
        );
        let log = logs(folder.path()).unwrap().join("models-one.log");
        assert!(fs::read_to_string(log).unwrap().contains("SKIPPED b: no a"));
    }
}
