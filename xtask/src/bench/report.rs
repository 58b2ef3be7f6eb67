//! The measurements as tables: first goals and results, then every driver.

use std::{fmt, path::Path};

use super::{
    held::{self, Held},
    rows::{OURS, OURS_ON_ONE, REDISSON, Row},
    section::{Sample, Section, median},
};
use crate::{measured::put_between, steps::Failure};

/// The measurements of a driver for one row of the benchmark.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    pub(super) driver: &'static str,
    /// One entry for each round; `None` for a round that did not complete.
    pub(super) rounds: Vec<Option<Section>>,
    pub(super) sample: Option<Sample>,
}

/// The tables are between these lines of docs/internals/measurements.md.
pub(super) const BEGIN: &str = "<!-- measured: begin -->";
pub(super) const END: &str = "<!-- measured: end -->";

/// All measurements.
#[derive(Debug)]
pub(super) struct Report {
    server: String,
    rounds: u32,
    rows: Vec<(&'static Row, Vec<Measured>)>,
    pub(super) held: Vec<Held>,
}

impl Report {
    pub(super) fn new(server: String, rounds: u32) -> Self {
        Report { server, rounds, rows: Vec::new(), held: Vec::new() }
    }

    pub(super) fn add(&mut self, row: &'static Row, measured: Vec<Measured>) {
        self.rows.push((row, measured));
    }

    /// Whether our drivers had no errors.
    pub(super) fn is_clean(&self) -> bool {
        self.rows
            .iter()
            .flat_map(|(_, measured)| rounds(measured, OURS).iter().chain(rounds(measured, OURS_ON_ONE)))
            .flatten()
            .all(|section| section.wrong() == 0.0)
    }

    /// Writes the tables into the page, between its two lines.
    pub(super) fn write(&self, page: &Path) -> Result<(), Failure> {
        put_between(page, (BEGIN, END), &self.to_string())
    }
}

/// Returns the median of the ratios of two drivers in the same rounds.
fn ratio(of: &[Option<Section>], to: &[Option<Section>]) -> Option<f64> {
    let both = of.iter().zip(to).filter_map(|(of, to)| of.as_ref().zip(to.as_ref()));
    median(both.filter(|(_, to)| to.rate > 0.0).map(|(of, to)| of.rate / to.rate).collect())
}

fn rounds<'a>(measured: &'a [Measured], name: &str) -> &'a [Option<Section>] {
    measured.iter().find(|one| one.driver == name).map_or(&[], |one| &one.rounds)
}

fn median_of(rounds: &[Option<Section>], of: impl Fn(&Section) -> Option<f64>) -> Option<f64> {
    median(rounds.iter().flatten().filter_map(of).collect())
}

/// Formats a number with about three digits; a dash if there is none.
pub(crate) fn figure(number: Option<f64>) -> String {
    match number {
        None => "–".to_owned(),
        Some(number) if number.abs() >= 1e6 => format!("{:.2} M", number / 1e6),
        Some(number) if number.abs() >= 1e4 => format!("{:.1} k", number / 1e3),
        Some(number) if number.abs() >= 100.0 => format!("{number:.0}"),
        Some(number) if number.abs() >= 10.0 => format!("{number:.1}"),
        Some(number) => format!("{number:.2}"),
    }
}

/// Compares a result with a goal, which is a minimum or a maximum. A result that misses its goal is
/// marked with †.
fn compare(reached: Option<f64>, goal: Option<f64>, is_good: impl Fn(f64, f64) -> bool, sign: &str) -> String {
    match (reached, goal) {
        (Some(reached), Some(goal)) => {
            let verdict = if is_good(reached, goal) { "" } else { " †" };
            format!("{} ({sign} {goal}){verdict}", figure(Some(reached)))
        }
        (reached, _) => figure(reached),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Redis {}; medians of {} rounds, each driver in turn. † marks a goal that is not reached.\n",
            self.server, self.rounds
        )?;
        writeln!(
            f,
            "| workload | driver | × Redisson | the limit model × Redisson | × the limit model | × the best library | spread | p99 |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        for (row, measured) in &self.rows {
            for ours in [OURS, OURS_ON_ONE].map(|name| (name, rounds(measured, name))) {
                if !ours.1.is_empty() {
                    writeln!(f, "{}", goals(row, measured, ours))?;
                }
            }
        }
        for (row, measured) in &self.rows {
            writeln!(f, "\n### {}\n", row.name)?;
            writeln!(
                f,
                "| driver | a second | × ours | p50 µs | p99 µs | spread | sent + inside | bytes | script µs | server µs | client µs | allocations | wrong |"
            )?;
            writeln!(f, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")?;
            for one in measured {
                writeln!(f, "{}", driver(one, rounds(measured, OURS)))?;
            }
        }
        if !self.held.is_empty() {
            write!(f, "{}", self::held(&self.held))?;
        }
        Ok(())
    }
}

fn goals(row: &Row, measured: &[Measured], (name, ours): (&str, &[Option<Section>])) -> String {
    let at_least = |reached: f64, goal: f64| reached >= goal;
    let at_most = |reached: f64, goal: f64| reached <= goal;
    let redisson = compare(ratio(ours, rounds(measured, REDISSON)), row.goals.0, at_least, "≥");
    let model = row.models.first().copied().unwrap_or_default();
    let theirs = figure(ratio(rounds(measured, model), rounds(measured, REDISSON)));
    let limit = compare(ratio(ours, rounds(measured, model)), row.goals.1, at_least, "≥");
    let best = row.peers.iter().filter_map(|peer| Some((ratio(ours, rounds(measured, peer))?, peer)));
    let best = best.min_by(|one, other| one.0.total_cmp(&other.0));
    let best = best
        .map_or("–".to_owned(), |(ratio, peer)| format!("{} {peer}", compare(Some(ratio), Some(1.0), at_least, "≥")));
    let spread = compare(median_of(ours, |section| section.spread), row.bounds.spread, at_most, "≤");
    let p99 = compare(median_of(ours, |section| Some(section.p99 / 1000.0)), row.bounds.p99_ms, at_most, "≤");
    format!("| {} | {name} | {redisson} | {theirs} | {limit} {model} | {best} | {spread} | {p99} ms |", row.name)
}

fn driver(measured: &Measured, ours: &[Option<Section>]) -> String {
    let Measured { driver, rounds, sample } = measured;
    let of = |value: fn(&Section) -> Option<f64>| figure(median_of(rounds, value));
    let wrong: f64 = rounds.iter().flatten().map(Section::wrong).sum();
    let cells = [
        of(|section| Some(section.rate)),
        figure(ratio(rounds, ours)),
        of(|section| Some(section.p50)),
        of(|section| Some(section.p99)),
        of(|section| section.spread),
        sample.map_or("–".to_owned(), |sample| format!("{:.2} + {:.2}", sample.sent, sample.inside)),
        of(|section| Some(section.bytes)),
        of(|section| Some(section.scripts)),
        of(|section| Some(section.server_cpu)),
        of(|section| section.client_cpu),
        figure(sample.and_then(|sample| sample.allocations)),
        if wrong == 0.0 { "0".to_owned() } else { format!("**{wrong}**") },
    ];
    format!("| {driver} | {} |", cells.join(" | "))
}

fn held(rows: &[Held]) -> String {
    let mut text = "\n### W5, 10,000 locks held\n\n".to_owned();
    text += "| driver | still held | client, CPU s a minute | server, CPU s a minute | commands a second | memory a lock, B | acquired in s |\n";
    text += "|---|---|---|---|---|---|---|\n";
    let at_most = |reached: f64, goal: f64| reached <= goal;
    for row in rows {
        let goals = if row.driver == OURS { (Some(held::GOALS.0), Some(held::GOALS.1)) } else { (None, None) };
        text += &format!(
            "| {}{} | {} | {} | {} | {} | {} | {} |\n",
            row.driver,
            if row.burst { ", after a burst" } else { "" },
            row.left,
            compare(Some(row.client_cpu), goals.0, at_most, "≤"),
            figure(Some(row.server_cpu)),
            figure(Some(row.commands)),
            compare(Some(row.memory), goals.1, at_most, "≤"),
            figure(Some(row.acquired_in)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{super::rows::ROWS, *};

    fn rated(rate: f64) -> Option<Section> {
        Some(Section { rate, ..Section::default() })
    }

    fn of(driver: &'static str, section: Option<Section>) -> Measured {
        Measured { driver, rounds: vec![section], sample: None }
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let ours = [rated(10.0), rated(100.0), rated(30.0)];
        assert_eq!(ratio(&ours, &[rated(5.0), rated(10.0), rated(10.0)]), Some(3.0));
        assert_eq!(ratio(&ours, &[None, rated(10.0), None]), Some(10.0), "what did not come to its end is left out");
        assert_eq!(ratio(&ours, &[]), None);
    }

    #[test]
    fn a_goal_that_is_not_reached_is_marked() {
        let row = &ROWS[0];
        let measured = [(REDISSON, 10.0), ("rslock", 90.0), ("raw1", 40.0), (OURS, 50.0), (OURS_ON_ONE, 30.0)]
            .map(|(name, rate)| of(name, rated(rate)));
        let line = |name: &str| goals(row, &measured, (name, rounds(&measured, name)));
        let two = "| redgrid | 5.00 (≥ 2.4) | 4.00 | 1.25 (≥ 0.8) raw1 | 0.56 (≥ 1) † rslock |";
        assert!(line(OURS).contains(two), "{}", line(OURS));
        let one = "| redgrid-ct | 3.00 (≥ 2.4) | 4.00 | 0.75 (≥ 0.8) † raw1 | 0.33 (≥ 1) † rslock |";
        assert!(line(OURS_ON_ONE).contains(one), "{}", line(OURS_ON_ONE));
    }

    #[test]
    fn our_errors_are_not_overlooked() {
        let mut report = Report::new("7.0".into(), 1);
        report.add(&ROWS[0], vec![of("fred", Some(Section { errors: 1.0, ..Section::default() })), of(OURS, None)]);
        assert!(report.is_clean());
        report.add(&ROWS[1], vec![of(OURS, Some(Section { stuck: 1.0, ..Section::default() }))]);
        assert!(!report.is_clean());
    }

    #[test]
    fn the_tables_go_between_the_lines_of_the_page() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("measurements.md");
        let report = Report::new("7.0".into(), 1);
        std::fs::write(&page, format!("head\n{BEGIN}\nold\n{END}\ntail\n")).unwrap();
        report.write(&page).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(
            text.starts_with("head\n")
                && text.ends_with("\ntail\n")
                && !text.contains("old")
                && text.contains("Redis 7.0"),
            "{text}"
        );
        std::fs::write(&page, "no lines").unwrap();
        assert!(report.write(&page).unwrap_err().to_string().contains(BEGIN));
    }
}
