//! The final output of a sale: a line of JSON, or a table and one sentence.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::proof::Proof;
use super::rows::BadRow;
use super::wire::Tally;
use crate::cli::SaleOptions;

/// Number of bad rows listed in the output; the others are only counted.
const SHOWN_BAD_ROWS: usize = 100;

/// The result of a sale. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    orders: u64,
    stock_left: i64,
    oversold: u64,
    duplicate_ids: u64,
    duplicate_users: u64,
    seconds: f64,
    orders_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    processes: u16,
    tasks: u16,
    server: String,
    lock: &'static str,
    proven: bool,
    faults: Vec<String>,
    products: usize,
    units: u64,
    requests: u64,
    refused: u64,
    refused_repeated: u64,
    unserved: u64,
    lost: u64,
    bad_rows: usize,
    bad_lines: Vec<BadRow>,
    killed: u64,
    handed_over: u64,
    finished: u64,
}

/// The circumstances of a sale.
pub(crate) struct Circumstances<'a> {
    /// The options.
    pub(crate) options: &'a SaleOptions,
    /// The server, as text for display.
    pub(crate) server: String,
    /// Number of products.
    pub(crate) products: usize,
    /// From the first request to the last reply.
    pub(crate) took: Duration,
    /// Rows that were skipped.
    pub(crate) bad: Vec<BadRow>,
}

impl Report {
    /// Combines the verification and the workers' reports.
    pub(crate) fn new(proof: Proof, mut tally: Tally, circumstances: Circumstances<'_>) -> Self {
        let requests = tally.requests();
        let mut faults = proof.faults;
        if tally.unserved > 0 {
            let why = tally.error.as_deref().unwrap_or("no reason was given");
            faults.push(format!("{} requests got no answer ({why})", grouped(tally.unserved)));
        }
        // A request without a reply may or may not have made an order, so the numbers may differ.
        let reported = tally.ordered.len() as u64;
        if tally.unserved == 0 && reported != proof.orders {
            faults.push(format!(
                "{} orders are recorded, and {} were reported",
                grouped(proof.orders),
                grouped(reported)
            ));
        }
        if circumstances.options.kill_one && tally.killed == 0 {
            faults.push("the sale was over before a worker could be killed".into());
        }
        tally.ordered.sort_unstable();
        let seconds = circumstances.took.as_secs_f64();
        let rate = if seconds > 0.0 { proof.orders as f64 / seconds } else { 0.0 };
        let bad_rows = circumstances.bad.len();
        let mut bad_lines = circumstances.bad;
        bad_lines.truncate(SHOWN_BAD_ROWS);
        Report {
            orders: proof.orders,
            stock_left: proof.stock_left,
            oversold: proof.oversold,
            duplicate_ids: proof.duplicate_ids,
            duplicate_users: proof.duplicate_users,
            seconds: rounded(seconds),
            orders_per_s: rounded(rate),
            p50_ms: rounded(percentile(&tally.ordered, 50) as f64 / 1e3),
            p99_ms: rounded(percentile(&tally.ordered, 99) as f64 / 1e3),
            processes: circumstances.options.processes,
            tasks: circumstances.options.tasks,
            server: circumstances.server,
            lock: circumstances.options.lock.as_str(),
            proven: faults.is_empty(),
            faults,
            products: circumstances.products,
            units: proof.units,
            requests,
            refused: tally.refused(),
            refused_repeated: tally.repeated,
            unserved: tally.unserved,
            lost: tally.lost,
            bad_rows,
            bad_lines,
            killed: tally.killed,
            handed_over: tally.handed_over,
            finished: tally.finished,
        }
    }

    /// Whether the sale is proven correct.
    pub(crate) fn is_proven(&self) -> bool {
        self.proven
    }

    /// Formats the report as a table and a sentence.
    pub(crate) fn table(&self) -> String {
        let sold_out = self.refused - self.refused_repeated;
        let mut rows = vec![
            ("server", self.server.clone()),
            ("lock", format!("{}, {} processes of {} tasks", self.lock, self.processes, self.tasks)),
            ("products", self.products.to_string()),
            ("requests", grouped(self.requests)),
            ("orders", format!("{} for {} units", grouped(self.orders), grouped(self.units))),
            ("refused", format!("{} sold out, {} repeated", grouped(sold_out), grouped(self.refused_repeated))),
            ("stock left", self.stock_left.to_string()),
            ("oversold", grouped(self.oversold)),
            ("duplicate ids", grouped(self.duplicate_ids)),
            ("duplicate users", grouped(self.duplicate_users)),
            ("time", format!("{:.2} s, {} orders/s", self.seconds, grouped(self.orders_per_s.round() as u64))),
            ("order latency", format!("p50 {:.1} ms, p99 {:.1} ms", self.p50_ms, self.p99_ms)),
        ];
        if self.killed > 0 {
            let handed_over = grouped(self.handed_over);
            let finished = grouped(self.finished);
            let killed = format!("{}, {handed_over} requests handed over, {finished} orders finished", self.killed);
            rows.push(("workers killed", killed));
        }
        if self.lost > 0 {
            rows.push(("locks lost", grouped(self.lost)));
        }
        if self.bad_rows > 0 {
            rows.push(("bad rows", format!("{} left out", grouped(self.bad_rows as u64))));
        }
        let mut text = String::new();
        for (name, value) in rows {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "{name:>15}  {value}");
        }
        let _ = write!(text, "\n{}", self.sentence());
        text
    }

    fn sentence(&self) -> String {
        if self.proven {
            let (units, orders, left) =
                (grouped(self.units), grouped(self.orders), grouped(self.stock_left.unsigned_abs()));
            format!(
                "Proven: {orders} orders sold {units} units and left {left}; nothing was sold beyond the stock, no order \
                 number appears twice, and no user twice for one product."
            )
        } else {
            format!("Not proven: {}.", self.faults.join("; "))
        }
    }
}

/// Formats a number with commas between the thousands.
pub(crate) fn grouped(number: impl Into<u128>) -> String {
    let digits = number.into().to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns the smallest value that is at least as large as `percent` % of the sorted values; 0 if
/// there are none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (100, 198));
        assert_eq!((percentile(&[7], 50), percentile(&[7], 99), percentile(&[], 99)), (7, 7, 0));
    }

    #[test]
    fn thousands_are_grouped() {
        let cases = [(0_u64, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }
}
