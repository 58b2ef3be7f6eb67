//! Read-write locks: exclusion, the state on the server, and leftovers.

use std::time::{Duration, Instant};

use redgrid_locks::{AcquireError, Holder, LostReason, RwLock};
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::{SOON, client, client_with, listening, nothing_is_left, server};

const MS: Duration = Duration::from_millis(1);

async fn fields(observer: &Observer, name: &str) -> Vec<String> {
    let mut fields: Vec<String> = observer.query(&["HKEYS", name]).await.unwrap();
    fields.sort();
    fields
}

/// How many scripts the server has run.
async fn scripts_run(observer: &Observer) -> u64 {
    let stats: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
    let calls = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_eval")?.split_once("calls="));
    calls.filter_map(|(_, rest)| rest.split(',').next()?.parse::<u64>().ok()).sum()
}

/// Repeats a round until the machine was fast enough; returns its result.
async fn rounds<T>(mut round: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..50 {
        if let Some(done) = round().await {
            return done;
        }
    }
    panic!("this machine is much too slow");
}

/// Waits until leftovers of earlier rounds have expired.
async fn nothing_but(observer: &Observer, fields_and_level: usize) {
    wait_until(SOON, async || {
        let fields = fields(observer, "a").await.len();
        fields + observer.keys("*rwlock_timeout*").await.unwrap().len() == fields_and_level
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_read_and_one_writes() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    let first = here.read().await.unwrap();
    let second = there.try_read().await.unwrap().expect("readers share");
    assert!(there.try_write().await.unwrap().is_none() && here.try_write().await.unwrap().is_none());
    first.release().await.unwrap();
    assert!(here.try_write().await.unwrap().is_none());
    second.release().await.unwrap();
    let write = here.try_write().await.unwrap().expect("a free lock");
    assert!(there.try_read().await.unwrap().is_none() && here.try_read().await.unwrap().is_none());
    assert!(there.try_write().await.unwrap().is_none());
    let token = write.token();
    write.release().await.unwrap();
    let next = there.write().await.unwrap();
    assert!(next.token() > token);
    drop(next);
    nothing_is_left(&server.observer().await.unwrap(), &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_a_process_are_one_reader_on_the_server() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    listening(&server, &client).await;
    let observer = server.observer().await.unwrap();
    let lock = RwLock::new(&client, "a");
    // Repeated until a busy machine makes all reads within the hand-over window.
    let (first, guards) = rounds(async || {
        let began = Instant::now();
        let first = lock.read().timeout(SOON).await.unwrap();
        let before = scripts_run(&observer).await;
        let mut guards = Vec::new();
        for _ in 0..100 {
            guards.push(lock.read().await.unwrap());
        }
        let in_time = began.elapsed() < 500 * MS;
        assert!(!in_time || scripts_run(&observer).await == before, "no request is sent");
        in_time.then_some((first, guards))
    })
    .await;
    nothing_but(&observer, 3).await;
    let field = fields(&observer, "a").await.into_iter().find(|field| field != "mode").unwrap();
    assert_eq!(fields(&observer, "a").await.len(), 2);
    assert_eq!(observer.query::<String>(&["HGET", "a", &field]).await.unwrap(), "1");
    assert_eq!(observer.query::<String>(&["HGET", "a", "mode"]).await.unwrap(), "read");
    let level = format!("{{a}}:{field}:rwlock_timeout:1");
    assert_eq!(observer.query::<String>(&["GET", &level]).await.unwrap(), "1");
    for key in ["a", &level] {
        let left = observer.time_to_live(key).await.unwrap().expect("a lifetime");
        assert!(left > Duration::from_secs(15) && left <= Duration::from_secs(30), "{key}: {left:?}");
    }
    first.release().await.unwrap();
    assert!(guards.iter().all(|guard| guard.is_held()));
    for guard in guards {
        guard.release().await.unwrap();
    }
    nothing_is_left(&observer, &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_with_other_options_has_its_own_lease() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    let observer = server.observer().await.unwrap();
    let lock = RwLock::new(&client, "a");
    let long = lock.read().await.unwrap();
    let short = lock.read().lease(400 * MS).await.unwrap();
    assert_eq!(fields(&observer, "a").await.len(), 3);
    // The lifetime of the key is that of the longest lease.
    assert!(observer.time_to_live("a").await.unwrap().unwrap() > Duration::from_secs(20));
    assert_eq!(tokio::time::timeout(SOON, short.lost()).await.unwrap(), LostReason::Expired);
    assert!(long.is_held() && short.release().await.is_err());
    assert!(long.is_held());
    long.release().await.unwrap();
    nothing_is_left(&observer, &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sharers_with_a_fixed_lease_end_one_by_one() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(400 * MS)).await;
    let observer = server.observer().await.unwrap();
    let lock = RwLock::new(&client, "a");
    // Repeated until a busy machine reaches each step in time.
    rounds(async || {
        let began = Instant::now();
        let first = lock.read().timeout(SOON).lease(1000 * MS).await.unwrap();
        wait_until(SOON, async || first.remaining() <= 750 * MS).await;
        let second = lock.read().timeout(SOON).lease(1000 * MS).await.unwrap();
        if began.elapsed() >= 400 * MS {
            return None;
        }
        let (later, earlier) = (second.remaining(), first.remaining());
        assert!(later > earlier + 100 * MS);
        // A shorter lease of one reader ends only for that reader.
        second.extend(900 * MS).await.unwrap();
        let shared = fields(&observer, "a").await.len();
        first.lost().await;
        let held = second.is_held();
        if began.elapsed() >= 1050 * MS {
            return None;
        }
        assert_eq!(shared, 2, "they share");
        assert!(held);
        second.lost().await;
        Some(())
    })
    .await;
    nothing_is_left(&observer, &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_lock_is_renewed_with_its_keys() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.watchdog_lease(2000 * MS)).await;
    let observer = server.observer().await.unwrap();
    let (lock, other) = (RwLock::new(&client, "a"), RwLock::new(&client, "b"));
    let (read, write) = (lock.read().await.unwrap(), other.write().await.unwrap());
    let began = std::time::Instant::now();
    wait_until(SOON, async || {
        assert!(read.is_held() && write.is_held());
        assert_eq!(observer.keys("*").await.unwrap().len(), 3, "two locks and a reader's level");
        began.elapsed() > 4000 * MS
    })
    .await;
    read.release().await.unwrap();
    write.release().await.unwrap();
    nothing_is_left(&observer, &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_enters_again_and_a_writer_may_read() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (lock, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    let me = Holder::new();
    let write = lock.write().holder(&me).await.unwrap();
    let again = lock.write().holder(&me).await.unwrap();
    assert_eq!(write.token(), again.token());
    let read = lock.read().holder(&me).await.unwrap();
    assert!(lock.try_read().await.unwrap().is_none(), "no other holder");
    write.release().await.unwrap();
    assert!(again.is_held() && there.try_read().await.unwrap().is_none());
    // After the release of the write lock, the holder still reads: others may read, but not write.
    again.release().await.unwrap();
    assert!(read.is_held());
    let other = there.try_read().await.unwrap().expect("readers share");
    assert!(there.try_write().await.unwrap().is_none() && lock.try_write().await.unwrap().is_none());
    read.release().await.unwrap();
    other.release().await.unwrap();
    nothing_is_left(&server.observer().await.unwrap(), &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_under_which_its_holder_reads_is_not_handed_on() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    let (lock, me) = (RwLock::new(&client, "a"), Holder::new());
    let write = lock.write().holder(&me).await.unwrap();
    let read = lock.read().holder(&me).await.unwrap();
    let next = tokio::spawn(lock.write().timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    write.release().await.unwrap();
    assert!(lock.try_write().await.unwrap().is_none());
    assert!(!next.is_finished() && read.is_held());
    read.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_asks_to_write_gets_a_deadlock_error() {
    let server = server().await;
    let client = client(&server).await;
    let (lock, me) = (RwLock::new(&client, "a"), Holder::new());
    let read = lock.read().holder(&me).await.unwrap();
    for wait in [None, Some(SOON)] {
        let mut ask = lock.write().holder(&me);
        if let Some(wait) = wait {
            ask = ask.timeout(wait);
        }
        let asked = tokio::time::timeout(SOON, ask).await.unwrap();
        assert!(matches!(asked, Err(AcquireError::WouldDeadlock { .. })), "{asked:?}");
    }
    assert!(lock.try_write().holder(&me).await.unwrap().is_none());
    let scoped = Holder::scope(async {
        let _read = lock.read().await.unwrap();
        lock.write().await
    });
    assert!(matches!(tokio::time::timeout(SOON, scoped).await.unwrap(), Err(AcquireError::WouldDeadlock { .. })));
    // A reader enters again, past a waiting writer.
    let writer = tokio::spawn(lock.write().timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    let again = tokio::time::timeout(SOON, lock.read().holder(&me)).await.unwrap().unwrap();
    drop((read, again));
    writer.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn force_notifies_readers_and_the_writer() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    listening(&server, &one).await;
    let (lock, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    assert!(!lock.force_release().await.unwrap());
    let (mine, theirs) = (lock.read().await.unwrap(), there.read().await.unwrap());
    let state = lock.inspect().await.unwrap().expect("a held lock");
    assert!(state.writer.is_none() && state.remaining.is_some());
    let mut readers: Vec<_> = state.readers.into_iter().map(|reader| reader.client).collect();
    readers.sort();
    let mut clients = vec![one.id().to_owned(), two.id().to_owned()];
    clients.sort();
    assert_eq!(readers, clients);
    assert!(there.force_release().await.unwrap());
    for guard in [mine, theirs] {
        let told = tokio::time::timeout(SOON, guard.lost()).await.unwrap();
        assert!(matches!(told, LostReason::Forced | LostReason::Gone), "{told:?}");
    }
    let write = lock.write().await.unwrap();
    assert_eq!(there.inspect().await.unwrap().unwrap().writer.unwrap().client, one.id());
    assert!(there.force_release().await.unwrap());
    assert!(tokio::time::timeout(SOON, write.lost()).await.is_ok());
    assert!(lock.inspect().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_dropped_at_random_leave_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let mut tasks = Vec::new();
    for n in 0..16_u64 {
        let clients = [one.clone(), two.clone()];
        tasks.push(tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(n);
            for _ in 0..250 {
                let lock = RwLock::new(&clients[random.usize(..2)], format!("name:{}", random.u8(..3)));
                let wait = Duration::from_millis(random.u64(1..30));
                let polls = random.usize(1..8);
                match random.u8(..4) {
                    0 => drop(at_most(polls, lock.write().timeout(wait).into_future()).await),
                    1 => drop(at_most(polls, lock.read().timeout(wait).into_future()).await),
                    2 => {
                        if let Some(Ok(read)) = at_most(polls, lock.read().timeout(wait).into_future()).await {
                            drop(at_most(random.usize(1..6), read.try_upgrade()).await);
                        }
                    }
                    _ => {
                        if let Some(Ok(write)) = at_most(polls, lock.write().timeout(wait).into_future()).await {
                            drop(at_most(random.usize(1..6), write.downgrade()).await);
                        }
                    }
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    nothing_is_left(&observer, &[&one, &two]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_is_forgotten_ends_with_its_lease_also_when_shared() {
    let server = server().await;
    let client =
        client_with(&server.url(), |config| config.watchdog_lease(2000 * MS).local_handover_window(300 * MS)).await;
    let lock = RwLock::new(&client, "a");
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    one.forget();
    two.release().await.unwrap();
    assert!(lock.try_write().await.unwrap().is_none(), "a forgotten read lasts until its lease ends");
    lock.write().timeout(SOON).await.unwrap().release().await.unwrap();

    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    let forgotten = one.watch();
    one.forget();
    wait_until(SOON, async || {
        assert!(two.is_held(), "renewed for the other reader");
        !forgotten.is_held()
    })
    .await;
    let began = std::time::Instant::now();
    wait_until(SOON, async || {
        assert!(two.is_held(), "renewed for the other reader");
        began.elapsed() > 2000 * MS
    })
    .await;
    two.release().await.unwrap();
    lock.try_write().await.unwrap().expect("the lease of the forgotten read has ended").release().await.unwrap();
    nothing_is_left(&server.observer().await.unwrap(), &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpolled_reader_delays_no_other() {
    let server = server().await;
    let client = client(&server).await;
    let lock = RwLock::new(&client, "a");
    let write = lock.write().await.unwrap();
    let mut unpolled = Box::pin(lock.read().into_future());
    assert!(futures_util::poll!(&mut unpolled).is_pending());
    let polled = tokio::spawn(lock.read().timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 2).await;
    write.release().await.unwrap();
    polled.await.unwrap().unwrap().release().await.unwrap();
    lock.write().timeout(SOON).await.unwrap().release().await.unwrap();
    // The unpolled future sends a new request when it is polled again.
    unpolled.await.unwrap().release().await.unwrap();
}
