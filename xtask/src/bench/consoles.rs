//! The cost of consoles for the users of a lock: W2 with 8 tasks while consoles show its lock,
//! beside the same without consoles.

use std::{
    path::Path,
    process::{ExitCode, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redgrid_testkit::{Observer, RedisServer, ServerBinary};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::{Child, Command},
    runtime::Builder,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    BoxError, Options, WARM,
    driver::Driver,
    report::figure,
    rows::OURS,
    section::{self, median},
};
use crate::{
    measured::table,
    steps::{Failure, say},
};

/// The goal: the rate beside consoles, divided by the rate without.
const GOAL: f64 = 0.95;

/// The fewest rounds, and the shortest section in seconds. A console reads everything at least once
/// within such a section; the noise of a shorter one is larger than the goal.
const LEAST_ROUNDS: u32 = 5;
const LEAST_SECS: f64 = 10.0;

/// How many changes of each page must show the holder in a section. A page changes at most once a
/// second, so at most two of them are from the warm-up.
const LEAST_CHANGES: usize = 3;

const TASKS: u32 = 8;

/// How long a console may take to start and to show its page.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for the first reads of the consoles. The measurement without consoles waits as long.
const SETTLE: Duration = Duration::from_secs(2);

/// A console's process with one open page. Both end when this value is dropped.
struct Console {
    _process: Child,
    page: JoinHandle<()>,
    /// The changes of the page since they were cleared.
    changes: Arc<Mutex<Vec<String>>>,
}

impl Console {
    /// Starts a console, opens the page of a lock, and waits until the page is shown.
    async fn start(program: &Path, addr: &str, lock: &str) -> Result<Self, BoxError> {
        let mut command = Command::new(program);
        command.args(["console", "--no-login", "--json", "--listen", "127.0.0.1:0", "--url"]);
        command.arg(format!("redis://{addr}")).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let out = process.stdout.take().ok_or("the console has no standard output")?;
        let mut lines = BufReader::new(out).lines();
        let line = timeout(START_TIMEOUT, lines.next_line()).await??.ok_or("the console has ended")?;
        let output: Value = serde_json::from_str(&line)?;
        let url = output.get("url").and_then(Value::as_str).ok_or("the console names no address")?;
        let host = url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(host).await?;
        let request = format!("GET /live?page=lock&name={lock} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut lines = BufReader::new(stream).lines();
        let status = timeout(START_TIMEOUT, lines.next_line()).await??.unwrap_or_default();
        if !status.starts_with("HTTP/1.1 200") {
            return Err(format!("the console answered {status}").into());
        }
        loop {
            let line = timeout(START_TIMEOUT, lines.next_line()).await??;
            if line.ok_or("the console closed the page")?.starts_with(DATA) {
                break;
            }
        }
        let changes = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&changes);
        let page = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if line.starts_with(DATA) {
                    seen.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                }
            }
        });
        Ok(Console { _process: process, page, changes })
    }

    /// Forgets the changes so far.
    fn clear(&self) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns whether enough changes show a hold of this client.
    fn shows(&self, client: &str) -> bool {
        // Waiters of the page have no number.
        let row = format!("{client}</bdi></span>, number ");
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.iter().filter(|change| change.contains(&row)).count() >= LEAST_CHANGES
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.page.abort();
    }
}

/// How a line with a change of the page begins.
const DATA: &str = "data:";

/// Returns the client that holds the lock, as soon as there is one.
async fn holder(observer: &Observer, lock: &str) -> Result<String, BoxError> {
    loop {
        let fields: Vec<String> = observer.query(&["HKEYS", lock]).await?;
        if let Some((client, _)) = fields.iter().find_map(|field| field.rsplit_once(':')) {
            return Ok(client.to_owned());
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// The rates of one round.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    without: f64,
    beside: f64,
}

/// Returns why these options do not suffice to measure.
pub(super) fn refusal(options: &Options) -> Option<String> {
    let is_enough = options.rounds >= LEAST_ROUNDS && options.secs >= LEAST_SECS;
    let text = || format!("--consoles needs at least {LEAST_ROUNDS} rounds of {LEAST_SECS} s");
    (!is_enough).then(text)
}

/// Measures with this many consoles and without, in turn. Fails if the goal is missed.
pub(super) fn run(consoles: u32, options: &Options, program: &Path, binary: ServerBinary) -> Result<ExitCode, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Failure::NotRun { program: "the runtime".into(), source })?;
    let rounds = runtime.block_on(measure(consoles, options, program, binary));
    let rounds = rounds.map_err(|error| Failure::Bench { error })?;
    let mut rows = vec![["round", "without", "beside consoles", "ratio"].map(str::to_owned).to_vec()];
    let mut ratios = Vec::new();
    for (number, Round { without, beside }) in rounds.into_iter().enumerate() {
        let ratio = beside / without.max(f64::MIN_POSITIVE);
        rows.push(vec![number.to_string(), figure(Some(without)), figure(Some(beside)), figure(Some(ratio))]);
        ratios.push(ratio);
    }
    let ratio = median(ratios).unwrap_or_default();
    println!("{}", table(&rows));
    println!("W2, {TASKS} tasks, beside {consoles} consoles that show the lock: {ratio:.3} of without (≥ {GOAL})");
    Ok(if ratio >= GOAL { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure(
    consoles: u32,
    options: &Options,
    program: &Path,
    binary: ServerBinary,
) -> Result<Vec<Round>, BoxError> {
    let server = RedisServer::builder().binary(binary).config("maxclients 4000").start().await?;
    let observer = server.observer().await?;
    let addr = server.addr().to_string();
    let mut drivers = [Driver::start(OURS, program, &["bench"], &addr).await?];
    let mut rounds = Vec::new();
    for number in 0..options.rounds {
        let mut round = Round::default();
        for turn in 0..2 {
            // Each goes first in every other round.
            let is_watched = (number + turn) % 2 == 1;
            observer.cmd(&["FLUSHALL"]).await?;
            // W2 uses the prefix as the name of its lock.
            let lock = format!("bench:{number}:{turn}");
            let mut open = Vec::new();
            let count = if is_watched { consoles } else { 0 };
            for _ in 0..count {
                open.push(Console::start(program, &addr, &lock).await?);
            }
            sleep(SETTLE).await;
            open.iter().for_each(Console::clear);
            let secs = options.secs;
            let job = format!("workload=W2 tasks={TASKS} warm={WARM} prefix={lock} secs={secs}");
            let within = Duration::from_secs_f64(secs + WARM);
            let holder = async { timeout(START_TIMEOUT, holder(&observer, &lock)).await? };
            let section = section::measure(&mut drivers, &observer, &job, within);
            let (section, holder) = tokio::try_join!(section, holder)?;
            let section = section.ok_or("this driver lacks W2")?;
            if section.wrong() > 0.0 {
                return Err(format!("the section had errors: {section:?}").into());
            }
            let shown = open.iter().filter(|console| !console.page.is_finished() && console.shows(&holder)).count();
            if shown < open.len() {
                return Err(format!("{shown} of {} consoles have shown the holder of the lock", open.len()).into());
            }
            if is_watched {
                round.beside = section.rate;
            } else {
                round.without = section.rate;
            }
            let word = if is_watched { "beside consoles" } else { "without" };
            say(&format!("round {number}, {word}: {:.0} a second", section.rate));
        }
        rounds.push(round);
    }
    let [driver] = drivers;
    driver.quit().await;
    Ok(rounds)
}
