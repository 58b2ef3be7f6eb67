//! Checks the rules for Prometheus and their test cases with promtool.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::{
    steps::{self, Failure, output, say},
    wheel::find,
};

/// The variable by which tests get the path of promtool.
pub(crate) const PROMTOOL_VARIABLE: &str = "PROMTOOL";

/// The folder of the unpacked package, relative to the workspace.
const FOLDER: &str = "target/tools/prometheus";

/// Debian's package with the program.
const PACKAGE: &str = "prometheus";

/// The folder of the rules, relative to the workspace, and their files.
const RULES_FOLDER: &str = "contrib/prometheus";
const RULES: &str = "redgrid.rules.yaml";
const CASES: &str = "tests.yaml";

/// Checks the rules, and runs their test cases.
pub(crate) fn run(workspace: &Path) -> Result<ExitCode, Failure> {
    let promtool = promtool(workspace)?;
    let folder = workspace.join(RULES_FOLDER);
    for arguments in [["check", "rules", RULES], ["test", "rules", CASES]] {
        steps::run(Command::new(&promtool).args(arguments).current_dir(&folder))?;
    }
    say("each rule is valid, and each alert fires and stays silent where it should");
    Ok(ExitCode::SUCCESS)
}

/// Returns promtool: the installed one, or that of Debian's package, which is unpacked but not
/// installed, so that no service starts.
pub(crate) fn promtool(workspace: &Path) -> Result<PathBuf, Failure> {
    let folder = workspace.join(FOLDER);
    let unpacked = folder.join("usr/bin/promtool");
    for program in [PathBuf::from("promtool"), unpacked.clone()] {
        if program.to_str().and_then(|program| output(program, &["--version"])).is_some() {
            return Ok(program);
        }
    }
    let files = |source| Failure::Files { path: folder.clone(), source };
    fs::create_dir_all(&folder).map_err(files)?;
    // The temporary folder is inside `folder`, and the package is unpacked into `folder` itself.
    let work = tempfile::Builder::new().prefix(".unpacking-").tempdir_in(&folder).map_err(files)?;
    say("promtool is not installed; downloading Debian's package prometheus for it");
    let apt_get = || {
        let mut apt_get = Command::new("apt-get");
        // Without a network, it fails within a minute.
        apt_get.args(["-q", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=15"]);
        apt_get
    };
    let download = || steps::run(apt_get().args(["download", PACKAGE]).current_dir(work.path()));
    if download().is_err() {
        // The list of packages may be missing or old.
        steps::run(apt_get().arg("update"))?;
        download()?;
    }
    let no_program = || Failure::NoProgramInside { package: PACKAGE };
    let package = find(work.path(), &|name| name.ends_with(".deb")).map_err(files)?.ok_or_else(no_program)?;
    steps::run(Command::new("dpkg").arg("-x").arg(package).arg(&folder))?;
    if unpacked.exists() { Ok(unpacked) } else { Err(no_program()) }
}
