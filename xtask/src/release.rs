//! Checks before the crates are published.

use std::{
    collections::BTreeMap,
    env,
    path::Path,
    process::{Command, ExitCode},
};

use serde::Deserialize;

use crate::{
    cargo,
    steps::{Failure, run, say, succeeds},
};

/// A part of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Every crate can be packaged
    Package,
    /// Every crate builds with the oldest supported compiler, which `rustup` installs if it is missing
    Msrv,
    /// Every crate builds without warnings with no feature, with each feature alone, and with all
    Features,
    /// Every manifest has what crates.io shows, the address of the repository included
    Manifests,
}

const ALL: [Part; 4] = [Part::Package, Part::Msrv, Part::Features, Part::Manifests];

/// A published crate, from `cargo metadata`.
#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    rust_version: Option<String>,
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    keywords: Vec<String>,
    categories: Vec<String>,
    features: BTreeMap<String, Vec<String>>,
    /// The registries that it may be published to; none of them for a crate that is not published.
    publish: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// Checks one part, or all of them.
pub(crate) fn check(workspace: &Path, only: Option<Part>) -> Result<ExitCode, Failure> {
    let packages = published()?;
    for part in ALL.into_iter().filter(|part| only.is_none_or(|only| only == *part)) {
        match part {
            Part::Manifests => manifests(&packages)?,
            Part::Msrv => msrv(&packages, workspace)?,
            Part::Features => features(&packages)?,
            Part::Package => package(&packages)?,
        }
    }
    say("passed");
    Ok(ExitCode::SUCCESS)
}

fn published() -> Result<Vec<Package>, Failure> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
    let printed = crate::steps::printed(&mut metadata)?;
    let read: Metadata = serde_json::from_str(&printed).map_err(|source| Failure::Metadata { source })?;
    Ok(read.packages.into_iter().filter(|package| package.publish.is_none()).collect())
}

fn manifests(packages: &[Package]) -> Result<(), Failure> {
    let missing: Vec<String> = packages.iter().flat_map(missing).collect();
    if missing.is_empty() { Ok(()) } else { Err(Failure::Manifests { missing }) }
}

/// The keys that the manifest of a crate lacks.
fn missing(package: &Package) -> Vec<String> {
    let keys = [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("rust-version", package.rust_version.is_some()),
        ("repository", package.repository.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
    ];
    let absent = keys.into_iter().filter(|(_, is_there)| !is_there);
    absent.map(|(key, _)| format!("{} has no `{key}`", package.name)).collect()
}

fn msrv(packages: &[Package], workspace: &Path) -> Result<(), Failure> {
    let Some(oldest) = packages.iter().find_map(|package| package.rust_version.as_deref()) else { return Ok(()) };
    if !succeeds("rustup", &["run", oldest, "cargo", "--version"]) {
        run(Command::new("rustup").args(["toolchain", "install", oldest, "--profile", "minimal"]))?;
    }
    let mut check = Command::new("rustup");
    // A folder of its own: compilers do not share what they have built.
    check.args(["run", oldest, "cargo", "check", "--all-features", "--target-dir"]).arg(workspace.join("target/msrv"));
    run(check.args(packages.iter().flat_map(|package| ["--package", package.name.as_str()])))
}

fn features(packages: &[Package]) -> Result<(), Failure> {
    let flags = format!("{} -Dwarnings", env::var("RUSTFLAGS").unwrap_or_default());
    for package in packages {
        let alone = package.features.keys().filter(|feature| *feature != "default").map(String::as_str);
        // An empty list is no feature at all.
        for feature in std::iter::once("").chain(alone) {
            let mut check = cargo();
            check.args([
                "check",
                "--quiet",
                "--package",
                &package.name,
                "--no-default-features",
                "--features",
                feature,
            ]);
            run(check.env("RUSTFLAGS", &flags))?;
        }
        let mut check = cargo();
        check.args(["check", "--quiet", "--package", &package.name, "--all-features"]);
        run(check.env("RUSTFLAGS", &flags))?;
    }
    Ok(())
}

/// Packages all crates together, as none of them is in the registry yet. Building what was packaged is left to the other parts.
fn package(packages: &[Package]) -> Result<(), Failure> {
    let mut package = cargo();
    package.args(["package", "--quiet", "--no-verify", "--allow-dirty"]);
    run(package.args(packages.iter().flat_map(|package| ["--package", package.name.as_str()])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_without_a_repository_is_reported() {
        let mut package = Package {
            name: "one".into(),
            rust_version: Some("1.89".into()),
            description: Some("text".into()),
            license: Some("MIT".into()),
            repository: None,
            keywords: vec!["redis".into()],
            categories: vec!["database".into()],
            features: BTreeMap::new(),
            publish: None,
        };
        assert_eq!(missing(&package), ["one has no `repository`"]);
        package.repository = Some("https://example.org/one".into());
        assert!(missing(&package).is_empty());
    }
}
