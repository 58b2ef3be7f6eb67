//! Users with the published permissions, and users with fewer.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use redgrid_core::Config;
use redgrid_inspect::reliable_queue::codecs::Text;
use redgrid_inspect::reliable_queue::{MessageGroup, ReliableQueue};
use redgrid_inspect::{
    DeadSelection, Finding, HolderState, ObjectFilter, ObjectKind, ObjectView, Requirements, SynchronizerState,
};
use redgrid_locks::{Election, FairLock, FencedLock, Lock, RwLock};
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_testkit::{Cluster, Observer, redis::Value};

use crate::actions::{actions, reason};
use crate::support::{FakeClient, JAVA, ONE, client, hold, inspector, list, living_client, observer, send, server};

/// The lines for a reader, or an operator, in docs/operating/acl.md.
fn published(user: &str) -> Vec<Vec<String>> {
    let page = include_str!("../../../../docs/operating/acl.md");
    let lines = page.lines().filter(|line| line.starts_with(&format!("ACL SETUSER {user} ")));
    lines.map(|line| line.replace("SECRET", "secret").split(' ').map(str::to_owned).collect()).collect()
}

async fn allow(observer: &Observer, line: &[String]) {
    observer.cmd(line).await.unwrap_or_else(|error| panic!("{}: {error}", line.join(" ")));
}

/// Fails if the server refused anything to this user.
async fn assert_nothing_was_refused(observer: &Observer) {
    let log: Vec<Value> = observer.query(&["ACL", "LOG"]).await.expect("an answer");
    assert!(log.is_empty(), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_permissions_are_enough() {
    let server = server().await;
    let observer = observer(&server).await;
    allow(&observer, &published("reader")[0]).await;
    for (name, holder) in [("job", ONE), ("java", JAVA)] {
        hold(&observer, name, &format!("{holder}:17"), "60000").await;
    }
    let reader = format!("{ONE}:18");
    send(&observer, &["HSET", "prices", "mode", "read", &reader, "1"]).await;
    send(&observer, &["HSET", "map", "key", "AAAAAAAAAAAAAAAAAAAAAA"]).await;
    send(&observer, &["SADD", "{map}:AAAAAAAAAAAAAAAAAAAAAA", "1"]).await;
    for (name, command) in [("text", "SET"), ("list", "RPUSH"), ("set", "SADD"), ("log", "PFADD")] {
        send(&observer, &[command, name, "1"]).await;
    }
    send(&observer, &["ZADD", "{text}:timeout", "1", "a"]).await;
    send(&observer, &["XADD", "stream", "*", "a", "1"]).await;
    send(&observer, &["XGROUP", "CREATE", "stream", "mail", "0"]).await;
    send(&observer, &["HSET", "cache", "a", "1"]).await;
    send(&observer, &["ZADD", "redisson__timeout__set:{cache}", "1000", "a"]).await;
    send(&observer, &["HSET", "{cache}:redisson_options", "max-size", "7"]).await;
    let user = client(&server.url()).await;
    let queue = ReliableQueue::<String, Text>::new(&user, "jobs");
    queue.push("a").await.expect("it is pushed");
    queue.pause().await.expect("it is paused");
    send(&observer, &["HSET", "redgrid_barrier:{gate}", "round", "1", "parties", "2"]).await;
    send(&observer, &["ZADD", "redgrid_barrier_waiting:{gate}", "9e15", "a"]).await;
    send(&observer, &["HSET", "rate", "rate", "5", "interval", "1000"]).await;
    send(&observer, &["ZADD", "{rate}:permits", "1", "a"]).await;
    let _one = FakeClient::answering(&server.url(), ONE, "web-1").await;
    send(&observer, &["ACL", "LOG", "RESET"]).await;

    let inspector = inspector(&server.url_for("reader", "secret")).await;
    let view = inspector.lock("job").await.expect("an answer");
    assert_eq!((view.holders[0].state, view.waiting_clients, view.queue_len), (HolderState::Alive, Some(0), Some(0)));
    let answers = inspector.ask(&view.ask_ids(), Duration::from_secs(5)).await.expect("answers");
    assert_eq!(answers[0].report.as_ref().map(|report| report.host.as_str()), Some("web-1"));
    assert!(inspector.living_clients().await.expect("an answer").is_complete);
    let prices = inspector.lock("prices").await.expect("an answer");
    assert_eq!(prices.holders[0].reader_lease_left, Some(Duration::ZERO));
    assert!(!inspector.lock("text").await.expect("an answer").is_held());
    let all = list(&inspector, &ObjectFilter::new()).await;
    assert_eq!(all.len(), 13, "{:?}", all.keys());
    assert!(all.values().all(|view| view.kind != ObjectKind::Unknown), "{all:?}");
    let jobs = inspector.queue("jobs").await.expect("an answer").expect("it exists");
    assert_eq!((jobs.counts.ready, jobs.waiting_clients), (1, Some(0)));
    let page = inspector.messages("jobs", MessageGroup::Ready, 0).await.expect("an answer");
    assert_eq!(page.messages.len(), 1);
    let gate = inspector.synchronizer("gate", ObjectKind::Barrier).await.expect("an answer").expect("it exists");
    assert_eq!(gate.state, SynchronizerState::Barrier { round: 1, parties: 2, waiting: 1 });
    let rate = inspector.limiter("rate").await.expect("an answer").expect("it exists");
    assert_eq!((rate.rate, rate.log_len), (5, Some(1)));
    let stream = inspector.stream("stream").await.expect("an answer").expect("it exists");
    assert_eq!((stream.len, stream.groups.map(|groups| groups.len())), (1, Some(1)));
    let cache = inspector.map_cache("cache").await.expect("an answer").expect("it exists");
    assert_eq!((cache.lifetimes.over, cache.limit.map(|limit| limit.entries)), (1, Some(7)));
    assert_nothing_was_refused(&observer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_acts_with_the_published_permissions() {
    let server = server().await;
    let observer = observer(&server).await;
    let (lines, of_newer) = (published("operator"), ["operator", "+hpttl"]);
    allow(&observer, &lines[0]).await;
    let newer =
        lines.iter().find(|line| line.ends_with(&of_newer.map(str::to_owned))).expect("a line for newer servers");
    let known: Vec<Option<Value>> = observer.query(&["COMMAND", "INFO", "hpttl"]).await.expect("an answer");
    if known[0].is_some() {
        allow(&observer, newer).await;
    }
    let user = client(&server.url()).await;
    let plain = Lock::new(&user, "plain").acquire().await.expect("it is free");
    let fenced = FencedLock::new(&user, "fenced").acquire().await.expect("it is free");
    let write = RwLock::new(&user, "write").write().await.expect("it is free");
    let read = RwLock::new(&user, "read").read().await.expect("it is free");
    let leads = Election::new(&user, "leader").campaign().await.expect("it is elected");
    let fair = FairLock::new(&user, "fair").acquire().await.expect("it is free");
    let next = client(&server.url()).await;
    let waiting = tokio::spawn(FairLock::new(&next, "fair").acquire().into_future());
    let semaphore = PermitExpirableSemaphore::new(&user, "permits");
    semaphore.set_permits(1).await.expect("an answer");
    let permit = semaphore.acquire().await.expect("a permit");
    let queue = ReliableQueue::<String, Text>::new(&user, "mails");
    queue.push("a").await.expect("it is pushed");
    queue.try_receive().await.expect("an answer").expect("a message").reject("odd").await.expect("it is dead");
    send(&observer, &["SET", "text", "1"]).await;
    send(&observer, &["HSET", "multimap", "key", "AAAAAAAAAAAAAAAAAAAAAA"]).await;
    send(&observer, &["SADD", "{multimap}:AAAAAAAAAAAAAAAAAAAAAA", "1"]).await;
    send(&observer, &["ACL", "LOG", "RESET"]).await;

    let actions = actions(&server.url_for("operator", "secret")).await;
    for name in ["plain", "fenced", "write", "read", "leader", "fair"] {
        let view = actions.inspector().lock(name).await.expect("an answer");
        let report = actions.force_release(name, view.holders[0].field(), &reason()).await.expect("it is begun");
        assert!(report.outcome.is_done() && report.is_recorded, "{name}: {report:?}");
    }
    waiting.await.expect("no panic").expect("it is its turn").release().await.expect("it was held");
    let id = permit.ids().next().expect("an id");
    let reports = [
        actions.return_permit("permits", id, &reason()).await,
        actions.redrive("mails", DeadSelection::All, &reason()).await,
        actions.set_lifetime("text", Some(Duration::from_secs(60)), &reason()).await,
        actions.set_lifetime("text", None, &reason()).await,
        actions.set_lifetime("multimap", Some(Duration::from_secs(60)), &reason()).await,
        actions.delete("text", &reason()).await,
        actions.delete("mails", &reason()).await,
    ];
    for report in reports {
        let report = report.expect("it is begun");
        assert!(report.outcome.is_done() && report.is_recorded, "{report:?}");
    }
    assert_eq!(actions.inspector().recorded_actions().await.expect("the record").len(), 13);
    assert_nothing_was_refused(&observer).await;
    drop((plain, fenced, write, read, leads, fair, permit));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_permissions_are_enough_in_a_cluster() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let sharded = cluster.nodes()[0].binary().version().major >= 7;
    for node in cluster.nodes() {
        let observer = node.observer().await.expect("an observer");
        for mut line in published("reader") {
            // Redis 6.2 has no sharded channels.
            line.retain(|rule| sharded || !["+ssubscribe", "+sunsubscribe"].contains(&rule.as_str()));
            allow(&observer, &line).await;
        }
        send(&observer, &["ACL", "LOG", "RESET"]).await;
    }
    let writer = living_client(&cluster.url()).await;
    let guard = redgrid_locks::Lock::new(&writer, "job").acquire().await.expect("it is free");
    let url = cluster.url().replacen("://", "://reader:secret@", 1);
    let inspector = inspector(&url).await;
    let view = inspector.lock("job").await.expect("an answer");
    assert_eq!((view.holders[0].state, view.waiting_clients), (HolderState::Alive, Some(0)));
    assert_eq!(list(&inspector, &ObjectFilter::new()).await.len(), 1);
    assert!(inspector.living_clients().await.expect("an answer").is_complete);
    inspector.ask(&view.ask_ids(), Duration::ZERO).await.expect("it was asked");
    // The checks of a reader leave out what it may not read, and do not report that as a fault.
    let config = Config::from_url(&url).expect("a URL");
    let report = inspector.doctor(&Requirements::of(&config).for_reader()).await.expect("a report");
    assert_eq!(report.nodes.len(), 3, "{report:?}");
    let is_left_out = |finding: &Finding| ["settings", "acl", "cluster"].contains(&finding.check);
    assert!(!report.findings.iter().any(is_left_out), "{report:?}");
    for node in cluster.nodes() {
        assert_nothing_was_refused(&node.observer().await.expect("an observer")).await;
    }
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_user_may_not_read_is_unknown() {
    let server = server().await;
    let observer = observer(&server).await;
    hold(&observer, "job", &format!("{ONE}:17"), "60000").await;
    let _one = FakeClient::start(&server.url(), ONE, Vec::new()).await;
    send(&observer, &["SET", "redisson_lock_token:{job}", "7"]).await;
    server.deny(&["pubsub", "lrange", "getrange"]).await.expect("an answer");
    let inspector = inspector(&server.url()).await;
    let view = inspector.lock("job").await.expect("an answer");
    assert_eq!((view.is_held(), view.holders[0].state), (true, HolderState::Unknown));
    assert_eq!((view.waiting_clients, view.queue_len, view.token), (None, None, None));
    assert!(inspector.living_clients().await.is_err(), "an empty list would mean that no client lives");
    server.allow(&["pubsub", "lrange", "getrange"]).await.expect("an answer");
    server.deny(&["info"]).await.expect("an answer");
    let refused = inspector.living_clients().await.expect_err("the list may have any length");
    assert!(refused.to_string().to_lowercase().contains("info"), "{refused}");
    server.allow(&["info"]).await.expect("an answer");
    assert!(inspector.living_clients().await.expect("an answer").is_complete);
    let view = inspector.lock("job").await.expect("an answer");
    assert_eq!((view.holders[0].state, view.queue_len, view.token), (HolderState::Alive, Some(0), Some(7)));

    for command in ["hlen", "pttl", "evalsha"] {
        server.deny(&[command]).await.expect("an answer");
        assert!(inspector.lock("job").await.is_err(), "without {command} it would look free");
        server.allow(&[command]).await.expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_the_user_may_not_read_are_listed_as_unknown() {
    let server = server().await;
    let observer = observer(&server).await;
    hold(&observer, "orders:1", &format!("{ONE}:17"), "60000").await;
    hold(&observer, "other", &format!("{ONE}:18"), "60000").await;
    let rules = ["on", ">secret", "~orders:*", "&*", "+@all"];
    server.set_user("narrow", &rules).await.expect("an answer");
    let inspector = inspector(&server.url_for("narrow", "secret")).await;
    let all = list(&inspector, &ObjectFilter::new()).await;
    // The companions of a lock are outside the pattern, and the lock itself is not.
    assert_eq!((all["orders:1"].kind, all["other"].kind), (ObjectKind::Lock, ObjectKind::Unknown));
    assert_eq!((all["other"].size, all["other"].lifetime, &all["other"].holder), (None, None, &None));
    let locks = inspector.objects(&ObjectFilter::new().of_kinds([ObjectKind::Lock]));
    let refused = locks.try_collect::<Vec<ObjectView>>().await.expect_err("the other one may be a lock");
    assert!(refused.to_string().contains("other"), "{refused}");
    // The stream ends after the first error.
    for number in 0..200 {
        hold(&observer, &format!("other:{number}"), &format!("{ONE}:19"), "60000").await;
    }
    let items: Vec<_> = inspector.objects(&ObjectFilter::new().of_kinds([ObjectKind::Lock])).collect().await;
    let failed: Vec<_> = items.iter().enumerate().filter(|(_, item)| item.is_err()).map(|(at, _)| at + 1).collect();
    assert_eq!(failed, [items.len()]);
    let own = inspector.objects(&ObjectFilter::new().matching("orders:*").of_kinds([ObjectKind::Lock]));
    assert_eq!(own.try_collect::<Vec<ObjectView>>().await.expect("a list").len(), 1);
}
