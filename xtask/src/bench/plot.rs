//! The pictures in docs/images, drawn from the tables of docs/internals/measurements.md.

use std::{fs, io, path::Path};

use super::{
    PAGE,
    report::{BEGIN, END},
    rows::{OURS, OURS_ON_ONE, REDISSON, ROWS},
    svg::{Bar, Chart, Color, Panel, Scale},
};
use crate::steps::Failure;

/// The folder of the pictures, relative to the workspace.
const IMAGES: &str = "docs/images";

/// Workloads, and their headings in the pictures.
type Headings = [(&'static str, &'static str)];

const UNCONTENDED: &Headings =
    &[("W1, 1 task", "1 task"), ("W1, 16 tasks", "16 tasks"), ("W1, 256 tasks", "256 tasks")];

const CONTENDED: &Headings = &[
    ("W2, 8 tasks", "8 tasks of one process"),
    ("W2, 64 tasks", "64 tasks of one process"),
    ("W3, 3 processes of 16", "3 processes of 16 tasks, with a GET and a SET in each turn"),
];

const LIBRARIES: &Headings = &[
    ("W1, 1 task", "a lock for each task, 1 task"),
    ("W1, 16 tasks", "a lock for each task, 16 tasks"),
    ("W1, 256 tasks", "a lock for each task, 256 tasks"),
    ("W2, 8 tasks", "one lock, 8 tasks"),
    ("W2, 64 tasks", "one lock, 64 tasks"),
    ("W3, 3 processes of 16", "one lock, 3 processes of 16 tasks"),
    ("W4, 10 tasks", "increments of one number, 10 tasks"),
    ("W4, 256 tasks", "increments of one number, 256 tasks"),
    ("W4 adder, 10 tasks", "additions to an adder, 10 tasks"),
    ("W6 read-write, 32 tasks", "read-write lock, 32 tasks"),
    ("W6 semaphore, 32 tasks", "semaphore of 8 permits, 32 tasks"),
    ("W6 fair, 8 tasks", "fair lock, 8 tasks"),
    ("W6 latch, 100 waiters", "rounds of a latch, 100 waiters"),
];

/// Draws all pictures from the tables of the page.
pub(super) fn write(workspace: &Path) -> Result<(), Failure> {
    let page = workspace.join(PAGE);
    let folder = workspace.join(IMAGES);
    let files = |path: &Path| {
        let path = path.to_owned();
        move |source| Failure::Files { path, source }
    };
    let text = fs::read_to_string(&page).map_err(files(&page))?;
    let no_tables = || io::Error::other(format!("it does not have the lines {BEGIN} and {END}"));
    let pictures = pictures(&text).ok_or_else(no_tables).map_err(files(&page))?;
    fs::create_dir_all(&folder).map_err(files(&folder))?;
    for (name, picture) in pictures {
        let path = folder.join(name);
        fs::write(&path, picture).map_err(files(&path))?;
    }
    Ok(())
}

/// Returns the names of the pictures and their SVG; `None` if the page has no markers around its
/// tables.
fn pictures(page: &str) -> Option<[(&'static str, String); 3]> {
    let tables = Tables::of(page)?;
    let footer = tables.origin();
    let uncontended = Chart {
        title: "Uncontended locks: pairs a second",
        note: "Each task has its own lock. A pair is an acquire and its release. The runtime has two threads or one.",
        footer,
        scale: Scale::Shared,
        panels: panels(UNCONTENDED, |workload| by_threads(&tables, workload)),
    };
    let contended = Chart {
        title: "One lock that many tasks want: turns a second",
        note: "A turn is an acquire and its release. The runtime of a process has two threads or one.",
        footer,
        scale: Scale::Shared,
        panels: panels(CONTENDED, |workload| by_threads(&tables, workload)),
    };
    let libraries = Chart {
        title: "redgrid beside other libraries: operations a second",
        note: "The bars of a workload are to scale. Each workload has a scale of its own.",
        footer,
        scale: Scale::Own,
        panels: panels(LIBRARIES, |workload| by_library(&tables, workload)),
    };
    Some([
        ("uncontended.svg", uncontended.draw()),
        ("contended.svg", contended.draw()),
        ("libraries.svg", libraries.draw()),
    ])
}

/// Returns a panel for each workload that was measured.
fn panels(headings: &Headings, bars: impl Fn(&str) -> Vec<Bar>) -> Vec<Panel> {
    let all = headings.iter().map(|&(workload, title)| Panel { title, bars: bars(workload) });
    all.filter(|panel| !panel.bars.is_empty()).collect()
}

/// Returns the rates of redgrid with two threads and with one.
fn by_threads(tables: &Tables<'_>, workload: &str) -> Vec<Bar> {
    let rates = tables.rates(workload);
    let bars = [(OURS, "two threads", Color::Ours), (OURS_ON_ONE, "one thread", Color::OursLighter)];
    let bar = |(driver, label, color)| Some(rates.iter().find(|rate| rate.driver == driver)?.bar(label, color));
    bars.into_iter().filter_map(bar).collect()
}

/// Returns the rate of redgrid, then those of the other libraries. Limit models are omitted.
fn by_library(tables: &Tables<'_>, workload: &str) -> Vec<Bar> {
    let rates = tables.rates(workload);
    let peers = ROWS.iter().find(|row| row.name == workload).map_or(&[][..], |row| row.peers);
    let ours = rates.iter().filter(|rate| rate.driver == OURS).map(|rate| rate.bar(OURS, Color::Ours));
    let others = rates.iter().filter(|rate| peers.contains(&rate.driver));
    let others = others.map(|rate| {
        let label = if rate.driver == REDISSON { "Redisson" } else { rate.driver };
        rate.bar(label, Color::Other)
    });
    ours.chain(others).collect()
}

/// The tables of the page.
struct Tables<'a> {
    text: &'a str,
}

/// The rate of a driver, from a row of a table.
struct Rate<'a> {
    driver: &'a str,
    value: f64,
    shown: &'a str,
    /// The number of wrong results.
    wrong: &'a str,
}

impl<'a> Tables<'a> {
    /// Returns the tables; `None` if the page has no markers around them.
    fn of(page: &'a str) -> Option<Self> {
        let (_, rest) = page.split_once(BEGIN)?;
        let (text, _) = rest.split_once(END)?;
        Some(Tables { text: text.trim() })
    }

    /// Returns the first sentence: the server and the number of rounds.
    fn origin(&self) -> &'a str {
        self.text.split(". ").next().unwrap_or_default()
    }

    /// Returns the rates in the table of a workload; an empty list if there is no such table.
    fn rates(&self, workload: &str) -> Vec<Rate<'a>> {
        self.table(workload).unwrap_or_default()
    }

    fn table(&self, workload: &str) -> Option<Vec<Rate<'a>>> {
        let (_, rest) = self.text.split_once(&*format!("### {workload}\n"))?;
        let mut rows = rest.trim_start().lines().take_while(|line| line.starts_with('|')).map(cells);
        let head = rows.next()?;
        let column = |name: &str| head.iter().position(|cell| *cell == name);
        let (driver, rate, wrong) = (column("driver")?, column("a second")?, column("wrong")?);
        // The row of dashes below the head has no numbers.
        let read = |row: Vec<&'a str>| {
            let shown = *row.get(rate)?;
            let wrong = row.get(wrong)?.trim_matches('*');
            Some(Rate { driver: row.get(driver)?, value: number(shown)?, shown, wrong })
        };
        Some(rows.filter_map(read).collect())
    }
}

impl Rate<'_> {
    fn bar(&self, label: &str, color: Color) -> Bar {
        let wrong = if self.wrong == "0" { String::new() } else { format!(", {} wrong", self.wrong) };
        Bar { label: label.to_owned(), value: self.value, shown: format!("{}{wrong}", self.shown), color }
    }
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

/// Reads a number in the format of `figure`.
fn number(text: &str) -> Option<f64> {
    let (digits, unit) = match text.split_once(' ') {
        Some((digits, "k")) => (digits, 1e3),
        Some((digits, "M")) => (digits, 1e6),
        Some(_) => return None,
        None => (text, 1.0),
    };
    Some(digits.parse::<f64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::{super::figure, *};

    fn workspace() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
    }

    #[test]
    fn the_pictures_show_the_tables_of_the_page() {
        let page = fs::read_to_string(workspace().join(PAGE)).unwrap();
        for (name, picture) in pictures(&page).unwrap() {
            let committed = fs::read_to_string(workspace().join(IMAGES).join(name)).unwrap_or_default();
            assert!(committed == picture, "{name} is out of date: run `cargo xtask bench --plots`");
        }
    }

    #[test]
    fn each_workload_with_other_libraries_is_in_the_picture() {
        let drawn: Vec<_> = LIBRARIES.iter().map(|(workload, _)| *workload).collect();
        let compared = ROWS.iter().filter(|row| !row.peers.is_empty());
        assert_eq!(drawn, compared.map(|row| row.name).collect::<Vec<_>>());
        let page = fs::read_to_string(workspace().join(PAGE)).unwrap();
        let tables = Tables::of(&page).unwrap();
        for (workload, _) in [UNCONTENDED, CONTENDED, LIBRARIES].concat() {
            let rates = tables.rates(workload);
            for driver in [OURS, OURS_ON_ONE, REDISSON] {
                assert!(rates.iter().any(|rate| rate.driver == driver), "{workload}: no rate of {driver}");
            }
        }
    }

    #[test]
    fn only_measured_libraries_are_drawn_and_wrong_results_are_named() {
        let page = format!(
            "{BEGIN}\n\nRedis 7.0; medians of 5 rounds. More.\n\n### W1, 1 task\n\n\
             | driver | a second | wrong |\n|---|---|---|\n| redisson | – | 0 |\n| rslock | 1.50 k | **88** |\n\
             | raw1 | 9.00 | 0 |\n| redgrid | 120 | 0 |\n\n### W2\n{END}"
        );
        let tables = Tables::of(&page).unwrap();
        assert_eq!(tables.origin(), "Redis 7.0; medians of 5 rounds");
        let bars = by_library(&tables, "W1, 1 task");
        let bars: Vec<_> = bars.iter().map(|bar| (&*bar.label, bar.value, &*bar.shown)).collect();
        assert_eq!(bars, [("redgrid", 120.0, "120"), ("rslock", 1500.0, "1.50 k, 88 wrong")]);
        assert_eq!(by_threads(&tables, "W1, 1 task").len(), 1);
        assert!(by_threads(&tables, "W2, 8 tasks").is_empty());
        assert!(pictures("no tables").is_none());
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for value in [0.25, 80.1, 4074.0, 29_100.0, 1_510_000.0] {
            let read = number(&figure(Some(value))).unwrap();
            assert!((read - value).abs() < value * 1e-9, "{value} became {read}");
        }
        assert_eq!((number(&figure(None)), number("---"), number("1 s")), (None, None, None));
    }
}
