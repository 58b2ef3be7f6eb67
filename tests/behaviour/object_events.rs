//! Events of objects, and reports of missed events.

use std::future::IntoFuture;
use std::time::Duration;

use redgrid_core::object::Object;
use redgrid_core::object::events::{Event, Events, Gap, Kind, Kinds, Listen, ListenError, Notice};
use redgrid_core::{Client, Code, Failure, ServerError};
use redgrid_testkit::{Kind as Connections, Observer, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

const SETTING: &str = "notify-keyspace-events";

async fn next(events: &mut Events) -> Notice {
    let next = tokio::time::timeout(SOON, events.next()).await.expect("an item in time");
    next.expect("the client lives")
}

async fn event(events: &mut Events) -> Event {
    match next(events).await {
        Notice::Event(event) => event,
        other => panic!("{other:?}"),
    }
}

/// Returns the next event: its kind, and the name that the server reports.
async fn told(events: &mut Events) -> (Kind, String) {
    let event = event(events).await;
    (event.kind, event.command)
}

fn is(kind: Kind, command: &str) -> (Kind, String) {
    (kind, command.to_owned())
}

async fn ready() -> (RedisServer, Client, Observer) {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    (server, client, observer)
}

async fn set_to(observer: &Observer) -> String {
    observer.query::<Vec<String>>(&["CONFIG", "GET", SETTING]).await.unwrap().remove(1)
}

async fn listeners(observer: &Observer, channel: &str) -> u64 {
    observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", channel]).await.unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_has_the_servers_name() {
    let (_server, client, observer) = ready().await;
    let object = Object::new(&client, "a");
    let mut events = object.events(Kinds::changes()).enable().await.unwrap();
    let others = Object::new(&client, "b");
    observer.cmd(&["SET", "b", "1"]).await.unwrap();
    for command in [
        &["SET", "a", "1"][..],
        &["INCRBY", "a", "2"],
        &["PEXPIRE", "a", "3600000"],
        &["PERSIST", "a"],
        &["RENAME", "a", "c"],
        &["RENAME", "c", "a"],
        &["DEL", "a"],
        &["HSET", "a", "f", "1"],
        &["HDEL", "a", "f"],
    ] {
        observer.cmd(command).await.unwrap();
    }
    for expected in [
        is(Kind::Updated, "set"),
        is(Kind::Updated, "incrby"),
        is(Kind::LifetimeSet, "expire"),
        is(Kind::LifetimeSet, "persist"),
        is(Kind::Renamed, "rename_from"),
        is(Kind::Renamed, "rename_to"),
        is(Kind::Deleted, "del"),
        is(Kind::Updated, "hset"),
        is(Kind::Updated, "hdel"),
        is(Kind::Deleted, "del"),
    ] {
        assert_eq!(told(&mut events).await, expected);
    }
    let mut expired = object.events(Kind::Expired).await.unwrap();
    observer.cmd(&["SET", "a", "1", "PX", "50"]).await.unwrap();
    assert_eq!(told(&mut expired).await, is(Kind::Expired, "expired"));
    let mut put = object.events(Kinds::named(["hset"])).await.unwrap();
    observer.cmd(&["LPUSH", "a", "1"]).await.unwrap();
    observer.cmd(&["DEL", "a"]).await.unwrap();
    observer.cmd(&["HSET", "a", "f", "1"]).await.unwrap();
    assert_eq!(told(&mut put).await, is(Kind::Updated, "hset"));
    assert!(others.delete().await.unwrap());
    drop((events, expired));
    // With a subscription to one name, the server sends no events of other names.
    assert_eq!(listeners(&observer, "__keyspace@0__:a").await, 1);
    assert_eq!(listeners(&observer, "__keyspace@0__:b").await, 0);
    assert_eq!(client.stats().channels, 1);
    drop(put);
    wait_until(SOON, async || listeners(&observer, "__keyspace@0__:a").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_keys_are_reported_by_servers_that_support_it() {
    let (server, client, observer) = ready().await;
    let outcome = Object::new(&client, "a").events(Kind::Created).enable().await;
    if server.binary().version().major < 7 {
        assert!(matches!(&outcome, Err(ListenError::CannotEnable { wanted, .. }) if wanted == "Kn"), "{outcome:?}");
        return;
    }
    let mut events = outcome.unwrap();
    for command in [&["SET", "a", "1"][..], &["SET", "a", "2"], &["DEL", "a"], &["RPUSH", "a", "1"]] {
        observer.cmd(command).await.unwrap();
    }
    assert_eq!(told(&mut events).await, is(Kind::Created, "new"));
    assert_eq!(told(&mut events).await, is(Kind::Created, "new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_notifications_are_reported_and_enabled_on_request() {
    let (_server, client, observer) = ready().await;
    let object = Object::new(&client, "a");
    let off = object.events([Kind::Expired, Kind::Deleted]).await.unwrap_err();
    let text = off.to_string();
    assert!(matches!(off, ListenError::Off { missing, set, .. } if missing == "Kgx" && set.is_empty()));
    assert!(text.contains(SETTING) && text.contains("\"Kgx\""), "{text}");
    let of_all = Listen::to(&client, "*", Kind::Expired).await.unwrap_err();
    assert!(matches!(of_all, ListenError::Off { missing, .. } if missing == "Ex"));
    assert_eq!(set_to(&observer).await, "");
    // The existing setting is extended, not replaced.
    observer.cmd(&["CONFIG", "SET", SETTING, "Kt"]).await.unwrap();
    drop(object.events(Kind::Expired).enable().await.unwrap());
    drop(Listen::to(&client, "*", Kind::Deleted).enable().await.unwrap());
    let set = set_to(&observer).await;
    assert!("KEtgx".chars().all(|letter| set.contains(letter)) && set.len() == 5, "{set}");
    let mut events = object.events(Kind::Expired).await.unwrap();
    observer.cmd(&["SET", "a", "1", "PX", "1"]).await.unwrap();
    assert_eq!(told(&mut events).await, is(Kind::Expired, "expired"));
    // Without the check, no request is sent, and events that the server does not publish do not
    // arrive.
    observer.cmd(&["CONFIG", "SET", SETTING, ""]).await.unwrap();
    let mut events = object.events(Kind::Updated).unchecked().await.unwrap();
    observer.cmd(&["SET", "a", "1"]).await.unwrap();
    observer.cmd(&["CONFIG", "SET", SETTING, "K$"]).await.unwrap();
    observer.cmd(&["APPEND", "a", "1"]).await.unwrap();
    assert_eq!(told(&mut events).await, is(Kind::Updated, "append"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_is_of_names_within_the_namespace() {
    let (server, stranger, observer) = ready().await;
    let client = client_with(&server.url(), |config| config.namespace("prod").unwrap()).await;
    let mut events = Listen::to(&client, "stock:?", [Kind::Deleted, Kind::Expired]).enable().await.unwrap();
    let mut all = Listen::to(&stranger, "*", Kind::Deleted).await.unwrap();
    for key in ["stock:1", "prod:stock:12", "prod:stock:2", "prod:stock:3"] {
        observer.cmd(&["SET", key, "1"]).await.unwrap();
    }
    observer.cmd(&["DEL", "stock:1", "prod:stock:12", "prod:stock:2"]).await.unwrap();
    observer.cmd(&["PEXPIRE", "prod:stock:3", "20"]).await.unwrap();
    let (first, second) = (event(&mut events).await, event(&mut events).await);
    assert_eq!((first.name.as_str(), first.kind), ("stock:2", Kind::Deleted));
    assert_eq!((second.name.as_str(), second.kind), ("stock:3", Kind::Expired));
    for name in ["stock:1", "prod:stock:12", "prod:stock:2"] {
        assert_eq!(event(&mut all).await.name, name);
    }
    // The two streams share one subscription, which ends when the last stream is dropped.
    assert_eq!(listeners(&observer, "__keyevent@0__:expired").await, 1);
    drop(events);
    wait_until(SOON, async || listeners(&observer, "__keyevent@0__:expired").await == 0).await;
    assert_eq!(listeners(&observer, "__keyevent@0__:del").await, 1);
    drop(all);
    wait_until(SOON, async || listeners(&observer, "__keyevent@0__:del").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_are_distinguished() {
    let (server, _, observer) = ready().await;
    let client = client_with(&server.url(), |config| config.database(3)).await;
    let mut events = Object::new(&client, "a").events(Kind::Updated).enable().await.unwrap();
    observer.cmd(&["SET", "a", "in another one"]).await.unwrap();
    client.command("APPEND").key("a").unwrap().arg("1").query::<()>().await.unwrap();
    assert_eq!(told(&mut events).await, is(Kind::Updated, "append"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_learns_how_many_events_it_missed() {
    let (_server, client, observer) = ready().await;
    let mut slow = Object::new(&client, "a").events(Kind::Updated).enable().buffer(3).await.unwrap();
    let mut last = Object::new(&client, "b").events(Kind::Updated).await.unwrap();
    for _ in 0..10 {
        observer.cmd(&["INCR", "a"]).await.unwrap();
    }
    // Events of one connection arrive in order.
    observer.cmd(&["INCR", "b"]).await.unwrap();
    assert_eq!(told(&mut last).await, is(Kind::Updated, "incrby"));
    for _ in 0..3 {
        assert_eq!(told(&mut slow).await, is(Kind::Updated, "incrby"));
    }
    assert!(matches!(next(&mut slow).await, Notice::Gap(Gap::Slow { missed: 7 })));
    observer.cmd(&["APPEND", "a", "1"]).await.unwrap();
    assert_eq!(told(&mut slow).await, is(Kind::Updated, "append"));
}

/// Waits for a gap with the reason `Interrupted`.
async fn until_interrupted(events: &mut Events) {
    loop {
        match next(events).await {
            Notice::Gap(Gap::Interrupted) => return,
            // Skips an event from before the gap.
            Notice::Event(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_a_gap_and_events_go_on() {
    let (server, client, observer) = ready().await;
    let mut one = Object::new(&client, "a").events(Kind::Updated).enable().await.unwrap();
    let mut all = Listen::to(&client, "a", Kind::Updated).enable().await.unwrap();
    for round in 1..=3 {
        let killed = server.kill_connections(Connections::PubSub).await.unwrap();
        assert!(killed > 0, "round {round}");
        until_interrupted(&mut one).await;
        until_interrupted(&mut all).await;
        // A new connection may be reported after all subscriptions are restored, which yields one
        // more gap. A value that was set before this gap may be missed.
        for events in [&mut one, &mut all] {
            let told = async {
                loop {
                    match next(events).await {
                        Notice::Event(event) => break assert_eq!(event.command, "set"),
                        Notice::Gap(Gap::Interrupted) => {}
                        other => panic!("{other:?}"),
                    }
                }
            };
            let set = async {
                loop {
                    observer.cmd(&["SET", "a", "1"]).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            tokio::select! {
                () = told => {}
                () = set => {}
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_server_setting_is_reported_or_set_again() {
    let (server, client, observer) = ready().await;
    let object = Object::new(&client, "a");
    observer.cmd(&["CONFIG", "SET", SETTING, "KA"]).await.unwrap();
    let mut events = object.events(Kind::Updated).await.unwrap();
    server.kill().await.unwrap();
    server.restart_empty().await.unwrap();
    until_interrupted(&mut events).await;
    let off = loop {
        match next(&mut events).await {
            Notice::Uncertain(why) => break why,
            Notice::Gap(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(&off, ListenError::Off { missing, .. } if missing.contains('K')), "{off:?}");
    drop(events);
    let mut events = object.events(Kind::Updated).enable().await.unwrap();
    server.kill().await.unwrap();
    server.restart_empty().await.unwrap();
    let observer = server.observer().await.unwrap();
    // An event after the last gap arrives, although the server published none at first.
    loop {
        match next(&mut events).await {
            Notice::Event(event) => break assert_eq!(event.command, "set"),
            Notice::Gap(_) => drop(observer.cmd(&["SET", "a", "1"]).await.unwrap()),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_finds_nothing_is_no_update() {
    let (_server, client, observer) = ready().await;
    observer.cmd(&["CONFIG", "SET", SETTING, "KEAm"]).await.unwrap();
    let object = Object::new(&client, "a");
    let (mut changes, mut misses) =
        (object.events(Kinds::changes()).await.unwrap(), object.events(Kinds::named(["keymiss"])).await.unwrap());
    observer.query::<Option<String>>(&["GET", "a"]).await.unwrap();
    observer.cmd(&["XADD", "a", "*", "field", "value"]).await.unwrap();
    assert_eq!(told(&mut misses).await, is(Kind::Aside, "keymiss"));
    assert_eq!(told(&mut changes).await, is(Kind::Updated, "xadd"));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_are_reported() {
    let (server, _, observer) = ready().await;
    observer.cmd(&["CONFIG", "SET", SETTING, "KEA"]).await.unwrap();
    let base = "on >secret ~* +@all";
    for (user, rules) in [("unasked", "-config &*"), ("deaf", "resetchannels"), ("looking", "-config|set &__key*__:*")]
    {
        let rules = format!("{base} {rules}");
        server.set_user(user, &rules.split(' ').collect::<Vec<_>>()).await.unwrap();
    }
    let user = async |name: &str| client_with(&server.url_for(name, "secret"), |config| config).await;
    let unasked = user("unasked").await;
    let object = Object::new(&unasked, "a");
    let is_denied = |source: &ServerError| source.code() == Some(Code::NoPermission);
    let told_why = object.events(Kind::Updated).await.unwrap_err();
    assert!(matches!(&told_why, ListenError::CannotCheck { source, .. } if is_denied(source)), "{told_why:?}");
    let mut events = object.events(Kind::Updated).unchecked().await.unwrap();
    observer.cmd(&["SET", "a", "1"]).await.unwrap();
    assert_eq!(told(&mut events).await, is(Kind::Updated, "set"));
    let deaf = user("deaf").await;
    let told_why = Object::new(&deaf, "a").events(Kind::Updated).await.unwrap_err();
    assert!(matches!(told_why, ListenError::Denied), "{told_why:?}");
    let told_why = Listen::to(&deaf, "*", Kind::Updated).await.unwrap_err();
    assert!(matches!(told_why, ListenError::Denied), "{told_why:?}");
    let looking = user("looking").await;
    let mut events = Listen::to(&looking, "a", Kind::Updated).enable().await.unwrap();
    observer.cmd(&["SET", "a", "1"]).await.unwrap();
    assert_eq!(told(&mut events).await, is(Kind::Updated, "set"));
    observer.cmd(&["CONFIG", "SET", SETTING, ""]).await.unwrap();
    let told_why = Object::new(&looking, "a").events(Kind::Expired).enable().await.unwrap_err();
    assert!(
        matches!(&told_why, ListenError::CannotEnable { wanted, source, .. } if wanted == "Kx" && is_denied(source))
    );
    // Permissions are removed during the subscription, and the connection is killed.
    server.set_user("looking", &["resetchannels"]).await.unwrap();
    server.kill_connections(Connections::PubSub).await.unwrap();
    let denied = tokio::time::timeout(SOON, async {
        while !matches!(events.next().await, Some(Notice::Uncertain(ListenError::Denied))) {}
    });
    denied.await.expect("an end in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_checked_before_any_request() {
    let server = server().await;
    let client = client(&server).await;
    server.kill().await.unwrap();
    let object = Object::new(&client, "a");
    let named = |error: ListenError| match error {
        ListenError::Failed(Failure::InvalidArgument { option, .. }) => option,
        other => panic!("{other:?}"),
    };
    assert_eq!(named(object.events([]).await.unwrap_err()), "kinds");
    assert_eq!(named(object.events(Kinds::named(["h set"])).await.unwrap_err()), "kinds");
    assert_eq!(named(object.events(Kind::Expired).buffer(0).await.unwrap_err()), "buffer");
    assert_eq!(named(Listen::to(&client, "", Kind::Expired).await.unwrap_err()), "pattern");
    let told_why = Object::new(&client, "{}").events(Kind::Expired).await.unwrap_err();
    assert!(matches!(told_why, ListenError::Object(_)), "{told_why:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_a_missing_server_or_an_ended_client_are_bounded() {
    let (server, client, observer) = ready().await;
    observer.cmd(&["CONFIG", "SET", SETTING, "KEA"]).await.unwrap();
    let mut one = Object::new(&client, "a").events(Kind::Expired).await.unwrap();
    let mut all = Listen::to(&client, "a", Kind::Expired).await.unwrap();
    let impatient =
        client_with(&server.url(), |config| config.response_timeout(Duration::from_millis(200)).retries(1)).await;
    client.shutdown(SOON).await.unwrap();
    for events in [&mut one, &mut all] {
        assert!(tokio::time::timeout(SOON, events.next()).await.unwrap().is_none());
    }
    let told_why = Object::new(&client, "a").events(Kind::Expired).await.unwrap_err();
    assert!(matches!(told_why, ListenError::Failed(Failure::ShuttingDown { .. })), "{told_why:?}");
    server.kill().await.unwrap();
    let unavailable = [
        tokio::time::timeout(SOON, Object::new(&impatient, "a").events(Kind::Expired).into_future()).await.unwrap(),
        tokio::time::timeout(SOON, Listen::to(&impatient, "a", Kind::Expired).unchecked().into_future()).await.unwrap(),
    ];
    for told_why in unavailable {
        assert!(matches!(told_why, Err(ListenError::Failed(Failure::Unavailable { .. }))), "{told_why:?}");
    }
}
