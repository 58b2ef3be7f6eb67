//! Tracks which test programs have ended, and which are running.

use std::time::Duration;

use crate::suite::Counts;

/// The state of a run of all test programs.
#[derive(Debug)]
pub(crate) struct Progress {
    total: usize,
    ended: usize,
    /// The names of the programs that are running, in the order of their starts.
    running: Vec<String>,
}

impl Progress {
    pub(crate) fn of(total: usize) -> Self {
        Progress { total, ended: 0, running: Vec::new() }
    }

    pub(crate) fn began(&mut self, name: String) {
        self.running.push(name);
    }

    /// Returns the line about a program that has ended.
    pub(crate) fn ended(&mut self, name: &str, counts: &Counts, took: Duration) -> String {
        self.ended += 1;
        self.running.retain(|running| running != name);
        let still = if self.running.is_empty() { String::new() } else { format!("; {}", self.still_running()) };
        format!("{} {name}: {counts} in {:.0} s{still}", self.position(), took.as_secs_f64())
    }

    /// Returns the line that is printed when no program has ended for some time.
    pub(crate) fn waiting(&self, since: Duration) -> String {
        format!("{} after {} min {}", self.position(), since.as_secs() / 60, self.still_running())
    }

    fn position(&self) -> String {
        format!("[{}/{}]", self.ended, self.total)
    }

    fn still_running(&self) -> String {
        format!("still running: {}", self.running.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_says_how_many_have_ended_and_which_are_running() {
        let mut progress = Progress::of(3);
        for name in ["tests behaviour", "tests topologies", "models one_level"] {
            progress.began(name.into());
        }
        let counts = Counts { passed: 300, ..Counts::default() };
        assert_eq!(
            progress.ended("tests behaviour", &counts, Duration::from_millis(210_400)),
            "[1/3] tests behaviour: 300 passed, 0 failed, 0 skipped in 210 s; still running: tests topologies, models \
             one_level"
        );
        progress.ended("models one_level", &counts, Duration::ZERO);
        assert_eq!(progress.waiting(Duration::from_secs(330)), "[2/3] after 5 min still running: tests topologies");
        let last = Counts { failed: 1, skipped: 2, ..Counts::default() };
        assert_eq!(
            progress.ended("tests topologies", &last, Duration::from_secs(400)),
            "[3/3] tests topologies: 0 passed, 1 failed, 2 skipped in 400 s"
        );
    }
}
