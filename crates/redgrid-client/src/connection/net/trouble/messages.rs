//! Readable texts for errors of rustls and the operating system.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use super::Kind::{self, Lasting, Passing, Unauthorized};

/// Makes an error text of rustls or of the operating system readable. Texts of servers stay
/// unchanged.
///
/// The texts arrive in the debug form of the errors, such as `Os { code: 111, …, message:
/// "Connection refused" }` or `Custom { …, error: InvalidCertificate(UnknownIssuer) }`.
pub(crate) fn readable(why: &str) -> String {
    if let Some((.., message)) = TLS.iter().find(|(mark, ..)| why.contains(mark)) {
        let names = names(why).map(|names| format!("it is for {names}"));
        return match names.or_else(|| moment(why)).or_else(|| alert(why)) {
            Some(details) => format!("{message}: {details}"),
            None => (*message).to_owned(),
        };
    }
    if let Some(message) = system(why) {
        return message;
    }
    if is_debug(why) { plain(why) } else { why.to_owned() }
}

/// Returns the operating system's message, without the error number and the library's prefix.
pub(crate) fn of_system(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix(LOOKUP).map_or(text.as_str(), |rest| rest.trim_start_matches([':', ' ']));
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}

const LOOKUP: &str = "failed to lookup address information";

/// The reason why a connection ended, if there was no error and the client did not give up the
/// connection.
pub(crate) const CLOSED: &str = "the connection was closed";

pub(crate) const LATE_ANSWER: &str = "no answer came in time";

pub(crate) const NO_PROTOCOL: &str = "the server's answer is not that of a Redis or Valkey server";

/// Extracts the message from the debug form of a system error. Without a message, returns the kind
/// of the error in words. Returns `None` for other texts.
fn system(why: &str) -> Option<String> {
    if let Some((_, details)) = why.split_once(LOOKUP) {
        let details = details.trim_matches([':', ' ', '"', '}', '\\']);
        return Some(format!("the host name cannot be resolved: {details}"));
    }
    if let Some((kind, rest)) = why.split_once("message: \"") {
        let message = rest.split_once('"')?.0;
        let is_end = ["ConnectionReset", "ConnectionAborted", "BrokenPipe"].iter().any(|end| kind.contains(end));
        return Some(if is_end { format!("{CLOSED}: {message}") } else { message.to_owned() });
    }
    let kind = why.strip_prefix("Kind(")?.strip_suffix(')')?;
    Some(match kind {
        "UnexpectedEof" | "ConnectionAborted" | "BrokenPipe" => CLOSED.to_owned(),
        kind => spaced(kind),
    })
}

/// Returns whether a text is the debug form of a value: `Name(…)` or `Name { … }`.
fn is_debug(text: &str) -> bool {
    let name = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let rest = &text[name.len()..];
    name.starts_with(|c: char| c.is_ascii_uppercase()) && (rest.starts_with('(') || rest.starts_with(" { "))
}

/// Strips the syntax of a debug form: `Custom { kind: InvalidData, error: A(B) }` becomes "a: b".
fn plain(debug: &str) -> String {
    let inner = debug.split_once("error: ").map_or(debug, |(_, inner)| inner);
    let words = inner.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).map(spaced);
    words.collect::<Vec<_>>().join(": ")
}

/// Splits a name into words: `UnknownIssuer` is "unknown issuer", `UnknownCA` is "unknown ca".
fn spaced(name: &str) -> String {
    let mut words = String::new();
    let mut was_upper = true;
    for c in name.chars() {
        if c.is_ascii_uppercase() && !was_upper {
            words.push(' ');
        }
        was_upper = c.is_ascii_uppercase();
        words.push(c.to_ascii_lowercase());
    }
    words
}

/// Returns the host names for which a mismatching certificate was issued, from a text such as
/// `presented: ["IpAddress(127.0.0.1)", "DnsName(\"localhost\")"]`.
fn names(why: &str) -> Option<String> {
    let (_, names) = why.split_once("presented: [")?;
    let names = names.split_once(']')?.0.split(", ").map(|name| {
        let bare = name.split_once('(').map_or(name, |(_, name)| name);
        format!("`{}`", bare.trim_matches(['"', '\\', ')']))
    });
    Some(names.collect::<Vec<_>>().join(", "))
}

/// Returns the end or the start of a certificate's validity, from a text such as
/// `not_after: UnixTime(1700000000)`.
fn moment(why: &str) -> Option<String> {
    let moment = |field, text| {
        let (_, rest) = why.split_once(field)?;
        let seconds = rest.strip_prefix("UnixTime(")?.split(')').next()?.parse().ok()?;
        let moment = UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
        Some(format!("{text} {}", humantime::format_rfc3339_seconds(moment)))
    };
    moment("not_after: ", "it was valid until").or_else(|| moment("not_before: ", "it is valid from"))
}

/// Returns the alert that ended a handshake, from a text such as `AlertReceived(HandshakeFailure)`.
fn alert(why: &str) -> Option<String> {
    let (_, name) = why.split_once("AlertReceived(")?;
    let name = name.split(')').next()?;
    (name != "CertificateRequired").then(|| spaced(name))
}

const UNTRUSTED: &str = "the server's certificate is not signed by a trusted authority (see `tls_ca_file`)";

const REQUIRED: &str = "the server asks for a client certificate (see `tls_cert_file`)";

const NOT_ACCEPTED: &str = "the server does not accept the client certificate (see `tls_cert_file`)";

const ENDED: &str = "the server ended the TLS handshake";

/// Substrings of rustls errors, each with its kind (whether waiting can help) and a readable text.
/// The first match is used. Alerts are errors that the server has sent.
#[rustfmt::skip]
pub(super) const TLS: [(&str, Kind, &str); 23] = [
    ("without sending TLS close_notify", Passing, CLOSED),
    ("NotValidForName", Unauthorized, "the server's certificate is not for the expected name (see `tls_server_name`)"),
    ("UnknownIssuer", Unauthorized, UNTRUSTED),
    // The certificate's issuer has the name of a trusted authority, but another key.
    ("InvalidCertificate(BadSignature", Unauthorized, UNTRUSTED),
    ("InvalidCertificate(Expired", Unauthorized, "the server's certificate has expired"),
    ("InvalidCertificate(NotValidYet", Unauthorized, "the server's certificate is not valid yet"),
    ("InvalidCertificate(Other(OtherError(CaUsedAsEndEntity", Unauthorized, "the server's certificate is that of an authority"),
    ("InvalidCertificate(", Unauthorized, "the server's certificate is not accepted"),
    ("AlertReceived(CertificateRequired)", Unauthorized, REQUIRED),
    ("AlertReceived(UnknownCA)", Unauthorized, NOT_ACCEPTED),
    // The authority that signed the client certificate has a name that the server trusts, but
    // another key.
    ("AlertReceived(DecryptError)", Unauthorized, NOT_ACCEPTED),
    ("AlertReceived(BadCertificate)", Unauthorized, NOT_ACCEPTED),
    ("AlertReceived(CertificateExpired)", Unauthorized, NOT_ACCEPTED),
    ("AlertReceived(CertificateUnknown)", Unauthorized, NOT_ACCEPTED),
    ("AlertReceived(UnsupportedCertificate)", Unauthorized, ENDED),
    ("AlertReceived(CertificateRevoked)", Unauthorized, ENDED),
    ("AlertReceived(AccessDenied)", Unauthorized, ENDED),
    ("AlertReceived(HandshakeFailure)", Lasting, ENDED),
    ("AlertReceived(ProtocolVersion)", Lasting, ENDED),
    ("AlertReceived(", Passing, ENDED),
    ("PeerIncompatible(", Lasting, "the server and the client have no TLS version or cipher in common"),
    ("InvalidMessage(", Lasting, "the server does not speak TLS there"),
    ("tls handshake eof", Passing, "the connection was closed in the TLS handshake"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a text contains debug syntax, or words that only a lower layer uses.
    fn shows_debug(text: &str) -> bool {
        let marks = ["Os {", "Custom {", "Kind(", "UnixTime(", "Received(", "Invalid", "kind: ", "Some(", "Err("];
        let words = ["channel closed", "anceled", "Failed to route command", "os error", "attempts"];
        marks.iter().chain(&words).any(|mark| text.contains(mark))
    }

    #[test]
    fn each_kind_of_error_has_its_own_words() {
        let custom = |error: &str| format!("Custom {{ kind: InvalidData, error: {error} }}");
        let expired =
            "InvalidCertificate(ExpiredContext { time: UnixTime(1764201600), not_after: UnixTime(1600000000) })";
        let early = "InvalidCertificate(NotValidYetContext { time: UnixTime(1), not_before: UnixTime(1600000000) })";
        let lookup = r#"Custom { kind: Uncategorized, error: "failed to lookup address information: Try again" }"#;
        let no_hello = "ERR unknown command 'HELLO' (see COMMAND)";
        for (debug, expected) in [
            (r#"Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }"#, "Connection refused"),
            (
                r#"Os { code: 104, kind: ConnectionReset, message: "Connection reset by peer" }"#,
                "the connection was closed: Connection reset by peer",
            ),
            ("Kind(UnexpectedEof)", CLOSED),
            ("Kind(HostUnreachable)", "host unreachable"),
            ("WRONGPASS invalid username", "WRONGPASS invalid username"),
            (no_hello, no_hello),
            (lookup, "the host name cannot be resolved: Try again"),
            (&custom("AlertReceived(HandshakeFailure)"), "the server ended the TLS handshake: handshake failure"),
            (
                &custom("AlertReceived(UnknownCA)"),
                "the server does not accept the client certificate (see `tls_cert_file`): unknown ca",
            ),
            (
                &custom("AlertReceived(CertificateRequired)"),
                "the server asks for a client certificate (see `tls_cert_file`)",
            ),
            (&custom(expired), "the server's certificate has expired: it was valid until 2020-09-13T12:26:40Z"),
            (&custom(early), "the server's certificate is not valid yet: it is valid from 2020-09-13T12:26:40Z"),
            (&custom("InvalidCertificate(UnknownIssuer)"), UNTRUSTED),
            (&custom("InvalidMessage(InvalidContentType)"), "the server does not speak TLS there"),
            (
                &custom("PeerIncompatible(ServerDoesNotSupportTls12Or13)"),
                "the server and the client have no TLS version or cipher in common",
            ),
            ("Custom { kind: Other, error: DecryptError }", "decrypt error"),
        ] {
            assert_eq!(readable(debug), expected, "{debug}");
            assert!(!shows_debug(&readable(debug)), "{debug}");
        }
    }

    #[test]
    fn the_names_in_a_certificate_for_others_are_named() {
        let debug = "Custom { kind: InvalidData, error: InvalidCertificate(NotValidForNameContext { expected: \
                     DnsName(\"x\"), presented: [\"IpAddress(127.0.0.1)\", \"DnsName(\\\"localhost\\\")\"] }) }";
        assert!(readable(debug).ends_with(": it is for `127.0.0.1`, `localhost`"), "{}", readable(debug));
    }

    #[test]
    fn an_error_of_the_system_has_no_number() {
        assert_eq!(of_system(&io::Error::from_raw_os_error(111)), "Connection refused");
        assert_eq!(of_system(&io::Error::other("the vault is sealed")), "the vault is sealed");
        assert_eq!(of_system(&io::ErrorKind::UnexpectedEof.into()), "unexpected end of file");
    }
}
