//! Runs the program `redgrid`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Returns the program with these arguments. The variables that name a server are removed from its
/// environment, and it has no contexts.
pub(crate) fn redgrid(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redgrid"));
    for variable in ["REDGRID_URL", "REDGRID_CONFIG", "REDGRID_CONTEXT", "REDGRID_NAMESPACE"] {
        command.env_remove(variable);
    }
    command.args(arguments).env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// Whether this process ignores a signal, so that the programs that it starts ignore the signal
/// too. A shell starts background processes with SIGINT and SIGQUIT ignored.
pub(crate) fn is_ignored(signal: &str) -> bool {
    let number = match signal {
        "-HUP" => 1,
        "-INT" => 2,
        "-QUIT" => 3,
        _ => return false,
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    u64::from_str_radix(ignored.trim(), 16).is_ok_and(|ignored| ignored >> (number - 1) & 1 == 1)
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    Ended(redgrid(arguments).output().expect("the program runs"))
}

/// Runs the program on a terminal of 60 columns, and returns what it printed there.
pub(crate) fn on_terminal(arguments: &str, variables: &[(&str, &str)]) -> String {
    let program = env!("CARGO_BIN_EXE_redgrid");
    let line = format!("stty cols 60 rows 20; exec {program} {arguments}");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR").env_remove("CI");
    command.envs(variables.iter().copied());
    String::from_utf8(command.output().expect("`script` runs").stdout).expect("text")
}

/// The result of a run.
pub(crate) struct Ended(Output);

impl Ended {
    /// Creates it from the output.
    pub(crate) fn of(output: Output) -> Self {
        Ended(output)
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().expect("it ended by itself")
    }

    /// Returns the text on stdout.
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).expect("text")
    }

    /// Returns the text on stderr.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).expect("text")
    }

    /// Parses the one line of JSON on stdout.
    pub(crate) fn json(&self) -> Value {
        let text = self.stdout();
        assert!(text.ends_with('\n') && text.lines().count() == 1, "one line expected: {text:?} {}", self.stderr());
        serde_json::from_str(&text).expect("JSON")
    }
}

/// Returns the path of an example file.
pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data").join(name)
}
