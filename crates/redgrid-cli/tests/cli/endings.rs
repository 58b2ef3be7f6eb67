//! How each command ends: exit codes, signals and messages, if servers are unavailable, crash,
//! reject requests, or run in another mode.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use redgrid_testkit::{Cluster, Observer, RedisServer, Replicated, wait_until};

use crate::support::{Ended, is_ignored, redgrid, run};

/// Timeout of operations that take milliseconds, long enough for a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// URL settings with shorter timeouts than the defaults, which a busy server keeps nevertheless.
const IMPATIENT: &str = "?response_timeout=2s&retries=1";

/// A holder as a Java service writes it.
const HOLDER: &str = "0f8fad5b-d9cb-469f-a165-70867728950e:17";

/// The commands on a lock, each in a form that ends by itself.
const COMMANDS: [&str; 6] = [
    "lock job --wait 0s -- echo ran",
    "inspect job",
    "ls",
    "clients",
    "unlock --reason test --force job",
    "watch job --for 60s",
];

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn at(url: &str, line: &str) -> Ended {
    run(&[&["--url", url][..], &words(line)].concat())
}

/// Checks that the command ends with this code, prints nothing to stdout, and prints one line to
/// stderr. Returns that line.
fn assert_ends(url: &str, line: &str, code: i32, says: &[&str]) -> String {
    let ended = at(url, line);
    let message = ended.stderr();
    assert_eq!((ended.code(), ended.stdout().as_str()), (code, ""), "{line}: {message}");
    assert!(message.starts_with("redgrid: ") && message.lines().count() == 1, "{line}: {message}");
    for words in says {
        assert!(message.contains(words), "{line}: `{words}` is missing: {message}");
    }
    assert!(!message.contains("secret"), "{line}: {message}");
    message
}

async fn started(mut command: std::process::Command, observer: &Observer, channel: &str) -> Child {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    wait_until(SOON, async || !observer.pubsub_channels(channel).await.expect("an answer").is_empty()).await;
    child
}

async fn ended(mut child: Child) -> Output {
    wait_until(3 * SOON, async || child.try_wait().expect("it is ours").is_some()).await;
    child.wait_with_output().expect("it is ours")
}

fn message(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args([name, &pid]).status().expect("kill runs").success());
}

#[test]
fn a_server_that_is_away_is_named() {
    for line in COMMANDS {
        assert_ends("redis://127.0.0.1:1", line, 69, &["127.0.0.1:1", "Connection refused"]);
    }
}

#[tokio::test]
async fn a_wrong_password_is_named_and_not_shown() {
    let server = RedisServer::builder().password("right").start().await.expect("a server");
    let url = format!("redis://:secret@{}", server.addr());
    for line in COMMANDS {
        assert_ends(&url, line, 69, &["WRONGPASS", &server.addr().to_string()]);
    }
}

#[tokio::test]
async fn missing_permissions_are_named() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["HSET", "job", HOLDER, "1"]).await.expect("an answer");
    for (denied, lines) in [
        (
            &["evalsha", "eval"][..],
            &["lock job --wait 0s -- echo ran", "inspect job", "unlock --reason test --force job", "watch job"][..],
        ),
        (&["scan"], &["ls"]),
        // The command must fail: an empty list would mean that there is no lock.
        (&["hkeys"], &["ls", "inspect job"]),
        (&["pttl"], &["ls", "inspect job"]),
        (&["pubsub"], &["clients"]),
    ] {
        server.deny(denied).await.expect("an answer");
        for line in lines {
            let message = assert_ends(&server.url(), line, 77, &[&server.addr().to_string(), "the server refused"]);
            assert!(!message.contains("start it"), "a server that refuses is there: {message}");
        }
        server.allow(denied).await.expect("an answer");
    }
    assert!(observer.exists("job").await.expect("an answer"));
}

#[tokio::test]
async fn a_server_of_another_mode_is_named() {
    let server = RedisServer::start().await.expect("a server");
    let address = server.addr().to_string();
    for line in COMMANDS {
        assert_ends(&format!("redis-cluster://{address}"), line, 69, &[&address, "cluster support disabled"]);
        assert_ends(&format!("redis-sentinel://{address}/mymaster"), line, 69, &[&address, "mymaster", "sentinel"]);
    }
}

#[tokio::test]
async fn a_replica_reads_and_does_not_write() {
    let replicated = Replicated::start(1).await.expect("it starts");
    let observer = replicated.primary().observer().await.expect("an observer");
    observer.cmd(&["HSET", "held", HOLDER, "1"]).await.expect("an answer");
    let replica = &replicated.replicas()[0];
    let seen = replica.observer().await.expect("an observer");
    wait_until(SOON, async || seen.exists("held").await.expect("an answer")).await;
    let url = format!("{}{IMPATIENT}", replica.url());
    for line in ["inspect held", "ls", "watch held --for 300ms"] {
        let ended = at(&url, line);
        assert_eq!(ended.code(), 0, "{line}: {}", ended.stderr());
        assert!(ended.stdout().contains(&HOLDER[..36]), "{line}: {}", ended.stdout());
    }
    for line in ["lock job --wait 0s -- echo ran", "unlock --reason test --force held"] {
        assert_ends(&url, line, 69, &[&replica.addr().to_string(), "READONLY"]);
    }
    assert!(observer.exists("held").await.expect("an answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_cluster_by_itself_is_named() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let slot = cluster.slot_of("job").await.expect("a slot");
    let owner = cluster.primary_of(slot).await.expect("a primary").addr();
    let other = cluster.nodes().iter().find(|node| node.addr() != owner).expect("another node");
    let url = format!("{}{IMPATIENT}", other.url());
    for line in ["lock job --wait 0s -- echo ran", "inspect job", "unlock --reason test --force job", "watch job"] {
        assert_ends(&url, line, 69, &[&other.addr().to_string(), "MOVED"]);
    }
}

#[tokio::test]
async fn a_key_that_is_no_lock_is_invalid_usage() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["SET", "job", "1"]).await.expect("an answer");
    let lines = [
        "lock job --wait 0s -- echo ran",
        "lock job -- echo ran",
        "inspect job",
        "unlock --reason test --force job",
        "watch job",
    ];
    for line in lines {
        assert_ends(&server.url(), line, 2, &["`job` is not a lock"]);
    }
}

#[tokio::test]
async fn a_server_that_dies_ends_a_watch() {
    let server = RedisServer::start().await.expect("a server");
    let url = format!("{}{IMPATIENT}", server.url());
    let mut watch = redgrid(&["watch", "job", "--url", &url]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut line = String::new();
    BufReader::new(watch.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    server.kill().await.expect("it is killed");
    let output = ended(watch).await;
    let message = message(&output);
    assert_eq!(output.status.code(), Some(69), "{message}");
    assert!(message.contains(&server.addr().to_string()) && message.lines().count() == 1, "{message}");
}

#[tokio::test]
async fn a_server_that_dies_ends_a_program_at_the_end_of_its_lease() {
    let server = RedisServer::start().await.expect("a server");
    for (settings, options) in [("?watchdog_lease=2s", &[][..]), ("", &["--lease", "2s"])] {
        let observer = server.observer().await.expect("an observer");
        let url = format!("{}{settings}", server.url());
        let command = redgrid(&[&["lock", "job", "--url", &url], options, &["--", "sleep", "1000"]].concat());
        let child = started(command, &observer, "redgrid_client:*").await;
        wait_until(SOON, async || observer.exists("job").await.expect("an answer")).await;
        server.kill().await.expect("it is killed");
        let output = ended(child).await;
        let message = message(&output);
        assert_eq!(output.status.code(), Some(76), "{message}");
        assert!(message.contains("`job` was lost") && message.contains("the command was killed"), "{message}");
        server.restart_empty().await.expect("it starts");
    }
}

/// Sends a signal to a command that waits for a lock or a server, and checks how the command ends.
#[tokio::test]
async fn a_signal_ends_a_waiting_command() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["HSET", "job", HOLDER, "1"]).await.expect("an answer");
    let url = server.url();
    let signals = [("-INT", 130), ("-TERM", 143), ("-HUP", 129), ("-QUIT", 131)];
    for (name, code) in signals.into_iter().filter(|(name, _)| !is_ignored(name)) {
        let child = started(redgrid(&["lock", "job", "--url", &url, "--", "echo", "ran"]), &observer, "*:{job}").await;
        signal(&child, name);
        let output = ended(child).await;
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(code), &b""[..]), "{}", message(&output));
        assert!(message(&output).contains("the command was not run"), "{}", message(&output));
        wait_until(SOON, async || observer.pubsub_channels("*:{job}").await.expect("an answer").is_empty()).await;

        let child = started(redgrid(&["watch", "job", "--subscribe", "--url", &url]), &observer, "*:{job}").await;
        signal(&child, name);
        let status = ended(child).await.status;
        match name {
            "-INT" | "-TERM" => assert_eq!(status.code(), Some(0), "watch {name}"),
            // The command holds no lock, so the default action of the signal suffices.
            _ => assert_eq!(status.signal(), Some(code - 128), "watch {name}"),
        }
        wait_until(SOON, async || observer.pubsub_channels("*:{job}").await.expect("an answer").is_empty()).await;
    }
    assert!(observer.exists("job").await.expect("an answer"));
}

#[tokio::test]
async fn a_signal_is_passed_on_and_the_lock_is_released() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let signals = [("-INT", 130), ("-TERM", 143), ("-HUP", 129), ("-QUIT", 131)];
    for (name, code) in signals.into_iter().filter(|(name, _)| !is_ignored(name)) {
        let mut command = redgrid(&["lock", "job", "--url", &server.url(), "--", "sh", "-c", "ulimit -c 0; exec cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        // A shell that has just started may ignore a signal. The reply of `cat` shows that the
        // command runs.
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"up").expect("it is read");
        child.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 2]).expect("it is answered");
        signal(&child, name);
        let output = ended(child).await;
        drop(input);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", message(&output));
        assert!(!observer.exists("job").await.expect("an answer"), "{name}: the lock is still taken");
    }
}

/// `nohup` starts a program with SIGHUP ignored.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_hangup_that_is_ignored_stays_ignored() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let program = env!("CARGO_BIN_EXE_redgrid");
    let script = format!("trap '' HUP; exec {program} lock job --url {} -- sh -c 'read line; exit 5'", server.url());
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).process_group(0).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    wait_until(SOON, async || observer.exists("job").await.expect("an answer")).await;
    signal(&child, "-HUP");
    drop(child.stdin.take());
    assert_eq!(ended(child).await.status.code(), Some(5));
}

#[tokio::test]
async fn an_output_that_can_not_be_written_is_an_error() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["HSET", "job", HOLDER, "1"]).await.expect("an answer");
    for line in ["inspect job", "ls", "watch job"] {
        let full = File::options().write(true).open("/dev/full").expect("it is there");
        let mut command = redgrid(&[&["--url", &server.url()][..], &words(line)].concat());
        let ended = Ended::of(command.stdout(full).output().expect("the program runs"));
        assert_eq!(ended.code(), 1, "{line}: {}", ended.stderr());
        assert!(ended.stderr().contains("the output could not be written"), "{line}: {}", ended.stderr());
    }
}
