//! Each panel of the dashboards of a process has data while a flash sale runs. The dashboard of the
//! fleet is that of the console.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid_core::Client;
use redgrid_core::fence::Fence;
use redgrid_core::observe::METRICS;
use redgrid_local_cached_map::LocalCachedMap;
use redgrid_locks::{Election, Lock};
use redgrid_map::Map;
use redgrid_rate_limiter::{GcraLimiter, Quota};
use redgrid_reliable_queue::ReliableQueue;
use redgrid_tests::{client, server};
use redgrid_topic::Topic;
use redgrid_transaction::Transaction;
use serde_json::Value;

use super::contrib::{LABELS_OF_PROMETHEUS, all, grouped, metric};
use super::dashboards::dashboards;
use super::names_in;
use super::recorded::{Recorded, recorded};
use super::small_cache;

const STOCK: u32 = 10;
const BUYERS: u32 = 20;
const HOUR: Duration = Duration::from_secs(3600);

/// The label of all objects of the sale.
const OF_SALE: &str = "family=\"sale\"";

/// Metrics that stay 0, because the sale has no faults. Their panels show the 0.
const STAY_0: [&str; 10] = [
    "redgrid_timed_out_total",
    "redgrid_lost_total",
    "redgrid_forced_total",
    "redgrid_renewals_failed_total",
    "redgrid_renewals_overdue_total",
    "redgrid_positions_lost_total",
    "redgrid_reconnects_total",
    "redgrid_gaps_total",
    "redgrid_primary_changes_total",
    "redgrid_retries_total",
];

/// A metric that can have any value. Its series exist only once they have one.
const ANY_VALUE: &str = "redgrid_clock_offset_seconds";

/// Returns the expressions of all panels without a series, each with its dashboard and panel.
fn without_data(present: &BTreeMap<String, f64>) -> Vec<String> {
    let mut missing = Vec::new();
    for (name, text) in dashboards().into_iter().filter(|(name, _)| *name != "fleet") {
        let board: Value = serde_json::from_str(&text).unwrap();
        for panel in board["panels"].as_array().unwrap() {
            let mut expressions = Vec::new();
            all(panel, "expr", &mut expressions);
            assert!(!expressions.is_empty(), "{name}: {} shows nothing", panel["title"]);
            let empty = expressions.into_iter().filter(|expression| !has_data(expression, present));
            missing.extend(empty.map(|expression| format!("{name}: {}: {expression}", panel["title"])));
        }
    }
    missing
}

/// Whether the expression's metric has a value: 1, or one sample, in a series with the labels of
/// the legend. If the metric has families, it must be a series of the sale. The first use of an
/// object reports all its counters as 0, so a series alone shows nothing.
fn has_data(expression: &str, present: &BTreeMap<String, f64>) -> bool {
    let names = names_in(expression);
    let labels: Vec<String> = grouped(expression)
        .into_iter()
        .map(|(label, _)| label)
        .filter(|label| !LABELS_OF_PROMETHEUS.contains(&label.as_str()))
        .map(|label| format!("{label}=\""))
        .collect();
    let is_shown = |name: &str| {
        let has_families = metric(name).is_some_and(|metric| metric.labels.contains(&"family"));
        let is_of_sale = |series: &str| !has_families || series.contains(OF_SALE);
        let is_shown = |series: &str| {
            let is_named = series.split('{').next() == Some(name);
            is_named && is_of_sale(series) && labels.iter().all(|label| series.contains(label))
        };
        let values: Vec<f64> = present.iter().filter(|(series, _)| is_shown(series)).map(|(_, value)| *value).collect();
        match name {
            ANY_VALUE => !values.is_empty(),
            _ if STAY_0.contains(&name) => !values.is_empty() && values.iter().all(|value| *value == 0.0),
            _ => values.iter().any(|value| *value >= 1.0),
        }
    };
    !names.is_empty() && names.into_iter().all(is_shown)
}

/// Buys one ticket, if there is one left, and handles the mail about it.
async fn buy(client: Client) {
    let calls = GcraLimiter::new(&client, "calls", Quota::new(1000, HOUR)).family("sale");
    assert!(calls.try_acquire().await.unwrap());
    let stock: Map<String, u32> = Map::new(&client, "stock");
    let guard = Lock::new(&client, "stock-lock").family("sale").acquire().await.unwrap();
    let left = stock.get("ticket").await.unwrap().unwrap();
    if left > 0 {
        stock.insert("ticket", &(left - 1)).await.unwrap();
    }
    guard.release().await.unwrap();
    let mails: ReliableQueue<String> = ReliableQueue::new(&client, "mails").family("sale");
    mails.push("sold").await.unwrap();
    mails.receive().await.unwrap().ack().await.unwrap();
    let news: Topic<String> = Topic::new(&client, "news").family("sale");
    news.publish("sold").await.unwrap();
}

/// Uses the objects beside the sale that the panels show: a fence, a transaction and a local cache.
/// Returns the cache, whose entries count while it exists.
async fn around(client: &Client, recorded: &mut Recorded) -> LocalCachedMap<String, u64> {
    let token = async || {
        let guard = Lock::new(client, "books").acquire().await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        token
    };
    let (old, new) = (token().await, token().await);
    let fence = Fence::new(client, "{books}").family("sale");
    fence.set("{books}:total", "1", new).await.unwrap();
    assert!(fence.set("{books}:total", "2", old).await.is_err());

    let tx = Transaction::new(client).family("sale").serializable();
    tx.map::<String, u32>("sold").set("ticket", &STOCK).unwrap();
    tx.commit().await.unwrap();

    let prices = small_cache(client, "sale").await;
    for key in 0..50 {
        prices.set(&key.to_string(), &1).await.unwrap();
        prices.get(&key.to_string()).await.unwrap();
    }
    // Each heartbeat of the cache publishes its numbers.
    recorded.at_least("redgrid_cache_evictions_total{family=\"sale\",reason=\"size\"}", 1.0).await;
    recorded.at_least("redgrid_cache_entries{family=\"sale\"}", 1.0).await;
    prices
}

#[test]
fn each_panel_has_data_while_a_flash_sale_runs() {
    recorded(|mut recorded| async move {
        let expressions = without_data(&BTreeMap::new()).len();
        assert!(expressions > 40, "nothing is shown without a series, and only {expressions} are missing");
        let server = server().await;
        let (one, two) = (client(&server).await, client(&server).await);
        let leadership = Election::new(&one, "scheduler").family("sale").campaign().await.unwrap();
        let watchdog = Duration::from_secs(3);
        let open = Lock::new(&one, "sale").family("sale").acquire().auto_renew(watchdog).await.unwrap();
        let stock: Map<String, u32> = Map::new(&one, "stock");
        stock.insert("ticket", &STOCK).await.unwrap();
        let client_of = |buyer: u32| if buyer.is_multiple_of(2) { one.clone() } else { two.clone() };
        let buyers: Vec<_> = (0..BUYERS).map(|buyer| tokio::spawn(buy(client_of(buyer)))).collect();
        for buyer in buyers {
            buyer.await.unwrap();
        }
        assert_eq!(stock.get("ticket").await.unwrap(), Some(0));
        let prices = around(&one, &mut recorded).await;
        let late = tokio::spawn(Lock::new(&two, "sale").family("sale").acquire().into_future());
        recorded.at_least("redgrid_waiting{kind=\"lock\",family=\"sale\"}", 1.0).await;
        recorded.at_least("redgrid_renewal_lag_seconds{kind=\"lock\",family=\"sale\"}", 1.0).await;
        // Everything runs on this thread, so this stops the clients, too.
        std::thread::sleep(Duration::from_millis(1500));
        recorded.at_least("redgrid_stall_seconds", 1.0).await;
        let missing = without_data(recorded.look());
        assert!(missing.is_empty(), "panels without data: {missing:#?}: {:#?}", recorded.totals);
        // If all series have the value 0, no panel has data.
        let zeros = recorded.totals.keys().map(|series| (series.clone(), 0.0)).collect();
        let missing = without_data(&zeros);
        for metric in METRICS.iter().filter(|metric| metric.name != ANY_VALUE && !STAY_0.contains(&metric.name)) {
            let is_missing = missing.iter().any(|line| names_in(line).contains(metric.name));
            assert!(is_missing, "{} has data without a value", metric.name);
        }
        late.abort();
        drop((open, leadership, prices));
    });
}
