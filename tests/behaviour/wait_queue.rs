//! Core's queue of local waiters. The test answers the polls of the queue's resource.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::wait_queue::{NextPoll, PollFuture, Resource, WaitEnd, WaitQueue, WaiterId};
use redgrid_core::{ChannelEvent, Client, OrderedSubscription, ServerError};
use redgrid_testkit::{RedisServer, wait_until};
use redgrid_tests::{SOON, client_with, server};
use tokio::sync::{mpsc, oneshot};

/// A time longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

/// The reaction of the resource to a reply.
type OnReply = Box<dyn FnOnce(&Arc<WaitQueue<Answered>>) -> NextPoll + Send>;

/// A poll in flight: its waiters, and the channel for its reply.
struct Poll {
    waiters: Vec<WaiterId>,
    /// Whether it was sent after the confirmation of the subscription.
    subscribed: bool,
    reply: oneshot::Sender<Result<OnReply, ServerError>>,
}

impl Poll {
    fn reply(self, on_reply: impl FnOnce(&Arc<WaitQueue<Answered>>) -> NextPoll + Send + 'static) {
        self.reply.send(Ok(Box::new(on_reply))).ok().expect("the poll is awaited");
    }

    fn fail(self) {
        let error = ServerError::NotSent { reason: "by the test".into() };
        self.reply.send(Err(error)).ok().expect("the poll is awaited");
    }
}

struct Answered {
    polls: mpsc::UnboundedSender<Poll>,
    subscribed: AtomicBool,
}

impl Resource for Answered {
    /// Whether a failed poll ends the wait.
    type Request = bool;
    type Outcome = ();
    type Reply = OnReply;

    const UNSUBSCRIBED_WAIT: Duration = Duration::from_secs(1);

    fn key(&self) -> &[u8] {
        b"a"
    }

    fn subscribe(&self, client: &Client) -> OrderedSubscription {
        client.subscribe_ordered_unpolled([Bytes::from_static(b"changes")], &Bytes::from_static(b"a"))
    }

    fn poll<'a>(
        self: &Arc<Self>,
        _client: &Client,
        waiters: impl Iterator<Item = (WaiterId, &'a bool)>,
    ) -> PollFuture<OnReply> {
        let (reply, replied) = oneshot::channel();
        let subscribed = self.subscribed.load(Ordering::Relaxed);
        let poll = Poll { waiters: waiters.map(|(id, _)| id).collect(), subscribed, reply };
        let _ = self.polls.send(poll);
        Box::pin(async move {
            match replied.await {
                Ok(reply) => reply,
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn replied(&self, queue: &Arc<WaitQueue<Self>>, on_reply: OnReply, _sent_before: WaiterId) -> NextPoll {
        on_reply(queue)
    }

    fn failed(&self, queue: &Arc<WaitQueue<Self>>, error: ServerError, sent_before: WaiterId) {
        queue.fail_below(sent_before, |ends| *ends, &error);
    }

    fn received(&self, _queue: &Arc<WaitQueue<Self>>, _event: &ChannelEvent) -> NextPoll {
        self.subscribed.store(true, Ordering::Relaxed);
        NextPoll::Now
    }
}

/// Returns a queue that, once subscribed, polls by itself only after a long time.
async fn queue(server: &RedisServer) -> (Arc<WaitQueue<Answered>>, mpsc::UnboundedReceiver<Poll>) {
    let client = client_with(&server.url(), |config| config.poll_interval(LONG)).await;
    let (polls, sent) = mpsc::unbounded_channel();
    (Arc::new(WaitQueue::new(&client, Answered { polls, subscribed: AtomicBool::new(false) })), sent)
}

async fn next(sent: &mut mpsc::UnboundedReceiver<Poll>, waiters: &[WaiterId]) -> Poll {
    let poll = tokio::time::timeout(SOON, sent.recv()).await.expect("a poll in time").unwrap();
    assert_eq!(poll.waiters, waiters);
    poll
}

/// Returns the first poll after the confirmation of the subscription. The confirmation itself
/// causes a poll.
async fn next_subscribed(
    sent: &mut mpsc::UnboundedReceiver<Poll>,
    waiters: &[WaiterId],
    on_reply: fn(&Arc<WaitQueue<Answered>>) -> NextPoll,
) -> Poll {
    loop {
        let poll = next(sent, waiters).await;
        if poll.subscribed {
            return poll;
        }
        poll.reply(on_reply);
    }
}

/// Lets the task of the queue run on the same thread.
async fn task_runs() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn block(queue: &Arc<WaitQueue<Answered>>, first: WaiterId) -> NextPoll {
    if queue.block(first) { NextPoll::Within(LONG) } else { NextPoll::Now }
}

#[tokio::test]
async fn a_blocked_queue_is_polled_when_its_first_waiter_leaves_and_not_for_a_new_one() {
    let server = server().await;
    let (queue, mut sent) = queue(&server).await;
    let first = queue.enter(true);
    let poll = next_subscribed(&mut sent, &[0], |queue| block(queue, 0)).await;
    // The second waiter enters while the poll is in flight: the reply counts for it too.
    let second = queue.enter(true);
    poll.reply(|queue| block(queue, 0));
    task_runs().await;
    let third = queue.enter(true);
    task_runs().await;
    assert!(sent.try_recv().is_err(), "a poll for a new waiter");
    assert!(first.is_current() && second.is_current() && third.is_current());
    assert!(queue.enter_unblocked(true).is_none());
    queue.poll_soon();
    let poll = next(&mut sent, &[0, 1, 2]).await;
    drop(queue.enter_unblocked(true).expect("the queue is not blocked during a poll"));
    poll.reply(|queue| block(queue, 0));
    task_runs().await;
    drop(first);
    let poll = next(&mut sent, &[1, 2]).await;
    // The waiter that blocks the queue has left when the reply arrives.
    drop(second);
    poll.reply(|queue| block(queue, 1));
    let poll = next(&mut sent, &[2]).await;
    let last = queue.enter_unblocked(true).expect("the queue is not blocked during a poll");
    poll.reply(|queue| {
        queue.complete(2, || ());
        NextPoll::Regular
    });
    next(&mut sent, &[last.id()]).await.reply(|_| NextPoll::Regular);
}

#[tokio::test]
async fn a_failed_poll_ends_some_waits_and_is_repeated_for_the_others() {
    let server = server().await;
    let (queue, mut sent) = queue(&server).await;
    let (mut ending, staying) = (queue.enter(true), queue.enter(false));
    next_subscribed(&mut sent, &[0, 1], |_| NextPoll::Regular).await.reply(|_| NextPoll::Regular);
    task_runs().await;
    assert!(staying.is_current());
    queue.poll_soon();
    next(&mut sent, &[0, 1]).await.fail();
    assert!(matches!(ending.ended_by(Instant::MAX).await, WaitEnd::Failed(ServerError::NotSent { .. })));
    next(&mut sent, &[1]).await.reply(|queue| {
        queue.complete(1, || ());
        NextPoll::Regular
    });
}

#[tokio::test]
async fn a_poll_that_is_announced_soon_starts_no_subscription() {
    let server = server().await;
    let (queue, mut sent) = queue(&server).await;
    let waiter = queue.enter(true);
    for _ in 0..5 {
        next(&mut sent, &[0]).await.reply(|_| NextPoll::Within(Duration::from_millis(10)));
    }
    let poll = next(&mut sent, &[0]).await;
    assert_eq!(queue.client().stats().channels, 0);
    poll.reply(|_| NextPoll::Within(LONG));
    let poll = next_subscribed(&mut sent, &[0], |_| NextPoll::Within(LONG)).await;
    assert_eq!(queue.client().stats().channels, 1);
    poll.reply(|_| NextPoll::Regular);
    drop(waiter);
    wait_until(SOON, async || queue.client().stats().channels == 0).await;
}

#[tokio::test]
async fn a_wait_whose_time_is_over_ends_by_what_is_known_then() {
    let server = server().await;
    let (queue, mut sent) = queue(&server).await;
    let mut waiter = queue.enter(true);
    assert!(matches!(waiter.ended_by(Instant::MIN).await, WaitEnd::NoReply));
    next_subscribed(&mut sent, &[0], |_| NextPoll::Regular).await.reply(|_| NextPoll::Regular);
    task_runs().await;
    assert!(matches!(waiter.ended_by(Instant::MIN).await, WaitEnd::TimedOut));
    queue.complete(waiter.id(), || ());
    assert!(matches!(waiter.ended_by(Instant::MIN).await, WaitEnd::Completed(())));
}
