//! Clients that stop to answer questions.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid_console::{Access, Client, Config, Console};
use redgrid_core::author::ClientExt;
use redgrid_core::report::{client_channel, parse_question};
use redgrid_core::{ChannelSelector, PubSubEvent, PubSubStream, Request};
use tokio::time::Instant;

use crate::live::Stream;
use crate::support::{Setup, until_shown};

/// The last answer of a client that stops answering, and the questions after it.
#[derive(Default)]
struct Stopped {
    /// When it answered last.
    last: Option<Instant>,
    /// The number of questions since then.
    unanswered: usize,
}

/// Publishes the report of a client for each question, at most this many.
async fn answer(client: Client, id: String, questions: PubSubStream, most: usize, stopped: Arc<Mutex<Stopped>>) {
    let report = serde_json::json!({ "schema": 1, "id": id, "host": "web-1", "pid": 42 }).to_string();
    let mut left = most;
    while let Some(event) = poll_fn(|context| questions.poll_next(context)).await {
        let PubSubEvent::Message { payload, .. } = event else { continue };
        let Some(channel) = parse_question(&payload).map(str::to_owned) else { continue };
        if left > 0 {
            left -= 1;
            client.run::<()>(Request::command("PUBLISH").arg(channel).arg(report.clone())).await.expect("an answer");
            stopped.lock().expect("no panic").last = Some(Instant::now());
        } else {
            stopped.lock().expect("no panic").unanswered += 1;
        }
    }
}

/// The worst case: it stops just after it has answered.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_hundred_clients_that_stops_is_silent_after_two_questions() {
    let setup = Setup::start().await;
    let fleet = Client::connect(setup.server.url().as_str()).await.expect("a client");
    let stopped = Arc::<Mutex<Stopped>>::default();
    for nth in 0..200 {
        // The first id is on the first page.
        let id = format!("00000000-0000-8000-8000-{nth:012}");
        let questions = fleet.subscribe(ChannelSelector::Plain(client_channel(&id).into()), 16).await;
        let questions = questions.expect("a subscription");
        let (most, stopped) = if nth == 0 { (2, Arc::clone(&stopped)) } else { (usize::MAX, Arc::default()) };
        tokio::spawn(answer(fleet.clone(), id, questions, most, stopped));
    }
    let mut stream = Stream::open(&setup.console(), "clients").await;
    stream.until("state silent").await;
    let stopped = stopped.lock().expect("no panic");
    // Seven to ten seconds on a machine that does nothing else.
    println!("silent after {:?}", stopped.last.expect("it has answered").elapsed());
    // A third question may be asked while the page is written.
    assert!((2..=3).contains(&stopped.unanswered), "{} unanswered questions", stopped.unanswered);
}

/// Questions and answers get lost then, and no client is to blame.
#[tokio::test(flavor = "multi_thread")]
async fn no_client_is_silent_because_its_questions_get_lost() {
    let setup = Setup::start().await;
    let config = Config::from_url(setup.server.url()).expect("a URL");
    let config = config.response_timeout(Duration::from_millis(500)).retries(0);
    let client = Client::connect(config).await.expect("a client");
    let router = Console::new(&client).access(|_| Access::Read).router();
    until_shown(&router, "/clients", "state alive").await;
    let mut stream = Stream::open(&router, "clients").await;
    // The server confirms subscriptions, and publishes nothing.
    setup.observer.cmd(&["CLIENT", "PAUSE", "600000", "WRITE"]).await.expect("an answer");
    let failed = "Could not read the reports of the clients";
    let mut next = async || {
        let message = stream.next().await.expect("a message").to_string();
        assert!(!message.contains("state silent"), "{message}");
        message
    };
    while !next().await.contains(failed) {}
    setup.observer.cmd(&["CLIENT", "UNPAUSE"]).await.expect("an answer");
    loop {
        let message = next().await;
        if message.contains("clients-note") && !message.contains(failed) {
            break;
        }
    }
}
