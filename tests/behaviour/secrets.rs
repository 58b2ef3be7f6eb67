//! No log, error, `Debug` output or connection name shows a secret.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use redgrid_core::config::{CredentialProvider, Credentials, Secret, Tls};
use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{RedisServer, Sentinels};
use redgrid_tests::SOON;
use tracing::field::{Field, Visit};
use tracing::span;

/// The part that all secrets of the test have in common.
const MARKER: &str = "m4rk3r";

const DATA: &str = "data-m4rk3r";
const WRONG: &str = "wrong-m4rk3r";
const SENTINEL: &str = "sentinel-m4rk3r";
const PROVIDED: &str = "provided-m4rk3r";

/// All output that the test collects.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<String>>);

impl Book {
    fn write(&self, line: impl fmt::Display) {
        let _ = writeln!(self.0.lock().unwrap(), "{line}");
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    /// Writes an error in each form in which programs show it.
    fn error(&self, error: &dyn std::error::Error) {
        self.write(format_args!("error {error} {error:?} {error:#?}"));
        let mut source = error.source();
        while let Some(cause) = source {
            self.write(format_args!("cause {cause} {cause:?}"));
            source = cause.source();
        }
    }
}

impl tracing::Subscriber for Book {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        attributes.record(&mut Lines(self));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Lines(self));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Lines(self));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Lines<'a>(&'a Book);

impl Visit for Lines<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.write(format_args!("tracing {field}={value:?}"));
    }
}

/// Collects what libraries log with the crate `log`.
struct Logger {
    book: Book,
    open: AtomicBool,
}

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            self.book.write(format_args!("log {}: {}", record.target(), record.args()));
        }
    }

    fn flush(&self) {}
}

/// Installs the only logger of the process, and opens it.
fn listen_to_logs() -> &'static Logger {
    static LOGGER: OnceLock<Logger> = OnceLock::new();
    let logger = LOGGER.get_or_init(|| Logger { book: Book::default(), open: AtomicBool::new(false) });
    log::set_logger(logger).expect("the only logger of this process");
    log::set_max_level(log::LevelFilter::Trace);
    logger.open.store(true, Ordering::Relaxed);
    logger
}

#[derive(Clone)]
struct Vault(&'static str);

#[async_trait]
impl CredentialProvider for Vault {
    async fn fetch(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
        match self.0 {
            "" => Err("the vault is sealed".into()),
            password => Ok(Credentials { username: Some("app".into()), password: Secret::new(password) }),
        }
    }
}

/// Runs all operations of a client, and writes down all visible output.
async fn run(config: Config, book: &Book) -> bool {
    book.write(format_args!("{config:?} {config:#?}"));
    for one in config.explain() {
        book.write(format_args!("{one:?}"));
    }
    let client = match Client::connect(config).await {
        Ok(client) => client,
        Err(error) => {
            book.error(&error);
            return false;
        }
    };
    book.write(format_args!("{client:?} {client:#?}"));
    let ready = client.wait_ready(Duration::from_secs(2)).await;
    if let Err(error) = &ready {
        book.error(error);
    }
    let lock = Lock::new(&client, "a");
    match lock.acquire().await {
        Ok(guard) => {
            book.write(format_args!("{lock:?} {guard:?}"));
            let _ = guard.release().await;
        }
        Err(error) => book.error(&error),
    }
    if let Err(error) = client.command("NOSUCH").arg("x").query::<()>().await {
        book.error(&error);
    }
    let _ = client.shutdown(Duration::from_secs(2)).await;
    ready.is_ok()
}

/// Sets short timeouts, because some configurations cannot connect.
fn hasty(config: Config) -> Config {
    let short = Duration::from_millis(500);
    config.response_timeout(short).connect_timeout(short).retries(1).credentials_interval(Duration::from_millis(50))
}

// The test has one thread, so the book gets the output of all tasks.
#[tokio::test]
async fn no_secret_is_seen_anywhere() {
    let (book, logger) = (Book::default(), listen_to_logs());
    let reading = tracing::subscriber::set_default(book.clone());
    tracing::trace!("the book is open");

    let server = RedisServer::builder().password(DATA).user("app", format!("on >{PROVIDED} ~* &* +@all"));
    let server = server.start().await.unwrap();
    let single = |password: &str| Config::from_url(format!("redis://:{password}@{}", server.addr())).unwrap();
    assert!(run(hasty(single(DATA)).connections_per_node(2), &book).await);
    assert!(!run(hasty(single(WRONG)), &book).await);
    assert!(!run(hasty(Config::from_url(format!("redis://:{DATA}@127.0.0.1:1")).unwrap()), &book).await);
    let provided = |says| hasty(Config::single(server.addr().to_string()).unwrap().password_from(Vault(says)));
    assert!(run(provided(PROVIDED), &book).await);
    assert!(!run(provided(WRONG), &book).await);
    assert!(!run(provided(""), &book).await);
    for file in ["/nowhere/ca.pem", "/dev/null"] {
        let tls = Tls::new().ca_file(file).client_certificate(file, file);
        assert!(!run(hasty(single(DATA)).tls(tls), &book).await);
    }
    for wrong in [
        format!("redis://:{WRONG}@host:port"),
        format!("redis://:{WRONG}/@host"),
        format!("redis://h?password={WRONG}&response_timeout={WRONG}x"),
        format!("redis+unix://:{WRONG}@"),
    ] {
        match Config::from_url(&wrong) {
            Ok(config) => book.write(format_args!("{config:?}")),
            // A setting that is not secret may be shown.
            Err(error) if wrong.contains("timeout") => book.write(error.to_string().replace(&format!("{WRONG}x"), "")),
            Err(error) => book.error(&error),
        }
    }

    let options = RedisServer::builder().password(DATA).user("app", format!("on >{PROVIDED} ~* &* +@all"));
    let watcher = RedisServer::builder().password(SENTINEL).user("watcher", format!("on >{SENTINEL}1 ~* &* +@all"));
    let deployment = Sentinels::builder().sentinels(1).replicas(0).server_options(options).sentinel_options(watcher);
    let deployment = deployment.start().await.unwrap();
    let sentinels = |data: &str, of_sentinel: &str| {
        let at = deployment.sentinels()[0].addr();
        let url =
            format!("redis-sentinel://:{data}@{at}/mymaster?sentinel_username=watcher&sentinel_password={of_sentinel}");
        hasty(Config::from_url(&url).unwrap())
    };
    assert!(run(sentinels(DATA, &format!("{SENTINEL}1")), &book).await, "each server has its own user and password");
    assert!(!run(sentinels(DATA, WRONG), &book).await);
    assert!(!run(sentinels(WRONG, &format!("{SENTINEL}1")), &book).await);

    let visitor = Client::connect(single(DATA)).await.unwrap();
    visitor.wait_ready(SOON).await.unwrap();
    let list: String = server.observer().await.unwrap().query(&["CLIENT", "LIST"]).await.unwrap();
    assert!(list.contains("name=redgrid"), "{list}");
    book.write(list);
    visitor.shutdown(SOON).await.unwrap();

    log::trace!(target: "libraries", "the book is open");
    drop(reading);
    logger.open.store(false, Ordering::Relaxed);
    log::set_max_level(log::LevelFilter::Off);
    let (ours, below) = (book.text(), logger.book.text());
    for (mark, text) in [("tracing message=the book is open", &ours), ("error ", &ours), ("log libraries", &below)] {
        assert!(text.contains(mark), "the book has no `{mark}`");
    }
    for text in [ours, below] {
        let seen: Vec<_> = text.lines().filter(|line| line.contains(MARKER)).take(5).collect();
        assert!(seen.is_empty(), "{seen:#?}");
    }
}
