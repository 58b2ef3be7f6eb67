//! Which failures of a connection are refusals of this client: waiting does not help against them.

use std::time::Duration;

use tokio::sync::watch;

use crate::error::ServerError;

/// Marks of such failures, as they are told by the server or by rustls. Alerts come from a server
/// that does not accept our certificate.
const MARKS: [&str; 15] = [
    "WRONGPASS ",
    "NOAUTH ",
    // Of AUTH, at servers before version 6 and at proxies.
    "ERR invalid password",
    "InvalidCertificate(",
    "UnknownIssuer",
    "NotValidForName",
    "AlertReceived(CertificateRequired)",
    "AlertReceived(BadCertificate)",
    "AlertReceived(UnsupportedCertificate)",
    "AlertReceived(CertificateRevoked)",
    "AlertReceived(CertificateExpired)",
    "AlertReceived(CertificateUnknown)",
    "AlertReceived(UnknownCA)",
    "AlertReceived(DecryptError)",
    "AlertReceived(AccessDenied)",
];

/// Whether a failure is a refusal of this client, by its password, user or certificate, or of the
/// server by its certificate.
pub(super) fn is_refusal(why: &str) -> bool {
    MARKS.iter().any(|mark| why.contains(mark))
}

/// How long a refusal may last before it counts where a provider has the password: server and
/// provider may be of two minds for a moment while a password is changed.
pub(super) fn grace(has_provider: bool, timeout: Duration) -> Duration {
    if has_provider { timeout } else { Duration::ZERO }
}

/// The refusal of a node that refuses nobody.
pub(super) fn none() -> watch::Receiver<Option<ServerError>> {
    watch::channel(None).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_from_what_may_pass() {
        for why in [
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOAUTH HELLO must be called with the client already authenticated",
            "Custom { kind: InvalidData, error: InvalidCertificate(Expired) }",
            "Custom { kind: InvalidData, error: AlertReceived(UnknownCA) }",
        ] {
            assert!(is_refusal(why), "{why}");
        }
        for why in [
            "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }",
            "LOADING Redis is loading the dataset in memory",
            "ERR max number of clients reached",
            "the credential provider failed: the vault is sealed",
            "AlertReceived(InternalError)",
        ] {
            assert!(!is_refusal(why), "{why}");
        }
    }
}
