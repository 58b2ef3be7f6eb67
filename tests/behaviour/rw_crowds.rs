//! Overlapping readers and waiting writers.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use redgrid_core::Client;
use redgrid_locks::{AcquireError, Holder, RwLock};
use redgrid_testkit::wait_until;
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, client_with, server};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);
const WINDOW: Duration = Duration::from_millis(10);

/// Tasks that read for ever, so that at each instant at least one of them reads.
struct Readers {
    stop: Arc<AtomicBool>,
    sections: Arc<AtomicU64>,
    /// The longest section so far, in microseconds. A busy machine lengthens sections.
    longest: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Readers {
    fn of(clients: &[Client], tasks: usize, section: Duration) -> Readers {
        let (stop, sections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let longest = Arc::new(AtomicU64::new(0));
        let tasks = (0..tasks).map(|n| {
            let lock = RwLock::new(&clients[n % clients.len()], "a");
            let (stop, sections, longest) = (stop.clone(), sections.clone(), longest.clone());
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let read = lock.read().timeout(SOON).await.unwrap();
                    let entered = Instant::now();
                    // The critical section.
                    tokio::time::sleep(section).await;
                    sections.fetch_add(1, SeqCst);
                    drop(read);
                    longest.fetch_max(entered.elapsed().as_micros() as u64, SeqCst);
                }
            })
        });
        let tasks = tasks.collect();
        Readers { stop, sections, longest, tasks }
    }

    async fn until_busy(&self) {
        let now = self.sections.load(SeqCst);
        wait_until(SOON, async || self.sections.load(SeqCst) > now + 40).await;
    }

    async fn end(self) {
        self.stop.store(true, SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_writer_enters_however_readers_overlap() {
    let server = server().await;
    let of = async || client_with(&server.url(), |config| config.local_handover_window(WINDOW)).await;
    let clients = [of().await, of().await, of().await];
    let section = 40 * MS;
    let readers = Readers::of(&clients, 24, section);
    readers.until_busy().await;
    // One writer belongs to a process that reads, the other to a process that does not.
    for client in [clients[0].clone(), client(&server).await] {
        let (mut waits, mut asked) = (Vec::new(), Stopwatch::start());
        for _ in 0..10 {
            readers.until_busy().await;
            asked.restart();
            let write = RwLock::new(&client, "a").write().timeout(SOON).await.unwrap();
            waits.push(asked.elapsed());
            write.release().await.unwrap();
        }
        waits.sort();
        // A writer is expected to wait for the longest read and a hand-over window. The rest is
        // tolerance for messages and timers on a busy machine. A writer that needed a moment
        // without readers would wait much longer, because there is none.
        let most = Duration::from_micros(readers.longest.load(SeqCst)) + WINDOW;
        println!("{waits:?}, with sections of at most {most:?} and a hand-over window");
        assert!(waits[5] <= most * 4 + 500 * MS, "{waits:?}, {most:?}");
        assert!(waits[9] <= most * 4 + 5000 * MS, "{waits:?}, {most:?}");
    }
    readers.end().await;
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_get_their_turn_between_endless_writers() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..8)
        .map(|n| {
            let (lock, stop) = (RwLock::new(&clients[n % 2], "a"), stop.clone());
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    drop(lock.write().timeout(SOON).await.unwrap());
                }
            })
        })
        .collect();
    for client in [clients[0].clone(), client(&server).await] {
        for _ in 0..10 {
            let asked = Stopwatch::start();
            RwLock::new(&client, "a").read().timeout(SOON).await.unwrap().release().await.unwrap();
            asked.assert_within(Duration::from_secs(5));
        }
    }
    stop.store(true, SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_wait_no_longer_when_the_writer_has_left_or_died() {
    let server = server().await;
    let (one, two, three) = (client(&server).await, client(&server).await, client(&server).await);
    let observer = server.observer().await.unwrap();
    let reading = RwLock::new(&one, "a").read().await.unwrap();
    let (write, read) = (RwLock::new(&two, "a"), RwLock::new(&three, "a"));
    let marked = async || observer.exists("redgrid_rw_wait:{a}").await.unwrap();
    // The timeout of the writer ends its wait, and its announcement is removed at once.
    assert!(write.write().timeout(50 * MS).await.is_err());
    wait_until(SOON, async || !marked().await).await;
    read.try_read().await.unwrap().expect("no writer waits any more").release().await.unwrap();
    // The writer is cancelled while a reader waits behind it.
    let writer = tokio::spawn(write.write().into_future());
    wait_until(SOON, marked).await;
    assert!(read.try_read().await.unwrap().is_none());
    let behind = tokio::spawn(read.read().timeout(SOON).into_future());
    wait_until(SOON, async || three.stats().waiting == 1).await;
    writer.abort();
    behind.await.unwrap().unwrap().release().await.unwrap();
    // The writer is dead: it announced itself a moment ago, and does not repeat the announcement.
    let writer = tokio::spawn(write.write().into_future());
    wait_until(SOON, marked).await;
    assert!(read.try_read().await.unwrap().is_none());
    wait_until(SOON, async || two.stats().channels > 0).await;
    let now: (u64, u64) = observer
        .query(&["TIME"])
        .await
        .map(|(a, b): (String, String)| (a.parse().unwrap(), b.parse().unwrap()))
        .unwrap();
    writer.abort();
    wait_until(SOON, async || two.stats().waiting == 0 && !marked().await).await;
    let said = format!("{}{:06} {}", now.0, now.1, now.0 * 1000 + 1000);
    observer.cmd(&["HSET", "redgrid_rw_wait:{a}", "dead", &said]).await.unwrap();
    observer.cmd(&["PEXPIRE", "redgrid_rw_wait:{a}", "60000"]).await.unwrap();
    tokio::time::timeout(SOON, read.read()).await.expect("ended after 1 s").unwrap().release().await.unwrap();
    reading.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_writers_of_two_processes_exclude_each_other() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    // -1 during a write, otherwise the number of readers.
    let inside = Arc::new(AtomicI64::new(0));
    let tasks: Vec<_> = (0..24)
        .map(|n| {
            let (lock, inside) = (RwLock::new(&clients[n % 2], "a"), inside.clone());
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(n as u64);
                for _ in 0..100 {
                    if random.u8(..10) == 0 {
                        let write = lock.write().timeout(SOON).await.unwrap();
                        assert_eq!(inside.swap(-1, SeqCst), 0);
                        tokio::task::yield_now().await;
                        assert_eq!(inside.swap(0, SeqCst), -1);
                        drop(write);
                    } else {
                        let read = lock.read().timeout(SOON).await.unwrap();
                        assert!(inside.fetch_add(1, SeqCst) >= 0);
                        tokio::task::yield_now().await;
                        assert!(inside.fetch_sub(1, SeqCst) > 0);
                        drop(read);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Spawns a task that enters the lock and then records its number. Readers stay until the test ends
/// them.
fn enqueue(
    lock: &RwLock,
    number: usize,
    writes: bool,
    order: &Arc<Mutex<Vec<usize>>>,
    leave: &Arc<Semaphore>,
) -> JoinHandle<()> {
    let (lock, order, leave) = (lock.clone(), Arc::clone(order), Arc::clone(leave));
    tokio::spawn(async move {
        let enter = || order.lock().unwrap().push(number);
        if writes {
            let guard = lock.write().timeout(SOON).await.unwrap();
            enter();
            guard.release().await.unwrap();
        } else {
            let guard = lock.read().timeout(SOON).await.unwrap();
            enter();
            leave.acquire().await.unwrap().forget();
            guard.release().await.unwrap();
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fair_lock_is_entered_in_request_order_by_all_processes() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let clients = [client(&server).await, client(&server).await];
    let locks = clients.each_ref().map(|client| RwLock::new(client, "a").fair());
    let in_line = async || {
        let holds = u64::from(observer.exists("redgrid_rw_line:{a}").await.unwrap());
        holds + observer.query::<u64>(&["LLEN", "redisson_lock_queue:redgrid_rw_line:{a}"]).await.unwrap()
    };
    let gate = locks[0].write().await.unwrap();
    let (order, leave) = (Arc::default(), Arc::new(Semaphore::new(0)));
    let mut waiting = Vec::new();
    // Readers in pairs, each pair between two writers.
    for number in 0..9 {
        waiting.push(enqueue(&locks[number / 2 % 2], number, number % 3 == 0, &order, &leave));
        wait_until(SOON, async || in_line().await == number as u64 + 1).await;
    }
    // No request overtakes, even if it could be granted at once.
    assert!(locks[1].try_write().await.unwrap().is_none());
    gate.release().await.unwrap();
    for pair in [2, 5, 8] {
        // Both readers of a pair are in, and the writer behind them is not.
        wait_until(SOON, async || order.lock().unwrap().len() == pair + 1).await;
        assert!(locks[0].try_read().await.unwrap().is_none() || pair == 8);
        leave.add_permits(2);
    }
    for waiting in waiting {
        waiting.await.unwrap();
    }
    let mut order = order.lock().unwrap().clone();
    // The readers of a pair enter one after the other, but record it concurrently.
    order.chunks_mut(3).for_each(|three| three[1..].sort_unstable());
    assert_eq!(order, (0..9).collect::<Vec<_>>());
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fair_holder_reenters_past_the_queue_and_a_cancelled_one_leaves_it() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let (lock, theirs) = (RwLock::new(&one, "a").fair(), RwLock::new(&two, "a").fair());
    let holder = Holder::new();
    let read = lock.read().holder(&holder).await.unwrap();
    let writer = tokio::spawn(theirs.write().timeout(SOON).into_future());
    // Waits until the writer has the gate and waits for the lock. The grant of the gate alone does
    // not suffice: a grant that its caller does not accept within 1 s is released.
    for key in ["redgrid_rw_line:{a}", "redgrid_rw_wait:{a}"] {
        wait_until(SOON, async || observer.exists(key).await.unwrap()).await;
    }
    let again = lock.read().holder(&holder).timeout(SOON).await.unwrap();
    let stuck = lock.write().holder(&holder).await;
    assert!(matches!(stuck, Err(AcquireError::WouldDeadlock { .. })), "{stuck:?}");
    // Another reader waits behind the writer and gives up. Then the writer gives up.
    let gate = async || observer.query::<Vec<String>>(&["HGETALL", "redgrid_rw_line:{a}"]).await.unwrap();
    let before = gate().await;
    let tried = lock.try_read().await.unwrap();
    assert!(tried.is_none(), "the gate before: {before:?}, after: {:?}", gate().await);
    let behind = lock.read().timeout(Duration::from_secs(1)).await;
    assert!(matches!(behind, Err(AcquireError::TimedOut { .. })), "{behind:?}");
    writer.abort();
    wait_until(SOON, async || !observer.exists("redgrid_rw_line:{a}").await.unwrap()).await;
    lock.read().timeout(SOON).await.unwrap().release().await.unwrap();
    again.release().await.unwrap();
    read.release().await.unwrap();
    theirs.write().timeout(SOON).await.unwrap().release().await.unwrap();
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
}

/// The CPU time of this thread: other programs do not add to it.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a thread has a clock").into()
}

/// One more reader costs the same, however many readers of its process hold the lock. The test runs
/// on one thread, whose CPU time is measured.
#[tokio::test]
async fn a_read_among_thousands_of_its_process_costs_no_more_than_among_few() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    let lock = RwLock::new(&client, "a");
    let mut guards = Vec::new();
    let mut more = async |count: usize| {
        let began = cpu_time();
        for _ in 0..count {
            guards.push(lock.read().timeout(SOON).await.unwrap());
        }
        cpu_time() - began
    };
    let few = more(300).await;
    more(8000).await;
    let many = more(300).await;
    let times = many.as_secs_f64() / few.as_secs_f64().max(1e-4);
    println!("among thousands {times:.1} times as long");
    assert!(times < 8.0, "{times}");
    drop(guards);
    wait_until(SOON, async || client.stats().holds == 0).await;
}
