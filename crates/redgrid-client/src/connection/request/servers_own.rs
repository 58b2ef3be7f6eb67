//! Errors of the server itself, distinguished from errors that a script returns.

use super::{Request, What};
use crate::connection::slot::slot;
use crate::script::ScriptRef;

/// Beginnings of the messages by which a server temporarily refuses a script before the script has
/// begun. Redirects are not in the list: `is_sent_elsewhere` parses their whole message.
const OWN_MESSAGES: [&str; 11] = [
    "NOSCRIPT No matching script",
    "READONLY You can't write against a read only",
    "LOADING Redis is loading",
    "LOADING Valkey is loading",
    "BUSY Redis is busy",
    "BUSY Valkey is busy",
    "TRYAGAIN Multiple keys request during rehashing",
    "CLUSTERDOWN Hash slot not served",
    "CLUSTERDOWN The cluster is down",
    "MASTERDOWN Link with MASTER is down",
    "NOREPLICAS Not enough good replicas",
];

impl Request {
    /// Returns whether `message` comes from the server itself, not from a user's script or
    /// function.
    ///
    /// A user's script can return the same text after it has changed data. Such a script must not
    /// be retried.
    pub(crate) fn is_servers_own(&self, message: &str) -> bool {
        match &self.what {
            // A refused SCRIPT KILL is not retried: the error UNKILLABLE means that the script
            // cannot be ended.
            _ if self.dedicated => false,
            What::Script(ScriptRef::Owned(_)) | What::Function { .. } => {
                OWN_MESSAGES.iter().any(|own| message.starts_with(own)) || self.is_sent_elsewhere(message)
            }
            What::Command(_) | What::Script(ScriptRef::Static(_)) | What::Together(_) => true,
        }
    }

    /// Returns whether the whole `message` is a redirect for the slot of the first key, such as
    /// `MOVED 3999 127.0.0.1:6381`.
    fn is_sent_elsewhere(&self, message: &str) -> bool {
        let parts: Vec<_> = message.split(' ').collect();
        let ["MOVED" | "ASK", number, address] = parts[..] else { return false };
        let is_port = |(_, port): (&str, &str)| port.parse::<u16>().is_ok();
        let is_its_slot = |number: u16| self.keys.first().is_some_and(|key| slot(key) == number);
        number.parse().is_ok_and(is_its_slot) && address.rsplit_once(':').is_some_and(is_port)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::script::OwnedScript;

    #[test]
    fn only_a_complete_server_message_in_a_script_is_not_its_own() {
        let number = slot(b"a");
        let script = || OwnedScript::new("s", "return 1").with([Bytes::from_static(b"a")]);
        for message in [
            format!("MOVED {number} 127.0.0.1:6381"),
            format!("ASK {number} :6381"),
            format!("MOVED {number} ?:6381"),
            "CLUSTERDOWN Hash slot not served".into(),
            "CLUSTERDOWN The cluster is down and only accepts read commands".into(),
            "NOREPLICAS Not enough good replicas to write.".into(),
        ] {
            assert!(script().is_servers_own(&message), "{message}");
        }
        for message in [
            format!("MOVED {} 127.0.0.1:6381", number + 1),
            format!("MOVED {number} 127.0.0.1:6381 "),
            format!("MOVED {number} 127.0.0.1"),
            format!("ASK {number} a:b"),
            "MOVED house".into(),
            "ASK me".into(),
            "CLUSTERDOWN come later".into(),
        ] {
            assert!(!script().is_servers_own(&message), "{message}");
            assert!(Request::command("GET").key("a").is_servers_own(&message), "{message}");
        }
        let keyless = OwnedScript::new("s", "return 1").with([]);
        assert!(!keyless.is_servers_own(&format!("MOVED {number} 127.0.0.1:6381")));
    }
}
