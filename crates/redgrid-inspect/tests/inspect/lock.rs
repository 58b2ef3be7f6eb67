//! One lock of each kind, and what is no lock.

use std::time::Duration;

use redgrid_inspect::{HolderState, InspectError, LockKind, Mode};
use redgrid_locks::{Election, FairLock, FencedLock, Lock, RwLock};
use redgrid_testkit::wait_until;

use crate::support::{
    FakeClient, JAVA, ONE, SOON, TWO, client, hold, inspector, living_client, observer, send, server, wait_until_alive,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_has_no_holder_and_no_waiter() {
    let server = server().await;
    let view = inspector(&server.url()).await.lock("job").await.expect("an answer");
    assert_eq!((view.kind.clone(), view.is_held(), view.lease_left), (LockKind::Free, false, None));
    assert_eq!((view.waiting_clients, view.queue_len, view.token), (Some(0), Some(0), None));
    assert!(view.holders.is_empty() && view.queue.is_empty() && !view.has_lifetime);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_shown_with_holder_lease_and_waiters() {
    let server = server().await;
    let [one, two] = [living_client(&server.url()).await, living_client(&server.url()).await];
    let guard = Lock::new(&one, "job").acquire().await.expect("it is free");
    let waiting = tokio::spawn(Lock::new(&two, "job").acquire().into_future());
    let inspector = inspector(&server.url()).await;
    wait_until(SOON, async || inspector.lock("job").await.expect("an answer").waiting_clients == Some(1)).await;
    let view = inspector.lock("job").await.expect("an answer");
    assert_eq!((&view.kind, view.holder_count, view.has_lifetime), (&LockKind::Plain, 1, true));
    assert!(view.lease_left.is_some_and(|left| left > Duration::from_secs(1)), "{view:?}");
    let holder = &view.holders[0];
    assert_eq!((holder.client.as_str(), holder.mode, holder.state), (one.id(), Mode::Exclusive, HolderState::Alive));
    assert_eq!((holder.ask_id.as_deref(), view.ask_ids()), (Some(one.id()), vec![one.id().to_owned()]));
    waiting.abort();
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_alive_gone_or_not_redgrids() {
    let server = server().await;
    let observer = observer(&server).await;
    let inspector = inspector(&server.url()).await;
    let state = async |name: &str| inspector.lock(name).await.expect("an answer").holders[0].state;
    for (name, client) in [("one", ONE), ("two", TWO), ("java", JAVA)] {
        hold(&observer, name, &format!("{client}:17"), "60000").await;
    }
    let living = FakeClient::start(&server.url(), ONE, Vec::new()).await;
    let states = [state("one").await, state("two").await, state("java").await];
    assert_eq!(states, [HolderState::Alive, HolderState::Gone, HolderState::NotRedgrid]);
    drop(living);
    wait_until(SOON, async || state("one").await == HolderState::Gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_without_a_channel_that_renews_is_not_gone() {
    let server = server().await;
    let observer = observer(&server).await;
    let inspector = inspector(&server.url()).await;
    for (name, client) in [("one", ONE), ("two", TWO)] {
        hold(&observer, name, &format!("{client}:17"), "60000").await;
    }
    let renewing = tokio::spawn(async move {
        loop {
            send(&observer, &["PEXPIRE", "two", "60000"]).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let state = async |name: &str| inspector.lock_twice(name).await.expect("an answer").holders[0].state;
    // The server was started a moment ago, so clients may not have come back to it.
    wait_until(SOON, async || state("one").await == HolderState::Gone).await;
    assert_eq!(state("two").await, HolderState::Unknown);
    renewing.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_answer_is_silent() {
    let server = server().await;
    let observer = observer(&server).await;
    let inspector = inspector(&server.url()).await;
    for (name, client) in [("one", ONE), ("two", TWO)] {
        hold(&observer, name, &format!("{client}:17"), "60000").await;
    }
    let _mute = FakeClient::start(&server.url(), ONE, Vec::new()).await;
    let _able = FakeClient::answering(&server.url(), TWO, "web-2").await;
    for (name, state) in [("one", HolderState::Silent), ("two", HolderState::Alive)] {
        let mut view = inspector.lock(name).await.expect("an answer");
        let answers = inspector.ask(&view.ask_ids(), Duration::from_secs(1)).await.expect("an answer");
        view.mark_silent(&answers);
        assert_eq!(view.holders[0].state, state, "{name}: {answers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fair_lock_has_its_queue_in_order() {
    let server = server().await;
    let observer = observer(&server).await;
    hold(&observer, "job", &format!("{JAVA}:17"), "60000").await;
    let one = living_client(&server.url()).await;
    send(&observer, &["RPUSH", "redisson_lock_queue:{job}", &format!("{JAVA}:18")]).await;
    send(&observer, &["ZADD", "redisson_lock_timeout:{job}", "9000000000000", &format!("{JAVA}:18")]).await;
    let waiting = tokio::spawn(FairLock::new(&one, "job").acquire().into_future());
    let inspector = inspector(&server.url()).await;
    wait_until(SOON, async || inspector.lock("job").await.expect("an answer").queue_len == Some(2)).await;
    let view = inspector.lock("job").await.expect("an answer");
    assert_eq!(view.kind, LockKind::Fair);
    let queue: Vec<_> = view.queue.iter().map(|waiter| (&*waiter.client, waiter.is_redgrid, waiter.state)).collect();
    assert_eq!(queue, [(JAVA, false, HolderState::NotRedgrid), (one.id(), true, HolderState::Alive)]);
    waiting.abort();
}

/// The waiters of a fair read-write lock are in the queue of its gate.
#[tokio::test(flavor = "multi_thread")]
async fn a_fair_read_write_lock_has_the_queue_of_its_gate() {
    let server = server().await;
    let observer = observer(&server).await;
    send(&observer, &["HSET", "prices", "mode", "read", &format!("{JAVA}:17"), "1"]).await;
    send(&observer, &["RPUSH", "redisson_lock_queue:redgrid_rw_line:{prices}", &format!("{ONE}:18")]).await;
    send(&observer, &["ZADD", "redgrid_fair:redgrid_rw_line:{prices}", "9000000000000", &format!("{ONE}:18")]).await;
    let view = inspector(&server.url()).await.lock("prices").await.expect("an answer");
    assert_eq!((view.kind, view.queue_len), (LockKind::ReadWrite, Some(1)));
    assert_eq!((view.queue[0].client.as_str(), view.queue[0].is_redgrid), (ONE, true));
    assert_eq!(view.waiting_clients, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_lock_has_its_token_and_an_election_its_leader() {
    let server = server().await;
    let one = client(&server.url()).await;
    let fenced = FencedLock::new(&one, "fenced").acquire().await.expect("it is free");
    let leader = Election::new(&one, "leader").campaign().await.expect("it is free");
    let inspector = inspector(&server.url()).await;
    let view = inspector.lock("fenced").await.expect("an answer");
    assert_eq!((view.kind, view.token.is_some()), (LockKind::Plain, true));
    wait_until(SOON, async || inspector.lock("leader").await.expect("an answer").kind == LockKind::Election).await;
    drop((fenced, leader));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_write_lock_has_readers_and_a_writer() {
    let server = server().await;
    let observer = observer(&server).await;
    let [one, two] = [living_client(&server.url()).await, living_client(&server.url()).await];
    let readers = [
        RwLock::new(&one, "prices").read().await.expect("free"),
        RwLock::new(&two, "prices").read().await.expect("free"),
    ];
    let inspector = inspector(&server.url()).await;
    let view = inspector.lock("prices").await.expect("an answer");
    assert_eq!((&view.kind, view.holder_count), (&LockKind::ReadWrite, 2));
    for holder in &view.holders {
        assert_eq!((holder.mode, holder.state), (Mode::Read, HolderState::Alive));
        assert!(holder.reader_lease_left.is_some_and(|left| left > Duration::ZERO), "{holder:?}");
    }
    drop(readers);
    wait_until(SOON, async || !observer.exists("prices").await.expect("an answer")).await;
    let writer = RwLock::new(&one, "prices").write().await.expect("it is free");
    let view = inspector.lock("prices").await.expect("an answer");
    let holder = &view.holders[0];
    assert_eq!((view.holder_count, holder.mode, holder.client.as_str()), (1, Mode::Write, one.id()));
    assert!(holder.number.is_some() && holder.reader_lease_left.is_none(), "{holder:?}");
    drop(writer);
}

/// As Java writes it: a reader that has entered twice, and one with ended leases.
#[tokio::test(flavor = "multi_thread")]
async fn readers_of_redisson_have_the_longest_of_their_leases() {
    let server = server().await;
    let observer = observer(&server).await;
    let field = format!("{JAVA}:17");
    send(&observer, &["HSET", "prices", "mode", "read", &field, "2", &format!("{JAVA}:18"), "1"]).await;
    send(&observer, &["PEXPIRE", "prices", "90000"]).await;
    for (entry, millis) in [("1", "10000"), ("2", "60000")] {
        let key = format!("{{prices}}:{field}:rwlock_timeout:{entry}");
        send(&observer, &["SET", &key, "1", "PX", millis]).await;
    }
    let view = inspector(&server.url()).await.lock("prices").await.expect("an answer");
    let mut leases: Vec<_> = view.holders.iter().map(|holder| (holder.number, holder.reader_lease_left)).collect();
    leases.sort();
    assert!(leases[0].1.is_some_and(|left| left > Duration::from_secs(30)), "{leases:?}");
    assert_eq!(leases[1], (Some(18), Some(Duration::ZERO)));
    assert!(view.holders.iter().all(|holder| holder.state == HolderState::NotRedgrid), "{view:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_without_a_lifetime_and_a_retained_one_are_recognized() {
    let server = server().await;
    let observer = observer(&server).await;
    send(&observer, &["HSET", "stuck", &format!("{ONE}:1"), "1"]).await;
    hold(&observer, "kept", &format!("{ONE}:1:kept"), "60000").await;
    let inspector = inspector(&server.url()).await;
    let stuck = inspector.lock("stuck").await.expect("an answer");
    assert_eq!((stuck.is_held(), stuck.has_lifetime, stuck.lease_left), (true, false, None));
    let kept = inspector.lock("kept").await.expect("an answer");
    assert!(kept.holders[0].is_retained && kept.holders[0].number == Some(1), "{kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_lock_says_what_it_is() {
    let server = server().await;
    let observer = observer(&server).await;
    send(&observer, &["SET", "text", "1"]).await;
    send(&observer, &["RPUSH", "list", "1"]).await;
    send(&observer, &["HSET", "user", "name", "Ada", "mode", "read"]).await;
    send(&observer, &["HSET", "mode", "mode", "write"]).await;
    let inspector = inspector(&server.url()).await;
    for (name, type_name, fields) in
        [("text", "string", 0), ("list", "list", 0), ("user", "hash", 2), ("mode", "hash", 1)]
    {
        let view = inspector.lock(name).await.expect("an answer");
        let expected = LockKind::NotALock { type_name: type_name.into(), fields };
        assert_eq!((view.kind, view.holder_count, view.holders.len()), (expected, 0, 0), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_of_a_million_fields_is_read_in_a_bounded_part() {
    let server = server().await;
    let observer = observer(&server).await;
    let fill = "for i = 1, 1000000 do redis.call('HSET', KEYS[1], 'field:' .. i, '1') end";
    send(&observer, &["EVAL", fill, "1", "visits"]).await;
    // A lock with as many readers: no user has it, but the work must be bounded, too.
    let readers = "redis.call('HSET', KEYS[1], 'mode', 'read') for i = 1, 100000 do \
                   redis.call('HSET', KEYS[1], ARGV[1] .. ':' .. i, '1') end";
    send(&observer, &["EVAL", readers, "1", "crowd", JAVA]).await;
    send(&observer, &["CONFIG", "SET", "slowlog-log-slower-than", "200000"]).await;
    send(&observer, &["SLOWLOG", "RESET"]).await;
    let inspector = inspector(&server.url()).await;
    let view = inspector.lock("visits").await.expect("an answer");
    assert_eq!(view.kind, LockKind::NotALock { type_name: "hash".into(), fields: 1_000_000 });
    let crowd = inspector.lock("crowd").await.expect("an answer");
    // The mode may be one of the thousand fields.
    let count = crowd.holders.len();
    assert!(
        crowd.kind == LockKind::ReadWrite && crowd.holder_count == 100_000 && (999..=1000).contains(&count),
        "{count}"
    );
    let slow: u64 = observer.query(&["SLOWLOG", "LEN"]).await.expect("an answer");
    assert_eq!(slow, 0, "nothing took 200 ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_and_fields_are_text() {
    let server = server().await;
    let observer = observer(&server).await;
    let inspector = inspector(&server.url()).await;
    let long = "x".repeat(1024);
    for name in ["<img onerror=alert(1)>", "\"'&", "\u{202e}abc", "a\0b", "a*b?[c]\\", &long] {
        hold(&observer, name, &format!("{JAVA}:17"), "60000").await;
        let view = inspector.lock(name).await.expect("an answer");
        assert_eq!((view.name.as_str(), view.holder_count), (name, 1));
    }
    // Names that no client of redgrid can use.
    for name in [&b"not utf-8 \xff\xfe"[..], b"a{b", b"{a}", &[b'x'; 1025]] {
        observer.cmd(&[b"HSET", name, format!("{JAVA}:17").as_bytes(), b"1"]).await.expect("an answer");
        let view = inspector.lock_of_bytes(name).await.expect("an answer");
        assert_eq!((view.holder_count, view.name), (1, name.escape_ascii().to_string()));
    }
    for name in ["", "a{b", "{a}", &"x".repeat(1025)] {
        let refused = inspector.lock(name).await.expect_err("an invalid name");
        assert!(matches!(refused, InspectError::Failed(redgrid_inspect::Failure::InvalidName(_))), "{refused}");
    }
    // Companions of other types, and values that are no numbers.
    hold(&observer, "odd", &format!("{JAVA}:17"), "60000").await;
    send(&observer, &["HSET", "odd", &format!("{JAVA}:17"), &"9".repeat(1000)]).await;
    for key in ["redisson_lock_queue:{odd}", "redgrid_fair:{odd}", "redgrid_leader:{odd}"] {
        send(&observer, &["SET", key, "text"]).await;
    }
    send(&observer, &["RPUSH", "redisson_lock_token:{odd}", "1"]).await;
    let view = inspector.lock("odd").await.expect("an answer");
    assert_eq!((view.kind, view.holders[0].entries, view.queue_len, view.token), (LockKind::Plain, 1, None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_of_another_namespace_is_found() {
    let server = server().await;
    let config =
        redgrid_inspect::Config::from_url(server.url()).expect("a URL").namespace("prod").expect("a namespace");
    let service = redgrid_inspect::Client::connect(config.clone()).await.expect("a client");
    wait_until_alive(&service).await;
    let guard = Lock::new(&service, "job").acquire().await.expect("it is free");
    let whole = inspector(&server.url()).await;
    let view = whole.lock("prod:job").await.expect("an answer");
    let id = format!("prod:{}", service.id());
    assert_eq!((view.holders[0].state, view.ask_ids()), (HolderState::Alive, vec![id.clone()]));
    let own = redgrid_inspect::Inspector::new(&redgrid_inspect::Client::connect(config).await.expect("a client"));
    let view = own.lock("job").await.expect("an answer");
    assert_eq!((view.holders[0].state, view.ask_ids()), (HolderState::Alive, vec![service.id().to_owned()]));
    wait_until(SOON, async || {
        let [all, under] = [whole.living_clients().await, own.living_clients().await].map(|it| it.expect("an answer"));
        let found = all.ids.contains(&id) && all.state_of(service.id()) == HolderState::Alive;
        found && under.ids.contains(&service.id().to_owned()) && all.is_complete && all.ids.len() == 3
    })
    .await;
    drop(guard);
}
