//! Promises, acknowledgements and observations, and their report.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redgrid_core::{Client, Token};
use redgrid_locks::HoldWatch;
use redgrid_tests::SOON;
use redgrid_tests::spread::Spread;
use serde::Serialize;

/// Limit from the promotion to the first grant of a name that was free before.
const FIRST_GRANT_WITHIN: Duration = Duration::from_secs(1);

/// Limit of a task's pause after a promotion.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A task without any success for this long has a pause.
const PAUSE_FROM: Duration = Duration::from_millis(100);

/// The durability of a task's grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// The default durability.
    Default,
    /// Acknowledged by all replicas that may be promoted.
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
pub(crate) struct Account(Mutex<Records>);

#[derive(Default)]
struct Records {
    /// Times from the promotion to the first grant.
    first_grants: Vec<Duration>,
    /// Times from the moment at which a client could know the promotion to the first grant.
    after_known: Vec<Duration>,
    /// Times from the fault to the promotion.
    promotions: Vec<Duration>,
    /// Times from the promotion until a sentinel names the new primary, and until its failover is
    /// over.
    named: Vec<Duration>,
    switched: Vec<Duration>,
    sent_to_demoted: u64,
    /// Start and end of each task's pauses, and the times of promotions.
    pauses: Vec<(Instant, Instant)>,
    promoted_at: Vec<Instant>,
    /// Acknowledged writes without a lock, and the number of them that are lost.
    writes: u64,
    writes_lost: u64,
    default: Sums,
    all: Sums,
    /// The last grant of each name.
    grants: HashMap<String, (Token, HoldWatch)>,
    /// Acknowledged elements of each list.
    pushed: HashMap<String, Vec<String>>,
    violations: Vec<String>,
}

/// The totals of the tasks of one mode.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Sums {
    grants: u64,
    /// Requests that were reported as not granted.
    refused: u64,
    /// Requests with an unknown outcome.
    unknown: u64,
    /// Names held across a failover that another client tried right after it.
    contested: u64,
    /// Grants to one holder while another holder's `is_held()` was true.
    double_holds: u64,
    /// Tokens not above the one before.
    tokens_back: u64,
    /// Increments of the guarded counters that the store acknowledged, and those it rejected for a
    /// stale token.
    increments: u64,
    stale_refused: u64,
    /// Sum of the differences between the guarded counters and the acknowledged increments.
    counters_off: u64,
    /// Elements that the deployment itself acknowledged, and the number of them that are lost after
    /// a failover.
    pushes: u64,
    pushes_lost: u64,
    /// Elements pushed once that are in the list twice.
    pushes_twice: u64,
}

impl Records {
    fn sums(&mut self, mode: Mode) -> &mut Sums {
        match mode {
            Mode::Default => &mut self.default,
            Mode::All => &mut self.all,
        }
    }
}

impl Account {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a grant, and checks that the previous hold has ended and that the token is above the
    /// last one.
    pub(crate) fn granted(&self, mode: Mode, name: &str, token: Token, watch: HoldWatch) {
        let mut records = self.records();
        let before = records.grants.insert(name.to_owned(), (token, watch));
        let sums = records.sums(mode);
        sums.grants += 1;
        let Some((last, watch)) = before else { return };
        let (double, back) = (watch.is_held(), token <= last);
        sums.double_holds += u64::from(double);
        sums.tokens_back += u64::from(back);
        if mode == Mode::All && double {
            records.violations.push(format!("`{name}`: granted with {token} while {last} was valid"));
        }
        // Tokens rise in every mode, as long as the clocks do.
        if back {
            records.violations.push(format!("`{name}`: {token} was granted after {last}"));
        }
    }

    pub(crate) fn contested(&self, mode: Mode, name: &str, double: bool) {
        let mut records = self.records();
        records.sums(mode).contested += 1;
        records.sums(mode).double_holds += u64::from(double);
        if double && mode == Mode::All {
            records.violations.push(format!("`{name}`: held across the failover, and granted to another"));
        }
    }

    pub(crate) fn refused(&self, mode: Mode, unknown: bool) {
        let mut records = self.records();
        let sums = records.sums(mode);
        if unknown { sums.unknown += 1 } else { sums.refused += 1 }
    }

    pub(crate) fn incremented(&self, mode: Mode, taken: bool) {
        let mut records = self.records();
        let sums = records.sums(mode);
        if taken { sums.increments += 1 } else { sums.stale_refused += 1 }
    }

    pub(crate) fn counter(&self, mode: Mode, name: &str, acknowledged: u64, found: u64) {
        let mut records = self.records();
        records.sums(mode).counters_off += acknowledged.abs_diff(found);
        if mode == Mode::All && acknowledged != found {
            let text = format!("the counter of `{name}` is {found}, and {acknowledged} increments were acknowledged");
            records.violations.push(text);
        }
    }

    pub(crate) fn pushed(&self, mode: Mode, list: &str, id: String) {
        let mut records = self.records();
        records.sums(mode).pushes += 1;
        records.pushed.entry(list.to_owned()).or_default().push(id);
    }

    pub(crate) fn first_grant(&self, after_promotion: Duration, after_known: Duration) {
        let mut records = self.records();
        records.first_grants.push(after_promotion);
        records.after_known.push(after_known);
    }

    pub(crate) fn promoted(&self, at: Instant, took: Duration) {
        let mut records = self.records();
        records.promotions.push(took);
        records.promoted_at.push(at);
    }

    /// Records a success of a task without durability; the success before it was at `last`.
    pub(crate) fn succeeded(&self, last: Instant) {
        let now = Instant::now();
        if now.saturating_duration_since(last) >= PAUSE_FROM {
            self.records().pauses.push((last, now));
        }
    }

    pub(crate) fn wrote(&self, acknowledged: u64, lost: u64) {
        let mut records = self.records();
        records.writes += acknowledged;
        records.writes_lost += lost;
    }

    pub(crate) fn named(&self, named: Duration, switched: Duration) {
        let mut records = self.records();
        records.named.push(named);
        records.switched.push(switched);
    }

    pub(crate) fn sent_to_demoted(&self, count: u64, round: u32) {
        let mut records = self.records();
        records.sent_to_demoted += count;
        if count > 0 {
            records.violations.push(format!("round {round}: {count} scripts were sent to the demoted primary"));
        }
    }

    pub(crate) fn broken(&self, violation: String) {
        self.records().violations.push(violation);
    }

    pub(crate) fn grants(&self, mode: Mode) -> u64 {
        self.records().sums(mode).grants
    }

    /// Reads every list back from the deployment, and compares it with the acknowledged elements.
    pub(crate) async fn compare_lists(&self, client: &Client) {
        let pushed = std::mem::take(&mut self.records().pushed);
        for (list, acknowledged) in pushed {
            let request = client.command("LRANGE").key(&list).expect("a name").arg("0").arg("-1").idempotent();
            let there: Vec<String> = match tokio::time::timeout(SOON, request.query()).await {
                Ok(Ok(there)) => there,
                other => return self.broken(format!("the list `{list}` cannot be read: {other:?}")),
            };
            let distinct: HashSet<&String> = there.iter().collect();
            let lost = acknowledged.iter().filter(|id| !distinct.contains(id)).count() as u64;
            let twice = (there.len() - distinct.len()) as u64;
            let mode = if list.starts_with(Mode::All.word()) { Mode::All } else { Mode::Default };
            let mut records = self.records();
            records.sums(mode).pushes_lost += lost;
            records.sums(mode).pushes_twice += twice;
            if twice > 0 {
                records.violations.push(format!("{twice} effects were applied twice in `{list}`"));
            }
        }
    }
}

/// The report of a run: the fields of the JSON line, in its order.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    topology: String,
    fault: &'static str,
    rounds: u32,
    seconds: f64,
    promotion_ms: Spread,
    /// From the promotion until a sentinel names the new primary; empty for a cluster.
    named_ms: Spread,
    /// From the promotion until the failover is over, by `SENTINEL MASTER`.
    switched_ms: Spread,
    first_grant_ms: Spread,
    /// From the moment at which a client could know the promotion to the first grant.
    after_known_ms: Spread,
    sent_to_demoted: u64,
    /// The lengths of all pauses, and the part of each that came after a promotion.
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
        let records = account.records();
        let mut violations = records.violations.clone();
        let late = records.first_grants.iter().filter(|took| **took > FIRST_GRANT_WITHIN).count();
        if late > 0 {
            violations.push(format!("{late} first grants came later than {FIRST_GRANT_WITHIN:?} after the promotion"));
        }
        let pauses: Vec<_> = records.pauses.iter().map(|(from, to)| *to - *from).collect();
        let after = |(from, to): &(Instant, Instant)| {
            let promoted = records.promoted_at.iter().find(|at| (from..=to).contains(at))?;
            Some(*to - *promoted)
        };
        let pauses_after: Vec<_> = records.pauses.iter().filter_map(after).collect();
        let longest = pauses_after.iter().max().copied().unwrap_or_default();
        if longest > LONGEST_PAUSE {
            violations.push(format!("a task stood still for {longest:?} after a promotion"));
        }
        Report {
            topology: topology.to_owned(),
            fault,
            rounds,
            seconds: took.as_secs_f64(),
            promotion_ms: Spread::of(&records.promotions),
            named_ms: Spread::of(&records.named),
            switched_ms: Spread::of(&records.switched),
            first_grant_ms: Spread::of(&records.first_grants),
            after_known_ms: Spread::of(&records.after_known),
            sent_to_demoted: records.sent_to_demoted,
            still_ms: Spread::of(&pauses),
            still_after_ms: Spread::of(&pauses_after),
            writes: records.writes,
            writes_lost: records.writes_lost,
            default: records.default.clone(),
            all: records.all.clone(),
            violations,
        }
    }
}
