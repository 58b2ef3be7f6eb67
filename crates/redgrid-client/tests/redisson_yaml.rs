//! Unchanged configuration files of Redisson are read as the files
//! `tests/redisson-yaml/<file>.expected` say.
//!
//! After an intended change, `REWRITE=1 cargo test -p redgrid-client --test redisson_yaml` rewrites
//! the expected files.

#![cfg(feature = "config-files")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use redgrid_client::{Config, ConfigError};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redisson-yaml")
}

/// Reads a file with the environment that the test gives it.
fn load(path: &Path, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let config = ("REDGRID_CONFIG".to_owned(), path.display().to_string());
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::from_variables(variables.chain([config]))
}

fn describe(read: &Result<Config, ConfigError>) -> String {
    let folder = format!("{}/", folder().display());
    let mut text = String::new();
    match read {
        Ok(config) => {
            let _ = writeln!(text, "topology: {}", config.topology());
            let _ = writeln!(text, "codec: {}", config.implied_codec().unwrap_or("none"));
            for one in config.explain().iter().filter(|one| one.value != one.default) {
                let _ =
                    writeln!(text, "{} = {}  from {}", one.name, one.value.as_deref().unwrap_or("none"), one.origin);
            }
            for warning in config.warnings() {
                let _ = writeln!(text, "warning: {warning}");
            }
        }
        Err(error) => {
            let _ = writeln!(text, "error: {error}");
        }
    }
    text.replace(&folder, "")
}

#[test]
fn files_of_redisson_give_the_expected_settings() {
    let mut files: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension != "expected"));
    files.sort();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let read = load(&file, &[]);
        let described = describe(&read);
        assert!(!format!("{described} {read:?}").contains("marker-9f3a"), "{}", file.display());
        let mut expected = file.clone().into_os_string();
        expected.push(".expected");
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(&expected, &described).unwrap();
        }
        assert_eq!(described, std::fs::read_to_string(&expected).unwrap_or_default(), "{}", file.display());
    }
}

#[test]
fn variables_are_substituted_as_redisson_does_it() {
    let config = load(&folder().join("cluster.yaml"), &[("CLUSTER_HOST", "redis.internal")]).unwrap();
    let seeds = config.explain().into_iter().find(|one| one.name == "cluster").unwrap().value;
    assert_eq!(seeds.as_deref(), Some("redis.internal:7004,10.0.0.1:7001,10.0.0.1:7000"));
}

#[test]
fn the_environment_overrides_a_file_of_redisson() {
    let config =
        load(&folder().join("single.yaml"), &[("REDGRID_RESPONSE_TIMEOUT", "1s"), ("REDGRID_NAMESPACE", "prod")])
            .unwrap();
    let explained = config.explain();
    let of = |name: &str| explained.iter().find(|one| one.name == name).unwrap();
    assert_eq!(of("response_timeout").value.as_deref(), Some("1s"));
    assert_eq!(of("response_timeout").origin.to_string(), "REDGRID_RESPONSE_TIMEOUT");
    assert_eq!(of("watchdog_lease").value.as_deref(), Some("20s"));
    let config =
        load(&folder().join("single.yaml"), &[("REDGRID_URL", "redis-cluster://h"), ("REDGRID_DATABASE", "0")])
            .unwrap();
    assert_eq!(config.topology(), "cluster");
}
