//! Checks that a search for a Redisson name finds the method here. Each name on the page "From
//! Redisson, method by method" must be the name of the method beside it, or a documentation alias
//! of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// A row of the page: its line number, Redisson's names, the methods here, and the note.
struct Row {
    line: usize,
    theirs: Vec<String>,
    ours: Vec<(String, String)>,
    note: String,
}

/// The public types of a crate, and the names and aliases of its public functions.
#[derive(Default)]
struct Crate {
    types: BTreeSet<String>,
    functions: BTreeMap<String, BTreeSet<String>>,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the code spans of a cell.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(workspace().join("docs/redisson/from-redisson.md")).unwrap();
    let mut rows = Vec::new();
    for (line, text) in iter::zip(1.., page.lines()) {
        let cells: Vec<&str> = text.trim_matches('|').split(" | ").map(str::trim).collect();
        if !text.starts_with("| ") || cells[0] == "Redisson" {
            continue;
        }
        assert!(cells.len() >= 2, "line {line} has three cells: {text}");
        let name = |method: &str| method.split('(').next().unwrap_or_default().to_owned();
        let ours = |path: &str| {
            let parted = path.split_once("::");
            let (of, method) = parted.unwrap_or_else(|| panic!("line {line}: `{path}` is no `Type::method`"));
            (of.to_owned(), method.to_owned())
        };
        rows.push(Row {
            line,
            theirs: quoted(cells[0]).map(name).collect(),
            ours: if cells[1] == "—" { Vec::new() } else { quoted(cells[1]).map(ours).collect() },
            note: cells.get(2).copied().unwrap_or_default().trim_end_matches('|').trim().to_owned(),
        });
    }
    rows
}

fn sources(of: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.extension() {
            _ if entry.is_dir() => sources(&entry, found),
            Some(extension) if extension == "rs" => found.push(entry),
            _ => {}
        }
    }
}

fn crates() -> Vec<Crate> {
    let mut crates = Vec::new();
    // Functions that an exported macro defines belong to every crate.
    let mut exported: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for one in fs::read_dir(workspace().join("crates")).unwrap() {
        let (mut files, mut known) = (Vec::new(), Crate::default());
        sources(&one.unwrap().path().join("src"), &mut files);
        for file in files {
            let mut aliases = BTreeSet::new();
            let text = fs::read_to_string(file).unwrap();
            let functions = if text.contains("#[macro_export]") { &mut exported } else { &mut known.functions };
            for line in text.lines().map(str::trim) {
                if let Some(alias) = line.strip_prefix("#[doc(alias = \"") {
                    aliases.insert(alias.trim_end_matches("\")]").to_owned());
                } else if let Some(item) = line.strip_prefix("pub ") {
                    let words = item.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
                    let mut words = words.skip_while(|word| ["async", "const"].contains(word));
                    let aliases = std::mem::take(&mut aliases);
                    match (words.next(), words.next()) {
                        (Some("fn"), Some(name)) => {
                            let names = functions.entry(name.to_owned()).or_default();
                            names.extend(aliases);
                            names.insert(name.to_owned());
                        }
                        (Some("struct" | "enum" | "type"), Some(name)) => drop(known.types.insert(name.to_owned())),
                        _ => {}
                    }
                }
            }
        }
        crates.push(known);
    }
    for known in &mut crates {
        for (name, names) in &exported {
            known.functions.entry(name.clone()).or_default().extend(names.iter().cloned());
        }
    }
    crates
}

#[test]
fn every_name_of_redissons_finds_its_method() {
    let (crates, rows, mut wrong) = (crates(), rows(), Vec::new());
    for Row { line, theirs, ours, note } in &rows {
        if ours.is_empty() && note.is_empty() {
            wrong.push(format!("line {line}: what is not there has a note why"));
        }
        let mut names = BTreeSet::new();
        for (of, method) in ours {
            let of_them = crates.iter().filter(|known| known.types.contains(of));
            let found: Vec<_> = of_them.filter_map(|known| known.functions.get(method)).collect();
            if found.is_empty() {
                wrong.push(format!("line {line}: there is no `{of}::{method}`"));
            }
            names.extend(found.into_iter().flatten());
        }
        for name in theirs.iter().filter(|_| !ours.is_empty()) {
            if !names.contains(name) {
                wrong.push(format!("line {line}: `{name}` is no alias of {ours:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(rows.len() > 100, "the page is read: {} rows", rows.len());
}
