//! A program in a process group of its own, so that the program and its children can be killed
//! together.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};

use super::terminal::Terminal;
use super::warden::Warden;
use crate::failure::Failure;

/// Exit code if the program does not exist, as in shells.
const NOT_FOUND: u8 = 127;

/// Exit code if the program cannot be run, as in shells.
const NOT_RUNNABLE: u8 = 126;

/// A running program and its children, as long as they stay in its process group.
pub(super) struct Group {
    leader: Child,
    id: Pid,
    /// Receives SIGCHLD: the program has ended, stopped or continued.
    changes: unix::Signal,
    // The fields are dropped in this order: the terminal is restored while the warden is still
    // active.
    _terminal: Option<Terminal>,
    _warden: Option<Warden>,
}

impl Group {
    /// Starts the program. Its environment contains the fencing token, if there is one. It inherits
    /// stdin, stdout and stderr.
    ///
    /// # Errors
    ///
    /// [`Failure`] with the exit code of a shell: the program was not started.
    pub(super) fn start(command: &[OsString], variable: &str, token: Option<u64>) -> Result<Self, Failure> {
        let [program, arguments @ ..] = command else { return Err(Failure::usage("no command is given")) };
        let changes = unix::signal(SignalKind::child())
            .map_err(|error| Failure::broken(format!("cannot listen to signals: {error}")))?;
        let warden = Warden::start();
        let mut command = Command::new(program);
        match token {
            Some(token) => command.env(variable, token.to_string()),
            // The program must not inherit the token of an enclosing lock.
            None => command.env_remove(variable),
        };
        let leader = command.args(arguments).process_group(0).spawn();
        let leader = leader.map_err(|error| cannot_run(program, &error))?;
        let id = leader.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let id = id.ok_or_else(|| Failure::broken("the command has no process id"))?;
        let warden = warden.and_then(|mut warden| warden.watch_over(id).map(|()| warden));
        let warden = warden.inspect_err(|error| {
            eprintln!("redgrid: without /bin/sh ({error}), a kill -9 of this process would leave the command running");
        });
        Ok(Group { leader, id, changes, _terminal: Terminal::lend_to(id), _warden: warden.ok() })
    }

    /// Waits for the program, but not for other processes in its group. If Ctrl-Z stops the
    /// program, it is continued: otherwise the lock would be renewed for a stopped program.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            tokio::select! {
                biased;
                ended = self.leader.wait() => return ended,
                Some(()) = self.changes.recv() => if is_suspended(self.id) {
                    eprintln!("redgrid: the command continues: it must not be stopped while it holds a lock");
                    self.pass_on(Signal::SIGCONT);
                },
            }
        }
    }

    /// Sends a signal to the whole group.
    pub(super) fn pass_on(&self, signal: Signal) {
        // The exit status has not been read yet, so the process id is still valid. An error is
        // ignored: a group that is ending needs no signal.
        let _ = killpg(self.id, signal);
    }

    /// Kills the whole group at once. There is no time for SIGTERM: between the loss and the next
    /// holder there is at most a twentieth of the lease, and none after a forced takeover.
    pub(super) async fn kill(&mut self) {
        self.pass_on(Signal::SIGKILL);
        let _ = self.leader.wait().await;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The program still runs only after an error of ours. It must not run without the lock.
        if self.leader.id().is_some() {
            self.pass_on(Signal::SIGKILL);
        }
    }
}

/// Whether the process was just suspended from the terminal. The call does not consume the exit
/// status.
#[cfg(target_os = "linux")]
fn is_suspended(id: Pid) -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    let stopped = waitid(Id::Pid(id), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG);
    matches!(stopped, Ok(WaitStatus::Stopped(_, Signal::SIGTSTP)))
}

/// Other systems cannot report this without consuming the exit status.
#[cfg(not(target_os = "linux"))]
fn is_suspended(_: Pid) -> bool {
    false
}

fn cannot_run(program: &OsString, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
    Failure::with(code, format!("cannot run `{}`, the lock is released: {error}", program.display()))
}
