//! An open console on a server with many keys, beside other clients: what it sends, whether a
//! request takes the server longer than 1 ms, and what is sent after the last page was closed.
//!
//! The first part has so few keys that the console searches them for objects. In the second part,
//! it searches nothing, and lists only what the clients report.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::{Request, StatusCode, header::HOST};
use futures_util::StreamExt;
use redgrid_console::{Access, Console};
use redgrid_core::{Client, Config};
use redgrid_locks::{Lock, LockGuard};
use redgrid_reliable_queue::ReliableQueue;
use redgrid_reliable_queue::codecs::Text;
use redgrid_testkit::{Monitor, Observer, RedisServer};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tower::ServiceExt;

use crate::look::Counted;
use crate::report::Report;
use crate::traffic::{Traffic, is_of_search};
use crate::{SOON, Trouble, connected};

/// The page whose content is read.
const LIST: &str = "locks";

/// The pages that are open at the same time.
const PAGES: [&str; 7] = ["overview", LIST, "lock&name=job:1", "queues", "queue&name=mails:1", "contention", "clients"];

/// The keys of the first part, and the limit of the search.
const SEARCHED_KEYS: usize = 900_000;
const MOST_SEARCHED: usize = 1_000_000;

/// Requests a second, apart from the search: 50 for locks on the screen, 12 for the three queues,
/// and 8 of everything else (pings, INFO, lists of clients, questions to 20 clients).
const MOST_REQUESTS: f64 = 70.0;

/// Commands a second, apart from the search: the requests, and the commands inside their scripts.
/// These are some 10 for a lock and some 20 for a queue, and 7 locks and 3 queues are read.
const MOST_COMMANDS: f64 = 230.0;

/// The share of the server's time that the searches may take: 2 % for locks, and 2 % for queues.
const MOST_OF_SEARCH: f64 = 0.04;

/// Other clients. Each holds a lock, and one of its tasks waits for another lock.
const CLIENTS: usize = 20;

/// Locks that clients of Redisson seem to hold. Only a search finds them.
const LOCKS: usize = 200;

const QUEUES: usize = 3;

/// Keys that one script writes. A larger script would exceed the response timeout.
const FILLED_AT_ONCE: usize = 100_000;

/// The name of the console's connections.
const NAME: &str = "console";

/// Time until the console has done its last reads after the pages were closed.
const SETTLE: Duration = Duration::from_secs(2);

/// The longest time until a page shows the result of a search: one of 900,000 keys takes two or
/// three minutes.
const SHOWN_WITHIN: Duration = Duration::from_secs(300);

/// How long a console continues to read after its last page was closed.
const LINGERS: Duration = Duration::from_secs(30);

/// How long the idle console is measured.
const IDLE: Duration = Duration::from_secs(15);

/// The default of `ping_interval`.
const PING_INTERVAL: Duration = Duration::from_secs(5);

pub(crate) async fn play(report: &mut Report, keys: usize, open: Duration) -> Result<(), Trouble> {
    let server = RedisServer::start().await?;
    let observer = server.observer().await?;
    let others = Others::start(&server).await?;
    let first = keys.min(SEARCHED_KEYS);
    fill(&observer, 0..first).await?;
    report.say(&format!("{first} keys are written"));
    let client = connected(Config::single(server.addr().to_string())?.client_name(NAME)).await?;
    let mut scene = Scene { server, observer, time: open / 2, without: Counted::default() };
    scene.without = scene.counted().await?;
    scene.observer.cmd(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"]).await?;

    let mut pages = Pages::open(&client).await?;
    pages.until_shown(">job:10<").await?;
    report.say("the search has found the locks");
    let searched = scene.part(report, "keys are searched").await?;
    let is_scanned = searched.traffic.scans > 0;
    report.exactly("keys are searched: pages of keys are read (1: yes)", is_scanned.into(), 1);
    report.at_most("keys are searched: share of the server's time for SCAN", searched.scan_share, MOST_OF_SEARCH);
    if first == SEARCHED_KEYS {
        // A search of few keys is fast, so it reads the locks itself.
        let is_read = searched.traffic.has_read("job:");
        report.exactly("keys are searched: locks that only a search finds are read (1: yes)", is_read.into(), 1);
    }

    if keys > MOST_SEARCHED {
        fill(&scene.observer, first..keys).await?;
        pages.until_shown("The deployment has more than").await?;
        scene.observer.cmd(&["SLOWLOG", "RESET"]).await?;
        report.say(&format!("{keys} keys are written"));
        let part = scene.part(report, "too many keys").await?;
        let is_read = part.traffic.has_read("held:");
        report.exactly("too many keys: locks that clients report are read (1: yes)", is_read.into(), 1);
        report.exactly("too many keys: commands of the search", part.traffic.search_commands, 0);
    }
    report.exactly("pages that were closed by the console", pages.closed(), 0);

    pages.close().await;
    sleep(LINGERS + SETTLE).await;
    let idle = scene.traffic(IDLE).await?;
    report.exactly(
        "requests but pings, 30 s after the last page was closed",
        idle.commands + idle.search_commands - idle.pings(),
        0,
    );
    let most = IDLE.as_secs_f64() / PING_INTERVAL.as_secs_f64() + 1.0;
    report.at_most("pings of one connection in 15 s, after that time", idle.most_pings() as f64, most);
    drop(others);
    client.shutdown(SOON).await?;
    Ok(())
}

/// The server, and how it is measured.
struct Scene {
    server: RedisServer,
    observer: Observer,
    /// The length of each measurement; a part has two.
    time: Duration,
    /// The counts of an equally long time without pages.
    without: Counted,
}

/// The measurements of a part.
struct Part {
    traffic: Traffic,
    /// The share of the server's time that was spent on SCAN.
    scan_share: f64,
}

impl Scene {
    /// Measures the console twice: what it costs the server, then what it sends. A monitor would be
    /// a part of the costs.
    async fn part(&self, report: &mut Report, name: &str) -> Result<Part, Trouble> {
        let scanned = self.scan_micros().await?;
        let began = Instant::now();
        let cost = self.counted().await?.since(self.without);
        let scanned = self.scan_micros().await? - scanned;
        let scan_share = scanned / began.elapsed().as_secs_f64() / 1e6;
        let slow = self.slow().await?;
        let traffic = self.traffic(self.time).await?;
        let each = self.time.as_secs_f64().max(f64::MIN_POSITIVE);
        for Slow { text, .. } in &slow {
            report.say(&format!("slow: {text}"));
        }
        // A page of 500 keys takes up to 1 ms. On a busy machine it is sometimes interrupted.
        let (of_search, slow): (Vec<_>, Vec<_>) = slow.into_iter().partition(|request| request.is_of_search);
        report.at_most(format!("{name}: requests a second"), traffic.requests as f64 / each, MOST_REQUESTS);
        let what = "commands a second, those in scripts included";
        report.at_most(format!("{name}: {what}"), traffic.commands as f64 / each, MOST_COMMANDS);
        let what = "requests, those of the search left out, that take the server more than 1 ms";
        report.exactly(format!("{name}: {what}"), slow.len(), 0);
        report.number(format!("{name}: commands of the search a second"), traffic.search_commands as f64 / each);
        report.number(format!("{name}: objects that were read"), traffic.read.len());
        report.number(format!("{name}: requests of the search that take more than 1 ms"), of_search.len());
        report.number(format!("{name}: server busier by"), cost.cpu / each);
        report.number(format!("{name}: bytes a second more"), (cost.read + cost.written) / each);
        Ok(Part { traffic, scan_share })
    }

    /// Returns what the server does in the time of a measurement.
    async fn counted(&self) -> Result<Counted, Trouble> {
        let before = Counted::at(&self.observer).await?;
        // This sleep is the measured time, not a wait for a condition.
        sleep(self.time).await;
        Ok(Counted::at(&self.observer).await?.since(before))
    }

    /// Returns what the console sends in this time.
    async fn traffic(&self, time: Duration) -> Result<Traffic, Trouble> {
        let mut connections = self.connections().await?;
        let mut monitor = Monitor::start(&self.server).await?.with_scripts();
        // This sleep is the measured time, too.
        sleep(time).await;
        let seen = monitor.take().await?;
        // One of them may have been replaced.
        connections.extend(self.connections().await?);
        Ok(Traffic::of(&seen, &connections))
    }

    /// Returns the addresses of the console's connections.
    async fn connections(&self) -> Result<HashSet<String>, Trouble> {
        let clients = self.server.clients().await?.into_iter();
        Ok(clients.filter(|client| client.name.starts_with(NAME)).map(|client| client.addr).collect())
    }

    /// Returns how long the server has worked on SCAN, in microseconds.
    async fn scan_micros(&self) -> Result<f64, Trouble> {
        let info: String = self.observer.query(&["INFO", "commandstats"]).await?;
        let micros =
            |line: &str| line.strip_prefix("cmdstat_scan:")?.split("usec=").nth(1)?.split(',').next()?.parse().ok();
        Ok(info.lines().find_map(micros).unwrap_or_default())
    }

    /// Returns the console's requests that took the server more than 1 ms.
    async fn slow(&self) -> Result<Vec<Slow>, Trouble> {
        type Entry = (u64, u64, u64, Vec<Vec<u8>>, String, String);
        let entries: Vec<Entry> = self.observer.query(&["SLOWLOG", "GET", "-1"]).await?;
        let ours = entries.into_iter().filter(|(.., name)| name.starts_with(NAME));
        let slow = |(_, _, micros, request, ..): Entry| {
            let words: Vec<_> = request.iter().take(4).map(|word| String::from_utf8_lossy(word)).collect();
            let is_of_search = is_of_search(&words[0], words.get(2).map(|keys| keys.as_bytes()));
            Slow { text: format!("{micros} µs: {}", words.join(" ")), is_of_search }
        };
        Ok(ours.map(slow).collect())
    }
}

/// A request that took the server more than 1 ms.
struct Slow {
    /// The time, and the request.
    text: String,
    is_of_search: bool,
}

/// The open pages.
struct Pages {
    /// Ends when a page is closed.
    streams: JoinSet<()>,
    /// The content of the list since it was last looked for.
    list: Arc<Mutex<String>>,
}

impl Pages {
    async fn open(client: &Client) -> Result<Self, Trouble> {
        let router = Console::new(client).access(|_| Access::Read).router();
        let (mut streams, list) = (JoinSet::new(), Arc::<Mutex<String>>::default());
        for page in PAGES {
            let mut stream = opened(&router, page).await?;
            let shown = (page == LIST).then(|| Arc::clone(&list));
            streams.spawn(async move {
                while let Some(Ok(part)) = stream.next().await {
                    if let Some(shown) = &shown {
                        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                        shown.push_str(&String::from_utf8_lossy(&part));
                    }
                }
            });
        }
        Ok(Pages { streams, list })
    }

    /// Waits until the list shows this text.
    async fn until_shown(&self, text: &str) -> Result<(), Trouble> {
        let began = Instant::now();
        while !std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner)).contains(text) {
            if began.elapsed() > SHOWN_WITHIN {
                return Err(format!("the list of locks does not show {text:?}").into());
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Returns how many pages the console has closed.
    fn closed(&mut self) -> usize {
        std::iter::from_fn(|| self.streams.try_join_next()).count()
    }

    async fn close(mut self) {
        self.streams.shutdown().await;
    }
}

/// Opens the stream of a page.
async fn opened(router: &Router, page: &str) -> Result<BodyDataStream, Trouble> {
    let request = Request::builder().uri(format!("/live?page={page}")).header(HOST, "localhost:7979");
    let response = router.clone().oneshot(request.body(Body::empty())?).await?;
    if response.status() != StatusCode::OK {
        return Err(format!("the page {page} is answered with {}", response.status()).into());
    }
    Ok(response.into_body().into_data_stream())
}

/// Clients that use the server, and what they have on it.
struct Others {
    _held: Vec<LockGuard>,
    _waiting: JoinSet<()>,
}

impl Others {
    /// Starts the clients, and writes queues, and locks that clients of Redisson seem to hold.
    async fn start(server: &RedisServer) -> Result<Self, Trouble> {
        let observer = server.observer().await?;
        for number in 0..LOCKS {
            let (name, holder) = (format!("job:{number}"), format!("0f8fad5b-d9cb-469f-a165-70867728950e:{number}"));
            observer.cmd(&["HSET", &name, &holder, "1"]).await?;
            observer.cmd(&["PEXPIRE", &name, "3600000"]).await?;
        }
        let (mut held, mut waiting) = (Vec::new(), JoinSet::new());
        for number in 0..CLIENTS {
            let client = connected(Config::single(server.addr().to_string())?).await?;
            held.push(Lock::new(&client, format!("held:{number}")).acquire().await?);
            waiting.spawn(async move {
                // It waits until the end of the measurement.
                let _ = Lock::new(&client, "job:1").acquire().await;
            });
        }
        let client = connected(Config::single(server.addr().to_string())?).await?;
        for number in 0..QUEUES {
            let queue: ReliableQueue<String, Text> = ReliableQueue::new(&client, format!("mails:{number}"));
            queue.push("sold").await?;
        }
        client.shutdown(SOON).await?;
        Ok(Others { _held: held, _waiting: waiting })
    }
}

/// Writes keys that are no objects of redgrid.
async fn fill(observer: &Observer, keys: Range<usize>) -> Result<(), Trouble> {
    for first in keys.clone().step_by(FILLED_AT_ONCE) {
        let last = keys.end.min(first + FILLED_AT_ONCE);
        let script = format!("for i = {first}, {last} - 1 do redis.call('set', 'key:' .. i, i) end");
        observer.cmd(&["EVAL", &script, "0"]).await?;
    }
    Ok(())
}
