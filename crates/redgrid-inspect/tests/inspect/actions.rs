//! Actions on objects, permits and dead letters, and their record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use redgrid_inspect::{
    AUDIT_STREAM, ActionError, ActionOutcome, Actions, DeadSelection, Inspector, MessageId, Operator, Reason,
    RecordedAction, Refusal,
};
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_reliable_queue::ReliableQueue;
use redgrid_reliable_queue::codecs::Text;
use redgrid_testkit::{Action, Proxy, wait_until};

use crate::support::{ONE, SOON, client, hold, inspector, observer, send, server};

/// Returns the actions of an operator.
pub(crate) async fn actions(url: &str) -> Actions {
    Actions::new(&inspector(url).await, Operator::new("ada", "10.0.0.7"))
}

pub(crate) fn reason() -> Reason {
    Reason::new("a test").expect("a reason")
}

/// Returns the only action in the record.
pub(crate) async fn recorded(inspector: &Inspector) -> RecordedAction {
    let mut all = inspector.recorded_actions().await.expect("the record");
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_recorded_with_its_outcome() {
    let server = server().await;
    let observer = observer(&server).await;
    let actions = actions(&format!("{}?namespace=prod", server.url())).await;
    assert_eq!(actions.inspector().recorded_actions().await.expect("the record"), []);
    send(&observer, &["SET", "prod:a", "1"]).await;
    let reason = Reason::new("<b>not needed</b>").expect("a reason");
    let report = actions.delete("a", &reason).await.expect("it is begun");
    assert_eq!((&report.outcome, report.is_recorded), (&ActionOutcome::Done { count: 1 }, true));

    let action = recorded(actions.inspector()).await;
    assert_eq!((&action.id, action.who.as_str(), action.from.as_str()), (&report.id, "ada", "10.0.0.7"));
    assert_eq!(
        (action.action.as_str(), &action.object[..], action.target.as_str()),
        ("delete an object", &b"a"[..], "")
    );
    assert_eq!((action.before.as_str(), action.reason.as_str()), ("number, size 1, no lifetime", "<b>not needed</b>"));
    let ended = action.outcome.expect("it has ended");
    assert_eq!((ended.outcome.as_str(), ended.detail.as_str()), ("done", "1 changed"));
    assert!(ended.at >= action.at && action.at > SystemTime::now() - Duration::from_secs(600));
    assert_eq!(observer.keys("*").await.expect("an answer"), [format!("prod:{AUDIT_STREAM}")]);
    assert_eq!(observer.query::<u64>(&["XLEN", "prod:redgrid_audit"]).await.expect("an answer"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_record_there_is_no_action() {
    let server = server().await;
    let observer = observer(&server).await;
    let actions = actions(&server.url()).await;
    hold(&observer, "job", &format!("{ONE}:17"), "60000").await;
    send(&observer, &["SET", "a", "1"]).await;
    server.deny(&["xadd"]).await.expect("an answer");
    let forced = actions.force_release("job", format!("{ONE}:17"), &reason()).await.expect_err("no record");
    let deleted = actions.delete("a", &reason()).await.expect_err("no record");
    let set = actions.set_lifetime("a", Some(Duration::from_secs(1)), &reason()).await.expect_err("no record");
    for error in [forced, deleted, set] {
        assert!(matches!(error, ActionError::NotRecorded { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("cannot be recorded in `redgrid_audit`") && text.contains("NOPERM"), "{text}");
    }
    assert!(
        observer.exists("job").await.expect("an answer") && !observer.exists(AUDIT_STREAM).await.expect("an answer")
    );
    assert_eq!(observer.time_to_live("a").await.expect("an answer"), None);
    assert!(observer.exists("a").await.expect("an answer"));

    // The record is a key of another type.
    server.allow(&["xadd"]).await.expect("an answer");
    send(&observer, &["SET", AUDIT_STREAM, "1"]).await;
    assert!(matches!(actions.delete("a", &reason()).await, Err(ActionError::NotRecorded { .. })));
    assert!(observer.exists("a").await.expect("an answer"));
    assert!(actions.inspector().recorded_actions().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_leaves_the_outcome_unknown() {
    let server = server().await;
    let observer = observer(&server).await;
    let proxy = Proxy::to(&server).await.expect("a proxy");
    let actions = actions(&server.url_via(proxy.addr())).await;
    send(&observer, &["SET", "warm", "1"]).await;
    // The server knows the scripts after this.
    assert!(actions.delete("warm", &reason()).await.expect("it is begun").outcome.is_done());
    send(&observer, &["SET", "a", "1"]).await;
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = Arc::clone(&is_cut);
    proxy.on_request(move |request| {
        let is_it = request.iter().any(|part| part == "UNLINK") && !cut.swap(true, Ordering::SeqCst);
        if is_it { Action::CutAfterForward } else { Action::Forward }
    });
    let report = actions.delete("a", &reason()).await.expect("it is begun");
    assert!(is_cut.load(Ordering::SeqCst));
    assert!(matches!(report.outcome, ActionOutcome::Unknown { .. }) && report.is_recorded, "{report:?}");
    assert!(!observer.exists("a").await.expect("an answer"), "it was executed");
    let newest = actions.inspector().recorded_actions().await.expect("the record").remove(0);
    assert_eq!(newest.outcome.map(|ended| ended.outcome).as_deref(), Some("unknown"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_outcome_is_reported() {
    let server = server().await;
    let observer = observer(&server).await;
    let proxy = Proxy::to(&server).await.expect("a proxy");
    let actions = actions(&server.url_via(proxy.addr())).await;
    send(&observer, &["SET", "a", "1"]).await;
    proxy.on_request(
        |request| {
            if request.iter().any(|part| part == "outcome") { Action::CutBefore } else { Action::Forward }
        },
    );
    let report = actions.delete("a", &reason()).await.expect("it is begun");
    assert!(report.outcome.is_done() && !report.is_recorded, "{report:?}");
    proxy.heal();
    assert_eq!(recorded(&inspector(&server.url()).await).await.outcome, None, "the record has only the beginning");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_changed_with_all_that_belongs_to_it() {
    let server = server().await;
    let observer = observer(&server).await;
    let actions = actions(&server.url()).await;
    send(&observer, &["SET", "permits", "5"]).await;
    send(&observer, &["ZADD", "{permits}:timeout", "9000000000000", "a"]).await;
    let minute = Some(Duration::from_secs(60));
    assert!(actions.set_lifetime("permits", minute, &reason()).await.expect("it is begun").outcome.is_done());
    for key in ["permits", "{permits}:timeout"] {
        assert!(observer.time_to_live(key).await.expect("an answer").is_some_and(|left| Some(left) <= minute), "{key}");
    }
    assert!(actions.set_lifetime("permits", None, &reason()).await.expect("it is begun").outcome.is_done());
    assert_eq!(observer.time_to_live("{permits}:timeout").await.expect("an answer"), None);
    assert!(actions.delete("permits", &reason()).await.expect("it is begun").outcome.is_done());
    assert_eq!(observer.keys("*permits*").await.expect("an answer"), Vec::<String>::new());
    let again = actions.delete("permits", &reason()).await.expect("it is begun");
    assert_eq!(again.outcome, ActionOutcome::Refused(Refusal::Absent));

    let name = b"\xff\xfe\0\r\n<img>";
    observer.cmd(&[&b"SET"[..], &name[..], b"1"]).await.expect("an answer");
    assert!(actions.delete(name, &reason()).await.expect("it is begun").outcome.is_done());
    let newest = actions.inspector().recorded_actions().await.expect("the record").remove(0);
    assert_eq!((&newest.object[..], newest.before.as_str()), (&name[..], "number, size 1, no lifetime"));

    let record = actions.delete(AUDIT_STREAM, &reason()).await;
    assert!(matches!(record, Err(ActionError::IsRecord { .. })), "{record:?}");
    // The record of another namespace is an object here.
    send(&observer, &["XADD", "prod:redgrid_audit", "*", "id", "1"]).await;
    let other = actions.delete("prod:redgrid_audit", &reason()).await;
    let expiring = actions.set_lifetime("prod:redgrid_audit", minute, &reason()).await;
    for refused in [other, expiring] {
        assert!(matches!(&refused, Err(ActionError::IsRecord { name }) if name == "prod:redgrid_audit"), "{refused:?}");
    }
    assert_eq!(observer.query::<u64>(&["XLEN", "prod:redgrid_audit"]).await.expect("an answer"), 1);
    assert_eq!(observer.time_to_live("prod:redgrid_audit").await.expect("an answer"), None);
    send(&observer, &["SET", "my_redgrid_audit", "1"]).await;
    let similar = actions.delete("my_redgrid_audit", &reason()).await.expect("it is begun");
    assert!(similar.outcome.is_done(), "another name");
    let endless = actions.set_lifetime("a", Some(Duration::MAX), &reason()).await;
    assert!(matches!(endless, Err(ActionError::Inspect(_))), "{endless:?}");
    assert!(observer.exists(AUDIT_STREAM).await.expect("an answer"));

    // The holder of a lock would not notice the change.
    hold(&observer, "job", &format!("{ONE}:17"), "60000").await;
    let deleted = actions.delete("job", &reason()).await;
    let expiring = actions.set_lifetime("job", minute, &reason()).await;
    for refused in [deleted, expiring] {
        assert!(matches!(refused, Err(ActionError::IsLock { .. })), "{refused:?}");
    }
    assert!(observer.exists("job").await.expect("an answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_becomes_a_lock_meanwhile_is_not_changed() {
    let server = server().await;
    let observer = observer(&server).await;
    let proxy = Proxy::to(&server).await.expect("a proxy");
    let actions = actions(&server.url_via(proxy.addr())).await;
    for is_deleted in [true, false] {
        send(&observer, &["DEL", "job"]).await;
        send(&observer, &["SET", "job", "1"]).await;
        // The record is written after the object was read.
        proxy.next(1, "XADD", Action::Hold);
        let change = tokio::spawn({
            let actions = actions.clone();
            let lifetime = Some(Duration::from_secs(1));
            async move {
                match is_deleted {
                    true => actions.delete("job", &reason()).await,
                    false => actions.set_lifetime("job", lifetime, &reason()).await,
                }
            }
        });
        wait_until(SOON, async || proxy.counts().held == 1).await;
        send(&observer, &["DEL", "job"]).await;
        hold(&observer, "job", &format!("{ONE}:17"), "60000").await;
        assert_eq!(proxy.release_held().await, 1);
        let report = change.await.expect("no panic").expect("it is begun");
        assert_eq!(report.outcome, ActionOutcome::Refused(Refusal::IsLock));
        let left = observer.time_to_live("job").await.expect("an answer").expect("the lease");
        assert!(left > Duration::from_secs(30), "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multimap_that_is_deleted_in_part_has_an_unknown_outcome() {
    let server = server().await;
    let observer = observer(&server).await;
    // A multimap of several pages. Each value of the hash names the set of a key.
    let fill = "for i = 1, 1000 do local hash = string.format('A%021d', i); \
                redis.call('HSET', KEYS[1], 'key:' .. i, hash); \
                redis.call('SADD', '{' .. KEYS[1] .. '}:' .. hash, 'a') end";
    send(&observer, &["EVAL", fill, "1", "m"]).await;
    // The user may not touch the values of a key of the last page.
    let mut cursor = "0".to_owned();
    let last = loop {
        let (next, page): (String, Vec<String>) =
            observer.query(&["HSCAN", "m", &cursor, "COUNT", "100"]).await.expect("an answer");
        if next == "0" && !page.is_empty() {
            break page[0].clone();
        }
        assert_ne!(next, "0", "the last page is empty");
        cursor = next;
    };
    send(&observer, &["HSET", "m", &last, &format!("B{}", "0".repeat(21))]).await;
    let user = ["ACL", "SETUSER", "ops", "on", ">secret", "&*", "+@all", "~[^{]*", "~{m}:[^B]*"];
    send(&observer, &user).await;
    let actions = actions(&server.url_for("ops", "secret")).await;
    let report = actions.delete("m", &reason()).await.expect("it is begun");
    let left: u64 = observer.query(&["HLEN", "m"]).await.expect("an answer");
    assert!((1..1000).contains(&left), "{left} keys are left: the test needs a part");
    assert!(matches!(report.outcome, ActionOutcome::Unknown { .. }), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_is_given_back_by_its_id_and_once() {
    let server = server().await;
    let actions = actions(&server.url()).await;
    let user = client(&server.url()).await;
    let semaphore = PermitExpirableSemaphore::new(&user, "permits");
    semaphore.set_permits(2).await.expect("an answer");
    let (one, two) = (semaphore.acquire().await.expect("a permit"), semaphore.acquire().await.expect("a permit"));
    let id = one.ids().next().expect("an id");
    let report = actions.return_permit("permits", id, &reason()).await.expect("it is begun");
    assert_eq!(report.outcome, ActionOutcome::Done { count: 1 });
    let action = recorded(actions.inspector()).await;
    assert!(action.target == id.to_string() && action.before.starts_with("held, "), "{action:?}");
    assert_eq!(semaphore.available_permits().await.expect("an answer"), 1);
    let again = actions.return_permit("permits", id, &reason()).await.expect("it is begun");
    assert_eq!(again.outcome, ActionOutcome::Refused(Refusal::Absent));
    assert_eq!(semaphore.available_permits().await.expect("an answer"), 1);
    two.release().await.expect("it was held");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_redriven_and_removed_by_their_ids() {
    let server = server().await;
    let actions = actions(&server.url()).await;
    let user = client(&server.url()).await;
    let queue = ReliableQueue::<String, Text>::new(&user, "mails");
    for text in ["a", "b", "c", "d"] {
        queue.push(text).await.expect("it is pushed");
        let delivery = queue.try_receive().await.expect("an answer").expect("a message");
        delivery.reject("unreadable").await.expect("it is dead");
    }
    send(&observer(&server).await, &["DEL", AUDIT_STREAM]).await;
    let ids = dead_ids(&queue).await;
    let [a, b, c, d] = ids[..] else { panic!("{ids:?}") };
    let one = actions.redrive("mails", DeadSelection::Marked(vec![a]), &reason()).await.expect("it is begun");
    assert_eq!(one.outcome, ActionOutcome::Done { count: 1 });
    let action = recorded(actions.inspector()).await;
    assert_eq!((action.target, action.before.as_str()), (a.to_string(), "4 dead letters"));
    // The message is ready now, and is neither redriven nor removed as a dead letter.
    for selection in [DeadSelection::Marked(vec![a]), DeadSelection::Marked(vec![a])] {
        let removed = actions.remove_dead("mails", selection, &reason()).await.expect("it is begun");
        assert_eq!(removed.outcome, ActionOutcome::Refused(Refusal::Absent));
    }
    assert_eq!(queue.counts().await.expect("counts").ready, 1);
    let marked = DeadSelection::Marked(vec![a, b]);
    let removed = actions.remove_dead("mails", marked, &reason()).await.expect("it is begun");
    assert_eq!((removed.outcome, dead_ids(&queue).await), (ActionOutcome::Done { count: 1 }, vec![c, d]));
    let all = actions.redrive("mails", DeadSelection::All, &reason()).await.expect("it is begun");
    assert_eq!((all.outcome, queue.counts().await.expect("counts").ready), (ActionOutcome::Done { count: 2 }, 3));
    let none = actions.remove_dead("mails", DeadSelection::All, &reason()).await.expect("it is begun");
    assert_eq!(none.outcome, ActionOutcome::Refused(Refusal::Absent));
    let many = DeadSelection::Marked(vec![a; 101]);
    assert!(matches!(actions.redrive("mails", many, &reason()).await, Err(ActionError::Inspect(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_all_dead_letters_is_an_unknown_outcome_with_their_number() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.expect("a proxy");
    let actions = actions(&server.url_via(proxy.addr())).await;
    let user = client(&server.url()).await;
    let queue = ReliableQueue::<String, Text>::new(&user, "mails");
    for _ in 0..150 {
        queue.push("a").await.expect("it is pushed");
        let delivery = queue.try_receive().await.expect("an answer").expect("a message");
        delivery.reject("unreadable").await.expect("it is dead");
    }
    // The second batch of a hundred is refused.
    let batches = AtomicU64::new(0);
    proxy.on_request(move |request| {
        let is_batch = request.iter().any(|part| part == "redrive");
        if is_batch && batches.fetch_add(1, Ordering::SeqCst) == 1 { Action::Hold } else { Action::Forward }
    });
    let redriven = tokio::spawn(async move {
        actions.redrive("mails", DeadSelection::All, &reason()).await.expect("it is begun").outcome
    });
    wait_until(SOON, async || proxy.counts().held == 1).await;
    server.deny(&["evalsha", "eval"]).await.expect("an answer");
    proxy.release_held().await;
    let outcome = redriven.await.expect("no panic");
    let ActionOutcome::Unknown { why } = &outcome else { panic!("{outcome:?}") };
    assert!(why.contains("failed after 100 elements"), "{why}");
    server.allow(&["evalsha", "eval"]).await.expect("an answer");
    assert_eq!(queue.counts().await.expect("counts").dead, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_paused_and_resumed() {
    let server = server().await;
    let actions = actions(&server.url()).await;
    let user = client(&server.url()).await;
    let queue = ReliableQueue::<String, Text>::new(&user, "mails");
    let absent = actions.pause("mails", &reason()).await.expect("it is begun");
    assert_eq!(absent.outcome, ActionOutcome::Refused(Refusal::Absent));
    assert!(!queue.object().exists().await.expect("an answer"), "the action created a queue");
    queue.push("a").await.expect("it is pushed");
    send(&observer(&server).await, &["DEL", AUDIT_STREAM]).await;
    let paused = actions.pause("mails", &reason()).await.expect("it is begun");
    assert_eq!(paused.outcome, ActionOutcome::Done { count: 1 });
    assert!(queue.is_paused().await.expect("an answer"));
    let action = recorded(actions.inspector()).await;
    assert_eq!((action.action.as_str(), action.before.as_str()), ("pause a queue", "running"));
    let again = actions.pause("mails", &reason()).await.expect("it is begun");
    assert_eq!(again.outcome, ActionOutcome::Refused(Refusal::Unchanged));
    let resumed = actions.resume("mails", &reason()).await.expect("it is begun");
    assert_eq!(resumed.outcome, ActionOutcome::Done { count: 1 });
    assert!(queue.try_receive().await.expect("an answer").is_some());
}

async fn dead_ids(queue: &ReliableQueue<String, Text>) -> Vec<MessageId> {
    use futures_util::TryStreamExt as _;
    let dead: Vec<_> = queue.dead().stream().try_collect().await.expect("a list");
    dead.iter().map(|message| message.id()).collect()
}
