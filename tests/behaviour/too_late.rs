//! A server that finds a request too late, because its clock was set forward: it is asked once more with a fresh limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use redgrid_core::clock::Clock;
use redgrid_core::{Client, Config, Reply, Request};
use redgrid_locks::{AcquireError, Lock};
use redgrid_tests::made::Made;

/// A client of a server that grants everything, after it has found that many requests too late.
fn client(too_late: usize) -> Client {
    let too_late = AtomicUsize::new(too_late);
    let server = Made::new("hasty", move |request: &Request| {
        if !matches!(request.label(), "lock/acquire" | "lock/seize") {
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
