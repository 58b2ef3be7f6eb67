//! Local hand-over of a fair lock along the server's queue: the order, and interrupted hand-overs.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use redgrid_core::{Client, Failure};
use redgrid_locks::{AcquireError, FairLock, LockGuard, Token};
use redgrid_testkit::{Action, Fault, Monitor, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::fair::{Record, Theirs, contending, queue, until_waiting};
use redgrid_tests::{SOON, calls_of, client, client_with, nothing_is_left, server, sha};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);

/// Longer than a local hand-over is valid without another request.
const PASS_VALID: Duration = Duration::from_millis(600);

async fn until_over(time: Duration) {
    let over = Instant::now() + time;
    wait_until(SOON, async || Instant::now() > over).await;
}

/// The numbers and tokens of tasks, in the order in which they reported their entry.
#[derive(Clone, Default)]
struct Report(Arc<Mutex<Vec<(usize, Token)>>>);

impl Report {
    fn is_in(&self, number: usize, guard: &LockGuard) {
        self.0.lock().unwrap().push((number, guard.token()));
    }

    /// Returns the numbers in order. Checks that the token of each entry is higher than the one
    /// before.
    fn numbers(&self) -> Vec<usize> {
        let all = self.0.lock().unwrap();
        assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].1), "{all:?}");
        all.iter().map(|(number, _)| *number).collect()
    }

    /// Starts a task that waits for the lock, records its entry, and releases.
    fn enqueue(&self, client: &Client, number: usize) -> JoinHandle<()> {
        let (lock, report) = (FairLock::new(client, "a"), self.clone());
        tokio::spawn(async move {
            let guard = lock.acquire().timeout(SOON).await.unwrap();
            report.is_in(number, &guard);
            guard.release().await.unwrap();
        })
    }

    /// Starts this many waiters of a client, one after another in the queue.
    async fn enqueue_all(&self, client: &Client, observer: &Observer, waiters: usize) -> Vec<JoinHandle<()>> {
        let mut waiting = Vec::new();
        for number in 0..waiters {
            waiting.push(self.enqueue(client, number));
            until_waiting(observer, number + 1).await;
        }
        waiting
    }
}

async fn all(waiting: Vec<JoinHandle<()>>) {
    for waiter in waiting {
        waiter.await.unwrap();
    }
}

/// Returns the hash of the script for local hand-over along the queue.
fn pass() -> String {
    let common = include_str!("../../crates/redgrid-locks/src/scripts/fair_queue.lua");
    sha(&[common, include_str!("../../crates/redgrid-locks/src/scripts/fair_pass.lua")].concat())
}

/// Returns a client behind a proxy. The server has cached all scripts.
async fn behind(server: &RedisServer, timeout: Duration) -> (Proxy, Client) {
    let proxy = Proxy::to(server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(timeout)).await;
    let lock = FairLock::new(&client, "warm");
    let gate = lock.acquire().await.unwrap();
    let next = tokio::spawn(lock.acquire().into_future());
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || queue(&observer, "warm").await.len() == 1).await;
    gate.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
    (proxy, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_pass_ends_at_another_processs_waiter() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let report = Report::default();
    let gate = FairLock::new(&one, "a").acquire().await.unwrap();
    let java = Theirs::new(&observer, "a", 1, 0);
    let mut waiting = Vec::new();
    // The fourth waiter is a Java client.
    for (number, who) in [&one, &one, &two, &one, &two, &two, &one, &one].into_iter().enumerate() {
        waiting.push(report.enqueue(who, number));
        until_waiting(&observer, number + 1 + usize::from(number > 2)).await;
        if number == 2 {
            assert!(!java.try_for(SOON).await);
        }
    }
    gate.release().await.unwrap();
    wait_until(SOON, async || java.try_for(SOON).await).await;
    assert_eq!(report.numbers(), [0, 1, 2]);
    java.unlock().await;
    all(waiting).await;
    assert_eq!(report.numbers(), [0, 1, 2, 3, 4, 5, 6, 7]);
    nothing_is_left(&observer, &[&one, &two]).await;
}

/// Begins a request under a lock of its process, so that the order of requests is known. Returns
/// the request's number and the request.
fn ask(
    lock: &FairLock,
    next: &Mutex<usize>,
) -> (usize, Pin<Box<impl Future<Output = Result<LockGuard, AcquireError>>>>) {
    let mut next = next.lock().unwrap();
    *next += 1;
    let mut asked = Box::pin(lock.acquire().into_future());
    let begun = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(begun, Poll::Pending));
    (*next, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn entering_tasks_confirm_in_the_servers_order() {
    let server = server().await;
    let mut monitor = Monitor::start(&server).await.unwrap().with_scripts();
    let mut record = Record::of("a");
    // For each token, the process and the number of the request that got it.
    let got: Arc<Mutex<Vec<(Token, String, usize)>>> = Arc::default();
    let mut working = Vec::new();
    for _ in 0..3 {
        let (client, next) = (client(&server).await, Arc::new(Mutex::new(0)));
        for _ in 0..5 {
            let (lock, client, next, got) =
                (FairLock::new(&client, "a"), client.clone(), Arc::clone(&next), got.clone());
            working.push(tokio::spawn(async move {
                for n in 0..20 {
                    let (number, asked) = ask(&lock, &next);
                    let guard = asked.await.unwrap();
                    got.lock().unwrap().push((guard.token(), client.id().to_owned(), number));
                    if n % 5 == 0 {
                        tokio::task::yield_now().await;
                    }
                    guard.release().await.unwrap();
                }
            }));
        }
    }
    all(working).await;
    record.see(&monitor.take().await.unwrap());
    let mut got = got.lock().unwrap().clone();
    assert!(got.is_sorted(), "tokens rise with the order of entry");
    got.sort();
    let process = |holder: &String| holder.rsplit_once(':').unwrap().0.to_owned();
    let arrived: Vec<String> = record.arrived.iter().map(process).collect();
    assert_eq!(arrived.len(), 300, "{record:?}");
    assert!(got.iter().map(|(_, client, _)| client).eq(&arrived), "{got:?}\n{record:?}");
    for (_, client, _) in got.iter().filter(|(_, _, number)| *number == 1) {
        let numbers = got.iter().filter(|(_, of, _)| of == client).map(|(_, _, number)| *number);
        assert!(numbers.is_sorted(), "{got:?}");
    }
    assert_eq!((record.grants, record.overtaken.len(), record.gone()), (300, 0, 0), "{record:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_serves_many_owners_unless_there_is_no_window() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    for (window, name) in [(None, "a"), (Some(Duration::ZERO), "b")] {
        let client = client_with(&server.url(), |config| match window {
            Some(window) => config.local_handover_window(window),
            None => config,
        })
        .await;
        let before = calls_of(&observer, "evalsha").await;
        let working = (0..8).map(|_| {
            let lock = FairLock::new(&client, name);
            tokio::spawn(async move {
                for _ in 0..50 {
                    lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
                }
            })
        });
        all(working.collect()).await;
        let each = (calls_of(&observer, "evalsha").await - before) as f64 / 400.0;
        println!("{each} scripts for each owner with {window:?}");
        assert_eq!(each < 1.5, window.is_none(), "{each} for each owner with {window:?}");
        nothing_is_left(&observer, &[&client]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_to_a_pass_costs_no_position() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (proxy, one) = behind(&server, 600 * MS).await;
    let two = client(&server).await;
    let report = Report::default();
    let gate = FairLock::new(&one, "a").acquire().await.unwrap();
    proxy.next(1, pass(), Action::SwallowReply);
    let mut waiting = vec![report.enqueue(&one, 0)];
    until_waiting(&observer, 1).await;
    waiting.push(report.enqueue(&two, 1));
    until_waiting(&observer, 2).await;
    wait_until(SOON, async || proxy.counts().swallowed == 1).await;
    waiting.push(report.enqueue(&one, 2));
    until_waiting(&observer, 3).await;
    // The reply to the request that releases the lock is lost too; its first copy was executed.
    until_over(PASS_VALID).await;
    proxy.next(1, pass(), Action::SwallowReply);
    gate.release().await.unwrap();
    all(waiting).await;
    assert_eq!(report.numbers(), [0, 1, 2]);
    assert_eq!(proxy.counts().swallowed, 2);
    nothing_is_left(&observer, &[&one, &two]).await;
}

/// A hold is not handed over if a late copy of a release may arrive after the next holder has
/// entered.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_a_late_copy_may_release_is_not_passed_on() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (proxy, one) = behind(&server, SOON / 2).await;
    let lock = FairLock::new(&one, "a");
    let gate = lock.acquire().await.unwrap();
    let next = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    until_waiting(&observer, 1).await;
    let asked = calls_of(&observer, "evalsha").await;
    until_over(PASS_VALID).await;
    // The lock is free, and the proxy holds the request for the next waiter. A second copy is sent
    // on another connection.
    proxy.next(1, pass(), Action::Hold);
    gate.release().await.unwrap();
    wait_until(SOON, async || proxy.counts().held == 1).await;
    proxy.cut_all();
    let next = next.await.unwrap().unwrap();
    assert!(calls_of(&observer, "evalsha").await > asked);
    assert_eq!(proxy.release_held().await, 1);
    assert!(observer.exists("a").await.unwrap(), "it was released although the next holder has it");
    next.release().await.unwrap();
    nothing_is_left(&observer, &[&one]).await;
}

/// The holder keeps its lock, although the request that queued it got its reply only after the
/// lease of that request had ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_ends_late_leaves_the_holder_its_lock() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (proxy, one) = behind(&server, 3 * PASS_VALID).await;
    let two = client(&server).await;
    let gate = FairLock::new(&one, "a").acquire().await.unwrap();
    proxy.next(1, pass(), Action::SwallowReply);
    let next = tokio::spawn(FairLock::new(&one, "a").acquire().timeout(SOON).into_future());
    until_waiting(&observer, 1).await;
    wait_until(SOON, async || proxy.counts().swallowed == 1).await;
    assert!(FairLock::new(&two, "a").force_release().await.unwrap());
    tokio::time::timeout(SOON, gate.lost()).await.unwrap();
    let next = next.await.unwrap().unwrap();
    let other = tokio::spawn(FairLock::new(&two, "a").acquire().timeout(SOON).into_future());
    until_over(5 * PASS_VALID).await;
    assert!(next.is_held() && !other.is_finished() && observer.exists("a").await.unwrap());
    next.release().await.unwrap();
    other.await.unwrap().unwrap().release().await.unwrap();
    drop(gate);
    nothing_is_left(&observer, &[&one, &two]).await;
}

/// Local hand-over continues on a slow connection: while one lease is adjusted, the other one ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_connection_does_not_end_a_local_pass() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (proxy, one) = behind(&server, SOON / 2).await;
    let lock = FairLock::new(&one, "a");
    let gate = lock.acquire().lease(SOON).await.unwrap();
    let next = tokio::spawn(lock.acquire().timeout(SOON).lease(SOON).into_future());
    until_waiting(&observer, 1).await;
    proxy.set_both(Fault::Delay(175 * MS));
    until_over(PASS_VALID).await;
    gate.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    proxy.heal();
    nothing_is_left(&observer, &[&one]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_pass_continues_after_a_forced_takeover() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let report = Report::default();
    let gate = FairLock::new(&one, "a").acquire().await.unwrap();
    let waiting = report.enqueue_all(&one, &observer, 3).await;
    let thief = FairLock::new(&two, "a").steal().await.unwrap();
    tokio::time::timeout(SOON, gate.lost()).await.unwrap();
    assert!(report.numbers().is_empty() && thief.token() > gate.token());
    report.is_in(9, &thief);
    thief.release().await.unwrap();
    all(waiting).await;
    assert_eq!(report.numbers(), [9, 0, 1, 2]);
    drop(gate);
    nothing_is_left(&observer, &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_task_of_a_pass_has_its_requested_lease() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let lock = FairLock::new(&client, "a");
    let gate = lock.acquire().await.unwrap();
    let (say, mut said) = mpsc::unbounded_channel();
    for number in 0..4 {
        let (lock, say) = (lock.clone(), say.clone());
        tokio::spawn(async move {
            // The task never releases the lock.
            let guard = lock.acquire().timeout(SOON).lease(1000 * MS).await.unwrap();
            say.send((number, guard.token(), "in")).unwrap();
            guard.lost().await;
            say.send((number, guard.token(), "lost")).unwrap();
            std::future::pending::<()>().await;
        });
        until_waiting(&observer, number + 1).await;
    }
    gate.release().await.unwrap();
    let mut last = None;
    for number in 0..4 {
        for what in ["in", "lost"] {
            let (who, token, said) = tokio::time::timeout(SOON, said.recv()).await.unwrap().unwrap();
            assert_eq!((who, said), (number, what));
            assert!(last <= Some(token));
            last = Some(token);
        }
    }
    // The lock of the last task is free after its lease has ended.
    lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_waiter_is_skipped_by_a_pass_and_a_shutdown_leaves_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let report = Report::default();
    let gate = FairLock::new(&one, "a").acquire().await.unwrap();
    let waiting = report.enqueue_all(&one, &observer, 4).await;
    let lock = FairLock::new(&one, "a");
    // This waiter enters and keeps the lock.
    let inside = tokio::spawn(lock.acquire().into_future());
    until_waiting(&observer, 5).await;
    let outside = tokio::spawn(lock.acquire().into_future());
    until_waiting(&observer, 6).await;
    let last = report.enqueue(&two, 7);
    until_waiting(&observer, 7).await;
    waiting[0].abort();
    waiting[2].abort();
    gate.release().await.unwrap();
    let inside = inside.await.unwrap().unwrap();
    assert_eq!(report.numbers(), [1, 3]);
    wait_until(SOON, async || queue(&observer, "a").await.len() == 2).await;
    one.shutdown(SOON).await.unwrap();
    assert!(matches!(outside.await.unwrap(), Err(AcquireError::Failed(Failure::ShuttingDown { .. }))));
    last.await.unwrap();
    assert_eq!(report.numbers(), [1, 3, 7]);
    drop(inside);
    nothing_is_left(&observer, &[&two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_in_a_pass_keeps_its_positions_for_a_second() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let mut child = contending(env!("CARGO_BIN_EXE_role"), &server.url(), "a", (8, 1_000_000)).await;
    wait_until(SOON, async || queue(&observer, "a").await.len() > 3).await;
    let report = Report::default();
    let mut next = report.enqueue(&client, 0);
    // Between the local hand-overs of the other process, this one enters repeatedly.
    for number in 1..20 {
        next.await.unwrap();
        next = report.enqueue(&client, number);
    }
    child.kill().await.unwrap();
    // The last holder has left the lock with the long lease of a renewed hold.
    FairLock::new(&client, "a").force_release().await.unwrap();
    next.await.unwrap();
    assert_eq!(report.numbers(), (0..20).collect::<Vec<_>>());
    nothing_is_left(&observer, &[&client]).await;
}
