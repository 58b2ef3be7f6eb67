//! The limit of requests in flight at a node.

use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::{Client, Config, Reply, Request, ServerError};
use redgrid_testkit::{Direction, Fault, Proxy};
use redgrid_tests::{SOON, client_with, server};

/// Resident memory of this process, in MB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

/// All reads succeed. Timeouts are long, because the machine may be busy: a request that was sent
/// and not answered in time is not sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_reads_at_once_all_succeed() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.response_timeout(Duration::from_secs(20)).retries(8)).await;
    client.command("SET").key("a").unwrap().arg("value").query::<()>().await.unwrap();
    let before = resident();
    let read = |client: Client| async move { client.run::<Reply>(Request::command("GET").key("a")).await };
    let reads: Vec<_> = (0..100_000).map(|_| tokio::spawn(read(client.clone()))).collect();
    let answers: Vec<_> = join_all(reads).await.into_iter().map(Result::unwrap).collect();
    let failed: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    // The memory is that of the whole process, so it is meaningful only if this test runs alone.
    println!("resident memory: {before} MB before, {} MB after", resident());
    assert!(failed.is_empty(), "{} failed, the first by {:?}", failed.len(), failed.first());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_request_that_never_leaves_is_reported_as_not_sent() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let settings = |config: Config| config.max_in_flight(2).response_timeout(Duration::from_secs(1)).retries(1);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    proxy.set(Direction::ToServer, Fault::Stall);
    let answers = join_all((0..10).map(|_| client.run::<u64>(Request::command("INCR").key("a")))).await;
    let of = |is: fn(&ServerError) -> bool| answers.iter().filter(|answer| answer.as_ref().is_err_and(is)).count();
    let not_sent = of(|error| matches!(error, ServerError::NotSent { .. }));
    assert_eq!((of(ServerError::is_unknown), not_sent), (2, 8), "{answers:?}");
    proxy.heal();
    client.wait_ready(SOON).await.unwrap();
    // The slots of requests that ended without a reply are free again.
    let answers = join_all((0..10).map(|_| client.run::<u64>(Request::command("INCR").key("b")))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}
