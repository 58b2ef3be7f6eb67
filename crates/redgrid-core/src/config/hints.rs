//! Names that other libraries have for settings, and what they are called here.

use super::error::{ConfigError, Origin, nearest};

/// What a foreign name means here.
enum Means {
    /// This setting.
    Setting(&'static str),
    /// None; a clause says what to do instead.
    Nothing(&'static str),
}

use Means::{Nothing, Setting};

pub(super) const VERIFIED: &str = "certificates are always verified; `tls_ca_file` names who may sign them";
const SERVERS: &str = "`single`, `primary`, `replicated`, `sentinels` or `cluster` names the servers";
const ENDLESS: &str = "a lost connection is made again without end; `retries` is about requests";

const NAMES: &[(&str, Means)] = &[
    ("db", Setting("database")),
    ("index", Setting("database")),
    ("user", Setting("username")),
    ("pass", Setting("password")),
    ("pwd", Setting("password")),
    ("auth", Setting("password")),
    ("ssl", Setting("tls")),
    ("encryption", Setting("tls")),
    ("ca", Setting("tls_ca_file")),
    ("ca_file", Setting("tls_ca_file")),
    ("ca_cert", Setting("tls_ca_file")),
    ("cacert", Setting("tls_ca_file")),
    ("cert", Setting("tls_cert_file")),
    ("key", Setting("tls_key_file")),
    ("sni", Setting("tls_server_name")),
    ("host", Setting("single")),
    ("addr", Setting("single")),
    ("address", Setting("single")),
    ("server", Setting("single")),
    ("socket", Setting("unix")),
    ("master", Setting("primary")),
    ("slaves", Setting("replicas")),
    ("sentinel_master", Setting("master_name")),
    ("service_name", Setting("master_name")),
    ("prefix", Setting("namespace")),
    ("key_prefix", Setting("namespace")),
    ("name", Setting("client_name")),
    ("lease", Setting("watchdog_lease")),
    ("ttl", Setting("watchdog_lease")),
    ("pool_size", Setting("connections_per_node")),
    ("max_connections", Setting("connections_per_node")),
    ("command_timeout", Setting("response_timeout")),
    ("socket_timeout", Setting("response_timeout")),
    ("timeout", Setting("response_timeout")),
    ("connection_timeout", Setting("connect_timeout")),
    ("dial_timeout", Setting("connect_timeout")),
    ("hosts", Nothing(SERVERS)),
    ("nodes", Nothing(SERVERS)),
    ("addresses", Nothing(SERVERS)),
    ("servers", Nothing(SERVERS)),
    ("insecure", Nothing(VERIFIED)),
    ("verify", Nothing(VERIFIED)),
    ("skip_verify", Nothing(VERIFIED)),
    ("ssl_cert_reqs", Nothing(VERIFIED)),
    ("tls_insecure", Nothing(VERIFIED)),
    ("max_retries", Setting("retries")),
    ("reconnect", Nothing(ENDLESS)),
];

/// The error of a name that is no setting; `names` are those that are.
pub(super) fn unknown(name: &str, origin: Origin, names: impl IntoIterator<Item = &'static str>) -> ConfigError {
    let lower = name.to_lowercase().replace('-', "_");
    match NAMES.iter().find(|(foreign, _)| *foreign == lower) {
        Some((_, Setting(setting))) => ConfigError::Unknown { origin, nearest: Some(setting) },
        Some((_, Nothing(clause))) => ConfigError::Unsupported { origin, clause: format!("is no setting: {clause}") },
        None => ConfigError::Unknown { origin, nearest: nearest(name, names) },
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::setting;
    use super::*;

    #[test]
    fn foreign_names_are_no_settings_and_lead_to_settings() {
        for (name, means) in NAMES {
            assert!(setting(name).is_none(), "{name}");
            assert!(!matches!(means, Setting(meant) if setting(meant).is_none()), "{name}");
        }
    }
}
