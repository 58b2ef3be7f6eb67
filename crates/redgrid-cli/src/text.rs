//! Text for people: names, holders, and times.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

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
pub(crate) fn is_hidden(character: char) -> bool {
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

/// Formats a time: to the millisecond below ten seconds, and to a hundredth of it or better above.
pub(crate) fn time_text(millis: u64) -> String {
    const SECOND: u64 = 1_000;
    const HOUR: u64 = 3_600 * SECOND;
    const DAY: u64 = 24 * HOUR;
    let unit = match millis {
        0..10_000 => 1,
        10_000..HOUR => SECOND,
        HOUR..DAY => 60 * SECOND,
        _ => HOUR,
    };
    humantime::format_duration(Duration::from_millis(millis / unit * unit)).to_string()
}

/// Formats a point in time, in milliseconds since 1970.
pub(crate) fn date_text(millis: u64) -> String {
    // A time that a hostile process reports may have more than four digits of the year.
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis.min(LAST_DATE)));
    at.map(|at| humantime::format_rfc3339_seconds(at).to_string()).unwrap_or_default()
}

/// The last millisecond of the year 9999.
const LAST_DATE: u64 = 253_402_300_799_999;

/// Formats the process of a client: `worker (pid 42) on web-1`.
pub(crate) fn process_text(report: &ClientReport) -> String {
    let unless_empty =
        |text: &str, otherwise: &str| printable(if text.is_empty() { otherwise } else { text }).into_owned();
    let program = unless_empty(&report.program, "a program");
    format!("{program} (pid {}) on {}", report.pid, unless_empty(&report.host, "an unknown host"))
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
    fn times_have_no_digits_that_say_nothing() {
        let texts = [0, 873, 59_873, 605_999, 7_563_000, 277_200_000].map(time_text);
        assert_eq!(texts, ["0s", "873ms", "59s", "10m 5s", "2h 6m", "3days 5h"]);
        assert_eq!((date_text(0), date_text(u64::MAX)), ("1970-01-01T00:00:00Z".into(), "9999-12-31T23:59:59Z".into()));
    }
}
