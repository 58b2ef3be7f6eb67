//! The host names under which the console answers.
//!
//! A page of an attacker can let its own name point to this machine (DNS rebinding). The browser
//! then sends the attacker's name as `Host`. So names must be listed. An IP address as `Host` is
//! safe: no name was resolved.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::header::HOST;
use axum::http::request::Parts;

/// Which hosts are served.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    is_any: bool,
    names: Vec<String>,
}

impl Hosts {
    /// Accepts this name, without a port.
    pub(crate) fn allow(&mut self, name: &str) {
        self.names.push(name.trim().trim_end_matches('.').to_ascii_lowercase());
    }

    /// Accepts every host.
    pub(crate) fn allow_any(&mut self) {
        self.is_any = true;
    }

    /// Returns whether a request is for one of the hosts.
    pub(crate) fn accept(&self, parts: &Parts) -> bool {
        self.is_any || host(parts).is_some_and(|host| self.has(host))
    }

    fn has(&self, host: &str) -> bool {
        let name = without_port(host);
        if let Some(address) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            return address.parse::<Ipv6Addr>().is_ok();
        }
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        name == "localhost" || name.parse::<Ipv4Addr>().is_ok() || self.names.contains(&name)
    }
}

/// Returns the host of a request; `None` if it has none, or several.
pub(crate) fn host(parts: &Parts) -> Option<&str> {
    let mut all = parts.headers.get_all(HOST).iter();
    match (parts.uri.authority(), all.next(), all.next()) {
        (_, _, Some(_)) => None,
        // HTTP/2, or a request with an absolute target: the target counts.
        (Some(authority), _, _) => Some(authority.as_str()),
        (None, Some(host), None) => host.to_str().ok(),
        (None, None, None) => None,
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn accepts(hosts: &Hosts, host: &str) -> bool {
        hosts.accept(&Request::builder().header(HOST, host).body(()).unwrap().into_parts().0)
    }

    #[test]
    fn addresses_and_listed_names_are_served() {
        let mut hosts = Hosts::default();
        hosts.allow("Console.Example.com.");
        for host in [
            "localhost",
            "localhost:7979",
            "127.0.0.1:7979",
            "10.1.2.3",
            "[::1]:7979",
            "[::1]",
            "console.example.com",
            "CONSOLE.example.com.:443",
        ] {
            assert!(accepts(&hosts, host), "{host}");
        }
        for host in [
            "",
            ":7979",
            "evil.example.com",
            "localhost.evil.example.com",
            "127.0.0.1.evil.example.com",
            "[evil.example.com]",
            "console.example.com@evil.example.com",
            "::1",
        ] {
            assert!(!accepts(&hosts, host), "{host}");
        }
        hosts.allow_any();
        assert!(accepts(&hosts, "evil.example.com"));
    }

    #[test]
    fn a_request_without_a_host_or_with_two_is_refused() {
        let none = Request::builder().body(()).unwrap().into_parts().0;
        let two = Request::builder().header(HOST, "localhost").header(HOST, "localhost").body(()).unwrap();
        assert!(!Hosts::default().accept(&none) && !Hosts::default().accept(&two.into_parts().0));
    }
}
