//! Files, the environment, and their precedence.
#![cfg(feature = "config-files")]

use std::path::{Path, PathBuf};

use super::super::redisson::all_keys;
use super::super::{Config, ConfigError, Secret};
use super::value;

/// A file in its own folder, removed on drop.
pub(super) struct TempFile(PathBuf);

impl TempFile {
    pub(super) fn new(name: &str, text: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("redgrid-config-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(name), text).unwrap();
        TempFile(folder.join(name))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

pub(super) fn variables(all: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::from_variables(all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

#[test]
fn the_three_formats_mean_the_same() {
    let yaml = "# the service\nsentinels: [a, b:5]\nmaster_name: orders\npassword: 007\ndatabase: 2\nresponse_timeout: 1s\nusername:\n";
    let toml =
        "sentinels = ['a', 'b:5']\nmaster_name = 'orders'\npassword = '007'\ndatabase = 2\nresponse_timeout = '1s'\n";
    let json = r#"{"sentinels": ["a", "b:5"], "master_name": "orders", "password": "007", "database": 2, "response_timeout": "1s"}"#;
    let url = Config::from_url("redis-sentinel://:007@a,b:5/orders/2?response_timeout=1s").unwrap();
    for (name, text) in [("c.yaml", yaml), ("c.yml", yaml), ("c.toml", toml), ("c.json", json)] {
        let config =
            Config::from_file(TempFile::new(name, text).path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            (&config.servers, &config.access, &config.settings),
            (&url.servers, &url.access, &url.settings),
            "{name}"
        );
        assert!(config.warnings().is_empty() && config.implied_codec().is_none());
    }
}

/// A password that looks like a number in YAML, TOML or JSON keeps all its characters.
#[test]
fn a_number_that_stands_for_text_is_the_text_of_the_file() {
    let numbers = ["1.10", "1e3", "1.0", "0.10", "12345678901234567890123", "-0", "1E5", "7"];
    for written in numbers {
        for (name, text) in [
            ("c.yaml", format!("single: h\npassword: {written}\nusername: {written}\nnamespace: {written}\n")),
            ("c.toml", format!("single = 'h'\npassword = {written}\nusername = {written}\nnamespace = {written}\n")),
            (
                "c.json",
                format!(
                    "{{\n\t\"single\": \"h\",\n\t\"password\": {written}, \"username\": {written}, \"namespace\": {written}}}"
                ),
            ),
        ] {
            // TOML has no integers beyond 64 bits.
            if name == "c.toml" && written.len() > 19 {
                continue;
            }
            let config =
                Config::from_file(TempFile::new(name, &text).path()).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(config.access.password, Some(Secret::new(written)), "{text}");
            assert_eq!(config.access.username.as_deref(), Some(written), "{text}");
            assert_eq!(value(&config, "namespace").as_deref(), Some(written), "{text}");
        }
    }
    // These files have numbers and booleans that only YAML or TOML can express. The last ones are
    // files of Redisson.
    for (name, text, want) in [
        ("c.yaml", "single: h\npassword: 0x1F", "0x1F"),
        ("c.yaml", "single: h\npassword: +5", "+5"),
        ("c.yaml", "single: h\npassword: .inf", ".inf"),
        ("c.yaml", "single: h\npassword: True", "True"),
        ("c.yaml", "single: h\npassword: &a 1.10\nusername: *a", "1.10"),
        ("c.toml", "single = 'h'\npassword = 1_000", "1_000"),
        ("c.toml", "single = 'h'\npassword = 0x1F # a comment", "0x1F"),
        ("r.yaml", "singleServerConfig:\n  address: redis://h:1\n  password: 1.10\n", "1.10"),
        ("r.json", r#"{"singleServerConfig": {"address": "redis://h:1", "password": 1.10}}"#, "1.10"),
    ] {
        let config =
            Config::from_file(TempFile::new(name, text).path()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(config.access.password, Some(Secret::new(want)), "{text}");
    }
    let config = Config::from_file(TempFile::new("c.yaml", "cluster: [10.10, h:1]").path()).unwrap();
    assert_eq!(value(&config, "cluster").as_deref(), Some("10.10:6379,h:1"));
}

#[test]
fn a_file_may_have_a_url_and_settings() {
    let file = TempFile::new("c.yaml", "url: redis-cluster://h1,h2?response_timeout=1s\nretries: 2\n");
    let config = Config::from_file(file.path()).unwrap();
    assert_eq!((config.topology(), value(&config, "response_timeout").as_deref()), ("cluster", Some("1s")));
    let origin = config.explain().into_iter().find(|one| one.name == "response_timeout").unwrap().origin.to_string();
    assert!(origin.starts_with("`response_timeout` in `url` in "), "{origin}");
}

#[test]
fn the_environment_overrides_the_url_and_that_the_file() {
    let file = TempFile::new("c.toml", "cluster = ['a']\nresponse_timeout = '1s'\nretries = 1\nnamespace = 'file'\n");
    let path = file.path().to_str().unwrap();
    let config = variables(&[
        ("REDGRID_CONFIG", path),
        ("REDGRID_URL", "redis://h?response_timeout=2s&retries=2"),
        ("REDGRID_RESPONSE_TIMEOUT", "3s"),
        ("REDGRID_POLL_BUDGET", ""),
        ("PATH", "/bin"),
    ])
    .unwrap();
    let values = ["single", "cluster", "response_timeout", "retries", "namespace", "poll_budget"]
        .map(|name| value(&config, name));
    let want = [Some("h:6379"), None, Some("3s"), Some("2"), Some("file"), Some("500")];
    assert_eq!(values, want.map(|text| text.map(str::to_owned)));
    let config = variables(&[("REDGRID_SENTINELS", "a,b"), ("REDGRID_MASTER_NAME", "m")]).unwrap();
    assert_eq!(value(&config, "sentinels").as_deref(), Some("a:26379,b:26379"));
}

#[test]
fn variables_of_others_are_warnings_and_mistyped_ones_errors() {
    let config = variables(&[
        ("REDGRID_URL", "redis://h"),
        ("REDGRID_FENCING_TOKEN", "1"),
        ("REDGRID_SERVICE_HOST", "10.0.0.1"),
    ])
    .unwrap();
    let warnings: Vec<_> = config.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["REDGRID_SERVICE_HOST: is no setting"]);
    let error = variables(&[("REDGRID_URL", "redis://h"), ("REDGRID_RESPONSE_TIMOUT", "1s")]).unwrap_err();
    assert_eq!(error.to_string(), "REDGRID_RESPONSE_TIMOUT is no setting; did you mean `response_timeout`?");
}

/// With replacement characters, a password would be another password.
#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf8_is_an_error_that_names_it() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    use super::super::Origin;

    let file = TempFile::new("c.yaml", "singleServerConfig:\n  address: redis://h\n  password: ${SECRET}\n");
    let read = |all: &[(&str, &[u8])]| {
        let value = |value: &[u8]| OsString::from_vec(value.to_vec());
        Config::from_variables(all.iter().map(|(name, text)| ((*name).to_owned(), value(text))))
    };
    let path = file.path().to_str().unwrap().as_bytes();
    let (url, bad, bad_url) = (&b"redis://h"[..], &b"hunter2\xff"[..], &b"redis://:\xff@h"[..]);
    for (all, name) in [
        (&[("REDGRID_URL", url), ("REDGRID_PASSWORD", bad)][..], "REDGRID_PASSWORD"),
        (&[("REDGRID_URL", bad_url)], "REDGRID_URL"),
        (&[("REDGRID_CONFIG", path), ("SECRET", bad)], "SECRET"),
    ] {
        let expected = "text in UTF-8".to_owned();
        let error = ConfigError::Value { origin: Origin::Variable { name: name.to_owned() }, expected };
        assert_eq!(read(all).unwrap_err(), error);
    }
    let config = read(&[("REDGRID_URL", url), ("REDGRID_SERVICE_HOST", bad), ("SECRET", bad)]).unwrap();
    assert_eq!(config.warnings().len(), 1, "variables of others are not read");
}

#[test]
fn every_key_of_redissons_is_in_one_of_the_golden_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redisson-yaml");
    let texts: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let texts = texts.iter().filter(|path| path.extension().is_some_and(|end| end != "expected"));
    let text: String = texts.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    // Redisson 4.7.0 and its documentation do not have these keys, but older files do.
    let gone = ["pingTimeout", "reconnectionTimeout", "failedAttempts", "tlsVersion", "natMap"];
    let gone =
        [&gone[..], &["slaveSubscriptionConnectionMinimumIdleSize", "slaveSubscriptionConnectionPoolSize"]].concat();
    for key in all_keys().filter(|key| !gone.contains(key)) {
        assert!(text.contains(&format!("{key}:")), "{key}");
    }
}
