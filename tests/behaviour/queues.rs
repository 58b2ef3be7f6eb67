//! Queues, deques and rings.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::TryStreamExt;
use redgrid_core::Failure;
use redgrid_keys::Keys;
use redgrid_queue::codecs::Text;
use redgrid_queue::{DelayedQueue, Deque, End, ObjectError, Queue, RingBuffer};
use redgrid_tests::model::seeds;
use redgrid_tests::{client, server};

#[tokio::test(flavor = "multi_thread")]
async fn deques_of_all_types_match_their_model() {
    let server = server().await;
    let client = client(&server).await;
    for seed in seeds(6) {
        let mut random = fastrand::Rng::with_seed(seed);
        let name = format!("{{model}}:{seed}");
        let (queue, deque): (Queue<u8>, Deque<u8>) = (Queue::new(&client, &name), Deque::new(&client, &name));
        let mut model: VecDeque<u8> = VecDeque::new();
        let mut story = Vec::new();
        for _ in 0..80 {
            let (step, one, other) = (random.u8(..22), random.u8(..4), random.u8(..4));
            story.push((step, one, other));
            let fits = apply((&queue, &deque), &mut model, (step, one, other)).await;
            let same = model == queue.read_all().await.unwrap() && deque.len().await.unwrap() == model.len() as u64;
            assert!(fits && same, "seed {seed}: {model:?} after {story:?}");
        }
    }
}

async fn apply(
    (queue, deque): (&Queue<u8>, &Deque<u8>),
    model: &mut VecDeque<u8>,
    (step, one, other): (u8, u8, u8),
) -> bool {
    let now = Duration::ZERO;
    match step {
        0 | 1 => {
            model.push_back(one);
            queue.push(&one).await.unwrap() == model.len() as u64
        }
        2 => {
            model.extend([one, other]);
            queue.push_many(&[one, other]).await.unwrap() == model.len() as u64
        }
        3 => {
            model.push_front(one);
            deque.push_front(&one).await.unwrap() == model.len() as u64
        }
        4 => {
            model.push_back(one);
            deque.push_back(&one).await.unwrap() == model.len() as u64
        }
        5 => {
            [one, other].into_iter().for_each(|one| model.push_front(one));
            deque.push_many(End::Front, &[one, other]).await.unwrap() == model.len() as u64
        }
        6 => {
            if !model.is_empty() {
                model.push_front(one);
            }
            deque.push_many_if_exists(End::Front, &[one]).await.unwrap() == model.len() as u64
        }
        7 => queue.pop().await.unwrap() == model.pop_front(),
        8 => deque.pop_front().await.unwrap() == model.pop_front(),
        9 => deque.pop_back().await.unwrap() == model.pop_back(),
        10 => {
            let most = usize::from(one).min(model.len());
            queue.pop_many(one.into()).await.unwrap() == model.drain(..most).collect::<Vec<_>>()
        }
        11 => {
            let most = usize::from(one).min(model.len());
            let gone: Vec<u8> = model.drain(model.len() - most..).rev().collect();
            deque.pop_many(End::Back, one.into()).await.unwrap() == gone
        }
        12 => queue.peek().await.unwrap() == model.front().copied(),
        13 => {
            let told = (deque.front().await.unwrap(), deque.back().await.unwrap());
            told == (model.front().copied(), model.back().copied())
        }
        14 => queue.contains(&one).await.unwrap() == model.contains(&one),
        15 => {
            let at = model.iter().position(|has| *has == one);
            queue.remove(&one).await.unwrap() == at.and_then(|at| model.remove(at)).is_some()
        }
        16 => {
            let at = model.iter().rposition(|has| *has == one);
            deque.remove(End::Back, &one).await.unwrap() == at.and_then(|at| model.remove(at)).is_some()
        }
        17 => {
            let moved = model.pop_back();
            moved.into_iter().for_each(|one| model.push_front(one));
            queue.pop_last_push_first_to(queue.object().name().unwrap()).await.unwrap() == moved
        }
        18 => {
            let moved = model.pop_front();
            moved.into_iter().for_each(|one| model.push_back(one));
            let name = deque.object().name().unwrap().clone();
            deque.move_to(End::Front, name, End::Back).await.unwrap() == moved
        }
        19 => queue.take_within(now).await.unwrap() == model.pop_front(),
        20 => deque.take_within(End::Back, now).await.unwrap() == model.pop_back(),
        _ => {
            let all: Vec<u8> = queue.stream().try_collect().await.unwrap();
            let is_empty = queue.is_empty().await.unwrap() == model.is_empty();
            let same = *model == all;
            // In some cases the queue is cleared.
            let clears = one == 0 && other == 0;
            same && is_empty && (!clears || std::mem::take(model).is_empty() != queue.clear().await.unwrap())
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_pages_past_undecodable_elements() {
    let server = server().await;
    let client = client(&server).await;
    let queue: Queue<u32> = Queue::new(&client, "long");
    let many: Vec<u32> = (0..1_203).collect();
    assert_eq!(queue.push_many(&many).await.unwrap(), 1_203);
    assert_eq!(queue.stream().try_collect::<Vec<_>>().await.unwrap(), many);
    assert_eq!(queue.pop_many(1_200).await.unwrap(), many[..1_200]);
    server.observer().await.unwrap().cmd(&["LSET", "long", "1", "?"]).await.unwrap();
    let told: Vec<_> = futures_util::StreamExt::collect(queue.stream()).await;
    assert!(matches!(&told[..], [Ok(1_200), Err(ObjectError::Decode { .. }), Ok(1_202)]), "{told:?}");
    let text = queue.clone().with_codec(Text);
    let _: &Queue<u32, Text> = &text;
    assert!(matches!(
        queue.pop_many(u64::MAX).await,
        Err(ObjectError::Failed(Failure::InvalidArgument { option: "most", .. }))
    ));
    assert!(matches!(Queue::<u8>::new(&client, "").take().await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_keeps_the_last_elements_and_returns_evicted_ones() {
    let server = server().await;
    let client = client(&server).await;
    let ring: RingBuffer<u32> = RingBuffer::new(&client, "ring");
    assert!(matches!(ring.push(&1).await, Err(ObjectError::Absent { .. })));
    assert_eq!((ring.capacity().await.unwrap(), ring.remaining_capacity().await.unwrap()), (None, None));
    for wrong in [0, (1 << 53) + 1] {
        let told = ring.try_set_capacity(wrong).await.unwrap_err();
        assert!(matches!(told, ObjectError::Failed(Failure::InvalidArgument { option: "capacity", .. })), "{told:?}");
    }
    assert!(ring.try_set_capacity(4).await.unwrap() && !ring.try_set_capacity(9).await.unwrap());
    let mut random = fastrand::Rng::with_seed(7);
    let (mut model, mut room) = (VecDeque::new(), 4);
    for step in 0..120_u32 {
        match random.u8(..6) {
            0 => assert_eq!(ring.pop().await.unwrap(), model.pop_front()),
            1 => {
                room = random.usize(1..8);
                let gone = model.len().saturating_sub(room);
                model.drain(..gone);
                assert_eq!(ring.set_capacity(room as u64).await.unwrap(), gone as u64);
            }
            more => {
                let new: Vec<u32> = (0..more.into()).map(|n| step * 10 + n).collect();
                model.extend(&new);
                let gone = model.len().saturating_sub(room);
                model.drain(..gone);
                assert_eq!(ring.push_many(&new).await.unwrap(), gone as u64);
            }
        }
        assert_eq!(model, ring.read_all().await.unwrap());
        assert_eq!(ring.remaining_capacity().await.unwrap(), Some((room - model.len()) as u64));
    }
    assert_eq!(ring.peek().await.unwrap(), model.front().copied());
    ring.push_many(&(0..1_000).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(ring.len().await.unwrap(), room as u64);
    assert!(ring.clear().await.unwrap() && ring.is_empty().await.unwrap());
    assert_eq!(ring.capacity().await.unwrap(), Some(room as u64), "the capacity stays");
    assert!(!ring.contains(&1).await.unwrap() && !ring.remove(&1).await.unwrap());
    ring.object().delete().await.unwrap();
    assert_eq!(ring.capacity().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_keys_of_a_queue_are_found_renamed_and_deleted_with_it() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let delayed: DelayedQueue<u32> = DelayedQueue::new(&client, "later");
    delayed.push(&1, Duration::from_secs(3_600)).await.unwrap();
    let ring: RingBuffer<u32> = RingBuffer::new(&client, "ring");
    ring.try_set_capacity(4).await.unwrap();
    ring.push(&1).await.unwrap();
    assert!(delayed.object().expire_in(Duration::from_secs(600)).await.unwrap());
    assert!(observer.time_to_live("redisson_delay_queue_timeout:{later}").await.unwrap().is_some());
    delayed.object().rename("after").await.unwrap();
    assert_eq!(DelayedQueue::<u32>::new(&client, "after").len().await.unwrap(), 1);
    assert_eq!(Keys::new(&client).delete(["after", "ring"]).await.unwrap(), 2);
    assert_eq!(observer.keys("*").await.unwrap(), [""; 0]);
}
