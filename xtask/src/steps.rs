//! Runs other programs, and prints their commands.

use std::{
    io,
    path::PathBuf,
    process::{Command, ExitCode, ExitStatus, Stdio},
};

use redgrid_testkit::FindError;

/// Prints a message to standard error. Standard output is reserved for results.
pub(crate) fn say(what: &str) {
    eprintln!("xtask: {what}");
}

/// A task of xtask failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("this is to be run as `cargo xtask`")]
    NotByCargo,
    #[error("`{program}` cannot be run: {source}")]
    NotRun { program: String, source: io::Error },
    #[error("`{command}` failed ({status})")]
    Failed { command: String, status: ExitStatus },
    #[error("`{command}` has warnings")]
    Warned { command: String },
    #[error("could not write to {}: {source}", path.display())]
    Files { path: PathBuf, source: io::Error },
    #[error("the package {package} does not hold the program")]
    NoProgramInside { package: &'static str },
    #[error("{packages} could not be installed: no apt-get, or not without a password")]
    NotInstalled { packages: String },
    #[error("links of the book lead nowhere:\n  {}", links.join("\n  "))]
    DeadLinks { links: Vec<String> },
    #[error("`cargo metadata` printed something unexpected: {source}")]
    Metadata { source: serde_json::Error },
    #[error("not ready to be published:\n  {}", missing.join("\n  "))]
    Unready { missing: Vec<String> },
    #[error("{} has no line `Test: PROGRAM NAME`", patch.display())]
    NoTest { patch: PathBuf },
    #[error("the bench broke off: {error}")]
    Bench { error: Box<dyn std::error::Error + Send + Sync> },
    #[error(transparent)]
    Unusable(#[from] FindError),
    #[error("no server, and none could be installed:\n  {}\nInstall Redis 6.2 or newer by hand, or set {} to its path.",
        .0.join("\n  "), redgrid_testkit::SERVER_VARIABLE)]
    NoServer(Vec<String>),
}

/// Runs a program on the same terminal, and returns its exit code.
pub(crate) fn run_through(command: &mut Command) -> Result<ExitCode, Failure> {
    let status = command.status().map_err(|source| not_run(command, source))?;
    // A program without an exit code was ended by a signal.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Runs a step with its output on standard error. Returns an error unless the step succeeds.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    say(&format!("running `{}`", shown(command)));
    let status =
        command.stdin(Stdio::null()).stdout(io::stderr()).status().map_err(|source| not_run(command, source))?;
    if status.success() { Ok(()) } else { Err(Failure::Failed { command: shown(command), status }) }
}

/// Whether a program can be run and succeeds. Its output is discarded.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    output(program, args).is_some()
}

/// Returns the output of a program; `None` unless it succeeds.
pub(crate) fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the output of a program, or a failure if the program fails.
pub(crate) fn printed(command: &mut Command) -> Result<String, Failure> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|source| not_run(command, source))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Failure::Failed { command: shown(command), status: output.status })
    }
}

pub(crate) fn not_run(command: &Command, source: io::Error) -> Failure {
    Failure::NotRun { program: command.get_program().to_string_lossy().into_owned(), source }
}

pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
