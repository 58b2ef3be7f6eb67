//! A job, from options or from a line `JOB key=value …`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::BoxError;
use crate::cli::BenchOptions;

/// Default warm-up: 0.3 s, enough for connections, script caches and memory pages.
const WARM: Duration = Duration::from_millis(300);

/// Default length if neither operations nor a time are given: 2 s.
const SECS: Duration = Duration::from_secs(2);

/// Default number of rounds of W6latch, as in the drivers of the other libraries.
const ROUNDS: usize = 20;

/// The maximum time: an hour.
const LONGEST: f64 = 3600.0;

/// One timed section.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Job {
    pub(super) workload: Workload,
    /// Prefix of the job's keys.
    pub(super) prefix: String,
    pub(super) tasks: usize,
    /// Operations of all tasks together.
    pub(super) ops: Option<u64>,
    pub(super) secs: Option<Duration>,
    pub(super) warm: Duration,
    /// Locks to hold (W5).
    pub(super) n: usize,
    /// Number of rounds (W6latch).
    pub(super) rounds: usize,
}

/// The workload of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    /// Lock and unlock, one name per task.
    W1,
    /// Lock and unlock, one name for all tasks.
    W2,
    /// Sell a stock under one lock.
    W3,
    /// Add 1 to one number.
    W4,
    /// Add to a local sum, and request the total over all processes.
    W4Adder,
    /// Hold many locks with automatic renewal.
    W5,
    /// W2 with a fair lock.
    W6Fair,
    /// One read-write lock for all tasks; each writes every tenth time.
    W6Rw,
    /// One of eight permits, for all tasks.
    W6Sem,
    /// All tasks wait for a countdown latch.
    W6Latch,
    /// Push, receive and acknowledge messages of one reliable queue.
    W7Queue,
    /// Push messages to one reliable queue.
    W7Push,
}

/// A workload that this driver does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no workload `{0}` here; there are W1, W2, W3, W4, W4adder, W5, W6fair, W6rw, W6sem, W6latch, W7queue and W7push"
)]
pub(super) struct Unsupported(String);

impl FromStr for Workload {
    type Err = Unsupported;

    fn from_str(name: &str) -> Result<Self, Unsupported> {
        match name {
            "W1" => Ok(Workload::W1),
            "W2" => Ok(Workload::W2),
            "W3" => Ok(Workload::W3),
            "W4" => Ok(Workload::W4),
            "W4adder" => Ok(Workload::W4Adder),
            "W5" => Ok(Workload::W5),
            "W6fair" => Ok(Workload::W6Fair),
            "W6rw" => Ok(Workload::W6Rw),
            "W6sem" => Ok(Workload::W6Sem),
            "W6latch" => Ok(Workload::W6Latch),
            "W7queue" => Ok(Workload::W7Queue),
            "W7push" => Ok(Workload::W7Push),
            _ => Err(Unsupported(name.to_owned())),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Workload::W1 => "W1",
            Workload::W2 => "W2",
            Workload::W3 => "W3",
            Workload::W4 => "W4",
            Workload::W4Adder => "W4adder",
            Workload::W5 => "W5",
            Workload::W6Fair => "W6fair",
            Workload::W6Rw => "W6rw",
            Workload::W6Sem => "W6sem",
            Workload::W6Latch => "W6latch",
            Workload::W7Queue => "W7queue",
            Workload::W7Push => "W7push",
        })
    }
}

impl Job {
    /// Creates the job from command line options.
    pub(super) fn from_options(options: &BenchOptions) -> Result<Job, BoxError> {
        Ok(Job {
            workload: options.workload.parse()?,
            prefix: options.prefix.clone().unwrap_or_else(default_prefix),
            tasks: options.tasks,
            ops: options.ops,
            secs: options.secs.map(seconds).transpose()?,
            warm: options.warm.map_or(Ok(WARM), seconds)?,
            n: options.n,
            rounds: options.rounds.unwrap_or(ROUNDS),
        }
        .bounded())
    }

    /// Creates the job from the words after `JOB`. Unknown keys are ignored, because they belong to
    /// workloads of other drivers. 0 operations or seconds means no limit.
    pub(super) fn from_words(words: &str) -> Result<Job, BoxError> {
        let mut job = Job {
            workload: Workload::W1,
            prefix: default_prefix(),
            tasks: 1,
            ops: None,
            secs: None,
            warm: WARM,
            n: 1000,
            rounds: ROUNDS,
        };
        for (key, value) in words.split_whitespace().filter_map(|word| word.split_once('=')) {
            let unread = |error: &dyn fmt::Display| format!("`{key}={value}` is not understood: {error}");
            match key {
                "workload" => job.workload = value.parse()?,
                "prefix" => job.prefix = value.to_owned(),
                "tasks" => job.tasks = value.parse().map_err(|error| unread(&error))?,
                "ops" => job.ops = Some(value.parse().map_err(|error| unread(&error))?).filter(|ops| *ops > 0),
                "secs" => {
                    let secs = seconds(value.parse().map_err(|error| unread(&error))?)?;
                    job.secs = Some(secs).filter(|secs| !secs.is_zero());
                }
                "warm" => job.warm = seconds(value.parse().map_err(|error| unread(&error))?)?,
                "rounds" => job.rounds = value.parse().map_err(|error| unread(&error))?,
                "n" => job.n = value.parse().map_err(|error| unread(&error))?,
                _ => {}
            }
        }
        Ok(job.bounded())
    }

    fn bounded(mut self) -> Job {
        if self.ops.is_none() && self.secs.is_none() {
            self.secs = Some(SECS);
        }
        self
    }

    /// Returns the prefix for the warm-up. It differs from that of the measured names.
    pub(super) fn warm_prefix(&self) -> String {
        format!("{}w", self.prefix)
    }
}

/// Returns a prefix that is unique to this process.
fn default_prefix() -> String {
    format!("redgrid-bench:{}", std::process::id())
}

fn seconds(secs: f64) -> Result<Duration, BoxError> {
    if (0.0..=LONGEST).contains(&secs) {
        Ok(Duration::from_secs_f64(secs))
    } else {
        Err(format!("{secs} s is not within 0 s to {LONGEST} s").into())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_line_of_the_harness_is_understood() {
        let job = Job::from_words("workload=W2 tasks=64 secs=1.5 warm=0 prefix=bench:7 k=16").unwrap();
        assert_eq!((job.workload, job.tasks, &*job.prefix), (Workload::W2, 64, "bench:7"));
        assert_eq!((job.secs, job.ops, job.warm), (Some(Duration::from_millis(1500)), None, Duration::ZERO));
    }

    #[test]
    fn the_requested_rounds_are_run() {
        let from_options = |words: &str| {
            let cli = Cli::try_parse_from(format!("redgrid bench {words}").split_whitespace()).unwrap();
            let Command::Bench(options) = cli.command else { unreachable!("{words}") };
            Job::from_options(&options).unwrap().rounds
        };
        assert_eq!((from_options("--workload W6latch"), from_options("--workload W6latch --rounds 7")), (ROUNDS, 7));
        assert_eq!(Job::from_words("workload=W6latch rounds=7").unwrap().rounds, 7);
    }

    #[test]
    fn zero_is_no_bound_and_without_any_bound_it_is_two_seconds() {
        let job = Job::from_words("workload=W1 ops=20 secs=0").unwrap();
        assert_eq!((job.ops, job.secs), (Some(20), None));
        assert_eq!(Job::from_words("ops=0").unwrap().secs, Some(SECS));
    }

    #[test]
    fn invalid_words_are_named() {
        assert!(Job::from_words("workload=W8").unwrap_err().is::<Unsupported>());
        for (words, word) in [("tasks=many", "tasks=many"), ("secs=-1", "-1 s"), ("warm=NaN", "NaN"), ("n=", "n=")] {
            let error = Job::from_words(words).unwrap_err().to_string();
            assert!(error.contains(word), "{words}: {error}");
        }
    }
}
