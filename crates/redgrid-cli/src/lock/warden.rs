//! Kills the program when this process is killed: the lock would no longer be renewed, and its loss
//! not noticed.

use std::io::{self, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use nix::unistd::Pid;

/// A shell that waits for the end of a pipe that only this process holds. `kill -9` closes it too.
pub(super) struct Warden {
    shell: Child,
    pipe: ChildStdin,
}

/// Reads the id of the group, then waits for the end of the pipe. `-s KILL --` works in every
/// shell.
const SCRIPT: &str = "read -r group && { read -r nothing; kill -s KILL -- \"-$group\"; }";

impl Warden {
    /// Starts it without a group.
    pub(super) fn start() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        // Its own group: a signal that ends our group must not end it before it has done its work.
        command.args(["-c", SCRIPT, "redgrid-warden"]).process_group(0);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        match shell.stdin.take() {
            Some(pipe) => Ok(Warden { shell, pipe }),
            None => Err(io::Error::other("it has no pipe")),
        }
    }

    /// Sets the group to kill.
    pub(super) fn watch_over(&mut self, group: Pid) -> io::Result<()> {
        writeln!(self.pipe, "{group}")
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        // Before the pipe closes: the group has ended, and its id may be reused.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
