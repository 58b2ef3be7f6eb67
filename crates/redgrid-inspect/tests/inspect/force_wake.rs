//! Waiters of a fair lock that is freed as a plain one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_core::author::ClientExt as _;
use redgrid_core::{ChannelSelector, PubSubEvent, PubSubStream};
use redgrid_inspect::{ActionOutcome, Client};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, wait_until};

use crate::actions::actions;
use crate::force::outcome;
use crate::support::{JAVA, SOON, client, hold, observer, send, server};

/// The positions of redgrid in the queue of the lock.
const ALIVE: &str = "redgrid_fair:{job}";

/// A waiter of Redisson in the queue of a fair lock.
struct JavaWaiter {
    /// Its notices.
    notices: PubSubStream,
    _client: Client,
}

impl JavaWaiter {
    const FIELD: &str = "0f8fad5b-d9cb-469f-a165-70867728950e:2";

    async fn subscribe(server: &RedisServer) -> Self {
        let client = client(&server.url()).await;
        let channel = ChannelSelector::Plain(format!("redisson_lock__channel:{{job}}:{}", Self::FIELD).into());
        let notices = client.subscribe(channel, 8).await.expect("a subscription");
        JavaWaiter { notices, _client: client }
    }

    async fn enter(observer: &Observer) {
        send(observer, &["RPUSH", "redisson_lock_queue:{job}", Self::FIELD]).await;
        send(observer, &["ZADD", "redisson_lock_timeout:{job}", "9000000000000", Self::FIELD]).await;
    }

    /// Waits until it is notified that the lock is free.
    async fn woken(&self) {
        let message = async {
            while let Some(event) = std::future::poll_fn(|context| self.notices.poll_next(context)).await {
                if matches!(event, PubSubEvent::Message { .. }) {
                    return;
                }
            }
            panic!("the subscription has ended");
        };
        tokio::time::timeout(SOON, message).await.expect("the waiter is notified");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_enters_the_queue_after_the_look_is_woken() {
    // The token of an earlier use of the name makes the lock look like a fenced one.
    for token in [None, Some("7")] {
        let server = server().await;
        let observer = observer(&server).await;
        let proxy = Proxy::to(&server).await.expect("a proxy");
        let actions = actions(&server.url_via(proxy.addr())).await;
        let holder = format!("{JAVA}:1");
        hold(&observer, "job", &holder, "60000").await;
        if let Some(token) = token {
            send(&observer, &["SET", "redisson_lock_token:{job}", token]).await;
        }
        let waiter = JavaWaiter::subscribe(&server).await;
        // The record is written after the look.
        proxy.next(1, "XADD", Action::Hold);
        let forced = tokio::spawn(async move { outcome(&actions, "job", &holder).await });
        wait_until(SOON, async || proxy.counts().held == 1).await;
        JavaWaiter::enter(&observer).await;
        proxy.release_held().await;
        assert!(forced.await.expect("no panic").is_done());
        waiter.woken().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_without_a_queue_costs_one_request_to_wake_the_next_waiter() {
    let server = server().await;
    let observer = observer(&server).await;
    let proxy = Proxy::to(&server).await.expect("a proxy");
    let actions = actions(&server.url_via(proxy.addr())).await;
    hold(&observer, "job", &format!("{JAVA}:1"), "60000").await;
    let count = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&count);
    proxy.on_request(move |request| {
        // The script has four keys; the scripts that only read a queue have fewer. A server that
        // does not know it gets an EVAL, too.
        let is_wake = request[0] == "EVALSHA" && request[2] == "4" && request.iter().any(|key| key == ALIVE);
        seen.fetch_add(u64::from(is_wake), Ordering::Relaxed);
        Action::Forward
    });
    assert!(outcome(&actions, "job", &format!("{JAVA}:1")).await.is_done());
    assert_eq!(count.load(Ordering::Relaxed), 1);
    // The first repetition would come after a second.
    let again = wait_until(SOON, async || count.load(Ordering::Relaxed) > 1);
    assert!(tokio::time::timeout(Duration::from_millis(1500), again).await.is_err(), "{count:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_woken_after_a_takeover_without_a_reply() {
    let server = server().await;
    let observer = observer(&server).await;
    let proxy = Proxy::to(&server).await.expect("a proxy");
    let url = format!("{}?response_timeout=500ms", server.url_via(proxy.addr()));
    let actions = actions(&url).await;
    // The server knows the script after this.
    hold(&observer, "warm", &format!("{JAVA}:1"), "60000").await;
    assert!(outcome(&actions, "warm", &format!("{JAVA}:1")).await.is_done());
    hold(&observer, "job", &format!("{JAVA}:1"), "60000").await;
    let waiter = JavaWaiter::subscribe(&server).await;
    proxy.on_request(|request| {
        // The prefix of the notices for those that lose the lock.
        let is_takeover = request.iter().any(|part| part == "redgrid_client:{");
        if is_takeover { Action::CutAfterForward } else { Action::Forward }
    });
    let forcing = actions.clone();
    let forced = tokio::spawn(async move { outcome(&forcing, "job", &format!("{JAVA}:1")).await });
    let is_lost = ["HEXISTS", "job", &format!("{JAVA}:1")];
    wait_until(SOON, async || !observer.query::<bool>(&is_lost).await.expect("an answer")).await;
    JavaWaiter::enter(&observer).await;
    let outcome = forced.await.expect("no panic");
    assert!(matches!(outcome, ActionOutcome::Unknown { .. }), "{outcome:?}");
    waiter.woken().await;
    assert!(!observer.exists("job").await.expect("an answer"));
}
