//! `redgrid inspect`: shows the holders of a lock, and who they are.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use redgrid::Name;
use redgrid_inspect::{
    ASK_TIMEOUT, Answer, ClientReport, HolderState, HolderView, Inspector, LockKind, LockView, Mode, WaiterView,
};
use serde::Serialize;

use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::server::{Reach, Server, print_json, print_line};
use crate::text::{holder_text, lease_text, printable, process_text, time_text};

/// The end of `redgrid inspect --help`.
pub(crate) const HELP: &str = "\
Holders whose clients are connected are asked for their host and program, which takes up to 1 s. The state of a holder:
  alive        it has answered
  silent       it is connected and did not answer: stopped, overloaded, or a version that is too old
  gone         it is not connected; the lock is free when its lease ends
  not redgrid  a holder of Redisson
  unknown      this user may not see it (+pubsub|numsub)

Exit codes:
  0   the lock is held or free
  2   bad usage, or NAME is no lock
  69  no server could be reached, or it refused";

/// Holders, and waiters of a queue, that are printed as text. The clients of as many holders are
/// asked.
const SHOWN: usize = 20;

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
    kind: &'static str,
    held: bool,
    holders: Vec<Holder>,
    holder_count: u64,
    lease_left_ms: Option<u64>,
    waiting: Option<u64>,
    queue: Option<Vec<Waiter>>,
    queue_len: Option<u64>,
    token: Option<u64>,
}

/// A holder of a lock. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Holder {
    client: String,
    number: Option<u64>,
    entries: u64,
    mode: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reader_lease_left_ms: Option<u64>,
    /// It has released the lock, which stays taken.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    retained: bool,
    host: Option<String>,
    pid: Option<u32>,
    program: Option<String>,
    label: Option<String>,
    held_for_ms: Option<u64>,
}

/// A waiter in the queue of a fair lock. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Waiter {
    client: String,
    number: Option<u64>,
    /// Whether the client uses this library; otherwise it is Redisson.
    ours: bool,
    state: &'static str,
}

/// Runs `redgrid inspect`.
pub(crate) async fn run(global: &Global, options: &InspectOptions) -> Result<ExitCode, Failure> {
    let name = Name::new(&options.name).map_err(|invalid| Failure::usage(one_line(&invalid)))?;
    let server = Server::reach(global, &options.reach).await?;
    let read = read(&server, &name).await;
    server.leave().await;
    let (view, answers) = read?;
    if global.json { print_json(&Output::new(&view, &answers)) } else { print_line(&text(&view, &answers)) }
}

/// Reads the lock, and asks the clients of its holders.
async fn read(server: &Server, name: &Name) -> Result<(LockView, Vec<Answer>), Failure> {
    let inspector = Inspector::new(server.grid.client());
    let mut view = inspector.lock(name.as_str()).await.map_err(|error| server.failed(&error))?;
    refuse_other_values(&view)?;
    let shown = view.holders.iter().take(SHOWN).filter_map(|holder| holder.ask_id.clone());
    let ids: Vec<String> = shown.collect::<BTreeSet<_>>().into_iter().collect();
    // A user without the permission to ask sees the holders all the same.
    let answers = inspector.ask(&ids, ASK_TIMEOUT).await.unwrap_or_default();
    view.mark_silent(&answers);
    Ok((view, answers))
}

/// Fails if the name is that of another value than a lock.
pub(crate) fn refuse_other_values(view: &LockView) -> Result<(), Failure> {
    let LockKind::NotALock { type_name, fields } = &view.kind else { return Ok(()) };
    let what = match type_name.as_str() {
        "" => "another kind of value has this name".to_owned(),
        "hash" => format!("it is a hash of {fields} fields"),
        type_name => format!("it is a {type_name}"),
    };
    Err(Failure::usage(format!("`{}` is not a lock: {}", printable(&view.name), printable(&what))))
}

/// Returns the report of the client of a holder, if it has answered.
pub(crate) fn report<'a>(holder: &HolderView, answers: &'a [Answer]) -> Option<&'a ClientReport> {
    let id = holder.ask_id.as_ref()?;
    answers.iter().find(|answer| answer.id == *id)?.report.as_ref()
}

/// Returns the label that the task of a holder gave to its acquire, and for how long it has held
/// the lock.
fn hold(name: &str, holder: &HolderView, report: &ClientReport) -> (Option<String>, Option<u64>) {
    let is_name = |held: &str| name.strip_suffix(held).is_some_and(|rest| rest.is_empty() || rest.ends_with(':'));
    // Several tasks may share a grant.
    let holds = report.held.iter().filter(|held| Some(held.number) == holder.number && is_name(&held.name));
    let (mut label, mut held_for) = (None, None);
    for held in holds {
        label = label.or_else(|| held.label.clone());
        held_for = held_for.max(Some(held.held_for_ms));
    }
    (label, held_for)
}

impl Output {
    fn new(view: &LockView, answers: &[Answer]) -> Self {
        Output {
            name: view.name.clone(),
            kind: kind_text(&view.kind),
            held: view.is_held(),
            holders: view.holders.iter().map(|holder| Holder::new(&view.name, holder, answers)).collect(),
            holder_count: view.holder_count,
            lease_left_ms: view.lease_left.map(millis),
            waiting: view.waiting_clients,
            queue: view.queue_len.map(|_| view.queue.iter().map(Waiter::from).collect()),
            queue_len: view.queue_len,
            token: view.token,
        }
    }
}

impl Holder {
    fn new(name: &str, holder: &HolderView, answers: &[Answer]) -> Self {
        let report = report(holder, answers);
        let (label, held_for_ms) = report.map(|report| hold(name, holder, report)).unwrap_or_default();
        Holder {
            client: holder.client.clone(),
            number: holder.number,
            entries: holder.entries,
            mode: holder.mode.as_str(),
            state: holder.state.as_str(),
            reader_lease_left_ms: holder.reader_lease_left.map(millis),
            retained: holder.is_retained,
            host: report.map(|report| report.host.clone()).filter(|host| !host.is_empty()),
            pid: report.map(|report| report.pid),
            program: report.map(|report| report.program.clone()).filter(|program| !program.is_empty()),
            label,
            held_for_ms,
        }
    }
}

impl From<&WaiterView> for Waiter {
    fn from(waiter: &WaiterView) -> Self {
        let WaiterView { client, number, is_redgrid, state, .. } = waiter;
        Waiter { client: client.clone(), number: *number, ours: *is_redgrid, state: state.as_str() }
    }
}

fn kind_text(kind: &LockKind) -> &'static str {
    match kind {
        LockKind::Free => "free",
        LockKind::Plain => "lock",
        LockKind::Fair => "fair lock",
        LockKind::ReadWrite => "read-write lock",
        LockKind::Election => "election",
        _ => "other",
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn text(view: &LockView, answers: &[Answer]) -> String {
    let mut text = format!("{}: {}", printable(&view.name), if view.is_held() { "held" } else { "free" });
    // Writing to a `String` cannot fail.
    for holder in view.holders.iter().take(SHOWN) {
        let _ = write!(text, "\n  holder   {}", holder_text(&holder.client, holder.number));
        let _ = write!(text, "\n  entered  {}", times_text(holder.entries));
        if holder.mode != Mode::Exclusive {
            let _ = write!(text, "\n  mode     {}", holder.mode.as_str());
        }
        let _ = write!(text, "\n  state    {}", state_text(view, holder));
        if let Some(report) = report(holder, answers) {
            let (label, held_for) = hold(&view.name, holder, report);
            let label = label.map(|label| format!(", label `{}`", printable(&label))).unwrap_or_default();
            let held_for = held_for.map(|time| format!(", for {}", time_text(time))).unwrap_or_default();
            let _ = write!(text, "\n  process  {}{label}{held_for}", process_text(report));
        }
    }
    let shown = u64::try_from(view.holders.len().min(SHOWN)).unwrap_or(u64::MAX);
    if view.holder_count > shown {
        let _ = write!(text, "\n  holder   and {} more", view.holder_count - shown);
    }
    if view.is_held() {
        let _ = write!(text, "\n  lease    {}", lease_text(view.lease_left.map(millis)));
    }
    if let Some(token) = view.token {
        let _ = write!(text, "\n  token    {token}");
    }
    let _ = match view.waiting_clients {
        Some(0) => write!(text, "\n  waiting  no client"),
        Some(1) => write!(text, "\n  waiting  1 client"),
        Some(count) => write!(text, "\n  waiting  {count} clients"),
        None => write!(text, "\n  waiting  unknown: this user lacks the permission"),
    };
    for (nth, waiter) in (1..).zip(view.queue.iter().take(SHOWN)) {
        let whose = match (waiter.is_redgrid, waiter.state) {
            (false, _) => ", of Redisson",
            (true, HolderState::Gone) => ", gone",
            (true, _) => "",
        };
        let _ = write!(text, "\n  queue    {nth}. {}{whose}", holder_text(&waiter.client, waiter.number));
    }
    let shown = u64::try_from(view.queue.len().min(SHOWN)).unwrap_or(u64::MAX);
    match view.queue_len {
        Some(len) if len > shown => {
            let _ = write!(text, "\n  queue    and {} more", len - shown);
        }
        Some(_) => {}
        None => text.push_str("\n  queue    unknown: this user lacks the permission"),
    }
    text
}

fn state_text(view: &LockView, holder: &HolderView) -> String {
    let left = holder.reader_lease_left.or(view.lease_left).map(|left| time_text(millis(left)));
    match (holder.is_retained, holder.state, left) {
        (true, _, Some(left)) => format!("released; the lock stays taken for {left}"),
        (_, HolderState::Gone, Some(left)) => format!("gone: free in {left}"),
        (_, HolderState::Gone, None) => "gone, without an end of its lease: take it away with `redgrid unlock`".into(),
        (_, HolderState::Silent, _) => format!("silent: no answer within {ASK_TIMEOUT:?}"),
        (_, HolderState::NotRedgrid, _) => "not a client of redgrid".into(),
        (_, HolderState::Unknown, _) => "unknown: this user may not see it, or a server did not answer".into(),
        (_, state, _) => state.as_str().into(),
    }
}

fn times_text(entries: u64) -> String {
    if entries == 1 { "once".into() } else { format!("{entries} times") }
}
