//! A driver: a program that reads jobs from its standard input, and prints a line of JSON for each.

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

use super::BoxError;

/// How long a driver may take to start. This is enough for a JVM on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a driver may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A driver's process. It ends when this value is dropped.
pub(super) struct Driver {
    name: &'static str,
    child: Child,
    told: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Driver {
    /// Starts `program first… --addr ADDR --serve`, and waits until the driver is ready.
    pub(super) async fn start(
        name: &'static str,
        program: &Path,
        first: &[&str],
        addr: &str,
    ) -> Result<Self, BoxError> {
        let mut command = Command::new(program);
        command.args(first).args(["--addr", addr, "--serve"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("{name}: {}: {error}", program.display()))?;
        let (Some(told), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{name}: it has no standard input and output").into());
        };
        let mut driver = Driver { name, child, told, lines: BufReader::new(out).lines() };
        // Any first line means that the driver is ready.
        driver.line(START_TIMEOUT).await?;
        Ok(driver)
    }

    /// Sends a job. Returns true when the driver has prepared it and warmed up, false if the driver
    /// lacks the workload.
    pub(super) async fn ready(&mut self, job: &str, within: Duration) -> Result<bool, BoxError> {
        self.send(&format!("JOB {job}")).await?;
        let line = self.line(within).await?;
        match &*line {
            "READY" => Ok(true),
            _ if line.contains("unsupported") => Ok(false),
            _ => Err(format!("{}: {line}", self.name).into()),
        }
    }

    /// Starts the job.
    pub(super) async fn go(&mut self) -> Result<(), BoxError> {
        self.send("GO").await
    }

    /// Returns the result of the job.
    pub(super) async fn outcome(&mut self, within: Duration) -> Result<Value, BoxError> {
        let line = self.line(within).await?;
        let outcome: Value = serde_json::from_str(&line).map_err(|error| format!("{}: {error}: {line}", self.name))?;
        match outcome.get("error") {
            Some(error) => Err(format!("{}: {error}", self.name).into()),
            None => Ok(outcome),
        }
    }

    /// Returns the processor time of the process; `None` without `/proc`.
    pub(super) fn cpu(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()?)).ok()?;
        // The program's name ends at the last closing parenthesis. User and system time are the
        // 12th and 13th field after it.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
        // Linux reports the times in hundredths of a second.
        Some(Duration::from_millis(ticks * 10))
    }

    /// Ends the process.
    pub(super) async fn quit(mut self) {
        // A process that does not read the command is killed.
        let _ = self.send("QUIT").await;
        let _ = timeout(EXIT_TIMEOUT, self.child.wait()).await;
    }

    async fn send(&mut self, line: &str) -> Result<(), BoxError> {
        let written = self.told.write_all(format!("{line}\n").as_bytes()).await;
        written.map_err(|error| format!("{}: it does not listen: {error}", self.name).into())
    }

    async fn line(&mut self, within: Duration) -> Result<String, BoxError> {
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
