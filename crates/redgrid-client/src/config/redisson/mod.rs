//! Redisson's own configuration files. Each topology has its own section. Times are in
//! milliseconds, and Java classes are tags.

mod keys;
mod values;

use yaml_serde::{Mapping, Value as Yaml};

use super::error::{ConfigError, nearest};
use super::file::Tree;
use super::form::Value;
use super::layer::Layer;
use keys::{BASE, COMMON, GLOBAL, REPLICAS, SECTIONS, Take, UNSUPPORTED};
use values::AddressSettings;

/// The codec if the file does not set one: Redisson's default since 3.19.
const CODEC: &str = "org.redisson.codec.Kryo5Codec";

/// Returns whether the text may be a configuration file of Redisson. The text is not parsed.
pub(super) fn looks_like(text: &str) -> bool {
    text.contains("ServersConfig") || text.contains("ServerConfig")
}

/// Returns whether this is a file of Redisson: whether it has the section of a Redisson topology.
pub(super) fn is(tree: &Tree<'_>) -> bool {
    let mut names = SECTIONS.iter().map(|section| section.name).chain(UNSUPPORTED);
    names.any(|name| tree.root.contains_key(name))
}

/// Returns the value of an environment variable; `None` if it is not set.
pub(super) type Variable<'a> = &'a dyn Fn(&str) -> Result<Option<String>, ConfigError>;

/// Prepares the text for the parser: replaces variables, and changes tags that the parser would
/// drop.
pub(super) fn prepare(text: &str, variable: Variable<'_>) -> Result<String, ConfigError> {
    Ok(local_tags(&substitute(text, variable)?))
}

/// Replaces `${NAME}` and `${NAME:-default}` as Redisson does: in the whole text, before it is
/// parsed. If a variable has neither a value nor a default, its `${…}` stays in the text. An error
/// is reported when a value that contains this `${…}` is read.
fn substitute(text: &str, variable: Variable<'_>) -> Result<String, ConfigError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let Some(end) = from.find('}') else { break };
        let (whole, after) = from.split_at(end + 1);
        let inner = &whole[2..end];
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned()).filter(|default| !default.is_empty())),
            None => (inner, None),
        };
        let value = if is_variable(name) { variable(name)?.or(default) } else { None };
        out.push_str(value.as_deref().unwrap_or(whole));
        rest = after;
    }
    Ok(out + rest)
}

/// Returns whether this can be the name of a variable.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
}

/// Turns `!<org.redisson.codec.Kryo5Codec>` into `!org.redisson.codec.Kryo5Codec`. A tag in
/// brackets is global, and the parser drops global tags.
fn local_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("!<") {
        let (before, from) = rest.split_at(start);
        let class = from[2..].split('>').next().unwrap_or_default();
        let is_class =
            class.contains('.') && class.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '$'));
        let is_tag = is_class && before.ends_with(|c: char| c.is_whitespace() || matches!(c, '[' | ','));
        out.push_str(before);
        if is_tag && from[2 + class.len()..].starts_with('>') {
            out.push('!');
            out.push_str(class);
            rest = &from[class.len() + 3..];
        } else {
            out.push_str("!<");
            rest = &from[2..];
        }
    }
    out + rest
}

/// Returns two layers. The first has the keys at the top level of the file. The second has the keys
/// in the file's topology section, such as `singleServerConfig`, and overrides the first.
pub(super) fn read(tree: &Tree<'_>) -> Result<Vec<Layer>, ConfigError> {
    let is_set = |name: &str| tree.root.get(name).is_some_and(|section| !section.is_null());
    if let Some(name) = UNSUPPORTED.into_iter().find(|name| is_set(name)) {
        let clause = "is a topology that is not supported here; name the primary by `singleServerConfig`, or all nodes by \
                      `replicatedServersConfig`, `masterSlaveServersConfig`, `sentinelServersConfig` or `clusterServersConfig`";
        return Err(ConfigError::Unsupported { origin: tree.at(name), clause: clause.into() });
    }
    let mut sections = SECTIONS.iter().filter(|section| is_set(section.name));
    let section = sections.next().ok_or_else(|| ConfigError::NoServer {
        expected: "one of `singleServerConfig`, `sentinelServersConfig`, `masterSlaveServersConfig`, \
             `replicatedServersConfig`, `clusterServersConfig`"
            .into(),
    })?;
    if let Some(other) = sections.next() {
        let left = tree.at(section.name).to_string();
        let right = tree.at(other.name).to_string();
        let rule = "each names the servers, and they are of different kinds";
        return Err(ConfigError::Relation { left, right, rule });
    }
    let Some(Yaml::Mapping(inner)) = tree.root.get(section.name) else {
        return Err(tree.value(section.name, "keys and values"));
    };
    let mut reader = Reader { tree, addresses: AddressSettings::of(tree, section, inner)?, prefix: String::new() };
    let mut below = Layer::default();
    below.codec = Some(CODEC.into());
    let others = |key: &str| SECTIONS.iter().any(|section| section.name == key) || UNSUPPORTED.contains(&key);
    reader.all(&tree.root, &[GLOBAL, COMMON], &mut below, &others)?;
    reader.prefix = format!("{}.", section.name);
    let mut above = Layer::of_servers();
    let replicated: &[_] = if section.has_replicas { REPLICAS } else { &[] };
    reader.all(inner, &[section.own, BASE, COMMON, replicated], &mut above, &|_| false)?;
    reader.addresses.set_logins(&mut above, |key| tree.at(&reader.path(key)))?;
    if reader.addresses.encrypted {
        above.set_one("tls", "true", tree.at(&reader.path(section.address)))?;
    }
    if section.has_replicas && !inner.contains_key("readMode") {
        // Redisson reads from replicas by default; redgrid does not.
        above.set_one("read_mode", "replica", tree.at(section.name))?;
    }
    Ok(vec![below, above])
}

/// Reads keys and values according to the tables in the module `keys`.
pub(super) struct Reader<'a> {
    tree: &'a Tree<'a>,
    addresses: AddressSettings,
    prefix: String,
}

impl Reader<'_> {
    fn all(
        &self,
        mapping: &Mapping,
        tables: &[&'static [(&'static str, Take)]],
        layer: &mut Layer,
        skip: &dyn Fn(&str) -> bool,
    ) -> Result<(), ConfigError> {
        for (key, value) in mapping {
            let key = key.as_str().unwrap_or_default();
            if skip(key) {
                continue;
            }
            let known = tables.iter().flat_map(|table| table.iter());
            let Some((_, take)) = known.clone().find(|(name, _)| *name == key) else {
                let names = known.map(|(name, _)| *name);
                return Err(ConfigError::Unknown {
                    origin: self.tree.at(&self.path(key)),
                    nearest: nearest(key, names),
                });
            };
            if key == "retryInterval" && mapping.contains_key("retryDelay") {
                layer.warn(self.tree.at(&self.path(key)), "`retryDelay` sets the same and is newer");
            } else if !value.is_null() {
                self.one(key, take, value, layer)?;
            }
        }
        Ok(())
    }

    fn path(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Returns the text of a value; an error if the text contains a `${…}` without a value.
    fn text(&self, key: &str, value: &Yaml) -> Result<String, ConfigError> {
        let path = self.path(key);
        match self.tree.plain(&path, value, true)? {
            Some(Value::One(text)) if !Self::unresolved(&text) => Ok(text),
            Some(Value::One(_)) => {
                Err(self.tree.value(&path, "a value for the variable in `${…}`, or a default as in `${NAME:-default}`"))
            }
            _ => Err(self.tree.value(&path, "one value, not a list")),
        }
    }

    fn unresolved(text: &str) -> bool {
        text.split("${")
            .skip(1)
            .any(|rest| rest.contains('}') && is_variable(rest.split(['}', ':']).next().unwrap_or_default()))
    }
}

/// Returns all known keys.
#[cfg(test)]
pub(super) fn all_keys() -> impl Iterator<Item = &'static str> {
    let own = SECTIONS.iter().flat_map(|section| section.own.iter());
    [GLOBAL, BASE, COMMON, REPLICAS].into_iter().flatten().chain(own).map(|(key, _)| *key)
}
