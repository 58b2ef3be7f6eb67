//! Idempotent requests: executed once, however often they are sent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::author::ClientExt;
use redgrid_core::{Client, IdempotentRequest, IdempotentScript, Name, ServerError};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

static ADD: IdempotentScript<1> =
    IdempotentScript::new("add", "return answer({redis.call('INCRBY', KEYS[2], ARGV[4])})");

fn add(client: &Client, n: i64) -> IdempotentRequest {
    ADD.with([client.key(&Name::new("n").unwrap())]).int(n)
}

async fn added(client: &Client, n: i64) -> Result<i64, ServerError> {
    client.run_exactly_once::<Vec<i64>>(add(client, n)).await.map(|sum| sum[0])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_addition_with_a_lost_reply_counts_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(300))).await;
    assert_eq!(added(&client, 1).await.unwrap(), 1);
    proxy.next(2, ADD.body().sha(), Action::SwallowReply);
    assert_eq!(added(&client, 5).await.unwrap(), 6, "the reply to the executed copy");
    assert_eq!(proxy.counts().swallowed, 2);
    assert_eq!(added(&client, 0).await.unwrap(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_that_come_late_add_nothing() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(300))).await;
    assert_eq!(added(&client, 1).await.unwrap(), 1);
    // The first copy is held by the proxy. A second copy is executed, and then another request.
    proxy.next(1, ADD.body().sha(), Action::Hold);
    assert_eq!((added(&client, 5).await.unwrap(), added(&client, 7).await.unwrap()), (6, 13));
    assert_eq!(proxy.release_held().await, 1);
    let observer = server.observer().await.unwrap();
    // These requests are executed after the late copy, whichever connection it uses.
    for _ in 0..50 {
        assert_eq!(added(&client, 0).await.unwrap(), 13);
    }
    assert_eq!(observer.query::<i64>(&["GET", "n"]).await.unwrap(), 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_additions_with_lost_replies_are_each_added_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    // Requests behind an unanswered one have enough time to wait for it.
    let patient = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(100)).retries(100);
    let client = client_with(&server.url_via(proxy.addr()), patient).await;
    let elsewhere = redgrid_tests::client(&server).await;
    added(&client, 0).await.unwrap();
    let (seen, sha) = (AtomicU64::new(0), ADD.body().sha().clone());
    proxy.on_request(move |request| {
        let ours = request.contains(&sha);
        match ours && seen.fetch_add(1, Ordering::Relaxed) % 5 == 2 {
            true => Action::SwallowReply,
            false => Action::Forward,
        }
    });
    let ours = async {
        for _ in 0..5 {
            let sums = join_all((0..4).map(|_| added(&client, 1))).await;
            sums.into_iter().for_each(|sum| assert!(sum.is_ok(), "{sum:?}"));
        }
    };
    let theirs = async {
        for _ in 0..20 {
            added(&elsewhere, 100).await.unwrap();
        }
    };
    tokio::join!(ours, theirs);
    assert!(proxy.counts().swallowed >= 4);
    assert_eq!(added(&elsewhere, 0).await.unwrap(), 2020);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_dropped_before_its_turn_adds_nothing_and_later_adds_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(300))).await;
    added(&client, 0).await.unwrap();
    proxy.next(1, ADD.body().sha(), Action::Hold);
    let first = tokio::spawn({
        let client = client.clone();
        async move { added(&client, 1).await }
    });
    wait_until(SOON, async || proxy.counts().held == 1).await;
    {
        let behind = added(&client, 10);
        tokio::pin!(behind);
        assert!(futures_util::poll!(&mut behind).is_pending());
    }
    first.abort();
    // The next call waits for the first one, although the caller of the first has left.
    assert_eq!(added(&client, 100).await.unwrap(), 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsent_request_is_not_sent_after_its_deadline() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(100))).await;
    added(&client, 0).await.unwrap();
    proxy.refuse_connections().await.unwrap();
    proxy.cut_all();
    wait_until(SOON, async || !client.health().await.is_ready()).await;
    let mut unknown = 0;
    loop {
        match added(&client, 5).await {
            Err(ServerError::NotSent { .. }) => break,
            // The deadline of the request passed at the moment when it was sent.
            Err(ServerError::Unknown { .. }) => unknown += 5,
            other => panic!("{other:?}"),
        }
    }
    // The call is dropped before it is sent.
    assert!(tokio::time::timeout(Duration::from_millis(20), added(&client, 70)).await.is_err());
    proxy.accept_connections().await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    // This call is executed after the calls above.
    let sum = added(&client, 100).await.unwrap();
    assert!((100..=100 + unknown).contains(&sum) && sum % 5 == 0, "{sum}, {unknown} unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_expire_and_rejections_are_reported() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let one = client(&server).await;
    added(&one, 1).await.unwrap();
    let memory = format!("redgrid_once:{{n}}:{}", one.id());
    let left: i64 = observer.query(&["PTTL", &memory]).await.unwrap();
    assert!((1..=40_000).contains(&left), "{left}");
    observer.query::<()>(&["DEL", "n"]).await.unwrap();
    observer.query::<i64>(&["RPUSH", "n", "x"]).await.unwrap();
    let refused = added(&one, 1).await;
    assert!(matches!(refused, Err(ServerError::Refused { .. })), "{refused:?}");
    one.shutdown(SOON).await.unwrap();
    let refused = added(&one, 1).await;
    assert!(matches!(refused, Err(ServerError::ShuttingDown)), "{refused:?}");
}
