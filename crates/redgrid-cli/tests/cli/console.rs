//! `redgrid console`: the web console as a program.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use redgrid_testkit::RedisServer;
use serde_json::Value;

use crate::support::{is_ignored, redgrid, run};

/// Starts it, and returns its line of JSON.
pub(crate) fn started(server: &RedisServer, options: &[&str], token: Option<&str>) -> (Child, Value) {
    let url = server.url();
    let mut command = redgrid(&[&["console", "--json", "--url", &url, "--listen", "127.0.0.1:0"], options].concat());
    command.env_remove("REDGRID_CONSOLE_TOKEN");
    if let Some(token) = token {
        command.env("REDGRID_CONSOLE_TOKEN", token);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("text");
    (child, serde_json::from_str(&line).expect("JSON"))
}

/// Requests a page, and returns the response with its headers.
pub(crate) fn get(url: &str, path: &str, header: &str) -> String {
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).expect("an address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("text");
    response
}

fn ends_by(mut child: Child, signal: &str) -> Option<i32> {
    let kill = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    child.wait().expect("it ends").code()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_prints_its_address_and_the_token_that_it_made() {
    let server = RedisServer::start().await.expect("a server");
    let (child, line) = started(&server, &[], None);
    let (url, token) = (line["url"].as_str().expect("text"), line["token"].as_str().expect("text"));
    assert_eq!(token.len(), 32);
    assert!(get(url, "/locks", "").starts_with("HTTP/1.1 303 "), "{line}");
    let page = get(url, "/locks", &format!("Authorization: Bearer {token}\r\n"));
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains(&server.addr().to_string()), "{page}");
    assert_eq!(ends_by(child, "-TERM"), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_token_is_not_printed() {
    let server = RedisServer::start().await.expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "token-of-the-file\n").expect("it is written");
    let path = file.to_str().expect("text");
    for (options, variable, token) in [
        (&["--token-file", path][..], Some("token-of-the-variable"), "token-of-the-file"),
        (&[], Some("token-of-the-variable"), "token-of-the-variable"),
    ] {
        let (child, line) = started(&server, options, variable);
        let url = line["url"].as_str().expect("text");
        assert!(line["token"].is_null(), "{line}");
        let header = format!("Authorization: Bearer {token}\r\n");
        assert!(get(url, "/clients", &header).starts_with("HTTP/1.1 200 "), "{token}");
        assert_eq!(ends_by(child, "-TERM"), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_login_it_listens_at_loopback_only() {
    let server = RedisServer::start().await.expect("a server");
    let (child, line) = started(&server, &["--no-login"], None);
    let url = line["url"].as_str().expect("text");
    assert!(get(url, "/overview", "").starts_with("HTTP/1.1 200 "), "{line}");
    let signal = if is_ignored("-INT") { "-TERM" } else { "-INT" };
    assert_eq!(ends_by(child, signal), Some(0));

    let url = server.url();
    for (options, expected) in [
        (&["--no-login", "--listen", "0.0.0.0:0"][..], "only for a loopback address"),
        (&["--token-file", "/nonexistent/token"], "cannot read --token-file /nonexistent/token"),
        (&["--listen", "192.0.2.1:0"], "cannot listen at 192.0.2.1:0"),
        (&["--no-login", "--token-file", "x"], "cannot be used with"),
    ] {
        let ended = run(&[&["console", "--url", &url], options].concat());
        assert_eq!(ended.code(), 2, "{options:?}: {}", ended.stderr());
        assert!(ended.stderr().contains(expected), "{options:?}: {}", ended.stderr());
    }
}

/// Otherwise the console would make a token of its own, and the operator would not know why.
#[test]
fn a_token_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut command = redgrid(&["console", "--url", "redis://127.0.0.1:1"]);
    let token = std::ffi::OsStr::from_bytes(b"0123456789abcdef\xff");
    let output = command.env("REDGRID_CONSOLE_TOKEN", token).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("REDGRID_CONSOLE_TOKEN: it is not text"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_exist_only_if_it_operates() {
    let server = RedisServer::start().await.expect("a server");
    for (options, status) in [(&["--no-login"][..], "404"), (&["--no-login", "--operate"], "400")] {
        let (child, line) = started(&server, options, None);
        let answer = get(line["url"].as_str().expect("text"), "/action", "");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{options:?}: {answer}");
        assert_eq!(ends_by(child, "-TERM"), Some(0));
    }
}

#[test]
fn a_weak_token_is_refused() {
    let mut command = redgrid(&["console", "--url", "redis://127.0.0.1:1"]);
    let output = command.env("REDGRID_CONSOLE_TOKEN", "short").output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("REDGRID_CONSOLE_TOKEN") && text.contains("16 to 512"), "{text}");
}
