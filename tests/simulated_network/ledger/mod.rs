//! Records all observations of a run, and checks them.

mod witness;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::{Reply, ServerError};
use redgrid_locks::{HoldWatch, LockGuard};
use redgrid_tests::simulated_network::Call;
use tokio::time::Instant;

/// Lines of the trace that are kept: more than a run has, unless a task waits for ever.
const TRACE: usize = 60_000;

/// After this time nothing is left of a released lock. A late copy arrives within a
/// `response_timeout` of 300 ms, and the longest outages last a few seconds. The leases of most
/// locks are much longer.
const LONG_AGO: Duration = Duration::from_secs(8);

/// The observations of one run, shared by all clones.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    began: Option<Instant>,
    names: HashMap<Bytes, Name>,
    waiters: BTreeMap<u64, Waiter>,
    next: u64,
    /// Grants that were reported to a client, by holder field.
    reported: HashMap<Bytes, ReportedGrant>,
    /// When the release of a field was answered for the first time.
    released: HashMap<Bytes, Instant>,
    /// Fields that may stay on the server until their lease ends.
    left: HashSet<Bytes>,
    restarts: Vec<u64>,
    /// The instant from which no fault happens any more.
    calm: Option<Instant>,
    submitted: u64,
    pub(crate) seen: Seen,
    violations: Vec<String>,
    trace: VecDeque<(Instant, Line)>,
}

/// One line of the trace. It is formatted only after a violation.
enum Line {
    Note(String),
    Sends(usize, Call),
    Executes(u64, usize, Call, Result<Reply, ServerError>),
    Receives(usize, Call, Result<Reply, ServerError>),
}

#[derive(Default)]
struct Name {
    valid_holds: Vec<ValidHold>,
    /// Tokens of guards; `highest` is the largest of them.
    owned: BTreeSet<u64>,
    /// Tokens of the server's grants. The tokens of the local owners of a grant are at least the
    /// grant's token, and lower than the next grant's token.
    grants: BTreeSet<u64>,
    highest: u64,
    /// Server times of forced takeovers.
    forced: Vec<u64>,
    /// Holders that lost the name to a forced takeover.
    preempted: HashSet<Bytes>,
    /// The holder of the last grant.
    holder: Option<Bytes>,
    /// Token of an `at_least` hold, and the server time until which the name must stay taken.
    keep: Option<(u64, u64)>,
}

struct ValidHold {
    client: usize,
    token: u64,
    watch: HoldWatch,
}

impl Name {
    /// Whether a task owned the grant with this token.
    fn had_owner(&self, token: u64) -> bool {
        let next = self.grants.range(token + 1..).next().copied().unwrap_or(u64::MAX);
        self.owned.range(token..next).next().is_some()
    }
}

struct Waiter {
    client: usize,
    name: Bytes,
    since: Instant,
    once: bool,
}

struct ReportedGrant {
    key: Bytes,
    token: u64,
    at: Instant,
    /// Whether the grant arrived in time and may go to any waiter for the name.
    for_anybody: bool,
    /// Whether the client has sent a renewal or an extension, which may adjust the lease to another
    /// acquire.
    refitted: bool,
}

/// Number of events of each kind.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) acquisitions: u64,
    pub(crate) dropped: u64,
    pub(crate) granted: u64,
    pub(crate) busy: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    pub(crate) reentered: u64,
    pub(crate) forced: u64,
    pub(crate) restarts: u64,
    pub(crate) calls: u64,
    pub(crate) unanswered: u64,
    /// Releases that found a hold although an earlier one was answered: a late copy had been
    /// granted.
    pub(crate) late_releases: u64,
    /// Grants released while a task of the same client waited, because their lease could not be
    /// adjusted for it.
    pub(crate) refitted: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Seen) {
        for (sum, n) in [
            (&mut self.acquisitions, other.acquisitions),
            (&mut self.dropped, other.dropped),
            (&mut self.granted, other.granted),
            (&mut self.busy, other.busy),
            (&mut self.failed, other.failed),
            (&mut self.lost, other.lost),
            (&mut self.reentered, other.reentered),
            (&mut self.forced, other.forced),
            (&mut self.restarts, other.restarts),
            (&mut self.calls, other.calls),
            (&mut self.unanswered, other.unanswered),
            (&mut self.late_releases, other.late_releases),
            (&mut self.refitted, other.refitted),
        ] {
            *sum += n;
        }
    }
}

/// A task waits as long as this value lives.
pub(crate) struct Waiting(Ledger, u64);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.books().waiters.remove(&self.1);
    }
}

impl Ledger {
    pub(crate) fn new() -> Self {
        let ledger = Ledger::default();
        ledger.books().began = Some(Instant::now());
        ledger
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut Seen)) {
        add(&mut self.books().seen);
    }

    pub(crate) fn seen(&self) -> Seen {
        self.books().seen
    }

    pub(crate) fn submitted(&self) -> u64 {
        self.books().submitted
    }

    /// Records that no fault happens from here on.
    pub(crate) fn calm(&self) {
        let mut books = self.books();
        books.note("calm");
        books.calm.get_or_insert_with(Instant::now);
    }

    /// How long no fault had happened at `at`.
    pub(crate) fn calm_for(&self, at: Instant) -> Duration {
        self.books().calm.map_or(Duration::ZERO, |since| at.saturating_duration_since(since))
    }

    pub(crate) fn violation(&self, what: String) {
        self.books().violation(what);
    }

    pub(crate) fn note(&self, line: impl Into<String>) {
        self.books().note(line);
    }

    /// Returns the violations, and the whole trace if there is any.
    pub(crate) fn verdict(&self) -> (Vec<String>, Vec<String>) {
        let books = self.books();
        let began = books.began.unwrap_or_else(Instant::now);
        let trace = if books.violations.is_empty() { None } else { Some(&books.trace) };
        let shown = |(at, line): &(Instant, Line)| format!("{:>9} {line}", (*at - began).as_millis());
        (books.violations.clone(), trace.into_iter().flatten().map(shown).collect())
    }

    /// Records that a request for `name` begins to wait.
    pub(crate) fn waits(&self, client: usize, name: &str, once: bool) -> Waiting {
        let mut books = self.books();
        books.next += 1;
        let id = books.next;
        let name = Bytes::copy_from_slice(name.as_bytes());
        books.note(format!("c{client} waits for {name:?} (w{id}, once: {once})"));
        books.waiters.insert(id, Waiter { client, name, since: Instant::now(), once });
        drop(books);
        Waiting(self.clone(), id)
    }

    /// Records a guard. `again`: its holder may have had the lock already. `server_time` was read
    /// after the grant.
    pub(crate) fn got(&self, client: usize, guard: &LockGuard, again: bool, at_least: Duration, server_time: u64) {
        let (token, watch) = (guard.token().get(), guard.watch());
        let key = Bytes::copy_from_slice(guard.name().as_str().as_bytes());
        let mut books = self.books();
        books.note(format!("c{client} got {key:?} token {token} again: {again} held: {}", watch.is_held()));
        if token > server_time {
            books.violation(format!("{key:?}: token {token} is ahead of the server's clock {server_time}"));
        }
        let restarts = books.restarts.clone();
        let name = books.names.entry(key.clone()).or_default();
        let excused = |forced: &[u64], one: u64, two: u64| {
            let between = |at: &&u64| **at > one.min(two) && **at <= one.max(two);
            forced.iter().chain(&restarts).any(|at| between(&at))
        };
        let mut wrong = Vec::new();
        if !name.owned.insert(token) && !again {
            wrong.push(format!("{key:?}: token {token} was given twice"));
        }
        if token < name.highest && !excused(&name.forced, token, name.highest) && watch.is_held() {
            wrong.push(format!("{key:?}: token {token} after {}", name.highest));
        }
        name.highest = name.highest.max(token);
        name.valid_holds.retain(|hold| hold.watch.is_held());
        if watch.is_held() {
            for other in name.valid_holds.iter().filter(|other| other.token != token) {
                if !excused(&name.forced, token, other.token) {
                    let others = format!("client {} with token {}", other.client, other.token);
                    wrong.push(format!("{key:?}: client {client} with token {token} is valid beside {others}"));
                }
            }
            if !at_least.is_zero() {
                // The server's clock may be slower than ours, within the allowed difference.
                let keep = u64::try_from(at_least.as_micros()).unwrap_or(u64::MAX);
                name.keep = Some((token, token + keep - keep / 500 - 2000));
            }
            name.valid_holds.push(ValidHold { client, token, watch });
        }
        for wrong in wrong {
            books.violation(wrong);
        }
    }

    /// Records that the hold with this token is left to its lease.
    pub(crate) fn leave_to_its_lease(&self, name: &str, token: u64) {
        let mut books = self.books();
        // The token of a local owner is at least its grant's token, so the grant is the last one up
        // to this token.
        let of_name = books.reported.iter().filter(|(_, grant)| grant.key == name.as_bytes() && grant.token <= token);
        let field = of_name.max_by_key(|(_, grant)| grant.token).map(|(field, _)| field.clone());
        books.left.extend(field);
    }

    /// Whether a field may still be on the server although its holder has gone.
    pub(crate) fn may_stay(&self, field: &Bytes) -> bool {
        self.books().left.contains(field)
    }
}

impl Books {
    fn violation(&mut self, what: String) {
        self.note(format!("VIOLATION {what}"));
        self.violations.push(what);
    }

    fn note(&mut self, line: impl Into<String>) {
        self.trace(Line::Note(line.into()));
    }

    fn trace(&mut self, line: Line) {
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back((Instant::now(), line));
    }

    /// Checks a reply that reports a name as taken: the holder must not have released it long ago.
    fn check_taken(&mut self, call: &Call, answer: &Result<Reply, ServerError>) {
        let Ok(Reply::Array(answers)) = answer else { return };
        let taken: Vec<&Bytes> = match call.name.as_str() {
            "lock/acquire" if answers[0] == Reply::Int(0) => vec![&call.keys[0]],
            "pubsub/ttl" => {
                let is_there = |left: &Reply| matches!(left, Reply::Int(0..));
                call.keys.iter().zip(answers).filter(|(_, left)| is_there(left)).map(|(key, _)| key).collect()
            }
            _ => Vec::new(),
        };
        for key in taken {
            let Some(holder) = self.names.get(key).and_then(|name| name.holder.clone()) else { continue };
            let since = self.released.get(&holder).map(Instant::elapsed);
            if let Some(since) = since.filter(|since| *since > LONG_AGO && !self.left.contains(&holder)) {
                self.violation(format!("{key:?}: {holder:?} is in the way {since:?} after its release"));
            }
        }
    }

    /// Checks the release of a grant that arrived in time and had no owner in the client: when the
    /// grant arrived, no task of this client may have been waiting for it.
    fn check_release(&mut self, client: usize, call: &Call) {
        let (Some(field), Some(key)) = (call.field(), call.keys.first()) else { return };
        let Some(reported) = self.reported.get(field).filter(|reported| reported.for_anybody) else { return };
        let name = self.names.entry(key.clone()).or_default();
        let superseded = name.highest > reported.token || name.forced.iter().any(|at| *at > reported.token);
        if name.had_owner(reported.token) || superseded || name.preempted.contains(field) {
            return;
        }
        let waited = |waiter: &&Waiter| {
            waiter.client == client && waiter.name == *key && !waiter.once && waiter.since < reported.at
        };
        let Some(id) = self.waiters.iter().find(|(_, waiter)| waited(waiter)).map(|(id, _)| *id) else { return };
        if reported.refitted {
            self.seen.refitted += 1;
        } else {
            let reported = format!("token {}, reported {:?} ago", reported.token, reported.at.elapsed());
            self.violation(format!("{key:?}: {field:?} ({reported}) was released while w{id} waited for it"));
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Note(what) => f.write_str(what),
            Line::Sends(client, call) => write!(f, "c{client} sends {}", shown(call)),
            Line::Executes(micros, client, call, answer) => {
                write!(f, "    server {micros}: c{client} {} -> {answer:?}", shown(call))
            }
            Line::Receives(client, call, answer) => write!(f, "c{client} receives {} -> {answer:?}", shown(call)),
        }
    }
}

fn shown(call: &Call) -> String {
    let short = |bytes: &Bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.rsplit_once('-').map_or(text.clone(), |(_, end)| end.to_owned())
    };
    let list = |all: &[Bytes]| all.iter().map(short).collect::<Vec<_>>().join(" ");
    format!("{} {} | {}", call.name, list(&call.keys), list(&call.args))
}
