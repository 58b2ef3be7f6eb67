//! One lock on one server, without faults.

use redgrid_locks::{Holder, Lock};
use redgrid_tests::{SOON, client, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_acquired_released_and_free_again() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "orders:42");
    let guard = lock.acquire().await.unwrap();
    assert!(guard.is_held());
    assert!(lock.is_locked().await.unwrap());
    guard.release().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
    assert_eq!(client.stats().names, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_lock_is_reported_as_none() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = Lock::new(&one, "a").acquire().await.unwrap();
    assert!(Lock::new(&two, "a").try_acquire().await.unwrap().is_none());
    assert!(Lock::new(&one, "a").try_acquire().await.unwrap().is_none());
    drop(guard);
    let guard = Lock::new(&two, "a").acquire().timeout(SOON).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_branches_of_a_join_exclude_each_other_without_a_holder() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    let inside = std::sync::atomic::AtomicUsize::new(0);
    let enter = || async {
        let guard = lock.acquire().await.unwrap();
        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
        tokio::task::yield_now().await;
        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        guard.release().await.unwrap();
    };
    tokio::join!(enter(), enter(), enter());
}

#[tokio::test(flavor = "multi_thread")]
async fn both_enter_with_the_same_holder() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    let me = Holder::new();
    let (outer, inner) = tokio::join!(lock.acquire().holder(&me), lock.acquire().holder(&me));
    let (outer, inner) = (outer.unwrap(), inner.unwrap());
    assert_eq!(outer.token(), inner.token());
    inner.release().await.unwrap();
    assert!(outer.is_held());
    outer.release().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_of_two_processes_pass_one_lock_around() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let mut tasks = Vec::new();
    for n in 0..40 {
        let client = if n % 2 == 0 { one.clone() } else { two.clone() };
        tasks.push(tokio::spawn(async move {
            let lock = Lock::new(&client, "a");
            for _ in 0..10 {
                let guard = lock.acquire().await.unwrap();
                let n: i64 = client.command("GET").key("n").unwrap().query::<Option<i64>>().await.unwrap().unwrap_or(0);
                client.command("SET").key("n").unwrap().arg((n + 1).to_string()).query::<()>().await.unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(one.command("GET").key("n").unwrap().query::<i64>().await.unwrap(), 400);
    assert_eq!((one.stats().names, two.stats().names), (0, 0));
}
