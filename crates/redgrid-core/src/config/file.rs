//! Files: YAML, TOML or JSON, one key per setting; or one of Redisson's.

use std::path::Path;

use yaml_serde::{Mapping, Value as Yaml};

use super::error::{ConfigError, Origin};
use super::form::{Form, Value};
use super::layer::Layer;
use super::table::{Group, setting};
use super::{redisson, url};

/// A file as a tree, with the text it came from.
pub(super) struct Tree<'a> {
    pub(super) path: &'a Path,
    pub(super) root: Mapping,
    text: String,
}

/// The layers that a file means; `variable` is for the `${…}` of Redisson's.
pub(super) fn read(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Layer>, ConfigError> {
    let unreadable = |error: std::io::Error| ConfigError::Unreadable { path: path.into(), kind: error.kind() };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    if redisson::looks_like(&text) {
        let tree = Tree::parse(path, redisson::prepare(&text, variable))?;
        if redisson::is(&tree) {
            return redisson::read(&tree);
        }
    }
    own(&Tree::parse(path, text)?).map(|layer| vec![layer])
}

fn own(tree: &Tree<'_>) -> Result<Layer, ConfigError> {
    let mut layer = Layer::default();
    for (key, value) in &tree.root {
        let Some(key) = key.as_str() else { return Err(tree.value("", "names of settings as keys")) };
        let value = match (key, setting(key)) {
            ("url", _) => {
                let Some(Value::One(text)) = tree.plain(key, value, true)? else { continue };
                layer.join(url::read(&text, &tree.at(key).to_string())?)?;
                continue;
            }
            (_, Some(setting)) => {
                let literal = matches!(setting.form, Form::Text(..) | Form::Secret(_) | Form::File(_));
                tree.plain(key, value, literal)?
            }
            // Its name is what is wrong, whatever its value is.
            (_, None) => Some(Value::One(String::new())),
        };
        if let Some(value) = value {
            layer.set(key, value, tree.at(key))?;
            layer.names_servers |= setting(key).is_some_and(|setting| setting.group == Group::Servers);
        }
    }
    Ok(layer)
}

impl<'a> Tree<'a> {
    /// Parses by the file's extension.
    fn parse(path: &'a Path, text: String) -> Result<Self, ConfigError> {
        let syntax = |format, line, column| ConfigError::Syntax { path: path.into(), format, line, column };
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let root: Yaml = match extension {
            // An empty file has no servers, which is told later.
            _ if text.trim().is_empty() => Yaml::Mapping(Mapping::new()),
            "yaml" | "yml" => yaml_serde::from_str(&text).map_err(|error| {
                let (line, column) = error.location().map_or((1, 1), |place| (place.line(), place.column()));
                syntax("YAML", line, column)
            })?,
            "toml" => toml::from_str(&text).map_err(|error| {
                let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default();
                let line_start = before.rfind('\n').map_or(0, |end| end + 1);
                syntax("TOML", before.matches('\n').count() + 1, before.len() - line_start + 1)
            })?,
            "json" => {
                serde_json::from_str(&text).map_err(|error| syntax("JSON", error.line(), error.column().max(1)))?
            }
            _ => {
                let origin = Origin::File { key: "extension".into(), path: path.into() };
                return Err(ConfigError::value(&origin, "`yaml`, `yml`, `toml` or `json`"));
            }
        };
        match root {
            Yaml::Mapping(root) => Ok(Tree { path, root, text }),
            Yaml::Null => Ok(Tree { path, root: Mapping::new(), text }),
            _ => Err(ConfigError::value(&Origin::File { key: "/".into(), path: path.into() }, "one key per setting")),
        }
    }

    pub(super) fn at(&self, key: &str) -> Origin {
        Origin::File { key: key.into(), path: self.path.into() }
    }

    pub(super) fn value(&self, key: &str, expected: &str) -> ConfigError {
        ConfigError::value(&self.at(key), expected)
    }

    /// A text or a list of texts; null is `None`. A number that is meant as text must be one that is written as it is read.
    pub(super) fn plain(&self, key: &str, value: &Yaml, literal: bool) -> Result<Option<Value>, ConfigError> {
        match value {
            Yaml::Null => Ok(None),
            Yaml::Sequence(all) => {
                let texts = all.iter().map(|one| match self.plain(key, one, literal)? {
                    Some(Value::One(text)) => Ok(text),
                    _ => Err(self.value(key, "texts in the list")),
                });
                Ok(Some(Value::Many(texts.collect::<Result<_, _>>()?)))
            }
            Yaml::Bool(yes) => Ok(Some(Value::One(yes.to_string()))),
            Yaml::Number(number) => match number.to_string() {
                number if literal && !self.text.contains(&number) => Err(self.value(key, "text in quotes")),
                number => Ok(Some(Value::One(number))),
            },
            Yaml::String(text) => Ok(Some(Value::One(text.clone()))),
            Yaml::Mapping(_) | Yaml::Tagged(_) => Err(self.value(key, "one value")),
        }
    }
}
