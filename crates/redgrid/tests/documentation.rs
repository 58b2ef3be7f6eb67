//! What is written leads to what is there: links of all pages, programs in examples/, and the programs that READMEs begin with.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

/// All pages of the tree, but for what is built, and what pages are made of.
fn pages(of: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy();
        match entry.extension() {
            _ if entry.is_dir() && (name == "target" || name == "src" || name.starts_with('.')) => {}
            _ if entry.is_dir() => pages(&entry, found),
            Some(extension) if extension == "md" => found.push(entry),
            _ => {}
        }
    }
}

/// The text without what is code: a link in a program is none.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let outside = page.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    });
    let without_code = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join("x");
    outside.map(without_code).collect::<Vec<_>>().join("\n")
}

fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let behind = prose.split("](").skip(1);
    behind.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// What a heading is called in a link.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let headings = page.lines().filter(|line| {
        fenced ^= line.starts_with("```");
        !fenced && line.starts_with('#')
    });
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn each_link_leads_to_a_file_and_its_heading() {
    let (mut all, mut dead) = (Vec::new(), Vec::new());
    pages(&workspace(), &mut all);
    assert!(all.len() > 70, "{} pages", all.len());
    for page in &all {
        let text = fs::read_to_string(page).unwrap();
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let leads_to = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let there = leads_to.exists()
                && (heading.is_empty() || anchors(&fs::read_to_string(&leads_to).unwrap()).contains(heading));
            if !there {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn each_program_is_built_and_named_where_one_looks_for_it() {
    let manifest = read("examples/Cargo.toml");
    let list = links(&read("examples/README.md"));
    let mut of_docs = Vec::new();
    pages(&workspace().join("docs"), &mut of_docs);
    let of_docs: Vec<String> = of_docs.iter().flat_map(|page| links(&fs::read_to_string(page).unwrap())).collect();
    let files = fs::read_dir(workspace().join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let programs: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect();
    assert!(programs.len() > 60, "{} programs", programs.len());
    for program in programs {
        let file = program.file_name().unwrap().to_str().unwrap();
        let entry = format!("name = \"{}\"\npath = \"{file}\"", file.trim_end_matches(".rs"));
        assert!(manifest.contains(&entry), "examples/Cargo.toml has no `{entry}`");
        assert_eq!(list.iter().filter(|link| *link == file).count(), 1, "examples/README.md names {file} once");
        let link = format!("../examples/{file}");
        assert!(of_docs.contains(&link), "no page of docs/ links to {link}");
    }
}

#[test]
fn each_page_of_docs_is_found_from_the_first_one() {
    let first = links(&read("README.md"));
    for page in fs::read_dir(workspace().join("docs")).unwrap().map(|entry| entry.unwrap().file_name()) {
        let link = format!("docs/{}", page.to_str().unwrap());
        assert!(first.iter().any(|at| at.split('#').next() == Some(&link)), "README.md does not link to {link}");
    }
}

/// The lines of the first program in a text; in documentation without those that are not shown.
fn program<'a>(text: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let from = text.skip_while(|line| !line.starts_with("```")).skip(1);
    from.take_while(|line| !line.starts_with("```")).filter(|line| *line != "#" && !line.starts_with("# ")).collect()
}

#[test]
fn each_readme_has_the_program_that_is_compiled_with_its_crate() {
    for one in fs::read_dir(workspace().join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
        let readme = fs::read_to_string(one.join("README.md")).unwrap_or_else(|_| panic!("{} has none", one.display()));
        // A program has no front page.
        let Ok(front) = fs::read_to_string(one.join("src/lib.rs")) else { continue };
        let front = front
            .lines()
            .filter_map(|line| line.strip_prefix("//!"))
            .map(|line| line.strip_prefix(' ').unwrap_or(line));
        assert_eq!(program(readme.lines()), program(front), "{}", one.display());
    }
}
