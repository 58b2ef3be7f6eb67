//! Decides when a state is polled again: when a message announces a change, or after an interval.
//!
//! Each observer has its own interval and its own last seen state, so observers share no poll. A
//! [`Watch`] counts messages: an observer that is not polled stores none.

use std::time::Duration;

use redgrid_core::Watch;
use redgrid_core::clock::Clock;

/// The triggers of a poll.
///
/// A due poll stays due until it is completed, even if the future that was to make it is dropped.
pub(crate) struct ChangeListener {
    watch: Option<Watch>,
    second_watch: Option<Watch>,
    due: bool,
    messages: u64,
}

impl ChangeListener {
    /// Creates a listener to up to two channels. The first poll is due at once.
    pub(crate) fn new(watches: impl IntoIterator<Item = Watch>) -> Self {
        let mut watches = watches.into_iter();
        ChangeListener { watch: watches.next(), second_watch: watches.next(), due: true, messages: 0 }
    }

    /// Completes when a poll is due: a subscription woke the listener, or `interval` has passed.
    pub(crate) async fn poll_due(&mut self, clock: &Clock, interval: Duration) {
        if self.due {
            return;
        }
        let elapsed = clock.sleep_until(clock.now() + interval);
        tokio::select! {
            messages = next_messages(&mut self.watch) => self.messages += messages,
            messages = next_messages(&mut self.second_watch) => self.messages += messages,
            () = elapsed => {}
        }
        self.due = true;
    }

    /// Records a completed poll. Returns the number of messages since the one before.
    pub(crate) fn complete_poll(&mut self) -> u64 {
        self.due = false;
        std::mem::take(&mut self.messages)
    }

    /// Returns whether the subscription of the first channel is active.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_active)
    }
}

/// Waits for the next wake-up and returns its number of messages.
async fn next_messages(watch: &mut Option<Watch>) -> u64 {
    match watch {
        Some(watch) => watch.wake().await.messages,
        None => std::future::pending().await,
    }
}
