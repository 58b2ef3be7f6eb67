//! A driver: a program that is told jobs on its standard input, and tells what they came to, a line of JSON each.

use std::{
    fmt,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::Trouble;

/// How long a driver may take to be up: a virtual machine on a busy computer.
const UP_WITHIN: Duration = Duration::from_secs(60);

/// How long it may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// A driver's process. It ends with this value.
pub(super) struct Driver {
    name: &'static str,
    child: Child,
    told: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Driver {
    /// Starts `program first… --addr ADDR --serve`, and waits until it says that it is up.
    pub(super) async fn start(name: &'static str, program: &Path, first: &[&str], addr: &str) -> Result<Self, Trouble> {
        let mut command = Command::new(program);
        command.args(first).args(["--addr", addr, "--serve"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("{name}: {}: {error}", program.display()))?;
        let (Some(told), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{name}: it has no standard input and output").into());
        };
        let mut driver = Driver { name, child, told, lines: BufReader::new(out).lines() };
        // Whatever it is: some say that they are up.
        driver.line(UP_WITHIN).await?;
        Ok(driver)
    }

    /// Tells it a job; true when it is set up and warm, false where it does not have the workload.
    pub(super) async fn ready(&mut self, job: &str, within: Duration) -> Result<bool, Trouble> {
        self.say(&format!("JOB {job}")).await?;
        let line = self.line(within).await?;
        match &*line {
            "READY" => Ok(true),
            _ if line.contains("unsupported") => Ok(false),
            _ => Err(format!("{}: {line}", self.name).into()),
        }
    }

    /// Has it begin.
    pub(super) async fn go(&mut self) -> Result<(), Trouble> {
        self.say("GO").await
    }

    /// What the job came to.
    pub(super) async fn outcome(&mut self, within: Duration) -> Result<Value, Trouble> {
        let line = self.line(within).await?;
        let outcome: Value = serde_json::from_str(&line).map_err(|error| format!("{}: {error}: {line}", self.name))?;
        match outcome.get("error") {
            Some(error) => Err(format!("{}: {error}", self.name).into()),
            None => Ok(outcome),
        }
    }

    /// The time of a processor that the process has used; `None` where `/proc` does not tell.
    pub(super) fn cpu(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()?)).ok()?;
        // After the name, which may hold anything, but no further bracket: user and system time are the 12th and 13th.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
        // Linux tells it in hundredths of a second to all programs.
        Some(Duration::from_millis(ticks * 10))
    }

    /// Has it end, and sees to it.
    pub(super) async fn quit(mut self) {
        // One that does not listen any more is killed.
        let _ = self.say("QUIT").await;
        let _ = timeout(GONE_WITHIN, self.child.wait()).await;
    }

    async fn say(&mut self, line: &str) -> Result<(), Trouble> {
        let written = self.told.write_all(format!("{line}\n").as_bytes()).await;
        written.map_err(|error| format!("{}: it does not listen: {error}", self.name).into())
    }

    async fn line(&mut self, within: Duration) -> Result<String, Trouble> {
        let began = Instant::now();
        match timeout(within, self.lines.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => Err(format!("{}: it has ended", self.name).into()),
            Ok(Err(error)) => Err(format!("{}: {error}", self.name).into()),
            Err(_) => Err(format!("{}: no answer within {:.0?}", self.name, began.elapsed()).into()),
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("name", &self.name).finish_non_exhaustive()
    }
}
