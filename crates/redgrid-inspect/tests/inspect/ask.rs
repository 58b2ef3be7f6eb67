//! Questions to clients, and answers that are forged, too long, late, or missing.

use std::time::{Duration, Instant};

use redgrid_inspect::{AskEvent, Client, Config, Inspector};
use redgrid_testkit::{Observer, wait_until};

use crate::support::{FakeClient, JAVA, ONE, SOON, TWO, client, inspector, report, server};

const TIMEOUT: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn each_client_that_answers_has_its_report() {
    let server = server().await;
    let url = server.url();
    let _clients = [FakeClient::answering(&url, ONE, "web-1").await, FakeClient::answering(&url, TWO, "web-2").await];
    let inspector = inspector(&url).await;
    let ids = [TWO, JAVA, ONE, "no id", ONE].map(str::to_owned);
    let answers = inspector.ask(&ids, TIMEOUT).await.expect("answers");
    let hosts: Vec<_> =
        answers.iter().map(|answer| answer.report.as_ref().map(|report| report.host.as_str())).collect();
    assert_eq!(hosts, [Some("web-2"), None, Some("web-1"), None, Some("web-1")]);
    assert_eq!(answers.iter().map(|answer| answer.id.clone()).collect::<Vec<_>>(), ids);
    let report = answers[0].report.as_ref().expect("a report");
    assert_eq!((report.pid, report.program.as_str(), report.holds), (42, "worker", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_there_ends_the_wait() {
    let server = server().await;
    let _one = FakeClient::answering(&server.url(), ONE, "web-1").await;
    let inspector = inspector(&server.url()).await;
    let began = Instant::now();
    let answers = inspector.ask(&[ONE.to_owned()], SOON).await.expect("answers");
    assert!(answers[0].report.is_some() && began.elapsed() < SOON / 2, "{:?}", began.elapsed());
    assert!(inspector.ask(&[], SOON).await.expect("answers").is_empty());
}

/// A client answers a second after the last question at most, and an answer may be lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_answer_is_asked_again() {
    let server = server().await;
    let observer = server.observer().await.expect("an observer");
    let inspector = inspector(&server.url()).await;
    let before = published(&observer).await;
    let answers = inspector.ask(&[ONE.to_owned()], Duration::from_millis(100)).await.expect("answers");
    assert_eq!((answers[0].report.is_none(), published(&observer).await - before), (true, 2));
    let _one = FakeClient::answering(&server.url(), ONE, "web-1").await;
    let before = published(&observer).await;
    inspector.ask(&[ONE.to_owned()], SOON).await.expect("answers");
    assert_eq!(published(&observer).await - before, 2, "one question and one answer");
}

/// The number of messages that were published so far.
async fn published(observer: &Observer) -> u64 {
    let text: String = observer.query(&["INFO", "commandstats"]).await.expect("an answer");
    let calls = |line: &str| line.strip_prefix("cmdstat_publish:calls=")?.split(',').next()?.parse().ok();
    text.lines().find_map(calls).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_passed_on_as_they_come() {
    let server = server().await;
    let url = server.url();
    let _clients = [FakeClient::answering(&url, ONE, "web-1").await, FakeClient::start(&url, TWO, Vec::new()).await];
    let inspector = inspector(&url).await;
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let asking = tokio::spawn(async move {
        let ids = [ONE.to_owned(), TWO.to_owned()];
        let pass = |event| match event {
            AskEvent::Report(report) => sender.send(report.host).expect("a reader"),
            other => panic!("{other:?}"),
        };
        inspector.ask_each(&ids, SOON, pass).await
    });
    // The other client has not answered, and the question is not over.
    let host = tokio::time::timeout(SOON / 2, reports.recv()).await.expect("in time");
    assert_eq!((host.as_deref(), asking.is_finished()), (Some("web-1"), false));
    asking.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_silent_as_soon_as_its_own_time_has_ended() {
    let server = server().await;
    let observer = server.observer().await.expect("an observer");
    let inspector = inspector(&server.url()).await;
    let (sender, mut silent) = tokio::sync::mpsc::unbounded_channel();
    let asking = tokio::spawn(async move {
        let ids: Vec<String> = (0..200).map(|nth| format!("11111111-1111-8111-8111-111111111{nth:03}")).collect();
        inspector.ask_each(&ids, Duration::from_millis(200), |event| sender.send(event).expect("a reader")).await
    });
    let first = tokio::time::timeout(SOON, silent.recv()).await.expect("in time").expect("an event");
    let AskEvent::Silent { waited, .. } = first else { panic!("{first:?}") };
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    // Most of the others were not asked yet.
    let count = published(&observer).await;
    assert!(count < 200, "{count}");
    asking.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_and_oversized_answers_are_ignored() {
    let server = server().await;
    let url = server.url();
    let oversized = report(ONE, &"x".repeat(10 << 20));
    let stranger = report(JAVA, "nowhere");
    let answers = vec![b"".to_vec(), b"null".to_vec(), b"\xff\xfe".to_vec(), oversized, stranger, report(ONE, "web-1")];
    let _one = FakeClient::start(&url, ONE, answers).await;
    let _two = FakeClient::start(&url, TWO, vec![b"{\"id\":7}".to_vec(), report(JAVA, "nowhere")]).await;
    let answers = inspector(&url).await.ask(&[ONE.to_owned(), TWO.to_owned()], TIMEOUT).await.expect("answers");
    let hosts: Vec<_> =
        answers.iter().map(|answer| answer.report.as_ref().map(|report| report.host.as_str())).collect();
    assert_eq!(hosts, [Some("web-1"), None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_messages_does_not_extend_the_wait() {
    let server = server().await;
    let url = server.url();
    let flood = vec![report(JAVA, &"x".repeat(1000)); 20_000];
    let _one = FakeClient::start(&url, ONE, flood).await;
    let began = Instant::now();
    let answers = inspector(&url).await.ask(&[ONE.to_owned()], Duration::from_millis(200)).await.expect("answers");
    assert!(answers[0].report.is_none() && began.elapsed() < SOON / 6, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_fifty_clients_are_asked_a_second() {
    let server = server().await;
    let inspector = inspector(&server.url()).await;
    let ids: Vec<String> = (0..50).map(|nth| format!("11111111-1111-8111-8111-1111111111{nth:02}")).collect();
    let began = Instant::now();
    let [one, two] = [inspector.clone(), inspector];
    let (first, second) = tokio::join!(one.ask(&ids, Duration::ZERO), two.ask(&ids, Duration::ZERO));
    assert_eq!((first.expect("answers").len(), second.expect("answers").len()), (50, 50));
    // The first question is sent at once, and then one each 20 ms.
    assert!(began.elapsed() > Duration::from_millis(1900), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_subscribed_afterwards() {
    let server = server().await;
    let _one = FakeClient::answering(&server.url(), ONE, "web-1").await;
    let observer = server.observer().await.expect("an observer");
    let inspector = inspector(&server.url()).await;
    inspector.ask(&[ONE.to_owned(), JAVA.to_owned()], Duration::from_millis(100)).await.expect("answers");
    let is_quiet = async || observer.pubsub_channels("redgrid_console:*").await.expect("an answer").is_empty();
    wait_until(SOON, is_quiet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_living_clients_are_those_that_are_connected() {
    let server = server().await;
    let [one, two] = [client(&server.url()).await, client(&server.url()).await];
    let inspector = inspector(&server.url()).await;
    let mut ids = [&one, &two, inspector.client()].map(|client| client.id().to_owned());
    ids.sort();
    wait_until(SOON, async || inspector.living_clients().await.expect("an answer").ids == ids).await;
    assert!(inspector.living_clients().await.expect("an answer").is_complete);
    one.shutdown(SOON).await.expect("it ends");
    wait_until(SOON, async || inspector.living_clients().await.expect("an answer").ids.len() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_no_pattern() {
    let server = server().await;
    let connect = async |namespace: &str| {
        let config = Config::from_url(server.url()).expect("a URL").namespace(namespace).expect("a namespace");
        Client::connect(config).await.expect("a client")
    };
    let [own, _other] = [connect("p[1]*").await, connect("p1x").await];
    let inspector = Inspector::new(&own);
    wait_until(SOON, async || inspector.living_clients().await.expect("an answer").ids == [own.id()]).await;
}
