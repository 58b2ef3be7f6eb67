//! Other processes that tests start and kill.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::SOON;

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

    /// Sends the process a signal, such as `-STOP`.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().expect("it lives").to_string();
        let sent = std::process::Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("there is a kill").success());
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
