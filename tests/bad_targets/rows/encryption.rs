//! TLS on one side only, and certificates.

use std::fmt::Display;
use std::path::PathBuf;

use redgrid_core::config::{Config, ConfigError, Tls};

use crate::Row;
use crate::targets::{Targets, trusting, url};

pub(super) fn rows(targets: &Targets) -> Vec<Row> {
    [refusals(targets), files(targets), listeners(targets)].into_iter().flatten().collect()
}

fn encrypted(at: &dyn Display, tls: Tls) -> Result<Config, ConfigError> {
    url(format!("rediss://{at}")).map(|config| config.tls(tls))
}

/// Certificates that one side refuses.
fn refusals(targets: &Targets) -> Vec<Row> {
    let tls = targets.encrypted.tls().expect("TLS");
    let at = tls.addr();
    let trusted = || trusting(&targets.encrypted);
    let demanding = targets.demanding.tls().expect("TLS");
    let foreign = trusting(&targets.demanding).client_certificate(tls.client_certificate_file(), tls.client_key_file());
    let dated = |name: &str| Tls::new().ca_file(targets.folder.join(name).with_extension("ca"));
    let (expired, early) = (targets.expired.tls().expect("TLS").addr(), targets.early.tls().expect("TLS").addr());
    vec![
        Row::new(
            "an authority that is not trusted",
            encrypted(&at, trusting(&targets.other)),
            at,
            &["not signed by a trusted authority", "tls_ca_file"],
        )
        .lasting(),
        Row::new(
            "a certificate for another name",
            encrypted(&at, trusted().server_name("elsewhere")),
            at,
            &["not for the expected name", "`localhost`", "tls_server_name"],
        )
        .lasting(),
        Row::new(
            "an expired certificate",
            encrypted(&expired, dated("expired")),
            expired,
            &["has expired", "2001-01-01"],
        )
        .lasting(),
        Row::new(
            "a certificate of the future",
            encrypted(&early, dated("early")),
            early,
            &["is not valid yet", "2090-01-01"],
        )
        .lasting(),
        Row::new(
            "no certificate where one is asked for",
            encrypted(&demanding.addr(), trusting(&targets.demanding)),
            demanding.addr(),
            &["client certificate"],
        )
        .lasting(),
        Row::new(
            "a client certificate of another authority",
            encrypted(&demanding.addr(), foreign),
            demanding.addr(),
            &["does not accept the client certificate"],
        )
        .lasting(),
    ]
}

/// Files and names that are refused before any connection attempt.
fn files(targets: &Targets) -> Vec<Row> {
    let (tls, demanding) = (targets.encrypted.tls().expect("TLS"), targets.demanding.tls().expect("TLS"));
    let at = tls.addr();
    let trusted = || trusting(&targets.encrypted);
    let own = |cert: PathBuf, key: PathBuf| encrypted(&at, trusted().client_certificate(cert, key));
    let (cert, key) = (tls.client_certificate_file(), tls.client_key_file());
    let empty = Tls::new().ca_file(targets.folder.join("empty.pem"));
    let missing = Tls::new().ca_file("/no/such.pem");
    vec![
        Row::new("an empty file of authorities", encrypted(&at, empty), "", &["tls_ca_file", "empty.pem"]).lasting(),
        Row::new("a missing file of authorities", encrypted(&at, missing), "", &["/no/such.pem", "No such file"])
            .lasting(),
        Row::new("a missing certificate", own("/no/such.pem".into(), key), "", &["tls_cert_file", "/no/such.pem"])
            .lasting(),
        Row::new("a missing key", own(cert.clone(), "/no/such.key".into()), "", &["tls_key_file", "/no/such.key"])
            .lasting(),
        Row::new(
            "a key of another certificate",
            own(cert, demanding.client_key_file()),
            "",
            &["tls_key_file", "belong"],
        )
        .lasting(),
        Row::new(
            "a name that is none",
            encrypted(&at, trusted().server_name("no name")),
            "",
            &["tls_server_name", "no name"],
        )
        .lasting(),
    ]
}

/// Listeners that do not speak TLS, or speak only TLS.
fn listeners(targets: &Targets) -> Vec<Row> {
    let (at, plain) = (targets.encrypted.tls().expect("TLS").addr(), targets.open.addr());
    let to = |name: &str| encrypted(&targets.fake(name), trusting(&targets.encrypted));
    let lasting = |what, name, cause| Row::new(what, to(name), targets.fake(name), cause).lasting();
    let passing = |what, name, cause| Row::new(what, to(name), targets.fake(name), cause);
    vec![
        Row::new("no TLS where it is spoken", url(format!("redis://{at}")), at, &["speaks TLS", "rediss://"]).lasting(),
        Row::new(
            "TLS where it is not spoken",
            encrypted(&plain, trusting(&targets.encrypted)),
            plain,
            &["does not speak TLS", "redis://"],
        )
        .lasting(),
        lasting("TLS where HTTP is spoken", "http", &["HTTP server"]),
        lasting("TLS where SSH is spoken", "ssh", &["SSH server"]),
        lasting("TLS where mail is spoken", "smtp", &["does not speak the protocol"]),
        passing("TLS where connections are closed", "closing", &["closed"]),
        passing("TLS where nothing is said", "silent", &["sends nothing"]),
        lasting("TLS that ends in an alert", "alert", &["ended the TLS handshake"]),
    ]
}
