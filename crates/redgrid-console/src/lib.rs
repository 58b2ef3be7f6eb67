//! A web console: locks with their holders and waiters, findings, and actions on request.
//!
//! A [`Console`] is an axum [`Router`](axum::Router) that a service mounts at any path. It has
//! pages for servers, locks, contention, queues, synchronizers, rate limiters, streams and caches,
//! client processes, all objects, and settings of the servers. The page of events has recorded
//! actions, and holds that were lost. The pages update themselves while they are open.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_console::{AccessToken, Client, Console};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let token = AccessToken::new(std::env::var("CONSOLE_TOKEN")?)?;
//! let console = Console::new(&client).token(token).allow_host("intern.example.com");
//! let app = axum::Router::new().nest_service("/admin/redgrid", console.router());
//! axum::serve(tokio::net::TcpListener::bind("127.0.0.1:8080").await?, app).await?;
//! # Ok(()) }
//! ```
//!
//! The command `redgrid console` serves the same router alone.
//!
//! # Guarantees
//!
//! - A page is shown only if the [access](Console::access) closure or a [token](Console::token)
//!   permits it.
//! - The console only reads, and asks the clients by messages, unless it
//!   [operates](Console::operate): it writes no key, and the only route for POST is the login. If
//!   it operates, each action changes only what its page showed, and is recorded in the stream
//!   `redgrid_audit` before it is begun.
//! - It loads the servers with what one viewer needs, however many there are. 30 s after the last
//!   viewer has left, and 90 s after the last scrape of metrics, only the pings of the connection
//!   remain.
//! - It never subscribes to the channel of a lock, so it does not count as a waiter.
//! - Names, labels and messages of other programs are shown as text. Control characters and
//!   characters that change the direction of text are shown as `\u{…}`.
//!
//! # Mounting
//!
//! All links are relative, so the console works at any path, and behind a proxy that strips a part
//! of the path. Mount it with `nest_service` or `nest`. A request for the path without the final
//! slash is redirected to the first page.
//!
//! The crate requires the Tokio runtime. Its only key is the stream `redgrid_audit`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod actions;
mod assets;
mod board;
mod collector;
mod console;
mod contention;
mod dead_totals;
mod headers;
mod holder_state;
mod hosts;
mod lints;
mod listed;
mod live;
mod login;
mod memo;
mod metrics;
mod object_name;
mod pages;
mod process_events;
mod query;
mod search;
mod server_info;
mod snapshot;
mod text;
mod throttle;
mod token;
mod view;

pub use access::Access;
pub use console::Console;
pub use metrics::{FleetMetrics, TooManyNames};
pub use redgrid_core::{Client, Config};
pub use token::{AccessToken, WeakToken};
