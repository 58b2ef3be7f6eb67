//! Finds the browser and its driver on this machine.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::skip::report_skipped;

/// The environment variable that names the browser.
pub const BROWSER_VARIABLE: &str = "CHROMIUM";

/// The environment variable that names the browser's driver.
pub const DRIVER_VARIABLE: &str = "CHROMEDRIVER";

/// Names of the browser.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Names of the driver.
const DRIVERS: [&str; 1] = ["chromedriver"];

/// Chromium, and the chromedriver of the same version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserPrograms {
    browser: PathBuf,
    driver: PathBuf,
}

/// There is no browser, or no driver for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {missing} found; `cargo xtask test --browser` installs it, or set {variable} to its path")]
pub struct NoBrowser {
    missing: &'static str,
    variable: &'static str,
}

impl BrowserPrograms {
    /// Finds both programs: by [`BROWSER_VARIABLE`] and [`DRIVER_VARIABLE`], or on `PATH`.
    ///
    /// # Errors
    ///
    /// [`NoBrowser`] names the first program that is missing.
    pub fn find() -> Result<Self, NoBrowser> {
        let browser = find(BROWSER_VARIABLE, &BROWSERS);
        let driver = find(DRIVER_VARIABLE, &DRIVERS);
        Ok(Self {
            browser: browser.ok_or(NoBrowser { missing: BROWSERS[0], variable: BROWSER_VARIABLE })?,
            driver: driver.ok_or(NoBrowser { missing: DRIVERS[0], variable: DRIVER_VARIABLE })?,
        })
    }

    /// Finds both programs. If one is missing, prints to standard error that `test` is skipped, and
    /// the reason.
    pub fn find_or_skip(test: &str) -> Option<Self> {
        Self::find().map_err(|missing| report_skipped(test, &missing.to_string())).ok()
    }

    /// Returns the path of the browser.
    pub fn browser(&self) -> &Path {
        &self.browser
    }

    /// Returns the path of the driver.
    pub fn driver(&self) -> &Path {
        &self.driver
    }
}

/// Returns the file that the variable names, or else the first of these programs on `PATH`.
fn find(variable: &str, names: &[&str]) -> Option<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        return Some(PathBuf::from(path)).filter(|path| path.is_file());
    }
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    let mut paths = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    paths.find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_the_remedy() {
        assert_eq!(find("REDGRID_NO_SUCH_VARIABLE", &["no-such-browser"]), None);
        assert!(find("REDGRID_NO_SUCH_VARIABLE", &["no-such-browser", "sh"]).is_some());
        let error = NoBrowser { missing: DRIVERS[0], variable: DRIVER_VARIABLE }.to_string();
        assert!(error.contains("no chromedriver found") && error.contains("cargo xtask test --browser"), "{error}");
    }
}
