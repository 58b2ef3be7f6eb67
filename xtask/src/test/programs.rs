//! The test programs of the workspace.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use serde::Deserialize;

use crate::{
    cargo,
    steps::{Failure, not_run, shown},
};

/// A program with the output of a test harness.
#[derive(Debug)]
pub(crate) struct Program {
    /// The names of the package and the target.
    pub(crate) name: String,
    pub(crate) command: Command,
}

impl Program {
    /// Returns the program wrapped by `nice`, at the lowest priority.
    pub(crate) fn at_the_lowest_priority(self) -> Program {
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(self.command.get_program()).args(self.command.get_args());
        command.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = self.command.get_current_dir() {
            command.current_dir(folder);
        }
        Program { command, ..self }
    }
}

/// A line of `cargo test --no-run --message-format=json`; only the fields that are used.
#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the test programs of all crates. The examples are not linked separately: one test program
/// includes all of them (`tests/examples`).
pub(crate) fn build(features: &[&str]) -> Result<Vec<Program>, Failure> {
    let mut build = cargo();
    build.args(["test", "--workspace", "--tests", "--no-run", "--message-format=json-render-diagnostics"]);
    build.args(features).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = build.output().map_err(|source| not_run(&build, source))?;
    if !output.status.success() {
        return Err(Failure::Failed { command: shown(&build), status: output.status });
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect())
}

/// Reads a test program from a line of JSON; `None` for lines about libraries and helper programs.
fn program(line: &str) -> Option<Program> {
    let message: Message = serde_json::from_str(line).ok()?;
    let (path, target) = (message.executable?, message.target?);
    if !message.profile?.test {
        return None;
    }
    let folder = message.manifest_path.parent()?;
    let package = folder.file_name()?.to_string_lossy();
    let name = match target.kind.first()?.as_str() {
        "test" => format!("{package} {}", target.name),
        kind => format!("{package} {kind} {}", target.name),
    };
    let mut command = Command::new(path);
    // Cargo sets the same folder and variable.
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    Some(Program { name, command })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn only_test_programs_are_run_each_in_the_folder_of_its_package() {
        let line = |kind: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/one/Cargo.toml","target":{{"name":"two",
                "kind":["{kind}"]}},"profile":{{"test":{test}}},"executable":"/w/target/two-1"}}"#
            )
        };
        let program_of = |kind, test| program(&line(kind, test));
        let found = program_of("test", true).unwrap();
        assert_eq!((found.name.as_str(), found.command.get_program().to_str()), ("one two", Some("/w/target/two-1")));
        assert_eq!(found.command.get_current_dir(), Some("/w/crates/one".as_ref()));
        assert_eq!(program_of("lib", true).unwrap().name, "one lib two");
        assert!(program_of("bin", false).is_none());
        let low = found.at_the_lowest_priority().command;
        assert_eq!(low.get_args().collect::<Vec<_>>(), ["-n", "19", "/w/target/two-1"]);
        assert_eq!(low.get_current_dir(), Some("/w/crates/one".as_ref()));
        assert!(program(r#"{"reason":"build-finished","success":true}"#).is_none());
    }

    /// The manifests of these libraries contain `test = false`, so a unit test in them would never
    /// run.
    #[test]
    fn libraries_that_are_not_tested_have_no_unit_tests() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let folders = fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path());
        let is_untested = |folder: &PathBuf| {
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
            manifest.contains("[lib]\ntest = false")
        };
        let untested: Vec<_> = folders.filter(is_untested).collect();
        assert!(!untested.is_empty());
        untested.iter().for_each(|folder| without_tests(&folder.join("src")));
    }

    fn without_tests(folder: &Path) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                without_tests(&path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                assert!(!text.contains("#[cfg(test)]"), "{} has unit tests", path.display());
            }
        }
    }
}
