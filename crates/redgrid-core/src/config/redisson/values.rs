//! How Redisson's values are read.

use std::time::Duration;

use yaml_serde::{Mapping, Value as Yaml};

use super::super::error::ConfigError;
use super::super::file::Tree;
use super::super::form::{Value, shown};
use super::super::layer::Layer;
use super::Reader;
use super::keys::{Section, Take};

impl Reader<'_> {
    pub(super) fn one(&self, key: &str, take: &Take, value: &Yaml, layer: &mut Layer) -> Result<(), ConfigError> {
        let path = self.path(key);
        let origin = self.tree.at(&path);
        match *take {
            Take::Millis(setting) | Take::MillisOrOff(setting) => {
                let millis = self
                    .text(key, value)?
                    .parse()
                    .map_err(|_| self.tree.value(&path, "milliseconds, a whole number"))?;
                if millis == 0 && matches!(take, Take::MillisOrOff(_)) {
                    layer.warn(origin, format!("this can not be switched off; `{setting}` has its default"));
                    return Ok(());
                }
                layer.set_one(setting, shown(Duration::from_millis(millis)), origin)
            }
            Take::Plain(setting) => layer.set_one(setting, self.text(key, value)?, origin),
            Take::Address(setting) => match address(&self.text(key, value)?) {
                Ok(Place::Tcp(address, _)) => layer.set_one(setting, address, origin),
                Ok(Place::Unix(path)) if setting == "single" => layer.set_one("unix", path, origin),
                _ => Err(self.tree.value(&path, ADDRESS)),
            },
            Take::Addresses(setting) => {
                let mut all = Vec::new();
                for one in each(value) {
                    match address(&self.text(key, one)?) {
                        Ok(Place::Tcp(address, _)) => all.push(address),
                        _ => return Err(self.tree.value(&path, ADDRESS)),
                    }
                }
                match all.is_empty() && setting == "replicas" {
                    true => Ok(()),
                    false => layer.set(setting, Value::Many(all), origin),
                }
            }
            Take::Word(setting, words) => {
                let text = self.text(key, value)?;
                match words.iter().find(|(java, _)| *java == text) {
                    Some((_, word)) => layer.set_one(setting, *word, origin),
                    None => {
                        let words: Vec<_> = words.iter().map(|(java, _)| format!("`{java}`")).collect();
                        Err(self.tree.value(&path, &format!("one of {}", words.join(", "))))
                    }
                }
            }
            Take::Delay(setting) => {
                let expected = "a delay with `baseDelay` (or `delay`), like `!<org.redisson.config.EqualJitterDelay> {baseDelay: \"PT1S\", maxDelay: \"PT2S\"}`";
                let delay = delay(value).ok_or_else(|| self.tree.value(&path, expected))?;
                layer.set_one(setting, shown(delay), origin)
            }
            Take::Codec => {
                layer.codec = Some(class(value).ok_or_else(|| {
                    self.tree.value(&path, "a Java class, like `!<org.redisson.codec.Kryo5Codec> {}`")
                })?);
                Ok(())
            }
            Take::TrustStore => {
                let file = self.text(key, value)?;
                let file = file.strip_prefix("file:").unwrap_or(&file);
                // `file:///path` and `file:/path` are the same.
                let file = file.strip_prefix("//").unwrap_or(file);
                let is_pem = [".pem", ".crt", ".cer"].iter().any(|end| file.ends_with(end));
                match is_pem && self.encrypted {
                    true => layer.set_one("tls_ca_file", file, origin),
                    false if !self.encrypted => {
                        layer.warn(origin, "no address says `rediss://`, so nothing is encrypted");
                        Ok(())
                    }
                    false => {
                        layer.warn(
                            origin,
                            "a Java key store can not be read here; give its authorities as PEM in `tls_ca_file`",
                        );
                        Ok(())
                    }
                }
            }
            Take::Already(usual, clause) => {
                if self.text(key, value)? != usual {
                    layer.warn(origin, clause);
                }
                Ok(())
            }
            Take::Class(usual, clause) => {
                if class(value).as_deref() != Some(usual) {
                    layer.warn(origin, clause);
                }
                Ok(())
            }
            Take::Vital(usual, clause) => match class(value).as_deref() == Some(usual) {
                true => Ok(()),
                false => Err(ConfigError::Unsupported { origin, clause: clause.into() }),
            },
            Take::Ignored(clause) => {
                layer.warn(origin, clause);
                Ok(())
            }
        }
    }
}

const ADDRESS: &str = "`redis://host:port` or `rediss://host:port`, without user and password";

enum Place {
    /// `host:port`, and whether it is encrypted.
    Tcp(String, bool),
    Unix(String),
}

/// Whether the addresses of a section ask for encryption; they must agree.
pub(super) fn encrypted(tree: &Tree<'_>, section: &Section, inner: &Mapping) -> Result<bool, ConfigError> {
    let addresses = ["address", "sentinelAddresses", "masterAddress", "slaveAddresses", "nodeAddresses"];
    let mut first = None;
    for key in addresses {
        for value in inner.get(key).into_iter().flat_map(each) {
            let Some(Ok(Place::Tcp(_, encrypted))) = value.as_str().map(address) else { continue };
            if *first.get_or_insert(encrypted) != encrypted {
                let expected = "all addresses with `redis://`, or all with `rediss://`";
                return Err(tree.value(&format!("{}.{key}", section.name), expected));
            }
        }
    }
    if section.is_cluster() && inner.get("nodeAddresses").is_none() {
        return Err(tree.value("clusterServersConfig.nodeAddresses", "at least one address"));
    }
    Ok(first.unwrap_or_default())
}

fn each(value: &Yaml) -> impl Iterator<Item = &Yaml> {
    match value {
        Yaml::Sequence(all) => all.iter(),
        one => std::slice::from_ref(one).iter(),
    }
}

/// `redis://host:port` and its kin. The error says nothing: the text may hold a password.
fn address(text: &str) -> Result<Place, ()> {
    let (scheme, rest) = text.trim().split_once("://").ok_or(())?;
    let tcp = |encrypted| {
        let host = rest.trim_end_matches('/');
        // Redisson wants the port, and so does everybody who reads the file.
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = super::super::servers::Address::read(host, 6379).map_err(drop)?;
        if has_port { Ok(Place::Tcp(address.to_string(), encrypted)) } else { Err(()) }
    };
    match scheme {
        "redis" | "valkey" => tcp(false),
        "rediss" | "valkeys" => tcp(true),
        "redis+uds" | "valkey+uds" => Ok(Place::Unix(rest.to_owned())),
        _ => Err(()),
    }
}

/// The Java class of a value: its tag in YAML, the key `class` in JSON.
fn class(value: &Yaml) -> Option<String> {
    match value {
        Yaml::Tagged(tagged) => Some(tagged.tag.to_string().trim_start_matches('!').to_owned()),
        Yaml::Mapping(mapping) => mapping.get("class")?.as_str().map(str::to_owned),
        _ => None,
    }
}

/// The first delay of a strategy; later ones grow, which ours do not.
fn delay(value: &Yaml) -> Option<Duration> {
    let fields = match value {
        Yaml::Tagged(tagged) => tagged.value.as_mapping()?,
        value => value.as_mapping()?,
    };
    match fields.get("baseDelay").or_else(|| fields.get("delay"))? {
        Yaml::String(text) => iso(text),
        // Jackson's numbers for a duration are seconds.
        Yaml::Number(number) => Duration::try_from_secs_f64(number.as_f64()?).ok(),
        _ => None,
    }
}

/// A duration of ISO 8601 as Java writes it: `PT1.5S`, `PT1M`, `P1DT2H`.
fn iso(text: &str) -> Option<Duration> {
    let (days, time) = text.strip_prefix('P')?.split_once('T').unwrap_or((text.strip_prefix('P')?, ""));
    let mut total = match days {
        "" => Duration::ZERO,
        days => Duration::from_secs(24 * 3600).checked_mul(days.strip_suffix('D')?.parse().ok()?)?,
    };
    let mut rest = time;
    for (unit, seconds) in [('H', 3600.0), ('M', 60.0), ('S', 1.0)] {
        if let Some((number, after)) = rest.split_once(unit) {
            let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
            (total, rest) = (total.checked_add(part)?, after);
        }
    }
    (rest.is_empty() && text.len() > 2).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_java() {
        for (text, millis) in [
            ("PT1S", 1000),
            ("PT0.25S", 250),
            ("PT1M30S", 90_000),
            ("PT2H", 7_200_000),
            ("P1D", 86_400_000),
            ("P1DT1S", 86_401_000),
        ] {
            assert_eq!(iso(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "P", "PT", "1S", "PT1", "PT1X", "PTS", "PT-1S", "PT1S1M"] {
            assert_eq!(iso(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_have_a_scheme_and_a_port() {
        for text in ["h:1", "redis://h", "redis://u:p@h:1", "http://h:1", "redis://"] {
            assert!(address(text).is_err(), "{text}");
        }
        assert!(matches!(address("rediss://[::1]:7"), Ok(Place::Tcp(a, true)) if a == "[::1]:7"));
    }
}
