//! A server that finds a request too late, because its clock was set forward: it is asked once more with a fresh limit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use redgrid_core::clock::Clock;
use redgrid_core::{
    ChannelKind, Client, Config, Epoch, NodeId, Push, Reply, Request, Server, ServerClock, ServerError,
};
use redgrid_locks::{AcquireError, Lock};
use tokio::sync::{mpsc, watch};

/// Grants everything, after it has found that many requests too late.
struct Hasty {
    id: NodeId,
    epoch: watch::Sender<Option<Epoch>>,
    time: ServerClock,
    too_late: AtomicUsize,
    pushes: Mutex<Vec<mpsc::UnboundedSender<Push>>>,
}

#[async_trait]
impl Server for Hasty {
    fn id(&self) -> &NodeId {
        &self.id
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        let answer = |request: &Request| {
            if !matches!(request.label(), "lock/acquire" | "lock/seize") {
                return Reply::Int(1);
            }
            let less = |left: usize| left.checked_sub(1);
            let late = self.too_late.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
            let time = Reply::Bytes(Bytes::from_static(b"1700000000000000"));
            Reply::Array(vec![Reply::Int(if late { 2 } else { 1 }), time, Reply::Int(0)])
        };
        requests.iter().map(|request| Ok(answer(request))).collect()
    }

    fn epoch(&self) -> watch::Receiver<Option<Epoch>> {
        self.epoch.subscribe()
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, _: ChannelKind, _: Vec<Bytes>) -> Result<(), ServerError> {
        Ok(())
    }

    async fn unsubscribe(&self, _: ChannelKind, _: Vec<Bytes>) {}

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.pushes.lock().unwrap().push(sender);
        receiver
    }

    async fn close(&self) {}
}

fn client(too_late: usize) -> Client {
    let server = Hasty {
        id: NodeId("hasty".into()),
        epoch: watch::Sender::new(Some(Epoch { run_id: "one".into(), connection: 1 })),
        time: ServerClock::default(),
        too_late: AtomicUsize::new(too_late),
        pushes: Mutex::default(),
    };
    Client::over_one(Arc::new(server), Config::single("hasty").unwrap(), Clock::boot()).unwrap()
}

#[tokio::test]
async fn what_was_too_late_once_is_asked_again_with_a_fresh_limit() {
    assert!(Lock::new(&client(1), "a").acquire().await.unwrap().is_held());
    assert!(Lock::new(&client(1), "a").try_acquire().await.unwrap().is_some());
    assert!(Lock::new(&client(1), "a").steal().await.unwrap().is_held());
    assert!(Lock::new(&client(1), "a").force_release().await.unwrap());
}

#[tokio::test]
async fn what_is_too_late_twice_is_told_and_not_as_busy() {
    let told = Lock::new(&client(2), "a").try_acquire().await;
    assert!(matches!(told, Err(AcquireError::Unavailable { .. })), "{told:?}");
    let told = Lock::new(&client(2), "a").steal().await;
    assert!(matches!(told, Err(AcquireError::Unavailable { .. })), "{told:?}");
}
