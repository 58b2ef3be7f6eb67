//! Planted faults: each patch of `tests/mutants` breaks a rule, and the test that the patch names
//! must then fail.

use std::{
    fs,
    hash::{BuildHasher as _, RandomState},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use crate::{
    cargo, install,
    steps::{Failure, run, say, succeeds},
    suite,
    test::{Browser, FEATURES, settings, side_by_side},
};

/// The time limit of one test: 10 minutes. A test that hangs because of a fault counts as failed.
const LIMIT: Duration = Duration::from_secs(600);

/// A planted fault.
struct Mutant {
    name: String,
    patch: PathBuf,
    /// The name of the test program, and the name of the test in it.
    test: (String, String),
}

/// Runs the named faults, a random sample, or all. Prints the faults that no test noticed.
pub(crate) fn run_all(workspace: &Path, names: &[String], sample: Option<usize>) -> Result<ExitCode, Failure> {
    let folder = workspace.join("tests/mutants");
    let mut mutants = read(&folder)?;
    restore(workspace, &mutants)?;
    if !names.is_empty() {
        mutants.retain(|mutant| names.contains(&mutant.name));
    }
    if let Some(sample) = sample {
        let random = RandomState::new();
        mutants.sort_by_cached_key(|mutant| random.hash_one(&mutant.name));
        mutants.truncate(sample);
    }
    let server = install::server(workspace)?;
    say(&format!("{} planted faults, with {}", mutants.len(), server.path().display()));
    let mut survivors = Vec::new();
    for mutant in &mutants {
        let began = Instant::now();
        let caught = caught(workspace, mutant)?;
        say(&format!(
            "{}: {}, in {} s",
            mutant.name,
            if caught { "caught" } else { "NOT CAUGHT" },
            began.elapsed().as_secs()
        ));
        survivors.extend((!caught).then_some(&*mutant.name));
    }
    println!("{} of {} planted faults were caught", mutants.len() - survivors.len(), mutants.len());
    survivors.iter().for_each(|name| println!("not caught: {name}"));
    Ok(if survivors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads the patches, and the line `Test: PROGRAM NAME` at the head of each.
fn read(folder: &Path) -> Result<Vec<Mutant>, Failure> {
    let files = |source| Failure::Files { path: folder.to_owned(), source };
    let mut mutants = Vec::new();
    for entry in fs::read_dir(folder).map_err(files)? {
        let patch = entry.map_err(files)?.path();
        if patch.extension().is_none_or(|kind| kind != "patch") {
            continue;
        }
        let text = fs::read_to_string(&patch).map_err(files)?;
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let test = test_of(&text).ok_or_else(|| Failure::NoTest { patch: patch.clone() })?;
        mutants.push(Mutant { name, patch, test });
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

fn test_of(patch: &str) -> Option<(String, String)> {
    let line = patch.lines().find_map(|line| line.strip_prefix("Test: "))?;
    let (program, name) = line.trim().split_once(' ')?;
    Some((program.to_owned(), name.to_owned()))
}

/// Removes a planted fault that an interrupted run has left in the sources.
fn restore(workspace: &Path, mutants: &[Mutant]) -> Result<(), Failure> {
    for mutant in mutants {
        if succeeds("git", &["apply", "--reverse", "--check", &mutant.patch.to_string_lossy()]) {
            say(&format!("{} was left in the sources; taking it out", mutant.name));
            apply(workspace, mutant, &["--reverse"])?;
        }
    }
    Ok(())
}

fn apply(workspace: &Path, mutant: &Mutant, how: &[&str]) -> Result<(), Failure> {
    run(Command::new("git").current_dir(workspace).arg("apply").args(how).arg(&mutant.patch))
}

/// Whether the test fails with the fault. If the fault does not compile, an error is returned.
fn caught(workspace: &Path, mutant: &Mutant) -> Result<bool, Failure> {
    apply(workspace, mutant, &[])?;
    let result = fails(workspace, mutant);
    apply(workspace, mutant, &["--reverse"])?;
    result
}

fn fails(workspace: &Path, mutant: &Mutant) -> Result<bool, Failure> {
    let (program, name) = &mutant.test;
    let mut test = cargo();
    test.args(["test", "--quiet", "--workspace", "--test", program]).args(FEATURES);
    run(test.arg("--no-run"))?;
    let mut test = cargo();
    test.args(["test", "--quiet", "--workspace", "--test", program]).args(FEATURES).args([
        "--",
        "--format=pretty",
        name,
    ]);
    test.envs(settings(workspace, Browser::AsFound)?);
    let log = side_by_side::logs(workspace)?.join(format!("mutant-{}.log", mutant.name));
    let counts = suite::run(&mut test, LIMIT, &log)?;
    Ok(counts.failed > 0 || counts.broken_off.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_patch_names_its_test() {
        let patch = "A rule is broken.\n\nTest: behaviour fence::one\n\n--- a/x\n+++ b/x\n";
        assert_eq!(test_of(patch), Some(("behaviour".into(), "fence::one".into())));
        assert_eq!(test_of("--- a/x\n"), None);
    }

    #[test]
    fn each_patch_names_a_test_that_exists() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests");
        let mutants = read(&tests.join("mutants")).unwrap();
        assert!(!mutants.is_empty());
        for Mutant { name, test: (program, test), .. } in mutants {
            let (module, function) = test.rsplit_once("::").unwrap();
            let module = tests.join(program).join(module.replace("::", "/"));
            let files = [module.with_extension("rs"), module.join("mod.rs")];
            let text = files.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap_or_default();
            assert!(text.contains(&format!("fn {function}")), "{name}: there is no {test}");
        }
    }
}
