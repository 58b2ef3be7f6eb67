//! Text in pages: what other programs wrote, times, and numbers.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::object_name::{bytes_of, text_of};

/// Bytes that stand for themselves in a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Returns text of another program, or the name of an object, so that every character can be seen:
/// control characters, invisible ones, and those that change the direction of text, as `\u{…}`.
pub(crate) fn visible(text: &str) -> String {
    let text = text_of(text);
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_invisible(character) {
            // Writing to a `String` cannot fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}'
            | '\u{ffa0}' | '\u{feff}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Returns text, or the name of an object, for the value of a parameter in a link.
pub(crate) fn encoded(text: &str) -> String {
    percent_encode(&bytes_of(text), PLAIN).to_string()
}

/// Returns a name of any bytes so that every character can be seen, and typed. Bytes that are not
/// UTF-8 are escaped as `\xff`.
pub(crate) fn visible_bytes(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), visible)
}

/// Returns bytes for the value of a parameter in a link.
///
/// The value is encoded once more than others. So every byte survives a form, which would change
/// line breaks and bytes that are not UTF-8.
pub(crate) fn encoded_bytes(bytes: &[u8]) -> String {
    encoded(&field_of_bytes(bytes))
}

/// Returns bytes for the value of a form's field, as [`encoded_bytes`] without the encoding of the
/// link.
pub(crate) fn field_of_bytes(bytes: &[u8]) -> String {
    percent_encode(bytes, PLAIN).to_string()
}

/// Returns the bytes of such a field.
pub(crate) fn bytes_of_field(field: &str) -> Vec<u8> {
    percent_decode_str(field).collect()
}

/// Shows text of another program. `bdi` keeps its direction from its neighbours.
pub(crate) fn name(text: &str) -> Markup {
    html! { bdi.name { (visible(text)) } }
}

/// Returns the time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    millis(since)
}

/// Rounds a time in milliseconds down to a second, so that the inaccuracy of a reading rarely
/// changes a page.
pub(crate) fn whole_seconds(ms: u64) -> u64 {
    ms / 1_000 * 1_000
}

/// Returns whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Latest time that is shown: the year 9999, in milliseconds since 1970.
const LATEST_MS: u64 = 253_402_300_799_000;

fn rfc3339(ms: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms.min(LATEST_MS))).to_string()
}

/// Returns the time of day in UTC: `12:03:04`.
pub(crate) fn clock(ms: u64) -> String {
    rfc3339(ms)[11..19].to_owned()
}

/// Shows a time with its date, which the script leaves as it is.
pub(crate) fn moment(ms: u64) -> Markup {
    html! { time datetime=(rfc3339(ms)) { (rfc3339(ms).replace('T', " ").replace('Z', " UTC")) } }
}

/// Shows a time in the past. The script replaces it by how long ago that is.
pub(crate) fn ago(ms: u64) -> Markup {
    html! { time datetime=(rfc3339(ms)) data-ago=(ms) { (clock(ms)) " UTC" } }
}

/// Shows a time in the past. The script replaces it by the time since then.
pub(crate) fn since(ms: u64) -> Markup {
    html! { time datetime=(rfc3339(ms)) data-since=(ms) { "since " (clock(ms)) " UTC" } }
}

/// Shows a time in the future. The script replaces it by a countdown.
pub(crate) fn until(ms: u64) -> Markup {
    html! { time datetime=(rfc3339(ms)) data-until=(ms) { "until " (clock(ms)) " UTC" } }
}

/// Returns a duration with its two largest units: `2m 5s`. The script writes durations alike.
pub(crate) fn duration(time: Duration) -> String {
    let ms = millis(time);
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    let seconds = ms / 1_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let seconds = seconds % 60;
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {seconds} s"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Returns a size in bytes: `1.5 MiB`.
pub(crate) fn bytes(size: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if size < 1_024 {
        return format!("{size} B");
    }
    let mut tenths = size.saturating_mul(10) / 1_024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1_024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// Returns a number with its digits in groups: `1 234 567`, with narrow spaces.
pub(crate) fn number(n: impl Into<u64>) -> String {
    let digits = n.into().to_string();
    let mut grouped = String::with_capacity(digits.len() * 2);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns `1 lock` or `2 locks`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    let shown = number(n as u64);
    if n == 1 { format!("{shown} {noun}") } else { format!("{shown} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_cannot_be_seen_are_escaped() {
        for (text, shown) in [
            ("orders:42", "orders:42"),
            ("<img onerror=x>", "<img onerror=x>"),
            ("a\0b", "a\\u{0}b"),
            ("evil\u{202e}gpj", "evil\\u{202e}gpj"),
            ("\u{200b}\u{feff}\u{2066}", "\\u{200b}\\u{feff}\\u{2066}"),
            ("line\nbreak\u{85}", "line\\u{a}break\\u{85}"),
            ("schön 日本 אב", "schön 日本 אב"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn markup_is_escaped() {
        let shown = name("<b>\"'&").into_string();
        assert_eq!(shown, "<bdi class=\"name\">&lt;b&gt;&quot;'&amp;</bdi>");
    }

    #[test]
    fn every_byte_of_a_name_fits_into_a_link() {
        assert_eq!(encoded("a b&c=d#e%/?\u{202e}\0"), "a%20b%26c%3Dd%23e%25%2F%3F%E2%80%AE%00");
    }

    #[test]
    fn a_name_that_is_not_text_can_be_shown_and_linked() {
        let id = crate::object_name::id_of(b"a\xff\0");
        assert_eq!((visible(&id).as_str(), encoded(&id).as_str()), ("a\\xff\\x00", "a%FF%00"));
    }

    #[test]
    fn every_byte_survives_a_form() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes_of_field(&field_of_bytes(&all)), all);
        assert!(field_of_bytes(&all).is_ascii() && encoded_bytes(b"a b") == "a%2520b");
        assert_eq!(visible_bytes(b"a\xff\0"), "a\\xff\\x00");
        assert_eq!(visible_bytes("ü\0".as_bytes()), "ü\\u{0}");
    }

    #[test]
    fn times_and_sizes_are_short() {
        let second = Duration::from_secs;
        assert_eq!(duration(Duration::from_millis(420)), "420 ms");
        assert_eq!(duration(second(59)), "59 s");
        assert_eq!(duration(second(125)), "2 min 5 s");
        assert_eq!(duration(second(7_260)), "2 h 1 min");
        assert_eq!(duration(second(90_000)), "1 d 1 h");
        assert_eq!((bytes(1_023), bytes(1_536), bytes(3 << 30)), ("1023 B".into(), "1.5 KiB".into(), "3.0 GiB".into()));
        assert_eq!(number(1_234_567_u64), "1\u{202f}234\u{202f}567");
        assert_eq!((count(1, "lock"), count(2, "lock")), ("1 lock".into(), "2 locks".into()));
        assert_eq!(clock(1_700_000_000_000), "22:13:20");
        assert_eq!(clock(u64::MAX), "23:59:59");
        assert!(moment(1_700_000_000_000).into_string().contains("2023-11-14 22:13:20 UTC"));
    }
}
