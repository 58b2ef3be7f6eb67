//! `redgrid console`: serves the web console.

use std::env::VarError;
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use redgrid_console::{Access, AccessToken, Console, FleetMetrics};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::server::{Reach, Server, address, print_json, print_line};

/// The variable with the token.
const TOKEN_VARIABLE: &str = "REDGRID_CONSOLE_TOKEN";

/// Bytes read of a token file: more than the longest token.
const MAX_TOKEN_FILE: u64 = 4 << 10;

/// Options of `redgrid console`.
#[derive(Debug, Args)]
pub(crate) struct ConsoleOptions {
    /// The address at which browsers reach the console
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7979")]
    listen: SocketAddr,
    /// A file with the access token; without it, that of REDGRID_CONSOLE_TOKEN, else a new one
    #[arg(long, value_name = "FILE", conflicts_with = "no_login")]
    token_file: Option<PathBuf>,
    /// Ask for no token; only at a loopback address
    #[arg(long)]
    no_login: bool,
    /// Adds actions: taking locks away, deleting objects, redriving dead letters; each is recorded
    #[arg(long)]
    operate: bool,
    /// A host name in the address bar of browsers; IP addresses and localhost are always accepted
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// The title of the pages; default: the address of the servers
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Serve metrics of the deployment at /metrics, for Prometheus
    #[arg(long)]
    metrics: bool,
    /// A reliable queue with metrics of its own; at most 100 queues and semaphores
    #[arg(long = "queue", value_name = "NAME", requires = "metrics")]
    queues: Vec<String>,
    /// A semaphore with metrics of its own
    #[arg(long = "semaphore", value_name = "NAME", requires = "metrics")]
    semaphores: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

/// The output. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Output<'a> {
    url: String,
    /// The token, if it was made for this run.
    token: Option<&'a str>,
}

/// How requests are permitted.
enum Login {
    None,
    Given(AccessToken),
    Made(AccessToken),
}

impl Login {
    fn of(options: &ConsoleOptions) -> Result<Self, Failure> {
        if options.no_login {
            if !options.listen.ip().to_canonical().is_loopback() {
                return Err(Failure::usage(format!(
                    "--no-login is only for a loopback address, and {} is none; give --token-file",
                    options.listen
                )));
            }
            return Ok(Login::None);
        }
        let text = match &options.token_file {
            Some(file) => Some((read(file)?, file.display().to_string())),
            None => match std::env::var(TOKEN_VARIABLE) {
                Ok(text) => Some((text, TOKEN_VARIABLE.to_owned())).filter(|(text, _)| !text.is_empty()),
                Err(VarError::NotPresent) => None,
                Err(VarError::NotUnicode(_)) => {
                    return Err(Failure::usage(format!("cannot use {TOKEN_VARIABLE}: it is not text (UTF-8)")));
                }
            },
        };
        let Some((text, place)) = text else { return Ok(Login::Made(AccessToken::generate())) };
        let token = AccessToken::new(text);
        token.map(Login::Given).map_err(|error| Failure::usage(format!("cannot use {place}: {}", one_line(&error))))
    }

    /// Returns the token to print.
    fn printed(&self) -> Option<&str> {
        match self {
            Login::Made(token) => Some(token.reveal()),
            _ => None,
        }
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(MAX_TOKEN_FILE).read_to_string(&mut text));
    read.map_err(|error| Failure::usage(format!("cannot read --token-file {}: {error}", file.display())))?;
    Ok(text)
}

/// Runs `redgrid console` until SIGINT or SIGTERM.
pub(crate) async fn run(global: &Global, options: &ConsoleOptions) -> Result<ExitCode, Failure> {
    let login = Login::of(options)?;
    let metrics = options.metrics.then(|| FleetMetrics::new(&options.queues, &options.semaphores)).transpose();
    let metrics = metrics.map_err(|error| Failure::usage(error.to_string()))?;
    let listen = |kind| signal(kind).map_err(|error| Failure::broken(format!("cannot listen to signals: {error}")));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let server = Server::reach(global, &options.reach).await?;
    let bound = TcpListener::bind(options.listen).await;
    let listener = bound.map_err(|error| Failure::usage(format!("cannot listen at {}: {error}", options.listen)))?;
    let local = listener.local_addr().map_err(|error| Failure::broken(error.to_string()))?;

    let title = options.title.clone().unwrap_or_else(|| address(&server.config));
    let mut console = Console::new(server.grid.client()).title(title).config(&server.config);
    console = match &login {
        Login::None if options.operate => console.access(|_| Access::Operate),
        Login::None => console.access(|_| Access::Read),
        Login::Given(token) | Login::Made(token) => console.token(token.clone()),
    };
    if options.operate {
        console = console.operate();
    }
    for host in &options.hosts {
        console = console.allow_host(host);
    }
    if let Some(metrics) = metrics {
        console = console.metrics(metrics);
    }
    print(global, &Output { url: format!("http://{}/", reachable(local)), token: login.printed() })?;

    let service = console.router().into_make_service_with_connect_info::<SocketAddr>();
    let ended = tokio::select! {
        served = axum::serve(listener, service) => served,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    server.leave().await;
    ended.map_err(|error| Failure::broken(format!("the console ended: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

fn print(global: &Global, output: &Output<'_>) -> Result<ExitCode, Failure> {
    if global.json {
        return print_json(output);
    }
    match output.token {
        Some(token) => print_line(&format!("console  {}\ntoken    {token}", output.url)),
        None => print_line(&format!("console  {}", output.url)),
    }
}

/// Returns an address that a browser on this machine can use.
fn reachable(mut local: SocketAddr) -> SocketAddr {
    if local.ip().is_unspecified() {
        local.set_ip(if local.is_ipv4() {
            IpAddr::from([127, 0, 0, 1])
        } else {
            IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])
        });
    }
    local
}

/// Appended to the long help.
pub(crate) const HELP: &str = "\
The console changes nothing without --operate. It reads the servers only while a page is open, for 30 s after the last
one was closed, and for 90 s after a scrape of the metrics.

With --operate, everybody with the token may act. Each action asks for the name of the object and a reason, and is
recorded in the stream `redgrid_audit` before it is begun; without the record there is no action.

Browsers log in with the token. Scripts send it as `Authorization: Bearer TOKEN`. At another address than a loopback
one, put a proxy with TLS in front of the console, and name its host with --host.";
