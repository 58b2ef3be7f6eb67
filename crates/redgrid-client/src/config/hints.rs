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

/// Each hint with the names to which it belongs.
const HINTS: &[(Hint, &[&str])] = &[
    (Setting("database"), &["db", "index"]),
    (Setting("username"), &["user"]),
    (Setting("password"), &["pass", "pwd", "auth"]),
    (Setting("tls"), &["ssl", "encryption"]),
    (Setting("tls_ca_file"), &["ca", "ca_file", "ca_cert", "cacert"]),
    (Setting("tls_cert_file"), &["cert"]),
    (Setting("tls_key_file"), &["key"]),
    (Setting("tls_server_name"), &["sni"]),
    (Setting("single"), &["host", "addr", "address", "server"]),
    (Setting("unix"), &["socket"]),
    (Setting("primary"), &["master"]),
    (Setting("replicas"), &["slaves"]),
    (Setting("master_name"), &["sentinel_master", "service_name"]),
    (Setting("namespace"), &["prefix", "key_prefix"]),
    (Setting("client_name"), &["name"]),
    (Setting("watchdog_lease"), &["lease", "ttl"]),
    (Setting("connections_per_node"), &["pool_size", "max_connections"]),
    (Setting("response_timeout"), &["command_timeout", "socket_timeout", "timeout"]),
    (Setting("connect_timeout"), &["connection_timeout", "dial_timeout"]),
    (Setting("retries"), &["max_retries"]),
    (Advice(SERVERS), &["hosts", "nodes", "addresses", "servers"]),
    (Advice(VERIFIED), &["insecure", "verify", "skip_verify", "ssl_cert_reqs", "tls_insecure"]),
    (Advice(ENDLESS), &["reconnect"]),
];

/// Returns the error for a name that is no setting. `names` contains the valid names. If one of
/// them is similar, the error suggests it.
pub(super) fn unknown(name: &str, origin: Origin, names: impl IntoIterator<Item = &'static str>) -> ConfigError {
    let lower = name.to_lowercase().replace('-', "_");
    match HINTS.iter().find(|(_, names)| names.contains(&&*lower)) {
        Some((Setting(setting), _)) => ConfigError::Unknown { origin, nearest: Some(setting) },
        Some((Advice(clause), _)) => ConfigError::Unsupported { origin, clause: format!("is no setting: {clause}") },
        None => ConfigError::Unknown { origin, nearest: nearest(name, names) },
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::setting;
    use super::*;

    #[test]
    fn foreign_names_are_no_settings_and_suggest_one() {
        for (hint, names) in HINTS {
            assert!(names.iter().all(|name| setting(name).is_none()), "{names:?}");
            assert!(!matches!(hint, Setting(setting_name) if setting(setting_name).is_none()), "{names:?}");
        }
    }
}
