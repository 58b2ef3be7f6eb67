//! Files: YAML, TOML or JSON with one key per setting, or a configuration file of Redisson.

mod parse;

use std::path::Path;

use yaml_serde::{Mapping, Value as Yaml};

use super::error::{ConfigError, Origin};
use super::form::Value;
use super::layer::Layer;
use super::table::{SERVERS, setting};
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
            layer.names_servers |= setting(key).is_some_and(|setting| setting.group == SERVERS);
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
        let mut tree = Tree { path, root: Mapping::new(), text, format };
        // An empty file has no settings. If no other source names a server, a later check reports
        // that no server is named.
        let root = if tree.text.trim().is_empty() { Yaml::Null } else { parse::parse(&tree)? };
        match root {
            Yaml::Mapping(root) => tree.root = root,
            Yaml::Null => {}
            _ => return Err(tree.value("/", "one key per setting")),
        }
        Ok(tree)
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
                    let text = self.scalar(key, Some(index), one, is_text)?;
                    text.ok_or_else(|| self.value(key, "texts in the list"))
                });
                Ok(Some(Value::Many(texts.collect::<Result<_, _>>()?)))
            }
            value => Ok(self.scalar(key, None, value, is_text)?.map(Value::One)),
        }
    }

    /// Returns one value; `index` is its index if it is in a list.
    fn scalar(
        &self,
        key: &str,
        index: Option<usize>,
        value: &Yaml,
        is_text: bool,
    ) -> Result<Option<String>, ConfigError> {
        match value {
            Yaml::Null => Ok(None),
            Yaml::String(text) => Ok(Some(text.clone())),
            Yaml::Bool(_) | Yaml::Number(_) if is_text => {
                parse::text_at(self, key, index).map(Some).ok_or_else(|| self.value(key, "text in quotes"))
            }
            Yaml::Bool(yes) => Ok(Some(yes.to_string())),
            Yaml::Number(number) => Ok(Some(number.to_string())),
            Yaml::Sequence(_) | Yaml::Mapping(_) | Yaml::Tagged(_) => {
                Err(self.value(key, if index.is_some() { "texts in the list" } else { "one value" }))
            }
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
