//! YAML of which each line is safe to show on a terminal.
//!
//! Every text is quoted and escaped as in JSON, which YAML reads. A YAML library would write
//! direction marks as they are.

use serde::Serialize;
use yaml_serde::Value;

use super::json::to_line;
use crate::failure::Failure;

/// The indentation of one level.
const INDENT: usize = 2;

/// Formats a value as a document.
pub(super) fn document(value: &impl Serialize) -> Result<String, Failure> {
    let mut text = String::new();
    block(&mut text, &model(value)?, 0)?;
    Ok(text)
}

/// Formats a value as one element of a sequence.
pub(super) fn element(value: &impl Serialize) -> Result<String, Failure> {
    document(&[model(value)?])
}

fn model(value: &impl Serialize) -> Result<Value, Failure> {
    yaml_serde::to_value(value).map_err(|error| Failure::broken(format!("the output could not be formatted: {error}")))
}

/// Writes the lines of a value.
fn block(text: &mut String, value: &Value, depth: usize) -> Result<(), Failure> {
    let indent = " ".repeat(depth);
    match value {
        Value::Mapping(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let key = key.as_str().unwrap_or_default();
                match inline(value)? {
                    Some(value) => text.push_str(&format!("{indent}{key}: {value}\n")),
                    None => {
                        text.push_str(&format!("{indent}{key}:\n"));
                        block(text, value, depth + INDENT)?;
                    }
                }
            }
        }
        Value::Sequence(elements) if !elements.is_empty() => {
            for element in elements {
                let mut lines = String::new();
                match inline(element)? {
                    Some(element) => lines.push_str(&format!("{element}\n")),
                    None => block(&mut lines, element, depth + INDENT)?,
                }
                text.push_str(&format!("{indent}- {}", lines.trim_start_matches(' ')));
            }
        }
        value => text.push_str(&format!("{indent}{}\n", inline(value)?.unwrap_or_default())),
    }
    Ok(())
}

/// Formats a value that needs no lines of its own; `None` for others.
fn inline(value: &Value) -> Result<Option<String>, Failure> {
    match value {
        Value::Mapping(fields) if !fields.is_empty() => Ok(None),
        Value::Sequence(elements) if !elements.is_empty() => Ok(None),
        value => to_line(value).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_read_back_as_it_was() {
        let value = json!({
            "name": "a\"\\\n\0\u{1b}\u{202e}: # - {",
            "yes": "no",
            "number": "1e3",
            "count": 18_446_744_073_709_551_615_u64,
            "none": null,
            "empty": [],
            "nested": { "list": [{ "a": 1, "b": [1, [2, 3]] }, "x", {}] },
        });
        let text = document(&value).unwrap();
        assert_eq!(yaml_serde::from_str::<serde_json::Value>(&text).unwrap(), value, "{text}");
        assert!(!text.contains(['\0', '\u{1b}', '\u{202e}']), "{text}");
    }

    #[test]
    fn elements_follow_each_other() {
        let text = format!("items:\n{}{}", element(&json!({ "a": 1, "b": 2 })).unwrap(), element(&json!("c")).unwrap());
        assert_eq!(text, "items:\n- a: 1\n  b: 2\n- \"c\"\n");
        assert_eq!(
            yaml_serde::from_str::<serde_json::Value>(&text).unwrap(),
            json!({ "items": [{ "a": 1, "b": 2 }, "c"] })
        );
    }
}
