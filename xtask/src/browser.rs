//! Finds or installs what the tests of the web console in a browser need, and takes pictures of its
//! pages.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::{
    cargo, install,
    steps::{self, Failure, say, succeeds},
    test::{self, Browser},
    wheel::find,
};

/// The variable by which tests get the path of axe-core. It has no prefix `REDGRID_`: that is for
/// settings of clients.
const AXE_VARIABLE: &str = "AXE_CORE";

/// The variable by which tests get the folder for pictures.
const PICTURES_VARIABLE: &str = "SCREENSHOTS";

/// The folder of the pictures, relative to the workspace.
const PICTURES: &str = "docs/operating/images";

/// Programs that drive and show pages, with Debian's packages for them.
const PROGRAMS: [(&[&str], &str); 2] =
    [(&["chromium", "chromium-browser", "google-chrome"], "chromium"), (&["chromedriver"], "chromium-driver")];

/// The checks for accessibility: a package of npm. Its licence is the MPL, so it is fetched for the
/// tests, and never a part of the workspace.
const AXE: &str = "axe-core";
const AXE_VERSION: &str = "4.14.1";
const AXE_FILE: &str = "axe.min.js";

/// Returns the environment variables of the tests. What is missing is installed if `browser` says
/// so; otherwise its tests say SKIPPED.
pub(crate) fn settings(browser: Browser) -> Vec<(&'static str, OsString)> {
    let mut settings = Vec::new();
    if browser == Browser::Install
        && let Err(failure) = install_programs()
    {
        say(&format!("{failure}; the tests with a browser will say SKIPPED"));
    }
    match axe(browser) {
        Ok(Some(file)) => settings.push((AXE_VARIABLE, file.into())),
        Ok(None) => {}
        Err(failure) => say(&format!("{failure}; the tests with {AXE} will say SKIPPED")),
    }
    settings
}

/// Takes pictures of all pages, light and dark, for the documentation.
pub(crate) fn screenshots(workspace: &Path) -> Result<ExitCode, Failure> {
    let folder = workspace.join(PICTURES);
    let mut pages = cargo();
    // Both packages, so that the same features are built as for all tests.
    pages.args(["test", "--package", "redgrid-cli", "--package", "redgrid-tests"]).args(test::FEATURES);
    pages.args(["--test", "browser", "--", "accessibility"]);
    pages.envs(test::settings(workspace, Browser::Install)?).env(PICTURES_VARIABLE, &folder);
    steps::run(&mut pages)?;
    say(&format!("the pictures are in {PICTURES}"));
    Ok(ExitCode::SUCCESS)
}

/// Installs the programs that are missing, with the packages of the distribution.
fn install_programs() -> Result<(), Failure> {
    let is_missing = |names: &[&str]| !names.iter().any(|name| succeeds(name, &["--version"]));
    let packages: Vec<&str> =
        PROGRAMS.iter().filter(|(names, _)| is_missing(names)).map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    say(&format!("the tests with a browser need {}; installing", packages.join(" and ")));
    match install::by_apt(&packages) {
        Some(result) => result,
        None => Err(Failure::NotInstalled { packages: packages.join(" and ") }),
    }
}

/// Returns the file of axe-core; `None` if it is not there, and is not to be fetched.
fn axe(browser: Browser) -> Result<Option<PathBuf>, Failure> {
    let folder = cache().join(format!("{AXE}-{AXE_VERSION}"));
    let file = folder.join(AXE_FILE);
    if file.is_file() {
        return Ok(Some(file));
    }
    if browser == Browser::AsFound {
        return Ok(None);
    }
    let files = |source| Failure::Files { path: folder.clone(), source };
    fs::create_dir_all(&folder).map_err(files)?;
    // The temporary folder is inside `folder`, so that the file can be moved into place atomically.
    let work = tempfile::Builder::new().prefix(".unpacking-").tempdir_in(&folder).map_err(files)?;
    say(&format!("downloading the package {AXE} {AXE_VERSION} from npm into {}", folder.display()));
    // `npm pack` only downloads: nothing of the package is run.
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--fetch-retries=1", "--fetch-timeout=15000"]);
    npm.arg(format!("{AXE}@{AXE_VERSION}")).current_dir(work.path());
    steps::run(&mut npm)?;
    let no_program = || Failure::NoProgramInside { package: AXE };
    let packed = find(work.path(), &|name| name.ends_with(".tgz")).map_err(files)?.ok_or_else(no_program)?;
    steps::run(Command::new("tar").arg("-xzf").arg(packed).arg("-C").arg(work.path()))?;
    let unpacked = find(work.path(), &|name| name == AXE_FILE).map_err(files)?.ok_or_else(no_program)?;
    fs::rename(unpacked, &file).map_err(files)?;
    Ok(Some(file))
}

/// Returns the user's folder for downloads of this command, outside the workspace.
fn cache() -> PathBuf {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap_or_else(env::temp_dir);
    base.join("redgrid-xtask")
}
