//! Atomic numbers under contention: batches and lost replies.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_atomic_long::{AtomicDouble, AtomicError, AtomicLong, Client};
use redgrid_core::Failure;
use redgrid_testkit::{Action, Proxy, RedisServer};
use redgrid_tests::process::Other;
use redgrid_tests::{SOON, client_with, server};

/// Counts the requests for numbers that pass through the proxy.
pub(crate) fn count(proxy: &Proxy) -> Arc<AtomicU64> {
    let sent = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&sent);
    proxy.on_request(move |request| {
        let is_ours = [&b"INCRBY"[..], b"EVALSHA", b"EVAL", b"GET"].contains(&&request[0][..]);
        seen.fetch_add(is_ours.into(), Ordering::Relaxed);
        Action::Forward
    });
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_tasks_add_a_hundred_thousand_by_far_fewer_commands_with_own_results() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let sent = count(&proxy);
    let tasks = (0..10).map(|_| {
        let hits = AtomicLong::new(&client, "hits");
        tokio::spawn(async move {
            let mut had = Vec::new();
            for _ in 0..10_000 {
                had.push(hits.increment().await.unwrap());
            }
            assert!(had.is_sorted());
            had
        })
    });
    let mut had: Vec<i64> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    had.sort_unstable();
    assert!(had.into_iter().eq(1..=100_000));
    let sent = sent.load(Ordering::Relaxed);
    eprintln!("{sent} commands for 100,000 additions");
    // If each request serves nine waiters, a tenth of the calls become requests. Whatever the
    // scheduling, at most half do.
    assert!(sent < 50_000, "{sent} commands");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_add_and_each_number_is_returned_once() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    for once in ["", "once"] {
        let name = format!("hits:{once}");
        let (url, program) = (server.url(), env!("CARGO_BIN_EXE_role"));
        let args = ["incrementer", &url, &name, "10", "1000", once];
        let mut processes = join_all((0..3).map(|_| Other::start(program, &args))).await;
        let mut had = BTreeSet::new();
        for process in &mut processes {
            let numbers: Vec<i64> = serde_json::from_str(&process.next_line().await).unwrap();
            assert_eq!(numbers.len(), 10_000);
            had.extend(numbers);
        }
        assert!(had.into_iter().eq(1..=30_000));
        assert_eq!(observer.get(&name).await.unwrap(), Some(30_000));
    }
    let stats: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
    let calls =
        stats.lines().find_map(|line| line.strip_prefix("cmdstat_incrby:calls=")?.split(',').next()?.parse().ok());
    let calls: u64 = calls.expect("some were added");
    eprintln!("{calls} additions of the server for 60,000");
    assert!(calls < 30_000, "{calls} additions of the server");
}

#[tokio::test(flavor = "multi_thread")]
async fn additions_and_subtractions_are_batched_together() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    for once in [false, true] {
        let n = AtomicLong::new(&client, format!("n:{once}"));
        let n = if once { n.exactly_once() } else { n };
        n.set(0).await.unwrap();
        let sent = count(&proxy);
        let mut asked = Vec::new();
        // The first request is sent alone. The others, with alternating signs, wait and form
        // batches.
        let replies = join_all((0..1_000).map(|turn| {
            let by = if turn % 2 == 0 { turn + 1 } else { -turn };
            asked.push(by);
            n.get_and_add(by)
        }))
        .await;
        let mut value = 0;
        for (by, was) in asked.into_iter().zip(replies) {
            assert_eq!(was.unwrap(), value, "in the order of the requests");
            value += by;
        }
        assert_eq!(n.get().await.unwrap(), value);
        let sent = sent.load(Ordering::Relaxed);
        // A command has up to 64 additions. On a busy machine, commands leave while the task is
        // still making requests, and have fewer.
        assert!(sent <= 250, "{sent} commands");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_overflowing_batch_only_overflowing_additions_are_rejected() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    for once in [false, true] {
        let n = AtomicLong::new(&client, format!("n:{once}"));
        let n = if once { n.exactly_once() } else { n };
        n.set(i64::MAX - 600).await.unwrap();
        let sent = count(&proxy);
        let told = join_all((0..1_200).map(|_| n.increment())).await;
        let (added, refused): (Vec<_>, Vec<_>) = told.into_iter().partition(Result::is_ok);
        assert!(refused.iter().all(|told| matches!(told, Err(AtomicError::Overflow { .. }))), "{refused:?}");
        let mut had: Vec<i64> = added.into_iter().map(Result::unwrap).collect();
        had.sort_unstable();
        assert!(had.into_iter().eq(i64::MAX - 599..=i64::MAX), "{} refused", refused.len());
        let sent = sent.load(Ordering::Relaxed);
        // A command has up to 64 additions. On a busy machine, commands leave while the task is
        // still making requests, and have fewer.
        assert!(sent <= 250, "{sent} commands");
        // The sum of a batch has no overflow, although a partial sum would have one.
        let told = join_all([1, -2, i64::MIN, i64::MAX].map(|by| n.add(by).into_future())).await;
        let done: i128 = [1, -2, i64::MIN, i64::MAX]
            .iter()
            .zip(&told)
            .filter(|(_, told)| told.is_ok())
            .map(|(by, _)| i128::from(*by))
            .sum();
        assert_eq!(i128::from(n.get().await.unwrap()), i128::from(i64::MAX) + done, "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doubles_are_added_together_in_their_order() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    for once in [false, true] {
        let n = AtomicDouble::new(&client, format!("n:{once}"));
        let n = if once { n.exactly_once() } else { n };
        n.set(0.0).await.unwrap();
        let sent = count(&proxy);
        let replies = join_all((0..1_000).map(|_| n.add(0.1).into_future())).await;
        for (turn, now) in replies.into_iter().enumerate() {
            let tenths: f64 = format!("{}.{}", (turn + 1) / 10, (turn + 1) % 10).parse().unwrap();
            assert_eq!(now.unwrap(), tenths);
        }
        let sent = sent.load(Ordering::Relaxed);
        // A command has up to 64 additions. On a busy machine, commands leave while the task is
        // still making requests, and have fewer.
        assert!(sent <= 250, "{sent} commands");
        // Only an addition beyond the range of doubles is rejected.
        n.set(f64::MAX).await.unwrap();
        let told = join_all([-1e300, f64::MAX, 1e300, 1e293].map(|by| n.get_and_add(by))).await;
        assert!(matches!(told[1], Err(AtomicError::Overflow { .. })), "{told:?}");
        assert_eq!((told[0].as_ref().unwrap(), told[3].is_err()), (&f64::MAX, true), "{told:?}");
        assert_eq!(n.get().await.unwrap(), f64::MAX);
    }
}

/// Returns how many replies are lost: 60, or `REDGRID_LOST_ANSWERS`.
fn lost_replies() -> u64 {
    std::env::var("REDGRID_LOST_ANSWERS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// Makes a proxy lose some replies about a number. The connection then stays silent, or is cut.
fn lose_replies(proxy: &Proxy, lost: &Arc<AtomicU64>, name: &'static str) {
    let (lost, asked) = (Arc::clone(lost), AtomicU64::new(0));
    proxy.on_request(move |request| {
        if !request.iter().any(|part| part.ends_with(name.as_bytes())) {
            return Action::Forward;
        }
        let asked = asked.fetch_add(1, Ordering::Relaxed);
        let action = match asked % 8 {
            1 => Action::SwallowReply,
            3 | 6 => Action::CutAfterForward,
            _ => return Action::Forward,
        };
        lost.fetch_add(1, Ordering::Relaxed);
        action
    });
}

/// Starts a server, and clients that lose replies and have short timeouts. For more losses, more
/// clients are started, because each mostly waits.
async fn lossy_clients(enough: u64, name: &'static str) -> (RedisServer, Vec<(Proxy, Client)>, Arc<AtomicU64>) {
    let (server, lost) = (server().await, Arc::default());
    let mut clients = Vec::new();
    for _ in 0..if enough > 1_000 { 16 } else { 3 } {
        let proxy = Proxy::to(&server).await.unwrap();
        let quick = |config: redgrid_atomic_long::Config| {
            config.response_timeout(Duration::from_millis(250)).retries(99).retry_delay(Duration::from_millis(2))
        };
        let client = client_with(&server.url_via(proxy.addr()), quick).await;
        lose_replies(&proxy, &lost, name);
        clients.push((proxy, client));
    }
    (server, clients, lost)
}

#[tokio::test(flavor = "multi_thread")]
async fn with_lost_replies_exactly_once_additions_equal_acknowledged_ones() {
    let enough = lost_replies();
    let (server, clients, lost) = lossy_clients(enough, "{once}:n").await;
    let tasks = clients.iter().flat_map(|(_, client)| std::iter::repeat_n(client, 4)).map(|client| {
        let (n, lost) = (AtomicLong::new(client, "{once}:n").exactly_once(), Arc::clone(&lost));
        tokio::spawn(async move {
            let (mut had, mut unknown) = (Vec::new(), 0);
            while lost.load(Ordering::Relaxed) < enough {
                match n.increment().await {
                    Ok(now) => had.push(now),
                    // The machine stalled for longer than the timeout of a call. With the second
                    // error, the call is known to have had no effect.
                    Err(AtomicError::Failed(Failure::OutcomeUnknown { .. })) => unknown += 1,
                    Err(AtomicError::Failed(Failure::Unavailable { .. })) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            (had, unknown)
        })
    });
    let bound = SOON * 3 + Duration::from_millis(100) * u32::try_from(enough).unwrap();
    let all = tokio::time::timeout(bound, join_all(tasks)).await.expect("replies in time");
    let all = all.into_iter().map(Result::unwrap);
    let (had, unknown): (Vec<Vec<i64>>, Vec<usize>) = all.unzip();
    let (mut had, unknown): (Vec<i64>, usize) = (had.concat(), unknown.into_iter().sum());
    let value: i64 = server.observer().await.unwrap().get("{once}:n").await.unwrap().unwrap();
    let acknowledged = had.len();
    eprintln!(
        "{} answers lost, {acknowledged} additions acknowledged, {unknown} unknown",
        lost.load(Ordering::Relaxed)
    );
    had.sort_unstable();
    had.dedup();
    assert_eq!(had.len(), acknowledged, "each addition has its own result");
    // Fewer losses would mean that requests with lost replies were not retried.
    let lost = lost.load(Ordering::Relaxed);
    assert!(unknown as u64 * 20 <= lost, "{unknown} unknown, {lost} answers lost");
    let not_acknowledged = usize::try_from(value).unwrap() - acknowledged;
    assert!(
        not_acknowledged <= unknown,
        "{not_acknowledged} more were added than were acknowledged, {unknown} unknown"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn with_lost_answers_doubles_and_updates_are_changed_exactly_once_too() {
    let (server, clients, lost) = lossy_clients(0, "{twice}:n").await;
    let tasks =
        clients.iter().flat_map(|(_, client)| std::iter::repeat_n(client, 2)).enumerate().map(|(task, client)| {
            let (n, lost) = (AtomicDouble::new(client, "{twice}:n").exactly_once(), Arc::clone(&lost));
            tokio::spawn(async move {
                let mut had = Vec::new();
                while lost.load(Ordering::Relaxed) < 60 {
                    let told = if task % 2 == 0 { n.add(0.5).await } else { n.update(|n| n + 0.5).await };
                    match told {
                        Ok(now) => had.push(now),
                        // The other clients add faster than replies arrive, so the update gives up.
                        // It has no effect then.
                        Err(AtomicError::Contended { .. }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
                had
            })
        });
    let mut had: Vec<f64> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    let value: f64 = server.observer().await.unwrap().get("{twice}:n").await.unwrap().unwrap();
    had.sort_unstable_by(f64::total_cmp);
    assert!(had.iter().enumerate().all(|(turn, now)| *now == (turn + 1) as f64 / 2.0), "{had:?}");
    assert_eq!(value, had.len() as f64 / 2.0);
}
