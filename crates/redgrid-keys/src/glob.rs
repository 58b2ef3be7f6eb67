//! Patterns with the server's syntax: `*` matches anything, `?` one byte, `[a-c]` one of these
//! bytes, `[^a]` any other byte, and `\*` the star itself.

use bytes::Bytes;

/// A complete pattern: every class is closed, and the last byte is not a backslash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(Bytes);

impl Glob {
    /// Returns the pattern if it is complete.
    ///
    /// # Errors
    ///
    /// The missing part of an incomplete pattern.
    pub(crate) fn new(pattern: impl Into<Bytes>) -> Result<Glob, &'static str> {
        let pattern = pattern.into();
        let mut rest = &pattern[..];
        while let Some((first, tail)) = rest.split_first() {
            rest = match first {
                b'\\' => tail.get(1..).ok_or("a byte after each `\\`")?,
                b'[' => match_class(tail, 0).1.ok_or("a `]` for each `[`")?,
                _ => tail,
            };
        }
        Ok(Glob(pattern))
    }

    /// Returns a pattern that matches only this text.
    pub(crate) fn literal(text: &[u8]) -> Bytes {
        let mut escaped = Vec::with_capacity(text.len());
        for byte in text {
            if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^') {
                escaped.push(b'\\');
            }
            escaped.push(*byte);
        }
        escaped.into()
    }

    pub(crate) fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Returns whether the pattern matches the whole `text`.
    ///
    /// Only the last star is backtracked, so the time is at most the product of both lengths.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let (mut pattern, mut rest) = (&self.0[..], text);
        let mut star: Option<(&[u8], &[u8])> = None;
        loop {
            match pattern.split_first() {
                Some((b'*', tail)) => {
                    star = Some((tail, rest));
                    pattern = tail;
                    continue;
                }
                Some((first, tail)) => {
                    if let Some((byte, rest_tail)) = rest.split_first() {
                        let (is_match, next) = match (first, tail) {
                            (b'?', _) => (true, tail),
                            (b'[', _) => {
                                let (is_match, next) = match_class(tail, *byte);
                                (is_match, next.unwrap_or_default())
                            }
                            (b'\\', [escaped, tail @ ..]) => (escaped == byte, tail),
                            _ => (first == byte, tail),
                        };
                        if is_match {
                            (pattern, rest) = (next, rest_tail);
                            continue;
                        }
                    }
                }
                None if rest.is_empty() => return true,
                None => {}
            }
            // No match: let the last star match one byte more.
            match star {
                Some((tail, [_, rest_tail @ ..])) => {
                    star = Some((tail, rest_tail));
                    (pattern, rest) = (tail, rest_tail);
                }
                _ => return false,
            }
        }
    }
}

/// Returns whether a byte is in a character class, and the pattern after the class if it is closed.
///
/// `pattern` starts after the `[` of the class.
fn match_class(pattern: &[u8], byte: u8) -> (bool, Option<&[u8]>) {
    let (negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut contained = false;
    loop {
        rest = match rest {
            [] => return (contained != negated, None),
            [b'\\', escaped, rest @ ..] => {
                contained |= *escaped == byte;
                rest
            }
            [b']', rest @ ..] => return (contained != negated, Some(rest)),
            [from, b'-', to, rest @ ..] => {
                contained |= (*from.min(to)..=*from.max(to)).contains(&byte);
                rest
            }
            [member, rest @ ..] => {
                contained |= *member == byte;
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Glob::new(pattern.to_owned()).unwrap().matches(text.as_bytes())
    }

    #[test]
    fn patterns_match_as_on_the_server() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("*", "a"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*b*c", "a1b2b3c"),
            ("?", "x"),
            ("a?c", "abc"),
            ("[ab]", "b"),
            ("[a-c]x", "bx"),
            ("[c-a]x", "bx"),
            ("[^a]", "b"),
            ("[\\]]", "]"),
            ("\\*", "*"),
            ("h\\[", "h["),
            ("**a**", "bab"),
            ("[!a]", "!"),
            ("]", "]"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("a*", "ba"),
            ("?", ""),
            ("?", "ab"),
            ("[ab]", "c"),
            ("[^a]", "a"),
            ("\\*", "a"),
            ("a*b", "abc"),
            ("[]", "a"),
            ("[a-c]", "d"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
        assert!(!matches(&"a*".repeat(40), &"a".repeat(39)));
    }

    #[test]
    fn incomplete_patterns_are_rejected() {
        for open in ["[a", "a\\", "[", "[^", "[a-]", "x[\\]"] {
            assert!(Glob::new(open).is_err(), "{open}");
        }
    }

    #[test]
    fn a_literal_matches_only_itself() {
        for text in ["a*b", "[x]", "?\\^", "orders:42"] {
            let glob = Glob::new(Glob::literal(text.as_bytes())).unwrap();
            assert!(glob.matches(text.as_bytes()));
            assert!(!glob.matches(format!("{text}x").as_bytes()) && !glob.matches(b"axb"));
        }
    }
}
