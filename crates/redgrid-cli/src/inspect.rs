//! `redgrid inspect`: shows the holders of a lock.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use redgrid::client::Code;
use redgrid::locks::{LockHolder, LockState, LockWaiter};
use redgrid::{Name, ServerError};
use redgrid_core::author::ClientExt;
use redgrid_core::name::companion;
use serde::Serialize;

use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::server::{Reach, Server, print_line};

/// Options of `redgrid inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectOptions {
    /// The lock
    name: String,
    #[command(flatten)]
    reach: Reach,
}

/// The output for a lock. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Output {
    name: String,
    held: bool,
    holders: Vec<Holder>,
    holder_count: u64,
    lease_left_ms: Option<u64>,
    waiting: Option<u64>,
    queue: Vec<Waiter>,
}

/// A waiter in the queue of a fair lock. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Waiter {
    client: String,
    number: Option<u64>,
    /// Whether the client uses this library; otherwise it is Redisson.
    ours: bool,
}

/// How many holders, and how many waiters of a queue, are printed as text.
const SHOWN: usize = 20;

/// A holder of a lock. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
pub(crate) struct Holder {
    /// The client's id, or the whole field if it has another form.
    pub(crate) client: String,
    /// The number of the grant, or of Redisson's thread.
    pub(crate) number: Option<u64>,
    /// How often the holder has acquired the lock (re-entrancy).
    pub(crate) entries: u64,
}

impl From<LockHolder> for Holder {
    fn from(one: LockHolder) -> Self {
        Holder { client: one.client, number: one.number, entries: one.entries }
    }
}

/// Runs `redgrid inspect`.
pub(crate) async fn run(global: &Global, options: &InspectOptions) -> Result<ExitCode, Failure> {
    let name = Name::new(&options.name).map_err(|invalid| Failure::usage(one_line(&invalid)))?;
    let server = Server::reach(global, &options.reach).await?;
    let state = server.grid.lock(&options.name).inspect().await;
    let state = state.map_err(|error| server.unanswered(name.as_str(), &error))?;
    let subscribers = unless_denied(subscribers(&server, &name).await).map_err(|error| server.failed(&error))?;
    let queue = unless_denied(server.grid.fair_lock(&options.name).waiting().await);
    let queue = queue.map_err(|error| server.unanswered(name.as_str(), &error))?.unwrap_or_default();
    server.leave().await;
    let output = Output::new(name, state, subscribers, queue);
    print_line(&if global.json {
        serde_json::to_string(&output).map_err(|e| Failure::broken(e.to_string()))?
    } else {
        output.text()
    })
}

/// Returns the number of subscribers to releases of the lock, or of the read-write lock of the same
/// name.
async fn subscribers(server: &Server, name: &Name) -> Result<u64, ServerError> {
    let client = server.grid.client();
    let key = client.key(name);
    let channels = ["redisson_lock__channel", "redisson_rwlock"].map(|prefix| companion(prefix, &key));
    client.waiting_subscribers(&channels, &key).await
}

/// Returns the value; `None` if the user lacks the permission.
pub(crate) fn unless_denied<T>(answer: Result<T, ServerError>) -> Result<Option<T>, ServerError> {
    match answer {
        Err(error) if error.code() == Some(Code::NoPermission) => Ok(None),
        answer => answer.map(Some),
    }
}

impl From<LockWaiter> for Waiter {
    fn from(waiter: LockWaiter) -> Self {
        Waiter { client: waiter.client, number: waiter.number, ours: waiter.ours }
    }
}

impl Output {
    fn new(name: Name, state: Option<LockState>, subscribers: Option<u64>, queue: Vec<LockWaiter>) -> Self {
        let LockState { holders, holder_count, remaining, .. } = state.unwrap_or_default();
        // Waiters in the queue of a fair lock subscribe to their own channels.
        let queued: HashSet<_> = queue.iter().map(|waiter| &waiter.client).collect();
        let queued = u64::try_from(queued.len()).unwrap_or(u64::MAX);
        let waiting = subscribers.map(|subscribers| subscribers.saturating_add(queued));
        Output {
            name: name.as_str().to_owned(),
            held: holder_count > 0,
            holder_count,
            holders: holders.into_iter().map(Holder::from).collect(),
            lease_left_ms: remaining.and_then(|lease_text| u64::try_from(lease_text.as_millis()).ok()),
            waiting,
            queue: queue.into_iter().map(Waiter::from).collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}: {}", self.name, if self.held { "held" } else { "free" });
        for holder in self.holders.iter().take(SHOWN) {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "\n  holder   {}", holder_text(&holder.client, holder.number));
            let _ = write!(text, "\n  entered  {}", times_text(holder.entries));
        }
        let shown = u64::try_from(self.holders.len().min(SHOWN)).unwrap_or(u64::MAX);
        if self.holder_count > shown {
            let _ = write!(text, "\n  holder   and {} more", self.holder_count - shown);
        }
        if self.held {
            let _ = write!(text, "\n  lease    {}", lease_text(self.lease_left_ms));
        }
        let _ = match self.waiting {
            Some(0) => write!(text, "\n  waiting  no client"),
            Some(1) => write!(text, "\n  waiting  1 client"),
            Some(count) => write!(text, "\n  waiting  {count} clients"),
            None => write!(text, "\n  waiting  unknown: this user lacks the permission"),
        };
        for (nth, waiter) in (1..).zip(self.queue.iter().take(SHOWN)) {
            let whose = if waiter.ours { "" } else { ", of Redisson" };
            let _ = write!(text, "\n  queue    {nth}. {}{whose}", holder_text(&waiter.client, waiter.number));
        }
        if self.queue.len() > SHOWN {
            let _ = write!(text, "\n  queue    and {} more", self.queue.len() - SHOWN);
        }
        text
    }
}

/// Formats a holder.
pub(crate) fn holder_text(client: &str, number: Option<u64>) -> String {
    number.map_or_else(|| client.to_owned(), |number| format!("client {client}, number {number}"))
}

/// Formats the remaining lease.
pub(crate) fn lease_text(millis: Option<u64>) -> String {
    let whole = |millis| humantime::format_duration(Duration::from_millis(millis)).to_string();
    millis.map_or_else(|| "without an end".into(), |millis| format!("{} left", whole(millis)))
}

fn times_text(entries: u64) -> String {
    if entries == 1 { "once".into() } else { format!("{entries} times") }
}
