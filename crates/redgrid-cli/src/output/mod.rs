//! The output of commands: tables for people, and JSON and YAML for programs.

mod json;
mod listing;
mod table;
mod yaml;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::cli::Global;
use crate::failure::Failure;

pub(crate) use self::json::to_line;
pub(crate) use self::listing::{Listing, Row};
pub(crate) use self::table::{Cell, Column, Tone, bold, paint};

/// The version of the JSON and YAML of all commands, as the README documents it. It is raised when
/// a field is removed, or gets another meaning. New fields do not raise it.
const SCHEMA: u32 = 1;

/// Options of commands that list something.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputOptions {
    /// The form of the output
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    /// The columns of the table, in this order, separated by commas
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Option<Vec<String>>,
}

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns, for people
    Table,
    /// All columns, and no cell shortened
    Wide,
    /// The names only, one on a line
    Name,
    /// One JSON document
    Json,
    /// A JSON object on each line; the same as --json
    Jsonl,
    /// One YAML document
    Yaml,
}

impl OutputOptions {
    /// Shows all columns, unless the user chose columns, or a format without a table.
    pub(crate) fn widen(&mut self, global: &Global) {
        if !global.json && self.columns.is_none() && matches!(self.output, None | Some(Format::Table)) {
            self.output = Some(Format::Wide);
        }
    }

    /// Returns the format; `None` if the user chose none.
    ///
    /// # Errors
    ///
    /// [`Failure`]: `--json` and another format are both given, or `--columns` without a table.
    pub(crate) fn format(&self, global: &Global) -> Result<Option<Format>, Failure> {
        let format = match (global.json, self.output) {
            (true, None) => Some(Format::Jsonl),
            (true, Some(format)) if !matches!(format, Format::Json | Format::Jsonl) => {
                return Err(Failure::usage("--json and --output name two formats; give one of them"));
            }
            (false, None) if self.columns.is_some() => Some(Format::Table),
            (_, output) => output,
        };
        match format {
            Some(Format::Table | Format::Wide) | None => Ok(format),
            Some(_) if self.columns.is_some() => {
                Err(Failure::usage("--columns is for tables; the other formats have all fields"))
            }
            format => Ok(format),
        }
    }
}

/// Prints one answer in a format without a table. Returns whether the output is still read.
pub(crate) fn print_document(format: Format, value: &impl Serialize) -> Result<bool, Failure> {
    match format {
        Format::Yaml => write_out(&yaml::document(&versioned(value))?),
        _ => write_out(&format!("{}\n", to_line(&versioned(value))?)),
    }
}

/// Writes a value as a line of JSON, with the version of the output's form.
pub(crate) fn print_json(value: &impl Serialize) -> Result<ExitCode, Failure> {
    print_line(&to_line(&versioned(value))?)
}

/// Writes a line of the output. A closed pipe is not an error, as with `head`.
pub(crate) fn print_line(line: &str) -> Result<ExitCode, Failure> {
    write_out(&format!("{line}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a line with styles. They are removed where the output has no colours.
pub(crate) fn print_styled(line: &str) -> Result<ExitCode, Failure> {
    write_styled(&format!("{line}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a notice to stderr, unless `--quiet` was given.
pub(crate) fn notice(global: &Global, text: &str) {
    if !global.quiet {
        // A closed stderr stops no command.
        let _ = writeln!(anstream::stderr(), "redgrid: {text}");
    }
}

/// An answer with the version of its form.
#[derive(Serialize)]
pub(crate) struct Versioned<'a, T: Serialize> {
    schema: u32,
    #[serde(flatten)]
    value: &'a T,
}

/// Adds the version of its form to an answer.
pub(crate) fn versioned<T: Serialize>(value: &T) -> Versioned<'_, T> {
    Versioned { schema: SCHEMA, value }
}

/// Writes a text to stdout as it is. Returns whether the reader still reads.
pub(crate) fn write_out(text: &str) -> Result<bool, Failure> {
    written(io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()))
}

/// Writes a text with styles to stdout. They are removed where the output has no colours.
fn write_styled(text: &str) -> Result<bool, Failure> {
    let mut stdout = anstream::stdout();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

fn written(result: io::Result<()>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::broken(format!("the output could not be written: {error}"))),
    }
}
