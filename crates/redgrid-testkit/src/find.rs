//! Finds a server program on this machine.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::skip::report_skipped;

/// The environment variable that names the server program to use. It overrides all other places.
pub const SERVER_VARIABLE: &str = "REDGRID_REDIS_SERVER";

/// The environment variable that names a second, newer server program for the tests that run on
/// several.
pub const NEWEST_VARIABLE: &str = "REDGRID_NEWEST_SERVER";

/// The oldest supported release: 6.2, the first with all commands of the scripts.
pub const OLDEST: Version = Version { major: 6, minor: 2, patch: 0 };

/// Names of server programs.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// The folder of programs downloaded by `cargo xtask`, relative to the workspace.
const FETCHED: &str = "target/redis";

/// A server program with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerBinary {
    path: PathBuf,
    version: Version,
}

impl ServerBinary {
    /// Finds a Redis or Valkey server of at least [`OLDEST`].
    ///
    /// Searches [`SERVER_VARIABLE`], then `PATH`, then `target/redis` of the workspace around this
    /// crate or the current directory (where `cargo xtask server` puts one).
    ///
    /// # Errors
    ///
    /// [`FindError`] if there is none; it lists every searched place. If the variable names an
    /// unusable program, that is an error too, even if another program exists.
    pub fn find() -> Result<Self, FindError> {
        if let Some(path) = env::var_os(SERVER_VARIABLE) {
            return Self::at(path);
        }
        let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
        first_usable(on_path.into_iter().chain(fetched_folders()))
    }

    /// Finds the newer server of the matrix: [`NEWEST_VARIABLE`], then `target/redis/newest`.
    ///
    /// # Errors
    ///
    /// [`FindError`], as for [`ServerBinary::find`]. A test usually skips if there is no newer
    /// server; see [`ServerBinary::newest_or_skip`].
    pub fn newest() -> Result<Self, FindError> {
        match env::var_os(NEWEST_VARIABLE) {
            Some(path) => Self::at(path),
            None => first_usable(fetched_folders().map(|folder| folder.join("newest"))),
        }
    }

    /// Finds the newer server of the matrix. If there is none, prints to standard error that `test`
    /// is skipped, and the reason.
    ///
    /// The line bypasses the test harness's capture, so that a skipped test is visible even when
    /// all tests pass.
    pub fn newest_or_skip(test: &str) -> Option<Self> {
        match Self::newest() {
            Ok(binary) => Some(binary),
            Err(error) => {
                let reason = match error {
                    FindError::Nowhere { .. } => {
                        format!("there is no newer server; `cargo xtask test` fetches one, or set {NEWEST_VARIABLE}")
                    }
                    unusable => unusable.to_string(),
                };
                report_skipped(test, &reason);
                None
            }
        }
    }

    /// Finds a usable server program in `folder`.
    ///
    /// # Errors
    ///
    /// [`FindError::Nowhere`] if the folder has no usable program.
    pub fn inside(folder: impl Into<PathBuf>) -> Result<Self, FindError> {
        first_usable(std::iter::once(folder.into()))
    }

    /// Checks the program at `path` by running it with `--version`.
    ///
    /// # Errors
    ///
    /// [`FindError`] if the program does not run, is no Redis or Valkey server, or is older than
    /// [`OLDEST`].
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, FindError> {
        let path = path.into();
        let unusable = |path: &Path, reason: String| FindError::Unusable { path: path.to_owned(), reason };
        let output = Command::new(&path).arg("--version").output();
        let output = output.map_err(|error| unusable(&path, format!("it does not run: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match Version::from_banner(&text) {
            None => Err(unusable(&path, format!("`--version` says {:?}", text.lines().next().unwrap_or_default()))),
            Some(version) if version < OLDEST => {
                Err(unusable(&path, format!("it is {version}, older than the {OLDEST} the tests need")))
            }
            Some(version) => Ok(Self { path, version }),
        }
    }

    /// Returns the path of the program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the program's version. Valkey continues from Redis 7.2: its first release is 7.2.5.
    pub fn version(&self) -> Version {
        self.version
    }
}

/// A release of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Not `#[non_exhaustive]`: a version is these three numbers.
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl Version {
    /// Reads the answer to `--version`: `Redis server v=7.0.15 sha=…` or
    /// `Valkey server v=9.1.2 sha=…`.
    fn from_banner(banner: &str) -> Option<Self> {
        let word = banner.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
        let mut numbers = word.split('.').map(|number| number.parse().ok());
        Some(Self { major: numbers.next()??, minor: numbers.next()??, patch: numbers.next().flatten().unwrap_or(0) })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// There is no usable server program. No process was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// None of the folders has a usable program.
    #[error(
        "no redis-server or valkey-server of at least {OLDEST} found; run `cargo xtask server` to get one, or set \
         {SERVER_VARIABLE} to its path (looked in {}{})", list(.looked), refused(.unusable)
    )]
    Nowhere {
        /// The searched folders, in order.
        looked: Vec<PathBuf>,
        /// The programs that could not be used, and why.
        unusable: Vec<String>,
    },
    /// The named program cannot be used.
    #[error("the server program {} cannot be used: {reason}", path.display())]
    Unusable {
        /// The program.
        path: PathBuf,
        /// Why it cannot be used.
        reason: String,
    },
}

fn list(folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return format!("no folder: none was named, and there is no {FETCHED}");
    }
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn refused(unusable: &[String]) -> String {
    unusable.iter().map(|one| format!("; {one}")).collect()
}

/// Returns the first usable program in `folders`.
fn first_usable(folders: impl Iterator<Item = PathBuf>) -> Result<ServerBinary, FindError> {
    let (mut looked, mut unusable) = (Vec::new(), Vec::new());
    for folder in folders {
        for path in PROGRAMS.iter().map(|program| folder.join(program)).filter(|path| path.is_file()) {
            match ServerBinary::at(path) {
                Ok(binary) => return Ok(binary),
                Err(error) => unusable.push(error.to_string()),
            }
        }
        looked.push(folder);
    }
    Err(FindError::Nowhere { looked, unusable })
}

/// Returns `target/redis` of the crate under test, of the current directory, and of all their
/// parent folders.
fn fetched_folders() -> impl Iterator<Item = PathBuf> {
    let starts = [env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from), env::current_dir().ok()];
    let mut folders = Vec::new();
    for start in starts.into_iter().flatten() {
        for folder in start.ancestors().map(|folder| folder.join(FETCHED)) {
            if folder.is_dir() && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    folders.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_both_banners() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0\n";
        assert_eq!(Version::from_banner(redis), Some(Version { major: 7, minor: 0, patch: 15 }));
        let valkey = "Valkey server v=9.1.2 sha=00000000:0 malloc=libc bits=64 build=0\n";
        assert_eq!(Version::from_banner(valkey), Some(Version { major: 9, minor: 1, patch: 2 }));
        assert_eq!(Version::from_banner("cargo 1.89.0\n"), None);
    }

    #[test]
    fn a_program_that_is_no_server_is_refused_by_name() {
        let error = ServerBinary::at("/bin/sh").unwrap_err();
        assert!(matches!(&error, FindError::Unusable { path, .. } if path == Path::new("/bin/sh")), "{error}");
    }

    #[test]
    fn a_failed_search_lists_its_places_and_the_remedy() {
        let error = first_usable([PathBuf::from("/nowhere/at/all")].into_iter()).unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all") && error.contains("cargo xtask server"), "{error}");
    }
}
