//! Rows: the server refuses the password, or its certificate is refused.

use std::time::Duration;

use redgrid_core::config::Tls;
use redgrid_core::{Client, Config};
use redgrid_testkit::{RedisServer, Sentinels, StartError};
use redgrid_tests::{SOON, client_unready};

use crate::calls::{AT_ONCE, LONG, OTHERS, kind};

/// Sets many retries, so that a call that does not end early lasts much longer.
fn patient(config: Config) -> Config {
    config.retries(1000)
}

/// Checks that every call, and `wait_ready`, ends early with `Unauthorized` and these words.
async fn is_unauthorized(row: &str, client: &Client, words: &str) {
    let ready = tokio::time::timeout(SOON, client.wait_ready(LONG)).await;
    let error = ready.unwrap_or_else(|_| panic!("{row}: wait_ready does not end early")).unwrap_err();
    let text = error.to_string();
    assert!(kind(&error) == "Unauthorized" && text.contains(words), "{row}: {text}");
    for (name, call) in AT_ONCE.into_iter().chain(OTHERS) {
        let ended = tokio::time::timeout(SOON, call(client)).await;
        let outcome = ended.unwrap_or_else(|_| panic!("{row}, {name}: does not end early"));
        let (kind, text) = (&outcome.kind, &outcome.text);
        assert!(kind == "Unauthorized" && text.contains(words), "{row}, {name}: {kind} ({text})");
    }
    let health = client.health().await;
    assert!(!health.is_ready());
    let trouble = health.nodes.iter().find_map(|node| node.trouble.clone()).unwrap_or_default();
    assert!(trouble.contains(words), "{row}: {trouble}");
    assert!(format!("{health:?}").contains("is_unauthorized: true"), "{row}: {health:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_unauthorized_early() {
    let server = RedisServer::builder().password("right").start().await.unwrap();
    let wrong = client_unready(&server.url_for("default", "wrong"), patient).await;
    is_unauthorized("wrong password", &wrong, "WRONGPASS").await;
    let none = client_unready(&format!("redis://{}", server.addr()), patient).await;
    is_unauthorized("no password", &none, "NOAUTH").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_certificate_is_unauthorized_early() {
    let (server, stranger) =
        match (RedisServer::builder().tls().start().await, RedisServer::builder().tls().start().await) {
            (Err(error @ StartError::NoTls { .. }), _) => return eprintln!("SKIPPED: {error}"),
            (server, stranger) => (server.unwrap(), stranger.unwrap()),
        };
    let tls = Tls::new().ca_file(stranger.tls().unwrap().ca_file());
    let config = Config::from_url(server.tls_url().unwrap()).unwrap().tls(tls);
    let client = Client::connect(patient(config)).await.unwrap();
    is_unauthorized("wrong certificate", &client, "certificate").await;
}

/// Sentinels that refuse the password give an early error: no sentinel names the primary.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_refuse_the_password_are_unauthorized_early() {
    let options = RedisServer::builder().password("right");
    let sentinels = Sentinels::builder().sentinel_options(options).start().await.unwrap();
    let url = format!("{}?sentinel_password=wrong", sentinels.url());
    let client = client_unready(&url, patient).await;
    let error = tokio::time::timeout(SOON, client.wait_ready(LONG)).await.expect("an early end").unwrap_err();
    let text = error.to_string();
    assert!(kind(&error) == "Unauthorized" && text.contains("WRONGPASS"), "{text}");
}

/// A refused client continues to connect, and works as soon as the server accepts it.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_was_refused_works_as_soon_as_it_is_accepted() {
    let server = RedisServer::builder().password("testkit").user("app", "on >first ~* &* +@all").start().await.unwrap();
    let client = client_unready(&server.url_for("app", "second"), patient).await;
    let error = tokio::time::timeout(SOON, client.wait_ready(LONG)).await.expect("an early end").unwrap_err();
    assert_eq!(kind(&error), "Unauthorized");
    server.set_user("app", &[">second"]).await.unwrap();
    redgrid_testkit::wait_until(SOON, async || client.wait_ready(Duration::from_secs(1)).await.is_ok()).await;
    for (name, call) in AT_ONCE.iter().filter(|(name, _)| !name.starts_with("take")) {
        let outcome =
            tokio::time::timeout(SOON, call(&client)).await.unwrap_or_else(|_| panic!("{name}: does not end"));
        assert_eq!(outcome.kind, "Ok", "{name}: {}", outcome.text);
    }
}
