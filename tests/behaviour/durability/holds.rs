//! Renewals, permits and extensions that are valid only after replicas have them.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redgrid_core::author::Server;
use redgrid_core::clock::Clock;
use redgrid_core::config::Durability;
use redgrid_core::{
    ChannelKind, Client, CommitError, Config, ConnectionId, NodeId, Push, Refused, Reply, Request, ServerClock,
    ServerError,
};
use redgrid_locks::Lock;
use redgrid_semaphore::{self as semaphore, Semaphore};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::either::EitherSemaphore;
use redgrid_tests::{SOON, server};
use tokio::sync::{Notify, mpsc, watch};

use super::{calls, node, replica_of, replicas};

/// A node that can withhold the reply to one renewal, or confirm no durability.
struct Gated {
    node: Arc<dyn Server>,
    /// Notified when the reply to a renewal of two names has arrived.
    renewed: Notify,
    pass: Notify,
    gated: AtomicBool,
    proves: AtomicBool,
}

#[async_trait]
impl Server for Gated {
    fn id(&self) -> &NodeId {
        self.node.id()
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        let renews = requests.iter().any(|request| request.label() == "lock/renew" && request.all_keys().len() == 2);
        let answers = self.node.call(requests).await;
        if renews && self.gated.swap(false, Ordering::Relaxed) {
            self.renewed.notify_one();
            self.pass.notified().await;
        }
        answers
    }

    async fn commit(&self, _: ConnectionId, asked: Durability, _: &[u8]) -> Result<(), CommitError> {
        match self.proves.load(Ordering::Relaxed) || asked == Durability::Primary {
            true => Ok(()),
            false => Err(CommitError::Unsupported { missing: "a proof".into() }),
        }
    }

    fn connection_id(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.node.connection_id()
    }

    fn time(&self) -> &ServerClock {
        self.node.time()
    }

    async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        self.node.subscribe(kind, channels).await
    }

    async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        self.node.unsubscribe(kind, channels).await;
    }

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        self.node.pushes()
    }

    async fn close(&self) {
        self.node.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_is_as_durable_as_each_name_requires() {
    let server = server().await;
    let gated = Arc::new(Gated {
        node: node(&server).await,
        renewed: Notify::new(),
        pass: Notify::new(),
        gated: AtomicBool::new(false),
        proves: AtomicBool::new(true),
    });
    let config = Config::from_url(server.url()).unwrap();
    let config = config.watchdog_lease(Duration::from_secs(3)).local_handover_window(Duration::from_millis(500));
    let client = Client::over_one(Arc::clone(&gated) as Arc<dyn Server>, config, Clock::boot()).unwrap();
    let strong = replicas(1, SOON);
    let (first, second) = (Lock::new(&client, "a"), Lock::new(&client, "b"));
    let one = first.acquire().durability(strong).await.unwrap();
    let other = second.acquire().durability(strong).await.unwrap();
    let next = tokio::spawn(first.acquire().into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    // The test waits for a renewal that moves the deadline by more than the rest of the test takes.
    wait_until(SOON, async || other.remaining() < Duration::from_millis(2300)).await;
    gated.gated.store(true, Ordering::Relaxed);
    gated.renewed.notified().await;
    gated.proves.store(false, Ordering::Relaxed);
    let left = other.remaining();
    one.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    gated.pass.notify_one();
    // A valid reply would usually have arrived by then. No other event shows that the reply is not
    // applied.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(other.remaining() <= left, "{:?} {left:?}", other.remaining());
    drop((next, other));
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_count_once_replicas_have_them_and_others_do_not_wait_for_that() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    // The configuration permits local hand-over.
    let passing = |config: Config| config.watchdog_lease(SOON).local_handover_window(Duration::from_millis(500));
    let client = redgrid_tests::client_with(&primary.url(), passing).await;
    let mail = Semaphore::new(&client, "mail", 3);
    let both = replicas(1, SOON);
    let proven = mail.acquire().durability(both).await.unwrap();
    let unproven = mail.acquire().await.unwrap();
    replica.pause().await.unwrap();
    // The first waiter requires a replica; the waiter behind it does not.
    let durable = replicas(1, Duration::from_secs(3));
    let short = tokio::spawn(mail.acquire().durability(durable).into_future());
    wait_until(SOON, async || mail.available_permits().await.unwrap() == 0).await;
    unproven.release().await.unwrap();
    let behind = mail.acquire().timeout(SOON).await.unwrap();
    assert!(!short.is_finished());
    let told = short.await.unwrap();
    assert!(matches!(told, Err(semaphore::AcquireError::NotDurable { .. })), "{told:?}");
    // A grant without durability is not handed over to a caller that requires durability.
    wait_until(SOON, async || mail.available_permits().await.unwrap() == 1).await;
    let all = [proven, behind, mail.acquire().await.unwrap()];
    let short = tokio::spawn(mail.acquire().durability(durable).into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    let [proven, behind, last] = all;
    last.release().await.unwrap();
    let told = short.await.unwrap();
    assert!(matches!(told, Err(semaphore::AcquireError::NotDurable { .. })), "{told:?}");
    replica.resume().await.unwrap();
    mail.acquire().durability(both).await.unwrap().release().await.unwrap();
    proven.release().await.unwrap();
    behind.release().await.unwrap();
    wait_until(SOON, async || mail.available_permits().await.unwrap() == 3 && client.stats().names == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_of_permits_count_once_replicas_have_them() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    let lease = Duration::from_secs(3);
    let client = redgrid_tests::client_with(&primary.url(), |config| config.watchdog_lease(lease)).await;
    let mail = Semaphore::new(&client, "mail", 2);
    let both = replicas(1, Duration::from_millis(500));
    let (proven, other) = (mail.acquire().durability(both).await.unwrap(), mail.acquire().await.unwrap());
    replica.pause().await.unwrap();
    let told = tokio::time::timeout(lease + SOON, proven.lost()).await.expect("the permit is not renewed");
    assert_eq!(told, redgrid_semaphore::LostReason::Expired);
    assert!(other.is_held());
    replica.resume().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_is_granted_while_its_client_shuts_down_goes_back() {
    for leases in [false, true] {
        let primary = server().await;
        let replica = replica_of(&primary).await;
        let proxy = Proxy::to(&primary).await.unwrap();
        let observer = primary.observer().await.unwrap();
        let client = redgrid_tests::client_with(&primary.url_via(proxy.addr()), |config| config).await;
        let mail = EitherSemaphore::new(&client, "mail", 3, leases).await;
        mail.acquire().await.unwrap().release().await.unwrap();
        proxy.next(1, "redgrid_once:{mail}", Action::Hold);
        // No replica confirms the acquire, so it is still pending when the client shuts down.
        replica.pause().await.unwrap();
        let confirmed = replicas(1, Duration::from_secs(2));
        let asked = tokio::spawn(mail.acquire().durability(confirmed).into_future());
        let left = async || observer.get::<i64>("mail").await.unwrap();
        wait_until(SOON, async || left().await == Some(2)).await;
        let closing = tokio::spawn({
            let client = client.clone();
            async move { client.shutdown(SOON).await }
        });
        wait_until(SOON, async || client.is_shut_down()).await;
        proxy.release_held().await;
        closing.await.unwrap().unwrap();
        assert!(asked.await.unwrap().is_err());
        assert_eq!(left().await, Some(3), "leases: {leases}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_proven_late_does_not_override_a_later_one() {
    let primary = server().await;
    let replica = replica_of(&primary).await;
    let (client, observer) = (redgrid_tests::client(&primary).await, primary.observer().await.unwrap());
    let mail = Semaphore::new(&client, "mail", 1);
    let (lease, longer, shorter) = (Duration::from_secs(60), Duration::from_secs(90), Duration::from_secs(30));
    let permit = mail.acquire().lease(lease).durability(replicas(1, 2 * SOON)).await.unwrap();
    replica.pause().await.unwrap();
    let resumed = async {
        // Both extensions have been executed by then. The confirmation of the first one does not
        // apply to the second one.
        wait_until(SOON, async || calls(&observer, "zadd").await >= 3).await;
        replica.resume().await.unwrap();
    };
    let (longer, shorter, ()) = tokio::join!(permit.extend(longer), permit.extend(shorter), resumed);
    longer.unwrap();
    shorter.unwrap();
    assert!(permit.remaining().unwrap() <= Duration::from_secs(30), "{:?}", permit.remaining());
    permit.release().await.unwrap();
}
