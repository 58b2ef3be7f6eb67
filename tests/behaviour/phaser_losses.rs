//! Phasers under loss of participants, registrations, replies or permissions, and recreated names.

use redgrid_barrier::{Party, Phaser, PhaserError};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::{NOTHING, SOON, client, client_with, server};
use tokio::time::Instant;

use crate::barrier::{LEASE, MS, count, dropped, leased, sha_of, until};
use crate::barrier_losses::{dump, mute, put_back};

const PHASER: &str = "redgrid_phaser:{a}";
const PARTIES: &str = "redgrid_phaser_parties:{a}";
const ARRIVED: &str = "redgrid_phaser_arrived:{a}";

#[tokio::test(flavor = "multi_thread")]
async fn without_publish_a_client_takes_part_in_phasers() {
    let server = server().await;
    let client = mute(&server).await;
    let phaser = Phaser::new(&client, "a");
    let (first, second) = (phaser.register().await.unwrap(), phaser.register().await.unwrap());
    for phase in 1..=2 {
        let wait = |party| async move { Party::arrive_and_wait(party).timeout(SOON).await.unwrap() };
        assert_eq!(tokio::join!(wait(&first), wait(&second)), (phase, phase));
    }
    assert_eq!(first.arrive_and_deregister().await.unwrap(), 2);
    assert!(phaser.terminate().await.unwrap() && phaser.reset().await.unwrap());
    drop(second);
}

/// A registration that was not sent, or whose caller has left, has no effect.
#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_registration_begins_and_ends_nothing() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client_with(&server.url_via(proxy.addr()), |config| config).await);
    let seats = async |name: &str| {
        let key = format!("redgrid_phaser:{{{name}}}");
        let values = observer.query::<Vec<String>>(&["HVALS", &key]).await.unwrap();
        values.into_iter().filter(|value| value.contains(' ')).collect::<Vec<_>>()
    };
    let mut unheard = 0;
    // If the thread stalls in a poll, the reply may arrive before the poll ends. Then another round
    // follows.
    for (round, polls) in (0..20).flat_map(|round| (1..12).map(move |polls| (round, polls))) {
        if round > 0 && unheard > 0 {
            break;
        }
        let name = format!("d{round}.{polls}");
        let phaser = Phaser::new(&one, &name);
        if dropped(polls, phaser.bulk_register(2)).await.is_some() {
            continue;
        }
        let all_left = |seats: Vec<String>| seats.len() == 2 && seats.iter().all(|seat| seat.contains(" l "));
        wait_until(SOON, async || all_left(seats(&name).await)).await;
        assert!(!phaser.state().await.unwrap().is_terminated);
        unheard += 1;
    }
    assert!(unheard > 0);
    drop(Phaser::new(&one, "known").register().await.unwrap());
    proxy.next(1, sha_of("phaser_register.lua"), Action::Hold);
    let unsent = tokio::spawn({
        let phaser = Phaser::new(&two, "a");
        async move { phaser.register().await.map(|_| ()) }
    });
    wait_until(SOON, async || proxy.counts().held == 1).await;
    unsent.abort();
    proxy.cut_all();
    wait_until(SOON, async || two.stats() == NOTHING && unsent.is_finished()).await;
    wait_until(SOON, async || seats("a").await.iter().any(|seat| seat.contains(" l "))).await;
    let state = Phaser::new(&one, "a").state().await.unwrap();
    assert_eq!((state.is_terminated, state.registered, state.phase), (false, 0, 0));
    // Registrations are dropped while another party is registered. When that party leaves, the
    // phaser terminates.
    let party = Phaser::new(&one, "a").register().await.unwrap();
    for polls in 1..10 {
        drop(dropped(polls, Phaser::new(&two, "a").register()).await);
    }
    until(&observer, PARTIES, 1).await;
    party.arrive_and_deregister().await.unwrap();
    wait_until(SOON, async || Phaser::new(&one, "a").state().await.unwrap().is_terminated).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_party_of_a_former_run_takes_no_part_in_the_next() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (leased(&server).await, leased(&server).await);
    let phaser = Phaser::new(&two, "a");
    let mut parties = Phaser::new(&one, "a").bulk_register(2).await.unwrap();
    let (late, former) = (parties.pop().unwrap(), parties.pop().unwrap());
    for phase in 1..=3 {
        let (one, two) = tokio::join!(
            former.arrive_and_wait().timeout(SOON).into_future(),
            late.arrive_and_wait().timeout(SOON).into_future()
        );
        assert_eq!((one.unwrap(), two.unwrap()), (phase, phase));
    }
    assert!(phaser.terminate().await.unwrap() && phaser.reset().await.unwrap());
    // The former party can arrive neither before the next registration nor after it.
    let told = former.arrive().await;
    assert!(matches!(told, Err(PhaserError::Terminated { .. })), "{told:?}");
    assert_eq!(phaser.phase().await.unwrap(), 0);
    let party = phaser.register().await.unwrap();
    let told = late.arrive().await;
    assert!(matches!(told, Err(PhaserError::Terminated { .. })), "{told:?}");
    drop(former);
    let began = Instant::now();
    tokio::time::sleep_until(began + LEASE).await;
    let state = phaser.state().await.unwrap();
    assert_eq!((state.phase, state.registered, state.is_terminated), (0, 1, false));
    drop(late);
    wait_until(SOON, async || one.stats() == NOTHING).await;
    assert_eq!(party.arrive().await.unwrap(), 0);
    assert_eq!(count(&observer, PARTIES).await, 1);
}

/// After a data loss, the first party that leaves restores the phaser, which does not terminate for
/// the other parties.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_to_leave_a_lost_phaser_does_not_end_it() {
    let server = server().await;
    let (one, two) = (leased(&server).await, leased(&server).await);
    let (leaving, staying) =
        (Phaser::new(&one, "a").register().await.unwrap(), Phaser::new(&two, "a").register().await.unwrap());
    server.observer().await.unwrap().cmd(&["DEL", PHASER, PARTIES, ARRIVED]).await.unwrap();
    assert_eq!(leaving.arrive_and_deregister().await.unwrap(), 0);
    assert_eq!(staying.arrive_and_wait().timeout(SOON).await.unwrap(), 1);
}

/// A waiter that was paused does not arrive at a later phase: when it continues, it is not
/// registered.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_for_a_phase_arrives_at_no_later_one() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let (stalled, other) =
        (Phaser::new(&one, "a").register().await.unwrap(), Phaser::new(&two, "a").register().await.unwrap());
    let waiting = tokio::spawn(async move {
        let advanced = stalled.arrive_and_wait().timeout(SOON).await;
        (stalled, advanced)
    });
    until(&observer, ARRIVED, 1).await;
    let bury = "for _, id in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do redis.call('HDEL', KEYS[1], id) \
                redis.call('ZREM', KEYS[2], id) redis.call('ZREM', KEYS[3], id) end";
    observer.cmd(&["EVAL", bury, "3", PHASER, PARTIES, ARRIVED]).await.unwrap();
    assert_eq!(other.arrive().await.unwrap(), 0);
    let (stalled, advanced) = waiting.await.unwrap();
    assert_eq!(advanced.unwrap(), 1);
    let state = Phaser::new(&two, "a").state().await.unwrap();
    assert_eq!((state.phase, state.arrived), (1, 0));
    until(&observer, PARTIES, 2).await;
    assert_eq!(stalled.arrive().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_termination_with_a_lost_reply_returns_true() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let lossy = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(300 * MS)).await;
    let phaser = Phaser::new(&lossy, "a");
    proxy.next(1, "phaser_end.lua: end", Action::SwallowReply);
    assert!(phaser.terminate().await.unwrap());
    proxy.next(1, sha_of("phaser_end.lua"), Action::SwallowReply);
    assert!(phaser.reset().await.unwrap());
    assert_eq!(proxy.counts().swallowed, 2);
    assert!(!phaser.reset().await.unwrap());
    let left: i64 = server.observer().await.unwrap().query(&["PTTL", PHASER]).await.unwrap();
    assert!((1..=600_000).contains(&left), "{left}");
}

/// A party that has the participant number of a former party is restored after a failover loses its
/// registration.
#[tokio::test(flavor = "multi_thread")]
async fn a_party_in_a_reused_place_is_restored_after_a_failover() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (leased(&server).await, leased(&server).await);
    let staying = Phaser::new(&two, "a").register().await.unwrap();
    let former = Phaser::new(&one, "a").register().await.unwrap();
    former.arrive_and_deregister().await.unwrap();
    let before = [dump(&observer, PHASER).await, dump(&observer, PARTIES).await];
    let party = Phaser::new(&one, "a").register().await.unwrap();
    put_back(&observer, &before).await;
    until(&observer, PARTIES, 2).await;
    assert_eq!((staying.arrive().await.unwrap(), party.arrive().await.unwrap()), (0, 0));
}
