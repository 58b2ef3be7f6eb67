//! The tests in docs/guides/testing.md, which `build.rs` copies from the page: documentation tests
//! leave out functions with `#[tokio::test]`. Each module is named by the line of its block.

use std::fs;
use std::path::{Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/guide.rs"));

/// Collects the Markdown pages of the workspace.
fn pages(of: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy();
        if entry.is_dir() && name != "target" && !name.starts_with('.') {
            pages(&entry, found);
        } else if name.ends_with(".md") {
            found.push(entry);
        }
    }
}

#[test]
fn no_other_page_has_tests() {
    let mut all = Vec::new();
    pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut all);
    let has_tests = |page: &PathBuf| fs::read_to_string(page).unwrap().lines().any(|line| line == "#[tokio::test]");
    let with_tests: Vec<_> = all.into_iter().filter(has_tests).collect();
    assert!(matches!(&with_tests[..], [page] if page.ends_with("docs/guides/testing.md")), "{with_tests:?}");
}
