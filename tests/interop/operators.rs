//! What operators see of Redisson's holders, and take away from them.

use redgrid_inspect::{Actions, HolderState, Inspector, LockKind, Operator, Reason};
use tokio::time::Instant;

use crate::fixture::{Fixture, at_once, scenarios};

scenarios![a_holder_and_a_waiter_of_java_are_shown_as_such, an_operator_takes_a_lock_away_from_java];

async fn a_holder_and_a_waiter_of_java_are_shown_as_such(on: Fixture) {
    let (mut java, mut waiter) = (on.java().fair(), on.java().fair());
    let inspector = Inspector::new(&on.client().await);
    java.lock(&on.name).await;
    waiter.begin_lock(&on.name).await;
    waiter.until_asleep().await;
    let began = Instant::now();
    let view = inspector.lock_twice(&on.name).await.unwrap();
    println!("a holder of Java was shown as such after {:?}", began.elapsed());
    assert_eq!((&view.kind, view.holders.len(), view.queue.len()), (&LockKind::Fair, 1, 1), "{view:?}");
    let (holder, next) = (&view.holders[0], &view.queue[0]);
    assert_eq!((holder.client.as_str(), holder.state), (on.java_id(), HolderState::NotRedgrid));
    assert_eq!((next.client.as_str(), next.state, next.is_redgrid), (on.java_id(), HolderState::NotRedgrid, false));
    assert!(view.lease_left.is_some_and(|left| !left.is_zero()), "{view:?}");
    assert!(java.unlock(&on.name).await);
    at_once(waiter.entered()).await;
    assert!(waiter.unlock(&on.name).await);
}

async fn an_operator_takes_a_lock_away_from_java(on: Fixture) {
    let (mut java, mut waiter) = (on.java(), on.java());
    let inspector = Inspector::new(&on.client().await);
    java.lock(&on.name).await;
    waiter.begin_lock(&on.name).await;
    waiter.until_asleep().await;
    let holder = inspector.lock(&on.name).await.unwrap().holders[0].field();
    let actions = Actions::new(&inspector, Operator::new("ada", "10.0.0.7"));
    let reason = Reason::new("it hangs").unwrap();
    assert!(actions.force_release(&on.name, &holder, &reason).await.unwrap().outcome.is_done());
    at_once(waiter.entered()).await;
    assert!(!java.is_held(&on.name).await);
    // The next holder keeps it.
    assert!(!actions.force_release(&on.name, &holder, &reason).await.unwrap().outcome.is_done());
    assert!(waiter.unlock(&on.name).await);
}
