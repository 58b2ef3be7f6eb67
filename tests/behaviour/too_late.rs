//! A server whose clock was set forward rejects a request as too late. The client then retries the
//! request once with a new deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{ClientExt, Server};
use redgrid_core::clock::Clock;
use redgrid_core::{
    Client, Code, Config, Failure, IdempotentRequest, IdempotentScript, Reply, Request, Script, ServerError,
};
use redgrid_locks::{AcquireError, Lock};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::fake_server::FakeServer;
use redgrid_tests::{SOON, client_with, server};

/// A client of a server that rejects the first requests as too late, and then grants everything.
fn client(too_late: usize) -> Client {
    let too_late = AtomicUsize::new(too_late);
    let server = FakeServer::new("hasty", move |request: &Request| {
        if !matches!(request.label(), "lock/acquire" | "lock/takeover") {
            return Ok(Reply::Int(1));
        }
        let less = |left: usize| left.checked_sub(1);
        let late = too_late.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        let time = Reply::Bytes(Bytes::from_static(b"1700000000000000"));
        Ok(Reply::Array(vec![Reply::Int(if late { 2 } else { 1 }), time, Reply::Int(0)]))
    });
    Client::over_one(Arc::new(server), Config::single("hasty").unwrap(), Clock::boot()).unwrap()
}

#[tokio::test]
async fn a_request_that_was_too_late_is_retried_with_a_new_deadline() {
    assert!(Lock::new(&client(1), "a").acquire().await.unwrap().is_held());
    assert!(Lock::new(&client(1), "a").try_acquire().await.unwrap().is_some());
    assert!(Lock::new(&client(1), "a").steal().await.unwrap().is_held());
    assert!(Lock::new(&client(1), "a").force_release().await.unwrap());
}

#[tokio::test]
async fn a_request_too_late_twice_is_reported_and_not_as_busy() {
    let told = Lock::new(&client(2), "a").try_acquire().await;
    assert!(matches!(told, Err(AcquireError::Failed(Failure::Unavailable { .. }))), "{told:?}");
    let told = Lock::new(&client(2), "a").steal().await;
    assert!(matches!(told, Err(AcquireError::Failed(Failure::Unavailable { .. }))), "{told:?}");
}

static COUNTED: IdempotentScript<1> = IdempotentScript::new("counted", "return answer({7})");

/// A client of a server that sends these replies in order, and repeats the last one for ever.
fn scripted(answers: Vec<Result<Reply, ServerError>>) -> (Arc<FakeServer>, Client, IdempotentRequest) {
    let asked = AtomicUsize::new(0);
    let server = Arc::new(FakeServer::new("scripted", move |_: &Request| {
        let nth = asked.fetch_add(1, Ordering::Relaxed).min(answers.len() - 1);
        answers[nth].clone()
    }));
    let config = Config::single("scripted").unwrap().response_timeout(Duration::from_millis(100));
    let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::runtime()).unwrap();
    let key = client.key(&"a".try_into().unwrap());
    (server, client, COUNTED.with([key]))
}

fn too_late(time: &'static str) -> Result<Reply, ServerError> {
    Ok(Reply::Array(vec![Reply::Int(0), Reply::Bytes(Bytes::from_static(time.as_bytes()))]))
}

fn done() -> Result<Reply, ServerError> {
    Ok(Reply::Array(vec![Reply::Int(1), Reply::Array(vec![Reply::Int(7)])]))
}

#[tokio::test]
async fn a_late_copy_returns_the_servers_time() {
    let (server, client, request) = scripted(vec![too_late("1700000000000000"), done()]);
    assert_eq!(client.run_exactly_once::<Vec<i64>>(request).await.unwrap(), [7]);
    let now = client.clock().now();
    let time = server.time().at(now, now).expect("a known time");
    assert!((1_700_000_000_000_000..1_700_000_100_000_000).contains(&time), "{time}");
}

static DATED: Script<1> = Script::new("dated", "return 5");

/// Requests that are not exactly-once are retried, too. The clock is paused, so no request is in
/// flight when the caller's timeout ends.
#[tokio::test(start_paused = true)]
async fn requests_that_return_the_time_are_retried_while_their_caller_waits() {
    let late = || Ok(Reply::Array(vec![Reply::Int(-1), Reply::Bytes(Bytes::from_static(b"1700000000000000"))]));
    let (server, client, _) = scripted(vec![late(), Ok(Reply::Int(5))]);
    let request = || DATED.with(["a".into()]).deadline_arg().late_reply_has_time();
    assert_eq!(client.run::<i64>(request()).await.unwrap(), 5);
    let now = client.clock().now();
    assert!(server.time().at(now, now).is_some_and(|time| time >= 1_700_000_000_000_000), "a known time");
    let unanswered = || Err(ServerError::Unknown { reason: "lost".into() });
    for (answers, is_unknown) in [(vec![late()], false), (vec![unanswered(), late()], true)] {
        let (_server, client, _) = scripted(answers);
        let until = client.clock().now() + Duration::from_millis(700);
        let told = client.run_until::<i64>(request().idempotent(), until).await.unwrap_err();
        assert_eq!(
            (told.is_unknown(), matches!(told, ServerError::NotSent { .. })),
            (is_unknown, !is_unknown),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn a_possibly_executed_request_is_not_reported_as_unsent() {
    let unanswered = || Err(ServerError::Unknown { reason: "lost".into() });
    let down = || Err(ServerError::NotSent { reason: "down".into() });
    let (_server, client, request) = scripted(vec![unanswered(), too_late("1700000000000000"), down()]);
    let until = client.clock().now() + Duration::from_millis(700);
    let told = client.run_exactly_once_until::<Vec<i64>>(request, until).await;
    assert!(matches!(told, Err(ServerError::Unknown { .. })), "{told:?}");
}

#[tokio::test]
async fn a_temporary_rejection_is_reported_in_the_servers_words() {
    let message = "NOREPLICAS Not enough good replicas to write.";
    let refused = Err(ServerError::Refused { code: Code::of(message), message: message.into() });
    let (server, client, request) = scripted(vec![refused]);
    let until = client.clock().now() + Duration::from_millis(700);
    let told = client.run_exactly_once_until::<Vec<i64>>(request, until).await;
    assert!(matches!(&told, Err(error) if error.code() == Some(Code::NoReplicas)), "{told:?}");
    // The caller's timeout has ended, so the request is not sent again.
    let asked = server.asked();
    wait_until(SOON, async || client.clock().now() > until + Duration::from_millis(500)).await;
    assert!(server.asked() <= asked + 1, "{} after {asked}", server.asked());
}

/// The estimate of a server's clock gets worse with each minute, so the client requests the time.
#[tokio::test(flavor = "multi_thread")]
async fn an_otherwise_idle_server_is_asked_for_its_time() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&asked);
    proxy.on_request(move |request| {
        seen.fetch_add(usize::from(request[0].eq_ignore_ascii_case(b"TIME")), Ordering::Relaxed);
        Action::Forward
    });
    let quick = |config: Config| config.ping_interval(Duration::from_millis(50));
    let _client = client_with(&server.url_via(proxy.addr()), quick).await;
    wait_until(SOON, async || asked.load(Ordering::Relaxed) > 5).await;
}
