//! Runs a program, or a block of the documentation, in a process of its own: this test program
//! starts itself again.

use std::env;
use std::process::Stdio;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed};
use redgrid_testkit::ServerBinary;
use tokio::process::Command;

use crate::deployment::{Deployment, Servers};

/// Ends a process that hangs. The longest program takes ten seconds on a quiet machine, and more
/// than a minute on a busy one.
const LIMIT: Duration = Duration::from_secs(300);

/// Returns the arguments of this test program, with the number of threads in `RUST_TEST_THREADS`.
pub(crate) fn arguments() -> Arguments {
    let mut args = Arguments::from_args();
    let threads = env::var("RUST_TEST_THREADS").ok().and_then(|threads| threads.parse().ok());
    args.test_threads = args.test_threads.or(threads);
    args
}

/// Returns whether the test `name` is skipped for lack of its servers, and prints that it is.
pub(crate) fn lacks_its_server(name: &str, servers: Servers, args: &Arguments) -> bool {
    servers == Servers::Newest && !args.list && ServerBinary::newest_or_skip(name).is_none()
}

/// Returns this program as a command, with `variable` set to `name`.
pub(crate) fn command(variable: &str, name: &str, deployment: &Deployment) -> Result<Command, Failed> {
    let mut command = Command::new(env::current_exe()?);
    // Settings of the caller do not reach the program.
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REDGRID_")) {
        command.env_remove(name);
    }
    command.env(variable, name).envs(deployment.variables());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    Ok(command)
}

/// The output of a process.
pub(crate) struct Printed {
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Printed {
    /// Waits until the process ends, and returns an error unless it succeeds.
    pub(crate) async fn by(mut command: Command) -> Result<Printed, Failed> {
        let ended = tokio::time::timeout(LIMIT, command.output()).await;
        let output = ended.map_err(|_| format!("it has not ended after {LIMIT:?}"))??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = Printed { out: text(&output.stdout), err: text(&output.stderr) };
        if output.status.success() { Ok(printed) } else { Err(printed.failed(&output.status.to_string())) }
    }

    /// Returns an error that says `what` failed, with all that the process has printed.
    pub(crate) fn failed(&self, what: &str) -> Failed {
        Failed::from(format!("{what}\n--- it printed:\n{}--- and to standard error:\n{}", self.out, self.err))
    }
}
