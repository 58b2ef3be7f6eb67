//! Turns each program in `examples/` into a module of one test program, so that it is linked once.
//! Does the same with the Rust blocks of README.md and docs/, and with each test in
//! docs/guides/testing.md.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Programs that are not run: `fencing_sql` builds SQLite from source, which takes a minute, and
/// `queue_traces` needs OpenTelemetry.
const NOT_RUN: [&str; 2] = ["fencing_sql", "queue_traces"];

/// Addresses in the documentation's blocks that are replaced by addresses of running servers: the
/// address, the environment variable that lists the running servers, and the index in that list.
const SERVERS: [(&str, &str, usize); 7] = [
    ("redis://127.0.0.1:6379", "REDGRID_URL", 0),
    ("db.internal:6379", "REDGRID_URL", 0),
    ("redis://10.0.0.1:6379", "REDGRID_QUORUM", 0),
    ("redis://10.0.0.2:6379", "REDGRID_QUORUM", 1),
    ("redis://10.0.0.3:6379", "REDGRID_QUORUM", 2),
    ("10.0.0.1:7000", "REDGRID_CLUSTER", 0),
    ("10.0.0.2:7000", "REDGRID_CLUSTER", 1),
];

fn main() -> Result<(), Box<dyn Error>> {
    let workspace = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for source in ["examples", "docs", "README.md"] {
        println!("cargo::rerun-if-changed={}", workspace.join(source).display());
    }
    fs::write(out.join("programs.rs"), programs(&workspace.join("examples"))?)?;
    fs::write(out.join("snippets.rs"), snippets(&workspace)?)?;
    fs::write(out.join("guide.rs"), tests(&fs::read_to_string(workspace.join("docs/guides/testing.md"))?)?)?;
    Ok(())
}

/// Returns a module for each program, and a table of their names and functions.
fn programs(examples: &Path) -> Result<String, Box<dyn Error>> {
    let (mut modules, mut table) = (String::new(), String::new());
    for file in sorted(examples)? {
        let name = file.file_stem().and_then(|name| name.to_str()).ok_or("a name that is no text")?;
        if file.extension().is_none_or(|end| end != "rs") || NOT_RUN.contains(&name) {
            continue;
        }
        // The folder of the package `redgrid-examples`, not of this one.
        let folder = format!("{:?}", examples.canonicalize()?);
        let text = fs::read_to_string(&file)?.replace("env!(\"CARGO_MANIFEST_DIR\")", &folder);
        let run = "pub(super) fn run() -> std::process::ExitCode { std::process::Termination::report(main()) }";
        write!(modules, "mod {name} {{\n{text}\n{run}\n}}\n\n")?;
        writeln!(table, "    (\"{name}\", {name}::run),")?;
    }
    Ok(format!("{modules}const PROGRAMS: &[Program] = &[\n{table}];\n"))
}

/// Returns a module for each block that runs, and a table of them.
fn snippets(workspace: &Path) -> Result<String, Box<dyn Error>> {
    let mut files = vec![workspace.join("README.md")];
    pages(&workspace.join("docs"), &mut files)?;
    let (mut modules, mut table) = (String::new(), String::new());
    for file in files {
        let page = file.strip_prefix(workspace)?.to_str().ok_or("a name that is no text")?;
        for (block, number) in blocks(&fs::read_to_string(&file)?).into_iter().zip(1..) {
            let Some(call) = block.call() else { continue };
            let name = format!("{page}_{number}").to_lowercase().replace(|c: char| !c.is_alphanumeric(), "_");
            // The port may be in use.
            let mut text = block.text.replace("\"127.0.0.1:8080\"", "\"127.0.0.1:0\"");
            for (written, variable, index) in SERVERS {
                let running = format!("crate::given::server({written:?}, {variable:?}, {index})");
                text = text.replace(&format!("{written:?}"), &running);
            }
            let run = format!("pub(super) fn run() -> Result<(), String> {{ crate::given::End::result({call}) }}");
            write!(modules, "#[allow(unused, clippy::all)]\nmod {name} {{\n{text}\n{run}\n}}\n\n")?;
            let line = block.line;
            writeln!(table, "    Snippet {{ page: {page:?}, number: {number}, line: {line}, run: {name}::run }},")?;
        }
    }
    Ok(format!("{modules}const SNIPPETS: &[Snippet] = &[\n{table}];\n"))
}

/// Returns a module for each Rust block with a test, named by its line.
fn tests(page: &str) -> Result<String, Box<dyn Error>> {
    let mut modules = String::new();
    for Block { line, text, .. } in blocks(page) {
        if text.contains("#[tokio::test]") {
            write!(modules, "mod line_{line} {{\n{text}}}\n\n")?;
        }
    }
    Ok(modules)
}

/// A Rust block of a page, with its hidden lines.
struct Block {
    line: usize,
    text: String,
    /// The hidden line with the function `example`.
    example: Option<String>,
}

impl Block {
    /// Returns an expression that runs the block; `None` for a block that only has functions.
    fn call(&self) -> Option<String> {
        if self.text.contains("\nfn main()") || self.text.contains("async fn main()") {
            return Some("main()".to_owned());
        }
        let (before, parameters) = self.example.as_deref()?.split_once("fn example(")?;
        let (parameters, _) = parameters.split_once(')')?;
        let arguments: String = parameters.split(": ").skip(1).map(argument).collect();
        let call = format!("example({arguments})");
        let block = if before.contains("async") { format!("{call}.await") } else { call };
        Some(format!("crate::given::block_on(async {{ {block} }})"))
    }
}

/// Returns an expression for an argument of a type.
fn argument(of: &str) -> &'static str {
    if of.starts_with("impl Writer") { "crate::given::Table, " } else { "crate::given::argument().await, " }
}

/// Returns the Rust blocks of a page, in their order.
fn blocks(page: &str) -> Vec<Block> {
    let (mut found, mut block) = (Vec::new(), None);
    for (line, number) in page.lines().zip(1..) {
        match &mut block {
            None if line.starts_with("```rust") => {
                block = Some(Block { line: number, text: String::new(), example: None });
            }
            None => {}
            Some(_) if line == "```" => found.extend(block.take()),
            Some(Block { text, example, .. }) => {
                let hidden = line.strip_prefix("# ");
                if let Some(line) = hidden.filter(|line| line.contains("fn example(")) {
                    *example = Some(line.to_owned());
                }
                text.push_str(hidden.unwrap_or(line));
                text.push('\n');
            }
        }
    }
    found
}

/// Collects the Markdown pages in a folder.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for path in sorted(folder)? {
        if path.is_dir() {
            pages(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "md") {
            found.push(path);
        }
    }
    Ok(())
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
