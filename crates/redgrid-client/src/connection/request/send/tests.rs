//! Requests to simulated servers: a replaced primary, late replies, an outage, a shutdown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, watch};

use super::*;
use crate::Config;
use crate::clock::Clock;
use crate::connection::{ChannelKind, Client, NodeId, Primary, Push, Refused, ServerClock, TopologyHint};
use crate::sync::Mutex;

const TIMEOUT: Duration = Duration::from_secs(1);

type Answer = Result<Reply, ServerError>;

struct FakeServer {
    id: NodeId,
    epoch: watch::Sender<Option<ConnectionId>>,
    refusal: watch::Sender<Option<ServerError>>,
    time: ServerClock,
    /// The results of the next requests. The last one is repeated.
    results: Mutex<Vec<Answer>>,
    requests: AtomicUsize,
    admission: Semaphore,
    /// The time until a request is answered.
    delay: Duration,
}

impl FakeServer {
    fn up(id: &str, results: impl IntoIterator<Item = Answer>) -> FakeServer {
        FakeServer {
            id: NodeId(id.into()),
            epoch: watch::Sender::new(Some(ConnectionId { run_id: id.into(), connection: 1 })),
            refusal: watch::Sender::new(None),
            time: ServerClock::default(),
            results: Mutex::new(results.into_iter().collect()),
            requests: AtomicUsize::new(0),
            admission: Semaphore::new(1),
            delay: Duration::ZERO,
        }
    }

    fn down() -> FakeServer {
        let down = FakeServer::up("down:1", [Err(ServerError::not_sent("no connection"))]);
        down.epoch.send_replace(None);
        down
    }

    fn request_count(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Server for FakeServer {
    fn id(&self) -> &NodeId {
        &self.id
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Answer> {
        self.requests.fetch_add(requests.len(), Ordering::Relaxed);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let mut results = self.results.lock();
        let next = |_| if results.len() > 1 { results.remove(0) } else { results[0].clone() };
        requests.iter().map(next).collect()
    }

    fn connection_id(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.epoch.subscribe()
    }

    fn in_flight_limit(&self) -> Option<&Semaphore> {
        Some(&self.admission)
    }

    fn refusal(&self) -> watch::Receiver<Option<ServerError>> {
        self.refusal.subscribe()
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, _: ChannelKind, _: Vec<Bytes>) -> Result<Refused, ServerError> {
        Ok(Vec::new())
    }

    async fn unsubscribe(&self, _: ChannelKind, _: Vec<Bytes>) {}

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        mpsc::unbounded_channel().1
    }

    async fn close(&self) {}
}

/// Several nodes. One of them is the primary of every key.
struct Nodes {
    nodes: Vec<Arc<FakeServer>>,
    /// The index of the primary.
    primary: watch::Sender<u64>,
    hints: AtomicUsize,
}

#[async_trait]
impl Topology for Nodes {
    fn primary(&self, _: &[u8]) -> Arc<dyn Server> {
        let server: Arc<dyn Server> = self.nodes[*self.primary.borrow() as usize].clone();
        server
    }

    fn primaries(&self) -> Vec<Arc<dyn Server>> {
        vec![self.primary(b"")]
    }

    fn suspect(&self, _: TopologyHint) {
        self.hints.fetch_add(1, Ordering::Relaxed);
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.primary.subscribe()
    }

    async fn close(&self) {}
}

/// Starts a client with one retry after a lost reply.
fn client_of(nodes: impl IntoIterator<Item = FakeServer>) -> (Arc<Nodes>, Client) {
    let nodes = nodes.into_iter().map(Arc::new).collect();
    let nodes = Arc::new(Nodes { nodes, primary: watch::Sender::new(0), hints: AtomicUsize::new(0) });
    let config = Config::single("a").unwrap().response_timeout(TIMEOUT).retries(1);
    let client = Client::over(Arc::clone(&nodes) as Arc<dyn Topology>, config, Clock::runtime()).unwrap();
    (nodes, client)
}

async fn primary_of(client: &Client) -> Primary {
    let core = client.core();
    core.primaries_until(core.clock.now() + TIMEOUT).await.unwrap().remove(0)
}

async fn run_on(client: &Client, primary: &Primary, request: Request) -> Answer {
    let core = client.core();
    core.run_at(primary, request, core.clock.now() + core.settings.patience()).await
}

fn size() -> Request {
    Request::command("DBSIZE").idempotent()
}

fn lost() -> Answer {
    Err(ServerError::unknown("the reply was lost"))
}

fn too_late() -> Answer {
    Ok(Reply::Array(vec![Reply::Int(-1), Reply::Int(1_700_000_000_000_000)]))
}

fn wrong_password() -> ServerError {
    ServerError::refused("WRONGPASS invalid username-password pair")
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waited_for_admission_goes_to_the_primary_of_then() {
    let (nodes, client) =
        client_of([FakeServer::up("a:1", [Ok(Reply::Int(1))]), FakeServer::up("b:1", [Ok(Reply::Int(2))])]);
    nodes.nodes[0].admission.forget_permits(1);
    let (run, replaced) = tokio::join!(client.run::<i64>(Request::command("INCR").key("a")), async {
        tokio::time::sleep(TIMEOUT / 10).await;
        nodes.primary.send_replace(1);
        nodes.nodes[0].admission.add_permits(1);
    });
    let () = replaced;
    assert_eq!((run.unwrap(), nodes.nodes[0].request_count()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_to_a_dead_primary_waits_for_its_connection() {
    let (nodes, client) = client_of([FakeServer::down()]);
    let result = run_on(&client, &primary_of(&client).await, size()).await;
    assert!(matches!(result, Err(ServerError::NotSent { .. })), "{result:?}");
    // There is only one hint: more hints would defeat the back-off of the topology refreshes.
    assert_eq!((nodes.nodes[0].request_count(), nodes.hints.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_request_to_a_dead_primary_at_once() {
    let (_, client) = client_of([FakeServer::down()]);
    let primary = primary_of(&client).await;
    let begin = tokio::time::Instant::now();
    let (result, ()) = tokio::join!(run_on(&client, &primary, size()), async {
        tokio::time::sleep(TIMEOUT / 10).await;
        client.core().life.close_by(client.core().clock.now() + 10 * TIMEOUT);
    });
    assert!(matches!(result, Err(ServerError::NotSent { .. })), "{result:?}");
    assert!(begin.elapsed() < TIMEOUT, "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_refused_login_ends_a_request_to_a_primary() {
    let refused = || Err(wrong_password());
    let (nodes, client) = client_of([FakeServer::up("a:1", [lost(), refused()])]);
    let result = run_on(&client, &primary_of(&client).await, size()).await;
    assert!(result.as_ref().is_err_and(ServerError::is_unknown), "{result:?}");
    assert_eq!(nodes.nodes[0].request_count(), 2);

    let (nodes, client) = client_of([FakeServer::down()]);
    nodes.nodes[0].refusal.send_replace(Some(wrong_password()));
    let begin = tokio::time::Instant::now();
    let primary = primary_of(&client).await;
    let result = run_on(&client, &primary, size()).await;
    assert!(matches!(result, Err(ServerError::Unauthorized { .. })), "{result:?}");
    assert!(begin.elapsed() < TIMEOUT, "{:?}", begin.elapsed());
    // The refusal concerns the shared connections, not a dedicated one.
    let result = run_on(&client, &primary, size().dedicated()).await;
    assert!(matches!(result, Err(ServerError::NotSent { .. })), "{result:?}");
}

/// The reply that a copy arrived too late shows that the deadlines of all earlier copies have
/// passed, too. So none of them can still execute, but one of them may have executed already.
#[tokio::test(start_paused = true)]
async fn after_a_reply_that_a_copy_was_too_late_lost_replies_are_counted_anew() {
    let late = || Request::command("X").key("a").idempotent().late_reply_has_time();
    let (_, client) = client_of([FakeServer::up("a:1", [lost(), too_late(), lost(), Ok(Reply::Int(7))])]);
    assert_eq!(client.run::<i64>(late()).await.unwrap(), 7);

    let (nodes, client) = client_of([FakeServer::up("a:1", [lost(), too_late(), Err(wrong_password())])]);
    let result = client.run::<i64>(late()).await;
    assert!(result.as_ref().is_err_and(ServerError::is_unknown), "{result:?}");
    assert_eq!(nodes.nodes[0].request_count(), 3);
}

#[cfg(feature = "metrics")]
#[tokio::test(start_paused = true)]
async fn the_reply_of_a_replaced_primary_counts_as_unknown() {
    let recorded = count::recorded::Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let slow = FakeServer { delay: TIMEOUT / 5, ..FakeServer::up("a:1", [Ok(Reply::Int(1))]) };
    let (nodes, client) = client_of([slow, FakeServer::up("b:1", [Ok(Reply::Int(2))])]);
    let primary = primary_of(&client).await;
    let (result, ()) = tokio::join!(run_on(&client, &primary, size()), async {
        tokio::time::sleep(TIMEOUT / 10).await;
        nodes.primary.send_replace(1);
    });
    assert!(result.as_ref().is_err_and(ServerError::is_unknown), "{result:?}");
    let ended = |outcome| recorded.counter("redgrid_requests_total", outcome);
    assert_eq!((ended("unknown"), ended("answered")), (1, 0));
}
