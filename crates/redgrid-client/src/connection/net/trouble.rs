//! Why a connection could not be made or was lost: a message for users, and whether waiting can
//! help.
//!
//! This module interprets the texts of other layers: errors of the system and of rustls in their
//! debug form, and servers' refusals of a connection.

mod messages;

use std::io;

use self::messages::TLS;
pub(crate) use self::messages::{CLOSED, LATE_ANSWER, NO_PROTOCOL, of_system, readable};

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) message: String,
    pub(crate) kind: Kind,
}

/// Whether waiting can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Waiting can help: the cause may be temporary.
    Passing,
    /// The server refuses the password, user or certificate of this client, or this client refuses
    /// the server's certificate.
    Unauthorized,
    /// The target is wrong: for example, its name is unknown, or it does not speak the expected
    /// protocol.
    Lasting,
}

impl Trouble {
    /// Classifies an error text of the system, of rustls or of a server.
    pub(crate) fn of(why: &str) -> Self {
        Trouble { message: readable(why), kind: Kind::of(why) }
    }

    pub(crate) fn passing(message: impl Into<String>) -> Self {
        Trouble { message: message.into(), kind: Kind::Passing }
    }

    pub(crate) fn lasting(message: impl Into<String>) -> Self {
        Trouble { message: message.into(), kind: Kind::Lasting }
    }

    /// Returns the error for a host name that could not be resolved.
    pub(crate) fn unresolved(host: &str, error: &io::Error) -> Self {
        let text = of_system(error);
        let is_unknown =
            error.kind() == io::ErrorKind::NotFound || UNKNOWN_NAMES.iter().any(|mark| text.contains(mark));
        let message = format!("the name `{host}` cannot be resolved: {text}");
        if is_unknown { Trouble::lasting(message) } else { Trouble::passing(message) }
    }
}

impl Kind {
    fn of(why: &str) -> Self {
        let tls = TLS.iter().map(|(mark, kind, _)| (*mark, *kind));
        tls.chain(SERVER).find(|(mark, _)| why.contains(mark)).map_or(Kind::Passing, |(_, kind)| kind)
    }
}

/// Substrings of servers' errors that show that the server refuses this client, or is not the
/// expected server.
const SERVER: [(&str, Kind); 7] = [
    ("WRONGPASS ", Kind::Unauthorized),
    ("NOAUTH ", Kind::Unauthorized),
    // The error of AUTH from servers before version 6, and from proxies.
    ("ERR invalid password", Kind::Unauthorized),
    ("DENIED Redis is running in protected mode", Kind::Unauthorized),
    ("NOPROTO ", Kind::Lasting),
    ("ERR DB index is out of range", Kind::Lasting),
    ("ERR invalid DB index", Kind::Lasting),
];

/// Messages of the resolvers of Linux (glibc, musl), macOS and Windows for a name that does not
/// exist. Other failures of a resolver may be temporary.
const UNKNOWN_NAMES: [&str; 5] = [
    "Name or service not known",
    "Name does not resolve",
    "nodename nor servname provided, or not known",
    "No such host is known",
    "No address associated with hostname",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_and_a_wrong_target_are_distinguished_from_what_may_pass() {
        for (why, kind) in [
            ("WRONGPASS invalid username-password pair or user is disabled.", Kind::Unauthorized),
            ("NOAUTH HELLO must be called with the client already authenticated", Kind::Unauthorized),
            ("Custom { kind: InvalidData, error: InvalidCertificate(Expired) }", Kind::Unauthorized),
            ("Custom { kind: InvalidData, error: AlertReceived(UnknownCA) }", Kind::Unauthorized),
            ("NOPROTO unsupported protocol version", Kind::Lasting),
            ("ERR DB index is out of range", Kind::Lasting),
            ("Custom { kind: InvalidData, error: InvalidMessage(InvalidContentType) }", Kind::Lasting),
            ("Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }", Kind::Passing),
            ("LOADING Redis is loading the dataset in memory", Kind::Passing),
            ("ERR max number of clients reached", Kind::Passing),
            ("the credential provider failed: the vault is sealed", Kind::Passing),
            ("AlertReceived(InternalError)", Kind::Passing),
        ] {
            assert_eq!(Trouble::of(why).kind, kind, "{why}");
        }
    }

    #[test]
    fn an_unknown_name_is_distinguished_from_a_resolver_that_fails() {
        let kind = |error: io::Error| Trouble::unresolved("db", &error).kind;
        let lookup = |why: &str| io::Error::other(format!("failed to lookup address information: {why}"));
        assert_eq!(kind(lookup("Name or service not known")), Kind::Lasting);
        assert_eq!(kind(lookup("Temporary failure in name resolution")), Kind::Passing);
        assert_eq!(kind(io::Error::new(io::ErrorKind::NotFound, "no record")), Kind::Lasting);
        assert_eq!(kind(io::Error::other("no record")), Kind::Passing);
        let message = Trouble::unresolved("db", &lookup("Name or service not known")).message;
        assert_eq!(message, "the name `db` cannot be resolved: Name or service not known");
    }
}
