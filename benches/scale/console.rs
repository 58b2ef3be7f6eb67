//! An open console, on a server with many keys: the requests that it sends, whether one of them
//! takes the server longer than 1 ms, and what is sent after the last page was closed.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::http::{Request, StatusCode, header::HOST};
use futures_util::StreamExt;
use redgrid_console::{Access, Console};
use redgrid_core::Config;
use redgrid_testkit::{Monitor, Observer, RedisServer, SeenCommand};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tower::ServiceExt;

use crate::look::Counted;
use crate::report::Report;
use crate::{SOON, Trouble, connected};

/// The pages that are open at the same time.
const PAGES: [&str; 6] = ["overview", "locks", "lock&name=job:1", "queues", "contention", "clients"];

/// Requests a second: 50 reads of rows, and 5 of everything else (pings, INFO, channels, questions
/// to clients).
const BUDGET: f64 = 55.0;

/// Held locks, beside the other keys.
const LOCKS: usize = 200;

/// Keys that one script writes. A larger script would exceed the response timeout.
const FILLED_AT_ONCE: usize = 100_000;

/// Time until the console has done its first reads, and its last ones after the pages were closed.
const SETTLE: Duration = Duration::from_secs(2);

/// How long a console continues to read after its last page was closed.
const LINGERS: Duration = Duration::from_secs(30);

/// How long the idle console is measured.
const IDLE: Duration = Duration::from_secs(15);

/// How the source of a command inside a script is shown.
const LUA: &str = "lua";

pub(crate) async fn play(report: &mut Report, keys: usize, open: Duration) -> Result<(), Trouble> {
    let server = RedisServer::start().await?;
    let observer = server.observer().await?;
    fill(&observer, keys).await?;
    report.say(&format!("{keys} keys are written"));
    observer.cmd(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"]).await?;
    let config = || Config::single(server.addr().to_string());
    let client = connected(config()?).await?;
    let router = Console::new(&client).access(|_| Access::Read).config(&config()?).router();

    let mut pages = JoinSet::new();
    for page in PAGES {
        let mut stream = opened(&router, page).await?;
        pages.spawn(async move { while stream.next().await.is_some_and(|part| part.is_ok()) {} });
    }
    sleep(SETTLE).await;
    observer.cmd(&["SLOWLOG", "RESET"]).await?;
    let counted = Counted::at(&observer).await?;
    let mut monitor = Monitor::start(&server).await?.with_scripts();
    // This sleep is the measured time, not a wait for a condition.
    sleep(open).await;
    let seen = monitor.take().await?;
    drop(monitor);
    let slow: usize = observer.query(&["SLOWLOG", "LEN"]).await?;
    let counted = Counted::at(&observer).await?.since(counted);
    let each = open.as_secs_f64().max(1.0);
    let sent = seen.iter().filter(|command| command.source != LUA).count();
    report.at_most("requests a second, pages open", sent as f64 / each, BUDGET);
    report.exactly("requests that take the server more than 1 ms", slow, 0);
    let closed = std::iter::from_fn(|| pages.try_join_next()).count();
    report.exactly("pages that were closed by the console", closed, 0);
    report.number("commands a second, those in scripts included", seen.len() as f64 / each);
    report.number("server busy", counted.cpu / each);
    report.number("bytes a second", (counted.read + counted.written) / each);

    pages.shutdown().await;
    sleep(LINGERS + SETTLE).await;
    let mut monitor = Monitor::start(&server).await?;
    sleep(IDLE).await;
    let seen = monitor.take().await?;
    let others = seen.iter().filter(|command| !is_ping(command)).count();
    report.exactly("requests but pings, 30 s after the last page was closed", others, 0);
    report.number("pings a second", (seen.len() - others) as f64 / IDLE.as_secs_f64());
    client.shutdown(SOON).await?;
    Ok(())
}

/// Whether a command is the ping of a connection. That to a server with data is TIME.
fn is_ping(command: &SeenCommand) -> bool {
    matches!(command.name.as_str(), "PING" | "TIME")
}

/// Writes the keys, and locks that clients of Redisson seem to hold.
async fn fill(observer: &Observer, keys: usize) -> Result<(), Trouble> {
    for first in (0..keys).step_by(FILLED_AT_ONCE) {
        let last = keys.min(first + FILLED_AT_ONCE);
        let script = format!("for i = {first}, {last} - 1 do redis.call('set', 'key:' .. i, i) end");
        observer.cmd(&["EVAL", &script, "0"]).await?;
    }
    for number in 0..LOCKS {
        let (name, holder) = (format!("job:{number}"), format!("0f8fad5b-d9cb-469f-a165-70867728950e:{number}"));
        observer.cmd(&["HSET", &name, &holder, "1"]).await?;
        observer.cmd(&["PEXPIRE", &name, "3600000"]).await?;
    }
    Ok(())
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
