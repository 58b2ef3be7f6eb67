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
pub(crate) fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // The pattern after the last star, and the text after the bytes that this star matches.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            star = Some((rest, text));
            pattern = rest;
            continue;
        }
        if pattern.is_empty() && text.is_empty() {
            return true;
        }
        let matched = text.split_first().and_then(|(byte, others)| Some((match_one(pattern, *byte)?, others)));
        (pattern, text) = match (matched, star) {
            (Some(rest), _) => rest,
            // The rest of the pattern does not match here, so the last star has to match one more
            // byte.
            (None, Some((after_star, [_, others @ ..]))) => {
                star = Some((after_star, others));
                (after_star, others)
            }
            (None, _) => return false,
        };
    }
}

/// Returns the pattern after its first element, if that element matches a byte.
fn match_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', class @ ..] => match_class(class, byte),
        [b'\\', exact, rest @ ..] | [exact, rest @ ..] => (*exact == byte).then_some(rest),
    }
}

/// Does the same as `match_one` for a class, without its opening bracket. If the closing bracket is
/// missing, the class ends with the pattern, as on the server.
fn match_class(class: &[u8], byte: u8) -> Option<&[u8]> {
    let (negated, mut class) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut matched = false;
    loop {
        let (low, high, rest) = match class {
            [] | [b']', ..] => return (matched != negated).then_some(class.get(1..).unwrap_or_default()),
            [b'\\', exact, rest @ ..] => (exact, exact, rest),
            [first, b'-', last, rest @ ..] => (first.min(last), first.max(last), rest),
            [exact, rest @ ..] => (exact, exact, rest),
        };
        matched |= (low..=high).contains(&&byte);
        class = rest;
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
