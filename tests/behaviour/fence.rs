//! A fence rejects late writes, and executes each accepted write exactly once.

use std::process::Stdio;
use std::time::Duration;

use redgrid_core::{Failure, Token};
use redgrid_locks::{Client, Fence, FenceError, Lock};
use redgrid_testkit::{Action, Observer, Proxy, wait_until};
use redgrid_tests::process::{Signal, send_signal};
use redgrid_tests::{SOON, client, client_with, server, sha};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

const CHECK: &str = include_str!("../../crates/redgrid-core/src/fence/scripts/check.lua");
const WRITE: &str = include_str!("../../crates/redgrid-core/src/fence/scripts/write.lua");

fn token(number: u64) -> Token {
    Token::new(number)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_token_is_rejected_with_the_highest() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (early, late) = {
        let early = Lock::new(&one, "a").acquire().await.unwrap().token();
        (early, Lock::new(&two, "a").acquire().timeout(SOON).await.unwrap().token())
    };
    let (first, second) = (Fence::new(&one, "a"), Fence::new(&two, "a"));
    assert_eq!(first.highest().await.unwrap(), None);
    first.check_and_set(early).await.unwrap();
    first.check_and_set(early).await.unwrap();
    second.check_and_set(late).await.unwrap();
    assert_eq!(first.highest().await.unwrap(), Some(late));
    let refused = first.check_and_set(early).await.unwrap_err();
    assert!(
        matches!(&refused, FenceError::Stale { token, highest, .. } if (*token, *highest) == (early, late)),
        "{refused:?}"
    );
    // Tests every kind of write, to the key named like the fence and to keys with the same hash
    // tag.
    let fence = Fence::new(&one, "{b}");
    fence.set("{b}", "x", early).await.unwrap();
    assert!(fence.hash_set("{b}:hash", "field", "1", early).await.unwrap());
    assert!(!fence.hash_set("{b}:hash", "field", "2", early).await.unwrap());
    assert_eq!(fence.increment("{b}:sum", 5, early).await.unwrap(), 5);
    assert_eq!(fence.increment("{b}:sum", -7, late).await.unwrap(), -2);
    assert!(matches!(fence.set("{b}", "y", early).await, Err(FenceError::Stale { .. })));
    assert!(matches!(fence.hash_set("{b}:hash", "field", "3", early).await, Err(FenceError::Stale { .. })));
    assert!(matches!(fence.increment("{b}:sum", 1, early).await, Err(FenceError::Stale { .. })));
    assert!(matches!(fence.delete("{b}", early).await, Err(FenceError::Stale { .. })));
    let observer = server.observer().await.unwrap();
    assert_eq!(observer.get::<String>("{b}").await.unwrap().as_deref(), Some("x"));
    assert_eq!(observer.query::<String>(&["HGET", "{b}:hash", "field"]).await.unwrap(), "2");
    assert!(fence.delete("{b}", late).await.unwrap());
    assert!(!fence.delete("{b}", late).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_compared_and_added_exactly() {
    let server = server().await;
    let fence = Fence::new(&client(&server).await, "{a}").without_lifetime();
    // Lua numbers are not exact above 2^53; and compared as text, 9 is greater than 10.
    for (low, high) in [(9, 10), ((1 << 53) + 1, (1 << 53) + 2), (u64::MAX - 1, u64::MAX)] {
        fence.check_and_set(token(high)).await.unwrap();
        let refused = fence.check_and_set(token(low)).await;
        assert!(matches!(&refused, Err(FenceError::Stale { highest, .. }) if *highest == token(high)), "{refused:?}");
    }
    let most = token(u64::MAX);
    assert_eq!(fence.increment("{a}:n", i64::MAX - 1, most).await.unwrap(), i64::MAX - 1);
    assert_eq!(fence.increment("{a}:n", 1, most).await.unwrap(), i64::MAX);
    let over = fence.increment("{a}:n", 1, most).await;
    assert!(matches!(over, Err(FenceError::Failed(Failure::Refused { .. }))), "{over:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_fence_rejects_older_tokens_than_it_remembers() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let hour = Duration::from_secs(3600);
    let (old, new) = {
        let now = observer.server_time_micros().await.unwrap();
        (token(now - 2 * 3_600_000_000), token(now))
    };
    let fence = Fence::new(&client, "{a}").lifetime(hour);
    fence.check_and_set(new).await.unwrap();
    let left = observer.time_to_live("redgrid_fence:{a}").await.unwrap();
    assert!(left.is_some_and(|left| left > hour - SOON && left <= hour), "{left:?}");
    // The server's record of the token is deleted, as at the end of its lifetime.
    observer.cmd(&["DEL", "redgrid_fence:{a}"]).await.unwrap();
    assert!(matches!(fence.check_and_set(old).await, Err(FenceError::Expired { .. })));
    assert!(matches!(fence.set("{a}", "x", old).await, Err(FenceError::Expired { .. })));
    assert!(!observer.exists("{a}").await.unwrap());
    fence.set("{a}", "x", new).await.unwrap();
    // A shorter lifetime of another fence object does not shorten the token's lifetime. A fence
    // without a lifetime keeps the token for ever.
    Fence::new(&client, "{a}").lifetime(Duration::from_secs(60)).set("{a}", "y", new).await.unwrap();
    assert!(observer.time_to_live("redgrid_fence:{a}").await.unwrap() > Some(hour / 2));
    Fence::new(&client, "{a}").without_lifetime().check_and_set(new).await.unwrap();
    fence.set("{a}", "z", new).await.unwrap();
    assert_eq!(observer.query::<i64>(&["PTTL", "redgrid_fence:{a}"]).await.unwrap(), -1);
}

/// Tokens are kept until they are older than the lifetime. The lock may be on another server whose
/// clock is ahead.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_ahead_of_the_clock_are_remembered_for_the_lead_as_well() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
    let ahead = token(observer.server_time_micros().await.unwrap() + 3_600_000_000);
    for write in [false, true] {
        let fence = Fence::new(&client, format!("{{{write}}}")).lifetime(minute);
        match write {
            true => fence.set("{true}", "x", ahead).await.unwrap(),
            false => fence.check_and_set(ahead).await.unwrap(),
        }
        let left = observer.time_to_live(&format!("redgrid_fence:{{{write}}}")).await.unwrap();
        assert!(left.is_some_and(|left| left > hour + minute - SOON && left < hour + 2 * minute), "{left:?}");
    }
    // A token may be ahead by any amount of time.
    Fence::new(&client, "{far}").check_and_set(token(u64::MAX)).await.unwrap();
    assert!(observer.time_to_live("redgrid_fence:{far}").await.unwrap() > Some(1000 * hour));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_elsewhere_and_a_wrong_type_write_nothing() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let fence = Fence::new(&client, "ledger");
    let now = token(observer.server_time_micros().await.unwrap());
    assert!(matches!(fence.set("ledger:total", "x", now).await, Err(FenceError::OtherSlot { .. })));
    assert!(observer.keys("*").await.unwrap().is_empty());
    fence.hash_set("ledger", "field", "x", now).await.unwrap();
    let wrong = fence.increment("ledger", 1, now).await;
    assert!(matches!(wrong, Err(FenceError::Failed(Failure::Refused { .. }))), "{wrong:?}");
    // With a namespace, the key named like the fence and keys with its hash tag are still allowed.
    let prod = client_with(&server.url(), |config| config.namespace("prod").unwrap()).await;
    Fence::new(&prod, "name").set("name", "x", now).await.unwrap();
    Fence::new(&prod, "{tag}").set("{tag}:more", "x", now).await.unwrap();
    assert!(observer.exists("redgrid_fence:{prod:name}").await.unwrap());
    assert!(observer.exists("redgrid_fence:prod:{tag}").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_with_a_lost_answer_is_carried_out_once() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let quick = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(600));
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let fence = Fence::new(&client, "{a}");
    let now = token(observer.server_time_micros().await.unwrap());
    fence.set("{a}", "warm", now).await.unwrap();
    fence.check_and_set(now).await.unwrap();
    for lost in 1..=3 {
        proxy.next(1, sha(WRITE), Action::SwallowReply);
        assert_eq!(fence.increment("{a}:sum", 1, now).await.unwrap(), lost);
        assert_eq!(proxy.counts().swallowed, lost as u64);
    }
    proxy.next(1, sha(CHECK), Action::SwallowReply);
    fence.check_and_set(now).await.unwrap();
    assert_eq!(observer.query::<i64>(&["GET", "{a}:sum"]).await.unwrap(), 3);
    // The records of replies expire by themselves.
    let memories = observer.keys("redgrid_fence:{a}:*").await.unwrap();
    assert_eq!(memories.len(), 4);
    for memory in memories {
        assert!(observer.time_to_live(&memory).await.unwrap().is_some_and(|left| left < Duration::from_secs(60)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_write_is_not_reported_as_unwritten() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let quick = |config: redgrid_core::Config| config.response_timeout(Duration::from_secs(3)).retries(1);
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let fence = Fence::new(&client, "{a}");
    let now = token(observer.server_time_micros().await.unwrap());
    fence.set("{a}", "warm", now).await.unwrap();
    // The write is executed, and its reply is lost. The retransmission is rejected.
    proxy.next(1, sha(WRITE), Action::SwallowReply);
    let writing = tokio::spawn(async move { (fence.increment("{a}:sum", 1, now).await, fence) });
    wait_until(SOON, async || observer.exists("{a}:sum").await.unwrap()).await;
    observer.cmd(&["DEL", "redgrid_fence:{a}"]).await.unwrap();
    observer.cmd(&["LPUSH", "redgrid_fence:{a}", "no text"]).await.unwrap();
    for memory in observer.keys("redgrid_fence:{a}:*").await.unwrap() {
        observer.cmd(&["DEL", &memory]).await.unwrap();
    }
    proxy.cut_all();
    let (unknown, fence) = writing.await.unwrap();
    assert!(matches!(unknown, Err(FenceError::Failed(Failure::OutcomeUnknown { .. }))), "{unknown:?}");
    assert_eq!(observer.query::<i64>(&["GET", "{a}:sum"]).await.unwrap(), 1);
    observer.cmd(&["DEL", "redgrid_fence:{a}"]).await.unwrap();
    // The write is executed, and then the server becomes unreachable.
    proxy.next(1, sha(WRITE), Action::SwallowReply);
    let writing = tokio::spawn(async move { fence.increment("{a}:sum", 1, now).await });
    wait_until(SOON, async || observer.query::<i64>(&["GET", "{a}:sum"]).await.unwrap() == 2).await;
    proxy.refuse_connections().await.unwrap();
    proxy.cut_all();
    let unknown = writing.await.unwrap();
    assert!(matches!(unknown, Err(FenceError::Failed(Failure::OutcomeUnknown { .. }))), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_copy_does_not_undo_newer_writes_of_its_holder() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let config = |config: redgrid_core::Config| config.response_timeout(Duration::from_secs(3));
    let client = client_with(&server.url_via(proxy.addr()), config).await;
    let fence = Fence::new(&client, "{a}");
    let now = token(observer.server_time_micros().await.unwrap());
    fence.set("{a}", "warm", now).await.unwrap();
    // The proxy holds the first copy. Its connection is replaced, and a second copy is executed.
    proxy.next(1, sha(WRITE), Action::Hold);
    let writing = { tokio::spawn(async move { (fence.set("{a}", "one", now).await, fence) }) };
    wait_until(SOON, async || proxy.counts().held == 1).await;
    proxy.cut_all();
    let (written, fence) = writing.await.unwrap();
    written.unwrap();
    fence.set("{a}", "two", now).await.unwrap();
    assert_eq!(proxy.release_held().await, 1, "the copy reached the server");
    assert_eq!(observer.get::<String>("{a}").await.unwrap().as_deref(), Some("two"));
}

/// Returns how many trials of a paused writer to run: 10,000 take some minutes.
fn trials() -> usize {
    std::env::var("REDGRID_PAUSED_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

/// A paused holder cannot write a stale value under a fence. In each trial, the holder of a lock is
/// stopped by a signal during a write; it is in a separate process. Another holder writes before
/// the first one continues. The pause is real, and one signal stops the holders of 250 locks.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_paused_past_its_lease_writes_nothing_stale_under_a_fence() {
    const AT_A_TIME: usize = 250;
    let server = server().await;
    // 250 concurrent requests may take long on a slow machine.
    let next = client_with(&server.url(), |config| config.response_timeout(SOON)).await;
    let observer = server.observer().await.unwrap();
    let mut writer = Command::new(env!("CARGO_BIN_EXE_role"))
        .arg("writer")
        .args([server.url().as_str(), "3000"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    let mut output = BufReader::new(writer.stdout.take().unwrap()).lines();
    let pid = writer.id().unwrap();
    let (mut paused, mut stale, mut unfenced, mut refused) = (0, 0, 0, 0);
    for round in 0.. {
        if paused >= trials() {
            break;
        }
        assert!(round < 10 + 3 * trials() / AT_A_TIME, "{paused} trials only in {round} rounds");
        input.write_all(format!("{round} {AT_A_TIME}\n").as_bytes()).await.unwrap();
        let mut line = async || tokio::time::timeout(3 * SOON, output.next_line()).await.unwrap().unwrap().unwrap();
        assert_eq!(line().await, "writing");
        send_signal(pid, Signal::SIGSTOP);
        let took: Vec<_> = (0..AT_A_TIME).map(|n| tokio::spawn(take(next.clone(), format!("{round}:{n}")))).collect();
        let mut fresh = Vec::new();
        for take in took {
            fresh.push(take.await.unwrap());
        }
        send_signal(pid, Signal::SIGCONT);
        let done = line().await;
        refused += done.strip_prefix("done ").unwrap().parse::<u64>().unwrap();
        for (n, (token, was_held)) in fresh.into_iter().enumerate() {
            if was_held {
                let reads = async |key: &str| read(&observer, &format!("{{{round}:{n}}}:{key}")).await;
                paused += 1;
                stale += usize::from(reads("fenced").await != token.get());
                unfenced += usize::from(reads("plain").await != token.get());
            }
        }
    }
    println!("{paused} trials: {stale} stale writes with a fence, which refused {refused}; {unfenced} without");
    assert_eq!(stale, 0);
    assert!(unfenced > 0 && refused > 0, "nothing was written late in {paused} trials: they prove nothing");
}

/// Acquires the lock of a paused holder, and writes with and without the fence. Returns the token,
/// and whether the lock was held at first.
async fn take(client: Client, name: String) -> (Token, bool) {
    let lock = Lock::new(&client, &name);
    let (guard, was_held) = match lock.try_acquire().await.unwrap() {
        Some(guard) => (guard, false),
        None => (lock.acquire().timeout(SOON).await.unwrap(), true),
    };
    let token = guard.token();
    let set = client.command("SET").key(format!("{{{name}}}:plain")).unwrap().arg(token.to_string());
    set.query::<()>().await.unwrap();
    let fence = Fence::new(&client, format!("{{{name}}}"));
    fence.set(format!("{{{name}}}:fenced"), token.to_string(), token).await.unwrap();
    guard.release().await.unwrap();
    (token, was_held)
}

async fn read(observer: &Observer, key: &str) -> u64 {
    observer.get(key).await.unwrap().unwrap_or(0)
}
