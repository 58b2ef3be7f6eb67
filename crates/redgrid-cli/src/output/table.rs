//! Tables for people: aligned columns, and colours on a terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The space between two columns.
const GAP: usize = 2;

/// The width below which no cell is shortened.
const MIN_WIDTH: usize = 8;

/// A column of a table of `R`.
pub(crate) struct Column<R> {
    /// The name for `--columns`. In upper case, it is the heading.
    pub(crate) name: &'static str,
    /// Whether it is shown only with `-o wide` or `--columns`.
    pub(crate) is_wide: bool,
    /// Returns the cell of a row.
    pub(crate) cell: fn(&R) -> Cell,
}

impl<R> Column<R> {
    /// Creates a column that is always shown.
    pub(crate) const fn new(name: &'static str, cell: fn(&R) -> Cell) -> Self {
        Column { name, is_wide: false, cell }
    }

    /// Creates a column that is shown with `-o wide` or `--columns`.
    pub(crate) const fn wide(name: &'static str, cell: fn(&R) -> Cell) -> Self {
        Column { name, is_wide: true, cell }
    }
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

/// The meaning of a colour, in addition to the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing.
    Plain,
    /// As it should be.
    Good,
    /// To consider.
    Doubtful,
    /// To correct.
    Bad,
}

impl Cell {
    /// Creates a cell. The text is printable.
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Cell { text: text.into(), tone }
    }

    /// Creates a cell with a number; an empty one for `None`.
    pub(crate) fn number(number: impl Into<Option<u64>>) -> Self {
        Cell::from(number.into().map(|number| number.to_string()))
    }
}

impl<T: Into<String>> From<Option<T>> for Cell {
    fn from(text: Option<T>) -> Self {
        Cell::new(text.map(Into::into).unwrap_or_default(), Tone::Plain)
    }
}

impl From<Cow<'_, str>> for Cell {
    fn from(text: Cow<'_, str>) -> Self {
        Cell::new(text, Tone::Plain)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::new(text, Tone::Plain)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::new(text, Tone::Plain)
    }
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Tone::Plain => Style::new(),
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Doubtful => AnsiColor::Yellow.on_default(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// Returns the text in the colour of a tone. The style is removed where the output has no colours.
pub(crate) fn paint(text: &str, tone: Tone) -> String {
    let style = tone.style();
    format!("{style}{text}{style:#}")
}

/// Returns the text in bold. The style is removed where the output has no colours.
pub(crate) fn bold(text: &str, tone: Tone) -> String {
    let style = tone.style().bold();
    format!("{style}{text}{style:#}")
}

/// The widths of columns. They only grow, so that rows that are printed in several parts stay
/// aligned as far as possible.
#[derive(Debug, Default)]
pub(crate) struct Widths {
    columns: Vec<usize>,
    /// The width of the terminal, if cells are to be shortened to it.
    limit: Option<usize>,
}

impl Widths {
    /// Creates the widths of a table below this heading. With `fits`, cells are shortened so that a
    /// row fits on the terminal.
    pub(crate) fn of(heading: &[String], fits: bool) -> Self {
        let limit = if fits { terminal_width() } else { None };
        Widths { columns: heading.iter().map(|cell| cell.width()).collect(), limit }
    }

    /// Widens the columns for these rows, within the limit.
    pub(crate) fn include(&mut self, rows: &[Vec<Cell>]) {
        for row in rows {
            for (width, cell) in self.columns.iter_mut().zip(row) {
                *width = (*width).max(cell.text.width());
            }
        }
        let Some(limit) = self.limit else { return };
        let gaps = GAP * self.columns.len().saturating_sub(1);
        loop {
            let excess = (self.columns.iter().sum::<usize>() + gaps).saturating_sub(limit);
            let Some(widest) = self.columns.iter_mut().max().filter(|widest| **widest > MIN_WIDTH) else { return };
            if excess == 0 {
                return;
            }
            // One by one, so that two long columns are shortened alike.
            *widest -= 1;
        }
    }

    /// Formats the heading.
    pub(crate) fn heading(&self, heading: &[String]) -> String {
        let cells: Vec<Cell> = heading.iter().map(|text| Cell::from(text.as_str())).collect();
        bold(&self.line(&cells), Tone::Plain)
    }

    /// Formats a row.
    pub(crate) fn line(&self, row: &[Cell]) -> String {
        let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&self.columns).take(last + 1).enumerate() {
            let text = if self.limit.is_some() { shortened(&cell.text, *width) } else { Cow::from(&cell.text) };
            line.push_str(&paint(&text, cell.tone));
            if at < last {
                line.push_str(&" ".repeat(width.saturating_sub(text.width()) + GAP));
            }
        }
        line
    }
}

/// Returns the text, or its beginning with `…` if it is wider than `width`.
fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut short = String::new();
    let mut left = width.saturating_sub(1);
    for character in text.chars() {
        let wide = character.width().unwrap_or_default();
        if wide > left {
            break;
        }
        left -= wide;
        short.push(character);
    }
    Cow::Owned(short + "…")
}

/// Returns the width of the terminal on stdout; `None` if there is none.
fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    let (width, _) = stdout.is_terminal().then(|| terminal_size::terminal_size_of(stdout)).flatten()?;
    // Some terminals report no width.
    Some(usize::from(width.0)).filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(heading: &[&str], rows: &[&[&str]], limit: Option<usize>) -> Vec<String> {
        let heading: Vec<String> = heading.iter().map(|text| (*text).to_owned()).collect();
        let rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.iter().map(|text| Cell::from(*text)).collect()).collect();
        let mut widths = Widths { limit, ..Widths::of(&heading, false) };
        widths.include(&rows);
        let cells: Vec<Cell> = heading.into_iter().map(Cell::from).collect();
        std::iter::once(&cells).chain(&rows).map(|row| widths.line(row)).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_longest_cell_on_a_terminal() {
        let rows = lines(&["ID", "N", "M"], &[&["中文", "1", "x"], &["a", "", "y"], &["longer", "", ""]], None);
        assert_eq!(rows, ["ID      N  M", "中文    1  x", "a          y", "longer"]);
    }

    #[test]
    fn cells_are_shortened_to_a_terminal_and_nowhere_else() {
        let long = "x".repeat(30);
        assert_eq!(lines(&["NAME", "KIND"], &[&[&long, "lock"]], Some(20))[1], format!("{}…  lock", "x".repeat(13)));
        assert_eq!(lines(&["NAME", "KIND"], &[&[&long, "lock"]], None)[1], format!("{long}  lock"));
        assert_eq!((shortened("中文字", 5), shortened("ab", 2)), ("中文…".into(), "ab".into()));
    }

    #[test]
    fn a_colour_is_never_the_only_sign() {
        let widths = Widths::of(&["STATE".into()], false);
        assert_eq!(widths.line(&[Cell::new("gone", Tone::Bad)]), "\u{1b}[1m\u{1b}[31mgone\u{1b}[0m");
        assert_eq!(widths.line(&[Cell::new("gone", Tone::Plain)]), "gone");
    }
}
