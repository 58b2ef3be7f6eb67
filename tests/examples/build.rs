//! Turns each program in `examples/` into a module of one test program, so that it is linked once.
//! Turns each test in docs/guides/testing.md into a module of another one.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Programs that are not run: `fencing_sql` builds SQLite from source, which takes a minute.
const NOT_RUN: [&str; 1] = ["fencing_sql"];

fn main() -> Result<(), Box<dyn Error>> {
    let workspace = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let (examples, guide) = (workspace.join("examples"), workspace.join("docs/guides/testing.md"));
    println!("cargo::rerun-if-changed={}", examples.display());
    println!("cargo::rerun-if-changed={}", guide.display());
    fs::write(out.join("programs.rs"), programs(&examples)?)?;
    fs::write(out.join("guide.rs"), tests(&fs::read_to_string(guide)?)?)?;
    Ok(())
}

/// Returns a module for each program, and a table of their names and functions.
fn programs(examples: &Path) -> Result<String, Box<dyn Error>> {
    let mut files =
        fs::read_dir(examples)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "rs"));
    files.sort();
    let (mut modules, mut table) = (String::new(), String::new());
    for file in files {
        let name = file.file_stem().and_then(|name| name.to_str()).ok_or("a name that is no text")?;
        if NOT_RUN.contains(&name) {
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

/// Returns a module for each Rust block with a test, named by its line.
fn tests(page: &str) -> Result<String, Box<dyn Error>> {
    let (mut modules, mut block) = (String::new(), None);
    for (line, number) in page.lines().zip(1..) {
        match &mut block {
            None if line.starts_with("```rust") => block = Some((number, String::new())),
            None => {}
            Some((begin, text)) if line == "```" => {
                if text.contains("#[tokio::test]") {
                    write!(modules, "mod line_{begin} {{\n{text}}}\n\n")?;
                }
                block = None;
            }
            Some((_, text)) => writeln!(text, "{}", line.strip_prefix("# ").unwrap_or(line))?,
        }
    }
    Ok(modules)
}
