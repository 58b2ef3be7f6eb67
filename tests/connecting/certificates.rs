//! Certificates as text, certificates in files that change, and an application's own rustls
//! configuration.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redgrid_core::config::{Tls, rustls};
use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{RedisServer, ServerBuilder, StartError, wait_until};
use redgrid_tests::SOON;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, KeyLog, RootCertStore};

/// Starts a server that takes TLS. If the server program has no TLS, prints that and returns
/// `None`.
async fn start(builder: ServerBuilder) -> Option<RedisServer> {
    match builder.start().await {
        Err(error @ StartError::NoTls { .. }) => {
            eprintln!("SKIPPED {}: {error}", std::thread::current().name().unwrap_or_default());
            None
        }
        started => Some(started.unwrap()),
    }
}

fn config(server: &RedisServer, tls: Tls) -> Config {
    Config::from_url(server.tls_url().unwrap()).unwrap().tls(tls)
}

async fn use_and_end(client: Client) {
    accepted(&client).await;
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
    client.shutdown(SOON).await.unwrap();
}

/// Cuts all connections of clients, so that the client makes new ones.
async fn cut(server: &RedisServer) {
    let observer = server.observer().await.unwrap();
    for kind in ["normal", "pubsub"] {
        observer.cmd(&["CLIENT", "KILL", "TYPE", kind]).await.unwrap();
    }
}

/// Waits until connections fail for a reason that contains this word.
async fn refused(client: &Client, word: &str) {
    wait_until(SOON, async || {
        client.wait_ready(Duration::from_millis(50)).await.is_err_and(|error| error.to_string().contains(word))
    })
    .await;
}

/// Waits until connections succeed again. The first attempts may still report an earlier refusal.
async fn accepted(client: &Client) {
    wait_until(SOON, async || client.wait_ready(Duration::from_millis(50)).await.is_ok()).await;
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_keys_are_taken_as_text() {
    let Some(server) = start(RedisServer::builder().tls_client_certificates()).await else { return };
    let files = server.tls().unwrap();
    let (ca, certificate, key) =
        (text(files.ca_file()), text(files.client_certificate_file()), text(files.client_key_file()));
    let in_code = Tls::new().ca_pem(&ca).client_certificate_pem(&certificate, &key);
    use_and_end(Client::connect(config(&server, in_code.clone())).await.unwrap()).await;
    // Variables may hold these texts, as in a container.
    let variables = [
        ("REDGRID_URL", server.tls_url().unwrap()),
        ("REDGRID_TLS_CA_PEM", ca),
        ("REDGRID_TLS_CERT_PEM", certificate),
        ("REDGRID_TLS_KEY_PEM", key.clone()),
    ];
    let from_variables = Config::from_variables(variables.map(|(name, value)| (name.to_owned(), value))).unwrap();
    let secret = key.lines().nth(1).unwrap();
    let shown = format!("{from_variables:?} {:?} {in_code:?}", from_variables.explain());
    assert!(shown.contains("tls_key_pem") && !shown.contains(secret), "{shown}");
    use_and_end(Client::connect(from_variables).await.unwrap()).await;
    // A file and a text are combined.
    let mixed = Tls::new().ca_file(files.ca_file()).client_certificate_pem(text(files.client_certificate_file()), &key);
    use_and_end(Client::connect(config(&server, mixed)).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_cannot_be_used_is_named_by_its_setting_and_not_repeated() {
    let Some(server) = start(RedisServer::builder().tls()).await else { return };
    let files = server.tls().unwrap();
    let damaged = "-----BEGIN PRIVATE KEY-----\n!!hunter2!!\n";
    let (certificate, key) = (text(files.client_certificate_file()), text(files.client_key_file()));
    for (tls, setting) in [
        (Tls::new().ca_pem(damaged), "tls_ca_pem"),
        (Tls::new().ca_file(files.ca_file()).client_certificate_pem(damaged, &key), "tls_cert_pem"),
        (Tls::new().ca_file(files.ca_file()).client_certificate_pem(&certificate, damaged), "tls_key_pem"),
        (Tls::new().ca_file(files.ca_file()).ca_pem(&certificate), "`tls_ca_file` and `tls_ca_pem`"),
    ] {
        let text = Client::connect(config(&server, tls)).await.expect_err("it cannot be used").to_string();
        assert!(text.contains(setting) && !text.contains("hunter2"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_connection_trusts_the_authorities_that_the_file_has_then() {
    let Some(server) = start(RedisServer::builder().tls()).await else { return };
    let Some(stranger) = start(RedisServer::builder().tls()).await else { return };
    let file = server.folder().join("trusted.pem");
    fs::copy(stranger.tls().unwrap().ca_file(), &file).unwrap();
    let client = Client::connect(config(&server, Tls::new().ca_file(&file))).await.unwrap();
    refused(&client, "tls_ca_file").await;
    fs::copy(server.tls().unwrap().ca_file(), &file).unwrap();
    accepted(&client).await;
    // An incomplete file changes nothing.
    fs::write(&file, "").unwrap();
    cut(&server).await;
    use_and_end(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_connection_shows_the_client_certificate_that_the_files_have_then() {
    let Some(server) = start(RedisServer::builder().tls_client_certificates()).await else { return };
    let Some(stranger) = start(RedisServer::builder().tls()).await else { return };
    let (certificate, key) = (server.folder().join("shown.pem"), server.folder().join("shown.key"));
    let show = |from: &RedisServer| {
        fs::copy(from.tls().unwrap().client_certificate_file(), &certificate).unwrap();
        fs::copy(from.tls().unwrap().client_key_file(), &key).unwrap();
    };
    show(&server);
    let tls = Tls::new().ca_file(server.tls().unwrap().ca_file()).client_certificate(&certificate, &key);
    let client = Client::connect(config(&server, tls)).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    show(&stranger);
    cut(&server).await;
    refused(&client, "certificate").await;
    show(&server);
    accepted(&client).await;
    // Between the two writes, the key does not belong to the certificate, and the client still uses
    // the former pair.
    fs::copy(stranger.tls().unwrap().client_key_file(), &key).unwrap();
    cut(&server).await;
    use_and_end(client).await;
}

/// Counts the secrets that handshakes log.
#[derive(Debug, Default)]
struct Handshakes(AtomicUsize);

impl KeyLog for Handshakes {
    fn log(&self, _: &str, _: &[u8], _: &[u8]) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_of_rustls_that_the_program_makes_is_used() {
    let Some(server) = start(RedisServer::builder().tls()).await else { return };
    let mut roots = RootCertStore::empty();
    let ca = text(server.tls().unwrap().ca_file());
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut own = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let handshakes = Arc::new(Handshakes::default());
    own.key_log = Arc::clone(&handshakes) as Arc<dyn KeyLog>;
    let tls = Tls::new().client_config(Arc::new(own));
    assert!(!format!("{tls:?}").contains("Handshakes"));
    use_and_end(Client::connect(config(&server, tls.clone())).await.unwrap()).await;
    assert!(handshakes.0.load(Ordering::SeqCst) > 0);
    // A setting that would have no effect is refused.
    let both = tls.ca_pem(&ca);
    let text = Client::connect(config(&server, both)).await.expect_err("it would have no effect").to_string();
    assert!(text.contains("tls_ca_pem") && text.contains("rustls::ClientConfig"), "{text}");
}
