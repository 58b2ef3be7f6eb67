//! Checks the shell commands in the pages. They are only parsed, not run: most take minutes, or
//! need a server or an empty folder.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Parser as _;

use crate::Arguments;

/// The mark on the line above a block with other commands; the reason for readers follows it.
const MARK: &str = "<!-- not tested: ";

/// The languages of blocks with commands.
const SHELLS: [&str; 4] = ["```sh", "```bash", "```console", "```shell"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Collects the files of the workspace with a name that `fits` accepts.
fn files(of: &Path, fits: &dyn Fn(&str) -> bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy();
        if entry.is_dir() && name != "target" && !name.starts_with('.') {
            files(&entry, fits, found);
        } else if !entry.is_dir() && fits(&name) {
            found.push(entry);
        }
    }
}

/// Returns the commands of all blocks that are not marked, without variables and comments.
fn commands(page: &str) -> Vec<Vec<String>> {
    let (mut found, mut above, mut is_inside, mut is_checked) = (Vec::new(), "", false, false);
    let joined = page.replace("\\\n", " ");
    for line in joined.lines() {
        if line.starts_with("```") {
            is_inside = !is_inside && SHELLS.contains(&line);
            is_checked = is_inside && !above.starts_with(MARK);
        } else if is_checked {
            let command = line.split(" #").next().unwrap_or_default();
            let words = command.split_whitespace().skip_while(|word| word.contains('=') && !word.starts_with('-'));
            let words: Vec<String> = words.map(str::to_owned).collect();
            if !words.is_empty() && !words[0].starts_with('#') {
                found.push(words);
            }
        }
        above = line;
    }
    found
}

/// Returns the word that follows one of the flags.
fn after<'a>(words: &'a [String], flags: &[&str]) -> Option<&'a str> {
    let at = words.iter().position(|word| flags.contains(&word.as_str()))?;
    words.get(at + 1).map(String::as_str)
}

/// Returns the reason why a command is invalid.
fn fault(words: &[String], manifests: &[String]) -> Option<String> {
    let of_cargo = |name: &str| words.len() > 1 && words[0] == "cargo" && words[1] == name;
    if of_cargo("xtask") {
        return Arguments::try_parse_from(&words[1..]).err().map(|error| error.to_string());
    }
    if words[0] == "redgrid" {
        // The tests of the package `redgrid-cli` check these commands.
        return None;
    }
    if !["test", "run", "bench", "build"].into_iter().any(of_cargo) {
        return Some(format!("neither checked nor below a line `{MARK}REASON -->`"));
    }
    let package = after(words, &["-p", "--package"]).map(|name| format!("[package]\nname = \"{name}\"\n"));
    let target =
        after(words, &["--test", "--bin", "--bench", "--example"]).map(|name| format!("\nname = \"{name}\"\n"));
    let has = |manifest: &String, part: &Option<String>| part.as_ref().is_none_or(|part| manifest.contains(part));
    let is_known = manifests.iter().any(|manifest| has(manifest, &package) && has(manifest, &target));
    (!is_known).then(|| "no such package or target".to_owned())
}

#[test]
fn each_command_of_the_pages_is_known_or_marked() {
    let (mut pages, mut manifests) = (Vec::new(), Vec::new());
    files(&workspace(), &|name| name.ends_with(".md"), &mut pages);
    files(&workspace(), &|name| name == "Cargo.toml", &mut manifests);
    let manifests: Vec<String> = manifests.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let (mut all, mut faults) = (0, Vec::new());
    for page in pages {
        for command in commands(&fs::read_to_string(&page).unwrap()) {
            all += 1;
            if let Some(fault) = fault(&command, &manifests) {
                faults.push(format!("{}: {}: {fault}", page.display(), command.join(" ")));
            }
        }
    }
    assert!(all > 15, "{all} commands");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn unknown_commands_are_noticed() {
    let page = "```sh\nA=1 cargo xtask matrix --server \\\n  valkey # one\n# two\n\ncargo xtask nothing\n```\n\
                <!-- not tested: it needs a network -->\n```sh\ncargo add redgrid\n```\n```text\nls\n```\n```sh\nls\n```\n";
    let found = commands(page);
    assert_eq!(found[0].join(" "), "cargo xtask matrix --server valkey");
    assert_eq!(found[1..].iter().map(|words| words.join(" ")).collect::<Vec<_>>(), ["cargo xtask nothing", "ls"]);
    let manifests = ["[package]\nname = \"one\"\n\n[[test]]\nname = \"two\"\n".to_owned()];
    let is_known = |command: &str| {
        let words: Vec<_> = command.split(' ').map(str::to_owned).collect();
        fault(&words, &manifests).is_none()
    };
    assert!(is_known("cargo xtask matrix --server valkey"));
    assert!(is_known("cargo test -p one --test two -- name"));
    assert!(!is_known("cargo test -p one --test three"));
    assert!(!is_known("cargo xtask nothing") && !is_known("cargo xtask matrix --servers x") && !is_known("ls"));
}
