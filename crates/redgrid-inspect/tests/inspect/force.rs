//! Taking a lock away: only from the holder that was seen, whatever the kind of the lock.

use std::time::Duration;

use redgrid_inspect::{AUDIT_STREAM, ActionError, ActionOutcome, Actions, Client, Inspector, LockKind, Refusal};
use redgrid_locks::{Election, FairLock, FencedLock, Lock, LostReason, RwLock};
use redgrid_testkit::{Action, Cluster, Proxy, wait_until};

use crate::actions::{actions, reason, recorded};
use crate::support::{ONE, SOON, client, hold, inspector, observer, send, server};

/// Hand-overs for each of [`NAMES`] locks: 1,000 in all.
const ROUNDS: u64 = 25;
const NAMES: usize = 40;

pub(crate) async fn lost(lost: impl Future<Output = LostReason>) {
    tokio::time::timeout(SOON, lost).await.expect("the holder is notified");
}

/// Returns the field of the only holder.
pub(crate) async fn field(inspector: &Inspector, name: &str) -> String {
    let view = inspector.lock(name).await.expect("an answer");
    assert_eq!(view.holders.len(), 1, "{view:?}");
    view.holders[0].field()
}

/// Takes a lock away, and returns the outcome.
pub(crate) async fn outcome(actions: &Actions, name: &str, field: &str) -> ActionOutcome {
    actions.force_release(name, field, &reason()).await.expect("it is begun").outcome
}

/// Hands a lock over many times, while the holder that was seen is forced. Returns how often it was
/// forced.
async fn hand_over(name: String, one: Client, two: Client, actions: Actions) -> u64 {
    let (here, there) = (Lock::new(&one, &name), Lock::new(&two, &name));
    let mut forced = 0;
    for round in 0..ROUNDS {
        let first = here.acquire().await.expect("it is free");
        let seen = field(actions.inspector(), &name).await;
        let second = tokio::spawn(there.acquire().into_future());
        // The release comes before, during and after the steps of the action.
        let release = async {
            match round % 5 {
                0 => {}
                4 => lost(first.lost()).await,
                step => tokio::time::sleep(Duration::from_micros(700 * step)).await,
            }
            first.release().await
        };
        let (released, outcome) = tokio::join!(release, outcome(&actions, &name, &seen));
        match outcome {
            ActionOutcome::Done { .. } => {
                forced += 1;
                assert!(released.is_err(), "both the holder and the operator have freed it");
            }
            ActionOutcome::Refused(Refusal::Free | Refusal::HeldByAnother { .. }) => {
                released.expect("the holder has freed it");
            }
            other => panic!("{other:?}"),
        }
        let second = second.await.expect("no panic").expect("it is free now");
        let next = field(actions.inspector(), &name).await;
        let again = self::outcome(&actions, &name, &seen).await;
        let passed = Refusal::HeldByAnother { holders: vec![next] };
        assert_eq!(again, ActionOutcome::Refused(passed));
        assert!(second.is_held());
        second.release().await.expect("nobody has taken it from the next holder");
    }
    forced
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_hand_overs_never_cost_the_next_holder_its_lock() {
    let server = server().await;
    let actions = actions(&server.url()).await;
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let work = (0..NAMES)
        .map(|number| tokio::spawn(hand_over(format!("lock:{number}"), one.clone(), two.clone(), actions.clone())));
    let mut forced = 0;
    for task in work.collect::<Vec<_>>() {
        forced += task.await.expect("no wrong holder was freed");
    }
    let (names, rounds) = (NAMES as u64, ROUNDS);
    assert!((names * rounds / 5..=names * rounds * 4 / 5).contains(&forced), "{forced}: both outcomes are tested");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_each_kind_is_taken_from_the_given_holder_only() {
    let server = server().await;
    let actions = actions(&server.url()).await;
    let inspector = actions.inspector();
    let user = client(&server.url()).await;
    let other = format!("{ONE}:1");
    let passed = |field: &str| ActionOutcome::Refused(Refusal::HeldByAnother { holders: vec![field.to_owned()] });
    let (done, free) = (ActionOutcome::Done { count: 1 }, ActionOutcome::Refused(Refusal::Free));

    let plain = Lock::new(&user, "plain").acquire().await.expect("it is free");
    let fenced = FencedLock::new(&user, "fenced").acquire().await.expect("it is free");
    let fair = FairLock::new(&user, "fair").acquire().await.expect("it is free");
    let next = client(&server.url()).await;
    let waiting = tokio::spawn(FairLock::new(&next, "fair").acquire().into_future());
    let queue = FairLock::new(&user, "fair");
    wait_until(SOON, async || queue.waiting().await.expect("an answer").len() == 1).await;
    let write = RwLock::new(&user, "write").write().await.expect("it is free");
    for (name, kind) in [
        ("plain", LockKind::Plain),
        ("fenced", LockKind::Plain),
        ("fair", LockKind::Fair),
        ("write", LockKind::ReadWrite),
    ] {
        let view = inspector.lock(name).await.expect("an answer");
        assert_eq!((&view.kind, view.holders.len()), (&kind, 1), "{name}");
        let held = view.holders[0].field();
        assert_eq!(outcome(&actions, name, &other).await, passed(&held), "{name}");
        assert_eq!(outcome(&actions, name, &held).await, done, "{name}");
    }
    lost(plain.lost()).await;
    lost(fenced.lost()).await;
    lost(fair.lost()).await;
    lost(write.lost()).await;
    let next = waiting.await.expect("no panic").expect("it is its turn");
    assert!(next.is_held() && next.token() > fair.token());
    assert_eq!(outcome(&actions, "plain", &other).await, free);
    let again = FencedLock::new(&user, "fenced").acquire().await.expect("it is free");
    assert!(again.token() > fenced.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_whose_caller_leaves_is_completed_and_recorded() {
    let server = server().await;
    let observer = observer(&server).await;
    let actions = actions(&server.url()).await;
    hold(&observer, "job", &format!("{ONE}:1"), "60000").await;
    let caller = tokio::spawn({
        let actions = actions.clone();
        async move { outcome(&actions, "job", &format!("{ONE}:1")).await }
    });
    wait_until(SOON, async || observer.exists(AUDIT_STREAM).await.expect("an answer")).await;
    caller.abort();
    assert!(caller.await.is_err(), "a takeover takes half a second");
    let ended = async || recorded(actions.inspector()).await.outcome.is_some();
    wait_until(SOON, ended).await;
    let outcome = recorded(actions.inspector()).await.outcome.expect("it has ended");
    assert_eq!(outcome.outcome, "done");
    assert!(!observer.exists("job").await.expect("an answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_is_done_if_its_caller_leaves_while_it_is_recorded() {
    let server = server().await;
    let observer = observer(&server).await;
    let proxy = Proxy::to(&server).await.expect("a proxy");
    let actions = actions(&server.url_via(proxy.addr())).await;
    send(&observer, &["SET", "a", "1"]).await;
    proxy.next(1, "XADD", Action::Hold);
    let caller = tokio::spawn({
        let actions = actions.clone();
        async move { actions.delete("a", &reason()).await }
    });
    wait_until(SOON, async || proxy.counts().held == 1).await;
    caller.abort();
    assert!(caller.await.is_err(), "the record is not written yet");
    assert_eq!(proxy.release_held().await, 1);
    let inspector = inspector(&server.url()).await;
    let has_ended = async || {
        let record = inspector.recorded_actions().await.expect("the record");
        record.first().is_some_and(|action| action.outcome.is_some())
    };
    wait_until(SOON, has_ended).await;
    assert_eq!(recorded(&inspector).await.outcome.map(|ended| ended.outcome).as_deref(), Some("done"));
    assert!(!observer.exists("a").await.expect("an answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_work_in_any_slot_of_a_cluster() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let actions = actions(&cluster.url()).await;
    let user = client(&cluster.url()).await;
    for name in ["a", "b", "c", "d", "e", "f"] {
        let held = Lock::new(&user, name).acquire().await.expect("it is free");
        let seen = field(actions.inspector(), name).await;
        assert_eq!(outcome(&actions, name, &seen).await, ActionOutcome::Done { count: 1 }, "{name}");
        lost(held.lost()).await;
        let text = format!("{{{name}}}:text");
        let set = redgrid_core::Request::command("SET").key(text.clone()).arg("1");
        user.run::<()>(set).await.expect("an answer");
        assert!(actions.delete(&text, &reason()).await.expect("it is begun").outcome.is_done(), "{name}");
    }
    let record = actions.inspector().recorded_actions().await.expect("the record");
    assert!(record.len() == 12 && record.iter().all(|action| action.outcome.is_some()), "{record:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_is_deposed_and_the_next_one_stays() {
    let server = server().await;
    let actions = actions(&server.url()).await;
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let first = Election::new(&one, "leader").campaign().proclaim("one").await.expect("it is elected");
    let view = actions.inspector().lock("leader").await.expect("an answer");
    assert_eq!(view.kind, LockKind::Election);
    let seen = view.holders[0].field();
    let mut observed = Election::new(&two, "leader").observe();
    assert_eq!(observed.next().await.expect("a leader").map(|leader| leader.id_text()).as_deref(), Some("one"));
    let second = tokio::spawn(Election::new(&two, "leader").campaign().proclaim("two").into_future());
    assert_eq!(outcome(&actions, "leader", &seen).await, ActionOutcome::Done { count: 1 });
    lost(first.lost()).await;
    let second = tokio::time::timeout(SOON, second).await.expect("in time").expect("no panic").expect("it is elected");
    assert!(second.term() > first.term());
    assert!(matches!(outcome(&actions, "leader", &seen).await, ActionOutcome::Refused(Refusal::HeldByAnother { .. })));
    assert!(second.is_leader());
    let leads =
        async { while observed.next().await.expect("an answer").is_none_or(|leader| leader.id_text() != "two") {} };
    tokio::time::timeout(SOON, leads).await.expect("the observer is notified");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_lock_is_not_changed() {
    let server = server().await;
    let observer = observer(&server).await;
    let actions = actions(&server.url()).await;
    send(&observer, &["HSET", "user", "name", "Ada"]).await;
    let refused = actions.force_release("user", "name", &reason()).await;
    assert!(matches!(refused, Err(ActionError::NotALock { .. })), "{refused:?}");
    assert_eq!(actions.inspector().recorded_actions().await.expect("the record"), []);
    assert!(observer.exists("user").await.expect("an answer"));

    // The hash of a read-write lock has a field that is no holder.
    send(&observer, &["HSET", "prices", "mode", "read", &format!("{ONE}:1"), "1"]).await;
    for field in ["mode", "mode:write", "", "Ada"] {
        let refused = actions.force_release("prices", field, &reason()).await;
        assert!(matches!(refused, Err(ActionError::Inspect(_))), "{field}: {refused:?}");
    }
    assert_eq!(observer.query::<u64>(&["HLEN", "prices"]).await.expect("an answer"), 2);

    // A lock with two holders, which redgrid and Redisson never write.
    hold(&observer, "odd", &format!("{ONE}:1"), "60000").await;
    send(&observer, &["HSET", "odd", &format!("{ONE}:2"), "1"]).await;
    let refused = outcome(&actions, "odd", &format!("{ONE}:1")).await;
    assert!(matches!(&refused, ActionOutcome::Refused(Refusal::HeldByAnother { holders }) if holders.len() == 2));
    let action = recorded(actions.inspector()).await;
    assert_eq!(action.outcome.map(|ended| ended.outcome).as_deref(), Some("refused"));
}
