//! Checks the crates before they are published.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use serde::Deserialize;

use crate::{
    cargo,
    steps::{Failure, not_run, printed, run, say, shown, succeeds},
};

/// A part of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Every manifest has what crates.io shows, and forwards its features
    Manifests,
    /// Every crate can be packaged, with its README, licences and scripts
    Package,
    /// Every crate builds without warnings with no feature
    Bare,
    /// Every crate builds without warnings with each feature alone, and with all
    Features,
    /// Every crate builds with the oldest supported compiler; `rustup` installs it if it is missing
    Msrv,
}

const ALL: [Part; 5] = [Part::Manifests, Part::Package, Part::Bare, Part::Features, Part::Msrv];

/// Crates with features that are forwarded by the crates that depend on them.
const FORWARDED: [&str; 3] = ["redgrid-client", "redgrid-core", "redgrid-codecs"];

/// Files that each package must contain, in addition to its sources.
const FILES: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// A published crate, from `cargo metadata`.
#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    rust_version: Option<String>,
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    dependencies: Vec<Dependency>,
    features: BTreeMap<String, Vec<String>>,
    /// The registries to which the crate may be published; an empty list for a crate that is not
    /// published.
    publish: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; `None` for a normal dependency.
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// Checks the given parts, or all parts if none is given.
pub(crate) fn check(workspace: &Path, only: &[Part]) -> Result<ExitCode, Failure> {
    let packages = published()?;
    for part in ALL.into_iter().filter(|part| only.is_empty() || only.contains(part)) {
        match part {
            Part::Manifests => manifests(&packages)?,
            Part::Package => package(&packages)?,
            Part::Bare => features(&packages, |_| vec![Features::Only(String::new())])?,
            Part::Features => features(&packages, each_feature)?,
            Part::Msrv => msrv(&packages, workspace)?,
        }
    }
    say("passed");
    Ok(ExitCode::SUCCESS)
}

fn published() -> Result<Vec<Package>, Failure> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
    let read: Metadata =
        serde_json::from_str(&printed(&mut metadata)?).map_err(|source| Failure::Metadata { source })?;
    Ok(read.packages.into_iter().filter(|package| package.publish.is_none()).collect())
}

fn manifests(packages: &[Package]) -> Result<(), Failure> {
    if packages.iter().any(|package| package.repository.is_none()) {
        say("TO DO before the release: `repository` in [workspace.package], inherited by each crate");
    }
    let missing: Vec<String> =
        packages.iter().flat_map(|package| [missing(package), unforwarded(package, packages)].concat()).collect();
    if missing.is_empty() { Ok(()) } else { Err(Failure::Unready { missing }) }
}

/// Returns the missing keys of a crate's manifest.
fn missing(package: &Package) -> Vec<String> {
    let keys = [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("rust-version", package.rust_version.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
    ];
    let absent = keys.into_iter().filter(|(_, is_there)| !is_there);
    absent.map(|(key, _)| format!("{} has no `{key}`", package.name)).collect()
}

/// Returns the features of a crate that a crate below it also has, but that do not enable the
/// latter.
fn unforwarded(package: &Package, packages: &[Package]) -> Vec<String> {
    let mut found = Vec::new();
    for below in packages.iter().filter(|below| FORWARDED.contains(&&*below.name) && package.depends_on(&below.name)) {
        // The feature may enable it directly, or through a crate between the two.
        let reaches = |name: &str| {
            packages.iter().any(|other| other.name == name && (name == below.name || other.depends_on(&below.name)))
        };
        for (feature, enables) in &package.features {
            let forwards = |enabled: &String| {
                let named = enabled.split_once('/');
                named.is_some_and(|(name, enabled)| enabled == feature && reaches(name.trim_end_matches('?')))
            };
            let is_shared = feature != "default" && below.features.contains_key(feature);
            if is_shared && !enables.iter().any(forwards) {
                found.push(format!("`{feature}` of {} does not enable {}/{feature}", package.name, below.name));
            }
        }
    }
    found
}

/// Features of one build.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Features {
    /// Only this feature, not even the default features.
    Only(String),
    All,
}

fn each_feature(package: &Package) -> Vec<Features> {
    let alone = package.features.keys().filter(|feature| *feature != "default").cloned().map(Features::Only);
    alone.chain([Features::All]).collect()
}

/// Checks crates of the same level together if they are built with the same features. Crates of a
/// level do not depend on each other, so none of them enables a feature of another. Features that a
/// crate needs from lower levels must be forwarded by its manifest.
fn features(packages: &[Package], wanted: impl Fn(&Package) -> Vec<Features>) -> Result<(), Failure> {
    let mut builds: BTreeMap<(usize, Features), Vec<&Package>> = BTreeMap::new();
    for package in packages {
        for features in wanted(package) {
            builds.entry((level(package, packages), features)).or_default().push(package);
        }
    }
    for ((_, features), packages) in builds {
        let mut check = cargo();
        check.args(["check", "--quiet"]);
        check.args(packages.iter().flat_map(|package| ["--package", &package.name]));
        match &features {
            Features::All => check.arg("--all-features"),
            Features::Only(feature) => {
                let named = packages.iter().map(|package| format!("{}/{feature}", package.name));
                let named = if feature.is_empty() { String::new() } else { named.collect::<Vec<_>>().join(",") };
                check.args(["--no-default-features", "--features", &named])
            }
        };
        run_without_warnings(&mut check)?;
    }
    Ok(())
}

/// Runs cargo, and fails if it prints a warning. Compiler flags that turn warnings into errors are
/// not used: they would rebuild all dependencies.
fn run_without_warnings(command: &mut Command) -> Result<(), Failure> {
    say(&format!("running `{}`", shown(command)));
    let output = command.stdin(Stdio::null()).output().map_err(|source| not_run(command, source))?;
    let text = String::from_utf8_lossy(&output.stderr);
    eprint!("{text}");
    if !output.status.success() {
        return Err(Failure::Failed { command: shown(command), status: output.status });
    }
    let warns = text.lines().any(|line| line.starts_with("warning"));
    if warns { Err(Failure::Warned { command: shown(command) }) } else { Ok(()) }
}

/// Returns the length of the longest chain of our crates below this one.
fn level(package: &Package, packages: &[Package]) -> usize {
    let below = packages.iter().filter(|below| package.depends_on(&below.name));
    below.map(|below| level(below, packages) + 1).max().unwrap_or(0)
}

impl Package {
    fn depends_on(&self, name: &str) -> bool {
        self.dependencies.iter().any(|dependency| dependency.kind.is_none() && dependency.name == name)
    }

    fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }
}

/// Packages all crates together, because none of them is in the registry yet. The packages are not
/// built here; the other parts build the crates.
fn package(packages: &[Package]) -> Result<(), Failure> {
    let mut missing = Vec::new();
    for package in packages {
        let mut list = cargo();
        list.args(["package", "--quiet", "--list", "--allow-dirty", "--package", &package.name]);
        let listed = printed(&mut list)?;
        let listed: BTreeSet<&Path> = listed.lines().map(Path::new).collect();
        let scripts = scripts(package.folder(), package.folder())?;
        let wanted = scripts.iter().map(PathBuf::as_path).chain(FILES.map(Path::new));
        let absent = wanted.filter(|file| !listed.contains(file));
        missing.extend(absent.map(|file| format!("the package {} lacks {}", package.name, file.display())));
    }
    if !missing.is_empty() {
        return Err(Failure::Unready { missing });
    }
    let mut package = cargo();
    package.args(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    run(package.args(packages.iter().flat_map(|package| ["--package", package.name.as_str()])))
}

/// Returns the paths of the Lua scripts below a folder, relative to the crate.
fn scripts(folder: &Path, of: &Path) -> Result<Vec<PathBuf>, Failure> {
    let files = |source| Failure::Files { path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(files)? {
        let path = entry.map_err(files)?.path();
        if path.is_dir() {
            found.extend(scripts(&path, of)?);
        } else if path.extension().is_some_and(|kind| kind == "lua") {
            found.extend(path.strip_prefix(of).ok().map(Path::to_owned));
        }
    }
    Ok(found)
}

fn msrv(packages: &[Package], workspace: &Path) -> Result<(), Failure> {
    let Some(oldest) = packages.iter().find_map(|package| package.rust_version.as_deref()) else { return Ok(()) };
    if !succeeds("rustup", &["run", oldest, "cargo", "--version"]) {
        run(Command::new("rustup").args(["toolchain", "install", oldest, "--profile", "minimal"]))?;
    }
    let mut check = Command::new("rustup");
    // The build has a folder of its own: different compilers cannot share build results.
    check.args(["run", oldest, "cargo", "check", "--all-features", "--target-dir"]).arg(workspace.join("target/msrv"));
    run(check.args(packages.iter().flat_map(|package| ["--package", package.name.as_str()])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, below: &[&str], features: &[(&str, &[&str])]) -> Package {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Package {
            name: name.into(),
            manifest_path: "/w/Cargo.toml".into(),
            rust_version: Some("1.89".into()),
            description: Some("text".into()),
            license: Some("MIT".into()),
            repository: None,
            keywords: vec!["redis".into()],
            categories: vec!["database".into()],
            dependencies: below.iter().map(|name| Dependency { name: (*name).into(), kind: None }).collect(),
            features: features.iter().map(|(name, enables)| ((*name).to_owned(), texts(enables))).collect(),
            publish: None,
        }
    }

    #[test]
    fn missing_keys_and_features_that_are_not_forwarded_are_reported() {
        let core = named("redgrid-core", &[], &[("tls", &[]), ("testing", &[])]);
        let good = named("good", &["redgrid-core"], &[("tls", &["redgrid-core/tls"]), ("own", &[])]);
        let mut bad = named("bad", &["redgrid-core"], &[("tls", &["other/tls"])]);
        bad.license = None;
        assert_eq!((missing(&good), missing(&bad)), (vec![], vec!["bad has no `license`".to_owned()]));
        let all = [core, good, bad];
        assert!(unforwarded(&all[0], &all).is_empty() && unforwarded(&all[1], &all).is_empty());
        assert_eq!(unforwarded(&all[2], &all), ["`tls` of bad does not enable redgrid-core/tls"]);
    }

    #[test]
    fn crates_that_depend_on_each_other_are_of_different_levels() {
        let all = [named("a", &["b", "serde"], &[]), named("b", &["c"], &[]), named("c", &[], &[])];
        assert_eq!(all.each_ref().map(|package| level(package, &all)), [2, 1, 0]);
        let features = named("d", &[], &[("default", &["x"]), ("x", &[])]);
        assert_eq!(each_feature(&features), [Features::Only("x".into()), Features::All]);
    }
}
