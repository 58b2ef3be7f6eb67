//! A browser with a console and a server.

use std::future::IntoFuture as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::Router;
use redgrid::{Config, Grid};
use redgrid_console::{Access, Console};
use redgrid_testkit::browser::{Browser, BrowserPrograms};
use redgrid_testkit::{Observer, RedisServer};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The result of a test. Errors name the command and the element.
pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Time limit of steps that take milliseconds, long enough for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A holder of Redisson. It renews nothing, so the lease counts down.
pub(crate) const JAVA: &str = "0f8fad5b-d9cb-469f-a165-70867728950e:17";

/// The variable that names the file `axe.min.js`.
const AXE_VARIABLE: &str = "AXE_CORE";

/// Browsers at a time: each has some ten processes.
static TURNS: Semaphore = Semaphore::const_new(2);

/// A browser that has its turn.
pub(crate) struct Window {
    pub(crate) browser: Browser,
    _turn: SemaphorePermit<'static>,
}

impl Window {
    /// Starts a browser; `None` if the test is skipped.
    pub(crate) async fn open() -> Option<Self> {
        let programs = BrowserPrograms::find_or_skip(&test_name())?;
        let _turn = TURNS.acquire().await.expect("it is never closed");
        let browser = Browser::start(&programs).await.unwrap_or_else(|error| panic!("{error}"));
        Some(Window { browser, _turn })
    }
}

/// A server, a client of it, and a browser.
pub(crate) struct Setup {
    // Ended first: a console that its page still reads would log errors.
    pub(crate) browser: Browser,
    pub(crate) grid: Grid,
    pub(crate) observer: Observer,
    pub(crate) server: RedisServer,
    _turn: SemaphorePermit<'static>,
}

impl Setup {
    /// Starts all; `None` if the test is skipped.
    pub(crate) async fn start() -> Option<Self> {
        let Window { browser, _turn } = Window::open().await?;
        let server = RedisServer::start().await.expect("a server");
        let observer = server.observer().await.expect("an observer");
        let grid = Grid::connect(server.url().as_str()).await.expect("a client");
        Some(Setup { browser, grid, observer, server, _turn })
    }

    /// A console in which each request may read.
    pub(crate) fn reading(&self) -> Console {
        let config = Config::from_url(self.server.url()).expect("a URL");
        Console::new(self.grid.client()).access(|_| Access::Read).config(&config)
    }

    /// A console in which each request may act.
    pub(crate) fn operating(&self) -> Console {
        self.reading().access(|_| Access::Operate).operate()
    }

    /// Serves a console, and opens one of its pages. Returns the address of the console, with the
    /// final slash.
    pub(crate) async fn open(&self, console: Console, page: &str) -> Result<String, Box<dyn std::error::Error>> {
        let url = serve(console.router()).await;
        self.browser.go(&format!("{url}{page}")).await?;
        Ok(url)
    }

    /// Lets a client of Redisson hold a lock for ten minutes.
    pub(crate) async fn hold(&self, name: &[u8]) {
        self.observer.cmd(&[b"HSET", name, JAVA.as_bytes(), b"1"]).await.expect("an answer");
        self.observer.cmd(&[b"PEXPIRE", name, b"600000"]).await.expect("an answer");
    }

    pub(crate) async fn exists(&self, name: &[u8]) -> bool {
        self.observer.query(&[b"EXISTS", name]).await.expect("an answer")
    }

    /// Returns the text of all entries of the record.
    pub(crate) async fn record(&self) -> String {
        let entries: Vec<(String, Vec<String>)> =
            self.observer.query(&["XRANGE", "redgrid_audit", "-", "+"]).await.expect("an answer");
        entries.into_iter().map(|(_, fields)| fields.join(" ") + "\n").collect()
    }
}

/// Serves a router, and returns its address with the final slash.
pub(crate) async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, service).into_future());
    format!("http://{address}/")
}

/// Returns the program `redgrid` with these arguments, and without contexts.
pub(crate) fn redgrid(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redgrid"));
    for variable in ["REDGRID_URL", "REDGRID_CONFIG", "REDGRID_CONTEXT", "REDGRID_NAMESPACE", "REDGRID_CONSOLE_TOKEN"] {
        command.env_remove(variable);
    }
    command.args(arguments).env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// A program that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        Running(command.spawn().expect("the program runs"))
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it is ours").is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `redgrid console`, and returns its address and its token.
pub(crate) fn start_console(server: &RedisServer, listen: &str, options: &[&str]) -> (Running, String, String) {
    let url = server.url();
    let mut command = redgrid(&[&["console", "--json", "--url", &url, "--listen", listen], options].concat());
    command.stdout(Stdio::piped());
    let mut console = Running::start(command);
    let mut line = String::new();
    let mut output = BufReader::new(console.0.stdout.take().expect("it is piped"));
    output.read_line(&mut line).expect("text");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
    (console, text("url"), text("token"))
}

/// Marks the page, to notice a reload.
pub(crate) async fn mark(browser: &Browser) -> Outcome {
    browser.execute("window.isMarked = true", &[]).await?;
    Ok(())
}

/// Panics if the page was loaded again since it was marked.
pub(crate) async fn assert_not_reloaded(browser: &Browser) -> Outcome {
    let is_marked = browser.execute("return window.isMarked === true", &[]).await?;
    assert_eq!(is_marked, Value::Bool(true), "the page was loaded again");
    Ok(())
}

/// Panics if the page has written to the console: errors of its script, or violations of its
/// policy.
pub(crate) async fn assert_silent(browser: &Browser) -> Outcome {
    // The browser also notes pages with a status such as 422.
    let is_fault = |line: &String| !line.contains("the server responded with a status of");
    let faults: Vec<String> = browser.log().await?.into_iter().filter(is_fault).collect();
    assert_eq!(faults, Vec::<String>::new());
    Ok(())
}

/// Fills the form of an action, and sends it.
pub(crate) async fn confirm(browser: &Browser, typed: &str, reason: &str) -> Outcome {
    browser.fill("form.confirm [name=typed]", typed).await?;
    browser.fill("form.confirm [name=reason]", reason).await?;
    browser.click("form.confirm button").await?;
    Ok(())
}

/// Returns the source of axe-core; `None` if the test is skipped.
pub(crate) fn axe_or_skip() -> Option<String> {
    let source = std::env::var_os(AXE_VARIABLE).and_then(|path| std::fs::read_to_string(path).ok());
    if source.is_none() {
        let reason = format!("{AXE_VARIABLE} names no file; `cargo xtask test --browser` fetches axe-core");
        let line = format!("SKIPPED {}: {reason}\n", test_name());
        // This output is not captured, so it is visible when all tests pass.
        std::io::stderr().write_all(line.as_bytes()).expect("standard error is open");
    }
    source
}

fn test_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}
