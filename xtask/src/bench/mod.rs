//! Compares our drivers with others. Each workload has several rounds; in a round every driver runs
//! once, in an order that rotates with each round.
//!
//! Machines are shared and noisy, so only ratios count. Each ratio is between two results of the
//! same round: a driver's, and that of Redisson or of the limit model. The median of the ratios is
//! reported.

mod consoles;
mod counters;
mod driver;
mod held;
mod plot;
mod report;
mod rows;
mod section;
mod svg;

use std::{
    collections::{HashMap, HashSet},
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::builder::ArgPredicate::IsPresent;
use redgrid_testkit::{Observer, RedisServer};
use tokio::runtime::Builder;

pub(crate) use self::report::figure;
use self::{
    driver::Driver,
    report::{Measured, Report},
    rows::{End, OURS, OURS_ON_ONE, REDISSON, ROWS, Row},
    section::{Sample, Section},
};
use crate::{
    cargo, install,
    steps::{Failure, run, say},
    workspace,
};

/// An error of a driver or a server, for display.
type BoxError = Box<dyn Error + Send + Sync>;

/// Options of the run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A folder of other drivers, each a program that is started as `NAME --addr HOST:PORT --serve`
    #[arg(long, value_name = "FOLDER")]
    peers: Option<PathBuf>,
    /// Only workloads with this in their names, for example `W1`
    #[arg(long, value_name = "TEXT", value_parser = in_a_name)]
    only: Option<String>,
    /// Only these drivers, beside redgrid's
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    drivers: Vec<String>,
    /// Number of rounds for the medians; with `--consoles`, 5 unless more are given
    #[arg(long, value_name = "COUNT", default_value_t = 3, default_value_if("consoles", IsPresent, "5"))]
    rounds: u32,
    /// Length of a section in seconds; with `--consoles`, 10 unless more are given
    #[arg(long, value_name = "SECONDS", default_value_t = 1.5, default_value_if("consoles", IsPresent, "10"))]
    secs: f64,
    /// How long locks are held (W5), in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    hold: f64,
    /// Measures only W2 with 8 tasks, with and without this many consoles that show its lock
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["peers", "only", "drivers", "write"])]
    consoles: Option<u32>,
    /// Writes the tables into docs/internals/measurements.md, and draws the pictures in docs/images
    #[arg(long, conflicts_with = "only")]
    write: bool,
    /// Measures nothing; draws the pictures in docs/images from docs/internals/measurements.md
    #[arg(long, exclusive = true)]
    plots: bool,
}

/// The page of the tables, relative to the workspace.
const PAGE: &str = "docs/internals/measurements.md";

/// The warm-up of a compiled driver.
const WARM: f64 = 0.3;

/// Warm-ups of a JVM. Its rate rises for half a minute, so there are several sections before the
/// first measurement, then a time in seconds before each job. `FIRST` applies to a workload's first
/// round, `NEW` if two of three processes are new, and `LATER` to all later rounds.
const JVM_AT_FIRST: u32 = 9;
const JVM_SECTION: f64 = 5.0;
const JVM_FIRST: f64 = 6.0;
const JVM_NEW: f64 = 60.0;
const JVM_LATER: f64 = 2.0;

/// Number of operations in a section that records all its commands.
const SAMPLED: u32 = 2000;

/// The longest time for selling a stock.
const SALE: f64 = 120.0;

/// Measures, and prints the tables. Fails if one of our drivers had errors.
pub(crate) fn run_all(options: &Options) -> Result<ExitCode, Failure> {
    let workspace = workspace()?;
    if options.plots {
        plot::write(&workspace)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(refusal) = options.consoles.and_then(|_| consoles::refusal(options)) {
        say(&refusal);
        return Ok(ExitCode::from(2));
    }
    let server = install::server(&workspace)?;
    let ours = workspace.join("target/measured/redgrid");
    let counting = workspace.join("target/measured/redgrid-counting");
    let build = ["build", "--profile", "measured", "--package", "redgrid-cli"];
    if let Some(count) = options.consoles {
        run(cargo().args(build))?;
        return consoles::run(count, options, &ours, server);
    }
    run(cargo().args(build).args(["--features", "allocations"]))?;
    std::fs::copy(&ours, &counting).map_err(|source| Failure::Files { path: counting.clone(), source })?;
    run(cargo().args(build))?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Failure::NotRun { program: "the runtime".into(), source })?;
    let binary = server.clone();
    let report = runtime.block_on(async {
        let server = RedisServer::builder().binary(binary).config("maxclients 4000").start().await?;
        let observer = server.observer().await?;
        let mut bench = Bench {
            options,
            ours,
            counting,
            server,
            observer,
            running: HashMap::new(),
            seen: HashSet::new(),
            jobs: 0,
            began: Instant::now(),
        };
        bench.all().await
    });
    let report = report.map_err(|error| Failure::Bench { error })?;
    println!("{report}");
    if options.write {
        report.write(&workspace.join(PAGE))?;
        plot::write(&workspace)?;
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the value of `--only`, if the name of a workload contains it.
fn in_a_name(text: &str) -> Result<String, String> {
    let names = || ROWS.iter().map(|row| row.name).chain(["W5"]);
    if names().any(|name| name.contains(text)) {
        return Ok(text.to_owned());
    }
    Err(format!("no workload has this in its name; there are: {}", names().collect::<Vec<_>>().join("; ")))
}

struct Bench<'a> {
    options: &'a Options,
    ours: PathBuf,
    /// This library's driver, built with counting of allocations.
    counting: PathBuf,
    server: RedisServer,
    observer: Observer,
    running: HashMap<&'static str, Vec<Driver>>,
    /// Pairs of a workload and a number of processes that the JVM has already run.
    seen: HashSet<(&'static str, usize)>,
    jobs: u32,
    began: Instant,
}

impl Bench<'_> {
    async fn all(&mut self) -> Result<Report, BoxError> {
        let mut report = Report::new(self.server.binary().version().to_string(), self.options.rounds);
        let is_wanted = |name: &str| self.options.only.as_ref().is_none_or(|only| name.contains(&**only));
        let wanted: Vec<&Row> = ROWS.iter().filter(|row| is_wanted(row.name)).collect();
        let holds = is_wanted("W5");
        if !wanted.is_empty() && self.program(REDISSON).is_some() {
            self.warm_redisson().await?;
        }
        for row in wanted {
            let measured = self.row(row).await?;
            report.add(row, measured);
        }
        for (_, drivers) in self.running.drain() {
            for driver in drivers {
                driver.quit().await;
            }
        }
        if holds {
            self.say("W5");
            let program = |name| self.program(name);
            report.held = held::measure(program, Duration::from_secs_f64(self.options.hold)).await?;
        }
        Ok(report)
    }

    async fn row(&mut self, row: &'static Row) -> Result<Vec<Measured>, BoxError> {
        let names: Vec<_> = row.drivers().filter(|name| self.program(name).is_some()).collect();
        let mut measured: Vec<_> = names.iter().map(|driver| Measured { driver, ..Measured::default() }).collect();
        for round in 0..self.options.rounds as usize {
            for turn in 0..names.len() {
                let at = (round + turn) % names.len();
                let name = names[at];
                match self.section(row, name).await {
                    Ok(section) => {
                        if let Some(section) = &section {
                            self.say(&format!("{}, round {round}, {name}: {:.0} a second", row.name, section.rate));
                        }
                        measured[at].rounds.push(section);
                    }
                    // A driver of another library that fails is left out; a failure of ours is an
                    // error.
                    Err(error) if is_ours(name) => return Err(error),
                    Err(error) => {
                        self.say(&format!("{}: {error}", row.name));
                        self.running.remove(name);
                        measured[at].rounds.push(None);
                    }
                }
            }
        }
        // Keeps one of several processes of a driver.
        for drivers in self.running.values_mut() {
            for driver in drivers.split_off(1.min(drivers.len())) {
                driver.quit().await;
            }
        }
        for one in &mut measured {
            match self.sample(row, one.driver).await {
                Ok(sample) => one.sample = sample,
                Err(error) if is_ours(one.driver) => return Err(error),
                Err(error) => {
                    self.say(&format!("{}, sample: {error}", row.name));
                    self.running.remove(one.driver);
                }
            }
        }
        Ok(measured)
    }

    /// Measures the commands that one process sends for its operations.
    async fn sample(&mut self, row: &Row, name: &'static str) -> Result<Option<Sample>, BoxError> {
        // A round of the latch or a sum of an adder does not consist of separate operations, and a
        // sale needs a stock, so these are not measured.
        if matches!(row.end, End::Rounds(_) | End::Sold(_)) || row.workload == "W4adder" {
            return Ok(None);
        }
        let job = self.job(row.workload, row.tasks, WARM).await? + &format!(" ops={SAMPLED} secs=0");
        let server = &self.server;
        let within = Duration::from_secs(10);
        if name == OURS {
            let mut driver = Driver::start(name, &self.counting, &["bench"], &server.addr().to_string()).await?;
            let sample = section::sample(&mut driver, server, &job, within).await;
            driver.quit().await;
            return sample;
        }
        self.drivers(name, 1).await?;
        match self.running.get_mut(name).and_then(|drivers| drivers.first_mut()) {
            Some(driver) => section::sample(driver, &self.server, &job, within).await,
            None => Ok(None),
        }
    }

    async fn section(&mut self, row: &Row, name: &'static str) -> Result<Option<Section>, BoxError> {
        let processes = row.processes();
        let secs = self.options.secs;
        let warm = match name {
            REDISSON if !self.seen.insert((row.workload, processes)) => JVM_LATER,
            REDISSON if processes > 1 => JVM_NEW,
            REDISSON => JVM_FIRST,
            _ => WARM,
        };
        let mut job = self.job(row.workload, row.tasks, warm).await?;
        let prefix = format!("bench:{}", self.jobs);
        let within = match row.end {
            End::Time => secs,
            End::Operations(_) | End::Rounds(_) => 60.0,
            End::Sold(_) => SALE,
        };
        job += &match row.end {
            End::Time => format!(" secs={secs}"),
            End::Operations(ops) => format!(" ops={ops}"),
            End::Rounds(rounds) => format!(" rounds={rounds}"),
            End::Sold(_) => format!(" secs={SALE}"),
        };
        if let End::Sold(stock) = row.end {
            let key = format!("{prefix}:stock");
            let stock = stock.to_string();
            self.observer.cmd(&["SET", &key, &stock]).await?;
        }
        let observer = self.observer.clone();
        let drivers = self.drivers(name, processes).await?;
        let section = section::measure(drivers, &observer, &job, Duration::from_secs_f64(within + warm)).await?;
        let Some(mut section) = section else { return Ok(None) };
        if let End::Sold(stock) = row.end {
            let left: f64 = observer.get(&format!("{prefix}:stock")).await?.unwrap_or_default();
            section.violations += (section.ops + left - stock as f64).abs();
        }
        Ok(Some(section))
    }

    /// Prepares a job with unique names, on an empty server.
    async fn job(&mut self, workload: &str, tasks: u32, warm: f64) -> Result<String, BoxError> {
        self.jobs += 1;
        self.observer.cmd(&["FLUSHALL"]).await?;
        Ok(format!("workload={workload} tasks={tasks} warm={warm} prefix=bench:{}", self.jobs))
    }

    async fn warm_redisson(&mut self) -> Result<(), BoxError> {
        self.say("warming up the virtual machine");
        for time in 0..JVM_AT_FIRST {
            let job = self.job(if time % 3 < 2 { "W1" } else { "W2" }, 16, 0.0).await?;
            let job = format!("{job} secs={JVM_SECTION}");
            let observer = self.observer.clone();
            let drivers = self.drivers(REDISSON, 1).await?;
            section::measure(drivers, &observer, &job, Duration::from_secs_f64(JVM_SECTION)).await?;
        }
        Ok(())
    }

    /// Returns this many processes of a driver. Missing ones are started.
    async fn drivers(&mut self, name: &'static str, count: usize) -> Result<&mut [Driver], BoxError> {
        let Some((program, first)) = self.program(name) else { return Err(format!("there is no {name}").into()) };
        let addr = self.server.addr().to_string();
        let running = self.running.entry(name).or_default();
        while running.len() < count {
            running.push(Driver::start(name, &program, first, &addr).await?);
        }
        Ok(&mut running[..count])
    }

    /// Returns the program of a driver, and its first arguments.
    fn program(&self, name: &'static str) -> Option<(PathBuf, &'static [&'static str])> {
        match name {
            OURS => return Some((self.ours.clone(), &["bench"])),
            OURS_ON_ONE => return Some((self.ours.clone(), &["bench", "--threads", "1"])),
            _ => {}
        }
        let chosen = &self.options.drivers;
        if !chosen.is_empty() && !chosen.iter().any(|one| one == name) {
            return None;
        }
        let program = self.options.peers.as_deref()?.join(name);
        is_program(&program).then_some((program, &[]))
    }

    fn say(&self, what: &str) {
        say(&format!("{:4.0} s  {what}", self.began.elapsed().as_secs_f64()));
    }
}

fn is_ours(name: &str) -> bool {
    matches!(name, OURS | OURS_ON_ONE)
}

fn is_program(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_that_does_not_exist_is_refused_with_the_names_of_all() {
        assert_eq!(in_a_name("W1"), Ok("W1".to_owned()));
        assert_eq!(in_a_name("W5"), Ok("W5".to_owned()));
        let refused = in_a_name("W1,W2").unwrap_err();
        assert!(refused.contains("W1, 1 task; ") && refused.ends_with("W5"), "{refused}");
    }
}
