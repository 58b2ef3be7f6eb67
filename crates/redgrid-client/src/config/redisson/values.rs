//! Parsers of Redisson's values.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use yaml_serde::{Mapping, Value as Yaml};

use super::super::error::{ConfigError, Origin};
use super::super::file::Tree;
use super::super::form::{Value, shown};
use super::super::layer::Layer;
use super::super::servers::Address;
use super::Reader;
use super::keys::{Section, Take};

impl Reader<'_> {
    pub(super) fn one(&self, key: &str, take: &Take, value: &Yaml, layer: &mut Layer) -> Result<(), ConfigError> {
        let path = self.path(key);
        let origin = self.tree.at(&path);
        let clause = match *take {
            Take::Millis(setting) | Take::MillisOrOff(setting) => {
                let millis = self
                    .text(key, value)?
                    .parse()
                    .map_err(|_| self.tree.value(&path, "milliseconds, a whole number"))?;
                if millis != 0 || matches!(take, Take::Millis(_)) {
                    return layer.set_one(setting, shown(Duration::from_millis(millis)), origin);
                }
                format!("this cannot be switched off; `{setting}` has its default")
            }
            Take::Plain(setting) if self.addresses.has(setting) => {
                "the address contains this value too, and overrides it".into()
            }
            Take::Plain(setting) => return layer.set_one(setting, self.text(key, value)?, origin),
            Take::Address(setting) => {
                let text = self.text(key, value)?;
                return match socket(&text).filter(|_| setting == "single") {
                    Some(socket) => layer.set_one("unix", socket, origin),
                    None => layer.set_one(setting, self.tcp(&path, &text)?, origin),
                };
            }
            Take::Addresses(setting) => {
                let all =
                    each(value).map(|one| self.tcp(&path, &self.text(key, one)?)).collect::<Result<Vec<_>, _>>()?;
                if all.is_empty() && setting == "replicas" {
                    return Ok(());
                }
                return layer.set(setting, Value::Many(all), origin);
            }
            Take::Word(setting, words) => {
                let text = self.text(key, value)?;
                let Some((_, word)) = words.iter().find(|(java, _)| *java == text) else {
                    let words: Vec<_> = words.iter().map(|(java, _)| format!("`{java}`")).collect();
                    return Err(self.tree.value(&path, &format!("one of {}", words.join(", "))));
                };
                return layer.set_one(setting, *word, origin);
            }
            Take::Delay(setting) => {
                let expected = "a delay with `baseDelay` (or `delay`), like `!<org.redisson.config.EqualJitterDelay> {baseDelay: \"PT1S\", maxDelay: \"PT2S\"}`";
                let delay = delay(value).ok_or_else(|| self.tree.value(&path, expected))?;
                return layer.set_one(setting, shown(delay), origin);
            }
            Take::Codec => {
                let expected = "a Java class, like `!<org.redisson.codec.Kryo5Codec> {}`";
                layer.codec = Some(class(value).ok_or_else(|| self.tree.value(&path, expected))?);
                return Ok(());
            }
            Take::TrustStore => {
                let file = self.text(key, value)?;
                let file = file.strip_prefix("file:").unwrap_or(&file);
                // `file:///path` and `file:/path` name the same file.
                let file = file.strip_prefix("//").unwrap_or(file);
                let is_pem = [".pem", ".crt", ".cer"].iter().any(|end| file.ends_with(end));
                if is_pem && self.addresses.encrypted {
                    return layer.set_one("tls_ca_file", file, origin);
                } else if self.addresses.encrypted {
                    "a Java key store cannot be read here; give its authorities as PEM in `tls_ca_file`".into()
                } else {
                    "no address begins with `rediss://`, so nothing is encrypted".into()
                }
            }
            Take::Already(usual, _) if self.text(key, value)?.eq_ignore_ascii_case(usual) => return Ok(()),
            Take::Class(usual, _) | Take::Vital(usual, _) if class(value).as_deref() == Some(usual) => return Ok(()),
            Take::Vital(_, clause) => return Err(ConfigError::Unsupported { origin, clause: clause.into() }),
            Take::Already(_, clause) | Take::Class(_, clause) | Take::Ignored(clause) => clause.into(),
        };
        layer.warn(origin, clause);
        Ok(())
    }

    /// Returns `host:port` of an address with a scheme.
    fn tcp(&self, path: &str, text: &str) -> Result<String, ConfigError> {
        let tcp = Tcp::parse(text).ok_or_else(|| self.tree.value(path, "`redis://host:port` or `rediss://host:port`"));
        tcp.map(|tcp| tcp.address)
    }
}

/// A TCP address and its login.
#[derive(Debug, Clone, PartialEq)]
struct Tcp {
    /// `host:port`.
    address: String,
    is_encrypted: bool,
    login: Login,
}

/// The user and password in an address.
#[derive(Debug, Default, Clone, PartialEq)]
struct Login {
    username: Option<String>,
    password: Option<String>,
}

/// The settings that all addresses of a section share: encryption, and a login.
#[derive(Default)]
pub(super) struct AddressSettings {
    pub(super) encrypted: bool,
    /// The user and the password, if the addresses contain them. Each entry has the name of the
    /// setting, its value, and the key of the addresses in the file.
    logins: Vec<(&'static str, String, &'static str)>,
}

/// The keys with addresses as values.
const ADDRESSES: [&str; 5] = ["address", "sentinelAddresses", "masterAddress", "slaveAddresses", "nodeAddresses"];

impl AddressSettings {
    pub(super) fn of(tree: &Tree<'_>, section: &Section, inner: &Mapping) -> Result<Self, ConfigError> {
        let mut first: Option<(&'static str, Tcp)> = None;
        for key in ADDRESSES {
            for value in inner.get(key).into_iter().flat_map(each) {
                let Some(tcp) = value.as_str().and_then(Tcp::parse) else { continue };
                let (_, first) = first.get_or_insert_with(|| (key, tcp.clone()));
                let path = format!("{}.{key}", section.name);
                if first.is_encrypted != tcp.is_encrypted {
                    return Err(tree.value(&path, "all addresses with `redis://`, or all with `rediss://`"));
                }
                if first.login != tcp.login {
                    return Err(tree.value(&path, "the same user and password in all addresses, or in none"));
                }
            }
        }
        if section.address == "nodeAddresses" && inner.get("nodeAddresses").is_none() {
            return Err(tree.value(&format!("{}.nodeAddresses", section.name), "at least one address"));
        }
        let Some((key, Tcp { is_encrypted, login, .. })) = first else { return Ok(AddressSettings::default()) };
        // A login in the address of a sentinel is for the sentinels, not for the servers.
        let names = if section.address == "sentinelAddresses" {
            ["sentinel_username", "sentinel_password"]
        } else {
            ["username", "password"]
        };
        let both = names.into_iter().zip([login.username, login.password]);
        let logins = both.filter_map(|(name, text)| Some((name, text?, key))).collect();
        Ok(AddressSettings { encrypted: is_encrypted, logins })
    }

    /// Returns whether an address contains a value for this setting. That value overrides the value
    /// of the setting's own key, as in Redisson.
    pub(super) fn has(&self, setting: &str) -> bool {
        self.logins.iter().any(|(name, ..)| *name == setting)
    }

    /// Adds the user and the password from the addresses to the layer.
    pub(super) fn set_logins(&self, layer: &mut Layer, at: impl Fn(&str) -> Origin) -> Result<(), ConfigError> {
        self.logins.iter().try_for_each(|(name, text, key)| layer.set_one(name, text, at(key)))
    }
}

fn each(value: &Yaml) -> impl Iterator<Item = &Yaml> {
    match value {
        Yaml::Sequence(all) => all.iter(),
        one => std::slice::from_ref(one).iter(),
    }
}

/// Returns the path in an address of a Unix socket.
fn socket(text: &str) -> Option<&str> {
    let text = text.trim();
    text.strip_prefix("redis+uds://").or_else(|| text.strip_prefix("valkey+uds://"))
}

impl Tcp {
    /// Parses `redis://user:password@host:port` and similar, as Redisson's `RedisURI` does.
    fn parse(text: &str) -> Option<Tcp> {
        let (scheme, rest) = text.trim().split_once("://")?;
        let is_encrypted = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return None,
        };
        let (login, rest) = match rest.rsplit_once('@') {
            // Java's parser also rejects a second `@`.
            Some((login, _)) if login.contains('@') => return None,
            Some((login, rest)) => (Login::parse(login)?, rest),
            None => (Login::default(), rest),
        };
        // Redisson requires the port. The host can be an IPv6 address without brackets.
        let (host, port) = rest.trim_end_matches('/').rsplit_once(':')?;
        let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
        let address = Address::read(&format!("{host}:{port}"), 6379).ok()?.to_string();
        Some(Tcp { address, is_encrypted, login })
    }
}

impl Login {
    /// Parses `user:password`. A text without a colon is a password.
    fn parse(text: &str) -> Option<Login> {
        // A `+` means a space, as in Java's `URLDecoder`.
        let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().ok().map(String::from);
        let (user, password) = text.split_once(':').unwrap_or(("", text));
        let username = if user.is_empty() { None } else { Some(decode(user)?) };
        Some(Login { username, password: Some(decode(password)?) })
    }
}

/// Returns the Java class of a value: its tag in YAML, the key `class` in JSON.
fn class(value: &Yaml) -> Option<String> {
    match value {
        Yaml::Tagged(tagged) => Some(tagged.tag.to_string().trim_start_matches('!').to_owned()),
        Yaml::Mapping(mapping) => mapping.get("class")?.as_str().map(str::to_owned),
        _ => None,
    }
}

/// Returns the first delay of a delay strategy. In Redisson, later delays can grow; in redgrid,
/// they do not.
fn delay(value: &Yaml) -> Option<Duration> {
    let fields = match value {
        Yaml::Tagged(tagged) => tagged.value.as_mapping()?,
        value => value.as_mapping()?,
    };
    match fields.get("baseDelay").or_else(|| fields.get("delay"))? {
        Yaml::String(text) => iso(text),
        // Jackson, the parser of Redisson, reads a number as seconds.
        Yaml::Number(number) => Duration::try_from_secs_f64(number.as_f64()?).ok(),
        _ => None,
    }
}

/// Parses a duration of ISO 8601 as Java writes it: `PT1.5S`, `PT1M`, `P1DT2H`.
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
            total = total.checked_add(part)?;
            rest = after;
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
        for text in ["h:1", "redis://h", "redis://u:p@x@h:1", "http://h:1", "redis://", "redis://u:p@h", "redis://::1"]
        {
            assert_eq!(Tcp::parse(text), None, "{text}");
        }
        for (text, want, is_encrypted, username, password) in [
            ("rediss://[::1]:7", "[::1]:7", true, None, None),
            ("redis://::1:7/", "[::1]:7", false, None, None),
            ("valkeys://2001:db8::1:6379", "[2001:db8::1]:6379", true, None, None),
            ("redis://user:p%40+s@h:1", "h:1", false, Some("user"), Some("p@ s")),
            ("redis://:a:b@h:1", "h:1", false, None, Some("a:b")),
            ("redis://secret@::1:1", "[::1]:1", false, None, Some("secret")),
        ] {
            let login = Login { username: username.map(str::to_owned), password: password.map(str::to_owned) };
            assert_eq!(Tcp::parse(text), Some(Tcp { address: want.into(), is_encrypted, login }), "{text}");
        }
    }
}
