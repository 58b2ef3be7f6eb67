//! Looking again and again at something that is told of by messages: when there is a reason to.

use std::time::Duration;

use redgrid_core::Watch;
use redgrid_core::clock::Clock;

/// The reasons to look. One that was not followed, because its follower was dropped, is there still.
pub(crate) struct Looks {
    watch: Option<Watch>,
    /// A second channel, of another kind under the same name.
    beside: Option<Watch>,
    due: bool,
    messages: u64,
}

impl Looks {
    /// The first look is due at once.
    pub(crate) fn new(watch: Option<Watch>) -> Self {
        Looks { watch, beside: None, due: true, messages: 0 }
    }

    /// The same with a second channel.
    pub(crate) fn beside(self, beside: Option<Watch>) -> Self {
        Looks { beside, ..self }
    }

    /// Completes when there is a reason to look: something was told, or `within` is over.
    pub(crate) async fn next(&mut self, clock: &Clock, within: Duration) {
        if self.due {
            return;
        }
        let later = clock.sleep_until(clock.now() + within);
        tokio::select! {
            messages = told(&mut self.watch) => self.messages += messages,
            messages = told(&mut self.beside) => self.messages += messages,
            () = later => {}
        }
        self.due = true;
    }

    /// The look was taken: how many messages came before it.
    pub(crate) fn taken(&mut self) -> u64 {
        self.due = false;
        std::mem::take(&mut self.messages)
    }

    /// Whether messages come in.
    pub(crate) fn hears(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_active)
    }
}

/// How many messages came, as soon as there is one.
async fn told(watch: &mut Option<Watch>) -> u64 {
    match watch {
        Some(watch) => watch.wake().await.messages,
        None => std::future::pending().await,
    }
}
