//! The waiters of one latch: the request of a poll, and the waits that a reply or a message ends.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::wait_queue::{NextPoll, PollFuture, Resource, WaitQueue, WaiterId};
use redgrid_core::{ChannelEvent, Client, OrderedSubscription, ServerError};

use crate::keys::Keys;
use crate::round_tracker::{Ended, RoundTracker};
use crate::scripts::LatchState;

/// Longest time between polls while the round's number is unknown: 1 s. Without the number, no
/// message shows that the round has ended.
const UNKNOWN_ROUND_POLL: Duration = Duration::from_secs(1);

/// The state of one latch, which its waiters share.
pub(crate) struct LatchWaiters {
    keys: Arc<Keys>,
    known: Mutex<Known>,
    poll_interval: Duration,
}

#[derive(Default)]
struct Known {
    rounds: RoundTracker,
    /// Waiters below this number are known to wait for the tracked round.
    placed_below: WaiterId,
}

impl LatchWaiters {
    /// Returns the queue of all callers that wait for a latch through one client.
    pub(crate) fn of(client: &Client, keys: &Arc<Keys>) -> Arc<WaitQueue<LatchWaiters>> {
        client.shared(&keys.count, || {
            let keys = Arc::clone(keys);
            let poll_interval = client.poll_interval();
            WaitQueue::new(client, LatchWaiters { keys, known: Mutex::default(), poll_interval })
        })
    }

    /// Notes that the round with this number has ended; 0 for a round without a number. Ends the
    /// waits that are known to be for this round.
    ///
    /// A count-down of this client calls it too: its reply may arrive before the message, which may
    /// also be lost.
    pub(crate) fn round_ended(&self, queue: &WaitQueue<Self>, round: u64) -> NextPoll {
        let (ended, placed_below, is_due) = {
            let mut known = self.known();
            (known.rounds.round_ended(round), known.placed_below, known.rounds.is_due())
        };
        if ended == Ended::Known {
            queue.complete_below(placed_below, |()| true, || ());
        }
        if is_due { NextPoll::Now } else { NextPoll::Regular }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Resource for LatchWaiters {
    type Request = ();
    type Outcome = ();
    type Reply = LatchState;

    fn key(&self) -> &[u8] {
        &self.keys.count
    }

    fn subscribe(&self, client: &Client) -> OrderedSubscription {
        let channels = [self.keys.over.clone()].into_iter().chain(self.keys.channel.clone());
        client.subscribe_ordered(channels, &self.keys.count)
    }

    fn started(&self) {
        *self.known() = Known::default();
    }

    fn poll<'a>(
        self: &Arc<Self>,
        client: &Client,
        _waiters: impl Iterator<Item = (WaiterId, &'a ())>,
    ) -> PollFuture<LatchState> {
        self.known().rounds.poll_sent();
        let client = client.clone();
        let keys = Arc::clone(&self.keys);
        Box::pin(async move { keys.state(&client).await })
    }

    fn replied(&self, queue: &Arc<WaitQueue<Self>>, state: LatchState, sent_before: WaiterId) -> NextPoll {
        let (ended_below, is_due) = {
            let mut known = self.known();
            let ended_below = match known.rounds.poll_replied(&state) {
                Ended::Everyone => sent_before,
                Ended::Known => known.placed_below,
                Ended::Nothing => 0,
            };
            // If the round is unknown, the waiters stay in the round of the previous poll.
            if state.is_open || state.round.is_some() {
                known.placed_below = sent_before;
            }
            (ended_below, known.rounds.is_due())
        };
        queue.complete_below(ended_below, |()| true, || ());
        let ends_in = state.ends_in.unwrap_or(Duration::MAX);
        if is_due {
            NextPoll::Now
        } else if state.round.is_none() {
            NextPoll::Within(ends_in.min(self.poll_interval).min(UNKNOWN_ROUND_POLL))
        } else {
            NextPoll::Within(ends_in)
        }
    }

    fn failed(&self, queue: &Arc<WaitQueue<Self>>, error: ServerError, sent_before: WaiterId) {
        self.known().rounds.poll_failed();
        queue.fail_below(sent_before, |_| true, &error);
    }

    fn received(&self, queue: &Arc<WaitQueue<Self>>, event: &ChannelEvent) -> NextPoll {
        let round = match event {
            ChannelEvent::Message { channel: 0, payload } => {
                std::str::from_utf8(payload).ok().and_then(|text| text.parse().ok())
            }
            // A message on Redisson's channel, which has no number, or a gap.
            _ => None,
        };
        self.round_ended(queue, round.unwrap_or(0))
    }
}
