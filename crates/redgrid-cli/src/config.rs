//! `redgrid config check`: shows what a configuration file means.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use redgrid::Config;
use serde::Serialize;

use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::output::{notice, print_json, print_line};

/// The output for a file. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Output {
    file: String,
    topology: &'static str,
    settings: Vec<Setting>,
    implied_codec: Option<String>,
    warnings: Vec<String>,
}

/// A setting that is not at its default. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
struct Setting {
    name: &'static str,
    value: Option<String>,
    default: Option<String>,
    from: String,
}

/// Runs `redgrid config check`. Settings without effect are printed to stderr, one per line.
pub(crate) fn check(global: &Global, file: &Path) -> Result<ExitCode, Failure> {
    let config = Config::from_file(file).map_err(|error| Failure::usage(one_line(&error)))?;
    let output = Output::new(file, &config);
    if !global.json {
        for warning in &output.warnings {
            notice(global, warning);
        }
    }
    if global.json { print_json(&output) } else { print_line(&output.text()) }
}

impl Output {
    fn new(file: &Path, config: &Config) -> Self {
        let changed = config.explain().into_iter().filter(|one| one.value != one.default);
        let setting = |one: redgrid::config::Explained| Setting {
            name: one.name,
            value: one.value,
            default: one.default,
            from: one.origin.to_string(),
        };
        Output {
            file: file.display().to_string(),
            topology: config.topology(),
            settings: changed.map(setting).collect(),
            implied_codec: config.implied_codec().map(str::to_owned),
            warnings: config.warnings().iter().map(ToString::to_string).collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}: {}", self.file, self.topology);
        let widest = |of: fn(&Setting) -> usize| self.settings.iter().map(of).max().unwrap_or_default();
        let name = widest(|one| one.name.len());
        let value = widest(|one| one.value().chars().count());
        for one in &self.settings {
            let default = one.default.as_ref().map(|default| format!("; {default} unless set")).unwrap_or_default();
            // Writing to a `String` cannot fail.
            let _ = write!(text, "\n  {:name$}  {:value$}  {}{default}", one.name, one.value(), self.key(one));
        }
        if let Some(codec) = &self.implied_codec {
            let _ = write!(text, "\n  values of Java services are in {codec}");
        }
        text
    }

    /// Returns the origin of a value without the name of the file, which the output already
    /// contains.
    fn key<'a>(&self, one: &'a Setting) -> &'a str {
        one.from.strip_suffix(&format!(" in {}", self.file)).unwrap_or(&one.from)
    }
}

impl Setting {
    fn value(&self) -> &str {
        self.value.as_deref().unwrap_or("none")
    }
}

/// Appended to the long help.
pub(crate) const HELP: &str = "\
It connects to no server. It reads the environment only for ${NAME} in a file of Redisson's. Passwords are shown as ***.
Each setting without effect here is a line on stderr, or in `warnings` with --json.";
