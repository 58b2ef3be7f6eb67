//! Tests of yields.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn audience(listeners: u64, message_count: Option<u64>) -> SubscriberCount {
    SubscriberCount {
        listeners,
        own: OwnSubscription { message_count, is_pending: false },
        ..SubscriberCount::default()
    }
}

#[test]
fn a_process_without_other_listeners_does_not_yield() {
    assert_eq!(YieldPlan::after(audience(1, Some(7)), MS), None);
    assert_eq!(YieldPlan::after(audience(0, None), MS), None);
}

#[test]
fn a_yield_ends_after_one_message_of_each_process() {
    let mut plan = YieldPlan::after(audience(3, Some(7)), MS).unwrap();
    assert_eq!([8, 9].map(|message_count| plan.is_over(Some(message_count))), [false, false]);
    assert!(plan.is_over(Some(10)));
}

#[test]
fn a_listener_that_may_be_this_process_is_not_waited_for_once_the_subscription_is_confirmed() {
    let after = |listeners, is_pending| {
        let unannounced = Some(Duration::from_secs(600));
        let own = OwnSubscription { message_count: None, is_pending };
        YieldPlan::after(SubscriberCount { unannounced, own, ..audience(listeners, None) }, MS).unwrap()
    };
    assert!(!after(1, true).is_over(None), "the subscription may be refused: then it is another process");
    assert!(after(1, true).is_over(Some(0)));
    assert!(!after(2, true).is_over(Some(0)));
    assert!(!after(1, false).is_over(Some(0)), "it began to listen after the release");
}

#[test]
fn a_new_subscription_counts_from_its_own_start() {
    let mut plan = YieldPlan::after(audience(2, None), MS).unwrap();
    assert!(!plan.is_over(None));
    assert_eq!([5, 6, 7].map(|message_count| plan.is_over(Some(message_count))), [false, false, true]);
    // A lower count belongs to a new subscription, and counting begins with this count.
    let mut plan = YieldPlan::after(audience(2, Some(5)), MS).unwrap();
    assert_eq!([0, 1, 2].map(|message_count| plan.is_over(Some(message_count))), [false, false, true]);
}

#[test]
fn a_waiter_without_messages_is_given_the_time_of_a_poll() {
    let unseen = SubscriberCount { unseen: true, ..audience(1, Some(0)) };
    let mut plan = YieldPlan::after(unseen, MS).unwrap();
    assert_eq!(plan.quiet_period(Some(2)), POLLER_QUIET_PERIOD);
    // Two messages end the yield: one from the release by this process, and one from the release by
    // the polling waiter.
    assert_eq!([1, 2].map(|message_count| plan.is_over(Some(message_count))), [false, true]);
}

#[test]
fn listeners_to_a_release_that_was_not_published_are_given_the_time_of_their_poll() {
    let interval = 1000 * MS;
    let refused = |listeners| SubscriberCount { unannounced: Some(interval), ..audience(listeners, Some(7)) };
    assert_eq!(YieldPlan::after(refused(1), MS), None);
    let plan = YieldPlan::after(refused(2), MS).unwrap();
    assert!(plan.is_wanted() && plan.quiet_period(Some(7)) > interval + POLL_TICK);
    assert_eq!(plan.quiet_period(Some(8)), plan.quiet_period(None));
}

#[test]
fn listeners_at_a_replica_are_counted_and_get_more_time() {
    // The primary counts no subscriber: without the replica's count there would be no yield.
    assert_eq!(YieldPlan::after(audience(0, Some(7)), MS), None);
    let mut plan = YieldPlan::after(audience(0, Some(7)).with(Some(ReplicaSubscribers::Count(2))), MS).unwrap();
    assert_eq!(plan.quiet_period(Some(7)), 2 * REPLICA_QUIET_PERIOD);
    assert!(plan.quiet_period(Some(8)) < 2 * MIN_QUIET_PERIOD);
    assert_eq!([8, 9].map(|message_count| plan.is_over(Some(message_count))), [false, true]);
    // The only subscriber, at the replica or at the primary, is this process: there is no yield.
    assert_eq!(YieldPlan::after(audience(0, Some(7)).with(Some(ReplicaSubscribers::Count(1))), MS), None);
    assert_eq!(YieldPlan::after(audience(1, Some(7)).with(None), MS), None);
    // If the replica did not answer, one other subscriber is assumed.
    for message_count in [Some(7), None] {
        assert_eq!(audience(0, message_count).with(Some(ReplicaSubscribers::Unknown)).others(), 1);
    }
}

#[test]
fn the_quiet_period_is_shorter_for_the_next_process() {
    let plan = YieldPlan::after(audience(5, Some(0)), MS).unwrap();
    assert_eq!(plan.quiet_period(Some(5)), 2 * MS);
    assert!(
        plan.quiet_period(Some(4)) < plan.quiet_period(Some(3))
            && plan.quiet_period(Some(3)) < plan.quiet_period(Some(0))
    );
    assert_eq!(plan.quiet_period(Some(0)), 4 * MS);
    // The quiet period is two round trips if these are longer than the shortest quiet period.
    assert_eq!(YieldPlan::after(audience(2, Some(0)), 5 * MS).unwrap().quiet_period(Some(2)), 10 * MS);
}
