//! Why a connection can not be had, in words for people.

/// What fred says of a failure, in words. It shows system errors in debug form: `Os { code: 111, …, message: "Connection
/// refused" }`, and those of TLS as `Custom { …, error: InvalidCertificate(UnknownIssuer) }`.
pub(super) fn readable(why: &str) -> String {
    if let Some((_, words)) = TLS.iter().find(|(mark, _)| why.contains(mark)) {
        let details = why.split_once("error: ").map_or(why, |(_, details)| details);
        return format!("{words}: {}", details.strip_suffix(" }").unwrap_or(details));
    }
    let message = why.split_once("message: \"").and_then(|(_, rest)| rest.split_once('"'));
    message.map_or(why, |(message, _)| message).to_owned()
}

/// Marks of rustls's errors; the first that fits counts.
const TLS: [(&str, &str); 9] = [
    ("NotValidForName", "the server's certificate is for another name (see `tls_server_name`)"),
    ("UnknownIssuer", "the server's certificate is signed by nobody who is trusted here (see `tls_ca_file`)"),
    ("InvalidCertificate(Expired", "the server's certificate has expired"),
    ("InvalidCertificate(NotValidYet", "the server's certificate is not valid yet"),
    ("InvalidCertificate(", "the server's certificate is not accepted"),
    ("AlertReceived(CertificateRequired)", "the server asks for a client certificate (see `tls_cert_file`)"),
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
    fn a_certificate_that_is_refused_is_told_in_words_and_in_full() {
        let debug = "Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }";
        let words = "the server's certificate is signed by nobody who is trusted here (see `tls_ca_file`)";
        assert_eq!(readable(debug), format!("{words}: InvalidCertificate(UnknownIssuer)"));
    }
}
