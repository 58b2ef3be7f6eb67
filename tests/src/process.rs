//! Other processes that tests start and kill.

use std::process::Stdio;

pub use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::SOON;

/// Sends a signal to a child process. After SIGSTOP it returns when all threads have stopped.
pub fn send_signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id"));
    kill(pid, signal).expect("it lives");
    if signal == Signal::SIGSTOP {
        // Other threads run until the kernel schedules the thread that gets the signal. On a busy
        // machine that takes a while.
        let status = waitpid(pid, Some(WaitPidFlag::WUNTRACED));
        assert_eq!(status, Ok(WaitStatus::Stopped(pid, signal)));
    }
}

/// A process that runs until it is killed.
#[derive(Debug)]
pub struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Starts `program` (a program of this package, by `CARGO_BIN_EXE_…`), and waits until it
    /// prints `there`.
    pub async fn start(program: &str, args: &[&str]) -> Other {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut other = Other { child, lines };
        assert_eq!(other.next_line().await, "there");
        other
    }

    /// Returns the next line of the process's output.
    pub async fn next_line(&mut self) -> String {
        let line = tokio::time::timeout(SOON, self.lines.next_line()).await.expect("in time").expect("readable");
        line.expect("it lives")
    }

    /// Sends it a signal, see [`send_signal`].
    pub fn signal(&self, signal: Signal) {
        send_signal(self.child.id().expect("it lives"), signal);
    }

    /// Kills the process by SIGKILL; returns its unread lines.
    pub async fn kill_and_read(mut self) -> Vec<String> {
        self.child.kill().await.expect("it can be killed");
        let mut lines = Vec::new();
        // A partial last line is not returned.
        while let Ok(Some(line)) = self.lines.next_line().await {
            lines.push(line);
        }
        lines
    }

    /// Kills the process by SIGKILL.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("it can be killed");
    }
}
