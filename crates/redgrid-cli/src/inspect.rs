//! `redgrid inspect`: shows the holders of a lock, with their hosts and processes.

mod table;
mod text;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use redgrid::Name;
use redgrid_inspect::{ASK_TIMEOUT, Answer, ClientReport, HolderView, Inspector, LockKind, LockView, WaiterView};
use serde::Serialize;

use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::output::{Format, Listing, OutputOptions, notice, print_document, print_line};
use crate::server::{Reach, Server};
use crate::text::printable;

use self::table::Party;
use self::text::text;

/// The end of `redgrid inspect --help`.
pub(crate) const HELP: &str = "\
The first 20 holders whose clients are connected are asked for their host and program, which takes up to 4 s. A client
that is not connected is looked for again 2 s later. The state of a holder:
  alive          its client is connected
  silent         its client is connected, and did not answer twice: its process is stopped or overloaded, or it does not
                 report (introspection is off, it may not publish, or its version is too old)
  not connected  its client was not connected twice, and did not renew the lease within these 2 s. It has ended, unless
                 its user may not subscribe to &redgrid_client:*; such a client renews each 10 s by default. The lock is
                 free when the lease ends.
  not redgrid    a holder of Redisson
  unknown        this user may not see it (+pubsub|numsub), a server did not answer or was just started, or the holder
                 has renewed its lease without being connected

Without -o the output is a text about the lock. With -o table or wide it is a table of the holders and of the waiters in
the queue. Columns: role, client, number, mode, state, lease, host, pid, program; with -o wide also entries, label and
held-for. -o name prints the holders and waiters as CLIENT:NUMBER, and the writer of a read-write lock as
CLIENT:NUMBER:write. The field of a holder that has released the lock, which stays taken, ends with :kept.";

/// Holders, and waiters of a queue, that are printed as text. The clients of as many holders are
/// asked.
const SHOWN: usize = 20;

/// Options of `redgrid inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectOptions {
    /// The lock
    name: String,
    #[command(flatten)]
    output: OutputOptions,
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
    /// Its field on the server, for `redgrid unlock --if-holder`.
    #[serde(skip)]
    field: String,
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
    let format = options.output.format(global)?;
    let mut listing = Listing::new(global, &options.output)?;
    let server = Server::reach(global, &options.reach).await?;
    let read = read(&server, &name).await;
    server.leave().await;
    let (view, answers) = read?;
    let output = Output::new(&view, &answers);
    match format {
        None => print_line(&text(&view, &answers)),
        Some(format @ (Format::Json | Format::Jsonl | Format::Yaml)) => {
            print_document(format, &output)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Format::Table | Format::Wide | Format::Name) => {
            for party in Party::all(output) {
                listing.push(&party)?;
            }
            if listing.finish()? == 0 {
                notice(global, &format!("`{}` is free", printable(name.as_str())));
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Reads the lock, and asks the clients of its holders.
async fn read(server: &Server, name: &Name) -> Result<(LockView, Vec<Answer>), Failure> {
    let inspector = Inspector::new(server.grid.client());
    let mut view = inspector.lock_twice(name.as_str()).await.map_err(|error| server.failed(&error))?;
    refuse_other_values(&view)?;
    let shown = view.holders.iter().take(SHOWN).filter_map(|holder| holder.ask_id.clone());
    let ids: Vec<String> = shown.collect::<BTreeSet<_>>().into_iter().collect();
    // A user without the permission to ask sees the holders all the same.
    let answers = inspector.ask(&ids, ASK_TIMEOUT).await.unwrap_or_default();
    view.mark_silent(&answers);
    Ok((view, answers))
}

/// Fails if the name belongs to a value that is not a lock.
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
            field: holder.field(),
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
