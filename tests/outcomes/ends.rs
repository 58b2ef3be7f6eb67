//! Rows: the client was shut down, or its runtime has ended.

use std::sync::{Arc, Mutex};
use std::thread;

use redgrid_core::{Client, Config};
use redgrid_countdown_latch::CountDownLatch;
use redgrid_locks::Lock;
use redgrid_semaphore::Semaphore;
use redgrid_testkit::{RedisServer, wait_until};
use redgrid_tests::{SOON, client, server};
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::layer::SubscriberExt;

use crate::calls::{AT_ONCE, Named, OTHERS, WAITING, kind};

fn patient(server: &RedisServer) -> Config {
    Config::from_url(server.url()).unwrap().retries(1000)
}

/// Takes the objects for which the waiting calls wait.
async fn taken(others: &Client) {
    Lock::new(others, "lock").acquire().await.unwrap().forget();
    redgrid_locks::FairLock::new(others, "fair").acquire().await.unwrap().forget();
    Semaphore::new(others, "semaphore", 1).acquire().await.unwrap().forget();
    CountDownLatch::new(others, "latch").try_set_count(1).await.unwrap();
}

async fn each_ends(row: &str, client: &Client, kinds: &[&str], words: &str) {
    let mut wrong = Vec::new();
    for (name, call) in AT_ONCE.into_iter().chain(OTHERS) {
        match tokio::time::timeout(SOON, call(client)).await {
            Err(_) => wrong.push(format!("{name}: does not end early")),
            Ok(outcome) if outcome.is(kinds) && outcome.text.contains(words) => {}
            Ok(outcome) => wrong.push(format!("{name}: {} ({})", outcome.kind, outcome.text)),
        }
    }
    assert!(wrong.is_empty(), "{row}: {wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_reports_that_the_client_was_shut_down() {
    let server = server().await;
    let client = Client::connect(patient(&server)).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    client.shutdown(SOON).await.unwrap();
    each_ends("shut down", &client, &["ShuttingDown"], "").await;
    let ready = tokio::time::timeout(SOON, client.wait_ready(10 * SOON)).await.expect("an early end");
    assert_eq!(kind(&ready.unwrap_err()), "ShuttingDown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_notified_of_the_shutdown() {
    let server = server().await;
    let others = client(&server).await;
    taken(&others).await;
    let client = Client::connect(patient(&server)).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    let waiting: Vec<_> = WAITING.iter().map(|(_, call)| tokio::spawn(call(&client))).collect();
    wait_until(SOON, async || client.stats().waiting >= 4 && client.stats().channels >= 4).await;
    client.shutdown(SOON).await.unwrap();
    for (waiting, (name, _)) in waiting.into_iter().zip(&WAITING) {
        let outcome = tokio::time::timeout(SOON, waiting).await.expect("an early end").unwrap();
        // The timeout of the call may end before the shutdown.
        let bounded = name.ends_with("with a bound") && outcome.is(&["TimedOut", "Ok"]);
        assert!(outcome.is(&["ShuttingDown"]) || bounded, "{name}: {outcome:?}");
    }
}

/// Returns a client that was created in a runtime of its own, and that runtime.
fn client_in(config: Config, runtime: Runtime) -> (Client, Runtime) {
    thread::spawn(move || {
        let client = runtime.block_on(async {
            let client = Client::connect(config).await.unwrap();
            client.wait_ready(SOON).await.unwrap();
            client
        });
        (client, runtime)
    })
    .join()
    .unwrap()
}

fn runtimes() -> [Runtime; 2] {
    [Builder::new_multi_thread(), Builder::new_current_thread()]
        .map(|mut builder| builder.enable_all().build().expect("a runtime"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_an_ended_runtime_reports_it_at_once() {
    let server = server().await;
    for runtime in runtimes() {
        let (client, runtime) = client_in(patient(&server), runtime);
        runtime.shutdown_background();
        each_ends("foreign runtime", &client, &["Unavailable", "NotSent"], "runtime").await;
        let ready = tokio::time::timeout(SOON, client.wait_ready(10 * SOON)).await.expect("an early end").unwrap_err();
        let text = ready.to_string();
        assert!(text.contains("runtime"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_notified_when_the_clients_runtime_ends() {
    let server = server().await;
    let others = client(&server).await;
    taken(&others).await;
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let (client, runtime) = client_in(patient(&server), runtime);
    let unbounded: Vec<&Named> = WAITING.iter().filter(|(name, _)| !name.ends_with("with a bound")).collect();
    let waiting: Vec<_> = unbounded.iter().map(|(_, call)| tokio::spawn(call(&client))).collect();
    wait_until(SOON, async || client.stats().waiting >= 3 && client.stats().channels >= 4).await;
    runtime.shutdown_background();
    for (waiting, (name, _)) in waiting.into_iter().zip(unbounded) {
        let outcome = tokio::time::timeout(SOON, waiting).await;
        let outcome = outcome.unwrap_or_else(|_| panic!("{name}: does not end")).unwrap();
        assert!(outcome.is(&["Unavailable"]) && outcome.text.contains("runtime"), "{name}: {outcome:?}");
    }
}

/// A client works in any runtime while its own runtime lives and is driven.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_works_in_another_runtime_while_its_own_is_driven() {
    let server = server().await;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (client, runtime) = client_in(patient(&server), runtime);
    for (name, call) in AT_ONCE.iter().filter(|(name, _)| !name.starts_with("take")) {
        let outcome =
            tokio::time::timeout(SOON, call(&client)).await.unwrap_or_else(|_| panic!("{name}: does not end"));
        assert_eq!(outcome.kind, "Ok", "{name}: {}", outcome.text);
    }
    client.shutdown(SOON).await.unwrap();
    runtime.shutdown_background();
}

/// A client reports that its runtime of one thread is not driven. The call ends after the response
/// timeout, and its error names the possible cause.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_an_undriven_runtime_reports_it() {
    let server = server().await;
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let config = patient(&server).response_timeout(std::time::Duration::from_millis(500)).retries(3);
    let (client, runtime) = client_in(config, runtime);
    let error =
        tokio::time::timeout(SOON, client.command("PING").query::<String>()).await.expect("an end").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("runtime"), "{text}");
    runtime.shutdown_background();
}

/// The warnings of a dropped client, as text with all fields.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<String>>>);

impl Logged {
    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Logged {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        if text.0.contains("was dropped") {
            self.0.lock().unwrap().push(text.0);
        }
    }
}

#[derive(Default)]
struct Text(String);

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{field}={value:?} "));
    }
}

/// A dropped client with holds warns once, and names them. The test runs on one thread, since the
/// log is that of this thread.
#[tokio::test]
async fn a_client_that_is_dropped_with_holds_warns_once_and_names_them() {
    let logged = Logged::default();
    let _logging = tracing::subscriber::set_default(tracing_subscriber::registry().with(logged.clone()));
    let server = server().await;
    let client = client(&server).await;
    let held = Lock::new(&client, "held").acquire().await.unwrap();
    let permit = Semaphore::new(&client, "permits", 1).acquire().await.unwrap();
    drop(client);
    assert!(logged.lines().is_empty(), "guards keep the client");
    drop((held, permit));
    let lines = logged.lines();
    assert!(lines.len() == 1 && lines[0].contains("held") && lines[0].contains("permits"), "{lines:?}");

    // If everything was released, or the client was shut down, no warning is logged.
    let client = redgrid_tests::client(&server).await;
    Lock::new(&client, "free").acquire().await.unwrap().release().await.unwrap();
    drop(client);
    let client = redgrid_tests::client(&server).await;
    let held = Lock::new(&client, "other").acquire().await.unwrap();
    client.shutdown(SOON).await.unwrap();
    drop((client, held));
    assert_eq!(logged.lines().len(), 1);
}
