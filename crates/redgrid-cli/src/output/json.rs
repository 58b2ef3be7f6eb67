//! JSON of which each line is safe to show on a terminal.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::failure::Failure;
use crate::text::is_hidden;

/// Formats a value as JSON without line breaks. Characters that control a terminal, or the
/// direction of text, are escaped.
pub(crate) fn to_line(value: &impl Serialize) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let formatted = value.serialize(&mut Serializer::with_formatter(&mut bytes, Escaping));
    formatted.map_err(|error| Failure::broken(format!("the output could not be formatted: {error}")))?;
    String::from_utf8(bytes).map_err(|error| Failure::broken(error.to_string()))
}

/// Compact JSON in which hidden characters are escaped.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_hidden) {
            let (before, from) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            let mut characters = from.chars();
            if let Some(hidden) = characters.next() {
                for unit in hidden.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_read_back() {
        let hostile = "a\"\\\n\0\u{1b}[2J\u{9b}\u{202e}ü中";
        let line = to_line(&[hostile]).unwrap();
        assert_eq!(line, "[\"a\\\"\\\\\\n\\u0000\\u001b[2J\\u009b\\u202eü中\"]");
        assert_eq!(serde_json::from_str::<Vec<String>>(&line).unwrap(), [hostile]);
    }
}
