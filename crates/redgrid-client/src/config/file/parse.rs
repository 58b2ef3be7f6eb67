//! Parsers for a whole file, and for the source text of one scalar in a file.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use toml::de::{DeTable, DeValue};
use yaml_serde::value::{Tag, TaggedValue};
use yaml_serde::{Mapping, Value as Yaml};

use super::super::error::ConfigError;
use super::{Format, Tree};

/// Parses the whole text of a file.
pub(super) fn parse(tree: &Tree<'_>) -> Result<Yaml, ConfigError> {
    let (format, text) = (tree.format, &*tree.text);
    let syntax = |line, column| ConfigError::Syntax { path: tree.path.into(), format: format.name(), line, column };
    let duplicate = Cell::new(None);
    let root = Node { path: String::new(), duplicate: &duplicate };
    let parsed = match format {
        Format::Yaml => {
            root.deserialize(yaml_serde::Deserializer::from_str(text)).map_err(|error| match error.location() {
                Some(position) => syntax(position.line(), position.column()),
                // The errors about a second document and about aliases have no position.
                None => tree.value(
                    "/",
                    &match second_document(text) {
                        Some(line) => format!("one YAML document, found a second one at line {line}"),
                        None => "fewer aliases or fewer levels".into(),
                    },
                ),
            })
        }
        Format::Toml => toml(root, text).map_err(|error| {
            let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |end| end + 1);
            syntax(before.matches('\n').count() + 1, before.len() - line_start + 1)
        }),
        Format::Json => json(root, text).map_err(|error| syntax(error.line(), error.column().max(1))),
    };
    match duplicate.take() {
        Some(key) => Err(tree.value(&key, "each key once, found it twice")),
        None => parsed,
    }
}

fn toml(root: Node<'_>, text: &str) -> Result<Yaml, toml::de::Error> {
    root.deserialize(toml::Deserializer::parse(text)?)
}

fn json(root: Node<'_>, text: &str) -> Result<Yaml, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = root.deserialize(&mut deserializer)?;
    deserializer.end().map(|()| value)
}

/// Returns the number of the line at which a second document begins; the first line is 1.
fn second_document(text: &str) -> Option<usize> {
    let is_marker = |line: &str| line == "---" || line.starts_with("--- ");
    let is_content = |line: &str| !line.trim().is_empty() && !line.starts_with(['#', '%']);
    let mut begun = false;
    for (index, line) in text.lines().map(str::trim_end).enumerate() {
        if is_marker(line) && begun {
            return Some(index + 1);
        }
        begun |= is_content(line);
    }
    None
}

/// Returns the source text of a scalar, without quotes. Its path consists of the keys that lead to
/// it, separated by dots; `index` is its index if it is in a list. Returns `None` if there is no
/// scalar.
pub(super) fn text_at(tree: &Tree<'_>, key: &str, index: Option<usize>) -> Option<String> {
    let text = &*tree.text;
    let mut path: Vec<Step<'_>> = key.split('.').map(Step::Key).collect();
    path.extend(index.map(Step::Index));
    match tree.format {
        // JSON is a subset of YAML, so the YAML parser can read both. This parser can return a
        // number as the text writes it.
        Format::Yaml | Format::Json => ScalarText(&path).deserialize(yaml_serde::Deserializer::from_str(text)).ok()?,
        Format::Toml => {
            let table = DeTable::parse(text).ok()?;
            let mut steps = path.iter();
            let Some(Step::Key(first)) = steps.next() else { return None };
            let mut value = table.get_ref().get(*first)?;
            for step in steps {
                value = match (step, value.get_ref()) {
                    (Step::Key(key), DeValue::Table(table)) => table.get(*key)?,
                    (Step::Index(index), DeValue::Array(array)) => array.get(*index)?,
                    _ => return None,
                };
            }
            text.get(value.span()).map(str::to_owned)
        }
    }
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Extracts the text of the scalar at a path.
struct ScalarText<'a>(&'a [Step<'a>]);

impl<'de> DeserializeSeed<'de> for ScalarText<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.0 {
            [] => String::deserialize(deserializer).map(Some),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for ScalarText<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            match self.0 {
                [Step::Key(wanted), rest @ ..] if key == *wanted => found = map.next_value_seed(ScalarText(rest))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
        let [Step::Index(wanted), rest @ ..] = self.0 else { return Ok(None) };
        for _ in 0..*wanted {
            all.next_element::<IgnoredAny>()?;
        }
        let found = all.next_element_seed(ScalarText(rest))?.flatten();
        while all.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

/// Reads a value with all nested values. The parsers have value types of their own, such as
/// `serde_json::Value`, each with a deserializer. Unlike these, this deserializer accepts numbers
/// of any size, and reports which key is duplicated.
struct Node<'a> {
    /// The keys that lead to the value, separated by dots.
    path: String,
    duplicate: &'a Cell<Option<String>>,
}

impl Node<'_> {
    fn below(&self, key: &str) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Node { path, duplicate: self.duplicate }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Yaml;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Yaml, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Yaml, A::Error> {
        let mut all = Mapping::new();
        while let Some(key) = map.next_key::<String>()? {
            let below = self.below(&key);
            if all.contains_key(&key) {
                self.duplicate.set(Some(below.path));
                return Err(A::Error::custom("a duplicate key"));
            }
            let value = map.next_value_seed(below)?;
            all.insert(Yaml::String(key), value);
        }
        Ok(Yaml::Mapping(all))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Yaml, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(self.below("[]"))? {
            all.push(item);
        }
        Ok(Yaml::Sequence(all))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Yaml, A::Error> {
        let (tag, value) = tagged.variant::<String>()?;
        if tag.is_empty() {
            return Err(A::Error::custom("a tag without a name"));
        }
        let value = value.newtype_variant_seed(self)?;
        Ok(Yaml::Tagged(Box::new(TaggedValue { tag: Tag::new(tag), value })))
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Yaml, E> {
        Ok(Yaml::Bool(yes))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Yaml, E> {
        Ok(Yaml::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Yaml, E> {
        Ok(Yaml::Number(number.into()))
    }

    // A number of more than 64 bits is valid only for a text setting. The value of such a setting
    // is read from the source text, so the value returned here only shows that the source has a
    // number.
    fn visit_i128<E>(self, number: i128) -> Result<Yaml, E> {
        Ok(Yaml::Number((number as f64).into()))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Yaml, E> {
        Ok(Yaml::Number((number as f64).into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Yaml, E> {
        Ok(Yaml::Number(number.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Yaml, E> {
        Ok(Yaml::String(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }
}
