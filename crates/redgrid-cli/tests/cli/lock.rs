//! `redgrid lock`: programs under a lock.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use redgrid_testkit::{Observer, RedisServer, wait_until};

use crate::support::{Ended, is_ignored, redgrid, run};

/// Timeout of operations that take milliseconds, long enough for a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Returns the command `redgrid lock` for lock `name`, which runs `script` in a shell.
fn under(server: &RedisServer, name: &str, options: &[&str], script: &str) -> Command {
    let url = server.url();
    redgrid(&[&["--url", &url, "lock", name], options, &["--", "sh", "-c", script]].concat())
}

fn ended(mut command: Command) -> Ended {
    Ended::of(command.output().expect("the program runs"))
}

/// Starts the command with piped output.
fn started(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
}

/// Reads the first line of the child's output as a number.
fn first_number(child: &mut Child) -> i32 {
    let mut line = String::new();
    // The pipe is closed afterwards: the rest of the output is not needed.
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    line.trim().parse().expect("a number")
}

/// Whether a process runs, and is not a zombie.
fn lives(pid: i32) -> bool {
    let state = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().expect("ps runs");
    let state = String::from_utf8(state.stdout).expect("text");
    !state.trim().is_empty() && !state.starts_with('Z')
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs").success());
}

async fn is_free(observer: &Observer, name: &str) -> bool {
    !observer.exists(name).await.expect("an answer")
}

#[tokio::test]
async fn the_exit_code_of_the_command_is_passed_on_and_the_lock_is_free_afterwards() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
    {
        let ended = ended(under(&server, "job", &[], script));
        assert_eq!((ended.code(), ended.stderr().as_str()), (code, ""), "{script}");
        assert!(is_free(&observer, "job").await, "{script}");
    }
}

#[tokio::test]
async fn the_fencing_token_is_in_the_environment_and_rises() {
    let server = RedisServer::start().await.expect("a server");
    let token = || -> u64 {
        let ended = ended(under(&server, "job", &[], "echo $REDGRID_FENCING_TOKEN"));
        assert_eq!(ended.code(), 0, "{}", ended.stderr());
        ended.stdout().trim().parse().expect("a number")
    };
    let first = token();
    assert!(first > 0 && token() > first);
}

#[tokio::test]
async fn stdin_and_stdout_are_the_callers() {
    let server = RedisServer::start().await.expect("a server");
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fs::write(file.path(), "what is written\n").expect("it can be written");
    let mut command = under(&server, "job", &[], "cat; echo aside >&2");
    let ended = Ended::of(command.stdin(file.reopen().expect("it can be read")).output().expect("it runs"));
    assert_eq!((ended.stdout().as_str(), ended.stderr().as_str()), ("what is written\n", "aside\n"));
}

#[tokio::test]
async fn commands_under_one_lock_never_overlap() {
    let server = RedisServer::start().await.expect("a server");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("log");
    let script =
        format!("for i in 1 2 3; do echo begin $$ >> {0}; done; sleep 0.05; echo end $$ >> {0}", log.display());
    let runs: Vec<Child> = (0..6).map(|_| started(under(&server, "job", &[], &script))).collect();
    for run in runs {
        let output = run.wait_with_output().expect("it is ours");
        assert!(output.status.success(), "{output:?}");
    }
    assert_never_overlapping(&log, 6);
}

/// Checks a log with four lines of each command: `begin <id>` three times, then `end <id>`. The
/// lines of each command must be adjacent.
fn assert_never_overlapping(log: &Path, commands: usize) {
    let text = fs::read_to_string(log).expect("a log");
    let lines: Vec<(&str, &str)> = text.lines().map(|line| line.split_once(' ').expect("two words")).collect();
    assert_eq!(lines.len(), commands * 4, "{text}");
    for one in lines.chunks(4) {
        let words: Vec<&str> = one.iter().map(|line| line.0).collect();
        assert_eq!(words, ["begin", "begin", "begin", "end"], "{text}");
        assert!(one.iter().all(|line| line.1 == one[0].1), "{text}");
    }
}

#[tokio::test]
async fn a_wait_that_runs_out_gives_exit_code_75_and_runs_nothing() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut holder = started(under(&server, "job", &[], "sleep 1000"));
    wait_until(SOON, async || !is_free(&observer, "job").await).await;
    for (wait, least) in [("0s", 0), ("300ms", 300)] {
        let asked = Instant::now();
        let ended = ended(under(&server, "job", &["--wait", wait], "echo ran"));
        assert_eq!((ended.code(), ended.stdout().as_str()), (75, ""), "{}", ended.stderr());
        assert!(ended.stderr().contains("`job` is held by others"), "{}", ended.stderr());
        assert!(asked.elapsed() >= Duration::from_millis(least), "{wait}");
    }
    signal(holder.id(), "-TERM");
    assert_eq!(holder.wait().expect("it is ours").code(), Some(143));
}

#[tokio::test]
async fn a_waiter_runs_when_the_holder_has_ended() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut holder = started(under(&server, "job", &[], "sleep 1000"));
    wait_until(SOON, async || !is_free(&observer, "job").await).await;
    let waiter = started(under(&server, "job", &[], "echo ran"));
    wait_until(SOON, async || !observer.pubsub_channels("*:{job}").await.expect("an answer").is_empty()).await;
    signal(holder.id(), "-TERM");
    holder.wait().expect("it is ours");
    let output = waiter.wait_with_output().expect("it is ours");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"ran\n"[..]));
}

/// A shell and its child, which ignore all signals that can be ignored.
const FAMILY: &str = "trap '' TERM INT HUP; sleep 1000 & echo $!; wait";

/// Checks a lost lock: the grandchild is killed too, and the exit code is 76.
async fn assert_lost(mut run: Child, grandchild: i32, reason: &str) {
    wait_until(SOON, async || run.try_wait().expect("it is ours").is_some()).await;
    wait_until(SOON, async || !lives(grandchild)).await;
    let Output { status, stderr, .. } = run.wait_with_output().expect("it is ours");
    let told = String::from_utf8(stderr).expect("text");
    assert_eq!(status.code(), Some(76), "{told}");
    assert!(told.contains("`job` was lost") && told.contains(reason) && told.lines().count() == 1, "{told}");
}

#[tokio::test]
async fn a_lock_taken_by_force_kills_the_whole_group() {
    let server = RedisServer::start().await.expect("a server");
    let mut holder = started(under(&server, "job", &[], FAMILY));
    let grandchild = first_number(&mut holder);
    assert!(lives(grandchild));
    let freed = run(&["unlock", "--reason", "test", "--force", "job", "--url", &server.url()]);
    assert_eq!(freed.code(), 0, "{}", freed.stderr());
    assert!(freed.stdout().starts_with("job: taken from "), "{}", freed.stdout());
    assert_lost(holder, grandchild, "by force").await;
}

#[tokio::test]
async fn an_ended_lease_kills_the_whole_group_before_the_lock_is_free() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut holder = started(under(&server, "job", &["--lease", "2s"], FAMILY));
    let grandchild = first_number(&mut holder);
    // When the server has released the lock at the end of its lease, the group has already been
    // killed.
    wait_until(SOON, async || is_free(&observer, "job").await).await;
    assert!(!lives(grandchild));
    assert_lost(holder, grandchild, "its lease of 2s is over").await;
}

#[tokio::test]
async fn the_group_does_not_outlive_a_kill_of_its_keeper() {
    let server = RedisServer::start().await.expect("a server");
    let mut holder = started(under(&server, "job", &[], FAMILY));
    let grandchild = first_number(&mut holder);
    assert!(lives(grandchild));
    holder.kill().expect("it is running");
    holder.wait().expect("it is ours");
    wait_until(SOON, async || !lives(grandchild)).await;
}

#[tokio::test]
async fn signals_are_passed_on_and_the_lock_is_free_when_the_command_has_ended() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let slow = "trap 'exit 3' TERM INT; echo 1; while :; do sleep 0.02; done";
    let signals = [("-TERM", "echo 1; sleep 1000", 143), ("-TERM", slow, 3), ("-INT", slow, 3)];
    for (name, script, code) in signals.into_iter().filter(|(name, ..)| !is_ignored(name)) {
        let mut run = started(under(&server, "job", &[], script));
        first_number(&mut run);
        signal(run.id(), name);
        wait_until(SOON, async || run.try_wait().expect("it is ours").is_some()).await;
        assert_eq!(run.wait().expect("it is ours").code(), Some(code), "{name} {script}");
        assert!(is_free(&observer, "job").await, "{name} {script}");
    }
}

/// `redgrid lock` must continue the program: no other process can, because the shell waits for
/// `redgrid lock`.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_stopped_by_ctrl_z_is_continued() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut run = started(under(&server, "job", &[], "kill -TSTP $$; kill -TSTP $$; echo on; exit 3"));
    wait_until(3 * SOON, async || run.try_wait().expect("it is ours").is_some()).await;
    let output = run.wait_with_output().expect("it is ours");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"on\n"[..]));
    assert!(is_free(&observer, "job").await);
}

#[tokio::test]
async fn a_signal_ends_the_wait() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["HSET", "job", "0f8fad5b-d9cb-469f-a165-70867728950e:1", "1"]).await.expect("an answer");
    let mut waiter = started(under(&server, "job", &[], "echo ran"));
    wait_until(SOON, async || !observer.pubsub_channels("*:{job}").await.expect("an answer").is_empty()).await;
    signal(waiter.id(), "-TERM");
    wait_until(SOON, async || waiter.try_wait().expect("it is ours").is_some()).await;
    let output = waiter.wait_with_output().expect("it is ours");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(143), &b""[..]));
}

#[tokio::test]
async fn a_command_that_can_not_be_run_gives_the_code_of_a_shell_and_frees_the_lock() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    for (program, code) in [("/no/such/program", 127), ("no-such-program-either", 127), ("/etc/passwd", 126)] {
        let ended = run(&["lock", "job", "--url", &server.url(), "--", program]);
        assert_eq!(ended.code(), code, "{}", ended.stderr());
        assert!(ended.stderr().starts_with(&format!("redgrid: cannot run `{program}`")), "{}", ended.stderr());
        assert!(is_free(&observer, "job").await, "{program}");
    }
}

#[tokio::test]
async fn a_job_that_runs_once_keeps_the_lock_after_its_end() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let once = || ended(under(&server, "job", &["--at-least", "60s", "--wait", "0s"], "echo ran"));
    let first = once();
    assert_eq!((first.code(), first.stdout().as_str()), (0, "ran\n"), "{}", first.stderr());
    let left = observer.time_to_live("job").await.expect("an answer").expect("a lifetime");
    assert!(left > Duration::from_secs(40) && left <= Duration::from_secs(60), "{left:?}");
    let second = once();
    assert_eq!((second.code(), second.stdout().as_str()), (75, ""), "{}", second.stderr());
}

#[tokio::test]
async fn the_namespace_is_in_front_of_the_name() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut holder = started(under(&server, "job", &["--namespace", "prod"], "echo 1; sleep 1000"));
    first_number(&mut holder);
    assert_eq!(observer.keys("*").await.expect("an answer"), ["prod:job"]);
    let ended = run(&["unlock", "job", "--reason", "test", "--force", "--namespace", "prod", "--url", &server.url()]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    wait_until(SOON, async || holder.try_wait().expect("it is ours").is_some()).await;
    assert_eq!(holder.wait().expect("it is ours").code(), Some(76));
}

#[tokio::test]
async fn fair_programs_run_in_the_order_of_their_start() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let waiting = async || {
        let length = observer.query::<usize>(&["LLEN", "redisson_lock_queue:{job}"]).await;
        length.expect("an answer")
    };
    let mut first = started(under(&server, "job", &["--fair"], "echo $$; sleep 1000"));
    let program = first_number(&mut first);
    let mut others = Vec::new();
    for n in 1..=3 {
        let write = format!("echo {n} >> $ORDER");
        let mut command = under(&server, "job", &["--fair", "--wait", "30s"], &write);
        let order = std::env::temp_dir().join(format!("redgrid-fair-{}", server.addr().port()));
        others.push(command.env("ORDER", &order).spawn().expect("the program runs"));
        wait_until(SOON, async || waiting().await == n).await;
    }
    // With `--wait 0s` the command does not join the queue, and finds the lock busy.
    assert_eq!(ended(under(&server, "job", &["--fair", "--wait", "0s"], "true")).code(), 75);
    signal(u32::try_from(program).expect("a pid"), "-KILL");
    for mut other in others {
        assert!(other.wait().expect("it ends").success());
    }
    let order = std::env::temp_dir().join(format!("redgrid-fair-{}", server.addr().port()));
    assert_eq!(fs::read_to_string(&order).expect("a file"), "1\n2\n3\n");
    fs::remove_file(&order).expect("it goes");
    let _ = first.wait();
}

#[tokio::test]
async fn readers_run_together_and_a_writer_alone() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut readers: Vec<Child> = (0..2)
        .map(|_| started(under(&server, "job", &["--read"], "echo 1${REDGRID_FENCING_TOKEN}; sleep 30")))
        .collect();
    for reader in &mut readers {
        assert_eq!(first_number(reader), 1, "both are in, without a token");
    }
    let busy = ended(under(&server, "job", &["--write", "--wait", "0s"], "true"));
    assert_eq!(busy.code(), 75);
    for reader in &mut readers {
        signal(reader.id(), "-TERM");
        reader.wait().expect("it ends");
    }
    wait_until(SOON, async || is_free(&observer, "job").await).await;
    let write = ended(under(&server, "job", &["--write"], "test -n \"$REDGRID_FENCING_TOKEN\""));
    assert_eq!(write.code(), 0);
    let both = ended(under(&server, "job", &["--write", "--read"], "true"));
    assert_eq!(both.code(), 2);
}
