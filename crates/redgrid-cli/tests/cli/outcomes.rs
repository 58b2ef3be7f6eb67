//! Messages and exit codes of `redgrid lock` if the server crashes, hangs or rejects requests: the
//! command line column of the table in `tests/outcomes`. The rows about the runtime and the
//! shutdown of a client are not tested here, because the program controls both itself.

use std::process::{Child, Output, Stdio};
use std::time::Duration;

use redgrid_testkit::{RedisServer, StartError, wait_until};

use crate::support::{Ended, redgrid};

/// Timeout of operations that take milliseconds, long enough for a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Exit code: the server is unavailable, or rejects the client.
const UNAVAILABLE: i32 = 69;

/// Exit code: others held the lock for longer than `--wait`.
const BUSY: i32 = 75;

fn lock(url: &str, options: &[&str]) -> Child {
    let arguments = [&["--url", url, "lock", "job"], options, &["--", "true"]].concat();
    redgrid(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
}

/// Waits until the command ends, for at most `SOON`.
async fn ended(child: Child) -> Ended {
    let output = tokio::task::spawn_blocking(move || -> Output { child.wait_with_output().expect("it ends") });
    Ended::of(tokio::time::timeout(SOON, output).await.expect("it ends in time").expect("it is waited for"))
}

async fn waits_for_others(server: &RedisServer, then: impl AsyncFnOnce()) -> Ended {
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["HSET", "job", "somebody:1", "1"]).await.expect("an answer");
    observer.cmd(&["PEXPIRE", "job", "600000"]).await.expect("an answer");
    let waiting = lock(&format!("{}?response_timeout=500ms", server.url()), &["--wait", "3s"]);
    wait_until(SOON, async || {
        let channels = observer.pubsub_channels("redisson_lock__channel*").await;
        channels.is_ok_and(|channels| !channels.is_empty())
    })
    .await;
    then().await;
    ended(waiting).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_others_exits_75_while_the_server_lives_and_69_where_it_died_or_hangs() {
    let server = RedisServer::start().await.expect("a server");
    assert_eq!(waits_for_others(&server, async || {}).await.code(), BUSY);
    let hangs = waits_for_others(&server, async || server.pause().await.expect("it stands still")).await;
    server.resume().await.expect("it goes on");
    let died = waits_for_others(&server, async || server.kill().await.expect("it ends")).await;
    for ended in [hangs, died] {
        assert_eq!((ended.code(), ended.stdout().as_str()), (UNAVAILABLE, ""), "{}", ended.stderr());
        assert!(ended.stderr().contains("cannot work with the server at"), "{}", ended.stderr());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_the_password_or_is_not_there_is_exit_69_with_the_reason() {
    let server = RedisServer::builder().password("right").start().await.expect("a server");
    let refused = ended(lock(&server.url_for("default", "wrong"), &[])).await;
    assert_eq!(refused.code(), UNAVAILABLE);
    assert!(refused.stderr().contains("WRONGPASS"), "{}", refused.stderr());
    let addr = server.addr();
    server.kill().await.expect("it ends");
    let gone = ended(lock(&format!("redis://{addr}"), &[])).await;
    assert_eq!(gone.code(), UNAVAILABLE);
    assert!(gone.stderr().contains("Connection refused"), "{}", gone.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_strangers_is_exit_69_with_the_reason() {
    let server = match RedisServer::builder().tls().start().await {
        Err(error @ StartError::NoTls { .. }) => return eprintln!("SKIPPED: {error}"),
        server => server.expect("a server"),
    };
    // The system's trust store does not contain the authority of the server's certificate.
    let refused = ended(lock(&server.tls_url().expect("TLS"), &[])).await;
    assert_eq!(refused.code(), UNAVAILABLE);
    assert!(refused.stderr().contains("certificate"), "{}", refused.stderr());
}
