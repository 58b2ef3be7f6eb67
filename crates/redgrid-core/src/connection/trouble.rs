//! Why a connection can not be had, in words for people.

/// What fred says of a failure, in words. It shows system errors in debug form: `Os { code: 111, …, message: "Connection
/// refused" }`, and those of TLS as `Custom { …, error: InvalidCertificate(UnknownIssuer) }`.
pub(super) fn readable(why: &str) -> String {
    if let Some((_, words)) = TLS.iter().find(|(mark, _)| why.contains(mark)) {
        return match names(why) {
            Some(names) => format!("{words}: it is for {names}"),
            None => {
                let details = why.split_once("error: ").map_or(why, |(_, details)| details);
                format!("{words}: {}", details.strip_suffix(" }").unwrap_or(details))
            }
        };
    }
    let message = why.split_once("message: \"").and_then(|(_, rest)| rest.split_once('"'));
    message.map_or(why, |(message, _)| message).to_owned()
}

/// The names of a certificate that is for others: `presented: ["IpAddress(127.0.0.1)", "DnsName(\"localhost\")"]`.
fn names(why: &str) -> Option<String> {
    let (_, names) = why.split_once("presented: [")?;
    let names = names.split_once(']')?.0.split(", ").map(|name| {
        let bare = name.split_once('(').map_or(name, |(_, name)| name);
        format!("`{}`", bare.trim_matches(['"', '\\', ')']))
    });
    Some(names.collect::<Vec<_>>().join(", "))
}

const STRANGERS: &str = "the server's certificate is signed by nobody who is trusted here (see `tls_ca_file`)";

const NOT_ACCEPTED: &str = "the server does not accept the client certificate (see `tls_cert_file`)";

/// Marks of rustls's errors; the first that fits counts.
const TLS: [(&str, &str); 15] = [
    ("NotValidForName", "the server's certificate is not for the expected name (see `tls_server_name`)"),
    ("UnknownIssuer", STRANGERS),
    // An authority of the same name, and another key.
    ("InvalidCertificate(BadSignature", STRANGERS),
    ("InvalidCertificate(Expired", "the server's certificate has expired"),
    ("InvalidCertificate(NotValidYet", "the server's certificate is not valid yet"),
    ("InvalidCertificate(", "the server's certificate is not accepted"),
    ("AlertReceived(CertificateRequired)", "the server asks for a client certificate (see `tls_cert_file`)"),
    ("AlertReceived(UnknownCA)", NOT_ACCEPTED),
    // Signed by an authority whose name the server knows, with another key.
    ("AlertReceived(DecryptError)", NOT_ACCEPTED),
    ("AlertReceived(BadCertificate)", NOT_ACCEPTED),
    ("AlertReceived(CertificateExpired)", NOT_ACCEPTED),
    ("AlertReceived(CertificateUnknown)", NOT_ACCEPTED),
    ("AlertReceived(", "the server ended the TLS handshake"),
    ("InvalidMessage(", "the server does not speak TLS there"),
    ("tls handshake eof", "the server ended the connection in the TLS handshake"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_error_is_told_in_words() {
        let debug = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        assert_eq!(readable(debug), "Connection refused");
        assert_eq!(readable("WRONGPASS invalid username"), "WRONGPASS invalid username");
    }

    #[test]
    fn the_names_of_a_certificate_for_others_are_told() {
        let debug = "Custom { kind: InvalidData, error: InvalidCertificate(NotValidForNameContext { expected: \
                     DnsName(\"x\"), presented: [\"IpAddress(127.0.0.1)\", \"DnsName(\\\"localhost\\\")\"] }) }";
        assert!(readable(debug).ends_with(": it is for `127.0.0.1`, `localhost`"), "{}", readable(debug));
    }

    #[test]
    fn a_certificate_that_is_refused_is_told_in_words_and_in_full() {
        let debug = "Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }";
        let words = "the server's certificate is signed by nobody who is trusted here (see `tls_ca_file`)";
        assert_eq!(readable(debug), format!("{words}: InvalidCertificate(UnknownIssuer)"));
    }
}
