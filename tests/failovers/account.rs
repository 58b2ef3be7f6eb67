//! Promises, acknowledgements and observations, and their report.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redgrid_core::{Client, Token};
use redgrid_locks::HoldWatch;
use redgrid_tests::SOON;
use redgrid_tests::spread::Spread;
use serde::Serialize;

/// The longest a name not held before may take from the promotion on.
const FIRST_GRANT_WITHIN: Duration = Duration::from_secs(1);

/// The longest a task may stand still after a promotion.
const STILL_FOR: Duration = Duration::from_secs(2);

/// Tasks that do nothing for so long stand still.
const STANDS_STILL: Duration = Duration::from_millis(100);

/// How durable the grants of a task are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// As nobody asked for more.
    Default,
    /// By all replicas that may be promoted.
    All,
}

impl Mode {
    pub(crate) const BOTH: [Mode; 2] = [Mode::Default, Mode::All];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::All => "all",
        }
    }
}

#[derive(Default)]
pub(crate) struct Account(Mutex<Books>);

#[derive(Default)]
struct Books {
    /// From the promotion to the first grant.
    first_grants: Vec<Duration>,
    /// The same from when a client could first know it.
    after_told: Vec<Duration>,
    /// From the fault to the promotion.
    promotions: Vec<Duration>,
    /// From the promotion until a sentinel names the promoted one, and until its failover is over.
    named: Vec<Duration>,
    switched: Vec<Duration>,
    sent_to_demoted: u64,
    /// From when to when a task stood still, and when another server had been promoted.
    pauses: Vec<(Instant, Instant)>,
    promoted_at: Vec<Instant>,
    /// Writes without a lock that were acknowledged, and of these the ones that are gone.
    writes: u64,
    writes_lost: u64,
    default: Sums,
    all: Sums,
    /// The last grant of each name.
    grants: HashMap<String, (Token, HoldWatch)>,
    /// By list: what was acknowledged, and what may or may not be there.
    pushed: HashMap<String, Vec<String>>,
    violations: Vec<String>,
}

/// What came of the tasks of one mode.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Sums {
    grants: u64,
    /// Not granted, and said so.
    refused: u64,
    /// Requests whose outcome nobody knows.
    unknown: u64,
    /// Names held across a failover and asked for by another client right after it.
    contested: u64,
    /// Granted to one while another believed.
    double_holds: u64,
    /// Tokens not above the one before.
    tokens_back: u64,
    /// Increments of the guarded counters that the store acknowledged, and those it refused for
    /// their token.
    increments: u64,
    stale_refused: u64,
    /// By how much the guarded counters are off.
    counters_off: u64,
    /// Acknowledged by the deployment itself, and gone after a failover.
    pushes: u64,
    pushes_lost: u64,
    /// Pushed once, and there twice.
    pushes_twice: u64,
}

impl Books {
    fn sums(&mut self, mode: Mode) -> &mut Sums {
        match mode {
            Mode::Default => &mut self.default,
            Mode::All => &mut self.all,
        }
    }
}

impl Account {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody was granted a name: nobody else may believe in it, and the token has to be above
    /// the last.
    pub(crate) fn granted(&self, mode: Mode, name: &str, token: Token, watch: HoldWatch) {
        let mut books = self.books();
        let before = books.grants.insert(name.to_owned(), (token, watch));
        let sums = books.sums(mode);
        sums.grants += 1;
        let Some((last, watch)) = before else { return };
        let (double, back) = (watch.is_held(), token <= last);
        sums.double_holds += u64::from(double);
        sums.tokens_back += u64::from(back);
        if mode == Mode::All && double {
            books.violations.push(format!("`{name}`: granted with {token} while {last} was believed"));
        }
        // Tokens rise whatever the mode, as long as the clocks do.
        if back {
            books.violations.push(format!("`{name}`: {token} was granted after {last}"));
        }
    }

    pub(crate) fn contested(&self, mode: Mode, name: &str, double: bool) {
        let mut books = self.books();
        books.sums(mode).contested += 1;
        books.sums(mode).double_holds += u64::from(double);
        if double && mode == Mode::All {
            books.violations.push(format!("`{name}`: held across the failover, and granted to another"));
        }
    }

    pub(crate) fn refused(&self, mode: Mode, unknown: bool) {
        let mut books = self.books();
        let sums = books.sums(mode);
        if unknown { sums.unknown += 1 } else { sums.refused += 1 }
    }

    pub(crate) fn incremented(&self, mode: Mode, taken: bool) {
        let mut books = self.books();
        let sums = books.sums(mode);
        if taken { sums.increments += 1 } else { sums.stale_refused += 1 }
    }

    pub(crate) fn counter(&self, mode: Mode, name: &str, acknowledged: u64, found: u64) {
        let mut books = self.books();
        books.sums(mode).counters_off += acknowledged.abs_diff(found);
        if mode == Mode::All && acknowledged != found {
            let told = format!("the counter of `{name}` is {found}, and {acknowledged} increments were acknowledged");
            books.violations.push(told);
        }
    }

    pub(crate) fn pushed(&self, mode: Mode, list: &str, id: String) {
        let mut books = self.books();
        books.sums(mode).pushes += 1;
        books.pushed.entry(list.to_owned()).or_default().push(id);
    }

    pub(crate) fn first_grant(&self, after_promotion: Duration, after_told: Duration) {
        let mut books = self.books();
        books.first_grants.push(after_promotion);
        books.after_told.push(after_told);
    }

    pub(crate) fn promoted(&self, at: Instant, took: Duration) {
        let mut books = self.books();
        books.promotions.push(took);
        books.promoted_at.push(at);
    }

    /// A task that asks for no durability has done something, for the first time after `last`.
    pub(crate) fn went_on(&self, last: Instant) {
        let now = Instant::now();
        if now.saturating_duration_since(last) >= STANDS_STILL {
            self.books().pauses.push((last, now));
        }
    }

    pub(crate) fn wrote(&self, acknowledged: u64, lost: u64) {
        let mut books = self.books();
        books.writes += acknowledged;
        books.writes_lost += lost;
    }

    pub(crate) fn told(&self, named: Duration, switched: Duration) {
        let mut books = self.books();
        books.named.push(named);
        books.switched.push(switched);
    }

    pub(crate) fn sent_to_demoted(&self, count: u64, round: u32) {
        let mut books = self.books();
        books.sent_to_demoted += count;
        if count > 0 {
            books.violations.push(format!("round {round}: {count} scripts were sent to the demoted primary"));
        }
    }

    pub(crate) fn broken(&self, what: String) {
        self.books().violations.push(what);
    }

    pub(crate) fn grants(&self, mode: Mode) -> u64 {
        self.books().sums(mode).grants
    }

    /// Reads every list back from the deployment.
    pub(crate) async fn compare_lists(&self, client: &Client) {
        let pushed = std::mem::take(&mut self.books().pushed);
        for (list, acknowledged) in pushed {
            let asked = client.command("LRANGE").key(&list).expect("a name").arg("0").arg("-1").idempotent();
            let there: Vec<String> = match tokio::time::timeout(SOON, asked.query()).await {
                Ok(Ok(there)) => there,
                other => return self.broken(format!("the list `{list}` can not be read: {other:?}")),
            };
            let distinct: HashSet<&String> = there.iter().collect();
            let lost = acknowledged.iter().filter(|id| !distinct.contains(id)).count() as u64;
            let twice = (there.len() - distinct.len()) as u64;
            let mode = if list.starts_with(Mode::All.word()) { Mode::All } else { Mode::Default };
            let mut books = self.books();
            books.sums(mode).pushes_lost += lost;
            books.sums(mode).pushes_twice += twice;
            if twice > 0 {
                books.violations.push(format!("{twice} effects were applied twice in `{list}`"));
            }
        }
    }
}

/// What is told of a run. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    topology: String,
    fault: &'static str,
    rounds: u32,
    seconds: f64,
    promotion_ms: Spread,
    /// From the promotion until a sentinel names it; nothing in a cluster.
    named_ms: Spread,
    /// The same by `SENTINEL MASTER`, at the end of the failover.
    switched_ms: Spread,
    first_grant_ms: Spread,
    /// From when a client could first know of the promotion.
    after_told_ms: Spread,
    sent_to_demoted: u64,
    /// How long tasks stood still, and for how long of that another server had been promoted.
    still_ms: Spread,
    still_after_ms: Spread,
    writes: u64,
    writes_lost: u64,
    default: Sums,
    all: Sums,
    pub(crate) violations: Vec<String>,
}

impl Report {
    pub(crate) fn new(topology: &str, fault: &'static str, rounds: u32, took: Duration, account: &Account) -> Self {
        let books = account.books();
        let mut violations = books.violations.clone();
        let late = books.first_grants.iter().filter(|took| **took > FIRST_GRANT_WITHIN).count();
        if late > 0 {
            violations.push(format!("{late} first grants came later than {FIRST_GRANT_WITHIN:?} after the promotion"));
        }
        let pauses: Vec<_> = books.pauses.iter().map(|(from, to)| *to - *from).collect();
        let after = |(from, to): &(Instant, Instant)| {
            let promoted = books.promoted_at.iter().find(|at| (from..=to).contains(at))?;
            Some(*to - *promoted)
        };
        let pauses_after: Vec<_> = books.pauses.iter().filter_map(after).collect();
        let longest = pauses_after.iter().max().copied().unwrap_or_default();
        if longest > STILL_FOR {
            violations.push(format!("a task stood still for {longest:?} after a promotion"));
        }
        Report {
            topology: topology.to_owned(),
            fault,
            rounds,
            seconds: took.as_secs_f64(),
            promotion_ms: Spread::of(&books.promotions),
            named_ms: Spread::of(&books.named),
            switched_ms: Spread::of(&books.switched),
            first_grant_ms: Spread::of(&books.first_grants),
            after_told_ms: Spread::of(&books.after_told),
            sent_to_demoted: books.sent_to_demoted,
            still_ms: Spread::of(&pauses),
            still_after_ms: Spread::of(&pauses_after),
            writes: books.writes,
            writes_lost: books.writes_lost,
            default: books.default.clone(),
            all: books.all.clone(),
            violations,
        }
    }
}
