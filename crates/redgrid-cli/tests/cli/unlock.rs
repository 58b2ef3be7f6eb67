//! `redgrid unlock`: the holders that lose the lock, the question at a terminal, and the record.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use redgrid_testkit::{Observer, RedisServer, wait_until};

use crate::support::{Ended, redgrid, run};

/// Timeout of operations that take milliseconds, long enough for a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A holder as a Java service writes it.
const HOLDER: &str = "0f8fad5b-d9cb-469f-a165-70867728950e:17";

async fn held() -> (RedisServer, Observer) {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["HSET", "job", HOLDER, "1"]).await.expect("an answer");
    observer.cmd(&["PEXPIRE", "job", "600000"]).await.expect("an answer");
    (server, observer)
}

/// Returns the entries of the record.
async fn entries(observer: &Observer) -> Vec<BTreeMap<String, String>> {
    let entries: Vec<(String, Vec<(String, String)>)> =
        observer.query(&["XRANGE", "redgrid_audit", "-", "+"]).await.expect("an answer");
    entries.into_iter().map(|(_, fields)| fields.into_iter().collect()).collect()
}

/// Runs the program at a terminal, with this answer to its question.
fn at_a_terminal(server: &RedisServer, answer: &str) -> Ended {
    let terminal = nix::pty::openpty(None, None).expect("a terminal");
    let mut keyboard = File::from(terminal.master);
    let mut command = redgrid(&["--url", &server.url(), "unlock", "job", "--reason", "stuck"]);
    command.stdin(Stdio::from(terminal.slave)).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the program runs");
    keyboard.write_all(answer.as_bytes()).expect("the terminal accepts it");
    Ended::of(child.wait_with_output().expect("it ends"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_has_who_why_and_the_outcome() {
    let (server, observer) = held().await;
    let mut command = redgrid(&["--url", &server.url(), "unlock", "job", "--force", "--reason", "its process hangs"]);
    let ended = Ended::of(command.env("USER", "ada").output().expect("the program runs"));
    assert_eq!((ended.code(), ended.stdout()), (0, format!("job: taken from {HOLDER}\n")), "{}", ended.stderr());
    let [begun, ended] = &entries(&observer).await[..] else { panic!("two entries are expected") };
    assert_eq!((&begun["id"], &begun["object"], &begun["target"]), (&ended["id"], &"job".into(), &HOLDER.into()));
    assert_eq!((begun["who"].as_str(), begun["reason"].as_str()), ("ada", "its process hangs"));
    assert!(begun["from"].starts_with("redgrid unlock at ") && begun["before"].contains(HOLDER), "{begun:?}");
    assert_eq!(ended["outcome"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_that_loses_the_lock_is_named() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut holder = redgrid(&["--url", &server.url(), "lock", "job", "--", "sleep", "1000"]);
    let mut holder = holder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program runs");
    wait_until(SOON, async || observer.exists("job").await.expect("an answer")).await;
    let ended = run(&["--url", &server.url(), "unlock", "job", "--force", "--reason", "test", "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let line = ended.json();
    assert_eq!((&line["outcome"], &line["recorded"]), (&"done".into(), &true.into()), "{line}");
    assert_eq!(
        (&line["lost"][0]["pid"], &line["lost"][0]["program"]),
        (&holder.id().into(), &"redgrid".into()),
        "{line}"
    );
    let status = tokio::task::spawn_blocking(move || holder.wait()).await.expect("no panic").expect("it ends");
    assert_eq!(status.code(), Some(76), "its program is ended, as the lock is lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_record_the_holder_keeps_the_lock() {
    let (server, observer) = held().await;
    server.deny(&["xadd"]).await.expect("an answer");
    let ended = run(&["--url", &server.url(), "unlock", "job", "--force", "--reason", "test"]);
    assert_eq!((ended.code(), ended.stdout().as_str()), (77, ""), "{}", ended.stderr());
    assert!(ended.stderr().contains("cannot be recorded in `redgrid_audit`"), "{}", ended.stderr());
    assert!(ended.stderr().contains("nothing was changed"), "{}", ended.stderr());
    assert!(observer.exists("job").await.expect("an answer"));
    for reason in ["", " ", &"x".repeat(201)] {
        let ended = run(&["--url", &server.url(), "unlock", "job", "--force", "--reason", reason]);
        assert_eq!(ended.code(), 2, "{}", ended.stderr());
        assert!(ended.stderr().contains("expected 1 to 200 characters"), "{}", ended.stderr());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_asked_for_the_name() {
    let (server, observer) = held().await;
    let refused = at_a_terminal(&server, "jobs\n");
    assert_eq!((refused.code(), refused.stdout().as_str()), (2, ""), "{}", refused.stderr());
    let asked = refused.stderr();
    assert!(asked.contains(&format!("{HOLDER} loses `job`")) && asked.contains("Type the name of the lock"), "{asked}");
    assert!(asked.contains("nothing was changed"), "{asked}");
    assert!(
        observer.exists("job").await.expect("an answer") && !observer.exists("redgrid_audit").await.expect("an answer")
    );

    let done = at_a_terminal(&server, "job\n");
    assert_eq!((done.code(), done.stdout()), (0, format!("job: taken from {HOLDER}\n")), "{}", done.stderr());
    let free = async || !observer.exists("job").await.expect("an answer");
    wait_until(SOON, free).await;
    let free = at_a_terminal(&server, "");
    assert_eq!((free.code(), free.stdout().as_str()), (1, "job: was free\n"), "{}", free.stderr());
    assert!(!free.stderr().contains("Type the name"), "a free lock needs no confirmation: {}", free.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_readers_that_were_seen_lose_the_lock() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let other = HOLDER.replace(":17", ":18");
    observer.cmd(&["HSET", "prices", "mode", "read", HOLDER, "1", &other, "1"]).await.expect("an answer");
    let ended = run(&["--url", &server.url(), "unlock", "prices", "--force", "--reason", "test", "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    assert_eq!(ended.json()["lost"].as_array().map(Vec::len), Some(2));
    assert!(!observer.exists("prices").await.expect("an answer"));
    assert_eq!(entries(&observer).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_writes_by_now_keeps_the_lock() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let writer = format!("{HOLDER}:write");
    observer.cmd(&["HSET", "prices", "mode", "write", &writer, "1"]).await.expect("an answer");
    let unlock = |holder: &str| {
        let server = server.url();
        run(&["--url", &server, "unlock", "prices", "--force", "--reason", "test", "--if-holder", holder])
    };
    let reader = unlock(HOLDER);
    let passed = format!("prices: not freed, it has passed to {writer}\n");
    assert_eq!((reader.code(), reader.stdout()), (3, passed), "{}", reader.stderr());
    // The form for a writer is printed by `inspect`.
    let shown = run(&["--url", &server.url(), "inspect", "prices", "-o", "name"]);
    assert_eq!(shown.stdout(), format!("{writer}\n"), "{}", shown.stderr());
    let freed = unlock(&writer);
    assert_eq!((freed.code(), freed.stdout()), (0, format!("prices: taken from {writer}\n")), "{}", freed.stderr());
    wait_until(SOON, async || !observer.exists("prices").await.expect("an answer")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retained_lock_is_not_called_free() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    // As a holder with `hold_at_least` leaves it.
    let retained = format!("{HOLDER}:kept");
    observer.cmd(&["HSET", "job", &retained, "1"]).await.expect("an answer");
    observer.cmd(&["PEXPIRE", "job", "600000"]).await.expect("an answer");
    let ended = run(&["--url", &server.url(), "unlock", "job", "--force", "--reason", "test"]);
    let text = format!("job: not freed, it is released and stays taken until the lease of {retained} ends\n");
    assert_eq!((ended.code(), ended.stdout()), (3, text), "{}", ended.stderr());
    let line = run(&["--url", &server.url(), "unlock", "job", "--force", "--reason", "test", "--json"]).json();
    assert_eq!((&line["outcome"], &line["holders"][0]), (&"held by another".into(), &retained.into()), "{line}");
    assert!(observer.exists("job").await.expect("an answer"), "its holder keeps it");
    assert_eq!(entries(&observer).await.len(), 0, "nothing was begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retained_hold_is_printed_as_unlock_names_it() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let (retained, other) = (format!("{HOLDER}:kept"), HOLDER.replace(":17", ":18"));
    observer.cmd(&["HSET", "job", &retained, "1"]).await.expect("an answer");
    observer.cmd(&["HSET", "prices", "mode", "read", &retained, "1", &other, "1"]).await.expect("an answer");
    let url = server.url();
    for (name, names) in [("job", format!("{retained}\n")), ("prices", format!("{retained}\n{other}\n"))] {
        let shown = run(&["--url", &url, "inspect", name, "-o", "name"]);
        assert_eq!(shown.stdout(), names, "{}", shown.stderr());
        // The holder may also have been read before it released the lock.
        for named in [&retained, HOLDER] {
            let ended = run(&["--url", &url, "unlock", name, "--force", "--reason", "test", "--if-holder", named]);
            let text =
                format!("{name}: not freed, it is released and stays taken until the lease of {retained} ends\n");
            assert_eq!((ended.code(), ended.stdout()), (3, text), "{}", ended.stderr());
        }
    }
    assert_eq!(entries(&observer).await.len(), 0, "nothing was begun");
    assert_eq!(observer.query::<u64>(&["HLEN", "prices"]).await.expect("an answer"), 3);
}
