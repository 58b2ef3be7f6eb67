//! The loop of a name that more than one waits for, or that others hold: only the first of the queue talks to the server.
//!
//! Try; if taken, watch the channel; try again when the subscription is confirmed, and from then on at every message, gap,
//! look of the poll that finds the key gone, and when the lease that was told has run out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::attempt::Attempt;
use super::table::{Busy, SlotKey, Table};
use crate::wait::{Hub, Watch};

enum Step {
    /// Nobody waits any more.
    Done,
    /// We hold the name, or something of ours is in flight: wait for a change.
    Local(Arc<Notify>),
    Try(Box<Attempt>, Arc<Notify>),
}

impl Table {
    pub(super) async fn drive(self: Arc<Self>, key: SlotKey) {
        let mut watch: Option<Watch> = None;
        loop {
            match self.step(&key) {
                Step::Done => return,
                Step::Local(changed) => changed.notified().await,
                Step::Try(attempt, changed) => {
                    let (hub, channel) = self.channel_of(&attempt);
                    if let Some(left) = self.try_for(*attempt).await {
                        let watch = watch.get_or_insert_with(|| hub.watch(channel, Some(key.1.clone())));
                        self.until_worth_a_try(&key, watch, left, &changed).await;
                    }
                }
            }
        }
    }

    fn step(self: &Arc<Self>, key: &SlotKey) -> Step {
        let mut state = self.state();
        let Some(slot) = state.slots.get_mut(key) else { return Step::Done };
        slot.contended = false;
        slot.queue.retain(|entry| !entry.answer.is_closed());
        if slot.queue.is_empty() {
            slot.driven = false;
            Self::sweep(&mut state, key);
            return Step::Done;
        }
        let changed = Arc::clone(&slot.changed);
        if slot.busy != Busy::No || slot.hold.is_some() {
            return Step::Local(changed);
        }
        match self.attempt_of(key, slot) {
            Some(attempt) => {
                slot.busy = Busy::Attempt;
                Step::Try(Box::new(attempt), changed)
            }
            None => Step::Local(changed),
        }
    }

    /// Waits until another try may succeed, or nobody waits any more.
    async fn until_worth_a_try(&self, key: &SlotKey, watch: &mut Watch, left: Duration, changed: &Notify) {
        let until = self.now() + left.min(Duration::from_secs(3600));
        loop {
            tokio::select! {
                _ = watch.wake() => return,
                () = self.core.clock.sleep_until(until) => return,
                () = changed.notified() => if self.nobody_waits(key) { return },
            }
        }
    }

    fn nobody_waits(&self, key: &SlotKey) -> bool {
        let state = self.state();
        state.slots.get(key).is_none_or(|slot| slot.queue.iter().all(|entry| entry.answer.is_closed()))
    }

    fn channel_of(&self, attempt: &Attempt) -> (Arc<Hub>, Bytes) {
        (Arc::clone(&attempt.place.hub), attempt.target.channel.clone())
    }
}
