//! A process between a test and its server, so that no server outlives its test.

use std::{
    ffi::OsStr,
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// A running `supervisor.sh`. Its server ends when this value is dropped, or when this process
/// ends, even by `kill -9`.
///
/// The methods block for the milliseconds of a start or kill; async code calls them on blocking
/// threads.
#[derive(Debug)]
pub(crate) struct Supervisor {
    shell: Child,
    // `None` only while dropping: the shell ends when the pipe is closed.
    verbs: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Supervisor {
    /// Starts the shell. `options` follow the configuration file on the server's command line.
    pub(crate) fn start(program: &Path, configuration: &Path, folder: &Path, options: &[&str]) -> io::Result<Self> {
        let paths = [program, configuration, folder].map(Path::as_os_str);
        let options = options.iter().map(OsStr::new);
        Self::run(include_str!("supervisor.sh"), &paths.into_iter().chain(options).collect::<Vec<_>>())
    }

    /// Starts the shell for a program that drives a browser.
    #[cfg(feature = "browser")]
    pub(crate) fn of_driver(program: &Path, folder: &Path) -> io::Result<Self> {
        Self::run(include_str!("browser/supervisor.sh"), &[program.as_os_str(), folder.as_os_str()])
    }

    fn run(script: &str, arguments: &[&OsStr]) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "redgrid-testkit"]).args(arguments);
        // Its own process group: a signal to the group of the tests must not end the shell before
        // it has cleaned up.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn()?;
        match (shell.stdin.take(), shell.stdout.take()) {
            (Some(verbs), Some(answers)) => Ok(Self { shell, verbs: Some(verbs), answers: BufReader::new(answers) }),
            _ => Err(io::Error::other("the supervisor has no pipes")),
        }
    }

    /// Starts the server, killing one that still runs, and returns its process id.
    pub(crate) fn start_server(&mut self) -> io::Result<Pid> {
        let answer = self.ask("start\n")?;
        answer.parse().map(Pid::from_raw).map_err(|_| io::Error::other(format!("the supervisor answered {answer:?}")))
    }

    /// Kills the server, and returns once its process is gone.
    pub(crate) fn kill_server(&mut self) -> io::Result<()> {
        self.ask("kill\n").map(drop)
    }

    fn ask(&mut self, verb: &str) -> io::Result<String> {
        match &mut self.verbs {
            Some(verbs) => verbs.write_all(verb.as_bytes())?,
            None => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(answer.trim_end().to_owned()),
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.verbs.take());
        // This waits for `kill -9` of one process and the deletion of its folder. If the wait
        // fails, no further action is possible.
        let _ = self.shell.wait();
    }
}

/// Sends SIGSTOP or SIGCONT, and waits until it takes effect.
pub(crate) fn stop_or_continue(pid: Pid, signal: Signal) -> io::Result<()> {
    kill(pid, signal)?;
    let stopped = signal == Signal::SIGSTOP;
    // A signal is delivered within a scheduler tick. The loop is bounded in case the process died
    // meanwhile.
    for _ in 0..2000 {
        match state(pid) {
            Some('T' | 't') if stopped => return Ok(()),
            Some('T' | 't') => {}
            Some(_) if stopped => {}
            _ => return Ok(()),
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("process {pid} did not react to {signal}")))
}

/// Whether the process has ended (it may be a zombie).
pub(crate) fn has_ended(pid: Pid) -> bool {
    matches!(state(pid), None | Some('Z' | 'X'))
}

/// Whether the process was stopped by a signal.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    matches!(state(pid), Some('T' | 't'))
}

/// Returns the state letter of a process, as `ps` shows it; `None` if there is no such process.
fn state(pid: Pid) -> Option<char> {
    if Path::new("/proc/self/stat").exists() {
        // The second field is the program's name in parentheses, and may contain anything.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        return stat.rsplit_once(')')?.1.trim_start().chars().next();
    }
    let output = Command::new("ps").args(["-o", "state=", "-p", &pid.to_string()]).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().chars().next()
}
