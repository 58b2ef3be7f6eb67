//! Patterns as the server has them: `*` anything, `?` one byte, `[a-c]` one of these, `[^a]` any other, `\*` the star itself.

use bytes::Bytes;

/// A pattern that is whole: no class is left open, and no backslash is its last byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(Bytes);

impl Glob {
    /// # Errors
    ///
    /// What is missing.
    pub(crate) fn new(pattern: impl Into<Bytes>) -> Result<Glob, &'static str> {
        let pattern = pattern.into();
        let mut rest = &pattern[..];
        while let Some((first, behind)) = rest.split_first() {
            rest = match first {
                b'\\' => behind.get(1..).ok_or("a byte behind each `\\`")?,
                b'[' => class(behind, 0).1.ok_or("a `]` for each `[`")?,
                _ => behind,
            };
        }
        Ok(Glob(pattern))
    }

    /// What matches this text and nothing else.
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

    /// Whether it matches all of `text`. It goes back to the last star only, so it takes at most the product of their lengths.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let (mut pattern, mut rest) = (&self.0[..], text);
        let mut star: Option<(&[u8], &[u8])> = None;
        loop {
            match pattern.split_first() {
                Some((b'*', behind)) => {
                    star = Some((behind, rest));
                    pattern = behind;
                    continue;
                }
                Some((first, behind)) => {
                    if let Some((byte, after)) = rest.split_first() {
                        let (fits, next) = match (first, behind) {
                            (b'?', _) => (true, behind),
                            (b'[', _) => {
                                let (fits, next) = class(behind, *byte);
                                (fits, next.unwrap_or_default())
                            }
                            (b'\\', [escaped, behind @ ..]) => (escaped == byte, behind),
                            _ => (first == byte, behind),
                        };
                        if fits {
                            (pattern, rest) = (next, after);
                            continue;
                        }
                    }
                }
                None if rest.is_empty() => return true,
                None => {}
            }
            // The last star takes one byte more.
            match star {
                Some((behind, [_, after @ ..])) => {
                    star = Some((behind, after));
                    (pattern, rest) = (behind, after);
                }
                _ => return false,
            }
        }
    }
}

/// Whether a byte is in the class that begins behind its `[`, and what is behind its end, if it has one.
fn class(behind: &[u8], byte: u8) -> (bool, Option<&[u8]>) {
    let (negated, mut rest) = match behind {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut within = false;
    loop {
        rest = match rest {
            [] => return (within != negated, None),
            [b'\\', escaped, rest @ ..] => {
                within |= *escaped == byte;
                rest
            }
            [b']', rest @ ..] => return (within != negated, Some(rest)),
            [from, b'-', to, rest @ ..] => {
                within |= (*from.min(to)..=*from.max(to)).contains(&byte);
                rest
            }
            [one, rest @ ..] => {
                within |= *one == byte;
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
    fn patterns_are_those_of_the_server() {
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
    fn what_is_left_open_is_refused() {
        for open in ["[a", "a\\", "[", "[^", "[a-]", "x[\\]"] {
            assert!(Glob::new(open).is_err(), "{open}");
        }
    }

    #[test]
    fn a_literal_matches_itself_alone() {
        for text in ["a*b", "[x]", "?\\^", "orders:42"] {
            let glob = Glob::new(Glob::literal(text.as_bytes())).unwrap();
            assert!(glob.matches(text.as_bytes()));
            assert!(!glob.matches(format!("{text}x").as_bytes()) && !glob.matches(b"axb"));
        }
    }
}
