//! Clients, holders that other programs wrote, and clients that answer questions.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::time::Duration;

use futures_util::TryStreamExt;
use redgrid_core::author::ClientExt;
use redgrid_core::report::{client_channel, parse_question};
use redgrid_core::{ChannelSelector, PubSubEvent, Request};
use redgrid_inspect::{Client, Inspector, ObjectFilter, ObjectView};
use redgrid_testkit::{Observer, RedisServer, wait_until};
use tokio::task::JoinHandle;

/// For operations that take milliseconds, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A client of Redisson: its id is a UUID of version 4.
pub(crate) const JAVA: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

/// Two clients of redgrid: their ids are UUIDs of version 8.
pub(crate) const ONE: &str = "11111111-1111-8111-8111-111111111111";
pub(crate) const TWO: &str = "22222222-2222-8222-8222-222222222222";

pub(crate) async fn server() -> RedisServer {
    RedisServer::start().await.expect("a server")
}

pub(crate) async fn observer(server: &RedisServer) -> Observer {
    server.observer().await.expect("an observer")
}

pub(crate) async fn client(url: &str) -> Client {
    Client::connect(url).await.expect("a client")
}

/// Waits until the client's channel shows that it is alive.
pub(crate) async fn wait_until_alive(client: &Client) {
    let inspector = Inspector::new(client);
    wait_until(SOON, async || {
        let living = inspector.living_clients().await.expect("an answer");
        living.ids.iter().any(|id| id == client.id())
    })
    .await;
}

/// Connects a client, and waits until others see that it is alive.
pub(crate) async fn living_client(url: &str) -> Client {
    let client = client(url).await;
    wait_until_alive(&client).await;
    client
}

pub(crate) async fn inspector(url: &str) -> Inspector {
    Inspector::new(&client(url).await)
}

/// Sends a command and ignores the reply.
pub(crate) async fn send(observer: &Observer, command: &[&str]) {
    observer.cmd(command).await.unwrap_or_else(|error| panic!("{command:?}: {error}"));
}

/// Writes a lock with one holder.
pub(crate) async fn hold(observer: &Observer, name: &str, holder: &str, millis: &str) {
    send(observer, &["HSET", name, holder, "1"]).await;
    send(observer, &["PEXPIRE", name, millis]).await;
}

/// Lists objects by their names; fails if a name comes twice.
pub(crate) async fn list(inspector: &Inspector, filter: &ObjectFilter) -> BTreeMap<String, ObjectView> {
    let listed: Vec<ObjectView> = inspector.objects(filter).try_collect().await.expect("a list");
    let count = listed.len();
    let by_name: BTreeMap<_, _> = listed.into_iter().map(|view| (view.name.clone(), view)).collect();
    assert_eq!(by_name.len(), count, "a name comes twice");
    by_name
}

/// A client that listens as redgrid's clients do, and publishes these messages for each question.
pub(crate) struct FakeClient {
    task: JoinHandle<()>,
    _client: Client,
}

impl FakeClient {
    pub(crate) async fn start(url: &str, id: &str, answers: Vec<Vec<u8>>) -> Self {
        let client = client(url).await;
        let channel = ChannelSelector::Plain(client_channel(id).into());
        let questions = client.subscribe(channel, 64).await.expect("a subscription");
        let asked = client.clone();
        let task = tokio::spawn(async move {
            while let Some(event) = poll_fn(|context| questions.poll_next(context)).await {
                let PubSubEvent::Message { payload, .. } = event else { continue };
                let Some(channel) = parse_question(&payload).map(str::to_owned) else { continue };
                for answer in &answers {
                    let publish = Request::command("PUBLISH").arg(channel.clone()).arg(answer.clone());
                    asked.run::<()>(publish).await.expect("an answer");
                }
            }
        });
        FakeClient { task, _client: client }
    }

    /// Starts a client that answers with this report.
    pub(crate) async fn answering(url: &str, id: &str, host: &str) -> Self {
        FakeClient::start(url, id, vec![report(id, host)]).await
    }
}

impl Drop for FakeClient {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a report as a client publishes it.
pub(crate) fn report(id: &str, host: &str) -> Vec<u8> {
    let report = serde_json::json!({ "schema": 1, "id": id, "host": host, "pid": 42, "program": "worker", "holds": 1 });
    serde_json::to_vec(&report).expect("JSON")
}
