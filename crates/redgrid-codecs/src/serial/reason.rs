//! The type's error about its input, without the content of the input.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use crate::error::cut;

/// The error of a visitor that received a scalar.
#[derive(Debug)]
pub(super) struct Reason {
    pub(super) expected: Option<String>,
    pub(super) found: String,
}

impl de::Error for Reason {
    fn custom<T: fmt::Display>(text: T) -> Reason {
        let (expected, found) = redacted(&text.to_string());
        Reason { expected, found }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Reason {
        Reason { expected: Some(expected.to_string()), found: kind(&found) }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Reason {
        Reason { expected: Some(expected.to_string()), found: format!("{} that does not fit", kind(&found)) }
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Reason {
        Reason { expected: Some(one_of("variant", expected)), found: "another name".to_owned() }
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Reason {
        Reason { expected: Some(one_of("field", expected)), found: "another name".to_owned() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.found)
    }
}

impl std::error::Error for Reason {}

fn one_of(what: &str, names: &[&str]) -> String {
    match names {
        [] => format!("no {what} at all"),
        [one] => format!("the {what} `{one}`"),
        many => format!("one of the {what}s `{}`", many.join("`, `")),
    }
}

fn kind(found: &Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(_) => "a boolean".to_owned(),
        Unexpected::Unsigned(number) => whole(number.checked_ilog10()),
        Unexpected::Signed(number) => whole(number.unsigned_abs().checked_ilog10()),
        Unexpected::Float(_) => "a floating-point number".to_owned(),
        Unexpected::Char(_) => "a character".to_owned(),
        Unexpected::Str(text) => format!("a string of {} bytes", text.len()),
        Unexpected::Bytes(bytes) => format!("a byte array of {} bytes", bytes.len()),
        Unexpected::Unit => "nothing (unit, null)".to_owned(),
        Unexpected::Option => "an option".to_owned(),
        Unexpected::Seq => "a sequence".to_owned(),
        Unexpected::Map => "a map".to_owned(),
        Unexpected::Other(what) => cut(what),
        _ => "something else".to_owned(),
    }
}

fn whole(log10: Option<u32>) -> String {
    match log10.unwrap_or(0) + 1 {
        1 => "a whole number of 1 digit".to_owned(),
        digits => format!("a whole number of {digits} digits"),
    }
}

/// Extracts the expected and the found content from an error's text. Sentences of serde, which
/// formats also use, quote the value: the quotation is removed. Other texts of a type are cut.
pub(crate) fn redacted(text: &str) -> (Option<String>, String) {
    for (begin, suffix) in [("invalid type: ", ""), ("invalid value: ", " that does not fit")] {
        if let Some(rest) = text.strip_prefix(begin)
            // The quoted value may also contain these words. The expected content is from the type,
            // so the last occurrence counts.
            && let Some((found, expected)) = rest.rsplit_once(", expected ")
        {
            return (Some(cut(expected)), unquoted(found) + suffix);
        }
    }
    for what in ["variant", "field"] {
        if let Some(rest) = text.strip_prefix(&format!("unknown {what} `"))
            && let Some((_, expected)) = rest.rsplit_once("`, expected ")
        {
            return (Some(format!("as {what} {}", cut(expected))), "another name".to_owned());
        }
    }
    (None, cut(text))
}

/// Removes the quoted value: `string "abc"`, `integer `5``.
fn unquoted(found: &str) -> String {
    let kind = found.split(['"', '`']).next().unwrap_or_default().trim();
    match kind.chars().next() {
        Some('a' | 'e' | 'i' | 'o' | 'u') if kind != "unit value" => format!("an {kind}"),
        Some(_) => format!("a {kind}"),
        None => "something else".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_values_are_removed() {
        for (text, expected, found) in [
            ("invalid type: string \"hunter2\", expected u32", Some("u32"), "a string"),
            ("invalid type: string \"a, expected b\", expected u32", Some("u32"), "a string"),
            ("invalid value: integer `300`, expected u8", Some("u8"), "an integer that does not fit"),
            ("invalid type: map, expected a string", Some("a string"), "a map"),
            ("unknown variant `hunter2`, expected `A` or `B`", Some("as variant `A` or `B`"), "another name"),
            ("unknown field `x`, expected one of `a`, `b`, `c`", Some("as field one of `a`, `b`, `c`"), "another name"),
            ("missing field `name`", None, "missing field `name`"),
        ] {
            assert_eq!(redacted(text), (expected.map(str::to_owned), found.to_owned()), "{text}");
        }
        assert_eq!(redacted(&"\u{fc}".repeat(500)).1.chars().count(), 121);
    }
}
