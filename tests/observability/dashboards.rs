//! The dashboards for Grafana, made from the table of metrics.

use redgrid_core::observe::{FLEET_METRICS, Form, METRICS, Metric};
use serde_json::{Value, json};

/// The files below `contrib/grafana`, with their contents.
pub(super) fn dashboards() -> Vec<(&'static str, String)> {
    let first = |label: &'static str| move |metric: &&Metric| metric.labels.first() == Some(&label);
    let is_named = |prefixes: &'static [&'static str]| {
        move |metric: &&Metric| prefixes.iter().any(|prefix| metric.name.starts_with(prefix))
    };
    let of_queues =
        is_named(&["redgrid_queue", "redgrid_limit", "redgrid_cache", "redgrid_topic", "redgrid_transactions"]);
    let of_locks = is_named(&["redgrid_leader", "redgrid_fence"]);
    let is_lock = |metric: &&Metric| first("kind")(metric) || of_locks(metric);
    let is_server = |metric: &&Metric| !is_lock(metric) && !of_queues(metric);
    let file = |name, title, metrics: Vec<&Metric>| {
        let text = serde_json::to_string_pretty(&dashboard(name, title, &metrics)).unwrap();
        (name, format!("{text}\n"))
    };
    vec![
        file("locks", "redgrid: locks and semaphores", METRICS.iter().filter(is_lock).collect()),
        file("queues", "redgrid: queues, limiters, caches, topics", METRICS.iter().filter(of_queues).collect()),
        file("servers", "redgrid: connections and requests", METRICS.iter().filter(is_server).collect()),
        file("fleet", "redgrid: fleet", FLEET_METRICS.iter().collect()),
    ]
}

/// Two panels in each row; their size in units of Grafana.
const COLUMNS: usize = 2;
const WIDTH: usize = 12;
const HEIGHT: usize = 8;

fn dashboard(name: &str, title: &str, metrics: &[&Metric]) -> Value {
    let panels: Vec<Value> = metrics.iter().enumerate().map(|(at, metric)| panel(at, metric)).collect();
    let variables = ["job", "instance"].map(|label| variable(label, metrics[0]));
    let variables: Vec<Value> = [datasource()].into_iter().chain(variables).collect();
    json!({
        "uid": format!("redgrid-{name}"),
        "title": title,
        "tags": ["redgrid"],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-3h", "to": "now" },
        "templating": { "list": variables },
        "panels": panels,
    })
}

/// The variable by which a user chooses the data source.
fn datasource() -> Value {
    json!({ "name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus" })
}

fn variable(label: &str, metric: &Metric) -> Value {
    let series = series_name(metric);
    json!({
        "name": label,
        "label": label,
        "type": "query",
        "datasource": source(),
        "query": format!("label_values({series}, {label})"),
        "refresh": 2,
        "multi": true,
        "includeAll": true,
        "allValue": ".*",
        "current": { "text": "All", "value": "$__all" },
    })
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

/// Returns the name of a series that exists for the metric.
fn series_name(metric: &Metric) -> String {
    match metric.form {
        Form::Histogram => format!("{}_count", metric.name),
        _ => metric.name.to_owned(),
    }
}

fn panel(at: usize, metric: &Metric) -> Value {
    let targets: Vec<Value> = queries(metric)
        .into_iter()
        .enumerate()
        .map(|(nth, (expression, legend))| {
            let id = char::from(b'A' + u8::try_from(nth).unwrap()).to_string();
            json!({ "refId": id, "datasource": source(), "expr": expression, "legendFormat": legend })
        })
        .collect();
    json!({
        "id": at + 1,
        "type": "timeseries",
        "title": title(metric),
        "description": format!("`{}`: {}.", metric.name, metric.about),
        "datasource": source(),
        "gridPos": { "x": at % COLUMNS * WIDTH, "y": at / COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT },
        "fieldConfig": { "defaults": { "unit": unit(metric), "min": 0 }, "overrides": [] },
        "options": { "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } },
        "targets": targets,
    })
}

/// Returns the name without its prefix and its unit, and what a rate shows: `acquire wait`.
fn title(metric: &Metric) -> String {
    let name = metric.name.strip_prefix("redgrid_").unwrap_or(metric.name);
    let suffixes = ["_seconds_total", "_total", "_seconds"];
    let name = suffixes.into_iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    let rate = match metric.form {
        Form::Counter if is_time(metric) => ", share of the time",
        Form::Counter => " per second",
        _ => "",
    };
    format!("{}{rate}", name.replace('_', " "))
}

/// Returns whether a counter counts seconds.
fn is_time(metric: &Metric) -> bool {
    metric.name.ends_with("_seconds_total")
}

fn unit(metric: &Metric) -> &'static str {
    match metric.form {
        Form::Counter if is_time(metric) => "percentunit",
        Form::Counter if metric.name.ends_with("_bytes_total") => "Bps",
        Form::Counter => "cps",
        _ if metric.name.ends_with("_seconds") => "s",
        _ if metric.name.ends_with("_bytes") => "bytes",
        _ => "short",
    }
}

/// Returns the expressions of a metric, with the text of their legends.
fn queries(metric: &Metric) -> Vec<(String, String)> {
    const CHOSEN: &str = "job=~\"$job\", instance=~\"$instance\"";
    let (name, labels) = (metric.name, metric.labels.join(", "));
    let by = if labels.is_empty() { "job".to_owned() } else { labels.clone() };
    let legend: Vec<String> = by.split(", ").map(|label| format!("{{{{{label}}}}}")).collect();
    let legend = legend.join(" ");
    match metric.form {
        // Several consoles report the same deployment, but each takes time of its own.
        Form::Counter if name.starts_with("redgrid_fleet_") && !is_time(metric) => {
            vec![(format!("max by ({by}) (rate({name}{{{CHOSEN}}}[$__rate_interval]))"), legend)]
        }
        Form::Counter => vec![(format!("sum by ({by}) (rate({name}{{{CHOSEN}}}[$__rate_interval]))"), legend)],
        Form::Gauge if name == "redgrid_clock_offset_seconds" => {
            vec![(format!("max by ({by}) (abs({name}{{{CHOSEN}}}))"), legend)]
        }
        Form::Gauge if name.starts_with("redgrid_fleet_") => {
            vec![(format!("max by ({by}) ({name}{{{CHOSEN}}})"), legend)]
        }
        Form::Gauge => vec![(format!("sum by ({by}) ({name}{{{CHOSEN}}})"), legend)],
        Form::Histogram => [("0.5", "median"), ("0.99", "99 %")]
            .map(|(quantile, word)| {
                let rate = format!("rate({name}_bucket{{{CHOSEN}}}[$__rate_interval])");
                (format!("histogram_quantile({quantile}, sum by (le, {by}) ({rate}))"), format!("{word} {legend}"))
            })
            .to_vec(),
        form => panic!("how is {form:?} shown?"),
    }
}

#[test]
fn values_that_do_not_add_up_are_not_summed() {
    let expression = |name: &str| {
        let metric = METRICS.iter().chain(FLEET_METRICS).find(|metric| metric.name == name).unwrap();
        queries(metric)[0].0.replace("{job=~\"$job\", instance=~\"$instance\"}", "")
    };
    assert_eq!(expression("redgrid_held"), "sum by (kind, family) (redgrid_held)");
    assert_eq!(expression("redgrid_fleet_locks_held"), "max by (kind) (redgrid_fleet_locks_held)");
    assert_eq!(expression("redgrid_fleet_sweep_age_seconds"), "max by (job) (redgrid_fleet_sweep_age_seconds)");
    let rate = "rate(redgrid_fleet_collector_seconds_total[$__rate_interval])";
    assert_eq!(expression("redgrid_fleet_collector_seconds_total"), format!("sum by (job) ({rate})"));
    assert_eq!(expression("redgrid_clock_offset_seconds"), "max by (node) (abs(redgrid_clock_offset_seconds))");
}
