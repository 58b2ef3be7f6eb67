//! Records all observations of a run, and checks them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::{Code, Reply, ServerError};
use redgrid_locks::{HoldWatch, LockGuard};
use redgrid_tests::simulated_network::{Call, Witness};
use tokio::time::Instant;

/// Lines of the trace that are kept: more than a run has, unless somebody waits for ever.
const TRACE: usize = 60_000;

/// After this, nothing is left of what was given back: a copy that comes late does so within a
/// `response_timeout` of 300 ms, and the longest outages last a few seconds. The leases of most
/// locks are much longer.
const LONG_AGO: Duration = Duration::from_secs(8);

/// The books of one run. Clones write into the same.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    began: Option<Instant>,
    names: HashMap<Bytes, Name>,
    waiters: BTreeMap<u64, Waiter>,
    next: u64,
    /// Grants of which a client was told, by holder field.
    told: HashMap<Bytes, Told>,
    /// When the release of a field was answered for the first time.
    released: HashMap<Bytes, Instant>,
    /// Fields that may stay until their lease ends.
    left: HashSet<Bytes>,
    restarts: Vec<u64>,
    /// Since when nothing goes wrong any more.
    calm: Option<Instant>,
    submitted: u64,
    pub(crate) seen: Seen,
    violations: Vec<String>,
    trace: VecDeque<(Instant, Line)>,
}

/// One line of the trace. Put into words only when something went wrong.
enum Line {
    Said(String),
    Sends(usize, Call),
    Executes(u64, usize, Call, Result<Reply, ServerError>),
    IsTold(usize, Call, Result<Reply, ServerError>),
}

#[derive(Default)]
struct Name {
    beliefs: Vec<Belief>,
    /// Tokens that somebody got, and the highest of them.
    owned: BTreeSet<u64>,
    /// Tokens that the server gave: those of its grants' later owners follow each.
    grants: BTreeSet<u64>,
    highest: u64,
    /// Server times at which it was taken by force.
    forced: Vec<u64>,
    /// Whom it was taken from by force.
    robbed: HashSet<Bytes>,
    /// Whose acquire was granted last.
    holder: Option<Bytes>,
    /// It is to stay taken for the holder with this token until this server time.
    keep: Option<(u64, u64)>,
}

struct Belief {
    client: usize,
    token: u64,
    watch: HoldWatch,
}

impl Name {
    /// Whether anybody had what was granted with this token.
    fn had_an_owner(&self, token: u64) -> bool {
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

struct Told {
    key: Bytes,
    token: u64,
    at: Instant,
    /// It came in time, and whoever waits for the name may have it.
    for_anybody: bool,
    /// Its lease was to be fitted to another wish.
    refitted: bool,
}

/// How often what happened.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) acquisitions: u64,
    pub(crate) dropped: u64,
    pub(crate) granted: u64,
    pub(crate) busy: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    pub(crate) reentered: u64,
    pub(crate) seized: u64,
    pub(crate) restarts: u64,
    pub(crate) calls: u64,
    pub(crate) unanswered: u64,
    /// Releases that found something although an earlier one had been answered: a late copy had
    /// been granted.
    pub(crate) settled: u64,
    /// Grants given back although somebody of the same client waited, because their lease could not
    /// be fitted to the wish.
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
            (&mut self.seized, other.seized),
            (&mut self.restarts, other.restarts),
            (&mut self.calls, other.calls),
            (&mut self.unanswered, other.unanswered),
            (&mut self.settled, other.settled),
            (&mut self.refitted, other.refitted),
        ] {
            *sum += n;
        }
    }
}

/// Somebody waits for as long as this lives.
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

    /// From here on nothing goes wrong any more.
    pub(crate) fn calm(&self) {
        let mut books = self.books();
        books.note("calm");
        books.calm.get_or_insert_with(Instant::now);
    }

    /// How long nothing had gone wrong at `at`.
    pub(crate) fn calm_for(&self, at: Instant) -> Duration {
        self.books().calm.map_or(Duration::ZERO, |since| at.saturating_duration_since(since))
    }

    pub(crate) fn violation(&self, what: String) {
        self.books().violation(what);
    }

    pub(crate) fn note(&self, line: impl Into<String>) {
        self.books().note(line);
    }

    /// What must not have been, and if there is any of it, all that happened.
    pub(crate) fn verdict(&self) -> (Vec<String>, Vec<String>) {
        let books = self.books();
        let began = books.began.unwrap_or_else(Instant::now);
        let trace = if books.violations.is_empty() { None } else { Some(&books.trace) };
        let shown = |(at, line): &(Instant, Line)| format!("{:>9} {line}", (*at - began).as_millis());
        (books.violations.clone(), trace.into_iter().flatten().map(shown).collect())
    }

    /// A request for `name` begins to wait.
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

    /// Somebody got a guard. `again`: by a holder that may have been in already. `server_time` is
    /// read after it came.
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
        name.beliefs.retain(|belief| belief.watch.is_held());
        if watch.is_held() {
            for other in name.beliefs.iter().filter(|other| other.token != token) {
                if !excused(&name.forced, token, other.token) {
                    let others = format!("client {} with token {}", other.client, other.token);
                    wrong.push(format!("{key:?}: client {client} with token {token} believes beside {others}"));
                }
            }
            if !at_least.is_zero() {
                // The server's clock may be slower than ours by what is allowed for.
                let keep = u64::try_from(at_least.as_micros()).unwrap_or(u64::MAX);
                name.keep = Some((token, token + keep - keep / 500 - 2000));
            }
            name.beliefs.push(Belief { client, token, watch });
        }
        for wrong in wrong {
            books.violation(wrong);
        }
    }

    /// The hold with this token is left to its lease.
    pub(crate) fn left_to_its_lease(&self, name: &str, token: u64) {
        let mut books = self.books();
        // The grant that this token belongs to: the last one before it.
        let of_name = books.told.iter().filter(|(_, told)| told.key == name.as_bytes() && told.token <= token);
        let field = of_name.max_by_key(|(_, told)| told.token).map(|(field, _)| field.clone());
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
        self.trace(Line::Said(line.into()));
    }

    fn trace(&mut self, line: Line) {
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back((Instant::now(), line));
    }

    /// Somebody finds a name taken: not by what was given back long ago.
    fn is_in_the_way(&mut self, call: &Call, answer: &Result<Reply, ServerError>) {
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

    /// A client gives back a field. If it had been told that the field was granted, in time, and
    /// nobody of its own had it, then nobody of its own may have waited for it when it was told.
    fn given_back(&mut self, client: usize, call: &Call) {
        let (Some(field), Some(key)) = (call.field(), call.keys.first()) else { return };
        let Some(told) = self.told.get(field).filter(|told| told.for_anybody) else { return };
        let name = self.names.entry(key.clone()).or_default();
        let superseded = name.highest > told.token || name.forced.iter().any(|at| *at > told.token);
        if name.had_an_owner(told.token) || superseded || name.robbed.contains(field) {
            return;
        }
        let waited =
            |waiter: &&Waiter| waiter.client == client && waiter.name == *key && !waiter.once && waiter.since < told.at;
        let Some(id) = self.waiters.iter().find(|(_, waiter)| waited(waiter)).map(|(id, _)| *id) else { return };
        if told.refitted {
            self.seen.refitted += 1;
        } else {
            let told = format!("token {}, told {:?} ago", told.token, told.at.elapsed());
            self.violation(format!("{key:?}: {field:?} ({told}) was thrown away while w{id} waited for it"));
        }
    }
}

const GIVES_BACK: [&str; 3] = ["lock/release", "lock/release-yielding", "lock/retain"];

impl Witness for Ledger {
    fn submitted(&self, client: usize, call: &Call, _now: Instant) {
        let mut books = self.books();
        books.submitted += 1;
        books.seen.calls += 1;
        books.trace(Line::Sends(client, call.clone()));
        if GIVES_BACK.contains(&call.name.as_str()) {
            books.given_back(client, call);
        }
        let fitted =
            if call.name == "lock/renew" { &call.args[..] } else { call.field().map_or(&[][..], std::slice::from_ref) };
        if matches!(call.name.as_str(), "lock/renew" | "lock/extend") {
            for field in fitted {
                if let Some(told) = books.told.get_mut(field) {
                    told.refitted = true;
                }
            }
        }
    }

    fn executed(&self, client: usize, call: &Call, answer: &Result<Reply, ServerError>, micros: u64) {
        let mut books = self.books();
        books.trace(Line::Executes(micros, client, call.clone(), answer.clone()));
        if let Err(ServerError::Refused { code: Code::Other, message }) = answer {
            books.violation(format!("{}: {message}", call.name));
        }
        books.is_in_the_way(call, answer);
        if call.name == "lock/release"
            && matches!(answer, Ok(Reply::Int(1..)))
            && books.released.contains_key(&call.args[0])
        {
            books.seen.settled += 1;
        }
        let Some(token) = granted(call, answer) else { return };
        let restarts = books.restarts.clone();
        // A late copy of a holder's own acquire keeps the name for it.
        let own = call.field().and_then(|field| books.told.get(field)).map(|told| told.token);
        let name = books.names.entry(call.keys[0].clone()).or_default();
        let former = name.holder.replace(call.args[0].clone());
        if call.name == "lock/takeover" {
            // A later copy of the same acquire is not to be believed either: its client was told
            // that it was robbed.
            name.robbed.extend(former);
        }
        name.grants.insert(token);
        if call.name == "lock/takeover" {
            name.forced.push(micros);
        }
        if let Some((since, until)) = name.keep {
            let broken = name.forced.iter().chain(&restarts).any(|at| *at > since);
            if token > since && token < until && !broken && own.is_none_or(|own| own > since) {
                let key = &call.keys[0];
                books.violation(format!("{key:?}: granted at {token}, to be kept until {until} since {since}"));
            }
        }
    }

    fn delivered(&self, client: usize, call: &Call, answer: &Result<Reply, ServerError>, sent: Instant, now: Instant) {
        let mut books = self.books();
        books.trace(Line::IsTold(client, call.clone(), answer.clone()));
        if answer.as_ref().is_err_and(ServerError::is_unknown) {
            books.seen.unanswered += 1;
        }
        let gives_back = GIVES_BACK.contains(&call.name.as_str());
        if let (true, Err(ServerError::Refused { code, .. }), Some(field)) = (gives_back, answer, call.field())
            && !code.is_passing()
        {
            books.left.insert(field.clone());
        }
        if let (true, Ok(_), Some(field)) = (gives_back, answer, call.field()) {
            books.released.entry(field.clone()).or_insert(now);
        }
        // What lingers stays, and stays away from everybody.
        if let ("lock/retain", Some(field)) = (call.name.as_str(), call.field()) {
            books.left.insert(field.clone());
        }
        if let (Some(token), Some(field)) = (granted(call, answer), call.field()) {
            let lease = call.int(1);
            let lasts = Duration::from_millis(lease.unsigned_abs());
            let in_time = now < sent + lasts.mul_f64(0.9).saturating_sub(Duration::from_millis(25));
            // What was taken by force was taken for one alone, also where its token is read once
            // more.
            let by_force = call.name == "lock/takeover" || books.told.contains_key(field);
            let (key, for_anybody) = (call.keys[0].clone(), in_time && !by_force);
            books.told.insert(field.clone(), Told { key, token, at: now, for_anybody, refitted: false });
        }
    }

    fn restarted(&self, micros: u64) {
        let mut books = self.books();
        books.note(format!("    server {micros}: starts again, empty"));
        books.seen.restarts += 1;
        books.restarts.push(micros);
    }
}

/// The server's time of a grant.
fn granted(call: &Call, answer: &Result<Reply, ServerError>) -> Option<u64> {
    if !matches!(call.name.as_str(), "lock/acquire" | "lock/takeover") {
        return None;
    }
    match answer.clone().ok()? {
        Reply::Int(time) => u64::try_from(time).ok(),
        told => told.into_typed::<(i64, u64, i64)>().ok().filter(|told| told.0 == 1).map(|told| told.1),
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Said(what) => f.write_str(what),
            Line::Sends(client, call) => write!(f, "c{client} sends {}", shown(call)),
            Line::Executes(micros, client, call, answer) => {
                write!(f, "    server {micros}: c{client} {} -> {answer:?}", shown(call))
            }
            Line::IsTold(client, call, answer) => write!(f, "c{client} is told {} -> {answer:?}", shown(call)),
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
