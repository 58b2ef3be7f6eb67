//! Time-ordered ids.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_id_generator::{Client, IdError, TimeOrderedId};
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::{SOON, client, server};

pub(crate) const DAY: i64 = 24 * 60 * 60;

/// The maximum number of ids per day.
pub(crate) const MOST: i64 = u32::MAX as i64;

pub(crate) async fn some(ids: &TimeOrderedId, count: usize) -> Vec<i64> {
    let mut had = Vec::new();
    for _ in 0..count {
        had.push(ids.next().await.unwrap());
    }
    had
}

/// Returns the server's time in seconds.
pub(crate) async fn now(observer: &Observer) -> i64 {
    (observer.server_time_micros().await.unwrap() / 1_000_000) as i64
}

pub(crate) fn second(ids: &TimeOrderedId, id: i64) -> i64 {
    ids.decode(id).unwrap().time.duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// Returns the keys of a name's days: one, or two if midnight was in between.
async fn days(observer: &Observer, name: &str) -> Vec<String> {
    let mut keys = observer.keys(&format!("icr:{name}:*")).await.unwrap();
    keys.sort();
    keys
}

/// Returns an offset that moves the end of the day at least half a day away. One offset is used for
/// a whole test, because a UTC day may end meanwhile.
pub(crate) async fn far_from_midnight(observer: &Observer) -> i64 {
    DAY / 2 - now(observer).await % DAY
}

/// Returns a generator whose day ends in this number of seconds.
pub(crate) async fn midnight_in(observer: &Observer, client: &Client, name: &str, seconds: i64) -> TimeOrderedId {
    TimeOrderedId::new(client, name).day_offset(DAY - seconds - now(observer).await % DAY)
}

/// Returns the key of the current day.
pub(crate) async fn key_of_today(observer: &Observer, ids: &TimeOrderedId, name: &str) -> String {
    ids.next().await.unwrap();
    let [key] = days(observer, name).await.try_into().expect("one day");
    key
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_a_second_of_the_server_and_a_number_of_its_day() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let ids = TimeOrderedId::new(&client, "order");
    let before = now(&observer).await;
    let had = some(&ids, 100).await;
    let after = now(&observer).await;
    assert!(had.is_sorted_by(|a, b| 0 < *a && a < b));
    assert!(had.iter().all(|id| (before..=after).contains(&second(&ids, *id))));
    let keys = days(&observer, "order").await;
    for key in &keys {
        // The name of the key contains the date in UTC.
        let date = key.strip_prefix("icr:order:").unwrap();
        assert!(date.len() == 10 && date.split(':').count() == 3, "{key}");
        let lives = observer.time_to_live(key).await.unwrap().expect("a lifetime");
        assert!((2 * 86_400 - 60..=3 * 86_400).contains(&lives.as_secs()), "{lives:?}");
    }
    assert!((1..=2).contains(&keys.len()), "{keys:?}");
    let first = ids.decode(had[0]).unwrap();
    assert_eq!(first.sequence, 1);
    // A program that uses the documented format computes the same value.
    let expected = (second(&ids, had[0]) - 1_640_995_200) << 32 | i64::from(first.sequence);
    assert_eq!(had[0], expected);
    assert!(matches!(ids.decode(-1), Err(IdError::Failed(Failure::InvalidArgument { .. }))));
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_rise_over_the_tasks_of_a_client_and_none_is_given_twice() {
    let server = server().await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(client(&server).await);
    }
    let tasks = (0..12).map(|task| {
        let ids = TimeOrderedId::new(&clients[task % 3], "order");
        tokio::spawn(async move {
            let mut had = Vec::new();
            for _ in 0..2000 {
                // A call that begins after another call has ended gets a larger id, whichever task
                // makes it.
                had.push((Instant::now(), ids.next().await.unwrap(), Instant::now()));
            }
            (task % 3, had)
        })
    });
    let mut had: BTreeMap<usize, Vec<(Instant, i64, Instant)>> = BTreeMap::new();
    for told in join_all(tasks).await {
        let (client, some) = told.unwrap();
        had.entry(client).or_default().extend(some);
    }
    for of_client in had.values_mut() {
        of_client.sort_by_key(|(_, _, ended)| *ended);
        let mut ends = of_client.iter().map(|(_, id, ended)| (*ended, *id)).peekable();
        let mut begun = of_client.clone();
        begun.sort_by_key(|(began, _, _)| *began);
        let mut highest = 0;
        for (began, id, _) in begun {
            while let Some((_, id)) = ends.next_if(|(ended, _)| *ended < began) {
                highest = highest.max(id);
            }
            assert!(id > highest, "{id} after {highest}");
        }
    }
    let all: BTreeSet<i64> = had.values().flatten().map(|(_, id, _)| *id).collect();
    assert_eq!(all.len(), 24_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_with_a_plain_counter_share_the_numbers() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let ids = TimeOrderedId::new(&client, "order").day_offset(far_from_midnight(&observer).await);
    let key = key_of_today(&observer, &ids, "order").await;
    let mut numbers = BTreeSet::new();
    for round in 0..200 {
        assert!(numbers.insert(ids.decode(ids.next().await.unwrap()).unwrap().sequence), "round {round}");
        assert!(numbers.insert(observer.query::<u32>(&["INCR", &key]).await.unwrap()), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_midnight_numbers_restart_and_ids_still_rise() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let ids = midnight_in(&observer, &client, "order", 6).await;
    // No numbers are left until midnight. The next day has all numbers again.
    let key = key_of_today(&observer, &ids, "order").await;
    let begin = now(&observer).await;
    let (mut had, mut exhausted) = (some(&ids, 10).await, 0);
    observer.cmd(&["SET", &key, &(MOST - 100_000).to_string(), "KEEPTTL"]).await.unwrap();
    let is_of_tomorrow = |id: i64| ids.counter_of(ids.decode(id).unwrap().time).unwrap().as_str() != key;
    while !is_of_tomorrow(had[had.len() - 1]) {
        match ids.next().await {
            Ok(id) => had.push(id),
            Err(IdError::DayExhausted { .. }) => exhausted += 1,
            Err(error) => panic!("{error:?}"),
        }
        assert!(now(&observer).await < begin + 20, "no midnight");
    }
    had.extend(some(&ids, 10).await);
    assert!(had.is_sorted_by(|a, b| a < b), "{exhausted} refused");
    let parts: Vec<_> = had.iter().map(|id| (second(&ids, *id), ids.decode(*id).unwrap().sequence)).collect();
    let turn = parts.windows(2).position(|pair| pair[1].1 < pair[0].1).expect("numbers restarted") + 1;
    assert!(parts[turn].1 < 100_000, "{:?}", parts[turn]);
    assert!(parts[turn - 1].0 < parts[turn].0);
    for key in days(&observer, "order").await {
        assert!(observer.time_to_live(&key).await.unwrap().is_some_and(|left| left.as_secs() > 86_400));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exhausted_day_is_reported_until_the_next_day() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let ids = midnight_in(&observer, &client, "order", 8).await;
    let key = key_of_today(&observer, &ids, "order").await;
    observer.cmd(&["SET", &key, &(MOST - 3).to_string(), "KEEPTTL"]).await.unwrap();
    // Ids that are already in memory are used first.
    let mut last = 0;
    let told = loop {
        match join_all((0..5).map(|_| ids.next())).await.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(more) => last = more[4],
            Err(error) => break error,
        }
    };
    assert!(matches!(&told, IdError::DayExhausted { key: told, .. } if told.as_str() == key), "{told:?}");
    assert!(observer.get::<i64>(&key).await.unwrap().unwrap() <= MOST);
    wait_until(SOON, async || match ids.next().await {
        Ok(id) => id > last && ids.decode(id).unwrap().sequence < 1000,
        Err(error) => {
            assert!(matches!(error, IdError::DayExhausted { .. }), "{error:?}");
            false
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_range_seconds_are_reported() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let long_ago = UNIX_EPOCH - Duration::from_secs(60 * 365 * DAY as u64);
    let to_come = UNIX_EPOCH + Duration::from_secs(now(&observer).await as u64 + 3600);
    for epoch in [long_ago, to_come] {
        let told = TimeOrderedId::new(&client, "order").epoch(epoch).next().await;
        assert!(matches!(told, Err(IdError::TimeOutOfRange { .. })), "{told:?}");
    }
    assert!(observer.keys("*").await.unwrap().is_empty());
    for (epoch, works) in [(to_come - Duration::from_secs(3600), true), (SystemTime::UNIX_EPOCH, true)] {
        assert_eq!(TimeOrderedId::new(&client, "order").epoch(epoch).next().await.is_ok(), works);
    }
    let invalid = TimeOrderedId::new(&client, "order").epoch(UNIX_EPOCH + Duration::from_millis(1));
    assert!(matches!(invalid.next().await, Err(IdError::Failed(Failure::InvalidArgument { option: "epoch", .. }))));
    for offset in [DAY + 1, i64::MIN] {
        let invalid = TimeOrderedId::new(&client, "order").day_offset(offset);
        assert!(matches!(
            invalid.next().await,
            Err(IdError::Failed(Failure::InvalidArgument { option: "day_offset", .. }))
        ));
    }
    for name in ["", "a{", &"x".repeat(1020)] {
        assert!(matches!(
            TimeOrderedId::new(&client, name).next().await,
            Err(IdError::Failed(Failure::InvalidName(_)))
        ));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_counter_is_without_a_lifetime_or_ends_in_its_day() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let offset = far_from_midnight(&observer).await;
    let of = |name: &str| TimeOrderedId::new(&client, name).day_offset(offset);
    for made in ["nobody", "forever", "a minute"] {
        let ids = of(made);
        let key = key_of_today(&observer, &ids, made).await;
        match made {
            "forever" => observer.cmd(&["SET", &key, "500"]).await.map(drop).unwrap(),
            "a minute" => observer.cmd(&["SET", &key, "500", "EX", "60"]).await.map(drop).unwrap(),
            _ => {}
        }
        // Taking ids from memory does not access the key.
        let touched = async || {
            ids.next().await.unwrap();
            observer.time_to_live(&key).await.unwrap().is_some_and(|left| left.as_secs() > 2 * 86_400)
        };
        wait_until(SOON, touched).await;
    }
    // Whichever command of the script is denied, a key that the script creates has a lifetime. If
    // the lifetime cannot be set, no number is counted.
    for denied in ["incrby", "set", "pexpireat", "pttl", "get", "time"] {
        for there in [false, true] {
            let name = format!("without-{denied}-{there}");
            let known = format!("{name}-known");
            let key = key_of_today(&observer, &of(&known), &known).await.replace("-known", "");
            if there {
                observer.cmd(&["SET", &key, "7"]).await.unwrap();
            }
            let ids = of(&name);
            server.deny(&[denied]).await.unwrap();
            let told = ids.next().await;
            server.allow(&[denied]).await.unwrap();
            match told {
                Ok(_) => assert!(observer.query::<i64>(&["PTTL", &key]).await.unwrap() > 0, "{name}"),
                Err(error) => {
                    assert!(
                        matches!(error, IdError::Failed(Failure::Refused { .. } | Failure::Unavailable { .. })),
                        "{error:?}"
                    );
                    assert_eq!(observer.get::<i64>(&key).await.unwrap(), there.then_some(7), "{name}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_not_a_number_is_reported_and_unchanged() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let offset = far_from_midnight(&observer).await;
    let of = |name: &str| TimeOrderedId::new(&client, name).day_offset(offset);
    let (ids, key) = (of("order"), key_of_today(&observer, &of("other"), "other").await.replace("other", "order"));
    for value in ["many", "-1", "1.5", "007", ""] {
        observer.cmd(&["SET", &key, value]).await.unwrap();
        let told = ids.next().await.unwrap_err();
        assert!(matches!(&told, IdError::NotANumber { key: at, got, .. } if *at == key && got == value), "{told:?}");
        assert_eq!(observer.get::<String>(&key).await.unwrap().unwrap(), value);
    }
    observer.cmd(&["SET", &key, "99999999999999999999999"]).await.unwrap();
    assert!(matches!(ids.next().await, Err(IdError::DayExhausted { .. })));
    observer.cmd(&["DEL", &key]).await.unwrap();
    observer.cmd(&["LPUSH", &key, "1"]).await.unwrap();
    assert!(matches!(ids.next().await, Err(IdError::Failed(Failure::Refused { .. }))));
    observer.cmd(&["DEL", &key]).await.unwrap();
    ids.next().await.unwrap();
}
