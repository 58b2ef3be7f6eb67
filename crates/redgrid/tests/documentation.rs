//! Checks of the documentation: links of all pages, programs in `examples/`, and the first programs
//! of READMEs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

/// Collects all Markdown pages of the workspace, except those in source and build directories.
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

/// Returns the text without code, because links in a program must not be checked.
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

/// Returns the anchors of the headings, as links name them.
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
        let link = format!("examples/{file}");
        assert!(of_docs.iter().any(|at| at.ends_with(&link)), "no page of docs/ links to {link}");
    }
}

/// Collects the files with Rust code below a folder.
fn sources(of: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path()) {
        match entry.extension() {
            _ if entry.is_dir() => sources(&entry, found),
            Some(extension) if extension == "rs" => found.push(entry),
            _ => {}
        }
    }
}

/// Returns the lines above a declaration that belong to it: documentation, attributes, comments.
fn head<'a>(lines: &'a [&str], declared: usize) -> impl Iterator<Item = &'a str> {
    let above = lines[..declared].iter().rev().map(|line| line.trim_start());
    above.take_while(|line| line.starts_with("//") || line.starts_with("#[") || line.starts_with(')'))
}

/// Returns whether the struct declared in this line has fields, and all of them are public.
fn has_only_public_fields(lines: &[&str], declared: usize) -> bool {
    let declaration = lines[declared];
    if !declaration.ends_with('{') {
        return declaration.contains("(pub ");
    }
    let indent = declaration.len() - declaration.trim_start().len();
    let body = lines[declared + 1..].iter().take_while(|line| **line != format!("{}}}", " ".repeat(indent)));
    let fields: Vec<&str> = body.map(|line| line.trim()).filter(|line| line.ends_with(',')).collect();
    let is_public = |field: &&str| field.starts_with("pub ") || field.starts_with("//") || field.starts_with("#[");
    !fields.is_empty() && fields.iter().all(is_public)
}

#[test]
fn each_public_enum_and_open_struct_can_grow_or_says_why_not() {
    let mut files = Vec::new();
    for one in fs::read_dir(workspace().join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
        if one.join("src/lib.rs").exists() {
            sources(&one.join("src"), &mut files);
        }
    }
    let mut closed = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let line = line.trim_start();
            let is_open =
                line.starts_with("pub enum ") || line.starts_with("pub struct ") && has_only_public_fields(&lines, at);
            let decides = |line: &str| line == "#[non_exhaustive]" || line.starts_with("// Not `#[non_exhaustive]`: ");
            if is_open && !head(&lines, at).any(decides) {
                closed.push(format!("{}:{}: {line}", file.display(), at + 1));
            }
        }
    }
    assert!(closed.is_empty(), "neither `#[non_exhaustive]` nor a comment with the reason: {closed:#?}");
}

/// Returns the names of the types and of the modules at the root of the facade.
fn root() -> (Vec<String>, Vec<String>) {
    let text = read("crates/redgrid/src/lib.rs");
    let statements = text.split(';').filter_map(|part| part.split_once("pub use ").map(|(_, used)| used));
    let names = statements.flat_map(|used| {
        let (path, names) = used.split_once('{').unwrap_or(used.rsplit_once("::").unwrap_or(("", used)));
        let last = path.trim_end_matches("::").rsplit("::").next().unwrap_or(path);
        let name = |name: &str| match name.trim().split_once(" as ") {
            Some((_, name)) => name.to_owned(),
            None if name.trim() == "self" => last.to_owned(),
            None => name.trim().to_owned(),
        };
        names.trim_end_matches('}').split(',').map(name).filter(|name| !name.is_empty()).collect::<Vec<_>>()
    });
    names.partition(|name| name.starts_with(char::is_uppercase))
}

#[test]
fn the_root_of_the_facade_is_short_and_its_modules_are_in_the_table() {
    let (types, modules) = root();
    assert!((35..=45).contains(&types.len()), "{} types: {types:?}", types.len());
    assert_eq!(types.iter().collect::<BTreeSet<_>>().len(), types.len(), "{types:?}");
    let front = read("crates/redgrid/src/lib.rs");
    assert!(modules.len() > 25, "{modules:?}");
    for module in modules.iter().map(String::as_str).chain(["client"]) {
        assert!(front.contains(&format!("//! | [`{module}`] |")), "no row of {module} in the table of modules");
    }
}

#[test]
fn each_page_of_docs_is_found_from_the_first_one() {
    assert!(links(&read("README.md")).iter().any(|link| link == "docs/SUMMARY.md"), "README.md lacks the contents");
    let listed = links(&read("docs/SUMMARY.md"));
    let docs = workspace().join("docs");
    let mut all = Vec::new();
    pages(&docs, &mut all);
    for page in all.iter().filter(|page| !page.ends_with("SUMMARY.md")) {
        let link = page.strip_prefix(&docs).unwrap().to_str().unwrap();
        assert!(listed.iter().any(|at| at == link), "docs/SUMMARY.md does not link to {link}");
    }
}

#[test]
fn each_test_of_the_table_of_failures_is_in_its_file() {
    let page = read("docs/internals/failure-tests.md");
    let mut rows = 0;
    let mut missing = Vec::new();
    for line in page.lines().filter(|line| line.contains("](../../tests/")) {
        let name = line.rsplit('`').nth(1).unwrap_or_default();
        let file = line.split("](../../").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
        if !read(file).contains(&format!("fn {name}(")) {
            missing.push(line);
        }
        rows += 1;
    }
    assert!(rows > 60, "{rows} rows");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn each_page_of_docs_is_compiled() {
    let listed = read("docs/lib.rs");
    let mut all = Vec::new();
    pages(&workspace().join("docs"), &mut all);
    for page in all.iter().filter(|page| !page.ends_with("SUMMARY.md")) {
        let page = page.strip_prefix(workspace().join("docs")).unwrap().display();
        assert!(listed.contains(&format!("\"{page}\"")), "docs/lib.rs does not list {page}");
    }
}

/// Returns the lines of the first program in a text, without hidden lines.
fn program<'a>(text: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let from = text.skip_while(|line| !line.starts_with("```")).skip(1);
    from.take_while(|line| !line.starts_with("```")).filter(|line| *line != "#" && !line.starts_with("# ")).collect()
}

#[test]
fn each_readme_has_the_program_that_is_compiled_with_its_crate() {
    for one in fs::read_dir(workspace().join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
        let readme = fs::read_to_string(one.join("README.md")).unwrap_or_else(|_| panic!("{} has none", one.display()));
        // An example program has no `src/lib.rs`.
        let Ok(front) = fs::read_to_string(one.join("src/lib.rs")) else { continue };
        let front = front
            .lines()
            .filter_map(|line| line.strip_prefix("//!"))
            .map(|line| line.strip_prefix(' ').unwrap_or(line));
        assert_eq!(program(readme.lines()), program(front), "{}", one.display());
    }
}
