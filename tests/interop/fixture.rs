//! Fixtures of scenarios: one server and one Redisson for each version, and a name for each
//! scenario.

use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_locks::{Client, Config};
use redgrid_testkit::{Observer, RedisServer, ServerBinary, wait_until};
use redgrid_tests::SOON;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::actor::Actor;
use crate::program::Program;
use crate::redisson::Redisson;

/// The poll interval of the Rust clients. Redisson sleeps for the lock's lifetime. A missed message
/// therefore causes a delay that a test detects.
pub(crate) const NEVER: Duration = Duration::from_secs(30);

/// The default watchdog lease of Redisson and of redgrid.
const WATCHDOG: Duration = Duration::from_secs(30);

/// Longer than any message or timer needs on a busy machine, and shorter than any poll interval.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(20);

/// A scenario, for either version of Redisson.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Fixture) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// Lists functions of the file as scenarios.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn scenarios() -> Vec<$crate::fixture::Scenario> {
            let file = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$($crate::fixture::Scenario {
                name: format!("{file}::{}", stringify!($name)).leak(),
                run: |fixture| Box::pin($name(fixture)),
            }),*]
        }
    };
}
pub(crate) use scenarios;

/// The server and the Redisson of one version, shared by its scenarios. The first scenario starts
/// them.
#[derive(Debug)]
pub(crate) struct Line {
    program: Program,
    running: OnceCell<(RedisServer, Arc<Redisson>)>,
}

impl Line {
    pub(crate) fn new(program: Program) -> Line {
        Line { program, running: OnceCell::new() }
    }

    async fn running(&self) -> &(RedisServer, Arc<Redisson>) {
        let start = async || {
            let server = redgrid_tests::server().await;
            let redisson = Redisson::start(&self.program, &server.url(), WATCHDOG).await;
            (server, redisson)
        };
        self.running.get_or_init(start).await
    }
}

/// The fixture of a scenario.
pub(crate) struct Fixture {
    line: Arc<Line>,
    url: String,
    redisson: Arc<Redisson>,
    pub(crate) observer: Observer,
    /// The name of the scenario's lock.
    pub(crate) name: String,
}

impl Fixture {
    pub(crate) async fn of(line: Arc<Line>, scenario: &str) -> Fixture {
        let (server, redisson) = line.running().await;
        let observer = server.observer().await.expect("the server answers");
        let (url, redisson) = (server.url(), redisson.clone());
        Fixture { line, url, redisson, observer, name: scenario.to_owned() }
    }

    /// Returns a client of Rust with default settings except for the poll interval.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(|config| config).await
    }

    pub(crate) async fn client_with(&self, settings: impl FnOnce(Config) -> Config) -> Client {
        redgrid_tests::client_with(&self.url, |config| settings(config.poll_interval(NEVER))).await
    }

    /// Returns a thread of the shared Redisson.
    pub(crate) fn java(&self) -> Actor {
        self.redisson.actor()
    }

    /// Returns the id of the shared Redisson.
    pub(crate) fn java_id(&self) -> &str {
        self.redisson.id()
    }

    /// Starts another Redisson with this watchdog lease.
    pub(crate) async fn own_redisson(&self, watchdog: Duration) -> Arc<Redisson> {
        Redisson::start(&self.line.program, &self.url, watchdog).await
    }

    /// Starts another Redisson on another server, with its default lease.
    pub(crate) async fn own_redisson_at(&self, url: &str) -> Arc<Redisson> {
        Redisson::start(&self.line.program, url, WATCHDOG).await
    }

    /// Returns the same fixture on the newest server, with its own Redisson. If there is no such
    /// server, prints that and returns `None`.
    pub(crate) async fn on_newest(self) -> Option<(RedisServer, Fixture)> {
        let newest = ServerBinary::newest_or_skip(&self.name)?;
        let server = RedisServer::builder().binary(newest).start().await.expect("it starts");
        let (url, observer) = (server.url(), server.observer().await.expect("the server answers"));
        let redisson = self.own_redisson_at(&url).await;
        Some((server, Fixture { url, redisson, observer, ..self }))
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn version(&self) -> &str {
        self.line.program.version
    }

    /// Returns the number of subscribers to the lock's release: clients with waiters.
    pub(crate) async fn listeners(&self) -> u64 {
        let channel = format!("redisson_lock__channel:{{{}}}", self.name);
        self.observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", &channel]).await.unwrap().1
    }

    /// Waits until this many clients are subscribed.
    #[track_caller]
    pub(crate) fn until_listening(&self, clients: u64) -> impl Future<Output = ()> {
        wait_until(SOON, async move || self.listeners().await == clients)
    }

    /// Returns the end of the lock's lease, in microseconds of the server's clock, as tokens are.
    pub(crate) async fn lease_end(&self) -> u64 {
        let script = "local now, left = redis.call('TIME'), redis.call('PTTL', KEYS[1])
            if left < 0 then return left end
            return now[1] * 1000000 + now[2] + left * 1000";
        let end: i64 = self.observer.query(&["EVAL", script, "1", &self.name]).await.unwrap();
        u64::try_from(end).expect("the lock is held, and not for ever")
    }

    /// Returns the time until the server's clock shows `end`.
    pub(crate) async fn time_until(&self, end: u64) -> Duration {
        Duration::from_micros(end.saturating_sub(self.server_time().await))
    }

    pub(crate) async fn server_time(&self) -> u64 {
        self.observer.server_time_micros().await.unwrap()
    }

    /// Waits until a lease that was to end at `first` was renewed, and `first` has passed.
    pub(crate) async fn until_renewed_past(&self, first: u64) {
        let renewed = async || self.server_time().await > first && self.lease_end().await > first + PRECISION;
        wait_until(SOON, renewed).await;
    }
}

/// Error of a lease end in microseconds: PTTL is in milliseconds, and the clock is read twice.
pub(crate) const PRECISION: u64 = 5_000;

/// Fails unless the lock was acquired after the lease's end, and soon after it.
#[track_caller]
pub(crate) fn assert_entered_at(lease_end: u64, entered: u64) {
    assert!(entered + PRECISION >= lease_end, "entered {} µs before the lease was over", lease_end - entered);
    let late = Duration::from_micros(entered.saturating_sub(lease_end));
    assert!(late < AT_ONCE, "entered {late:?} after the lease was over");
}

/// Fails unless `work` completes at once, that is, by a message.
#[track_caller]
pub(crate) fn at_once<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let place = Location::caller();
    async move {
        let began = Instant::now();
        let done = work.await;
        assert!(began.elapsed() < AT_ONCE, "{place} took {:?}", began.elapsed());
        done
    }
}
