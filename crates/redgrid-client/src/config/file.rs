//! Files: YAML, TOML or JSON with one key per setting, or a configuration file of Redisson.

mod parse;

use std::path::Path;

use yaml_serde::{Mapping, Value as Yaml};

use super::error::{ConfigError, Origin};
use super::form::Value;
use super::layer::Layer;
use super::table::{Group, setting};
use super::{redisson, url};

/// A parsed file, and its text.
pub(super) struct Tree<'a> {
    pub(super) path: &'a Path,
    pub(super) root: Mapping,
    text: String,
    format: Format,
}

/// File formats, by extension.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Yaml,
    Toml,
    Json,
}

/// The path of a value in a file: the keys that lead to it, separated by dots. For a value in a
/// list, the path also has its index.
#[derive(Clone, Copy)]
struct At<'a> {
    key: &'a str,
    index: Option<usize>,
}

/// Returns the layers of a file. The function `variable` returns the value of an environment
/// variable, for `${…}` in a file of Redisson.
pub(super) fn read(path: &Path, variable: redisson::Variable<'_>) -> Result<Vec<Layer>, ConfigError> {
    let unreadable = |error: std::io::Error| ConfigError::Unreadable { path: path.into(), kind: error.kind() };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    if redisson::looks_like(&text) {
        let tree = Tree::parse(path, redisson::prepare(&text, variable)?)?;
        if redisson::is(&tree) {
            return redisson::read(&tree);
        }
    }
    own(&Tree::parse(path, text)?).map(|layer| vec![layer])
}

fn own(tree: &Tree<'_>) -> Result<Layer, ConfigError> {
    let mut layer = Layer::default();
    for (key, value) in &tree.root {
        let Some(key) = key.as_str() else { return Err(tree.value("/", "names of settings as keys")) };
        let value = match (key, setting(key)) {
            ("url", _) => {
                match tree.plain(key, value, true)? {
                    Some(Value::One(text)) => layer.join(url::read(&text, &tree.at(key).to_string())?)?,
                    Some(Value::Many(_)) => return Err(tree.value(key, ONE_URL)),
                    None => {}
                }
                continue;
            }
            (_, Some(setting)) => tree.plain(key, value, setting.form.is_text())?,
            // `Layer::set` rejects the unknown name, so the value does not matter.
            (_, None) => Some(Value::One(String::new())),
        };
        if let Some(value) = value {
            layer.set(key, value, tree.at(key))?;
            layer.names_servers |= setting(key).is_some_and(|setting| setting.group == Group::Servers);
        }
    }
    Ok(layer)
}

const ONE_URL: &str = "one URL, not a list; commas separate several hosts, as in redis-cluster://a,b";

impl<'a> Tree<'a> {
    /// Parses the text. The extension of the file determines the format.
    fn parse(path: &'a Path, text: String) -> Result<Self, ConfigError> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let format = match extension {
            "yaml" | "yml" => Format::Yaml,
            "toml" => Format::Toml,
            "json" => Format::Json,
            _ => {
                let origin = Origin::File { key: "extension".into(), path: path.into() };
                return Err(ConfigError::value(&origin, "`yaml`, `yml`, `toml` or `json`"));
            }
        };
        let whole = || Origin::File { key: "/".into(), path: path.into() };
        // An empty file has no settings. If no other source names a server, a later check reports
        // that no server is named.
        let root = if text.trim().is_empty() {
            Yaml::Mapping(Mapping::new())
        } else {
            parse::parse(format, &text).map_err(|fault| match fault {
                ParseError::DuplicateKey { key } => {
                    let origin = Origin::File { key, path: path.into() };
                    ConfigError::value(&origin, "each key once, found it twice")
                }
                ParseError::Syntax { line, column } => {
                    ConfigError::Syntax { path: path.into(), format: format.name(), line, column }
                }
                ParseError::SecondDocument { line } => {
                    ConfigError::value(&whole(), format!("one YAML document, found a second one at line {line}"))
                }
                ParseError::Aliases => ConfigError::value(&whole(), "fewer aliases or fewer levels"),
            })?
        };
        match root {
            Yaml::Mapping(root) => Ok(Tree { path, root, text, format }),
            Yaml::Null => Ok(Tree { path, root: Mapping::new(), text, format }),
            _ => Err(ConfigError::value(&whole(), "one key per setting")),
        }
    }

    pub(super) fn at(&self, key: &str) -> Origin {
        Origin::File { key: key.into(), path: self.path.into() }
    }

    pub(super) fn value(&self, key: &str, expected: &str) -> ConfigError {
        ConfigError::value(&self.at(key), expected)
    }

    /// Returns a value as a text or a list of texts, or `None` for null. If `is_text` is true, a
    /// number or a boolean is returned as it is written in the file: `1.10` stays `1.10`.
    pub(super) fn plain(&self, key: &str, value: &Yaml, is_text: bool) -> Result<Option<Value>, ConfigError> {
        match value {
            Yaml::Sequence(all) => {
                let texts = all.iter().enumerate().map(|(index, one)| {
                    let text = self.scalar(At { key, index: Some(index) }, one, is_text)?;
                    text.ok_or_else(|| self.value(key, "texts in the list"))
                });
                Ok(Some(Value::Many(texts.collect::<Result<_, _>>()?)))
            }
            value => Ok(self.scalar(At { key, index: None }, value, is_text)?.map(Value::One)),
        }
    }

    fn scalar(&self, at: At<'_>, value: &Yaml, is_text: bool) -> Result<Option<String>, ConfigError> {
        match (value, at.index) {
            (Yaml::Null, _) => Ok(None),
            (Yaml::String(text), _) => Ok(Some(text.clone())),
            (Yaml::Bool(_) | Yaml::Number(_), _) if is_text => {
                let text = parse::text_at(self.format, &self.text, at);
                text.map(Some).ok_or_else(|| self.value(at.key, "text in quotes"))
            }
            (Yaml::Bool(yes), _) => Ok(Some(yes.to_string())),
            (Yaml::Number(number), _) => Ok(Some(number.to_string())),
            (Yaml::Sequence(_) | Yaml::Mapping(_) | Yaml::Tagged(_), Some(_)) => {
                Err(self.value(at.key, "texts in the list"))
            }
            (Yaml::Sequence(_) | Yaml::Mapping(_) | Yaml::Tagged(_), None) => Err(self.value(at.key, "one value")),
        }
    }
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Yaml => "YAML",
            Format::Toml => "TOML",
            Format::Json => "JSON",
        }
    }
}

/// The reason why a file cannot be parsed.
enum ParseError {
    Syntax {
        line: usize,
        column: usize,
    },
    SecondDocument {
        line: usize,
    },
    /// A key occurs twice; `key` is its path.
    DuplicateKey {
        key: String,
    },
    /// Too many repeated aliases, or too deep nesting.
    Aliases,
}
