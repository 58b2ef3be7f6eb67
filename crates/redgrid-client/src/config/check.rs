//! Checks of settings that depend on each other. The bounds of single values are in `TABLE`.

use super::access::Access;
use super::draft::{Draft, Origins};
use super::error::{ConfigError, Origin};
use super::form::{Value, shown};
use super::table::TABLE;

/// Settings that name the servers. Exactly one of them must be set.
const SERVER_SETTINGS: [&str; 6] = ["single", "unix", "primary", "replicated", "sentinels", "cluster"];

/// Settings that need another setting: both names, and the reason.
const REQUIRED: [(&str, &str, &str); 15] = [
    ("replicas", "primary", "replicas belong to a primary"),
    ("master_name", "sentinels", "only sentinels use a master name"),
    ("sentinels", "master_name", "sentinels need the name of the primary"),
    ("sentinel_username", "sentinels", "it is the login at sentinels"),
    ("sentinel_password", "sentinels", "it is the login at sentinels"),
    ("tls_ca_file", "tls", "a certificate needs encryption"),
    ("tls_cert_file", "tls", "a certificate needs encryption"),
    ("tls_key_file", "tls", "a certificate needs encryption"),
    ("tls_ca_pem", "tls", "a certificate needs encryption"),
    ("tls_cert_pem", "tls", "a certificate needs encryption"),
    ("tls_key_pem", "tls", "a certificate needs encryption"),
    ("tls_server_name", "tls", "a certificate needs encryption"),
    ("socks_username", "socks_proxy", "it is the login at the proxy"),
    ("socks_username", "socks_password", "a user and its password belong together"),
    ("socks_password", "socks_username", "a user and its password belong together"),
];

/// Checks the bounds of all settings, and the rules that concern several settings.
pub(super) fn all(draft: &Draft, origins: &Origins) -> Result<(), ConfigError> {
    let mut copy = draft.clone();
    for setting in TABLE {
        // A value that was set in code has not been parsed yet. Parsing its text checks its bounds.
        if let (Some(shown), false) = (setting.form.show(&mut copy), setting.form.is_masked()) {
            let origin = origin(setting.name, origins);
            setting
                .form
                .read(&Value::One(shown), &mut copy)
                .map_err(|expected| ConfigError::value(&origin, expected))?;
        }
    }
    servers(&mut copy, origins)?;
    relations(&copy, origins)
}

/// Checks that every user name has a password. The check runs only when a client is built, because
/// code can add a password until then. Without a password, the client would not log in, and the
/// server would treat the connection as the user `default`.
pub(super) fn logins(draft: &Draft, origins: &Origins) -> Result<(), ConfigError> {
    for (access, username, password) in all_logins(draft) {
        if access.username.is_some() && access.password.is_none() {
            let rule = "a user logs in with a password, which may be empty";
            return conflict(describe(username, origins), format!("no `{password}`"), rule);
        }
    }
    Ok(())
}

/// Returns each login with the names of the settings for its user and its password.
fn all_logins(draft: &Draft) -> [(&Access, &'static str, &'static str); 2] {
    [(&draft.access, "username", "password"), (&draft.sentinel_access, "sentinel_username", "sentinel_password")]
}

fn servers(draft: &mut Draft, origins: &Origins) -> Result<(), ConfigError> {
    let at = |name: &str| describe(name, origins);
    let set: Vec<&str> = TABLE.iter().filter(|setting| setting.is_set(draft)).map(|setting| setting.name).collect();
    let is_set = |name: &str| set.contains(&name);
    let heads: Vec<_> = SERVER_SETTINGS.into_iter().filter(|head| is_set(head)).collect();
    if let [one, other, ..] = heads[..] {
        return conflict(at(one), at(other), "each names the servers, and they are of different kinds");
    }
    for (name, needed, rule) in REQUIRED {
        if is_set(name) && !is_set(needed) {
            let missing = if needed == "tls" { "`tls: false`".into() } else { format!("no `{needed}`") };
            return conflict(at(name), missing, rule);
        }
    }
    certificates(&is_set, draft.tls_options.own.is_some(), &at)?;
    if heads.is_empty() {
        let heads = SERVER_SETTINGS.map(|head| format!("`{head}`")).join(", ");
        return Err(ConfigError::NoServer { expected: format!("`url`, or one of {heads}") });
    }
    Ok(())
}

/// Checks three rules. No certificate or key is given twice. A client certificate and its key are
/// given together. Beside a `rustls::ClientConfig`, no certificate or key is given.
fn certificates(
    is_set: &impl Fn(&str) -> bool,
    has_own: bool,
    at: &impl Fn(&str) -> String,
) -> Result<(), ConfigError> {
    let forms = [["tls_ca_file", "tls_ca_pem"], ["tls_cert_file", "tls_cert_pem"], ["tls_key_file", "tls_key_pem"]];
    if has_own && let Some(given) = forms.iter().flatten().find(|name| is_set(name)) {
        let own = "the `rustls::ClientConfig` that is set in code".into();
        return conflict(at(given), own, "it would have no effect");
    }
    for [file, pem] in forms {
        if is_set(file) && is_set(pem) {
            return conflict(at(file), at(pem), "they give the same certificate or key");
        }
    }
    let [_, cert, key] = forms;
    for (one, other) in [(cert, key), (key, cert)] {
        if let Some(given) = one.into_iter().find(|name| is_set(name))
            && !other.into_iter().any(is_set)
        {
            let missing = format!("no `{}` or `{}`", other[0], other[1]);
            return conflict(at(given), missing, "a certificate and its key belong together");
        }
    }
    Ok(())
}

fn relations(draft: &Draft, origins: &Origins) -> Result<(), ConfigError> {
    let at = |name: &str| describe(name, origins);
    let with = |name: &str, value: String| format!("{} ({value})", at(name));
    let s = &draft.settings;
    if draft.database != 0 && !draft.cluster.is_empty() {
        let database = with("database", draft.database.to_string());
        return conflict(database, at("cluster"), "a cluster has only database 0");
    }
    if draft.primary.as_ref().is_some_and(|primary| draft.replicas.contains(primary)) {
        return conflict(at("primary"), at("replicas"), "a server is not its own replica");
    }
    if draft.tls && draft.unix.is_some() {
        return conflict(at("tls"), at("unix"), "a connection by a Unix socket is not encrypted");
    }
    for (access, username, password) in all_logins(draft) {
        let fixed = access.password.as_ref().map(|_| password).or(access.username.as_ref().map(|_| username));
        if let (Some(name), Some(_)) = (fixed, &access.provider) {
            return conflict(at(name), "the provider".into(), "only one of them can supply the login");
        }
    }
    if s.retries > 0 && s.retry_delay > s.patience() {
        let delay = with("retry_delay", shown(s.retry_delay));
        let contact_timeout = format!("`response_timeout × (retries + 1)` ({})", shown(s.patience()));
        return conflict(delay, contact_timeout, "a call would end before its first retry");
    }
    if draft.durability != 0 && draft.durability_timeout >= s.watchdog_lease {
        let timeout = with("durability_timeout", shown(draft.durability_timeout));
        let lease = with("watchdog_lease", shown(s.watchdog_lease));
        return conflict(timeout, lease, "the lease would end before the grant counts");
    }
    for (name, choices) in [("durability_at_least", &[1][..]), ("durability_timeout", &[1, 2])] {
        if origins.contains_key(name) && !choices.contains(&draft.durability) {
            let kind = super::table::DURABILITIES.get(draft.durability).copied().unwrap_or_default();
            return conflict(at(name), format!("`durability: {kind}`"), "it would have no effect");
        }
    }
    Ok(())
}

fn conflict(left: String, right: String, rule: &'static str) -> Result<(), ConfigError> {
    Err(ConfigError::Relation { left, right, rule })
}

/// Formats the origin of a setting's value, for errors.
fn describe(name: &str, origins: &Origins) -> String {
    origins.get(name).map_or_else(|| format!("`{name}`"), Origin::to_string)
}

/// Returns the origin of a setting's value.
pub(super) fn origin(name: &'static str, origins: &Origins) -> Origin {
    origins.get(name).cloned().unwrap_or(Origin::Default { key: name })
}
