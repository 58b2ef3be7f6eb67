//! `redgrid config check`, and `--config` beside `--url`.

use std::path::{Path, PathBuf};

use redgrid_testkit::RedisServer;
use serde_json::json;

use crate::support::{redgrid, run};

/// Returns a Redisson file from the test data of the configuration loader.
fn redissons(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../redgrid-client/tests/redisson-yaml").join(name)
}

fn written(extension: &str, text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(extension).tempfile().expect("a temporary file");
    std::fs::write(file.path(), text).expect("it can be written");
    file
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().expect("a path of ASCII")
}

#[test]
fn a_file_is_shown_with_settings_that_differ_from_their_defaults() {
    let file = written(".toml", "cluster = ['h:7000']\npassword = 'hunter2'\nresponse_timeout = '1s'\nretries = 4\n");
    let told = run(&["config", "check", path(&file)]);
    assert_eq!((told.code(), told.stderr().as_str()), (0, ""));
    let text = told.stdout();
    assert!(text.starts_with(&format!("{}: cluster\n", path(&file))), "{text}");
    assert!(text.contains("  response_timeout  1s      `response_timeout`; 3s unless set\n"), "{text}");
    assert!(text.contains("***") && !text.contains("hunter2") && !text.contains("retries"), "{text}");

    let json = run(&["config", "check", path(&file), "--json"]);
    let fields: Vec<_> =
        json.json()["settings"].as_array().expect("a list").iter().map(|one| one["name"].clone()).collect();
    assert_eq!((json.code(), fields), (0, vec![json!("cluster"), json!("password"), json!("response_timeout")]));
    let timeout = json!({ "name": "response_timeout", "value": "1s", "default": "3s", "from": format!("`response_timeout` in {}", path(&file)) });
    assert_eq!(json.json()["settings"][2], timeout);
    assert!(!json.stdout().contains("hunter2"));
}

#[test]
fn a_file_of_redisson_is_read_and_its_warnings_shown() {
    let file = redissons("cluster.yaml");
    let told = run(&["config", "check", file.to_str().expect("a path of ASCII")]);
    assert_eq!(told.code(), 0, "{}", told.stderr());
    assert!(
        told.stdout().contains("values of Java services are in org.redisson.codec.SnappyCodecV2"),
        "{}",
        told.stdout()
    );
    assert!(told.stderr().lines().count() == 5 && told.stderr().contains("`transportMode`"), "{}", told.stderr());
    let json = run(&["--json", "config", "check", file.to_str().expect("a path of ASCII")]);
    assert_eq!((json.stderr().as_str(), json.json()["warnings"].as_array().map(Vec::len)), ("", Some(5)));
    assert_eq!(json.json()["implied_codec"], json!("org.redisson.codec.SnappyCodecV2"));
}

#[test]
fn a_file_that_can_not_be_used_gives_exit_code_2_and_one_sentence() {
    let bad = written(".yaml", "single: h\ntimeot: 1s\npassword: hunter2\n");
    let unknown_topology = written(".yaml", "proxyServersConfig:\n  password: hunter2\n");
    for (file, words) in [
        (path(&bad), "`timeot` in "),
        ("/no/such.yaml", "cannot read /no/such.yaml"),
        (path(&unknown_topology), "a topology that is not supported here"),
    ] {
        let told = run(&["config", "check", file]);
        assert_eq!((told.code(), told.stdout().as_str()), (2, ""), "{file}");
        assert!(told.stderr().contains(words) && !told.stderr().contains("hunter2"), "{}", told.stderr());
        assert_eq!(told.stderr().lines().count(), 1, "{}", told.stderr());
    }
}

#[test]
fn the_servers_are_named_once() {
    for line in [
        &["ls", "--config", "/no/such.yaml", "--url", "redis://h"][..],
        &["--config", "/no/such.yaml", "ls", "--url", "redis://h"],
    ] {
        let told = run(line);
        assert!(told.code() == 2 && told.stderr().contains("--config"), "{line:?}: {}", told.stderr());
    }
}

#[tokio::test]
async fn a_file_names_the_server_and_the_namespace() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let holder = "0f8fad5b-d9cb-469f-a165-70867728950e:17";
    observer.cmd(&["HSET", "prod:job", holder, "1"]).await.expect("an answer");
    let file = written(".yaml", &format!("url: {}\nnamespace: prod\n", server.url()));
    let told = run(&["inspect", "job", "--json", "--config", path(&file)]);
    assert_eq!((told.code(), &told.json()["held"]), (0, &json!(true)), "{}", told.stderr());
    assert_eq!(run(&["ls", "--json", "--config", path(&file)]).json()["name"], json!("job"));
    let other = run(&["inspect", "job", "--json", "--config", path(&file), "--namespace", "test"]);
    assert_eq!(other.json()["held"], json!(false));
    let by_variable = redgrid(&["ls", "--json"]).env("REDGRID_CONFIG", file.path()).output().expect("it runs");
    assert!(by_variable.status.success() && String::from_utf8_lossy(&by_variable.stdout).contains("\"job\""));
    // If the flag is given, the variable is not read.
    let flagged = redgrid(&["ls", "--config", path(&file)]).env("REDGRID_URL", "redis://127.0.0.1:1").output();
    assert!(flagged.expect("it runs").status.success());
    let sale =
        run(&["demo", "flash-sale", "--stock", "20", "--processes", "2", "--tasks", "2", "--config", path(&file)]);
    assert_eq!(sale.code(), 0, "{}", sale.stderr());
}
