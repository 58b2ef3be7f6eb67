//! The minimal permissions published in the documentation are sufficient.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redgrid_locks::{Client, Lock};
use redgrid_semaphore::Semaphore;
use redgrid_testkit::redis::Value;
use redgrid_testkit::{RedisServer, ServerBinary, wait_until};
use redgrid_tests::{SOON, client_with, published_rules, server};

use crate::introspection::Asker;

/// Returns the published rules for locks, without the user's name.
fn published() -> Vec<String> {
    published_rules("on ")
}

/// Returns all lines of the page in order, as commands.
fn lines() -> impl Iterator<Item = Vec<String>> {
    let page = include_str!("../../docs/operating/acl.md").lines().filter(|line| line.starts_with("ACL SETUSER app "));
    page.map(|line| line.replace("SECRET", "secret").split(' ').map(str::to_owned).collect())
}

/// Returns the key patterns that the page names besides `~*`, without duplicates.
fn narrow() -> BTreeSet<&'static str> {
    let quoted = include_str!("../../docs/operating/acl.md").split('`').skip(1).step_by(2);
    quoted.flat_map(|text| text.split(' ')).filter(|rule| rule.starts_with('~') && *rule != "~*").collect()
}

/// The server accepts each published line. For example, a key pattern after `~*` would be an error.
#[tokio::test(flavor = "multi_thread")]
async fn every_published_line_is_accepted_with_narrower_keys_too() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    // A server before 7.0 lacks some commands of the page.
    let mut unknown = BTreeSet::new();
    if server.binary().version().major < 7 {
        for rule in lines().flatten().filter(|rule| rule.starts_with('+')) {
            let command = rule[1..].split('|').next().unwrap_or_default();
            let found: Vec<Value> = observer.query(&["COMMAND", "INFO", command]).await.unwrap();
            if found.iter().all(|command| *command == Value::Nil) {
                unknown.insert(rule);
            }
        }
    }
    let known = |rule: &String| !unknown.contains(rule);
    // A server before Redis 7.4 has no lifetimes of hash fields.
    let of_fields: Vec<Value> = observer.query(&["COMMAND", "INFO", "HPEXPIRE"]).await.unwrap();
    let knows_fields = of_fields.iter().any(|command| *command != Value::Nil);
    for line in lines() {
        let line: Vec<_> = line.into_iter().filter(known).collect();
        if !knows_fields && line.iter().any(|rule| rule == "+hpexpire") {
            continue;
        }
        observer.cmd(&line).await.unwrap_or_else(|error| panic!("{}: {error}", line.join(" ")));
    }
    assert!(narrow().contains("~redgrid_commit:*") && narrow().contains("~redgrid_birth"), "{:?}", narrow());
    observer.cmd(&["ACL", "SETUSER", "app", "resetkeys"]).await.unwrap();
    for pattern in narrow() {
        observer.cmd(&["ACL", "SETUSER", "app", pattern]).await.unwrap_or_else(|error| panic!("{pattern}: {error}"));
    }
}

async fn complete_lifecycle(server: RedisServer) {
    let observer = server.observer().await.unwrap();
    let mut command = vec!["ACL".to_owned(), "SETUSER".to_owned(), "app".to_owned()];
    command.extend(published());
    observer.cmd(&command).await.unwrap();
    let url = server.url_for("app", "secret");
    let lease = Duration::from_millis(600);
    let one = client_with(&url, |config| config.watchdog_lease(lease)).await;
    let two = client_with(&url, |config| config).await;
    let lock = Lock::new(&one, "orders:42");
    let held = lock.acquire().await.unwrap();
    // The test waits until the lock was renewed at least twice.
    let renewed = tokio::time::Instant::now() + 2 * lease;
    tokio::time::sleep_until(renewed).await;
    assert!(held.is_held());
    held.extend(Duration::from_secs(5)).await.unwrap();
    // A waiter subscribes, and the message wakes it.
    let waiter = tokio::spawn(Lock::new(&two, "orders:42").acquire().timeout(SOON).into_future());
    let channel = "redisson_lock__channel:{orders:42}".to_owned();
    wait_until(SOON, async || observer.pubsub_channels("*").await.unwrap().contains(&channel)).await;
    held.release().await.unwrap();
    let held = waiter.await.unwrap().unwrap();
    assert!(lock.is_locked().await.unwrap());
    // Fixed leases of both kinds of lock, a minimum hold, and a forced release.
    let fixed = Lock::new(&one, "fixed").acquire().lease(Duration::from_secs(5)).await.unwrap();
    fixed.extend(Duration::from_secs(2)).await.unwrap();
    fixed.release().await.unwrap();
    Lock::new(&one, "job").acquire().hold_at_least(Duration::from_millis(200)).await.unwrap().release().await.unwrap();
    let thief = lock.steal().await.unwrap();
    tokio::time::timeout(SOON, held.lost()).await.unwrap();
    assert_eq!(Asker::new(&server).await.ask(&one).await.id, one.id());
    assert!(Lock::new(&two, "orders:42").force_release().await.unwrap());
    tokio::time::timeout(SOON, thief.lost()).await.unwrap();
    one.shutdown(SOON).await.unwrap();
    two.shutdown(SOON).await.unwrap();
    // All needed commands were permitted: the log has entries of the handshake at most.
    let log: Vec<redgrid_testkit::redis::Value> = observer.query(&["ACL", "LOG"]).await.unwrap();
    assert!(log.is_empty(), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_works_with_the_published_permissions() {
    complete_lifecycle(server().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_line_is_enough_on_the_newest_server_too() {
    let test = "the_published_line_is_enough_on_the_newest_server_too";
    let Some(newest) = ServerBinary::newest_or_skip(test) else { return };
    complete_lifecycle(RedisServer::builder().binary(newest).start().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_password_is_sent_and_a_missing_one_rejected() {
    let server = server().await;
    server.set_user("app", &["on", "nopass", "~*", "&*", "+@all"]).await.unwrap();
    let client = client_with(&format!("redis://app:@{}", server.addr()), |config| config).await;
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
    assert!(server.clients().await.unwrap().iter().all(|client| client.user == "app"));
    // Without a password, the connection would be that of `default`, with all permissions.
    let config = redgrid_core::Config::from_url(format!("redis://app@{}", server.addr())).unwrap();
    let refused = redgrid_core::Client::connect(config).await.unwrap_err();
    assert!(refused.to_string().contains("a user logs in with a password"), "{refused}");
}

/// A password may contain any characters. `AUTH` must be sent with separate arguments: in one line
/// of words, such a password would be a syntax error.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_may_have_spaces_quotes_and_whatever_else() {
    let server = server().await;
    for password in ["two words", "it's", "say \"so\"", "back\\slash\\", "line\r\nPING", "\ttab", "Übermut €"] {
        server.set_user("app", &["reset", "on", &format!(">{password}"), "~*", "&*", "+@all"]).await.unwrap();
        let config = redgrid_core::Config::single(server.addr().to_string()).unwrap();
        let client = redgrid_core::Client::connect(config.credentials(Some("app"), password)).await.unwrap();
        client.wait_ready(SOON).await.unwrap_or_else(|error| panic!("{password:?}: {error:?}"));
        let user: String = client.command("ACL").arg("WHOAMI").query().await.unwrap();
        assert_eq!(user, "app", "{password:?}");
    }
}

/// Returns the URL of a user without the permission to publish.
async fn muted(server: &RedisServer) -> String {
    let observer = server.observer().await.unwrap();
    let mut rules = vec!["ACL", "SETUSER", "mute", "on", ">secret", "~*", "&*", "+@all", "-publish"];
    if server.binary().version().major >= 7 {
        rules.push("-spublish");
    }
    observer.cmd(&rules).await.unwrap();
    server.url_for("mute", "secret")
}

async fn with_lock(client: Client, section: Duration) {
    let guard = Lock::new(&client, "a").acquire().await.unwrap();
    tokio::time::sleep(section).await;
    guard.release().await.unwrap();
}

async fn with_permit(client: Client, section: Duration) {
    let permit = Semaphore::new(&client, "a", 1).acquire().await.unwrap();
    tokio::time::sleep(section).await;
    permit.release().await.unwrap();
}

/// Without the permission to publish, another process notices a release by a poll. The releasing
/// process waits long enough for this poll.
#[tokio::test(flavor = "multi_thread")]
async fn without_publish_other_processes_enter_despite_local_waiters() {
    lets_others_in::<16, _>(with_lock).await;
}

/// A process with a single task lets other processes enter. The task is subscribed only while it
/// waits, so the other process is the only subscriber at each release.
#[tokio::test(flavor = "multi_thread")]
async fn without_publish_a_single_task_lets_others_enter() {
    lets_others_in::<1, _>(with_lock).await;
}

/// Another process gets permits although the tasks of one process hand permits over to each other.
#[tokio::test(flavor = "multi_thread")]
async fn without_publish_others_get_permits_despite_local_waiters() {
    lets_others_in::<16, _>(with_permit).await;
}

/// One process has this many tasks, which run sections without a pause. Another process must be
/// able to run six sections meanwhile.
async fn lets_others_in<const TASKS: usize, F>(work: fn(Client, Duration) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let server = server().await;
    let url = muted(&server).await;
    let (busy, other) = (client_with(&url, |config| config).await, client_with(&url, |config| config).await);
    let (stop, sections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let tasks = [(); TASKS].map(|()| {
        let (busy, stop, sections) = (busy.clone(), Arc::clone(&stop), Arc::clone(&sections));
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                // The section takes time, so that the other process rarely finds the lock free by
                // chance.
                work(busy.clone(), Duration::from_millis(5)).await;
                sections.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    // The other process may enter between two sections by chance, so it must enter six times.
    let all = async {
        for _ in 0..6 {
            work(other.clone(), Duration::ZERO).await;
        }
    };
    let done = tokio::time::timeout(SOON, all).await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    assert!(done.is_ok(), "the other process did not enter");
    // A hand-over window has time for two or three sections.
    let sections = sections.load(Ordering::Relaxed);
    assert!(sections < 50 * 6, "{sections} sections while another got in six times");
}

/// A process without other subscribers does not wait after a release. In this test each wait would
/// last ten minutes.
#[tokio::test(flavor = "multi_thread")]
async fn without_publish_a_lone_process_does_not_wait() {
    let server = server().await;
    let url = muted(&server).await;
    let client = client_with(&url, |config| config.poll_interval(Duration::from_secs(600))).await;
    let tasks = [(); 4].map(|()| {
        let lock = Lock::new(&client, "a");
        tokio::spawn(async move {
            for _ in 0..250 {
                lock.acquire().await.unwrap().release().await.unwrap();
            }
        })
    });
    for task in tasks {
        tokio::time::timeout(2 * SOON, task).await.expect("a process without others").unwrap();
    }
}
