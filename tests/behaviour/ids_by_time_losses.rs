//! Time-ordered ids with servers that are slow, emptied or down, and with lost replies.

use redgrid_core::author::ClientExt;
use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_id_generator::{IdError, TimeOrderedId};
use redgrid_testkit::{Action, Fault, Kind, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, server, sha};

use crate::ids_by_time::{DAY, MOST, far_from_midnight, key_of_today, midnight_in, now, second, some};

const SCRIPT: &str = include_str!("../../crates/redgrid-id-generator/src/scripts/day.lua");

/// A slow server issues ids, even if its replies take longer than a block is valid.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_longer_than_a_second_gives_ids() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(SOON)).await;
    let ids = TimeOrderedId::new(&client, "order");
    ids.next().await.unwrap();
    proxy.set_both(Fault::Delay(Duration::from_millis(700)));
    let mut all = BTreeSet::new();
    for _ in 0..3 {
        let had = join_all((0..500).map(|_| ids.next())).await;
        all.extend(had.into_iter().map(Result::unwrap));
    }
    assert_eq!(all.len(), 1500);
}

/// The server loses its data within a second. The next ids of both clients belong to a later
/// second.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_forgotten_its_counters_repeats_no_id() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (TimeOrderedId::new(&one, "order"), TimeOrderedId::new(&two, "order"));
    let (mut mine, mut theirs) = (some(&here, 1).await, some(&there, 1).await);
    for _ in 0..2 {
        // Waits until the server's clock has reached the time of the ids.
        let observer = server.observer().await.unwrap();
        let latest = second(&here, mine[mine.len() - 1]).max(second(&there, theirs[theirs.len() - 1]));
        wait_until(SOON, async || now(&observer).await > latest).await;
        // One client's numbers are far higher than those that the other client has seen.
        theirs.extend(some(&there, 3).await);
        mine.extend(some(&here, 3000).await);
        server.kill().await.unwrap();
        server.restart_empty().await.unwrap();
        theirs.extend(some(&there, 6000).await);
        mine.extend(some(&here, 3).await);
    }
    assert!(mine.is_sorted_by(|a, b| a < b) && theirs.is_sorted_by(|a, b| a < b));
    let all: BTreeSet<i64> = mine.iter().chain(&theirs).copied().collect();
    assert_eq!(all.len(), mine.len() + theirs.len());
}

/// If the counter is deleted within the second, numbers continue above the issued ids. The client
/// keeps its connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_counter_continues_above_issued_ids() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let offset = far_from_midnight(&observer).await;
    // No id is taken between the creation of these generators.
    let ids = || TimeOrderedId::new(&client, "order").day_offset(offset);
    let key = key_of_today(&observer, &ids(), "order").await;
    let mut had = Vec::new();
    for _ in 0..5 {
        for _ in 0..3000 {
            had.push(ids().next().await.unwrap());
        }
        observer.cmd(&["DEL", &key]).await.unwrap();
    }
    let ids = ids();
    had.extend(some(&ids, 3000).await);
    assert!(had.is_sorted_by(|a, b| a < b));
    assert!(had.iter().map(|id| ids.decode(*id).unwrap().sequence).is_sorted_by(|a, b| a < b));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_loss_of_contact_the_former_block_is_not_used() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let ids = TimeOrderedId::new(&client, "order").day_offset(far_from_midnight(&observer).await);
    let key = key_of_today(&observer, &ids, "order").await;
    let mut last = *some(&ids, 50).await.last().unwrap();
    for _ in 0..3 {
        let before = observer.get::<i64>(&key).await.unwrap().unwrap();
        let epoch = client.epoch_of(key.as_bytes());
        server.kill_connections(Kind::Normal).await.unwrap();
        wait_until(SOON, async || {
            let now = client.epoch_of(key.as_bytes());
            now.is_some() && now != epoch
        })
        .await;
        let id = ids.next().await.unwrap();
        assert!(i64::from(ids.decode(id).unwrap().sequence) > before);
        // Ids do not go back in time, even if they are ahead of the clock.
        assert!(id > last);
        last = *some(&ids, 50).await.last().unwrap();
        assert!(second(&ids, last) >= second(&ids, id));
    }
}

/// The first ids of a new day may also be ahead of the clock, because ids that were issued on the
/// former connection may belong to that day.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_loss_of_contact_the_first_ids_of_a_day_are_ahead_of_the_clock_too() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let ids = midnight_in(&observer, &client, "order", 4).await;
    let first = ids.next().await.unwrap();
    let day = async |id| ids.counter_of(ids.decode(id).unwrap().time).unwrap();
    let (midnight, epoch) = (now(&observer).await + 4, client.epoch_of(b"order"));
    server.kill_connections(Kind::Normal).await.unwrap();
    wait_until(SOON, async || client.epoch_of(b"order").is_some_and(|now| Some(now) != epoch)).await;
    let observer = server.observer().await.unwrap();
    // Waits long enough for the client to use the new day.
    wait_until(SOON, async || now(&observer).await >= midnight + 2).await;
    let clock = now(&observer).await;
    let id = ids.next().await.unwrap();
    assert!(day(id).await != day(first).await && second(&ids, id) >= clock + 2, "{} at {clock}", second(&ids, id));
}

/// Ids do not go back in time when the server's clock is set back. The test calls the script as a
/// client does that has seen a later time.
#[tokio::test(flavor = "multi_thread")]
async fn time_does_not_go_back_with_the_servers_clock() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let today = now(&observer).await;
    let (begin, end) = (today - today % DAY, today - today % DAY + DAY);
    let ask_ahead = async |from: i64, to: i64, (not_before, ahead): (i64, i64), above: i64| {
        let kept = (to + 2 * DAY) * 1000;
        let args = [from, to, not_before, ahead, above, 10, kept, 20].map(|n| n.to_string());
        let mut words = vec!["EVAL".to_owned(), SCRIPT.to_owned(), "1".to_owned(), format!("icr:a:{from}")];
        words.extend(args);
        observer.query::<Vec<String>>(&words).await.unwrap()
    };
    let ask = async |from, to, not_before, above| ask_ahead(from, to, (not_before, 0), above).await;
    let tomorrow = (end + 7).to_string();
    // A later day that the client has seen is continued, and its counter is kept until that day has
    // ended.
    assert_eq!(ask(begin, end, end + 7, 0).await, ["elsewhere", &tomorrow]);
    assert_eq!(ask(end, end + DAY, end + 7, 0).await, ["numbers", &tomorrow, "1", "10"]);
    assert_eq!(ask(end, end + DAY, end + 7, 500).await, ["numbers", &tomorrow, "501", "10"]);
    let lives = observer.time_to_live(&format!("icr:a:{end}")).await.unwrap().unwrap();
    assert!(lives.as_secs() > 3 * DAY as u64, "{lives:?}");
    // If the client has seen only an earlier time, there is no delay.
    let told = ask(begin, end, begin, 0).await;
    let second = told[1].parse::<i64>().unwrap();
    assert!(second >= today && (told[0] == "numbers" || second >= end), "{told:?}");
    // Numbers end at 32 bits, so fewer numbers are returned than requested.
    assert_eq!(ask(end, end + DAY, end + 7, MOST - 4).await, ["numbers", &tomorrow, &(MOST - 3).to_string(), "4"]);
    assert_eq!(ask(end, end + DAY, end + 7, 0).await, ["exhausted", &tomorrow]);
    // After a loss of contact, ids continue ahead of their last time, unless that time is far from
    // the clock.
    let ahead = async |not_before: i64| {
        let told = ask_ahead(0, end + 2 * DAY, (not_before, 2), 0).await;
        assert_eq!(told[0], "numbers");
        told[1].parse::<i64>().unwrap()
    };
    let clock = now(&observer).await;
    assert!((clock + 2..clock + 10).contains(&ahead(0).await) && ahead(clock + 10).await >= clock + 12);
    let (at_bound, clock_later) = (ahead(clock + 19).await, now(&observer).await);
    assert!((clock + 20..=clock_later.max(clock + 1) + 20).contains(&at_bound));
    assert_eq!(ahead(clock + 100).await, clock + 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_skips_numbers_and_a_dropped_caller_repeats_none() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(600))).await;
    let ids = TimeOrderedId::new(&client, "order");
    let mut last = ids.next().await.unwrap();
    for round in 0..60 {
        if round % 20 == 10 {
            proxy.next(1, sha(SCRIPT), Action::SwallowReply);
        }
        for _ in 0..round % 4 {
            let _ = futures_util::poll!(std::pin::pin!(ids.next()));
        }
        let (a, b) = tokio::join!(ids.next(), ids.next());
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(last < a && a < b, "{last} {a} {b}");
        last = b;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_a_call_ends_and_later_ids_come_again() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(150))).await;
    let ids = TimeOrderedId::new(&client, "order");
    let last = ids.next().await.unwrap();
    proxy.set_both(Fault::BlackHole);
    wait_until(SOON, async || match ids.next().await {
        Ok(_) => false,
        Err(error) => matches!(error, IdError::Failed(Failure::Unavailable { .. })),
    })
    .await;
    proxy.heal();
    wait_until(SOON, async || ids.next().await.is_ok_and(|id| id > last)).await;
}
