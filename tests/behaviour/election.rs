//! Elections: one leader at a time, visible to all observers.

use std::time::Duration;

use redgrid_locks::{AcquireError, CampaignError, Election, Leader, Lock, LostReason, Observation};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::{NOTHING, SOON, client, client_with, script, server};

const MS: Duration = Duration::from_millis(1);

async fn next(changes: &mut Observation) -> Option<Leader> {
    tokio::time::timeout(SOON, changes.next()).await.expect("a change in time").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_leads_until_it_resigns_and_observers_are_notified() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let elections = [Election::new(&one, "a"), Election::new(&two, "a")];
    assert_eq!(elections[0].leader().await.unwrap(), None);
    let mut changes = elections[1].observe();
    assert_eq!(next(&mut changes).await, None);
    let mut last = None;
    for round in 0..6 {
        let election = elections[round % 2].clone();
        let leadership = election.campaign().proclaim(format!("node {round}")).timeout(SOON).await.unwrap();
        assert!(leadership.is_leader() && last < Some(leadership.term()));
        last = Some(leadership.term());
        let leader = next(&mut changes).await.expect("a new leader");
        assert_eq!((leader.id_text(), leader.term), (format!("node {round}"), leadership.term()));
        assert_eq!(elections[0].leader().await.unwrap().map(|leader| leader.term), last);
        // Meanwhile no other candidate can be elected.
        let other = elections[(round + 1) % 2].campaign().timeout(Duration::ZERO).await;
        assert!(matches!(other, Err(CampaignError::Acquire(AcquireError::TimedOut { .. }))), "{other:?}");
        leadership.resign().await.unwrap();
        assert_eq!(next(&mut changes).await, None);
    }
    drop(changes);
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
    assert!(observer.keys("*").await.unwrap().is_empty(), "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_follow_each_other_and_each_is_known_by_its_own_name() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    // Each process has two candidates: leadership is never handed over within a process without a
    // notification.
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let election = Election::new(&clients[n % 2], "a");
            tokio::spawn(async move {
                let mut terms = Vec::new();
                for _ in 0..5 {
                    let leadership = election.campaign().proclaim(n.to_string()).timeout(SOON).await.unwrap();
                    let told = election.leader().await.unwrap().expect("a leader");
                    assert_eq!((told.id_text(), told.term), (n.to_string(), leadership.term()));
                    terms.push(leadership.term());
                    leadership.resign().await.unwrap();
                }
                terms
            })
        })
        .collect();
    let mut terms = Vec::new();
    for task in tasks {
        let own = task.await.unwrap();
        assert!(own.is_sorted());
        terms.extend(own);
    }
    terms.sort();
    terms.dedup();
    assert_eq!(terms.len(), 20, "each leader had its own term");
}

#[tokio::test(flavor = "multi_thread")]
async fn leading_continues_past_the_lease_and_a_dead_leader_is_replaced() {
    let server = server().await;
    let lease = |config: redgrid_core::Config| config.watchdog_lease(3000 * MS);
    let (one, two) = (client_with(&server.url(), lease).await, client_with(&server.url(), lease).await);
    let proxy = Proxy::to(&server).await.unwrap();
    let dying = client_with(&server.url_via(proxy.addr()), lease).await;
    let first = Election::new(&dying, "a").campaign().proclaim("first").await.unwrap();
    let mut changes = Election::new(&one, "a").observe();
    assert_eq!(next(&mut changes).await.map(|leader| leader.term), Some(first.term()));
    // Two leases later the candidate still leads, and observers read its name.
    let began = tokio::time::Instant::now();
    tokio::time::sleep_until(began + 7000 * MS).await;
    assert!(first.is_leader());
    assert_eq!(Election::new(&one, "a").leader().await.unwrap().map(|leader| leader.id_text()), Some("first".into()));
    // The leader's host fails: no reply arrives, and the leader stops leading before another
    // candidate leads.
    let second = Election::new(&two, "a").campaign().proclaim("second").timeout(SOON);
    let second = tokio::spawn(second.into_future());
    wait_until(SOON, async || two.stats().waiting == 1).await;
    proxy.set_both(redgrid_testkit::Fault::BlackHole);
    let second = second.await.unwrap().unwrap();
    assert!(!first.is_leader() && second.term() > first.term());
    assert_eq!(first.lost().await, LostReason::Expired);
    let told = loop {
        match next(&mut changes).await {
            Some(leader) => break leader,
            None => continue,
        }
    };
    assert_eq!((told.id_text(), told.term), ("second".into(), second.term()));
    second.resign().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_takeover_of_leadership_is_reported_and_a_plain_holder_is_no_leader() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (election, lock) = (Election::new(&one, "a"), Lock::new(&two, "a"));
    let leadership = election.campaign().await.unwrap();
    assert_eq!(election.leader().await.unwrap().map(|leader| leader.id_text()), Some(one.id().to_owned()));
    let thief = lock.steal().await.unwrap();
    let told = tokio::time::timeout(SOON, leadership.lost()).await.unwrap();
    assert!(matches!(told, LostReason::Forced | LostReason::Gone), "{told:?}");
    assert!(thief.token() > leadership.term());
    assert_eq!(Election::new(&two, "a").leader().await.unwrap(), None, "a holder that was not elected");
    assert!(leadership.resign().await.is_err());
    // The next candidate waits for a plain holder of the lock, and is woken when it releases.
    let next = tokio::spawn(election.campaign().timeout(SOON).into_future());
    wait_until(SOON, async || one.stats().waiting == 1).await;
    thief.release().await.unwrap();
    next.await.unwrap().unwrap().resign().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_campaign_leads_no_longer() {
    let server = server().await;
    let client = client(&server).await;
    let election = Election::new(&client, "a");
    for polls in 0..40 {
        let mut campaign = std::pin::pin!(election.campaign().into_future());
        let left = tokio::time::timeout(MS * polls / 8, &mut campaign).await;
        drop(left);
    }
    wait_until(SOON, async || client.stats() == NOTHING).await;
    assert_eq!(election.leader().await.unwrap(), None);
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
    // A shutdown resigns all leaderships in one request.
    let leading = [election.campaign().await.unwrap(), Election::new(&client, "b").campaign().await.unwrap()];
    client.shutdown(SOON).await.unwrap();
    assert!(leading.iter().all(|leadership| !leadership.is_leader()));
    assert!(observer.keys("*").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_includes_the_proclamation() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(3 * SOON)).await;
    let election = Election::new(&client, "a");
    election.campaign().await.unwrap().resign().await.unwrap();
    proxy.next(1, script!("leader_proclaim"), Action::Hold);
    let campaign = election.campaign().timeout(1000 * MS).into_future();
    let ended = tokio::time::timeout(SOON, campaign).await.expect("an end in time");
    assert!(matches!(ended, Err(CampaignError::NotProclaimed { .. })), "{ended:?}");
    proxy.release_held().await;
    // The candidate was elected, and does not lead after its future is dropped.
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
}

/// The lock is free by then, so a failed cleanup of the other key is not reported as an error.
#[tokio::test(flavor = "multi_thread")]
async fn resigning_succeeds_beside_foreign_keys() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let election = Election::new(&client, "a");
    let leadership = election.campaign().await.unwrap();
    let beside = observer.keys("*leader*").await.unwrap();
    assert_eq!(beside.len(), 1);
    observer.cmd(&["SET", &beside[0], "no hash"]).await.unwrap();
    leadership.resign().await.unwrap();
    assert_eq!(observer.keys("*").await.unwrap(), beside);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_elect_once_and_resign_once() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let quick = |config: redgrid_core::Config| config.response_timeout(2000 * MS);
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let election = Election::new(&client, "a");
    election.campaign().await.unwrap().resign().await.unwrap();
    proxy.next(1, script!("leader_proclaim"), Action::SwallowReply);
    let leadership = election.campaign().proclaim("x").await.unwrap();
    assert_eq!(proxy.counts().swallowed, 1);
    assert_eq!(election.leader().await.unwrap().map(|leader| leader.id_text()), Some("x".into()));
    proxy.next(1, script!("leader_resign"), Action::SwallowReply);
    leadership.resign().await.unwrap();
    assert_eq!(proxy.counts().swallowed, 2);
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
    // A proclamation above the size limit.
    let long = election.campaign().proclaim("x".repeat(1025)).await;
    assert!(matches!(long, Err(CampaignError::TooLong { bytes: 1025, .. })), "{long:?}");
}
