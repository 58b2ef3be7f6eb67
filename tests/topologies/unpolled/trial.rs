//! Keeps a waiting future unpolled at each point where it waits, and checks that no other waiter is
//! delayed.

use std::any::Any;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_core::Client;
use redgrid_testkit::Observer;
use redgrid_tests::SOON;
use tokio::task::JoinHandle;

use crate::fixture::Fixture;

/// How long another waiter may be delayed, in naps: 2 s.
const DELAY: u64 = 40;
const NAP: Duration = Duration::from_millis(50);

/// The most polls of a future before it is kept. After each number of polls it waits at another
/// point.
const POLLS: usize = 8;

/// How long the next wake-up is awaited. A future without one by then waits for another party.
const QUIET: Duration = Duration::from_millis(300);

/// The grant of a waiter. Dropping it gives it back.
pub(super) type Granted = Box<dyn Any + Send>;
pub(super) type Waiting = Pin<Box<dyn Future<Output = Granted> + Send>>;
pub(super) type Wait = fn(Client, String) -> Waiting;
pub(super) type Act = fn(Client, String) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// A waiter as a function: the future borrows nothing.
macro_rules! waiter {
    (|$client:ident, $name:ident| $work:expr) => {{
        fn waiter($client: Client, $name: String) -> Waiting {
            Box::pin(async move { Box::new($work) as Granted })
        }
        waiter as Wait
    }};
}
pub(super) use waiter;

/// Defines a step without a result.
macro_rules! act {
    (|$client:ident, $name:ident| $work:expr) => {{
        fn act($client: Client, $name: String) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                $work;
            })
        }
        act as Act
    }};
}
pub(super) use act;

/// Counts time in naps. A nap is a sleep with a request after it, so it takes longer if this
/// process or its server is slow.
struct Pace {
    naps: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Pace {
    fn of(observer: &Observer) -> Pace {
        let (naps, observer) = (Arc::new(AtomicU64::new(0)), observer.clone());
        let counter = Arc::clone(&naps);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(NAP).await;
                observer.cmd(&["PING"]).await.expect("the server answers");
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Pace { naps, task }
    }

    fn now(&self) -> u64 {
        self.naps.load(Ordering::Relaxed)
    }

    /// Completes `work`, which is to take no longer than [`DELAY`].
    async fn in_time<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        let (began, at) = (Instant::now(), self.now());
        let done = tokio::time::timeout(SOON, work).await;
        let (took, naps) = (began.elapsed(), self.now() - at);
        match done {
            Ok(done) if naps <= DELAY => done,
            _ => panic!("{what}: another waiter was delayed by {took:?}, {naps} naps of {NAP:?}"),
        }
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Polls a future when it is woken, up to `polls` times. Returns true if it still waits then.
async fn poll_some(future: &mut Waiting, polls: usize) -> bool {
    for _ in 0..polls {
        let mut polled = false;
        let next = poll_fn(|cx| match std::mem::replace(&mut polled, true) {
            false => match future.as_mut().poll(cx) {
                Poll::Ready(granted) => Poll::Ready(Some(granted)),
                Poll::Pending => Poll::Pending,
            },
            // A wake-up ends this round; the next round polls.
            true => Poll::Ready(None),
        });
        match tokio::time::timeout(QUIET, next).await {
            Ok(Some(_granted)) => return false,
            Ok(None) => {}
            Err(_) => return true,
        }
    }
    true
}

/// The steps of a trial.
pub(super) struct Case {
    /// Creates the object, if it has to be created.
    pub(super) set_up: Option<Act>,
    /// The waiter that is kept without being polled.
    pub(super) kept: Wait,
    /// Another waiter, which must receive the grant that the kept waiter does not take.
    pub(super) other: Wait,
    /// Whether a third client takes the object first, as `other` takes it.
    pub(super) taken: bool,
    /// The step after the kept waiter has begun to wait.
    pub(super) then: Option<Act>,
}

/// Keeps a waiter at each point where it waits. Another waiter of the same process, and one of
/// another process, must not be delayed.
pub(super) async fn check(on: &Fixture, case: Case) {
    let pace = Pace::of(&on.observer);
    // The trials have separate names, but share clients: separate clients would need hundreds of
    // connections to a cluster.
    let clients = [on.client().await, on.client().await, on.client().await];
    let mut trials = Vec::new();
    for polls in 1..=POLLS {
        for same in [true, false] {
            trials.push(trial(on, &clients, &pace, &case, polls, same));
        }
    }
    join_all(trials).await;
}

async fn trial(
    on: &Fixture,
    [client, another, third]: &[Client; 3],
    pace: &Pace,
    case: &Case,
    polls: usize,
    same: bool,
) {
    static TRIALS: AtomicU64 = AtomicU64::new(0);
    let name = format!("{}:{}", on.name, TRIALS.fetch_add(1, Ordering::Relaxed));
    let what = format!(
        "{polls} polls, a waiter of {} process{}",
        if same { "the same" } else { "another" },
        if case.taken { ", taken at first" } else { "" }
    );
    if let Some(set_up) = case.set_up {
        set_up(third.clone(), name.clone()).await;
    }
    let holder = match case.taken {
        true => Some((case.other)(third.clone(), name.clone()).await),
        false => None,
    };
    let mut kept = (case.kept)(client.clone(), name.clone());
    if !poll_some(&mut kept, polls).await {
        return;
    }
    drop(holder);
    if let Some(then) = case.then {
        then(third.clone(), name.clone()).await;
    }
    let other = (case.other)(if same { client.clone() } else { another.clone() }, name.clone());
    let granted = pace.in_time(&what, tokio::spawn(other)).await.expect("the other waiter ends");
    drop(granted);
    if case.then.is_none() {
        // The kept future was not forgotten: polled again, it sends its request anew.
        tokio::time::timeout(SOON, kept).await.unwrap_or_else(|_| panic!("{what}: polled again, it ends"));
    }
}

/// Checks an object that one caller holds at a time, first while it is free, then while it is
/// taken.
pub(super) async fn held(on: &Fixture, kept: Wait, other: Wait) {
    for taken in [false, true] {
        check(on, Case { set_up: None, kept, other, taken, then: None }).await;
    }
}

/// Checks such an object that has to be created first.
pub(super) async fn held_after(on: &Fixture, set_up: Act, kept: Wait, other: Wait) {
    for taken in [false, true] {
        check(on, Case { set_up: Some(set_up), kept, other, taken, then: None }).await;
    }
}

/// Checks a value or an event that goes to one of several waiters.
pub(super) async fn given(on: &Fixture, set_up: Option<Act>, wait: Wait, then: Act) {
    check(on, Case { set_up, kept: wait, other: wait, taken: false, then: Some(then) }).await;
}
