//! Phasers: phases with changing parties.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redgrid_barrier::{Failure, Party, Phaser, PhaserError};
use redgrid_core::Client;
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::process::Other;
use redgrid_tests::{NOTHING, SOON, client, client_with, server};
use tokio::task::JoinHandle;

use crate::barrier::{LEASE, MS, all_end, count, dropped, leased, sha_of, until};

const PARTIES: &str = "redgrid_phaser_parties:{a}";
const ARRIVED: &str = "redgrid_phaser_arrived:{a}";

fn phaser(client: &Client) -> Phaser {
    Phaser::new(client, "a")
}

fn advance(party: Party) -> JoinHandle<(Party, Result<u64, PhaserError>)> {
    tokio::spawn(async move {
        let advanced = party.arrive_and_wait().timeout(SOON).await;
        (party, advanced)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_is_over_when_all_have_arrived_and_parties_come_and_go() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (phaser(&one), phaser(&two));
    let first = here.register().await.unwrap();
    let [second, third]: [Party; 2] = there.bulk_register(2).await.unwrap().try_into().unwrap();
    assert_eq!(first.arrive().await.unwrap(), 0);
    let again = first.arrive().await;
    assert!(matches!(again, Err(PhaserError::AlreadyArrived { phase: 0, .. })), "{again:?}");
    let state = there.state().await.unwrap();
    assert_eq!((state.phase, state.registered, state.arrived, state.unarrived()), (0, 3, 1, 2));
    let watching = tokio::spawn(here.wait_advance(0).timeout(SOON).into_future());
    let waiting = advance(second);
    until(&observer, ARRIVED, 2).await;
    assert!(!watching.is_finished() && !waiting.is_finished());
    assert_eq!(third.arrive_and_deregister().await.unwrap(), 0);
    assert_eq!(watching.await.unwrap().unwrap(), 1);
    let (second, advanced) = waiting.await.unwrap();
    assert_eq!(advanced.unwrap(), 1);
    assert_eq!(here.phase().await.unwrap(), 1);
    assert_eq!(here.wait_advance(0).await.unwrap(), 1, "the phase is over");
    // The phase waits for a party that registers in the middle of it.
    assert_eq!(second.arrive().await.unwrap(), 1);
    let fourth = here.register().await.unwrap();
    assert_eq!(first.arrive().await.unwrap(), 1);
    assert_eq!(here.phase().await.unwrap(), 1);
    assert_eq!(fourth.arrive_and_wait().timeout(SOON).await.unwrap(), 2);
    // The phase does not wait for a party that was dropped.
    drop(fourth);
    until(&observer, PARTIES, 2).await;
    let late = second.arrive_and_wait().timeout(1000 * MS).await;
    assert!(matches!(late, Err(PhaserError::TimedOut { .. })), "{late:?}");
    assert_eq!(first.arrive_and_wait().timeout(SOON).await.unwrap(), 3, "a party that timed out has arrived");
    // The last party that leaves ends the phaser.
    drop(first);
    until(&observer, PARTIES, 1).await;
    assert_eq!(second.arrive_and_deregister().await.unwrap(), 3);
    assert!(here.state().await.unwrap().is_terminated);
    let ended = here.register().await;
    assert!(matches!(ended, Err(PhaserError::Terminated { phase: 3, .. })), "{ended:?}");
    all_end(&observer).await;
    assert!(here.reset().await.unwrap() && !here.reset().await.unwrap());
    assert_eq!(here.phase().await.unwrap(), 0);
    wait_until(SOON, async || one.stats() == NOTHING && two.stats() == NOTHING).await;
    // Only the time of its deletion is kept for a while.
    assert_eq!(observer.keys("redgrid_phaser*").await.unwrap(), ["redgrid_phaser:{a}"]);
    assert_eq!(observer.query::<u64>(&["HLEN", "redgrid_phaser:{a}"]).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn phases_of_many_do_not_mix() {
    const COUNT: usize = 6;
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let mut parties = phaser(&clients[0]).bulk_register(COUNT / 2).await.unwrap();
    parties.extend(phaser(&clients[1]).bulk_register(COUNT / 2).await.unwrap());
    let arrived = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = parties
        .into_iter()
        .enumerate()
        .map(|(task, party)| {
            let arrived = arrived.clone();
            tokio::spawn(async move {
                let mut random = fastrand::Rng::with_seed(task as u64);
                for phase in 0..40 {
                    if random.u8(..3) == 0 {
                        tokio::time::sleep(MS * random.u32(..15)).await;
                    }
                    arrived.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(party.arrive_and_wait().timeout(SOON).await.unwrap(), phase + 1);
                    assert!(arrived.load(Ordering::SeqCst) >= (phase + 1) * COUNT as u64);
                }
                party.arrive_and_deregister().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(phaser(&clients[0]).state().await.unwrap().is_terminated);
    wait_until(SOON, async || clients.iter().all(|client| client.stats() == NOTHING)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_parties_are_not_waited_for_and_live_ones_count_for_many_leases() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let one = leased(&server).await;
    let lease = LEASE.as_millis().to_string();
    let party = phaser(&one).register().await.unwrap();
    let dying = Other::start(env!("CARGO_BIN_EXE_role"), &["party", &server.url(), &lease, "phaser", "a", "0"]).await;
    assert_eq!(count(&observer, PARTIES).await, 2);
    let began = tokio::time::Instant::now();
    tokio::time::sleep_until(began + 2 * LEASE + LEASE / 2).await;
    let waiting = advance(party);
    until(&observer, ARRIVED, 1).await;
    assert_eq!(phaser(&one).state().await.unwrap().registered, 2);
    dying.kill().await;
    let (party, advanced) = tokio::time::timeout(4 * LEASE, waiting).await.expect("its lease ends").unwrap();
    assert_eq!(advanced.unwrap(), 1);
    assert_eq!(phaser(&one).state().await.unwrap().registered, 1);
    drop(party);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_arrive_once_and_lost_messages_cause_delays() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let quick = |config: redgrid_core::Config| config.response_timeout(300 * MS).watchdog_lease(LEASE);
    let lossy = client_with(&server.url_via(proxy.addr()), quick).await;
    let one = leased(&server).await;
    let (mine, theirs) = (phaser(&lossy).register().await.unwrap(), phaser(&one).register().await.unwrap());
    assert_eq!((theirs.arrive().await.unwrap(), mine.arrive().await.unwrap()), (0, 0));
    // A late copy that arrives after the phase is not counted as an arrival at the next phase.
    assert_eq!(theirs.arrive().await.unwrap(), 1);
    proxy.next(1, sha_of("phaser_arrive.lua"), Action::SwallowReply);
    assert_eq!(mine.arrive().await.unwrap(), 1);
    assert_eq!(proxy.counts().swallowed, 1);
    let state = phaser(&one).state().await.unwrap();
    assert_eq!((state.phase, state.arrived), (2, 0));
    // A deregistration whose reply is lost is also counted once.
    let more = phaser(&lossy).bulk_register(2).await.unwrap();
    proxy.next(1, sha_of("phaser_arrive.lua"), Action::SwallowReply);
    for party in more {
        assert_eq!(party.arrive_and_deregister().await.unwrap(), 2);
    }
    assert_eq!(proxy.counts().swallowed, 2);
    assert_eq!(phaser(&one).state().await.unwrap().registered, 2);
    proxy.drop_publishes(true);
    let waiting = advance(mine);
    until(&observer, ARRIVED, 1).await;
    theirs.arrive().await.unwrap();
    let (mine, advanced) = tokio::time::timeout(LEASE, waiting).await.expect("within its next poll").unwrap();
    assert_eq!(advanced.unwrap(), 3);
    drop(mine);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_parties_deregister_also_at_shutdown() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let keeper = phaser(&one).register().await.unwrap();
    for polls in 1..30 {
        drop(dropped(polls, phaser(&two).register()).await);
        drop(dropped(polls, phaser(&two).bulk_register(3)).await);
        drop(dropped(polls, phaser(&two).wait_advance(0).into_future()).await);
    }
    until(&observer, PARTIES, 1).await;
    wait_until(SOON, async || two.stats() == NOTHING).await;
    // A dropped arrival and its repetition are one arrival.
    let party = phaser(&two).register().await.unwrap();
    for polls in 1..12 {
        drop(dropped(polls, party.arrive()).await);
    }
    match party.arrive().await {
        Ok(0) | Err(PhaserError::AlreadyArrived { phase: 0, .. }) => {}
        other => panic!("{other:?}"),
    }
    let waiting = advance(keeper);
    let (keeper, advanced) = waiting.await.unwrap();
    assert_eq!(advanced.unwrap(), 1);
    assert_eq!(phaser(&one).state().await.unwrap().arrived, 0);
    two.shutdown(SOON).await.unwrap();
    assert_eq!(count(&observer, PARTIES).await, 1);
    let told = party.arrive().await;
    assert!(matches!(told, Err(PhaserError::Failed(Failure::ShuttingDown { .. }))), "{told:?}");
    drop(keeper);
}

#[tokio::test(flavor = "multi_thread")]
async fn termination_wakes_waiters() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let parties = phaser(&one).bulk_register(2).await.unwrap();
    let mut parties = parties.into_iter();
    let waiting = advance(parties.next().unwrap());
    until(&observer, ARRIVED, 1).await;
    let watching = tokio::spawn(phaser(&two).wait_advance(0).timeout(SOON).into_future());
    assert!(phaser(&two).terminate().await.unwrap() && !phaser(&two).terminate().await.unwrap());
    let told = waiting.await.unwrap().1;
    assert!(matches!(told, Err(PhaserError::Terminated { phase: 0, .. })), "{told:?}");
    let told = watching.await.unwrap();
    assert!(matches!(told, Err(PhaserError::Terminated { phase: 0, .. })), "{told:?}");
    let told = parties.next().unwrap().arrive().await;
    assert!(matches!(told, Err(PhaserError::Terminated { .. })), "{told:?}");
    let told = phaser(&one).bulk_register(0).await.map(|_| ());
    assert!(matches!(&told, Err(PhaserError::Failed(Failure::InvalidArgument { got, .. })) if got == "0"), "{told:?}");
}

/// Parties restore a phaser on an emptied server. A promoted server may lack writes that were not
/// replicated.
#[tokio::test(flavor = "multi_thread")]
async fn parties_restore_the_state_of_an_emptied_server() {
    let server = server().await;
    let (one, two) = (leased(&server).await, leased(&server).await);
    let (first, second) = (phaser(&one).register().await.unwrap(), phaser(&two).register().await.unwrap());
    for phase in 0..3 {
        assert_eq!((first.arrive().await.unwrap(), second.arrive().await.unwrap()), (phase, phase));
    }
    let waiting = advance(first);
    let observer = server.observer().await.unwrap();
    until(&observer, ARRIVED, 1).await;
    server.restart_empty().await.unwrap();
    let observer = server.observer().await.unwrap();
    until(&observer, PARTIES, 2).await;
    until(&observer, ARRIVED, 1).await;
    assert!(!waiting.is_finished());
    assert_eq!(second.arrive().await.unwrap(), 3);
    assert_eq!(waiting.await.unwrap().1.unwrap(), 4);
}
