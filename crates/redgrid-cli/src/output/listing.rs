//! A list of objects in the format that the user chose.

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::table::{Cell, Column, Widths};
use super::{Format, OutputOptions, SCHEMA, to_line, versioned, write_out, write_styled, yaml};
use crate::cli::Global;
use crate::failure::Failure;
use crate::text::printable;

/// The most rows of a table that are aligned together.
const MAX_ALIGNED: usize = 500;

/// How long a row of a table waits for others, to be aligned with them.
const MAX_DELAY: Duration = Duration::from_millis(500);

/// A row of a list. Its fields are those of its JSON, in their order.
pub(crate) trait Row: Serialize + Sized + 'static {
    /// All columns of a table.
    const COLUMNS: &'static [Column<Self>];

    /// Returns the name for `-o name`.
    fn name(&self) -> String;
}

/// Prints rows as they come.
pub(crate) struct Listing<R: Row> {
    format: Format,
    columns: Vec<&'static Column<R>>,
    widths: Widths,
    /// Rows of a table that are not printed yet.
    pending: Vec<Vec<Cell>>,
    /// When they are printed at the latest.
    due: Option<Instant>,
    rows: u64,
    has_heading: bool,
    is_closed: bool,
}

impl<R: Row> Listing<R> {
    /// Creates an empty list.
    ///
    /// # Errors
    ///
    /// [`Failure`]: the options contradict each other, or name unknown columns.
    pub(crate) fn new(global: &Global, options: &OutputOptions) -> Result<Self, Failure> {
        let format = options.format(global)?.unwrap_or(Format::Table);
        let columns = match &options.columns {
            Some(names) => names.iter().map(|name| column(name)).collect::<Result<Vec<_>, _>>()?,
            None => R::COLUMNS.iter().filter(|column| format == Format::Wide || !column.is_wide).collect(),
        };
        let mut listing = Listing {
            format,
            columns,
            widths: Widths::default(),
            pending: Vec::new(),
            due: None,
            rows: 0,
            has_heading: false,
            is_closed: false,
        };
        listing.widths = Widths::of(&listing.heading(), format == Format::Table);
        Ok(listing)
    }

    /// Adds a row. It is printed at once, except for a row of a table: that one waits for others
    /// until [`due`](Self::due).
    pub(crate) fn push(&mut self, row: &R) -> Result<(), Failure> {
        let text = match self.format {
            Format::Table | Format::Wide => {
                self.pending.push(self.columns.iter().map(|column| (column.cell)(row)).collect());
                self.due.get_or_insert_with(|| Instant::now() + MAX_DELAY);
                if self.pending.len() >= MAX_ALIGNED {
                    self.flush()?;
                }
                return Ok(());
            }
            Format::Name => format!("{}\n", printable(&row.name())),
            Format::Jsonl => format!("{}\n", to_line(&versioned(row))?),
            Format::Json if self.rows == 0 => format!("{}{}", json_head(), to_line(row)?),
            Format::Json => format!(",{}", to_line(row)?),
            Format::Yaml if self.rows == 0 => format!("schema: {SCHEMA}\nitems:\n{}", yaml::element(row)?),
            Format::Yaml => yaml::element(row)?,
        };
        self.rows += 1;
        self.write(&text)
    }

    /// Returns when the rows that wait are to be printed; `None` if none waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Prints the rows that wait.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let rows = std::mem::take(&mut self.pending);
        self.due = None;
        if rows.is_empty() {
            return Ok(());
        }
        self.widths.include(&rows);
        let mut text = String::new();
        if !std::mem::replace(&mut self.has_heading, true) {
            text.push_str(&self.widths.heading(&self.heading()));
            text.push('\n');
        }
        for row in &rows {
            self.rows += 1;
            text.push_str(&self.widths.line(row));
            text.push('\n');
        }
        self.is_closed |= !write_styled(&text)?;
        Ok(())
    }

    /// Returns whether the output is closed, as after `head` has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Prints the rest. Returns the number of rows.
    pub(crate) fn finish(mut self) -> Result<u64, Failure> {
        self.flush()?;
        match self.format {
            Format::Json if self.rows == 0 => self.write(&format!("{}]}}\n", json_head()))?,
            Format::Json => self.write("]}\n")?,
            Format::Yaml if self.rows == 0 => self.write(&format!("schema: {SCHEMA}\nitems: []\n"))?,
            _ => {}
        }
        Ok(self.rows)
    }

    /// Ends the list, and returns the number of rows. If the reading has failed, prints the rows
    /// that were found, and returns its failure.
    pub(crate) fn end(mut self, read: Result<(), Failure>) -> Result<u64, Failure> {
        match read {
            Ok(()) => self.finish(),
            Err(failure) => {
                self.flush()?;
                Err(failure)
            }
        }
    }

    fn heading(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.to_uppercase()).collect()
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.is_closed |= !write_out(text)?;
        Ok(())
    }
}

fn json_head() -> String {
    format!("{{\"schema\":{SCHEMA},\"items\":[")
}

/// Finds a column by its name.
fn column<R: Row>(name: &str) -> Result<&'static Column<R>, Failure> {
    let found = R::COLUMNS.iter().find(|column| column.name.eq_ignore_ascii_case(name.trim()));
    found.ok_or_else(|| {
        let known: Vec<_> = R::COLUMNS.iter().map(|column| column.name).collect();
        Failure::usage(format!("there is no column `{}`; expected some of {}", printable(name), known.join(", ")))
    })
}
