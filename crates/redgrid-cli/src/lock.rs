//! `redgrid lock`: runs a program while a lock is held, as flock(1) does for files.

mod group;
mod kind;
mod signals;
mod terminal;
mod warden;

use std::ffi::OsString;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::Args;
use redgrid::locks::{AcquireError, LostReason, ReleaseError};
use tokio::time::timeout;

use crate::cli::Global;
use crate::exit_codes::{BUSY, LOST, SIGNALLED};
use crate::failure::{Failure, one_line};
use crate::server::{Reach, Server};

use self::group::Group;
use self::kind::Held;
use self::signals::Signals;

/// How long the server may take to confirm the release: 5 s. If it does not, the lock ends with its
/// lease.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// The environment variable with the fencing token.
const TOKEN_VARIABLE: &str = "REDGRID_FENCING_TOKEN";

/// Options of `redgrid lock`.
#[derive(Debug, Args)]
pub(crate) struct LockOptions {
    /// The lock
    name: String,
    /// Wait at most this long for others (5s, 500ms, 1m); 0s tries once. Without it, wait as long
    /// as it takes
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,
    /// Hold for at most this long, and kill the program then. Without it, the lock is renewed while
    /// the program runs
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    lease: Option<Duration>,
    /// Keep the lock for at least this long, however soon the program ends: for a job that must run
    /// once
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    at_least: Option<Duration>,
    /// Fair: grant the lock in the order of requests, over all machines
    #[arg(long)]
    fair: bool,
    /// Acquire a read-write lock, together with other readers
    #[arg(long, conflicts_with = "write")]
    read: bool,
    /// Acquire a read-write lock exclusively
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    reach: Reach,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs `redgrid lock`.
pub(crate) async fn run(global: &Global, options: &LockOptions) -> Result<ExitCode, Failure> {
    // Registered before the lock is acquired, so that a signal always leads to a release.
    let mut signals =
        Signals::listen().map_err(|error| Failure::broken(format!("cannot listen to signals: {error}")))?;
    let server = tokio::select! {
        biased;
        signal = signals.next() => return Err(stopped(signal)),
        server = Server::reach(global, &options.reach) => server?,
    };
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => Err(stopped(signal)),
        guard = acquire(&server, options) => guard,
    };
    let outcome = match outcome {
        Ok(guard) => run_under(guard, options, &mut signals).await,
        Err(failure) => Err(failure),
    };
    server.leave().await;
    outcome
}

async fn acquire(server: &Server, options: &LockOptions) -> Result<Held, Failure> {
    Held::acquire(server, options).await.map_err(|error| match error {
        AcquireError::TimedOut { name, .. } => {
            Failure::with(BUSY, format!("`{name}` is held by others; the command was not run, try again later"))
        }
        AcquireError::Failed(redgrid::Failure::Refused { source, .. }) => server.unanswered(&options.name, &source),
        AcquireError::Failed(redgrid::Failure::InvalidName(_) | redgrid::Failure::InvalidArgument { .. }) => {
            Failure::usage(one_line(&error))
        }
        error => server.failed(&error),
    })
}

/// Runs the program under the lock, and releases it.
async fn run_under(guard: Held, options: &LockOptions, signals: &mut Signals) -> Result<ExitCode, Failure> {
    let started = Group::start(&options.command, TOKEN_VARIABLE, guard.token());
    let mut group = match started {
        Ok(group) => group,
        Err(failure) => {
            // The error of the start is reported. If the release fails too, the lock ends with its
            // lease.
            let _ = timeout(RELEASE_TIMEOUT, guard.release()).await;
            return Err(failure);
        }
    };
    let watch = guard.watch();
    let status = loop {
        tokio::select! {
            biased;
            reason = watch.lost() => {
                group.kill().await;
                return Err(lost(options, reason, "the command was killed"));
            }
            status = group.ended() => break status,
            signal = signals.next() => group.pass_on(signal),
        }
    };
    // This restores the terminal and ends the warden before the release, because the next holder's
    // program may start immediately after it.
    drop(group);
    let status = status.map_err(|error| Failure::broken(format!("cannot wait for the command: {error}")));
    match timeout(RELEASE_TIMEOUT, guard.release()).await {
        Ok(Err(ReleaseError::Lost { reason, .. })) => {
            return Err(lost(options, reason, "the command ended at about the same time"));
        }
        Ok(Err(error)) => eprintln!("redgrid: {}", one_line(&error)),
        Err(_) => eprintln!("redgrid: the release of `{}` was not confirmed; its lease ends it", options.name),
        Ok(Ok(())) => {}
    }
    status.map(code)
}

/// Returns the exit code of a program, as a shell does.
fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| Some(i32::from(SIGNALLED) + status.signal()?));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

fn lost(options: &LockOptions, reason: LostReason, clause: &str) -> Failure {
    let reason = match (reason, options.lease) {
        (LostReason::Expired, Some(lease)) => format!("its lease of {lease:?} is over"),
        (reason, _) => reason.to_string(),
    };
    Failure::with(LOST, format!("`{}` was lost, {reason}; {clause}, another holder may have had it", options.name))
}

fn stopped(signal: nix::sys::signal::Signal) -> Failure {
    let code = u8::try_from(signal as i32).map_or(u8::MAX, |number| SIGNALLED + number);
    Failure::with(code, format!("stopped by {signal} before the lock was acquired; the command was not run"))
}

/// Appended to the long help.
pub(crate) const HELP: &str = "\
The fencing token is in the program's environment as REDGRID_FENCING_TOKEN. Pass it to the store that the program
writes to. With --read there is no token.

The program runs in a process group of its own. If the lock is lost, or `redgrid lock` itself is killed, the whole group
is killed with SIGKILL. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to the group. The lock is released when the
program has ended. Ctrl-Z does not stop the program: it continues at once (on Linux; elsewhere it is stopped, and the
lock stays taken).

The exit code is that of the program, or 128 + n if signal n ended it. With the codes 2, 69, 75, 77 and 129 to 143 of
this command the program was not run, and with 76 it was killed. For a code of this command, a sentence is on stderr.";
