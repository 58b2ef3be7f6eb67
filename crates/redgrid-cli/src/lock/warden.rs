//! Kills the program when this process is killed. A killed process cannot renew the lock or notice
//! its loss.

use std::io::{self, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use nix::unistd::Pid;

/// A shell that waits for the end of a pipe. Only this process holds the other end. `kill -9` of
/// this process also closes the pipe.
pub(super) struct Warden {
    shell: Child,
    pipe: ChildStdin,
}

/// Reads the id of the process group, then waits for the end of the pipe. The form `-s KILL --`
/// works in every shell.
const SCRIPT: &str = "read -r group && { read -r nothing; kill -s KILL -- \"-$group\"; }";

impl Warden {
    /// Starts the warden; it does not watch a group yet.
    pub(super) fn start() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        // The warden has its own process group: a signal that ends our group must not end the
        // warden before it has killed the program.
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
        // The shell is killed before the pipe closes: the program's group has ended, and its id may
        // be reused.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
