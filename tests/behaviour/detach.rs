//! A hold is handed over between processes: detached in one, attached in another, and valid in one
//! at a time.

use redgrid_core::author::ClientExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_locks::{AttachError, DetachError, Detached, FencedLock, Holder, Lock, LostReason, SpinLock};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::{NOTHING, SOON, client, client_with, script, server};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(flavor = "multi_thread")]
async fn one_process_holds_it_at_a_time_and_the_token_stays() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = Lock::new(&one, "a").acquire().await.unwrap();
    let (watch, token) = (guard.watch(), guard.token());
    let detached = guard.detach().await.unwrap();
    assert!(!watch.is_held(), "no process holds it while it moves");
    assert_eq!((watch.lost_reason(), one.stats()), (None, NOTHING));
    // The detached hold is sent as text, and the lock stays held all the time.
    let json = serde_json::to_string(&detached).unwrap();
    assert!(Lock::new(&two, "a").try_acquire().await.unwrap().is_none());
    let detached: Detached = serde_json::from_str(&json).unwrap();
    let (lock, lease) = (Lock::new(&two, "a"), one.watchdog_lease());
    assert!(detached.left() <= lease && detached.left() > lease / 2, "{json}");
    let guard = lock.attach(&detached).await.unwrap();
    assert_eq!((guard.token(), guard.is_held()), (token, true));
    let state = lock.inspect().await.unwrap().unwrap();
    assert_eq!((state.holders.len(), state.holders[0].client.as_str()), (1, two.id()));
    // The hold can be attached only once: this client cannot attach it again, nor can the former
    // process.
    for client in [&one, &two] {
        let again = Lock::new(client, "a").attach(&detached).await;
        assert!(matches!(again, Err(AttachError::Gone { .. })), "{again:?}");
    }
    assert!(guard.is_held());
    guard.release().await.unwrap();
    assert!(matches!(lock.attach(&detached).await, Err(AttachError::Gone { .. })));
    let next = Lock::new(&one, "a").try_acquire().await.unwrap().unwrap();
    assert!(next.token() > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_attaches_one_succeeds() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    for round in 0..20 {
        let guard = Lock::new(&clients[round % 3], "a").acquire().timeout(SOON).await.unwrap();
        let detached = guard.detach().await.unwrap();
        let tasks: Vec<_> = (0..9)
            .map(|n| {
                let (lock, detached) = (Lock::new(&clients[n % 3], "a"), detached.clone());
                tokio::spawn(async move { lock.attach(&detached).await })
            })
            .collect();
        let mut guards = Vec::new();
        for task in tasks {
            match task.await.unwrap() {
                Ok(guard) => guards.push(guard),
                Err(AttachError::Gone { .. }) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(guards.len(), 1, "in round {round}");
        assert!(guards[0].is_held());
        guards.pop().unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_keeps_waiting_until_the_release_elsewhere() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = Lock::new(&one, "a").acquire().await.unwrap();
    let waiter = tokio::spawn(Lock::new(&one, "a").acquire().timeout(SOON).into_future());
    wait_until(SOON, async || one.stats().waiting == 1).await;
    let detached = guard.detach().await.unwrap();
    let there = Lock::new(&two, "a").attach(&detached).await.unwrap();
    // The waiter must be woken by the message of the release. Otherwise it would poll only when the
    // lease that it has read ends.
    wait_until(SOON, async || one.stats().channels == 1).await;
    assert!(!waiter.is_finished() && there.is_held());
    there.release().await.unwrap();
    let here = waiter.await.unwrap().unwrap();
    assert!(here.token() > detached.token());
    here.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_the_process_that_attached_have_it_next_with_higher_tokens() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let mut last = None;
    for _ in 0..5 {
        // The lock has several owners in one process, then several in the other. Each token is
        // higher than the one before, and none is ahead of the server's clock.
        for client in [&one, &two] {
            for _ in 0..3 {
                let guard = Lock::new(client, "a").acquire().timeout(SOON).await.unwrap();
                assert!(last < Some(guard.token()));
                last = Some(guard.token());
                guard.release().await.unwrap();
            }
        }
        let guard = Lock::new(&one, "a").acquire().timeout(SOON).await.unwrap();
        assert!(last < Some(guard.token()));
        last = Some(guard.token());
        let guard = Lock::new(&two, "a").attach(&guard.detach().await.unwrap()).await.unwrap();
        assert_eq!(last, Some(guard.token()));
        let waiter = tokio::spawn(Lock::new(&two, "a").acquire().timeout(SOON).into_future());
        wait_until(SOON, async || two.stats().waiting == 1).await;
        guard.release().await.unwrap();
        let next = waiter.await.unwrap().unwrap();
        assert!(last < Some(next.token()), "{last:?} {:?}", next.token());
        last = Some(next.token());
        next.release().await.unwrap();
    }
    let now = server.observer().await.unwrap().server_time_micros().await.unwrap();
    assert!(last.unwrap().get() <= now);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attached_lease_is_renewed_and_a_fixed_one_ends_as_planned() {
    let server = server().await;
    // The lease is long enough for a machine that stalls occasionally.
    let short = |config: redgrid_core::Config| config.watchdog_lease(6000 * MS);
    let one = client_with(&server.url(), short).await;
    let two = client_with(&server.url(), short).await;
    let renewed = Lock::new(&one, "renewed").acquire().await.unwrap().detach().await.unwrap();
    let renewed = Lock::new(&two, "renewed").attach(&renewed).await.unwrap();
    let began = tokio::time::Instant::now();
    let fixed = Lock::new(&one, "fixed").acquire().lease(13_000 * MS).await.unwrap();
    wait_until(SOON, async || began.elapsed() > 1000 * MS).await;
    let fixed = Lock::new(&two, "fixed").attach(&fixed.detach().await.unwrap()).await.unwrap();
    assert!(fixed.is_held() && fixed.remaining() < 12_000 * MS, "{:?}", fixed.remaining());
    assert_eq!(fixed.lost().await, LostReason::Expired);
    let lasted = began.elapsed();
    assert!(lasted > 12_000 * MS && lasted < 13_000 * MS + SOON / 2, "{lasted:?}");
    assert!(renewed.is_held(), "two leases later");
    renewed.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unattached_hold_ends_with_its_lease() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let guard = Lock::new(&one, "a").acquire().auto_renew(2000 * MS).await.unwrap();
    let detached = guard.detach().await.unwrap();
    let next = Lock::new(&two, "a").acquire().timeout(SOON).await.unwrap();
    assert!(next.token() > detached.token());
    assert!(matches!(Lock::new(&one, "a").attach(&detached).await, Err(AttachError::Gone { .. })));
    assert!(next.is_held());
    // A forced takeover also ends a hold that is detached.
    let detached = next.detach().await.unwrap();
    let thief = Lock::new(&one, "a").steal().await.unwrap();
    assert!(thief.token() > detached.token());
    assert!(matches!(Lock::new(&two, "a").attach(&detached).await, Err(AttachError::Gone { .. })));
    assert!(thief.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_cannot_be_detached_stays_with_its_guard() {
    let server = server().await;
    let (client, me) = (client(&server).await, Holder::new());
    let lock = Lock::new(&client, "a");
    let outer = lock.acquire().holder(&me).await.unwrap();
    let inner = lock.acquire().holder(&me).await.unwrap();
    let kept = outer.detach().await.unwrap_err();
    assert!(matches!(kept.why, DetachError::Shared { .. }), "{kept:?}");
    assert!(kept.guard.is_held() && inner.is_held());
    drop(inner);
    let detached = kept.guard.detach().await.unwrap();
    let other = Lock::new(&client, "b").attach(&detached).await;
    assert!(matches!(other, Err(AttachError::OtherLock { .. })), "{other:?}");
    let guard = lock.attach(&detached).await.unwrap();
    assert!(lock.force_release().await.unwrap());
    let lost = guard.detach().await.unwrap_err();
    assert!(matches!(lost.why, DetachError::Lost { .. } | DetachError::NotRenewed { .. }), "{lost:?}");
    assert!(!lost.guard.is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_another_kind_stays_of_its_kind() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (fenced, spin) = (FencedLock::new(&two, "ledger"), SpinLock::new(&two, "shelf"));
    let ledger = FencedLock::new(&one, "ledger").acquire().await.unwrap().detach().await.unwrap();
    let shelf = SpinLock::new(&one, "shelf").acquire().await.unwrap().detach().await.unwrap();
    let ledger: Detached = serde_json::from_str(&serde_json::to_string(&ledger).unwrap()).unwrap();
    for (name, detached) in [("ledger", &ledger), ("shelf", &shelf)] {
        let plain = Lock::new(&two, name).attach(detached).await;
        assert!(matches!(plain, Err(AttachError::OtherLock { .. })), "{plain:?}");
    }
    let guard = fenced.attach(&ledger).await.unwrap();
    assert_eq!(fenced.token().await.unwrap(), Some(guard.token()));
    // The server counts the tokens of this lock, so a local hand-over needs a request.
    let next = tokio::spawn(fenced.acquire().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().waiting == 1).await;
    let token = guard.token();
    guard.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(next.token() > token);
    assert_eq!(fenced.token().await.unwrap(), Some(next.token()));
    spin.attach(&shelf).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_attaches_once_and_an_unused_attach_is_released() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let quick = |config: redgrid_core::Config| config.response_timeout(2000 * MS).retries(1);
    let (one, two) = (client(&server).await, client_with(&server.url_via(proxy.addr()), quick).await);
    // The server then has the script, so the lost reply is that of the script itself.
    let warm = Lock::new(&one, "warm").acquire().await.unwrap().detach().await.unwrap();
    Lock::new(&two, "warm").attach(&warm).await.unwrap().release().await.unwrap();

    let detached = Lock::new(&one, "a").acquire().await.unwrap().detach().await.unwrap();
    proxy.next(1, script!("attach"), Action::SwallowReply);
    let guard = Lock::new(&two, "a").attach(&detached).await.unwrap();
    assert_eq!((proxy.counts().swallowed, guard.is_held()), (1, true));
    let fields: Vec<(String, i64)> = observer.query(&["HGETALL", "a"]).await.unwrap();
    assert_eq!(fields.len(), 1);
    guard.release().await.unwrap();

    // No copy of the detach gets a reply: the lock has no local holder, and must not stay taken.
    let detached = Lock::new(&one, "b").acquire().await.unwrap().detach().await.unwrap();
    proxy.next(8, script!("attach"), Action::SwallowReply);
    let unknown = Lock::new(&two, "b").attach(&detached).await;
    assert!(matches!(unknown, Err(AttachError::Failed(_))), "{unknown:?}");
    proxy.heal();
    wait_until(SOON, async || !observer.exists("b").await.unwrap()).await;

    // The future is dropped immediately: either the hold is released, or it was never attached.
    let detached = Lock::new(&one, "c").acquire().auto_renew(3 * SOON).await.unwrap().detach().await.unwrap();
    drop(futures_util::poll!(std::pin::pin!(Lock::new(&two, "c").attach(&detached))));
    wait_until(SOON, async || !observer.exists("c").await.unwrap() && two.stats() == NOTHING).await;
}

/// The job has begun in the process that detached the lock, so its name is retained although the
/// attach fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attach_leaves_the_name_taken_for_its_minimum_hold() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let quick = |config: redgrid_core::Config| config.response_timeout(1000 * MS).retries(1);
    let (one, two) = (client(&server).await, client_with(&server.url_via(proxy.addr()), quick).await);
    let warm = Lock::new(&one, "warm").acquire().await.unwrap().detach().await.unwrap();
    Lock::new(&two, "warm").attach(&warm).await.unwrap().release().await.unwrap();
    let at_least = 600_000 * MS;
    let job = Lock::new(&one, "job").acquire().hold_at_least(at_least).await.unwrap().detach().await.unwrap();
    // There are two releases: one immediately, and one when all copies of the attach can only be
    // refused.
    let given_back = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&given_back);
    proxy.on_request(move |command| {
        let has = |sha: String| command.iter().any(|part| part[..] == *sha.as_bytes());
        if has(script!("attach")) {
            return Action::SwallowReply;
        }
        seen.fetch_add(u64::from(has(script!("retain")) || has(script!("release"))), Ordering::SeqCst);
        Action::Forward
    });
    let unknown = Lock::new(&two, "job").attach(&job).await;
    assert!(matches!(unknown, Err(AttachError::Failed(_))), "{unknown:?}");
    wait_until(SOON, async || given_back.load(Ordering::SeqCst) >= 2).await;
    wait_until(SOON, async || two.stats() == NOTHING).await;
    assert!(observer.time_to_live("job").await.unwrap() > Some(at_least / 2));
    assert!(Lock::new(&one, "job").try_acquire().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn minimum_and_maximum_hold_are_attached_too() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let began = tokio::time::Instant::now();
    let turn = Lock::new(&one, "job").acquire().hold_at_least(2000 * MS).await.unwrap();
    Lock::new(&two, "job").attach(&turn.detach().await.unwrap()).await.unwrap().release().await.unwrap();
    Lock::new(&one, "job").acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    assert!(began.elapsed() >= 2000 * MS, "{:?}", began.elapsed());

    let began = tokio::time::Instant::now();
    let longest = Lock::new(&one, "a").acquire().auto_renew(2000 * MS).hold_at_most(3000 * MS).await.unwrap();
    let longest = Lock::new(&two, "a").attach(&longest.detach().await.unwrap()).await.unwrap();
    assert_eq!(longest.lost().await, LostReason::Expired);
    let lasted = began.elapsed();
    assert!(lasted >= 2500 * MS && lasted < 5000 * MS + SOON / 10, "{lasted:?}");
}
