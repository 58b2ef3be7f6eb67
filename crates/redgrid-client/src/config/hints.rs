//! Names of settings in other libraries, and their equivalents here.

use super::error::{ConfigError, Origin, nearest};

/// The equivalent of a setting of another library.
enum Hint {
    /// The name of the equivalent setting.
    Setting(&'static str),
    /// Advice, because there is no equivalent setting.
    Advice(&'static str),
}

use Hint::{Advice, Setting};

pub(super) const VERIFIED: &str =
    "certificates are always verified; `tls_ca_file` has the authorities that may sign them";
const SERVERS: &str = "`single`, `primary`, `replicated`, `sentinels` or `cluster` names the servers";
const ENDLESS: &str = "a lost connection is always opened again; `retries` applies to requests";

const NAMES: &[(&str, Hint)] = &[
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
    ("hosts", Advice(SERVERS)),
    ("nodes", Advice(SERVERS)),
    ("addresses", Advice(SERVERS)),
    ("servers", Advice(SERVERS)),
    ("insecure", Advice(VERIFIED)),
    ("verify", Advice(VERIFIED)),
    ("skip_verify", Advice(VERIFIED)),
    ("ssl_cert_reqs", Advice(VERIFIED)),
    ("tls_insecure", Advice(VERIFIED)),
    ("max_retries", Setting("retries")),
    ("reconnect", Advice(ENDLESS)),
];

/// Returns the error for a name that is no setting. `names` contains the valid names. If one of
/// them is similar, the error suggests it.
pub(super) fn unknown(name: &str, origin: Origin, names: impl IntoIterator<Item = &'static str>) -> ConfigError {
    let lower = name.to_lowercase().replace('-', "_");
    match NAMES.iter().find(|(foreign, _)| *foreign == lower) {
        Some((_, Setting(setting))) => ConfigError::Unknown { origin, nearest: Some(setting) },
        Some((_, Advice(clause))) => ConfigError::Unsupported { origin, clause: format!("is no setting: {clause}") },
        None => ConfigError::Unknown { origin, nearest: nearest(name, names) },
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::setting;
    use super::*;

    #[test]
    fn foreign_names_are_no_settings_and_suggest_one() {
        for (name, hint) in NAMES {
            assert!(setting(name).is_none(), "{name}");
            assert!(!matches!(hint, Setting(setting_name) if setting(setting_name).is_none()), "{name}");
        }
    }
}
