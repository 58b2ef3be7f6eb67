//! A client answers questions about itself, and questions never disturb it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use redgrid_core::config::Introspection;
use redgrid_core::report::{
    ClientReport, EventReport, MAX_REPORT_BYTES, REPLY_CHANNEL_PREFIX, client_channel, parse_answer, question,
};
use redgrid_core::{Client, Failure};
use redgrid_locks::{AcquireError, Lock, RwLock};
use redgrid_semaphore::Semaphore;
use redgrid_testkit::redis::{self, aio::PubSub};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, is_script, listening, published_rules, server};

/// Reply channels for up to 256 questions.
fn channel(number: u8) -> String {
    format!("{REPLY_CHANNEL_PREFIX}123e4567-e89b-82d3-a456-4266141740{number:02x}")
}

/// Another process that asks clients.
pub(crate) struct Asker {
    observer: Observer,
    answers: PubSub,
}

impl Asker {
    pub(crate) async fn new(server: &RedisServer) -> Asker {
        let observer = server.observer().await.unwrap();
        let mut answers = redis::Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
        answers.psubscribe("*").await.unwrap();
        Asker { observer, answers }
    }

    /// Publishes a notice at the channel of a client, which must be subscribed.
    async fn notify(&self, client: &Client, payload: &[u8]) {
        let channel = client_channel(client.id());
        wait_until(SOON, async || {
            let heard: u64 = self.observer.query(&[b"PUBLISH", channel.as_bytes(), payload]).await.unwrap();
            // The pattern of this process receives the notice, too.
            heard == 2
        })
        .await;
    }

    /// Returns the next answer: its channel and its payload.
    async fn next(&mut self) -> (String, Vec<u8>) {
        let mut messages = self.answers.on_message();
        loop {
            let message = tokio::time::timeout(SOON, messages.next()).await.expect("an answer").unwrap();
            let channel = message.get_channel_name().to_owned();
            if !channel.starts_with("redgrid_client:") && !channel.starts_with("redisson") {
                return (channel, message.get_payload_bytes().to_vec());
            }
        }
    }

    pub(crate) async fn ask(&mut self, client: &Client) -> ClientReport {
        self.notify(client, question(&channel(0)).as_bytes()).await;
        let (from, payload) = self.next().await;
        assert_eq!(from, channel(0));
        assert!(payload.len() <= MAX_REPORT_BYTES);
        parse_answer(&payload).expect("a report")
    }

    /// Asks until the report is as expected.
    async fn ask_until(&mut self, client: &Client, is_expected: impl Fn(&ClientReport) -> bool) -> ClientReport {
        let deadline = Instant::now() + SOON;
        loop {
            let report = self.ask(client).await;
            if is_expected(&report) {
                return report;
            }
            assert!(Instant::now() < deadline, "{report:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_locks_reports_its_process() {
    let server = server().await;
    let mut asker = Asker::new(&server).await;
    let client = client_with(&server.url(), |config| config.client_name("orders-api")).await;
    let report = asker.ask(&client).await;
    assert_eq!((report.schema, &*report.id, report.pid), (1, client.id(), std::process::id()));
    assert_eq!((&*report.client_name, &*report.version), ("orders-api", env!("CARGO_PKG_VERSION")));
    assert!(!report.host.is_empty() && report.program.starts_with("behaviour"), "{report:?}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let age = now.saturating_sub(Duration::from_millis(report.started_ms));
    assert!(age < SOON, "started {age:?} ago");
    assert_eq!((report.holds, report.waiting, report.is_truncated), (0, 0, false));
    // Redisson's ids are of version 4.
    assert_eq!(client.id().as_bytes()[14], b'8', "{}", client.id());
    assert_eq!(client.stats(), redgrid_tests::NOTHING, "the service is not attached");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_reports_holds_waiting_tasks_and_labels() {
    let server = server().await;
    let mut asker = Asker::new(&server).await;
    let client = client(&server).await;
    let held = Lock::new(&client, "jobs").acquire().label("nightly").await.unwrap();
    let read = RwLock::new(&client, "prices").read().lease(Duration::from_secs(20)).await.unwrap();
    let permits = Semaphore::new(&client, "pool", 5).acquire_many(2).label("import").await.unwrap();
    let plain = Semaphore::plain(&client, "plain");
    plain.try_set_permits(3).await.unwrap();
    let counted = plain.acquire_many(3).label("counted").await.unwrap();
    // Each waiter releases the lock itself: they may enter in any order.
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let acquire = Lock::new(&client, "jobs").acquire().timeout(SOON).into_future();
            tokio::spawn(async { acquire.await.unwrap().release().await.unwrap() })
        })
        .collect();
    let blocked = tokio::spawn(Semaphore::new(&client, "pool", 5).acquire_many(5).into_future());
    wait_until(SOON, async || client.stats().waiting == 4).await;

    let report = asker.ask(&client).await;
    assert_eq!((report.holds, report.waiting, report.is_truncated), (7, 4, false));
    let of = |name: &str| report.held.iter().filter(|held| held.name == name).collect::<Vec<_>>();
    let [jobs] = of("jobs")[..] else { panic!("{report:?}") };
    assert_eq!((&*jobs.kind, jobs.label.as_deref(), jobs.entries), ("lock", Some("nightly"), 1));
    assert!(jobs.is_renewed && jobs.lease_left_ms.is_some_and(|left| (1..=30_000).contains(&left)), "{jobs:?}");
    assert_eq!(jobs.token, Some(held.token().get()));
    let fields: Vec<(String, String)> = asker.observer.query(&["HGETALL", "jobs"]).await.unwrap();
    assert_eq!(fields[0].0, format!("{}:{}", report.id, jobs.number));
    let [prices] = of("prices")[..] else { panic!("{report:?}") };
    assert_eq!((&*prices.kind, prices.is_renewed, &prices.label, prices.token), ("read lock", false, &None, None));
    assert!(prices.lease_left_ms.is_some_and(|left| (1..=20_000).contains(&left)), "{prices:?}");
    let pool = of("pool");
    assert_eq!(pool.len(), 2);
    let ids: BTreeSet<_> = permits.ids().map(|id| id.to_string()[..16].to_owned()).collect();
    assert_eq!(pool.iter().map(|permit| format!("{:016x}", permit.number)).collect::<BTreeSet<_>>(), ids);
    assert!(pool.iter().all(|permit| permit.label.as_deref() == Some("import") && permit.is_renewed));
    let [plain] = of("plain")[..] else { panic!("{report:?}") };
    assert_eq!((plain.entries, plain.lease_left_ms, plain.label.as_deref()), (3, None, Some("counted")));
    let waits: BTreeSet<_> = report.waits.iter().map(|it| (&*it.name, &*it.kind, it.tasks)).collect();
    assert_eq!(waits, BTreeSet::from([("jobs", "lock", 3), ("pool", "leased_semaphore", 1)]));
    assert!(report.contention.is_empty() && report.events.is_empty(), "{report:?}");

    held.release().await.unwrap();
    permits.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    drop((blocked.await.unwrap().unwrap(), read, counted));
    let report = asker.ask_until(&client, |report| report.holds == 0).await;
    assert!(report.held.is_empty() && report.waits.is_empty() && report.waiting == 0, "{report:?}");
    let contention: BTreeSet<_> = report.contention.iter().map(|it| (&*it.name, it.waits)).collect();
    assert_eq!(contention, BTreeSet::from([("jobs", 3), ("pool", 1)]));
    assert!(report.contention.iter().all(|it| it.total_ms >= it.longest_ms), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_that_time_out_or_are_cancelled_count_as_contention() {
    let server = server().await;
    let mut asker = Asker::new(&server).await;
    let client = client(&server).await;
    let _held = Lock::new(&client, "a").acquire().await.unwrap();
    let wait = Duration::from_millis(50);
    let timed_out = Lock::new(&client, "a").acquire().timeout(wait).await;
    assert!(matches!(timed_out, Err(AcquireError::TimedOut { .. })), "{timed_out:?}");
    assert!(tokio::time::timeout(wait, Lock::new(&client, "a").acquire().into_future()).await.is_err());
    let _all = Semaphore::new(&client, "b", 1).acquire().await.unwrap();
    assert!(Semaphore::new(&client, "b", 1).acquire().timeout(wait).await.is_err());
    // A free lock, and an attempt that does not wait.
    Lock::new(&client, "c").acquire().await.unwrap().release().await.unwrap();
    assert!(Lock::new(&client, "a").try_acquire().await.unwrap().is_none());
    let report = asker.ask(&client).await;
    let contention: BTreeSet<_> = report.contention.iter().map(|it| (&*it.name, it.waits)).collect();
    assert_eq!(contention, BTreeSet::from([("a", 2), ("b", 1)]));
    assert!(report.contention[0].total_ms >= 100 && report.contention[0].name == "a", "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_questions_are_ignored_and_disturb_no_hold() {
    let server = server().await;
    let mut asker = Asker::new(&server).await;
    let client = client(&server).await;
    let held = Lock::new(&client, "a").acquire().await.unwrap();
    let id = &channel(1)[REPLY_CHANNEL_PREFIX.len()..];
    let other = format!("{REPLY_CHANNEL_PREFIX}orders");
    let mut forged: Vec<Vec<u8>> =
        ["?", "?1", "?1 ", "?1 orders", &question(&format!("orders:{id}")), &question(&other)]
            .map(|text| text.as_bytes().to_vec())
            .into();
    forged.push(question(&channel(1)).into_bytes().into_iter().chain(*b" orders").collect());
    forged.push(format!("?2 {}", channel(1)).into_bytes());
    forged.push([b"?1 \xff\xfe", channel(1).as_bytes()].concat());
    forged.push([question(&channel(1)).into_bytes(), vec![b'x'; 10 << 20]].concat());
    forged.push(vec![b'?'; 10 << 20]);
    // Numbers of this client's next holds, in questions and in notices about another client.
    forged.extend((1..100).map(|number| format!("?1 {REPLY_CHANNEL_PREFIX}:{number}").into_bytes()));
    forged.extend((1..100).map(|number| format!("{id}:{number}").into_bytes()));
    for payload in &forged {
        asker.notify(&client, payload).await;
    }
    // Notices are read in their order, so the forged ones have been read when this is answered.
    let report = asker.ask(&client).await;
    assert_eq!(report.holds, 1);
    assert!(held.is_held());
    for _ in 0..20 {
        let guard = Lock::new(&client, "b").acquire().timeout(SOON).await.unwrap();
        assert!(guard.is_held());
        guard.release().await.unwrap();
    }
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_can_report_only_numbers_or_nothing() {
    let server = server().await;
    let mut asker = Asker::new(&server).await;
    let counts = client_with(&server.url(), |config| config.introspection(Introspection::Counts)).await;
    let off = client_with(&format!("{}?introspection=off", server.url()), |config| config).await;
    let full = client(&server).await;
    let _guards = [
        Lock::new(&counts, "a").acquire().label("secret").await.unwrap(),
        Lock::new(&off, "b").acquire().await.unwrap(),
        Lock::new(&full, "c").acquire().await.unwrap(),
    ];
    let _permits = Semaphore::new(&counts, "p", 9).acquire_many(3).await.unwrap();
    let waiter = tokio::spawn(Lock::new(&counts, "c").acquire().into_future());
    wait_until(SOON, async || counts.stats().waiting == 1).await;
    asker.notify(&off, question(&channel(1)).as_bytes()).await;
    let report = asker.ask(&counts).await;
    assert_eq!((&*report.id, report.holds, report.waiting), (counts.id(), 4, 1));
    assert!(report.pid > 0 && !report.is_truncated);
    assert!(report.held.is_empty() && report.waits.is_empty());
    assert!(report.contention.is_empty() && report.events.is_empty());
    // By the second report of another client, the client would have answered.
    for _ in 0..2 {
        assert_eq!(asker.ask(&full).await.held[0].name, "c");
    }
    waiter.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_questions_cause_one_report_a_second() {
    let server = server().await;
    let mut asker = Asker::new(&server).await;
    let client = client(&server).await;
    listening(&server, &client).await;
    for number in 0..100 {
        asker.notify(&client, question(&channel(number)).as_bytes()).await;
    }
    // Of all, the first one is answered at once, and at most 16 are remembered each time.
    let mut reports: Vec<(Instant, BTreeSet<String>)> = Vec::new();
    let until = Instant::now() + Duration::from_secs(3);
    while let Ok((channel, _)) = tokio::time::timeout_at(until.into(), asker.next()).await {
        // The copies of one report arrive together.
        if reports.last().is_none_or(|(at, _)| at.elapsed() > Duration::from_millis(500)) {
            reports.push((Instant::now(), BTreeSet::new()));
        }
        assert!(reports.last_mut().unwrap().1.insert(channel), "each question is answered once");
    }
    assert!((1..=4).contains(&reports.len()), "{reports:?}");
    assert!(reports.iter().all(|(_, channels)| channels.len() <= 16), "{reports:?}");
    assert!(reports[0].1.contains(&channel(0)), "{reports:?}");
    for pair in reports.windows(2) {
        let pause = pair[1].0 - pair[0].0;
        assert!(pause > Duration::from_millis(700), "{pause:?}");
    }
    // After the flood the client answers as before.
    asker.ask(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_of_ten_thousand_holds_is_bounded() {
    let server = server().await;
    let mut asker = Asker::new(&server).await;
    let client = client(&server).await;
    let pool = Semaphore::new(&client, "pool", 10_000);
    let mut permits = Vec::new();
    let mut locks = Vec::new();
    locks.push(Lock::new(&client, "oldest").acquire().await.unwrap());
    for number in 0..10 {
        permits.push(pool.acquire_many(1000).await.unwrap());
        // The longest names.
        locks.push(Lock::new(&client, format!("{number}{}", "x".repeat(1000))).acquire().await.unwrap());
    }
    let report = asker.ask(&client).await;
    assert_eq!((report.holds, report.is_truncated), (10_011, true));
    assert!(report.held.len() > 100 && report.held[0].name == "oldest", "{} holds", report.held.len());
    assert!(report.held.is_sorted_by_key(|held| std::cmp::Reverse(held.held_for_ms)));
}

#[tokio::test(flavor = "multi_thread")]
async fn losses_and_failures_appear_as_events() {
    let server = server().await;
    let mut asker = Asker::new(&server).await;
    let observer = server.observer().await.unwrap();
    server.set_user("app", &["on", ">secret", "~*", "&*", "+@all"]).await.unwrap();
    let url = server.url_for("app", "secret");
    let client = client_with(&url, |config| config.watchdog_lease(Duration::from_secs(3))).await;
    let other = redgrid_tests::client(&server).await;
    listening(&server, &client).await;
    let stolen = Lock::new(&client, "stolen").acquire().await.unwrap();
    let deleted = Lock::new(&client, "deleted").acquire().await.unwrap();
    let expired = Lock::new(&client, "expired").acquire().lease(Duration::from_secs(1)).await.unwrap();
    let permit = Semaphore::new(&client, "permit", 1).acquire().lease(Duration::from_secs(1)).await.unwrap();
    let _thief = Lock::new(&other, "stolen").steal().await.unwrap();
    observer.cmd(&["DEL", "deleted"]).await.unwrap();
    for lost in [stolen.lost(), deleted.lost(), expired.lost()] {
        tokio::time::timeout(SOON, lost).await.unwrap();
    }
    tokio::time::timeout(SOON, permit.lost()).await.unwrap();
    let has = |report: &ClientReport, what: &str, name: &str| {
        report.events.iter().any(|event| event.what == what && event.name == name && !event.detail.is_empty())
    };
    let losses = [("forced", "stolen"), ("lost", "deleted"), ("lost", "expired"), ("lost", "permit")];
    let all = |report: &ClientReport| losses.iter().all(|(what, name)| has(report, what, name));
    let report = asker.ask_until(&client, all).await;
    for (_, name) in losses {
        let of_name = report.events.iter().filter(|event| event.name == name && event.what != "renewal failed");
        assert_eq!(of_name.count(), 1, "{name}: {:?}", report.events);
    }
    assert!(report.events.is_sorted_by_key(|event: &EventReport| event.age_ms), "the newest first");

    // Renewals are refused, and the question is still answered.
    let _held = Lock::new(&client, "refused").acquire().await.unwrap();
    server.set_user("app", &["-evalsha", "-eval"]).await.unwrap();
    asker.ask_until(&client, |report| has(report, "renewal failed", "refused")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_appears_as_an_event() {
    let server = server().await;
    let mut asker = Asker::new(&server).await;
    let proxy = Proxy::to(&server).await.unwrap();
    let timeout = Duration::from_millis(200);
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(timeout).retries(0)).await;
    listening(&server, &client).await;
    proxy.on_request(|request| if is_script(&request[0]) { Action::CutAfterForward } else { Action::Forward });
    let outcome = Lock::new(&client, "a").acquire().timeout(Duration::from_secs(1)).await;
    let Err(AcquireError::Failed(Failure::OutcomeUnknown { .. })) = outcome else { panic!("{outcome:?}") };
    proxy.heal();
    listening(&server, &client).await;
    let is_unknown = |event: &EventReport| event.what == "unknown" && event.name == "a";
    asker.ask_until(&client, |report| report.events.iter().any(is_unknown)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_the_permission_to_answer_keeps_working() {
    let server = server().await;
    let mut asker = Asker::new(&server).await;
    let rules = published_rules("on ");
    let rules: Vec<&str> = rules.iter().map(String::as_str).filter(|rule| *rule != "&redgrid_console:*").collect();
    server.set_user("app", &rules).await.unwrap();
    let lease = Duration::from_millis(600);
    let client = client_with(&server.url_for("app", "secret"), |config| config.watchdog_lease(lease)).await;
    let full = redgrid_tests::client(&server).await;
    let held = Lock::new(&client, "a").acquire().await.unwrap();
    asker.notify(&client, question(&channel(1)).as_bytes()).await;
    let refused = async || {
        let log: Vec<std::collections::HashMap<String, redis::Value>> =
            asker.observer.query(&["ACL", "LOG"]).await.unwrap();
        log.iter().any(|entry| format!("{entry:?}").contains("redgrid_console"))
    };
    wait_until(SOON, refused).await;
    // Longer than a lease: it is renewed.
    for _ in 0..2 {
        assert_eq!(asker.ask(&full).await.id, full.id(), "only this client answers");
    }
    assert!(held.is_held());
    held.release().await.unwrap();
    Lock::new(&client, "a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_of_more_than_64_bytes_is_rejected() {
    let server = server().await;
    let client = client(&server).await;
    let long = "x".repeat(65);
    let of_lock = Lock::new(&client, "a").acquire().label(&long).await.unwrap_err();
    let of_read = RwLock::new(&client, "a").try_read().label(&long).await.unwrap_err();
    for error in [of_lock, of_read] {
        assert!(matches!(error, AcquireError::Failed(Failure::InvalidArgument { option: "label", .. })), "{error:?}");
        assert_eq!(error.to_string(), "invalid label for `a`: expected at most 64 bytes, got 65 bytes");
    }
    let error = Semaphore::new(&client, "b", 1).try_acquire().label(long).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid label for `b`: expected at most 64 bytes, got 65 bytes");
    assert!(Lock::new(&client, "a").try_acquire().label("x".repeat(64)).await.unwrap().is_some());
}
