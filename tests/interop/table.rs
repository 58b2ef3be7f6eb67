//! docs/redisson/interop.md: the table of all scenarios, written from their names.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use libtest_mimic::{Failed, Trial};

use crate::fixture::Scenario;

const HEAD: &str = "# Beside Redisson: what is run

What `cargo test -p redgrid-tests --test interop` plays with the real Redisson as another process, each scenario with each version that is in use. The name of a scenario is
its file's and its own, with `_` for each blank: `interop -- queues_shared::each_waits` runs those that begin so.

What each object shares with Redisson's is on its own page; [the page of the whole](redisson.md) has what differs.
";

/// A scenario that is missing in the table, or is not there any more, fails; `REWRITE=1` writes it
/// anew.
pub(crate) fn trial(scenarios: &[Scenario], versions: &[&str]) -> Trial {
    let wanted = written(scenarios, versions);
    Trial::test("table::names_every_scenario", move || {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/redisson/interop.md");
        if env::var_os("REWRITE").is_some() {
            fs::write(&path, &wanted)?;
        }
        match fs::read_to_string(&path)? == wanted {
            true => Ok(()),
            false => Err(Failed::from("docs/redisson/interop.md is not as the scenarios are: run this with REWRITE=1")),
        }
    })
}

fn written(scenarios: &[Scenario], versions: &[&str]) -> String {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for scenario in scenarios {
        let (file, name) = scenario.name.split_once("::").unwrap_or((scenario.name, ""));
        files.entry(file).or_default().push(name.replace('_', " "));
    }
    let mut text = format!("{HEAD}\n{} scenarios, with Redisson {}.\n\n", scenarios.len(), versions.join(" and "));
    text.push_str("| file | scenarios | what must hold |\n|---|---|---|\n");
    for (file, mut names) in files {
        names.sort();
        let _ = writeln!(text, "| `{file}` | {} | {} |", names.len(), names.join("; "));
    }
    text
}
