//! Text for people: names, holders, times, and tables.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use redgrid_inspect::ClientReport;

/// Returns a text in which characters that change the terminal or the order of the text are
/// escaped, as `\u{202e}`.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            escaped.extend(character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Returns whether a character controls the terminal, sets the direction of text, or is invisible.
fn is_hidden(character: char) -> bool {
    let is_mark = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
    character.is_control() || is_mark || matches!(character, '\u{61c}' | '\u{feff}')
}

/// Formats a holder.
pub(crate) fn holder_text(client: &str, number: Option<u64>) -> String {
    number.map_or_else(|| client.to_owned(), |number| format!("client {client}, number {number}"))
}

/// Formats the rest of a lease.
pub(crate) fn lease_text(millis: Option<u64>) -> String {
    millis.map_or_else(|| "without an end".into(), |millis| format!("{} left", time_text(millis)))
}

/// Formats a time.
pub(crate) fn time_text(millis: u64) -> String {
    humantime::format_duration(Duration::from_millis(millis)).to_string()
}

/// Formats the process of a client: `worker (pid 42) on web-1`.
pub(crate) fn process_text(report: &ClientReport) -> String {
    let unless_empty =
        |text: &str, otherwise: &str| printable(if text.is_empty() { otherwise } else { text }).into_owned();
    let program = unless_empty(&report.program, "a program");
    format!("{program} (pid {}) on {}", report.pid, unless_empty(&report.host, "an unknown host"))
}

/// Formats rows below a heading, with columns as wide as their longest cell.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([heading[at].len()]).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, width) in cells.into_iter().zip(widths) {
            // Writing to a `String` cannot fail.
            let _ = write!(line, "{cell:<width$}  ");
        }
        line.trim_end().to_owned()
    };
    let rows = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    std::iter::once(line(heading)).chain(rows).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_characters_are_shown_and_not_obeyed() {
        assert_eq!(printable("orders:ü 中"), "orders:ü 中");
        assert_eq!(printable("a\u{1b}[2J\n\0\u{202e}b"), "a\\u{1b}[2J\\u{a}\\u{0}\\u{202e}b");
    }

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let rows = [["a".to_owned(), "1".to_owned()], ["longer".to_owned(), String::new()]];
        assert_eq!(table(["ID", "N"], &rows), "ID      N\na       1\nlonger");
    }
}
