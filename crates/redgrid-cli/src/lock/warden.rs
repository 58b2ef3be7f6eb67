//! What kills the program when we are killed ourselves: nobody would renew the lock then, nor notice its loss.

use std::io::{self, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use nix::unistd::Pid;

/// A shell that waits for the end of a pipe that only we hold. `kill -9` closes it too.
pub(super) struct Warden {
    shell: Child,
    pipe: ChildStdin,
}

/// Reads the id of the group, then nothing until the pipe ends. `-s KILL --` is the form that every shell reads alike.
const SCRIPT: &str = "read -r group && { read -r nothing; kill -s KILL -- \"-$group\"; }";

impl Warden {
    /// Starts it, with nothing to watch over yet.
    pub(super) fn start() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        // A group of its own: what ends us as a group must not end it before it has done its work.
        command.args(["-c", SCRIPT, "redgrid-warden"]).process_group(0);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        match shell.stdin.take() {
            Some(pipe) => Ok(Warden { shell, pipe }),
            None => Err(io::Error::other("it has no pipe")),
        }
    }

    /// Names the group that is to end with us.
    pub(super) fn watch_over(&mut self, group: Pid) -> io::Result<()> {
        writeln!(self.pipe, "{group}")
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        // Before the pipe closes: the group has ended, and its number may soon be somebody else's.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
