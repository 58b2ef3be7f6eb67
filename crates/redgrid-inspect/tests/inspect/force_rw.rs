//! Taking a read-write lock away: only the read or the write that was seen.

use std::time::Duration;

use redgrid_inspect::{ActionOutcome, Actions, Inspector, Mode, Operator, Refusal};
use redgrid_locks::{Holder, RwLock};
use redgrid_testkit::{Action, Observer, Proxy};

use crate::actions::{actions, reason};
use crate::force::{field, lost, outcome};
use crate::support::{JAVA, ONE, client, observer, send, server};

/// Writes the lock of a thread of Redisson that reads and writes. Returns both fields.
async fn hold_both(observer: &Observer) -> (String, String) {
    let (reader, writer) = (format!("{JAVA}:1"), format!("{JAVA}:1:write"));
    send(observer, &["HSET", "prices", "mode", "write", &writer, "1", &reader, "1"]).await;
    send(observer, &["PEXPIRE", "prices", "60000"]).await;
    (reader, writer)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_reader_of_several_loses_its_hold() {
    let server = server().await;
    let actions = actions(&server.url()).await;
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let mine = RwLock::new(&one, "prices").read().await.expect("it is free");
    let theirs = RwLock::new(&two, "prices").read().await.expect("it is free");
    let view = actions.inspector().lock("prices").await.expect("an answer");
    let seen = view.holders.iter().find(|holder| holder.client == one.id()).expect("a reader").field();
    assert_eq!(outcome(&actions, "prices", &seen).await, ActionOutcome::Done { count: 1 });
    lost(mine.lost()).await;
    let left = field(actions.inspector(), "prices").await;
    let passed = Refusal::HeldByAnother { holders: vec![left.clone()] };
    assert_eq!(outcome(&actions, "prices", &seen).await, ActionOutcome::Refused(passed.clone()));
    // A reader is not a writer.
    assert_eq!(outcome(&actions, "prices", &format!("{left}:write")).await, ActionOutcome::Refused(passed));
    assert!(theirs.is_held());
    theirs.release().await.expect("it was held");
    let record = actions.inspector().recorded_actions().await.expect("the record");
    assert!(record.iter().all(|action| action.action == "force a lock" && action.outcome.is_some()), "{record:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_writes_loses_only_its_read() {
    let server = server().await;
    let observer = observer(&server).await;
    let actions = actions(&server.url()).await;
    let (reader, writer) = hold_both(&observer).await;
    assert_eq!(outcome(&actions, "prices", &reader).await, ActionOutcome::Done { count: 1 });
    assert_eq!(field(actions.inspector(), "prices").await, writer);
    // It does not read any more, and keeps the write lock.
    let passed = Refusal::HeldByAnother { holders: vec![writer.clone()] };
    assert_eq!(outcome(&actions, "prices", &reader).await, ActionOutcome::Refused(passed));
    assert_eq!(field(actions.inspector(), "prices").await, writer);
    assert_eq!(outcome(&actions, "prices", &writer).await, ActionOutcome::Done { count: 1 });
    assert!(!observer.exists("prices").await.expect("an answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_reads_loses_only_its_write() {
    let server = server().await;
    let observer = observer(&server).await;
    let actions = actions(&server.url()).await;
    // It has the write for longer than a takeover.
    let (reader, writer) = hold_both(&observer).await;
    assert_eq!(outcome(&actions, "prices", &writer).await, ActionOutcome::Done { count: 1 });
    assert_eq!(field(actions.inspector(), "prices").await, reader);
    assert_eq!(observer.query::<String>(&["HGET", "prices", "mode"]).await.expect("an answer"), "read");
    let left = observer.time_to_live("prices").await.expect("an answer").expect("a lifetime");
    assert!(left > Duration::from_secs(30), "the read keeps its lease: {left:?}");
    // Other clients may read now, and none may write.
    let prices = RwLock::new(&client(&server.url()).await, "prices");
    prices.try_read().await.expect("an answer").expect("it is read").release().await.expect("it was held");
    assert!(prices.try_write().await.expect("an answer").is_none());
    let passed = Refusal::HeldByAnother { holders: vec![reader.clone()] };
    assert_eq!(outcome(&actions, "prices", &writer).await, ActionOutcome::Refused(passed));
    assert_eq!(outcome(&actions, "prices", &reader).await, ActionOutcome::Done { count: 1 });
    assert!(!observer.exists("prices").await.expect("an answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redgrid_writer_that_reads_keeps_its_read() {
    let server = server().await;
    let user = client(&server.url()).await;
    // Taken away by another process, and by its own.
    let other = actions(&server.url()).await;
    let own = Actions::new(&Inspector::new(&user), Operator::new("ada", "10.0.0.7"));
    for actions in [other, own] {
        let (prices, holder) = (RwLock::new(&user, "prices"), Holder::new());
        let write = prices.write().holder(&holder).await.expect("it is free");
        let read = prices.read().holder(&holder).await.expect("its own read");
        let view = actions.inspector().lock("prices").await.expect("an answer");
        let writer = view.holders.iter().find(|holder| holder.mode == Mode::Write).expect("a writer").field();
        assert_eq!(outcome(&actions, "prices", &writer).await, ActionOutcome::Done { count: 1 });
        lost(write.lost()).await;
        assert!(read.is_held());
        read.release().await.expect("it was held");
        let next = prices.try_write().await.expect("an answer").expect("it is free");
        next.release().await.expect("it was held");
    }
}

/// Its holder has released it, and it stays taken for its `hold_at_least`.
#[tokio::test(flavor = "multi_thread")]
async fn a_retained_hold_is_not_removed() {
    let server = server().await;
    let observer = observer(&server).await;
    let actions = actions(&server.url()).await;
    for (mode, retained) in [("read", format!("{ONE}:1:kept")), ("write", format!("{ONE}:1:write:kept"))] {
        send(&observer, &["DEL", "prices"]).await;
        send(&observer, &["HSET", "prices", "mode", mode, &retained, "1"]).await;
        let passed = Refusal::HeldByAnother { holders: vec![retained.clone()] };
        assert_eq!(outcome(&actions, "prices", &retained).await, ActionOutcome::Refused(passed), "{mode}");
        assert_eq!(field(actions.inspector(), "prices").await, retained);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_about_a_reader_leaves_the_outcome_unknown() {
    let server = server().await;
    let observer = observer(&server).await;
    let proxy = Proxy::to(&server).await.expect("a proxy");
    let actions = actions(&server.url_via(proxy.addr())).await;
    let readers = [1, 2].map(|number| format!("{ONE}:{number}"));
    send(&observer, &["HSET", "prices", "mode", "read", &readers[0], "1", &readers[1], "1"]).await;
    send(&observer, &["PEXPIRE", "prices", "60000"]).await;
    // The server knows the script after this.
    assert!(outcome(&actions, "prices", &readers[0]).await.is_done());
    let reader = readers[1].clone();
    proxy.on_request(move |request| {
        let is_eviction =
            request.get(2).is_some_and(|keys| keys == "3") && request.get(6).is_some_and(|it| *it == reader);
        if is_eviction { Action::CutAfterForward } else { Action::Forward }
    });
    let report = actions.force_release("prices", &readers[1], &reason()).await.expect("it is begun");
    assert!(matches!(report.outcome, ActionOutcome::Unknown { .. }) && report.is_recorded, "{report:?}");
    assert!(!observer.exists("prices").await.expect("an answer"), "it was executed");
    let newest = actions.inspector().recorded_actions().await.expect("the record").remove(0);
    assert_eq!(newest.outcome.map(|ended| ended.outcome).as_deref(), Some("unknown"));
}
