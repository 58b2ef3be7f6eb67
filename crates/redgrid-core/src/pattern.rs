//! Patterns of names, as the server reads them in SCAN, KEYS and PSUBSCRIBE. Events of many names are told for all of them, and sorted out
//! here; so is of which pattern a channel is.

/// Whether a text is of a pattern: `?` is one character, `*` any number, `[a-z]` and `[^a-z]` one of some, `\` takes what follows as it
/// is. By bytes, as the server does it; the work is bounded by the product of the two lengths.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // The last star, and how much of the text it has.
    let mut star: Option<(usize, usize)> = None;
    loop {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
                continue;
            }
            Some(_) if read < text.len() => {
                let (matched, next) = match_one(pattern, at, text[read]);
                if matched {
                    (at, read) = (next, read + 1);
                    continue;
                }
            }
            None if read == text.len() => return true,
            _ => {}
        }
        // It has one more.
        match star {
            Some((star_at, consumed)) if consumed < text.len() => {
                star = Some((star_at, consumed + 1));
                (at, read) = (star_at + 1, consumed + 1);
            }
            _ => return false,
        }
    }
}

/// Whether it is certain that no name is of both, by what they begin with.
pub(crate) fn are_disjoint(one: &[u8], other: &[u8]) -> bool {
    let exact = |pattern: &[u8]| pattern.iter().take_while(|byte| !b"*?[\\".contains(byte)).count();
    let same = exact(one).min(exact(other));
    one[..same] != other[..same]
}

/// Whether a byte is what the pattern has at a place, and where that ends.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> (bool, usize) {
    match pattern[at] {
        b'?' => (true, at + 1),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte, at + 2),
        b'[' => match_class(pattern, at + 1, byte),
        exact => (exact == byte, at + 1),
    }
}

/// The same within brackets. What is not closed ends with the pattern, as the server has it.
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
    fn patterns_are_apart_where_they_begin_differently() {
        for (one, other, apart) in [
            ("news:*", "sport:*", true),
            ("news:*", "news:*", false),
            ("news:*", "news:a*", false),
            ("*", "news:*", false),
            ("n?ws", "news", false),
            ("a", "b", true),
            ("a[b]", "b*", true),
            ("a\\*", "a*", false),
        ] {
            assert_eq!(are_disjoint(one.as_bytes(), other.as_bytes()), apart, "{one} {other}");
            assert_eq!(are_disjoint(other.as_bytes(), one.as_bytes()), apart, "{other} {one}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends() {
        let (pattern, text) = ("*a".repeat(200) + "b", "a".repeat(2_000));
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
