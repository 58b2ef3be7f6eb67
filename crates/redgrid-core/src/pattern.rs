//! Patterns of names, as the server matches them in SCAN, KEYS and PSUBSCRIBE.
//!
//! A stream of events for a pattern of names gets the events of all names from the server. It uses
//! this module to select the events whose names match the pattern.

/// Returns whether a text matches a pattern.
///
/// `?` matches one byte, and `*` any number of bytes. `[a-z]` matches one byte of this range, and
/// `[^a-z]` one byte outside it. `\` escapes the next byte. The server, too, matches bytes instead
/// of characters. The number of steps is at most proportional to the length of the pattern times
/// the length of the text.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut consumed) = (0, 0);
    // The star that was reached last: its position in the pattern, and the end of the text that it
    // matches.
    let mut star: Option<(usize, usize)> = None;
    loop {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, consumed));
                at += 1;
                continue;
            }
            Some(_) if consumed < text.len() => {
                let (matched, next) = match_one(pattern, at, text[consumed]);
                if matched {
                    (at, consumed) = (next, consumed + 1);
                    continue;
                }
            }
            None if consumed == text.len() => return true,
            _ => {}
        }
        // The rest of the pattern does not match here, so the last star has to match one more byte.
        match star {
            Some((star_at, star_end)) if star_end < text.len() => {
                star = Some((star_at, star_end + 1));
                (at, consumed) = (star_at + 1, star_end + 1);
            }
            _ => return false,
        }
    }
}

/// Returns whether a byte matches the element of the pattern at `at`, and the position of the next
/// element.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> (bool, usize) {
    match pattern[at] {
        b'?' => (true, at + 1),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte, at + 2),
        b'[' => match_class(pattern, at + 1, byte),
        exact => (exact == byte, at + 1),
    }
}

/// Does the same as `match_one` for a class in brackets. `at` is the position after the opening
/// bracket. If the closing bracket is missing, the class ends with the pattern, as on the server.
fn match_class(pattern: &[u8], mut at: usize, byte: u8) -> (bool, usize) {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut matched = false;
    loop {
        match pattern.get(at) {
            None => return (matched != negated, at),
            Some(b']') => return (matched != negated, at + 1),
            Some(b'\\') if at + 1 < pattern.len() => {
                matched |= pattern[at + 1] == byte;
                at += 2;
            }
            Some(&first) if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                let (low, high) = (first.min(pattern[at + 2]), first.max(pattern[at + 2]));
                matched |= (low..=high).contains(&byte);
                at += 3;
            }
            Some(&exact) => {
                matched |= exact == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_as_the_server_reads_them() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("stock:*", "stock:", true),
            ("stock:*", "stock:7", true),
            ("stock:*", "stok:7", false),
            ("*:7", "stock:7:7", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            (r"h\*llo", "h*llo", true),
            (r"h\*llo", "hallo", false),
            (r"[\]]", "]", true),
            ("[abc", "b", true),
            ("{a}:*", "{a}:timeout", true),
            ("a\\", "a\\", true),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends() {
        let (pattern, text) = ("*a".repeat(200) + "b", "a".repeat(2_000));
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
