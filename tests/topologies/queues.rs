//! Queues, delayed queues, priority queues and rings on every topology.

use std::time::Duration;

use futures_util::TryStreamExt;
use redgrid_core::Failure;
use redgrid_queue::{DelayedQueue, Deque, End, ObjectError, PriorityQueue, Queue, RingBuffer};
use redgrid_tests::SOON;
use redgrid_tests::cancel::at_most;

use crate::contract::clauses;
use crate::fixture::{Fixture, Topology};

const HOUR: Duration = Duration::from_secs(3600);

clauses![
    "queues";
    elements_go_in_and_out_at_both_ends,
    elements_are_waited_for_and_none_is_lost,
    delayed_elements_are_taken_when_they_are_due,
    elements_are_taken_by_priority_and_none_is_lost,
    a_ring_keeps_the_last_elements,
];

/// Returns a name in the slot of the scenario's other names. Its prefix is one for which the user
/// of the page has permissions.
fn beside(on: &Fixture, name: &str) -> String {
    format!("{}:{{{}}}:{name}", on.name.split(':').next().unwrap_or_default(), on.name)
}

async fn elements_go_in_and_out_at_both_ends(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (a, b) = (beside(&on, "a"), beside(&on, "b"));
    let (queue, deque): (Queue<u32>, Deque<u32>) = (Queue::new(&one, &a), Deque::new(&two, &a));
    assert_eq!(deque.push_many_if_exists(End::Back, &[1]).await.unwrap(), 0);
    assert_eq!(queue.push_many(&[1, 2, 3]).await.unwrap(), 3);
    assert_eq!(
        (deque.push_front(&0).await.unwrap(), deque.push_many_if_exists(End::Back, &[4]).await.unwrap()),
        (4, 5)
    );
    assert_eq!((deque.front().await.unwrap(), deque.back().await.unwrap()), (Some(0), Some(4)));
    assert!(queue.contains(&2).await.unwrap() && deque.remove(End::Back, &2).await.unwrap());
    assert_eq!(queue.stream().try_collect::<Vec<_>>().await.unwrap(), [0, 1, 3, 4]);
    assert_eq!(queue.pop_last_push_first_to(&b).await.unwrap(), Some(4));
    assert_eq!(deque.move_to(End::Front, &b, End::Back).await.unwrap(), Some(0));
    assert_eq!(Queue::<u32>::new(&one, &b).read_all().await.unwrap(), [4, 0]);
    let sent = queue.pop_last_push_first_to(format!("{}:elsewhere", on.name)).await;
    match on.topology() {
        Topology::Cluster => {
            assert!(matches!(sent, Err(ObjectError::Failed(Failure::InvalidArgument { option: "to", .. }))), "{sent:?}")
        }
        _ => assert_eq!(sent.unwrap(), Some(3)),
    }
    assert_eq!(queue.pop().await.unwrap(), Some(1));
    queue.object().expire_in(HOUR).await.ok();
    queue.push(&9).await.unwrap();
    assert!(queue.clear().await.unwrap() && deque.is_empty().await.unwrap());
}

async fn elements_are_waited_for_and_none_is_lost(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there): (Queue<u64>, Queue<u64>) = (Queue::new(&one, &on.name), Queue::new(&two, &on.name));
    let waiting = tokio::spawn({
        let here = here.clone();
        async move { here.take().await.unwrap() }
    });
    let mut got = Vec::new();
    for n in 0..60 {
        there.push(&n).await.unwrap();
        got.extend(at_most(1 + n as usize % 3, here.take()).await.map(Result::unwrap));
    }
    got.push(waiting.await.unwrap());
    // The call also works with a queue in another slot of a cluster.
    let other = Queue::new(&one, format!("{}:other", on.name));
    while got.len() < 60 {
        let next = other.take_from_any_within(std::slice::from_ref(&here), SOON).await.unwrap().unwrap();
        assert_eq!(next.0, 1);
        got.push(next.1);
    }
    got.sort_unstable();
    assert_eq!(got, (0..60).collect::<Vec<_>>());
    assert_eq!(here.take_within(Duration::ZERO).await.unwrap(), None);
}

async fn delayed_elements_are_taken_when_they_are_due(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there): (DelayedQueue<u32>, DelayedQueue<u32>) =
        (DelayedQueue::new(&one, &on.name), DelayedQueue::new(&two, &on.name));
    let waiting = tokio::spawn({
        let here = here.clone();
        async move { (here.take().await.unwrap(), here.take().await.unwrap()) }
    });
    let soon = Duration::from_millis(100);
    let pushed = there.push_many([(&3, HOUR), (&1, soon), (&2, soon)]).await.unwrap();
    assert_eq!(waiting.await.unwrap(), (1, 2));
    assert_eq!((there.len().await.unwrap(), there.due().await.unwrap(), here.peek().await.unwrap()), (1, 0, None));
    let left = here.read_delayed(5).await.unwrap();
    assert!(left.len() == 1 && left[0].0 == 3 && left[0].1 <= HOUR, "{left:?}");
    assert!(here.cancel(&pushed[0]).await.unwrap() && !there.cancel(&pushed[0]).await.unwrap());
    there.push(&4, HOUR).await.unwrap();
    assert!(here.object().expire_in(HOUR).await.unwrap() && here.clear().await.unwrap());
}

async fn elements_are_taken_by_priority_and_none_is_lost(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (a, b) = (beside(&on, "a"), beside(&on, "b"));
    let (here, there): (PriorityQueue<u64>, PriorityQueue<u64>) =
        (PriorityQueue::new(&one, &a), PriorityQueue::new(&two, &a));
    let waiting = tokio::spawn({
        let here = here.clone();
        async move { here.take().await.unwrap() }
    });
    let mut got = Vec::new();
    for n in 0..60 {
        there.push(&n, (n % 5) as i64).await.unwrap();
        let left = match n % 2 {
            0 => at_most(1 + n as usize % 3, here.take()).await,
            _ => at_most(1 + n as usize % 3, here.take_last()).await,
        };
        got.extend(left.map(Result::unwrap));
    }
    got.push(waiting.await.unwrap());
    while got.len() < 60 {
        got.push(there.take_within(SOON).await.unwrap().unwrap());
    }
    assert!(got.iter().all(|(priority, n)| *priority == (*n % 5) as i64));
    got.sort_unstable_by_key(|(_, n)| *n);
    assert_eq!(got.into_iter().map(|(_, n)| n).collect::<Vec<_>>(), (0..60).collect::<Vec<_>>());
    assert_eq!(here.take_last_within(Duration::ZERO).await.unwrap(), None);

    let pushed = here.push_many([(&3, 3), (&1, 1), (&2, i64::MIN), (&4, 3)]).await.unwrap();
    assert!(here.contains(&4).await.unwrap() && !here.contains(&9).await.unwrap());
    assert_eq!((here.peek().await.unwrap(), here.peek_last().await.unwrap()), (Some((i64::MIN, 2)), Some((3, 4))));
    assert!(here.change_priority(&pushed[1], i64::MAX).await.unwrap().is_some());
    assert!(there.cancel(&pushed[2]).await.unwrap() && there.remove(&4).await.unwrap());
    assert_eq!(there.stream().try_collect::<Vec<_>>().await.unwrap(), [(3, 3), (i64::MAX, 1)]);
    assert_eq!(there.move_to(End::Front, &b, End::Back).await.unwrap(), Some((3, 3)));
    assert_eq!(Queue::<u64>::new(&one, &b).take().await.unwrap(), 3);
    assert!(here.object().expire_in(HOUR).await.unwrap());
    assert_eq!((here.pop_last_many(5).await.unwrap(), here.pop().await.unwrap()), (vec![(i64::MAX, 1)], None));
    here.push(&1, 1).await.unwrap();
    assert!(here.clear().await.unwrap() && there.is_empty().await.unwrap());
}

async fn a_ring_keeps_the_last_elements(on: Fixture) {
    let client = on.client().await;
    let ring: RingBuffer<u32> = RingBuffer::new(&client, &on.name);
    assert!(matches!(ring.push(&1).await, Err(ObjectError::Absent { .. })));
    assert!(ring.try_set_capacity(3).await.unwrap() && !ring.try_set_capacity(9).await.unwrap());
    assert_eq!(ring.push_many(&[1, 2, 3, 4, 5]).await.unwrap(), 2);
    assert_eq!((ring.remaining_capacity().await.unwrap(), ring.set_capacity(2).await.unwrap()), (Some(0), 1));
    assert_eq!((ring.read_all().await.unwrap(), ring.capacity().await.unwrap()), (vec![4, 5], Some(2)));
    assert!(ring.object().expire_in(HOUR).await.unwrap() && ring.object().delete().await.unwrap());
}
