//! Decides when a state is polled again: when a message announces a change, or after an interval.

use std::time::Duration;

use redgrid_core::Watch;
use redgrid_core::clock::Clock;

/// The triggers of a poll.
///
/// A due poll stays due until it is completed, even if the future that was to make it is dropped.
pub(crate) struct ChangeListener {
    watch: Option<Watch>,
    /// A second channel, for another lock kind under the same name.
    second_watch: Option<Watch>,
    due: bool,
    messages: u64,
}

impl ChangeListener {
    /// Creates a listener. The first poll is due at once.
    pub(crate) fn new(watch: Option<Watch>) -> Self {
        ChangeListener { watch, second_watch: None, due: true, messages: 0 }
    }

    /// Adds a second channel.
    pub(crate) fn with_second_watch(self, second_watch: Option<Watch>) -> Self {
        ChangeListener { second_watch, ..self }
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

    /// Returns whether the subscription is active. The second channel does not count.
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
