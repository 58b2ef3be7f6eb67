//! `redgrid clients`, and what `redgrid inspect` says of the clients of holders.

use std::future::poll_fn;
use std::time::Duration;

use redgrid::Client;
use redgrid_core::author::ClientExt;
use redgrid_core::report::{client_channel, parse_question};
use redgrid_core::{ChannelSelector, PubSubEvent, Request};
use redgrid_testkit::{Cluster, Observer, RedisServer, wait_until};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::run;

/// For operations that take milliseconds, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Clients of redgrid, and one of Redisson.
const ONE: &str = "11111111-1111-8111-8111-111111111111";
const TWO: &str = "22222222-2222-8222-8222-222222222222";
const GONE: &str = "33333333-3333-8333-8333-333333333333";
const JAVA: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

/// A client that listens as redgrid's clients do, and answers with this report, if there is one.
struct FakeClient {
    task: JoinHandle<()>,
    own_id: String,
}

impl FakeClient {
    async fn start(url: &str, id: &str, report: Option<Value>) -> Self {
        let client = Client::connect(url).await.expect("a client");
        let channel = ChannelSelector::Plain(client_channel(id).into());
        let questions = client.subscribe(channel, 64).await.expect("a subscription");
        let own_id = client.id().to_owned();
        let task = tokio::spawn(async move {
            while let Some(event) = poll_fn(|context| questions.poll_next(context)).await {
                let PubSubEvent::Message { payload, .. } = event else { continue };
                let (Some(channel), Some(report)) = (parse_question(&payload), &report) else { continue };
                let publish = Request::command("PUBLISH").arg(channel.to_owned()).arg(report.to_string());
                client.run::<()>(publish).await.expect("an answer");
            }
        });
        FakeClient { task, own_id }
    }
}

impl Drop for FakeClient {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn report(id: &str) -> Value {
    json!({
        "schema": 1,
        "id": id,
        "host": "web-1",
        "pid": 4242,
        "program": "worker\u{1b}[2J",
        "client_name": "orders",
        "version": "0.1.0",
        "started_ms": 1_700_000_000_000_u64,
        "holds": 3,
        "waiting": 7,
        "held": [{ "name": "job", "kind": "lock", "number": 17, "held_for_ms": 61_000, "label": "nightly" }],
    })
}

async fn hold(observer: &Observer, name: &str, client: &str) {
    observer.cmd(&["HSET", name, &format!("{client}:17"), "1"]).await.expect("an answer");
    observer.cmd(&["PEXPIRE", name, "600000"]).await.expect("an answer");
}

/// Returns the lines of `redgrid clients`, without those of the fakes' own connections.
fn listed(url: &str, fakes: &[&FakeClient]) -> Vec<Value> {
    let ended = run(&["clients", "--json", "--url", url]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let lines = ended.stdout();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| !fakes.iter().any(|fake| line["id"] == json!(fake.own_id))).collect()
}

async fn assert_clients_are_listed(url: &str) {
    let one = FakeClient::start(url, ONE, Some(report(ONE))).await;
    let two = FakeClient::start(url, TWO, None).await;
    wait_until(SOON, async || tokio::task::block_in_place(|| listed(url, &[&one, &two]).len()) == 2).await;
    let lines = tokio::task::block_in_place(|| listed(url, &[&one, &two]));
    let alive = json!({
        "schema": 1,
        "id": ONE,
        "state": "alive",
        "host": "web-1",
        "pid": 4242,
        "program": "worker\u{1b}[2J",
        "name": "orders",
        "version": "0.1.0",
        "started_ms": 1_700_000_000_000_u64,
        "held": 3,
        "waiting": 7,
    });
    assert_eq!(lines[0], alive);
    assert_eq!((&lines[1]["id"], &lines[1]["state"], &lines[1]["host"]), (&json!(TWO), &json!("silent"), &json!(null)));
    let text = tokio::task::block_in_place(|| run(&["clients", "--url", url])).stdout();
    assert!(text.starts_with("ID  ") && !text.contains('\u{1b}'), "{text}");
    let row = |id: &str| text.lines().find(|line| line.starts_with(id)).expect("a row").to_owned();
    let cells: Vec<_> = row(ONE).split_whitespace().map(str::to_owned).collect();
    assert_eq!(cells[1..], ["alive", "web-1", "4242", "worker\\u{1b}[2J", "orders", "0.1.0", "3", "7"]);
    assert!(row(TWO).ends_with("  silent"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connected_clients_are_listed_and_silent_ones_are_marked() {
    let server = RedisServer::start().await.expect("a server");
    assert_clients_are_listed(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_all_nodes_of_a_cluster_are_listed() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    assert_clients_are_listed(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_itself_is_not_listed() {
    let server = RedisServer::start().await.expect("a server");
    assert_eq!(run(&["clients", "--json", "--url", &server.url()]).stdout(), "");
    let none = run(&["clients", "--url", &server.url()]);
    assert_eq!((none.stdout().as_str(), none.stderr().as_str()), ("", "redgrid: no clients are connected\n"));
}

/// A list of silent clients would mean that they do not answer.
#[tokio::test(flavor = "multi_thread")]
async fn without_permission_to_ask_the_list_is_refused_and_a_holder_is_still_shown() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", ONE).await;
    let _one = FakeClient::start(&server.url(), ONE, Some(report(ONE))).await;
    server.deny(&["publish"]).await.expect("an answer");
    let ended = run(&["clients", "--url", &server.url()]);
    assert_eq!((ended.code(), ended.stdout().as_str()), (77, ""), "{}", ended.stderr());
    assert!(ended.stderr().contains("the server refused"), "{}", ended.stderr());
    let holder = run(&["inspect", "job", "--json", "--url", &server.url()]).json()["holders"][0].clone();
    assert_eq!((&holder["state"], &holder["host"]), (&json!("alive"), &json!(null)));
}

/// Waits until the server has run for 10 s. Before that, a client may not have connected to it yet.
pub(crate) async fn settled(observer: &Observer) {
    let uptime = |info: &str| -> Option<u64> {
        info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")?.trim().parse().ok())
    };
    wait_until(SOON, async || {
        let info: String = observer.query(&["INFO", "server"]).await.expect("an answer");
        uptime(&info).is_some_and(|uptime| uptime >= 10)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_shown_with_its_process_and_its_state() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let url = server.url();
    let _one = FakeClient::start(&url, ONE, Some(report(ONE))).await;
    let _two = FakeClient::start(&url, TWO, None).await;
    for (name, client) in [("job", ONE), ("stopped", TWO), ("dead", GONE), ("java", JAVA)] {
        hold(&observer, name, client).await;
    }
    let holder = |name: &str| run(&["inspect", name, "--json", "--url", &url]).json()["holders"][0].clone();
    let text = |name: &str| run(&["inspect", name, "--url", &url]).stdout();

    let alive = holder("job");
    let process = [&alive["state"], &alive["host"], &alive["pid"], &alive["label"], &alive["held_for_ms"]];
    assert_eq!(
        process.map(Value::clone),
        [json!("alive"), json!("web-1"), json!(4242), json!("nightly"), json!(61_000)]
    );
    assert!(
        text("job").contains(
            "\n  state    alive\n  process  worker\\u{1b}[2J (pid 4242) on web-1, label `nightly`, for 1m 1s\n"
        ),
        "{}",
        text("job")
    );
    assert_eq!((&holder("stopped")["state"], &holder("stopped")["host"]), (&json!("silent"), &json!(null)));
    assert!(text("stopped").contains("\n  state    silent: no answer to two questions\n"), "{}", text("stopped"));
    settled(&observer).await;
    assert_eq!(holder("dead")["state"], json!("not connected"));
    assert!(text("dead").contains("\n  state    not connected: free in 9m "), "{}", text("dead"));
    assert_eq!(holder("java")["state"], json!("not redgrid"));
    assert!(text("java").contains("\n  state    not a client of redgrid\n"), "{}", text("java"));
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_the_writer_are_shown_with_their_mode() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let url = server.url();
    let reader = format!("{GONE}:17");
    observer.cmd(&["HSET", "prices", "mode", "read", &reader, "1"]).await.expect("an answer");
    observer.cmd(&["PEXPIRE", "prices", "600000"]).await.expect("an answer");
    let lease = format!("{{prices}}:{reader}:rwlock_timeout:1");
    observer.cmd(&["SET", &lease, "1", "PX", "300000"]).await.expect("an answer");
    settled(&observer).await;
    let told = run(&["inspect", "prices", "--json", "--url", &url]).json();
    let holder = &told["holders"][0];
    assert_eq!(
        (&told["kind"], &holder["mode"], &holder["number"]),
        (&json!("read-write lock"), &json!("read"), &json!(17))
    );
    assert!(holder["reader_lease_left_ms"].as_u64().is_some_and(|left| left <= 300_000), "{told}");
    let text = run(&["inspect", "prices", "--url", &url]).stdout();
    assert!(text.contains("\n  mode     read\n  state    not connected: free in 4m "), "{text}");
    observer.cmd(&["HSET", "rates", "mode", "write", &format!("{JAVA}:17:write"), "1"]).await.expect("an answer");
    let holder = run(&["inspect", "rates", "--json", "--url", &url]).json()["holders"][0].clone();
    assert_eq!((&holder["client"], &holder["number"], &holder["mode"]), (&json!(JAVA), &json!(17), &json!("write")));
}
