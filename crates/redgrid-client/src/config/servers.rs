//! The servers that hold the data.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use super::access::{Provider, Secret};

/// The servers that hold the data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Servers {
    /// One server. A host name is resolved again for every connection.
    Single(Address),
    /// One server on this machine, by the path of its socket: `unixsocket` in the server's own
    /// configuration.
    Unix(PathBuf),
    /// A fixed primary and its replicas.
    MasterSlave(MasterSlave),
    /// A primary and its replicas, without sentinels, in any order. An external system, such as a
    /// managed service, can promote any of the replicas. The client queries the `ROLE` of each node
    /// to find the primary.
    Replicated(Vec<Address>),
    /// A primary that sentinels monitor.
    Sentinel(Sentinel),
    /// A cluster: its slots are distributed over several primaries. These are some of its nodes.
    /// One node that answers is enough: it reports all others.
    Cluster(Vec<Address>),
}

/// A fixed primary and its replicas. No replica is promoted automatically. After a manual
/// promotion, this configuration must be changed too.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MasterSlave {
    /// The primary.
    pub primary: Address,
    /// The replicas of the primary, for reads.
    pub replicas: Vec<Address>,
}

/// A primary and replicas that sentinels monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sentinel {
    /// The sentinels. One sentinel that answers is enough.
    pub sentinels: Vec<Address>,
    /// The name that the sentinels use for the primary.
    pub master_name: String,
    /// The user at the sentinels. `None` means the default user.
    pub username: Option<String>,
    /// The password at the sentinels. `None` when they need no password, or when `provider`
    /// supplies it.
    pub password: Option<Secret>,
    /// Supplies user and password at the sentinels, instead of `username` and `password`.
    pub provider: Option<Provider>,
}

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Address {
    /// Host name or IP address, IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Address {
    /// Creates an address from host and port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Address { host: host.into(), port }
    }

    /// Parses `host`, `host:port` or `[ipv6]:port`. The error never contains the text, which may be
    /// a URL with a password.
    pub(super) fn read(text: &str, default_port: u16) -> Result<Self, String> {
        if text.contains("://") {
            return Err("`host:port`; a whole URL goes into `url`".into());
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or("a `]` at the end of the IPv6 address")?;
                host.parse::<Ipv6Addr>().map_err(|_| "an IPv6 address between `[` and `]`")?;
                match rest.strip_prefix(':') {
                    None if rest.is_empty() => (host, None),
                    None => return Err("a `:` and the port after `]`".into()),
                    port => (host, port),
                }
            }
            // The text is ambiguous: `::1:6379` as a whole is also a valid IPv6 address. Only
            // brackets show where the port begins.
            None if text.matches(':').count() > 1 => {
                return Err("an IPv6 address in brackets, like `[::1]:6379`".into());
            }
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err("a host, like `host:6379`".into());
        }
        if host.contains('$') {
            return Err("a host name or an IP address, found a variable: `$` has no meaning in it".into());
        }
        if host.contains(|c: char| !c.is_alphanumeric() && !"-._:".contains(c)) {
            return Err("a host name or an IP address, like `host:6379`".into());
        }
        // The system's resolver would accept a number alone, such as a port, as an IPv4 address.
        if host.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("a host in front of the port, like `host:6379`".into());
        }
        let port = port.map_or(Ok(default_port), |port| match port.parse() {
            Ok(0) | Err(_) => Err("a port from 1 to 65535 after the `:`"),
            Ok(port) => Ok(port),
        })?;
        Ok(Address { host: host.to_owned(), port })
    }

    /// Parses a list of at least one address.
    pub(super) fn read_all(texts: &[&str], default_port: u16) -> Result<Vec<Self>, String> {
        let mut all: Vec<Address> = Vec::new();
        for text in texts {
            let address = Address::read(text.trim(), default_port)?;
            if all.contains(&address) {
                return Err("each address once".into());
            }
            all.push(address);
        }
        if all.is_empty() { Err("at least one `host:port`".into()) } else { Ok(all) }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_a_port() {
        for (text, host, port) in [
            ("h", "h", 6379),
            ("h:1", "h", 1),
            ("10.0.0.1:7000", "10.0.0.1", 7000),
            ("[::1]:7", "::1", 7),
            ("[::1]", "::1", 6379),
            ("my_host-1.internal", "my_host-1.internal", 6379),
        ] {
            assert_eq!(Address::read(text, 6379), Ok(Address::new(host, port)), "{text}");
        }
        for text in [
            "",
            ":1",
            "h:",
            "h:0",
            "h:65536",
            "h:x",
            "[::1",
            "[h]:1",
            "[::1]7",
            "u@h",
            "h/2",
            "a b",
            "redis://h",
            "::1",
            "::1:6379",
            "2001:db8::1",
            "h:1:2",
            "$HOST",
            "${HOST}:1",
            "a;b",
            "{{host}}",
            "<host>",
            "6379",
            "\"h\"",
        ] {
            assert!(Address::read(text, 6379).is_err(), "{text}");
        }
        assert!(Address::read_all(&["a", "a:6379"], 6379).is_err());
        assert_eq!(Address::new("::1", 7).to_string(), "[::1]:7");
    }
}
