//! The parser of URLs. It uses no URL library, because a standard URL has only one host.

use percent_encoding::percent_decode_str;

use super::error::{ConfigError, Origin};
use super::form::Value;
use super::layer::Layer;
use super::table::{SERVERS, setting};

/// The kind of servers, which follows from the scheme of the URL.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Single,
    Unix,
    MasterSlave,
    Replicated,
    Sentinel,
    Cluster,
}

/// The parts of a URL. The field `url` is not the URL, but its name in error messages: `the URL`,
/// or the variable or file key that contains the URL.
struct Parts<'a> {
    kind: Kind,
    tls: bool,
    user_info: Option<&'a str>,
    hosts: &'a str,
    path: &'a str,
    query: &'a str,
    url: &'a str,
}

/// Parses a URL. `source` is the name of the URL in error messages, such as `the URL` or
/// `REDGRID_URL`.
///
/// # Errors
///
/// [`ConfigError`] names the invalid part. The error never contains text of the URL, because in a
/// mistyped URL any part may be a password.
pub(super) fn read(text: &str, source: &str) -> Result<Layer, ConfigError> {
    let parts = Parts::split(text.trim(), source)?;
    let mut layer = Layer::of_servers();
    parts.servers(&mut layer)?;
    parts.access(&mut layer)?;
    parts.settings(&mut layer)?;
    Ok(layer)
}

impl<'a> Parts<'a> {
    fn split(text: &'a str, url: &'a str) -> Result<Self, ConfigError> {
        let bad = |expected: &str| bad(url, expected);
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| bad("a URL like redis://user:password@host:6379/0"))?;
        let (kind, tls) = kind(scheme).ok_or_else(|| {
            bad("the scheme `redis`, `redis-sentinel`, `redis-cluster`, `redis-master-slave`, `redis-replicated` or `redis+unix`, or with `rediss` or `valkey`")
        })?;
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if rest.contains('@') {
            return Err(bad("`/`, `?`, `#` and `@` in user and password as %2F, %3F, %23 and %40"));
        }
        if rest.contains('#') {
            return Err(bad(&format!("no `#` part: {}", super::hints::VERIFIED)));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user_info, hosts) =
            authority.rsplit_once('@').map_or((None, authority), |(info, hosts)| (Some(info), hosts));
        if user_info.is_some_and(|info| info.contains('@')) {
            return Err(bad("`@` in user and password as %40"));
        }
        Ok(Parts { kind, tls, user_info, hosts, path, query, url })
    }

    fn at(&self, key: &str) -> Origin {
        Origin::Url { key: key.into(), url: self.url.into() }
    }

    fn servers(&self, layer: &mut Layer) -> Result<(), ConfigError> {
        if self.kind == Kind::Unix {
            if !self.hosts.is_empty() {
                return Err(bad(self.url, "no host, and the path of the socket, like redis+unix:///run/redis.sock"));
            }
            return layer.set_one("unix", self.decoded(self.path)?, self.at("path"));
        }
        let hosts: Vec<String> = self.hosts.split(',').map(str::to_owned).collect();
        if hosts.iter().any(String::is_empty) {
            return Err(bad(self.url, "a host after `//` (and after each comma)"));
        }
        let mut segments = self.path.split('/').filter(|segment| !segment.is_empty());
        let name = if self.kind == Kind::Sentinel { segments.next() } else { None };
        if let Some(database) = segments.next() {
            if self.kind == Kind::Cluster {
                return Err(bad(self.url, "no path: a cluster has only database 0"));
            }
            let number = database.parse::<u8>().ok().filter(|_| segments.next().is_none());
            let number = number.ok_or_else(|| bad(self.url, "a database number from 0 to 255 as the path"))?;
            layer.set_one("database", number.to_string(), self.at("database"))?;
        }
        match (self.kind, &hosts[..]) {
            (Kind::Single, [host]) => layer.set_one("single", host, self.at("host")),
            (Kind::Single, _) => {
                let expected = "one host; several are redis-cluster://, redis-sentinel://, redis-master-slave:// or redis-replicated://";
                Err(bad(self.url, expected))
            }
            (Kind::MasterSlave, [primary, replicas @ ..]) => {
                layer.set_one("primary", primary, self.at("host"))?;
                if replicas.is_empty() {
                    return Ok(());
                }
                layer.set("replicas", Value::Many(replicas.to_vec()), self.at("host"))
            }
            (Kind::Replicated, _) => layer.set("replicated", Value::Many(hosts), self.at("host")),
            (Kind::Sentinel, _) => {
                let name = name.ok_or_else(|| bad(self.url, "the name of the primary as the path, like /mymaster"))?;
                layer.set_one("master_name", self.decoded(name)?, self.at("path"))?;
                layer.set("sentinels", Value::Many(hosts), self.at("host"))
            }
            _ => layer.set("cluster", Value::Many(hosts), self.at("host")),
        }
    }

    fn access(&self, layer: &mut Layer) -> Result<(), ConfigError> {
        let Some(info) = self.user_info else { return Ok(()) };
        let (user, password) = info.split_once(':').map_or((info, None), |(user, password)| (user, Some(password)));
        if !user.is_empty() {
            layer.set_one("username", self.decoded(user)?, self.at("user"))?;
        }
        if let Some(password) = password {
            layer.set_one("password", self.decoded(password)?, self.at("password"))?;
        }
        Ok(())
    }

    fn settings(&self, layer: &mut Layer) -> Result<(), ConfigError> {
        let mut encrypted = self.tls;
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| bad(self.url, "`setting=value` after the `?`"))?;
            let is_name = key.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-'));
            if !is_name {
                return Err(bad(self.url, "names of settings after the `?`"));
            }
            let value = self.decoded(value)?;
            let here = setting(key).filter(|setting| setting.group == SERVERS);
            if here.is_some_and(|_| !key.starts_with("sentinel_")) {
                let expected = format!("the servers before the `?`, not as the setting `{key}`");
                return Err(bad(self.url, &expected));
            }
            if key == "tls" && self.tls {
                if value != "true" {
                    return Err(bad(self.url, "the scheme or `tls=false`, not both: the scheme encrypts"));
                }
                continue;
            }
            encrypted |= key == "tls" && value == "true";
            layer.set_one(key, value, self.at(key))?;
        }
        if self.tls && encrypted {
            layer.set_one("tls", "true", self.at("scheme"))?;
        }
        Ok(())
    }

    fn decoded(&self, text: &str) -> Result<String, ConfigError> {
        let broken = text
            .split('%')
            .skip(1)
            .any(|rest| !rest.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)));
        let decoded = percent_decode_str(text).decode_utf8().ok().filter(|_| !broken);
        decoded.map(String::from).ok_or_else(|| bad(self.url, "UTF-8, percent-encoded, with `%` itself as %25"))
    }
}

fn bad(url: &str, expected: &str) -> ConfigError {
    ConfigError::Url { url: url.into(), expected: expected.into() }
}

/// Returns the kind of servers for a scheme, and whether the scheme encrypts the connections.
fn kind(scheme: &str) -> Option<(Kind, bool)> {
    if matches!(scheme, "unix" | "redis+uds") {
        return Some((Kind::Unix, false));
    }
    let (protocol, kind) = match scheme.find(['-', '+']) {
        Some(end) => scheme.split_at(end),
        None => (scheme, ""),
    };
    let tls = match protocol {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return None,
    };
    let kind = match kind {
        "" => Kind::Single,
        "+unix" if !tls => Kind::Unix,
        "-master-slave" => Kind::MasterSlave,
        "-replicated" => Kind::Replicated,
        "-sentinel" => Kind::Sentinel,
        "-cluster" => Kind::Cluster,
        _ => return None,
    };
    Some((kind, tls))
}
