//! Contexts: servers with names, and files with URLs.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use redgrid_testkit::RedisServer;
use serde_json::json;
use tempfile::TempDir;

use crate::look::hold;
use crate::support::{Ended, redgrid};

/// A password that must not appear anywhere.
const SECRET: &str = "hunter2-s3cret";

/// The home of a user.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Home(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("redgrid/contexts.toml")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = redgrid(arguments);
        command.env("XDG_CONFIG_HOME", self.0.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments).output().expect("it runs"))
    }

    /// Runs the program with this text on stdin.
    fn run_with(&self, arguments: &[&str], text: &str) -> Ended {
        let mut command = self.command(arguments);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("it runs");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        Ended::of(child.wait_with_output().expect("it ends"))
    }

    fn write(&self, text: &str, mode: u32) {
        fs::create_dir_all(self.file().parent().expect("a folder")).expect("it can be made");
        fs::write(self.file(), text).expect("it can be written");
        fs::set_permissions(self.file(), fs::Permissions::from_mode(mode)).expect("its owner may");
    }
}

fn done(ended: &Ended) {
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    assert!(!format!("{}{}", ended.stdout(), ended.stderr()).contains(SECRET), "{}", ended.stdout());
}

#[tokio::test]
async fn a_context_names_the_servers_and_the_namespace_and_shows_no_password() {
    let server = RedisServer::builder().password(SECRET).start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "orders:job", "1", "60000").await;
    let home = Home::new();
    let set = ["context", "set", "prod", "--url-file", "-", "--namespace", "orders", "--production"];
    done(&home.run_with(&set, &format!("{}\n", server.url())));
    let metadata = fs::metadata(home.file()).expect("the file");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(home.file()).expect("text").contains(SECRET), "the URL is stored");

    // It counts only when it is named, or in use.
    assert_eq!(home.run(&["ls"]).code(), 2);
    let banner = "redgrid: the servers are those of the PRODUCTION context `prod`\n";
    let named = home.run(&["ls", "--context", "prod", "-o", "name"]);
    done(&named);
    assert_eq!((named.stdout().as_str(), named.stderr().as_str()), ("job\n", banner));
    let by_variable = home.command(&["ls", "-o", "name"]).env("REDGRID_CONTEXT", "prod").output().expect("it runs");
    assert_eq!(Ended::of(by_variable).stdout(), "job\n");
    let used = home.run(&["context", "use", "prod", "--json"]);
    done(&used);
    assert_eq!(used.json(), json!({ "schema": 1, "name": "prod", "change": "used" }));
    let used = home.run(&["ls", "-o", "name", "--quiet"]);
    done(&used);
    assert_eq!((used.stdout().as_str(), used.stderr().as_str()), ("job\n", ""));
    assert_eq!(home.run(&["ls", "-o", "name", "-q", "--namespace", "other"]).stdout(), "");

    for format in ["table", "wide", "json", "jsonl", "yaml", "name"] {
        done(&home.run(&["context", "list", "-o", format]));
    }
    let listed = home.run(&["context", "list", "--json"]).json();
    let want = json!({
        "schema": 1, "name": "prod", "current": true, "topology": "single", "servers": server.addr().to_string(),
        "namespace": "orders", "production": true, "error": null,
    });
    assert_eq!(listed, want);

    done(&home.run(&["context", "remove", "prod"]));
    assert_eq!(home.run(&["ls"]).code(), 2, "no context is in use");
    assert_eq!(
        home.run(&["context", "list"]).stderr(),
        "redgrid: there are no contexts; make one with `redgrid context set`\n"
    );
}

#[tokio::test]
async fn a_file_with_a_url_keeps_it_out_of_the_list_of_processes() {
    let server = RedisServer::builder().password(SECRET).start().await.expect("a server");
    let home = Home::new();
    let file = home.0.path().join("url.txt");
    fs::write(&file, format!("  {}\n\n", server.url())).expect("it can be written");
    let path = file.to_str().expect("text");
    done(&home.run(&["inspect", "job", "--url-file", path]));
    done(&home.run_with(&["inspect", "job", "--url-file", "-"], &server.url()));
    // The context stores the path, and reads the file at each use.
    done(&home.run(&["context", "set", "test", "--url-file", path]));
    assert!(!fs::read_to_string(home.file()).expect("text").contains(SECRET));
    done(&home.run(&["inspect", "job", "--context", "test"]));
    fs::write(&file, "redis://127.0.0.1:1\n").expect("it can be written");
    assert_eq!(home.run(&["inspect", "job", "--context", "test"]).code(), 69);
    fs::remove_file(&file).expect("it exists");
    let gone = home.run(&["inspect", "job", "--context", "test"]);
    assert!(gone.code() == 2 && gone.stderr().contains("cannot read the URL in "), "{}", gone.stderr());
    // Other contexts are listed nevertheless.
    let list = home.run(&["context", "list", "--json"]).json();
    assert!(list["error"].as_str().is_some_and(|error| error.contains("cannot read the URL")), "{list}");

    for (content, words) in [
        ("", "expected a URL, got nothing"),
        ("redis://a\nredis://b", "expected one line"),
        (&format!("http://u:{SECRET}@h"), "cannot use --url-file"),
        (&"x".repeat(70_000), "longer than"),
    ] {
        fs::write(&file, content).expect("it can be written");
        let ended = home.run(&["inspect", "job", "--url-file", path]);
        assert_eq!((ended.code(), ended.stdout().as_str()), (2, ""), "{}", ended.stderr());
        assert!(ended.stderr().contains(words) && !ended.stderr().contains(SECRET), "{}", ended.stderr());
    }
}

#[test]
fn a_wrong_file_of_contexts_is_named_with_its_fault_and_without_its_content() {
    let home = Home::new();
    let good = format!("[contexts.a]\nurl = \"redis://u:{SECRET}@127.0.0.1:1\"\n");
    for (text, mode, words) in [
        (good.as_str(), 0o644, "other users may read it (mode 0644); run chmod 600"),
        (&format!("[contexts.a]\nurl = \"redis://u:{SECRET}@h"), 0o600, "line 2: "),
        (&format!("[contexts.a]\nurl = 1\npassword = \"{SECRET}\""), 0o600, "the context `a`: `"),
        (&format!("[contexts.a]\nproduction = \"{SECRET}\""), 0o600, "`production`: expected true or false"),
        ("current = \"b\"", 0o600, "there is no context `b`"),
        ("[[contexts]]", 0o600, "`contexts`: expected tables"),
    ] {
        home.write(text, mode);
        for arguments in [&["ls"][..], &["ls", "--context", "a"], &["context", "list"], &["context", "use", "a"]] {
            let ended = home.run(arguments);
            assert_eq!((ended.code(), ended.stdout().as_str()), (2, ""), "{arguments:?}: {text}: {}", ended.stderr());
            let told = ended.stderr();
            assert!(told.contains(words) && told.contains("contexts.toml") && !told.contains(SECRET), "{told}");
            assert_eq!(told.lines().count(), 1, "{told}");
        }
        // A command that names the servers does not need the file.
        assert_eq!(home.run(&["ls", "--url", "redis://127.0.0.1:1"]).code(), 69);
    }
    home.write(&good, 0o600);
    assert_eq!(home.run(&["ls", "--context", "a"]).code(), 69);
    let unknown = home.run(&["ls", "--context", "c"]);
    assert!(unknown.code() == 2 && unknown.stderr().contains("there is no context `c`"), "{}", unknown.stderr());
    assert!(unknown.stderr().ends_with("known: a\n"), "{}", unknown.stderr());
}

#[test]
fn servers_are_named_once_and_writing_commands_ignore_the_context_in_use() {
    let home = Home::new();
    home.write("current = \"a\"\n[contexts.a]\nurl = \"redis://127.0.0.1:1\"\n", 0o600);
    for arguments in [
        &["ls", "--context", "a", "--url", "redis://h"][..],
        &["--context", "a", "ls", "--url-file", "f"],
        &["--url-file", "f", "ls", "--config", "c"],
    ] {
        let ended = home.run(arguments);
        assert!(ended.code() == 2 && ended.stderr().contains("both name the servers"), "{}", ended.stderr());
    }
    let both = home.command(&["ls"]).envs([("REDGRID_CONTEXT", "a"), ("REDGRID_URL", "redis://h")]).output();
    let both = Ended::of(both.expect("it runs"));
    assert!(both.code() == 2 && both.stderr().contains("REDGRID_CONTEXT and REDGRID_URL"), "{}", both.stderr());
    // A variable comes before the context in use, and an option before a variable.
    let by_variable = home.command(&["ls"]).env("REDGRID_URL", "redis://127.0.0.1:2").output().expect("it runs");
    assert!(Ended::of(by_variable).stderr().contains("127.0.0.1:2"));
    let bench = home.run(&["bench"]);
    assert!(bench.code() == 2 && bench.stderr().contains("name the server"), "{}", bench.stderr());
    let sale = home.run(&["demo", "flash-sale", "--stock", "5", "--processes", "1", "--tasks", "1"]);
    assert_eq!(sale.code(), 0, "it has a server of its own: {}", sale.stderr());

    for (arguments, words) in [
        (&["context", "set", "b"][..], "by one of --url-file, --url and --config"),
        (&["context", "set", "b", "--url", "http://u:hunter2-s3cret@h"], "cannot use the context `b`"),
        (&["context", "set", "b c", "--url", "redis://h"], "letters, digits"),
        (&["context", "set", "b", "--url", "redis://h", "--namespace", "{x}"], "namespace"),
        (&["context", "use", "b"], "there is no context `b`"),
        (&["context", "remove", "b"], "there is no context `b`"),
    ] {
        let ended = home.run(arguments);
        assert_eq!((ended.code(), ended.stdout().as_str()), (2, ""), "{arguments:?}");
        assert!(ended.stderr().contains(words) && !ended.stderr().contains(SECRET), "{}", ended.stderr());
    }
    let text = fs::read_to_string(home.file()).expect("text");
    assert!(text.contains("[contexts.a]") && !text.contains("contexts.b"), "{text}");
}
