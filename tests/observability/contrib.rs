//! The dashboards for Grafana and the alerts for Prometheus: they use only metrics and labels that
//! exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use redgrid_core::observe::{FLEET_METRICS, METRICS, Metric};
use yaml_serde::Value;

use super::dashboards::dashboards;
use super::names_in;

/// The variable that makes the test write the dashboards; `cargo xtask dashboards` sets it.
const WRITE_VARIABLE: &str = "WRITE_DASHBOARDS";

/// The variable with the path of promtool; `cargo xtask test` sets it.
const PROMTOOL_VARIABLE: &str = "PROMTOOL";

/// The labels that Prometheus adds to every series, and to those of histograms.
pub(super) const LABELS_OF_PROMETHEUS: [&str; 3] = ["job", "instance", "le"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib").join(name)
}

/// Returns the metric of a name without the suffixes of histograms.
pub(super) fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().chain(FLEET_METRICS).find(|metric| metric.name == name)
}

/// Checks that every metric, label and value of an expression is in the table.
fn check_expression(expression: &str) -> Result<(), String> {
    let names = names_in(expression);
    let metrics: Vec<&Metric> =
        names.iter().map(|name| metric(name).ok_or_else(|| format!("no metric {name}"))).collect::<Result<_, _>>()?;
    if metrics.is_empty() {
        return Err("no metric at all".to_owned());
    }
    let known = |label: &str| {
        LABELS_OF_PROMETHEUS.contains(&label) || metrics.iter().any(|metric| metric.labels.contains(&label))
    };
    for (label, _) in grouped(expression).into_iter().chain(matched(expression)) {
        if !known(&label) {
            return Err(format!("no label {label}"));
        }
    }
    for (label, value) in matched(expression) {
        let of_label = metrics.iter().filter(|metric| metric.labels.last() == Some(&label.as_str()));
        let values: BTreeSet<&str> = of_label.flat_map(|metric| metric.values).copied().collect();
        let unknown = value.split('|').find(|value| !values.is_empty() && !values.contains(value));
        if let Some(unknown) = unknown {
            return Err(format!("{label} is never {unknown}"));
        }
    }
    Ok(())
}

/// Returns the labels of `by (…)` and `ignoring (…)`.
pub(super) fn grouped(expression: &str) -> Vec<(String, String)> {
    let lists = ["by (", "ignoring ("].into_iter().flat_map(|word| expression.split(word).skip(1));
    let lists = lists.filter_map(|rest| rest.split(')').next());
    lists.flat_map(|list| list.split(',').map(|label| (label.trim().to_owned(), String::new()))).collect()
}

/// Returns the labels in braces, with the values that they are compared with.
fn matched(expression: &str) -> Vec<(String, String)> {
    let braces = expression.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let conditions = braces.flat_map(|list| list.split(", "));
    let parts = conditions.filter_map(|condition| {
        let (label, value) = condition.split_once('=')?;
        Some((label.trim_end_matches('!').trim().to_owned(), value.trim_matches(['~', '"']).to_owned()))
    });
    parts.filter(|(label, _)| !label.is_empty()).collect()
}

/// Returns all values of a field, at any depth.
pub(super) fn all<'a>(value: &'a serde_json::Value, field: &str, found: &mut Vec<&'a str>) {
    match value {
        serde_json::Value::Array(parts) => parts.iter().for_each(|part| all(part, field, found)),
        serde_json::Value::Object(fields) => {
            found.extend(fields.get(field).and_then(serde_json::Value::as_str));
            fields.values().for_each(|part| all(part, field, found));
        }
        _ => {}
    }
}

#[test]
fn the_dashboards_are_those_of_the_table() {
    let mut shown = BTreeSet::new();
    for (name, text) in dashboards() {
        let path = folder("grafana").join(format!("{name}.json"));
        if std::env::var_os(WRITE_VARIABLE).is_some() {
            fs::write(&path, &text).unwrap();
        }
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(stored, text, "{name} is old: run `cargo xtask dashboards`");
        let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
        let mut expressions = Vec::new();
        all(&stored, "expr", &mut expressions);
        for expression in &expressions {
            // The variables that a user of Grafana chooses.
            let plain = expression.replace("$__rate_interval", "5m").replace("$job", ".*").replace("$instance", ".*");
            check_expression(&plain).unwrap_or_else(|why| panic!("{name}: {why}: {expression}"));
            shown.extend(names_in(expression).into_iter().map(str::to_owned));
        }
    }
    let known: BTreeSet<String> = METRICS.iter().chain(FLEET_METRICS).map(|metric| metric.name.to_owned()).collect();
    assert_eq!(shown, known, "each metric is in a dashboard");
}

#[test]
fn unknown_metrics_labels_and_values_are_noticed() {
    for (expression, why) in [
        ("redgrid_nothing > 0", "no metric redgrid_nothing"),
        ("up == 0", "no metric at all"),
        ("sum by (nothing) (redgrid_held)", "no label nothing"),
        ("redgrid_held{nothing=\"a\"}", "no label nothing"),
        ("redgrid_lost_total{reason=~\"expired|nothing\"}", "reason is never nothing"),
    ] {
        assert_eq!(check_expression(expression), Err(why.to_owned()), "{expression}");
    }
    let right = "sum by (le, kind) (rate(redgrid_hold_seconds_bucket{family!=\"\"}[5m])) > 1";
    assert_eq!(check_expression(right), Ok(()));
}

fn yaml(name: &str) -> Value {
    yaml_serde::from_str(&fs::read_to_string(folder("prometheus").join(name)).unwrap()).unwrap()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_sequence).map_or(&[], |list| list)
}

#[test]
fn each_alert_uses_known_metrics_and_has_a_page_and_two_cases() {
    let page = include_str!("../../docs/operating/alerts.md");
    let (rules, cases) = (yaml("redgrid.rules.yaml"), yaml("tests.yaml"));
    let mut results: BTreeMap<&str, BTreeSet<bool>> = BTreeMap::new();
    for case in list(&cases, "tests") {
        for series in list(case, "input_series") {
            let series = text(series, "series");
            check_expression(series).unwrap_or_else(|why| panic!("tests.yaml: {why}: {series}"));
        }
        for result in list(case, "alert_rule_test") {
            let fires = !list(result, "exp_alerts").is_empty();
            results.entry(text(result, "alertname")).or_default().insert(fires);
        }
    }
    let alerts: Vec<&Value> = list(&rules, "groups").iter().flat_map(|group| list(group, "rules")).collect();
    assert_eq!(alerts.len(), 15);
    let mut names = BTreeSet::new();
    for alert in alerts {
        let name = text(alert, "alert");
        names.insert(name);
        check_expression(text(alert, "expr")).unwrap_or_else(|why| panic!("{name}: {why}"));
        let annotations = alert.get("annotations").unwrap();
        assert!(!text(annotations, "summary").is_empty(), "{name} has no summary");
        let anchor = format!("docs/operating/alerts.md#{}", name.to_lowercase());
        assert_eq!(text(annotations, "runbook"), anchor, "{name}");
        assert!(page.contains(&format!("\n### {name}\n\n**Means:** ")), "{name} has no section in the page");
        let both = BTreeSet::from([false, true]);
        assert_eq!(results.get(name), Some(&both), "{name} needs a case that fires, and one that does not");
    }
    assert_eq!(results.keys().copied().collect::<BTreeSet<_>>(), names, "cases of unknown alerts");
    assert_eq!(page.matches("\n### Redgrid").count(), names.len(), "sections of unknown alerts");
}

#[test]
fn the_rules_pass_their_test_cases() {
    let Some(promtool) = std::env::var_os(PROMTOOL_VARIABLE) else {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        eprintln!("SKIPPED {test}: {PROMTOOL_VARIABLE} does not name promtool");
        return;
    };
    for arguments in [["check", "rules", "redgrid.rules.yaml"], ["test", "rules", "tests.yaml"]] {
        let run = Command::new(&promtool).args(arguments).current_dir(folder("prometheus")).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success(), "promtool {}:\n{out}{err}", arguments.join(" "));
    }
}
