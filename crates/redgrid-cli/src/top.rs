//! `redgrid top`: the locks that are held and waited for, again and again.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use redgrid_inspect::{ClientReport, Inspector};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::Global;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::output::{
    Cell, Column, Format, Listing, OutputOptions, Row, Tone, bold, print_document, print_line, print_styled, write_out,
};
use crate::server::{Reach, Server};
use crate::text::{printable, time_text};

/// The end of `redgrid top --help`.
pub(crate) const HELP: &str = "\
The numbers are those that the connected clients of redgrid report, at most 50 clients a second. Holders of Redisson,
and of clients that do not answer, are not among them; `redgrid ls` lists these. The names with most waiting tasks come
first, then those that were held for longest.

Columns: name, kind, held, held-for, waiting, longest; with -o wide also label. `longest` is the longest wait of a task
that waits now. On a terminal the table is refreshed; elsewhere a table or a line of JSON follows the other.";

/// The shortest time between two tables. A client answers at most once a second.
const SHORTEST: Duration = Duration::from_secs(1);

/// Lines on a terminal besides the rows: the summary, the heading, and the cursor's.
const OTHER_LINES: usize = 4;

/// Moves the cursor to the beginning of the screen, and clears it.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

/// Options of `redgrid top`.
#[derive(Debug, Args)]
pub(crate) struct TopOptions {
    /// Print one table, and end
    #[arg(long)]
    once: bool,
    /// End after this long; without it, on a signal
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration, conflicts_with = "once")]
    long: Option<Duration>,
    /// Time between two tables; at least 1s
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "2s")]
    every: Duration,
    /// The most names in a table
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rows: u16,
    /// How long a client may take to answer
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "2500ms")]
    answer_timeout: Duration,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    reach: Reach,
}

/// The reports of the clients, added up. The fields are those of its JSON, in their order.
#[derive(Debug, Default, Serialize)]
struct Snapshot {
    at: String,
    clients: u64,
    silent: u64,
    /// Whether all clients are known, and all of them reported everything.
    complete: bool,
    held: u64,
    waiting: u64,
    locks: Vec<Listed>,
    /// Names that are left out.
    more: u64,
}

/// A name that is held or waited for. The fields are those of its JSON, in their order.
#[derive(Debug, Default, Serialize)]
struct Listed {
    name: String,
    kind: String,
    /// Holds of tasks; for semaphores, permits.
    held: u64,
    held_for_ms: Option<u64>,
    waiting: u64,
    longest_ms: Option<u64>,
    /// The label of the longest hold that has one.
    label: Option<String>,
}

/// Runs `redgrid top`.
pub(crate) async fn run(global: &Global, options: &TopOptions) -> Result<ExitCode, Failure> {
    // Wrong options are reported before the first snapshot.
    Listing::<Listed>::new(global, &options.output)?;
    let format = options.output.format(global)?.unwrap_or(Format::Table);
    let ending = Ending::listen()?;
    let server = Server::reach(global, &options.reach).await?;
    let ended = ending.run(options.long, refresh(global, &server, options, format)).await;
    server.leave().await;
    ended.map(|()| ExitCode::SUCCESS)
}

/// Prints snapshots until the output is closed; with `--once`, one.
async fn refresh(global: &Global, server: &Server, options: &TopOptions, format: Format) -> Result<(), Failure> {
    let inspector = Inspector::new(server.grid.client());
    let is_screen = !options.once && is_screen() && matches!(format, Format::Table | Format::Wide);
    let mut tick = interval(options.every.max(SHORTEST));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_first = true;
    loop {
        tick.tick().await;
        let rows = if is_screen { rows_on_screen(options.rows) } else { options.rows.into() };
        let snapshot = Snapshot::take(server, &inspector, options.answer_timeout, rows).await?;
        let is_open = match format {
            Format::Table | Format::Wide => {
                if is_screen {
                    write_out(CLEAR)?;
                } else if !is_first {
                    print_line("")?;
                }
                snapshot.print(global, options)?
            }
            Format::Name => snapshot.list(global, options)?,
            Format::Yaml => write_out("---\n")? && print_document(format, &snapshot)?,
            Format::Json | Format::Jsonl => print_document(format, &snapshot)?,
        };
        is_first = false;
        if options.once || !is_open {
            return Ok(());
        }
    }
}

/// Returns whether stdout is a terminal with a cursor that can be moved.
fn is_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdout().is_terminal() && !is_dumb
}

fn rows_on_screen(most: u16) -> usize {
    let height = terminal_size::terminal_size_of(io::stdout()).map(|(_, height)| usize::from(height.0));
    let fits = height.map_or(usize::MAX, |height| height.saturating_sub(OTHER_LINES).max(1));
    usize::from(most).min(fits)
}

impl Snapshot {
    /// Asks all connected clients.
    async fn take(
        server: &Server,
        inspector: &Inspector,
        answer_timeout: Duration,
        rows: usize,
    ) -> Result<Self, Failure> {
        let living = inspector.living_clients().await.map_err(|error| server.failed(&error))?;
        let own = server.grid.client().id();
        let ids: Vec<String> = living.ids.into_iter().filter(|id| id != own).collect();
        let answers = inspector.ask(&ids, answer_timeout).await.map_err(|error| server.failed(&error))?;
        let reports = answers.into_iter().map(|answer| (answer.id, answer.report));
        let mut snapshot = Snapshot::of(reports, rows);
        snapshot.complete &= living.is_complete;
        snapshot.at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        Ok(snapshot)
    }

    /// Adds the reports of clients up, and keeps the first `rows` names.
    fn of(reports: impl IntoIterator<Item = (String, Option<ClientReport>)>, rows: usize) -> Self {
        let mut snapshot = Snapshot { complete: true, ..Snapshot::default() };
        let mut locks: BTreeMap<(String, String), Listed> = BTreeMap::new();
        for (id, report) in reports {
            snapshot.clients += 1;
            let Some(report) = report else {
                snapshot.silent += 1;
                continue;
            };
            snapshot.complete &= !report.is_truncated;
            snapshot.held = snapshot.held.saturating_add(report.holds);
            snapshot.waiting = snapshot.waiting.saturating_add(report.waiting);
            // The names of a client of another namespace have that namespace, as its id has.
            let namespace = id.strip_suffix(&report.id).unwrap_or_default();
            for held in &report.held {
                let lock = entry(&mut locks, namespace, &held.name, &held.kind);
                lock.held = lock.held.saturating_add(1);
                if Some(held.held_for_ms) > lock.held_for_ms {
                    lock.held_for_ms = Some(held.held_for_ms);
                    lock.label = held.label.clone().or(lock.label.take());
                }
            }
            for wait in &report.waits {
                let lock = entry(&mut locks, namespace, &wait.name, &wait.kind);
                lock.waiting = lock.waiting.saturating_add(wait.tasks);
                lock.longest_ms = lock.longest_ms.max(Some(wait.longest_ms));
            }
        }
        snapshot.locks = locks.into_values().collect();
        // The sort is stable: names that are alike stay in the order of their names.
        snapshot.locks.sort_by_key(|lock| Reverse((lock.waiting, lock.longest_ms, lock.held_for_ms)));
        snapshot.more = snapshot.locks.len().saturating_sub(rows) as u64;
        snapshot.locks.truncate(rows);
        snapshot
    }

    /// Prints a summary and a table. Returns whether the output is still read.
    fn print(&self, global: &Global, options: &TopOptions) -> Result<bool, Failure> {
        let silent = if self.silent > 0 { format!(" ({} silent)", self.silent) } else { String::new() };
        let part = if self.complete { "" } else { "; these are not all" };
        let Snapshot { at, clients, held, waiting, .. } = self;
        print_styled(&bold(
            &format!("{at}  {clients} clients{silent}, {held} held, {waiting} waiting{part}"),
            Tone::Plain,
        ))?;
        let is_open = self.list(global, options)?;
        if self.more > 0 {
            print_line(&format!("and {} more", self.more))?;
        }
        Ok(is_open)
    }

    /// Prints the names in a format of lists. Returns whether the output is still read.
    fn list(&self, global: &Global, options: &TopOptions) -> Result<bool, Failure> {
        let mut listing = Listing::new(global, &options.output)?;
        for lock in &self.locks {
            listing.push(lock)?;
        }
        listing.flush()?;
        let is_open = !listing.is_closed();
        listing.finish()?;
        Ok(is_open)
    }
}

/// Returns the sums of a name.
fn entry<'a>(
    locks: &'a mut BTreeMap<(String, String), Listed>,
    namespace: &str,
    name: &str,
    kind: &str,
) -> &'a mut Listed {
    let name = format!("{namespace}{name}");
    let new = Listed { name: name.clone(), kind: kind.to_owned(), ..Listed::default() };
    locks.entry((name, kind.to_owned())).or_insert(new)
}

impl Row for Listed {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("name", |row| printable(&row.name).into()),
        Column::new("kind", |row| printable(&row.kind).into()),
        Column::new("held", |row| Cell::number(row.held)),
        Column::new("held-for", |row| row.held_for_ms.map(time_text).into()),
        Column::new("waiting", |row| {
            Cell::new(row.waiting.to_string(), if row.waiting > 0 { Tone::Doubtful } else { Tone::Plain })
        }),
        Column::new("longest", |row| row.longest_ms.map(time_text).into()),
        Column::wide("label", |row| row.label.as_deref().map(printable).into()),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(id: &str, report: serde_json::Value) -> (String, Option<ClientReport>) {
        (id.into(), Some(serde_json::from_value(report).unwrap()))
    }

    #[test]
    fn reports_are_added_up_and_the_longest_queues_come_first() {
        let one = json!({ "id": "1", "holds": 2, "waiting": 1,
            "held": [
                { "name": "a", "kind": "lock", "held_for_ms": 5, "label": "nightly" },
                { "name": "b", "kind": "lock", "held_for_ms": 9 },
            ],
            "waits": [{ "name": "c", "kind": "lock", "tasks": 1, "longest_ms": 70 }] });
        let two = json!({ "id": "2", "holds": 1, "waiting": 18_446_744_073_709_551_615_u64, "is_truncated": true,
            "held": [{ "name": "a", "kind": "lock", "held_for_ms": 7 }],
            "waits": [{ "name": "c", "kind": "lock", "tasks": 2, "longest_ms": 30 }] });
        let snapshot = Snapshot::of([report("1", one), report("prod:2", two), ("3".into(), None)], 3);
        let names: Vec<_> = snapshot.locks.iter().map(|lock| lock.name.as_str()).collect();
        assert_eq!(names, ["prod:c", "c", "b"]);
        assert_eq!((snapshot.clients, snapshot.silent, snapshot.held, snapshot.more), (3, 1, 3, 2));
        assert_eq!((snapshot.waiting, snapshot.complete), (u64::MAX, false));
    }
}
